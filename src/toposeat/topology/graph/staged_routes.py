"""Routes of pairs without peer access: up to host memory, and down to the other device.

    gpu0 -> switch -> bridge -> numa0 -> bridge -> switch -> gpu1

Both halves move at once, so siblings below one switch load its uplink in both directions: slower
than devices below different switches (`Family.copied_siblings`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from toposeat import _core
from toposeat.model.quantity import Premise, is_of_this_machine, nominal
from toposeat.model.topology import (
    ComponentKind,
    Device,
    Link,
    PathClass,
    Route,
    Topology,
)
from toposeat.model.transport import NCCL_IS_SET
from toposeat.topology import constants as k
from toposeat.topology.graph.rates import StagedRates
from toposeat.topology.products import has_peer_access

OVER_PCIE = frozenset((PathClass.PIX, PathClass.PXB, PathClass.PHB, PathClass.NODE, PathClass.SYS))


def with_staged_routes(topology: Topology) -> Topology:
    """The topology with a staged route wherever peer access is known to be off.

    It is off where it is told so, and over PCIe where the driver gives a product none
    (`products.has_peer_access`), unless told or measured. Pairs whose devices have no way to host
    memory in the graph keep the route they have. Measured numbers of a pair stay; the rest is what
    processors of this family reach.
    """
    devices = {device.id: device for device in topology.devices}
    measured = _measured_directly(topology)
    refused = [
        route
        for route in topology.routes
        if not route.staged and _is_refused(route, devices, measured)
    ]
    if not refused:
        return topology
    ways = ways_to_memory(topology)
    between = topology.between_sockets
    rates = StagedRates.of_machine(topology)
    switches = {c.id for c in topology.components if c.kind is ComponentKind.SWITCH}
    switched = {link.id for link in topology.links if not switches.isdisjoint(link.ends)}
    new = {
        (r.source, r.target): _staged(r, way, rates, switched, across=not between.isdisjoint(way))
        for r in refused
        if (way := ways.get((r.source, r.target)))
    }
    routes = tuple(new.get((r.source, r.target), r) for r in topology.routes)
    premises = rates.premises
    if any(route.peer_access is None for route in refused):
        premises = tuple(map(_or_direct, premises))
    return replace(topology, routes=routes, premises=_with_premises(topology, premises))


def _with_premises(topology: Topology, new: Sequence[Premise]) -> tuple[Premise, ...]:
    mine = {premise.what for premise in new}
    return (*(premise for premise in topology.premises if premise.what not in mine), *new)


def _or_direct(premise: Premise) -> Premise:
    """The share of staged copies where only the product says that they are staged."""
    source = f"{premise.source} No source states peer access: with it copies are direct."
    return replace(premise, high=max(premise.high, 1.0), source=source)


def _measured_directly(topology: Topology) -> set[tuple[str, str]]:
    """Pairs that somebody measured, and not with peer access off."""
    return {
        (each.devices[i], each.devices[j])
        for each in topology.numbers
        if each.peer is not False and each.source.is_of_this_machine
        for i, j in zip(*(each.values > 0).nonzero(), strict=True)
    }


def _is_refused(
    route: Route, devices: Mapping[str, Device], measured: Set[tuple[str, str]]
) -> bool:
    if route.source not in devices or route.target not in devices:
        return False
    if route.peer_access is not None:
        return not route.peer_access
    return (
        route.path_class in OVER_PCIE
        and not is_of_this_machine(route.cap_bytes_per_s)
        and (route.source, route.target) not in measured
        and devices[route.source].host == devices[route.target].host
        and not all(has_peer_access(devices[end].name) for end in (route.source, route.target))
    )


def with_nccl_copies(topology: Topology, direct: Set[PathClass]) -> Topology:
    """The machine with the steps of NCCL's rings as a variable of the job says.

    Args:
        topology: whose rings have what NCCL does by itself.
        direct: classes of pairs over PCIe that copy directly, if the driver lets them; the others
            are staged.
    """
    devices = {device.id for device in topology.devices}
    ways, between = ways_to_memory(topology), topology.between_sockets
    rates = StagedRates.of_machine(topology)

    def step(route: Route) -> Route:
        ends = (route.source, route.target)
        if route.staged or not devices.issuperset(ends) or route.path_class not in OVER_PCIE:
            return route
        if route.path_class in direct:
            return replace(route, ring_bytes_per_s=None)
        across = not between.isdisjoint(ways.get(ends, ()))
        return replace(route, ring_bytes_per_s=rates.of(across=across)[1])

    return replace(
        topology,
        routes=tuple(map(step, topology.routes)),
        premises=_with_premises(topology, rates.premises),
        metadata={**topology.metadata, NCCL_IS_SET: "yes"},
    )


def through_host_memory(topology: Topology) -> Topology:
    """The machine for an MPI that copies all messages between GPUs of a host through host memory.

    Routes use the links up to host memory and down from it. The MPI makes the copies, so the limits
    of the driver's staged copies do not apply. Pairs whose devices have no way to host memory in
    the graph keep their route.
    """
    host = {device.id: device.host for device in topology.devices}
    kinds = (ComponentKind.NUMA, ComponentKind.PACKAGE, ComponentKind.HOST_BRIDGE)
    ways = next(filter(None, (ways_to_memory(topology, kind) for kind in kinds)), {})

    def staged(route: Route) -> Route:
        way = ways.get((route.source, route.target))
        if way is None or host[route.source] != host[route.target]:
            return route
        return Route(
            source=route.source,
            target=route.target,
            links=tuple(way),
            path_class=route.path_class,
            peer_access=route.peer_access,
            latency_s=nominal(k.LATENCY_STAGED),
            staged=True,
        )

    return replace(topology, routes=tuple(map(staged, topology.routes)))


def _staged(
    route: Route, way: Sequence[str], rates: StagedRates, switched: Set[str], *, across: bool
) -> Route:
    """The route through host memory; `switched` are links that lead to a switch."""
    cap, both = route.cap_bytes_per_s, route.combined_bytes_per_s
    siblings = not switched.isdisjoint(link for link in way if way.count(link) > 1)
    copied, ringed = rates.of(across=across, siblings=siblings)
    if cap is not None and is_of_this_machine(cap):
        copied = ringed = cap
    return replace(
        route,
        links=tuple(way),
        staged=True,
        cap_bytes_per_s=copied,
        ring_bytes_per_s=ringed,
        combined_bytes_per_s=both
        if is_of_this_machine(both)
        else rates.both_ways(copied, siblings=siblings),
        latency_s=route.latency_s or nominal(k.LATENCY_STAGED),
    )


def paths_over(
    links: Sequence[Link],
    forwards: Mapping[str, bool],
    sources: Sequence[str],
    targets: Sequence[str],
    penalty_s: Callable[[Link], float] = lambda _: 0.0,
) -> list[list[list[int]]]:
    """The shortest path of each source to each target, as positions of links; [] where none is.

    `forwards` says of every vertex whether it passes traffic on. A link counts its latency and the
    penalty.
    """
    number = {id: i for i, id in enumerate(forwards)}
    weighed = [
        (
            number[link.ends[0]],
            number[link.ends[1]],
            link.latency_s.value + penalty_s(link),
            min(link.forward_bytes_per_s.value, link.backward_bytes_per_s.value),
        )
        for link in links
    ]
    ends = ([number[id] for id in each] for each in (sources, targets))
    return _core.shortest_routes(len(number), weighed, [*forwards.values()], *ends)


def ways_to_memory(
    topology: Topology, kind: ComponentKind = ComponentKind.NUMA
) -> dict[tuple[str, str], list[str]]:
    """For each ordered pair the links from the source to the target's memory node, and down.

    Memory is taken to be at the components of one kind.
    """
    nodes = [c.id for c in topology.components if c.kind is kind]
    devices = [d.id for d in topology.devices]
    inner = {c.id for c in topology.components if c.kind is ComponentKind.NVSWITCH}.union(devices)
    usable = [link for link in topology.links if not set(link.ends) <= inner]
    others = [*(c.id for c in topology.components), *(n.id for n in topology.nics)]
    forwards = dict.fromkeys(devices, False) | dict.fromkeys(others, True)
    paths = paths_over(usable, forwards, devices, nodes)
    named = {
        device.id: {
            node: [usable[i].id for i in path]
            for node, path in zip(nodes, row, strict=True)
            if path
        }
        for device, row in zip(topology.devices, paths, strict=True)
    }
    latency = {link.id: link.latency_s.value for link in topology.links}
    ways: dict[tuple[str, str], list[str]] = {}
    for target, down in named.items():
        if not down:
            continue
        near = min(down, key=lambda node: (sum(latency[id] for id in down[node]), node))
        for source, up in named.items():
            if source != target and near in up:
                ways[source, target] = [*up[near], *reversed(down[near])]
    return ways
