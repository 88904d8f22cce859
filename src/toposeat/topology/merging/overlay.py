"""Puts numbers of pairs on a routed machine: measured ones before nominal ones, none invented.

A program may print a dozen matrices of one machine (peer access on and off, one way and both, copy
engine and kernel, read and write). A route takes the one whose conditions are those of an MPI
program on that pair: peer access as the pair has it, one way, copy engine, written by the source.
A measured flow proves that the links of its route carry as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from toposeat.evaluation.route_numbers import walk
from toposeat.model.few import first_few
from toposeat.model.pair import BANDWIDTH, LATENCY
from toposeat.model.path_class import DEVICE_LINKS
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
from toposeat.topology.graph.rates import NCCL_TRANSPORT
from toposeat.topology.merging.bonds import is_bond
from toposeat.topology.untold import BY_PRODUCT

_ENGINES = ("", "ce", "sm")
_OPERATIONS = ("", "write", "read")
_SOURCES = (Source.USER, Source.MEASURED, Source.NOMINAL, Source.ASSUMED)
_STAGED_IS_FASTER = 0.8  # a direct copy below this share of a staged one
_DOUBT = 0.10  # two measurements further apart are reported
# A flow this much faster than its route can be by nominal numbers takes another way: the graph
# lacks links. Below, the nominal numbers are too small.
_OTHER_WAY = 2.0
_PCIE_AT_MOST = 64e9  # bytes/s, x16 of generation 5 without overhead
_DEVICE_LINK_OF = {
    Vendor.NVIDIA: LinkKind.NVLINK,
    Vendor.AMD: LinkKind.XGMI,
    Vendor.INTEL: LinkKind.XELINK,
}

Ends = tuple[str, str]  # ids of two devices; of one, for a copy within it
Rates = dict[Ends, Quantity]


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

    def pairs(self) -> list[Ends]:
        """All ordered pairs of devices."""
        return [*permutations((device.id for device in self.devices), 2)]

    def inner(self) -> set[str]:
        """Ids of devices and of the switches of device links."""
        switches = {c.id for c in self.components if c.kind is ComponentKind.NVSWITCH}
        return {d.id for d in self.devices} | switches


def _fastest(link: Link) -> float:
    return max(link.forward_bytes_per_s.value, link.backward_bytes_per_s.value)


def with_numbers(topology: Topology) -> Topology:
    """A routed machine with the numbers that its sources measured, on its routes and links."""
    machine = Numbered.of(topology)
    _lay_host_numbers(machine, topology.host_copies)
    _lay_pair_numbers(machine, topology.numbers)
    told = topology.pair_of_ends
    for ends, route in machine.routes.items():  # pairs that only numbers join are routed now
        access = told[ends].peer_access if ends in told else None
        if access is not None and route.peer_access is not access:
            machine.routes[ends] = replace(route, peer_access=access)
    return machine.topology()


def _lay_pair_numbers(machine: Numbered, matrices: Sequence[PairNumbers]) -> None:
    inferred = {x.id for x in machine.links.values() if (x.told_by or "").startswith(BY_PRODUCT)}
    access = {
        ends: route.peer_access if inferred.isdisjoint(route.links) else True
        for ends, route in machine.routes.items()
    }
    report = machine.report
    rate = _best(matrices, access, report, what=BANDWIDTH)
    without = [each for each in matrices if each.peer is False]
    of_all = _best(without, dict.fromkeys(access, False), [], what=BANDWIDTH)
    staged = {ends: quantity for ends, quantity in of_all.items() if access.get(ends)}
    both = _best(matrices, access, report, what=BANDWIDTH, both_ways=True)
    latency = _best(matrices, access, report, what=LATENCY)
    _report_slow_access(matrices, report)
    for what, found in ((BANDWIDTH, rate), (LATENCY, latency)) if matrices else ():
        missing = [ends for ends in machine.pairs() if ends not in found]
        if 0 < len(missing) < len(machine.pairs()):
            report.append(
                f"the {what} of {len(missing)} of {len(machine.pairs())} pairs was not measured:"
                " they keep the nominal one"
            )
    _measured_ports(machine, rate)
    for ends, route in machine.routes.items():
        machine.routes[ends] = replace(
            route,
            cap_bytes_per_s=rate.get(ends, route.cap_bytes_per_s),
            combined_bytes_per_s=both.get(ends, route.combined_bytes_per_s),
            ring_bytes_per_s=_ring(route, rate.get(ends)),
            staged_bytes_per_s=staged.get(ends, route.staged_bytes_per_s),
            latency_s=latency.get(ends, route.latency_s),
        )
    machine.devices = [
        replace(
            each,
            copy_bytes_per_s=rate.get((each.id, each.id), each.copy_bytes_per_s),
            copy_latency_s=latency.get((each.id, each.id), each.copy_latency_s),
        )
        for each in machine.devices
    ]
    rates = [numbers for numbers in matrices if numbers.what == BANDWIDTH]
    if rates and all(numbers.peer is False for numbers in rates):
        for ends, route in machine.routes.items():  # what they reach without staging is not known
            if route.path_class is PathClass.UNKNOWN and route.peer_access is None:
                machine.routes[ends] = replace(route, staged=True)
    _raise_capacities(machine)


def _ring(route: Route, measured: Quantity | None) -> Quantity | None:
    """A step of a ring, where the pair's rate is measured: whether NCCL stages it stays open."""
    before = route.ring_bytes_per_s
    if measured is None or before is None:
        return before
    kept = tuple(what for what in before.premises if what == NCCL_TRANSPORT)
    return replace(measured, premises=kept, source=Source.ASSUMED) if kept else measured


