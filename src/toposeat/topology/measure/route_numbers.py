"""Measured numbers of pairs that a topology's routes keep: curves, and both directions together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import Topology
from toposeat.topology.measure.learned import device_ids
from toposeat.topology.measure.results import PairResults

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


def both_ways_limits(
    results: PairResults, protocol: str
) -> Iterator[tuple[tuple[int, int], Quantity | None]]:
    """What each measured pair's directions reach together; None where they do not hinder."""
    both, alone = results.both_ways(protocol), results.bandwidth(protocol)
    for i, j in results.pairs():
        if not np.isnan(both[i, j]):
            hindered = both[i, j] < _HINDERED * (alone[i, j] + alone[j, i])
            yield (i, j), Quantity(float(both[i, j]), Source.MEASURED) if hindered else None
