"""Measured numbers onto a graph: caps and latencies of routes, capacities that they prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import (
    MEASURED_PORTS,
    Component,
    ComponentKind,
    Device,
    Link,
    LinkKind,
    PathClass,
    Route,
    Vendor,
)
from toposeat.topology import constants as k
from toposeat.topology.facts import BANDWIDTH, LATENCY, HostNumbers
from toposeat.topology.graph.routes import DEVICE_LINKS
from toposeat.topology.merging.draft import Draft, is_bond
from toposeat.topology.merging.numbers import (
    Matrix,
    PairTable,
    PairTables,
    best_numbers,
    peer_matrix,
    report_unmeasured,
)

# A flow this much faster than its route can be by nominal numbers takes another way: the graph
# lacks links. Below, the nominal numbers are too small.
_OTHER_WAY = 2.0
_PCIE_AT_MOST = 64e9  # bytes/s, x16 of generation 5 without overhead
_DEVICE_LINK_OF = {
    Vendor.NVIDIA: LinkKind.NVLINK,
    Vendor.AMD: LinkKind.XGMI,
    Vendor.INTEL: LinkKind.XELINK,
}


@dataclass(frozen=True, slots=True)
class HostMatrix:
    """Numbers between host memory and devices that one source states."""

    origin: str
    numbers: tuple[HostNumbers, ...]


def lay_pair_numbers(draft: Draft, matrices: Sequence[Matrix]) -> None:
    """Give routes the measured numbers of their pairs.

    A measured flow proves that the links of its route carry as much: nominal capacities below are
    raised to it. A flow that is far too fast for its route has another one, over ports.

    Args:
        draft: with peer access and staged routes.
        matrices: in order of trust, by position of the draft's devices.
    """
    place = {device.id: i for i, device in enumerate(draft.devices)}
    pairs = [
        (place[r.source], place[r.target], r)
        for r in draft.routes.values()
        if r.source in place and r.target in place
    ]
    peer = peer_matrix(len(place), [(i, j, r.peer_access) for i, j, r in pairs])
    rate = best_numbers(matrices, peer, draft.report, what=BANDWIDTH)
    both = best_numbers(matrices, peer, draft.report, what=BANDWIDTH, both_ways=True)
    latency = best_numbers(matrices, peer, draft.report, what=LATENCY)
    if matrices:
        report_unmeasured(rate, draft.report, what=BANDWIDTH)
        report_unmeasured(latency, draft.report, what=LATENCY)
    _measured_ports(draft, rate, pairs)
    tables = PairTables(rate, both, latency)
    for pair, route in draft.routes.items():
        if route.target in place:
            i, j = place[route.source], place[route.target]
            draft.routes[pair] = tables.on_route(route, i, j)
    for i, device in enumerate(draft.devices):
        draft.devices[i] = tables.on_device(device, i)
    _raise_capacities(draft)


def _raise_capacities(draft: Draft) -> None:
    raised: set[str] = set()
    for route in list(draft.routes.values()):
        cap = route.cap_bytes_per_s
        if cap is None or cap.source is Source.NOMINAL:
            continue
        for link, backward in draft.walk(route):
            capacity = link.backward_bytes_per_s if backward else link.forward_bytes_per_s
            if capacity.value < cap.value:
                draft.set_capacity(draft.links[link.id], cap, backward=backward)
                raised.add(link.id)
    if raised:
        names = ", ".join(sorted(raised)[:3])
        draft.report.append(
            f"{len(raised)} links carry more than their nominal capacity, as measured: raised"
            f" ({names}{', ...' if len(raised) > 3 else ''})"
        )


# ---- pairs that no drawn route explains


def _measured_ports(draft: Draft, rate: PairTable, pairs: Sequence[tuple[int, int, Route]]) -> None:
    """Ports of devices for pairs without a route, or with one that cannot be theirs."""
    count = len(draft.devices)
    inner = {d.id for d in draft.devices} | draft.used_by([ComponentKind.NVSWITCH])
    if any(is_bond(link, inner) for link in draft.links.values()):
        return  # the device links are known: the other pairs are only faster than assumed
    wanted = ~np.isnan(rate.values)
    np.fill_diagonal(wanted, val=False)
    for i, j, route in pairs:
        if rate.values[i, j] <= _OTHER_WAY * draft.capacity(route):
            wanted[i, j] = False
    if not draft.routes and wanted.any():
        guessed = np.isnan(rate.values)  # a pair that nobody measured, of a machine without graph
        np.fill_diagonal(guessed, val=False)
        least = float(np.nanmin(np.where(np.eye(count, dtype=bool), np.nan, rate.values)))
        _add_ports(draft, rate, wanted)
        _guess_rest(draft, guessed, least)
    elif wanted.any():
        _add_ports(draft, rate, wanted)
        most = float(np.max(rate.values, where=wanted, initial=0.0))
        draft.report.append(
            f"{int(wanted.sum())} pairs are measured at up to {most / k.GB_PER_S:.1f} GB/s, more"
            f" than {_OTHER_WAY:g} times what their PCIe path can carry: no source lists the links"
            " between them, so each device has one port for them"
        )


def _add_ports(draft: Draft, rate: PairTable, wanted: NDArray[np.bool_]) -> None:
    """One crossbar, and for each device a port as wide as the fastest flow through it."""
    host = draft.devices[0].host
    draft.components.append(
        Component(
            id=MEASURED_PORTS, kind=ComponentKind.NVSWITCH, host=host, name="links not listed"
        )
    )
    rates = np.where(wanted, rate.values, 0.0)
    ports: dict[int, Link] = {}
    for i, device in enumerate(draft.devices):
        out, into = float(rates[i].max()), float(rates[:, i].max())
        if not out and not into:
            continue
        ports[i] = _port(device, out or into, into or out)
        draft.links[ports[i].id] = ports[i]
    for i, j in np.argwhere(wanted):
        _add_port_route(draft, int(i), int(j), None)


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


def _add_port_route(draft: Draft, i: int, j: int, cap: Quantity | None) -> None:
    a, b = draft.devices[i].id, draft.devices[j].id
    before = draft.routes.get((a, b))
    draft.routes[a, b] = Route(
        source=a,
        target=b,
        links=(f"port:{a}", f"port:{b}"),
        path_class=PathClass.UNKNOWN if before is None else before.path_class,
        peer_access=None if before is None else before.peer_access,
        cap_bytes_per_s=cap,
    )


def _guess_rest(draft: Draft, missing: NDArray[np.bool_], least: float) -> None:
    """Pairs that nobody measured are as slow as the slowest that was, which is nominal."""
    added = 0
    for i, j in np.argwhere(missing):
        ids = [f"port:{draft.devices[int(e)].id}" for e in (i, j)]
        if all(id in draft.links for id in ids):
            _add_port_route(draft, int(i), int(j), Quantity(least))
            added += 1
    if added:
        draft.report.append(
            f"{added} pairs were not measured: taken to be as slow as the slowest that was,"
            f" {least / k.GB_PER_S:.1f} GB/s"
        )
    alone = [d.id for d in draft.devices if f"port:{d.id}" not in draft.links]
    if alone:
        draft.report.append(f"no number of {', '.join(alone)} was measured: it has no route")


# ---- host and device


def lay_host_numbers(draft: Draft, matrices: Sequence[HostMatrix]) -> None:
    """Give the link above each device the rate of copies from and to its near memory.

    Numbers of far memory say nothing of that link alone and are left out.
    """
    done: set[tuple[str, bool]] = set()
    far = 0
    for matrix in matrices:
        for numbers in matrix.numbers:
            device = draft.devices[numbers.device]
            if numbers.what != BANDWIDTH:
                continue
            near = device.numa_node is None or numbers.numa_node in (None, device.numa_node)
            far += not near
            link = _link_above(draft, device)
            if near and link is not None:
                _lay_host(draft, device, link, numbers, done)
    if far:
        draft.report.append(
            f"{far} host-to-device numbers are of far memory: no link of the graph is theirs alone"
        )


def _lay_host(
    draft: Draft, device: Device, link: Link, numbers: HostNumbers, done: set[tuple[str, bool]]
) -> None:
    for rate, down in ((numbers.to_device, True), (numbers.from_device, False)):
        if not rate or (device.id, down) in done:
            continue
        done.add((device.id, down))
        backward = (link.ends[0] == device.id) is down
        draft.set_capacity(draft.links[link.id], Quantity(rate, numbers.source), backward=backward)


def _link_above(draft: Draft, device: Device) -> Link | None:
    """The one link between a device and the host; None if there are several or none."""
    inner = {d.id for d in draft.devices} | draft.used_by([ComponentKind.NVSWITCH])
    above = [
        link
        for link in draft.links.values()
        if device.id in link.ends and not set(link.ends) <= inner
    ]
    return above[0] if len(above) == 1 else None
