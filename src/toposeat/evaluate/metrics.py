"""Relative cost of a byte between two devices: the three metrics of Faraji et al. (2017)."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError, UsageError
from toposeat.evaluate.network import (
    dead_link,
    device_routes,
    link_capacities,
    route_cap,
    route_latency,
    walk,
)
from toposeat.model.topology import PathClass, Route, Topology


def cost_matrix(topology: Topology, metric: str = "bandwidth") -> NDArray[np.float64]:
    """Cost of a byte from device i to device j, relative to the nearest pair, which costs 1.

    Each metric gives a pair a value, the higher the nearer; its cost is the highest value divided
    by its own. `bandwidth`: bytes per second of a single flow, that is the smallest of the route's
    cap and its links' capacities in its direction (a combined capacity counts whole). `latency`:
    the inverse of the route's latency. `distance`: with L different path classes in the machine, L
    for pairs of the nearest class down to 1 for the farthest.

    Args:
        topology: the machine; rows and columns are in the order of its `devices`.
        metric: one of `METRICS`.

    Returns:
        (devices, devices) array, zero on the diagonal.

    Raises:
        UsageError: on an unknown metric.
        InputError: if a pair has no route, no bandwidth, or (for `latency`) no latency.
    """
    value_matrix = _VALUES.get(metric)
    if value_matrix is None:
        raise UsageError(f"unknown metric {metric!r}", hint=f"known: {', '.join(METRICS)}")
    n = len(topology.devices)
    routes = list(device_routes(topology))
    values = np.full(n * n, np.inf)
    off_diagonal = np.array([route is not None for route in routes], np.bool_)
    values[off_diagonal] = value_matrix(topology, [r for r in routes if r is not None])
    cost = np.zeros(n * n)
    if off_diagonal.any():
        cost[off_diagonal] = values[off_diagonal].max() / values[off_diagonal]
    return cost.reshape(n, n)


def _bandwidths(topology: Topology, routes: list[Route]) -> list[float]:
    return [_bandwidth(topology, route) for route in routes]


def _bandwidth(topology: Topology, route: Route) -> float:
    narrowest = route_cap(route)
    for link, is_reverse in walk(topology, route):
        forward, backward, combined = link_capacities(link)
        capacity = min(backward if is_reverse else forward, combined)
        if capacity == 0:
            raise dead_link(link)
        narrowest = min(narrowest, capacity)
    return narrowest


def _inverse_latencies(topology: Topology, routes: list[Route]) -> list[float]:
    latencies = [route_latency(topology, route) for route in routes]
    for route, latency in zip(routes, latencies, strict=True):
        if latency == 0:
            raise InputError(
                f"route {route.source} -> {route.target} has no latency",
                hint="use --metric bandwidth or distance",
            )
    return [1 / latency for latency in latencies]


def _nearness(_topology: Topology, routes: list[Route]) -> list[float]:
    nearest_first = [c for c in PathClass if any(r.path_class is c for r in routes)]
    level = {path_class: k for k, path_class in enumerate(nearest_first)}
    return [float(len(level) - level[route.path_class]) for route in routes]


_VALUES: MappingProxyType[str, Callable[[Topology, list[Route]], list[float]]] = MappingProxyType(
    {"latency": _inverse_latencies, "bandwidth": _bandwidths, "distance": _nearness}
)

METRICS = tuple(_VALUES)
