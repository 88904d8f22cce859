"""Cost of traffic between two devices: the metrics of Faraji et al. (2017), and the hybrid one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from toposeat.errors import InputError, UsageError
from toposeat.evaluation.route_numbers import (
    dead_link,
    device_routes,
    link_capacities,
    own_copy_latency,
    own_copy_rate,
    pair_limit,
    route_cap,
    route_latency,
    walk,
)
from toposeat.model.map_options import METRICS
from toposeat.model.topology import Device, PathClass, Route, Topology

HYBRID = "hybrid"
MOST_DEVICES = 64  # of a host in `costs_within_host`; reorder/src/places.h


class PairCosts(Struct, frozen=True, kw_only=True):
    """What traffic from device i to device j costs: `per_byte`, and `per_message` if that counts.

    Both are (devices, devices) arrays in the order of `Topology.devices`; the diagonal is what
    ranks that share a device pay each other. For the hybrid metric the cost of a pair of ranks is

        messages x per_message + bytes x per_byte        [seconds]

    the sum over its messages of latency + size / bandwidth, so that every message is priced by its
    own size. For the others it is bytes x per_byte, with 1 for the nearest pair of the machine.
    """

    per_byte: NDArray[np.float64]
    per_message: NDArray[np.float64] | None = None


def pair_costs(topology: Topology, metric: str = "bandwidth") -> PairCosts:
    """Costs of a metric; see `PairCosts` and `cost_matrix`."""
    if metric != HYBRID:
        return PairCosts(per_byte=cost_matrix(topology, metric))
    latency = [
        own_copy_latency(device) if route is None else route_latency(topology, route)
        for device, route in _device_pairs(topology)
    ]
    n = len(topology.devices)
    return PairCosts(
        per_byte=1 / pair_rates(topology),
        per_message=np.array(latency, np.float64).reshape(n, n),
    )


def pair_rates(topology: Topology) -> NDArray[np.float64]:
    """Bytes per second of a single flow from device i to device j: the one rate of a pair.

    It is the smallest of the route's cap and its links' capacities in its direction, as `bandwidth`
    of `cost_matrix`. On the diagonal that of a copy within the device, infinite if not known.

    Returns:
        (devices, devices) array.
    """
    rates = [
        own_copy_rate(device) if route is None else _bandwidth(topology, route)
        for device, route in _device_pairs(topology)
    ]
    n = len(topology.devices)
    return np.array(rates, np.float64).reshape(n, n)


def _device_pairs(topology: Topology) -> Iterator[tuple[Device, Route | None]]:
    """Source and route of all ordered pairs of devices, row by row; None within a device."""
    sources = (device for device in topology.devices for _ in topology.devices)
    return zip(sources, device_routes(topology), strict=True)


def cost_matrix(topology: Topology, metric: str = "bandwidth") -> NDArray[np.float64]:
    """Cost of a byte from device i to device j, relative to the nearest pair, which costs 1.

    Each metric gives a pair a value, the higher the nearer; its cost is the highest value divided
    by its own. `bandwidth`: bytes per second of a single flow, that is the smallest of the route's
    cap and its links' capacities in its direction (a combined capacity counts whole, or half where
    a staged route uses the link in both directions). `latency`: the inverse of the route's latency.
    Of a curve by message size the best counts: the most bandwidth, the least latency. `distance`:
    with L different path classes in the machine, L for pairs of the nearest class down to 1 for the
    farthest.

    Args:
        topology: the machine; rows and columns are in the order of its `devices`.
        metric: one of `METRICS` but `hybrid`, which has two matrices (`pair_costs`).

    Returns:
        (devices, devices) array. On the diagonal the cost of a copy within the device by the same
        rule; 0 where the topology does not know it, and for `distance`.
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
        nearest = values[off_diagonal].max()
        cost[off_diagonal] = nearest / values[off_diagonal]
        cost[~off_diagonal] = nearest * _own_copies(topology, metric)
    return cost.reshape(n, n)


def costs_within_host(topology: Topology) -> list[list[int]]:
    """What a byte costs between devices of one host, in per cent of the nearest pair.

    By bandwidth, in both directions that of the slower one. Row i is of device number i + 1, and
    holds its costs to devices 0 to i. Empty where hosts differ, a number or a route is missing,
    there are too many devices, or all pairs are alike: there is nothing to choose by.
    """
    tables = []
    for host in topology.hosts:
        devices = sorted(
            (each for each in topology.devices if each.host == host), key=lambda each: each.number
        )
        if len(devices) > MOST_DEVICES or [each.number for each in devices] != [
            *range(len(devices))
        ]:
            return []
        tables.append(_triangle(topology, devices))
    table = tables[0] if tables else []
    if any(other != table for other in tables) or len({c for row in table for c in row}) < 2:
        return []
    return table


def _triangle(topology: Topology, devices: list[Device]) -> list[list[int]]:
    rates = []
    for at, device in enumerate(devices):
        routes = [
            (topology.route_of_pair.get((device.id, other.id)),
             topology.route_of_pair.get((other.id, device.id)))
            for other in devices[:at]
        ]  # fmt: skip
        try:
            rates.append(
                [min(_bandwidth(topology, route) for route in both if route) for both in routes]
            )
        except (InputError, ValueError):  # a dead link, no route at all
            return []
    nearest = max((rate for row in rates for rate in row), default=0)
    return [[round(100 * nearest / rate) for rate in row] for row in rates[1:]]


def _own_copies(topology: Topology, metric: str) -> NDArray[np.float64]:
    """Inverse value of a copy within each device: 0 where nothing is known."""
    if metric == "bandwidth":
        return 1 / np.array([own_copy_rate(each) for each in topology.devices], np.float64)
    if metric == "latency":
        return np.array([own_copy_latency(each) for each in topology.devices], np.float64)
    return np.zeros(len(topology.devices))


def _bandwidths(topology: Topology, routes: list[Route]) -> list[float]:
    return [_bandwidth(topology, route) for route in routes]


def _bandwidth(topology: Topology, route: Route) -> float:
    back = topology.route_of_pair.get((route.target, route.source))
    limits = [pair_limit(each) for each in (route, back) if each is not None]
    narrowest = min(route_cap(route), *limits)  # either may state the limit of both
    for link, is_reverse in walk(topology.link_of_id, route):
        forward, backward, combined = link_capacities(link)
        both = route.links.count(link.id)  # a staged route may use a link in both directions
        capacity = min(backward if is_reverse else forward, combined / both)
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
