"""Measured numbers that a topology's routes keep: curves by protocol, both directions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from toposeat.evaluation.route_numbers import walk
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import ComponentKind, CopyProtocol, ProtocolRoute, Route, Topology
from toposeat.topology.graph.staged_routes import ways_to_memory
from toposeat.topology.measure.learned import at_least, numbers_of
from toposeat.topology.measure.results import PROTOCOLS, PairResults
from toposeat.topology.premises import without_premises

# Where host memory may be, the likeliest first.
_MEMORY = (ComponentKind.NUMA, ComponentKind.PACKAGE, ComponentKind.HOST_BRIDGE)
_HINDERED = 0.9  # both directions at once reach less than this share of what they reach alone


def with_results(
    topology: Topology, pci: Sequence[str], results: PairResults, protocol: str
) -> Topology:
    """The machine with measured curves and combined limits on its routes.

    A route gets the curve of every measured protocol and keeps earlier measured curves of the
    others. It also gets what both directions of its pair reach together, where they hinder each
    other. Staged copies use the links to the host memory near the receiver and down from there,
    where the graph shows that way. Where every pair was measured, no assumption remains, because a
    limit that no transfer met limits none.

    Args:
        topology: whose routes take them.
        pci: bus id of each GPU of `results`.
        results: of pairs alone and of both directions.
        protocol: whose numbers become those of the routes; "staged" where a pair has no other.
    """
    number = numbers_of(topology, pci)
    limits = {name: dict(both_ways_limits(results, name)) for name in PROTOCOLS}
    kinds = {component.kind for component in topology.components}
    memory = next((kind for kind in _MEMORY if kind in kinds), ComponentKind.NUMA)
    ways = ways_to_memory(topology, memory)

    def measured(route: Route) -> Route:
        i, j = number.get(route.source), number.get(route.target)
        if i is None or j is None or i == j:
            return route
        curves = {name: results.curve(i, j, name) for name in PROTOCOLS}
        protocols = {each.protocol: each for each in route.protocols or ()}
        for name, curve in curves.items():
            if curve is not None:
                way = tuple(ways.get((route.source, route.target), ())) if name == "staged" else ()
                protocols[CopyProtocol(name)] = ProtocolRoute(
                    protocol=CopyProtocol(name),
                    curve=curve,
                    links=way or None,
                    combined_bytes_per_s=limits[name].get((i, j)),
                )
        return replace(
            route,
            curve=curves[protocol] or curves["staged"] or route.curve,
            combined_bytes_per_s=limits[protocol].get((i, j), route.combined_bytes_per_s),
            protocols=tuple(protocols[each] for each in CopyProtocol if each in protocols) or None,
        )

    routes = tuple(map(measured, topology.routes))
    machine = _carrying(replace(topology, routes=routes), results, number)
    unmeasured = np.isnan(results.bandwidth(protocol)) & np.isnan(results.bandwidth("staged"))
    np.fill_diagonal(unmeasured, val=False)
    is_whole = len(number) == len(topology.devices) and not unmeasured.any()
    return without_premises(machine) if is_whole else machine


def both_ways_limits(
    results: PairResults, protocol: str
) -> Iterator[tuple[tuple[int, int], Quantity | None]]:
    """What each measured pair's directions reach together; None where they do not hinder."""
    both, alone = results.both_ways(protocol), results.bandwidth(protocol)
    for i, j in results.pairs():
        if not np.isnan(both[i, j]):
            hindered = both[i, j] < _HINDERED * (alone[i, j] + alone[j, i])
            yield (i, j), Quantity(float(both[i, j]), Source.MEASURED) if hindered else None


def _carrying(topology: Topology, results: PairResults, number: Mapping[str, int]) -> Topology:
    """Capacities of links, raised to what flows over them were measured to reach.

    A link's capacity is learnt from one protocol, whose pairs may all be slower than the link. What
    both directions carry together, where it is assumed, is no less than both of a pair reached.
    """
    least: dict[tuple[str, bool], float] = {}
    together: dict[str, float] = {}
    both = [results.both_ways(protocol) for protocol in PROTOCOLS]
    for route in topology.routes:
        i, j = number.get(route.source), number.get(route.target)
        if i is not None and j is not None and not route.staged:
            sums = [float(each[i, j]) for each in both if not np.isnan(each[i, j])]
            for link_id in route.links:
                together[link_id] = max([together.get(link_id, 0.0), *sums])
        for way in route.protocols or ():
            taken = route if way.links is None else replace(route, links=way.links)
            for link, is_reverse in walk(topology.link_of_id, taken):
                step = (link.id, not is_reverse)
                least[step] = max(least.get(step, 0.0), way.curve.most_bytes_per_s)
    links = [
        replace(
            link,
            forward_bytes_per_s=_raised(link.forward_bytes_per_s, least.get((link.id, True))),
            backward_bytes_per_s=_raised(link.backward_bytes_per_s, least.get((link.id, False))),
            combined_bytes_per_s=link.combined_bytes_per_s
            and at_least(link.combined_bytes_per_s, together.get(link.id, 0.0)),
        )
        for link in topology.links
    ]
    return replace(topology, links=tuple(links))


def _raised(capacity: Quantity, least: float | None) -> Quantity:
    if least is None or capacity.source is not Source.MEASURED or capacity.value >= least:
        return capacity
    return replace(capacity, value=least)
