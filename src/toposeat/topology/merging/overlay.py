"""Puts measured numbers on a graph: caps and latencies of routes, and capacities they prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toposeat.evaluation.route_numbers import walk
from toposeat.model.pair import BANDWIDTH, LATENCY
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import (
    MEASURED_PORTS,
    Component,
    ComponentKind,
    Device,
    HostNumbers,
    Link,
    LinkKind,
    PairNumbers,
    PathClass,
    Route,
    Topology,
    Vendor,
    with_named_premises,
)
from toposeat.topology import constants as k
from toposeat.topology.graph.routes import DEVICE_LINKS
from toposeat.topology.merging.bonds import is_bond
from toposeat.topology.merging.numbers import (
    PairTable,
    PairTables,
    best_numbers,
    peer_matrix,
    report_slow_access,
    report_unmeasured,
)
from toposeat.topology.untold import BY_PRODUCT

# A flow this much faster than its route can be by nominal numbers takes another way: the graph
# lacks links. Below, the nominal numbers are too small.
_OTHER_WAY = 2.0
_PCIE_AT_MOST = 64e9  # bytes/s, x16 of generation 5 without overhead
_DEVICE_LINK_OF = {
    Vendor.NVIDIA: LinkKind.NVLINK,
    Vendor.AMD: LinkKind.XGMI,
    Vendor.INTEL: LinkKind.XELINK,
}


@dataclass
class Numbered:
    """A routed machine whose links and routes take numbers."""

    first: Topology
    devices: list[Device]
    components: list[Component]
    links: dict[str, Link]
    routes: dict[tuple[str, str], Route]
    report: list[str]

    @classmethod
    def of(cls, topology: Topology) -> Numbered:
        """A machine that equals `topology`."""
        return cls(
            first=topology,
            devices=list(topology.devices),
            components=list(topology.components),
            links=dict(topology.link_of_id),
            routes=dict(topology.route_of_pair),
            report=list(topology.report),
        )

    def topology(self) -> Topology:
        """The machine as it is now."""
        return with_named_premises(
            replace(
                self.first,
                devices=tuple(self.devices),
                components=tuple(self.components),
                links=tuple(self.links.values()),
                routes=tuple(self.routes.values()),
                report=tuple(dict.fromkeys(self.report)),
            )
        )

    def capacity(self, route: Route) -> float:
        """The narrowest link of a route in its direction, bytes/s."""
        return min(
            (link.backward_bytes_per_s if backward else link.forward_bytes_per_s).value
            for link, backward in walk(self.links, route)
        )

    def set_capacity(self, link: Link, rate: Quantity, *, backward: bool) -> None:
        """Give one direction another capacity; the limit on both together changes in proportion."""
        if backward:
            link = replace(link, backward_bytes_per_s=rate)
        else:
            link = replace(link, forward_bytes_per_s=rate)
        first = self.first.link_of_id.get(link.id, link)
        combined = first.combined_bytes_per_s
        if combined is not None and _fastest(first) not in (0, _fastest(link)):
            both = combined.value * _fastest(link) / _fastest(first)
            named = {*combined.premises} - {*first.forward_bytes_per_s.premises}
            combined = Quantity(  # even where it was measured: with other capacities
                both, Source.ASSUMED if named else Source.NOMINAL, premises=tuple(sorted(named))
            )
        self.links[link.id] = replace(link, combined_bytes_per_s=combined)

    def inner(self) -> set[str]:
        """Ids of devices and of the switches of device links."""
        switches = {c.id for c in self.components if c.kind is ComponentKind.NVSWITCH}
        return {d.id for d in self.devices} | switches


def _fastest(link: Link) -> float:
    return max(link.forward_bytes_per_s.value, link.backward_bytes_per_s.value)


def with_numbers(topology: Topology) -> Topology:
    """A routed machine with the numbers that its sources measured on its routes and links."""
    machine = Numbered.of(topology)
    order = [device.id for device in machine.devices]
    lay_host_numbers(machine, topology.host_copies)
    lay_pair_numbers(machine, [each.of(order) for each in topology.numbers])
    told = topology.pair_of_ends
    for ends, route in machine.routes.items():  # pairs that only numbers join are routed now
        access = told[ends].peer_access if ends in told else None
        if access is not None and route.peer_access is not access:
            machine.routes[ends] = replace(route, peer_access=access)
    return machine.topology()


def lay_pair_numbers(machine: Numbered, matrices: Sequence[PairNumbers]) -> None:
    """Give routes the measured numbers of their pairs.

    A measured flow proves that the links of its route carry as much: nominal capacities below are
    raised to it. A flow that is far too fast for its route has another one, over ports.

    Args:
        machine: with peer access and staged routes.
        matrices: in order of trust, by position of the machine's devices.
    """
    place = {device.id: i for i, device in enumerate(machine.devices)}
    pairs = [
        (place[r.source], place[r.target], r)
        for r in machine.routes.values()
        if r.source in place and r.target in place
    ]
    inferred = {x.id for x in machine.links.values() if (x.told_by or "").startswith(BY_PRODUCT)}
    peer = peer_matrix(
        len(place),
        [(i, j, r.peer_access if inferred.isdisjoint(r.links) else True) for i, j, r in pairs],
    )
    rate = best_numbers(matrices, peer, machine.report, what=BANDWIDTH)
    both = best_numbers(matrices, peer, machine.report, what=BANDWIDTH, both_ways=True)
    latency = best_numbers(matrices, peer, machine.report, what=LATENCY)
    report_slow_access(matrices, machine.report)
    if matrices:
        report_unmeasured(rate, machine.report, what=BANDWIDTH)
        report_unmeasured(latency, machine.report, what=LATENCY)
    _measured_ports(machine, rate, pairs)
    tables = PairTables(rate, both, latency)
    for pair, route in machine.routes.items():
        if route.target in place:
            i, j = place[route.source], place[route.target]
            machine.routes[pair] = tables.on_route(route, i, j)
    for i, device in enumerate(machine.devices):
        machine.devices[i] = tables.on_device(device, i)
    rates = [numbers for numbers in matrices if numbers.what == BANDWIDTH]
    if rates and all(numbers.peer is False for numbers in rates):
        for pair, route in machine.routes.items():  # what they reach without staging is not known
            if route.path_class is PathClass.UNKNOWN and route.peer_access is None:
                machine.routes[pair] = replace(route, staged=True)
    _raise_capacities(machine)


def _raise_capacities(machine: Numbered) -> None:
    raised: set[str] = set()
    for route in list(machine.routes.values()):
        cap = route.cap_bytes_per_s
        if cap is None or not cap.source.is_of_this_machine:
            continue
        for link, backward in walk(machine.links, route):
            capacity = link.backward_bytes_per_s if backward else link.forward_bytes_per_s
            if capacity.value < cap.value:
                machine.set_capacity(machine.links[link.id], cap, backward=backward)
                raised.add(link.id)
    if raised:
        names = ", ".join(sorted(raised)[:3])
        machine.report.append(
            f"{len(raised)} links carry more than their nominal capacity, as measured: raised"
            f" ({names}{', ...' if len(raised) > 3 else ''})"
        )


# ---- pairs that no drawn route explains


def _measured_ports(
    machine: Numbered, rate: PairTable, pairs: Sequence[tuple[int, int, Route]]
) -> None:
    """Ports of devices for pairs without a route, or with one that cannot be theirs."""
    count = len(machine.devices)
    inner = machine.inner()
    if any(is_bond(link, inner) for link in machine.links.values()):
        return  # the device links are known: the other pairs are only faster than assumed
    wanted = ~np.isnan(rate.values)
    np.fill_diagonal(wanted, val=False)
    for i, j, route in pairs:
        if rate.values[i, j] <= _OTHER_WAY * machine.capacity(route):
            wanted[i, j] = False
    if not machine.routes and wanted.any():
        guessed = np.isnan(rate.values)  # a pair that nobody measured, of a machine without graph
        np.fill_diagonal(guessed, val=False)
        least = float(np.nanmin(np.where(np.eye(count, dtype=bool), np.nan, rate.values)))
        _add_ports(machine, rate, wanted)
        _guess_rest(machine, guessed, least)
    elif wanted.any():
        _add_ports(machine, rate, wanted)
        most = float(np.max(rate.values, where=wanted, initial=0.0))
        machine.report.append(
            f"{int(wanted.sum())} pairs are measured at up to {most / k.GB_PER_S:.1f} GB/s, more"
            f" than {_OTHER_WAY:g} times what their PCIe path can carry: no source lists the links"
            " between them, so each device has one port for them"
        )


def _add_ports(machine: Numbered, rate: PairTable, wanted: NDArray[np.bool_]) -> None:
    """One crossbar, and for each device a port as wide as the fastest flow through it."""
    host = machine.devices[0].host
    machine.components.append(
        Component(
            id=MEASURED_PORTS, kind=ComponentKind.NVSWITCH, host=host, name="links not listed"
        )
    )
    rates = np.where(wanted, rate.values, 0.0)
    ports: dict[int, Link] = {}
    for i, device in enumerate(machine.devices):
        out, into = float(rates[i].max()), float(rates[:, i].max())
        if not out and not into:
            continue
        ports[i] = _port(device, out or into, into or out)
        machine.links[ports[i].id] = ports[i]
    for i, j in np.argwhere(wanted):
        _add_port_route(machine, int(i), int(j), None)


def _port(device: Device, out: float, into: float) -> Link:
    fast = max(out, into) > _PCIE_AT_MOST
    kind = _DEVICE_LINK_OF.get(device.vendor, LinkKind.PCIE) if fast else LinkKind.PCIE
    return Link(
        id=f"port:{device.id}",
        kind=kind,
        ends=(device.id, MEASURED_PORTS),
        forward_bytes_per_s=Quantity(out, Source.MEASURED),
        backward_bytes_per_s=Quantity(into, Source.MEASURED),
        latency_s=Quantity(
            k.LATENCY_NVSWITCH_PORT if kind in DEVICE_LINKS else k.LATENCY_PCIE_ENDPOINT
        ),
        name="port as fast as measured",
    )


def _add_port_route(machine: Numbered, i: int, j: int, cap: Quantity | None) -> None:
    a, b = machine.devices[i].id, machine.devices[j].id
    before = machine.routes.get((a, b))
    machine.routes[a, b] = Route(
        source=a,
        target=b,
        links=(f"port:{a}", f"port:{b}"),
        path_class=PathClass.UNKNOWN if before is None else before.path_class,
        peer_access=None if before is None else before.peer_access,
        cap_bytes_per_s=cap,
    )


def _guess_rest(machine: Numbered, missing: NDArray[np.bool_], least: float) -> None:
    """Take pairs that nobody measured to be as slow as the slowest measured one, as nominal."""
    added = 0
    for i, j in np.argwhere(missing):
        ids = [f"port:{machine.devices[int(e)].id}" for e in (i, j)]
        if all(id in machine.links for id in ids):
            _add_port_route(machine, int(i), int(j), Quantity(least))
            added += 1
    if added:
        machine.report.append(
            f"{added} pairs were not measured: taken to be as slow as the slowest that was,"
            f" {least / k.GB_PER_S:.1f} GB/s"
        )
    alone = [d.id for d in machine.devices if f"port:{d.id}" not in machine.links]
    if alone:
        machine.report.append(f"no number of {', '.join(alone)} was measured: it has no route")


# ---- host and device


def lay_host_numbers(machine: Numbered, copies: Sequence[HostNumbers]) -> None:
    """Give the link above each device the rate of copies from and to its near memory.

    Numbers of far memory say nothing of that link alone and are left out.
    """
    done: set[tuple[str, bool]] = set()
    far = 0
    for numbers in copies:
        device = next(each for each in machine.devices if each.id == numbers.device)
        if numbers.what != BANDWIDTH:
            continue
        near = device.numa_node is None or numbers.numa_node in (None, device.numa_node)
        far += not near
        link = _link_above(machine, device)
        if near and link is not None:
            _lay_host(machine, device, link, numbers, done)
    if far:
        machine.report.append(
            f"{far} host-to-device numbers are of far memory: no link of the graph is theirs alone"
        )


def _lay_host(
    machine: Numbered, device: Device, link: Link, numbers: HostNumbers, done: set[tuple[str, bool]]
) -> None:
    for rate, down in ((numbers.to_device, True), (numbers.from_device, False)):
        if not rate or (device.id, down) in done:
            continue
        done.add((device.id, down))
        backward = (link.ends[0] == device.id) is down
        machine.set_capacity(
            machine.links[link.id], Quantity(rate, numbers.source), backward=backward
        )


def _link_above(machine: Numbered, device: Device) -> Link | None:
    """The one link between a device and the host; None if there are several or none."""
    inner = machine.inner()
    above = [
        link
        for link in machine.links.values()
        if device.id in link.ends and not set(link.ends) <= inner
    ]
    return above[0] if len(above) == 1 else None
