"""What each protocol was measured to reach, kept with the routes of a topology."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import ComponentKind, CopyProtocol, ProtocolRoute, Route, Topology
from toposeat.topology.graph.staged_routes import ways_to_memory
from toposeat.topology.measure.learned import device_ids
from toposeat.topology.measure.results import PROTOCOLS, PairResults
from toposeat.topology.measure.route_numbers import both_ways_limits

# Where host memory may be, the likeliest first.
_MEMORY = (ComponentKind.NUMA, ComponentKind.PACKAGE, ComponentKind.HOST_BRIDGE)


def with_protocols(topology: Topology, pci: Sequence[str], results: PairResults) -> Topology:
    """The curves of all protocols that were measured, on every route.

    Those of protocols that were measured earlier, and not now, stay. Staged copies use the links
    to the host memory near the receiver and down from there, where the graph shows that way.

    Args:
        topology: whose routes take them.
        pci: bus id of each GPU of `results`.
        results: of pairs alone.
    """
    ids = device_ids(topology, pci)
    kinds = {component.kind for component in topology.components}
    memory = next((kind for kind in _MEMORY if kind in kinds), ComponentKind.NUMA)
    ways = ways_to_memory(topology, memory)
    limits = {name: dict(both_ways_limits(results, name)) for name in PROTOCOLS}
    found: dict[tuple[str, str], list[ProtocolRoute]] = {}
    for i, j in results.pairs():
        pair = (ids[i], ids[j])
        for name in PROTOCOLS:
            curve = results.curve(i, j, name)
            if curve is None:
                continue
            protocol = CopyProtocol(name)
            way = tuple(ways.get(pair, ())) if protocol is CopyProtocol.STAGED else ()
            found.setdefault(pair, []).append(
                ProtocolRoute(
                    protocol=protocol,
                    curve=curve,
                    links=way or None,
                    combined_bytes_per_s=limits[name].get((i, j)),
                )
            )
    routes = [
        _with(route, found.get((route.source, route.target), [])) for route in topology.routes
    ]
    return _carrying(replace(topology, routes=tuple(routes)))


def _carrying(topology: Topology) -> Topology:
    """Measured capacities of links, raised to what a single flow over them was measured to reach.

    A link's capacity is learnt from one protocol, whose pairs may all be slower than the link.
    """
    least: dict[tuple[str, bool], float] = {}
    for route in topology.routes:
        for way in route.protocols or ():
            here = route.source
            for link_id in route.links if way.links is None else way.links:
                link = topology.link_of_id[link_id]
                forward = here == link.ends[0]
                here = link.ends[1] if forward else link.ends[0]
                rate = max(least.get((link_id, forward), 0.0), way.curve.most_bytes_per_s)
                least[link_id, forward] = rate
    links = [
        replace(
            link,
            forward_bytes_per_s=_raised(link.forward_bytes_per_s, least.get((link.id, True))),
            backward_bytes_per_s=_raised(link.backward_bytes_per_s, least.get((link.id, False))),
        )
        for link in topology.links
    ]
    return replace(topology, links=tuple(links))


def _raised(capacity: Quantity, least: float | None) -> Quantity:
    if least is None or capacity.source is not Source.MEASURED or capacity.value >= least:
        return capacity
    return replace(capacity, value=least)


def _with(route: Route, new: Sequence[ProtocolRoute]) -> Route:
    if not new:
        return route
    known = {each.protocol: each for each in (*(route.protocols or ()), *new)}
    order = [protocol for protocol in CopyProtocol if protocol in known]
    return replace(route, protocols=tuple(known[protocol] for protocol in order))
