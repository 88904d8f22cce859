"""Checks of pairs of devices: peer access, measured rates, routes, information."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from toposeat.model.health import Finding, Severity
from toposeat.model.quantity import Source
from toposeat.model.topology import PathClass, Route, Topology
from toposeat.topology.health.pairs import Pairs, few, rate_of
from toposeat.topology.health.wiring import says_nothing

_SLOW = 0.7  # of the median of its class: published machines stay within 10 to 25 %
_LEAST_PAIRS = 6  # for a median to mean something
_ASYMMETRIC = 0.7  # one direction against the other


def peer_access(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Pairs that cannot reach each other's memory: copies go through the host."""
    off: dict[bool, list[str]] = defaultdict(list)
    part = {d.id: bool(d.parent) for d in topology.devices}
    for i, j in pairs.all:
        route = pairs.route(i, j)
        if route is None or route.peer_access is not False:
            continue
        if part[route.source] or part[route.target]:
            continue  # `partitions` says so
        off[route.path_class is PathClass.NVL].append(_pair_name(pairs, route))
    for linked, names in off.items():
        yield Finding(
            severity=Severity.FAULT if linked else Severity.DOUBT,
            code="peer-access-off",
            subject=few(names),
            detail=f"no peer access for {len(names)} pairs"
            + (" that device links join" if linked else ": their copies go through host memory"),
            hint=(
                "restart the fabric manager; nvidia-smi topo -p2p r tells the state"
                if linked
                else "PCIe access control (ACS), IOMMU, or a product whose driver has none;"
                " nvidia-smi topo -p2p r tells which"
            ),
        )


def slow_pairs(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Measured pairs far below others of the same class and the same number of links."""
    groups: dict[tuple[PathClass, int], list[tuple[Route, float]]] = defaultdict(list)
    for route in _measured(topology):
        if route.path_class is PathClass.UNKNOWN:
            continue  # some may have device links and others none
        lanes = min(topology.link_of_id[id].count for id in route.links)
        groups[route.path_class, lanes].append((route, rate_of(topology, route)))
    for (path_class, _lanes), members in groups.items():
        if len(members) < _LEAST_PAIRS:
            continue
        usual = float(np.median([rate for _, rate in members]))
        slow = [(route, rate) for route, rate in members if rate < _SLOW * usual]
        if slow:
            least = min(rate for _, rate in slow)
            yield Finding(
                severity=Severity.FAULT,
                code="pair-slow",
                subject=few(_pair_name(pairs, route) for route, _ in slow),
                detail=f"measured down to {least / 1e9:.3g} GB/s, the median of {path_class.value}"
                f" pairs is {usual / 1e9:.3g} GB/s",
                hint="measure again; then look for a degraded link on the way",
            )


def directions(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Measured pairs whose directions differ by more than machines usually do."""
    rates = {(r.source, r.target): (r, rate_of(topology, r)) for r in _measured(topology)}
    odd = [
        route
        for (a, b), (route, rate) in rates.items()
        if (b, a) in rates and rate < _ASYMMETRIC * rates[b, a][1]
    ]
    if odd:
        yield Finding(
            severity=Severity.DOUBT,
            code="direction-asymmetric",
            subject=few(_pair_name(pairs, route) for route in odd),
            detail=f"{len(odd)} measured pairs are 30 % slower in this direction than back",
            hint="measure again on an idle machine",
        )


def missing_routes(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Pairs that nothing known joins."""
    missing = [(i, j) for i, j in pairs.all if pairs.route(i, j) is None]
    if missing:
        i, j = missing[0]
        names = [pairs.name[topology.devices[k].id] for k in (i, j)]
        yield Finding(
            severity=Severity.DOUBT,
            code="route-missing",
            subject="-".join(names),
            detail=f"no route known between {len(missing)} pairs of devices",
            hint="read the machine from another source as well: discover -t A -t B",
        )


def information(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """A source that does not tell pairs apart."""
    if len(topology.devices) > 1 and says_nothing(topology, pairs):
        yield Finding(
            severity=Severity.DOUBT,
            code="information-free",
            subject="",
            detail="every pair is called alike (SYS) or unknown: the real wiring is hidden",
            hint="measure it (toposeat measure), or read the provider's NCCL topology file as well",
        )


def _measured(topology: Topology) -> Iterator[Route]:
    devices = {d.id for d in topology.devices}
    for route in topology.routes:
        cap = route.cap_bytes_per_s
        if route.target in devices and route.links and cap and cap.source is Source.MEASURED:
            yield route


def _pair_name(pairs: Pairs, route: Route) -> str:
    return f"{pairs.name[route.source]}-{pairs.name[route.target]}"