# ---- the number of each pair whose conditions fit it best


def _best(
    matrices: Sequence[PairNumbers],
    access: Mapping[Ends, bool | None],
    report: list[str],
    *,
    what: str,
    both_ways: bool = False,
) -> Rates:
    """Numbers by pair; `matrices` are in order of trust, `access` says who may copy directly."""
    found: Rates = {}
    unfit: dict[tuple[str, str], None] = {}
    chosen = [m for m in matrices if m.what == what and m.both_ways is both_ways]
    alone = all(each.peer is False for each in chosen)
    for matrix in sorted(chosen, key=_conditions):
        stated = _stated(matrix)
        usable = {e: v for e, v in stated.items() if _fits(matrix, e, access.get(e), alone=alone)}
        if not _between(usable) and _between(stated):
            unfit[matrix.told_by, "on" if matrix.peer else "off"] = None
        _report_doubts(matrix, found, usable, report)
        for ends, value in usable.items():
            found.setdefault(ends, Quantity(value, matrix.source))
    if not _between(found):
        report.extend(
            f"{origin}: its {what} was measured with peer access {peer}, which is not how the"
            " pairs are: left out"
            for origin, peer in unfit
        )
    return found


def _stated(matrix: PairNumbers) -> dict[Ends, float]:
    return {
        (a, b): value
        for a, row in zip(matrix.devices, matrix.values.tolist(), strict=True)
        for b, value in zip(matrix.devices, row, strict=True)
        if value > 0
    }


def _between(found: Mapping[Ends, object]) -> bool:
    return any(a != b for a, b in found)


def _conditions(numbers: PairNumbers) -> tuple[int, int, int]:
    """How near the conditions are to those of MPI, nearest first."""
    return (
        _SOURCES.index(numbers.source),
        _ENGINES.index(numbers.engine) if numbers.engine in _ENGINES else len(_ENGINES),
        _OPERATIONS.index(numbers.operation) if numbers.operation in _OPERATIONS else 9,
    )


def _fits(numbers: PairNumbers, ends: Ends, access: bool | None, *, alone: bool) -> bool:
    """Whether a pair's peer access is as it was in the measurement; within a device there is none.

    Where it is not known, numbers with peer access on are taken before those with it off; those
    with it off only if there are no others at all.
    """
    if numbers.peer is None or ends[0] == ends[1]:
        return True
    return access is not False if numbers.peer else access is False or (alone and access is None)


def _report_doubts(
    matrix: PairNumbers, taken: Rates, other: Mapping[Ends, float], report: list[str]
) -> None:
    """Say where two sources measured otherwise, unless they measured in different ways."""
    as_stated = matrix.engine or matrix.operation or matrix.peer is not None
    if matrix.source is not Source.MEASURED or as_stated:
        return
    apart = [
        abs(value / taken[ends].value - 1)
        for ends, value in other.items()
        if ends in taken and ends[0] != ends[1]
    ]
    if max(apart, default=0) > _DOUBT:
        report.append(
            f"{matrix.told_by}: the {matrix.what} of {sum(a > _DOUBT for a in apart)} pairs"
            f" differs from what another source measured, by up to {max(apart):.0%}: the other is"
            " taken"
        )


