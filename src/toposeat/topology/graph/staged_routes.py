"""Routes of pairs without peer access: up to host memory, and down to the other device.

    gpu0 -> switch -> bridge -> numa0 -> bridge -> switch -> gpu1

Both halves move at once, so siblings below one switch load its uplink in both directions: slower
than devices below different switches, as measured on A100 (11 against 20 GB/s).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toposeat import _core
from toposeat.model.quantity import Source, assumed, joined, nominal
from toposeat.model.topology import ComponentKind, Link, LinkKind, PathClass, Route, Topology
from toposeat.topology import constants as k
from toposeat.topology.premises import STAGED_RATE


def with_staged_routes(topology: Topology) -> Topology:
    """The topology with a staged route wherever peer access is known to be off.

    Pairs whose devices have no way to host memory in the graph keep the route they have. Measured
    numbers of a pair stay; the rest is nominal.
    """
    refused = [r for r in topology.routes if r.peer_access is False and not r.staged]
    ids = {device.id for device in topology.devices}
    refused = [r for r in refused if r.source in ids and r.target in ids]
    if not refused:
        return topology
    ways = ways_to_memory(topology)
    links = {link.id: link for link in topology.links}
    new = {
        (r.source, r.target): _staged(r, way, links)
        for r in refused
        if (way := ways.get((r.source, r.target)))
    }
    routes = tuple(new.get((r.source, r.target), r) for r in topology.routes)
    return replace(topology, routes=routes, premises=joined([*topology.premises, STAGED_RATE]))


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


def _staged(route: Route, way: Sequence[str], links: dict[str, Link]) -> Route:
    passed = [links[id] for id in way]
    far = any(link.kind is LinkKind.SMP for link in passed)
    fraction = k.PAIR_FRACTION[PathClass.SYS if far else PathClass.PHB]
    directions = [d for x in passed for d in (x.forward_bytes_per_s, x.backward_bytes_per_s)]
    rate = min(directions, key=lambda each: each.value)
    cap = route.cap_bytes_per_s
    measured = cap is not None and cap.source.is_of_this_machine
    latency = route.latency_s
    alone = cap if cap and measured else assumed(rate.value * fraction, STAGED_RATE, of=rate)
    return replace(
        route,
        links=tuple(way),
        staged=True,
        cap_bytes_per_s=alone,
        combined_bytes_per_s=route.combined_bytes_per_s
        or replace(
            alone,
            value=alone.value * k.STAGED_COMBINED,
            source=Source.ASSUMED if alone.premises else Source.NOMINAL,
        ),
        latency_s=latency or nominal(k.LATENCY_STAGED),
    )


def ways_to_memory(
    topology: Topology, kind: ComponentKind = ComponentKind.NUMA
) -> dict[tuple[str, str], list[str]]:
    """For each ordered pair the links from the source to the target's memory node, and down.

    Memory is taken to be at the components of one kind.
    """
    nodes = [c.id for c in topology.components if c.kind is kind]
    vertices = [
        *(d.id for d in topology.devices),
        *(c.id for c in topology.components),
        *(n.id for n in topology.nics),
    ]
    number = {id: i for i, id in enumerate(vertices)}
    devices = {d.id for d in topology.devices}
    inner = devices | {c.id for c in topology.components if c.kind is ComponentKind.NVSWITCH}
    usable = [link for link in topology.links if not set(link.ends) <= inner]
    forwards = [v not in devices for v in vertices]
    paths = _core.shortest_routes(
        len(vertices),
        [
            (
                number[link.ends[0]],
                number[link.ends[1]],
                link.latency_s.value,
                min(link.forward_bytes_per_s.value, link.backward_bytes_per_s.value),
            )
            for link in usable
        ],
        forwards,
        [number[d.id] for d in topology.devices],
        [number[node] for node in nodes],
    )
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
