"""Measured numbers of pairs that a topology's routes keep: curves, both directions, spreads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from toposeat.evaluation.spread import SPREAD_KEY
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import Route, Topology
from toposeat.topology.measure.learned import device_ids
from toposeat.topology.measure.results import LARGE_BYTES, LATENCY_BYTES, PairResults

_HINDERED = 0.9  # both directions at once reach less than this share of what they reach alone


def with_curves(
    topology: Topology, pci: Sequence[str], results: PairResults, protocol: str
) -> Topology:
    """Latency and bandwidth by message size on every route that was measured."""
    ids = device_ids(topology, pci)
    curves = {
        (ids[i], ids[j]): results.curve(i, j, protocol) or results.curve(i, j, "staged")
        for i, j in results.pairs()
    }
    routes = [
        replace(route, curve=curves.get((route.source, route.target)) or route.curve)
        for route in topology.routes
    ]
    return replace(topology, routes=tuple(routes))


def with_both_ways(
    topology: Topology, pci: Sequence[str], results: PairResults, protocol: str
) -> Topology:
    """What a pair's two directions reach together, on routes where they hinder each other.

    Where they do not, a route states no such limit.
    """
    ids = device_ids(topology, pci)
    limits = {(ids[i], ids[j]): rate for (i, j), rate in both_ways_limits(results, protocol)}
    routes = [
        replace(route, combined_bytes_per_s=limits[route.source, route.target])
        if (route.source, route.target) in limits
        else route
        for route in topology.routes
    ]
    return replace(topology, routes=tuple(routes))


def with_spreads(
    topology: Topology, pci: Sequence[str], results: PairResults, protocol: str
) -> Topology:
    """How far repeats were apart: on the numbers of every measured route, and of the whole machine.

    A bandwidth has the spread of transfers of 4 MiB, a latency that of 8 bytes, either of the
    protocol that the route's number is of. Capacities that were concluded from several pairs have
    the machine's, which is the median over all large transfers.
    """
    number = {id: i for i, id in enumerate(device_ids(topology, pci))}
    used = results.bandwidth(protocol)

    def spread(route: Route) -> Route:
        i, j = number.get(route.source), number.get(route.target)
        if i is None or j is None or i == j:
            return route
        way = protocol if not np.isnan(used[i, j]) else "staged"
        both = [results.spread_of(*ends, way, LARGE_BYTES, at_once=True) for ends in _ways(i, j)]
        return replace(
            route,
            cap_bytes_per_s=_spread_by(
                route.cap_bytes_per_s, results.spread_of(i, j, way, LARGE_BYTES)
            ),
            latency_s=_spread_by(route.latency_s, results.spread_of(i, j, way, LATENCY_BYTES)),
            combined_bytes_per_s=_spread_by(
                route.combined_bytes_per_s, max((s for s in both if s is not None), default=None)
            ),
        )

    metadata = {name: text for name, text in topology.metadata.items() if name != SPREAD_KEY}
    if not np.isnan(typical := results.spread()):
        metadata[SPREAD_KEY] = f"{typical:.4g}"
    return replace(topology, routes=tuple(map(spread, topology.routes)), metadata=metadata)


def _ways(i: int, j: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (i, j), (j, i)


def _spread_by(number: Quantity | None, spread: float | None) -> Quantity | None:
    """A measured number with its spread; others, and where none is known, as they are."""
    if number is None or spread is None or number.source is not Source.MEASURED:
        return number
    return replace(number, spread=spread)


def both_ways_limits(
    results: PairResults, protocol: str
) -> Iterator[tuple[tuple[int, int], Quantity | None]]:
    """What each measured pair's directions reach together; None where they do not hinder."""
    both, alone = results.both_ways(protocol), results.bandwidth(protocol)
    for i, j in results.pairs():
        if not np.isnan(both[i, j]):
            hindered = both[i, j] < _HINDERED * (alone[i, j] + alone[j, i])
            yield (i, j), Quantity(float(both[i, j]), Source.MEASURED) if hindered else None