def _report_slow_access(matrices: Sequence[PairNumbers], report: list[str]) -> None:
    """Say which pairs copy faster through host memory than to each other."""
    one_way = [m for m in matrices if m.what == BANDWIDTH and not m.both_ways]
    for direct in (m for m in one_way if m.peer):
        slow = _stated(direct)
        for staged in one_way:
            if staged.peer is not False or staged.told_by != direct.told_by:
                continue
            found = [
                (fast, slow[ends])
                for ends, fast in _stated(staged).items()
                if ends[0] != ends[1] and ends in slow and fast * _STAGED_IS_FASTER > slow[ends]
            ]
            if found:
                report.append(
                    f"{direct.told_by}: {len(found)} ordered pairs copy faster through host"
                    f" memory ({max(f for f, _ in found) / k.GB_PER_S:.1f} GB/s) than directly"
                    f" ({min(s for _, s in found) / k.GB_PER_S:.1f} GB/s): peer access takes a"
                    " slow way (NCCL_P2P_LEVEL, UCX_TLS decide whether it is used)"
                )


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
        machine.report.append(
            f"{len(raised)} links carry more than their nominal capacity, as measured: raised"
            f" ({first_few(sorted(raised), 3)})"
        )


# ---- pairs that no drawn route explains


def _measured_ports(machine: Numbered, rate: Rates) -> None:
    """Ports of devices for pairs without a route, or with one that cannot be theirs."""
    inner = machine.inner()
    if any(is_bond(link, inner) for link in machine.links.values()):
        return  # the device links are known: the other pairs are only faster than assumed
    routes = machine.routes
    wanted = [
        ends
        for ends in machine.pairs()
        if ends in rate
        and not (ends in routes and rate[ends].value <= _OTHER_WAY * machine.capacity(routes[ends]))
    ]
    if not wanted:
        return
    is_bare = not routes  # a machine without graph
    _add_ports(machine, rate, wanted)
    if is_bare:
        least = min(rate[ends].value for ends in machine.pairs() if ends in rate)
        _guess_rest(machine, [ends for ends in machine.pairs() if ends not in rate], least)
        return
    most = max(rate[ends].value for ends in wanted)
    machine.report.append(
        f"{len(wanted)} pairs are measured at up to {most / k.GB_PER_S:.1f} GB/s, more"
        f" than {_OTHER_WAY:g} times what their PCIe path can carry: no source lists the links"
        " between them, so each device has one port for them"
    )


def _add_ports(machine: Numbered, rate: Rates, wanted: Sequence[Ends]) -> None:
    """One crossbar, and for each device a port as wide as the fastest flow through it."""
    host = machine.devices[0].host
    machine.components.append(
        Component(
            id=MEASURED_PORTS, kind=ComponentKind.NVSWITCH, host=host, name="links not listed"
        )
    )
    outward: dict[str, float] = {}
    inward: dict[str, float] = {}
    for a, b in wanted:
        outward[a] = max(outward.get(a, 0.0), rate[a, b].value)
        inward[b] = max(inward.get(b, 0.0), rate[a, b].value)
    for device in machine.devices:
        out, into = outward.get(device.id, 0.0), inward.get(device.id, 0.0)
        if out or into:
            port = _port(device, out or into, into or out)
            machine.links[port.id] = port
    for ends in wanted:
        _add_port_route(machine, ends, None)


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


def _add_port_route(machine: Numbered, ends: Ends, cap: Quantity | None) -> None:
    a, b = ends
    before = machine.routes.get(ends)
    machine.routes[ends] = Route(
        source=a,
        target=b,
        links=(f"port:{a}", f"port:{b}"),
        path_class=PathClass.UNKNOWN if before is None else before.path_class,
        peer_access=None if before is None else before.peer_access,
        cap_bytes_per_s=cap,
    )


def _guess_rest(machine: Numbered, missing: Sequence[Ends], least: float) -> None:
    """Take pairs that nobody measured to be as slow as the slowest measured one, as nominal."""
    alone = [d.id for d in machine.devices if f"port:{d.id}" not in machine.links]
    guessed = [ends for ends in missing if not {*ends} & {*alone}]
    for ends in guessed:
        _add_port_route(machine, ends, Quantity(least))
    if guessed:
        machine.report.append(
            f"{len(guessed)} pairs were not measured: taken to be as slow as the slowest that was,"
            f" {least / k.GB_PER_S:.1f} GB/s"
        )
    if alone:
        machine.report.append(f"no number of {', '.join(alone)} was measured: it has no route")


# ---- host and device


def _lay_host_numbers(machine: Numbered, copies: Sequence[HostNumbers]) -> None:
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
