"""The machine as it might be: every number moved within its spread."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from toposeat.evaluate.network import NetworkArrays, network_arrays
from toposeat.evaluate.route_numbers import device_routes
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import CurvePoint, Route, RouteCurve, Topology

STATED_SPREAD = 0.10  # of numbers whose spread nobody recorded
SPREAD_KEY = "measured_spread"  # in `Topology.metadata`: relative, of all measured numbers


class SpreadMachine:
    """Draws machines whose capacities, limits of pairs and latencies differ by their spread.

    A number x with spread s becomes x times a factor that is uniform in [1 - s, 1 + s], every
    direction of a link, combined capacity, cap and latency on its own; the points of a curve by
    message size move together. The spread of measured numbers is what the topology's metadata says
    under `measured_spread`, if it does; of all others `STATED_SPREAD`. `middle` is the machine as
    it stands.
    """

    def __init__(self, topology: Topology) -> None:
        self.middle = network_arrays(topology)
        self.measured_spread = _recorded_spread(topology)
        links = topology.links
        self._capacity = self._spreads(
            each
            for link in links
            for each in (
                link.forward_bytes_per_s,
                link.backward_bytes_per_s,
                link.combined_bytes_per_s,
            )
        ).reshape(-1, 3)
        self._latency = self._spreads(link.latency_s for link in links)
        routes = list(device_routes(topology))
        self._cap = self._spreads(None if r is None else r.cap_bytes_per_s for r in routes)
        self._stated = self._spreads(None if r is None else r.latency_s for r in routes)
        self._limit = self._spreads(_limits(routes, self.middle))
        self._curve = np.array([self._spread(each.source) for each in self.middle.curves])

    def draw(self, generator: np.random.Generator) -> NetworkArrays:
        """One machine; the same generator state gives the same one."""
        arrays = self.middle

        def moved(values: NDArray[np.float64], spread: NDArray[np.float64]) -> NDArray[np.float64]:
            return values * (1 + spread * generator.uniform(-1, 1, values.shape))

        drawn = dataclasses.replace(
            arrays,
            capacity=moved(arrays.capacity, self._capacity),
            link_latency=moved(arrays.link_latency, self._latency),
            cap=moved(arrays.cap, self._cap),
            pair_limits=moved(arrays.pair_limits, self._limit),
        )
        stated = ~np.isnan(arrays.stated_latency)
        stated[:: arrays.devices + 1] = False  # copies within a device stay
        if stated.any():
            latency = moved(arrays.stated_latency, np.where(stated, self._stated, 0))
            drawn = dataclasses.replace(drawn, stated_latency=latency)
        if not arrays.curves:
            return drawn
        one = np.ones(len(arrays.curves))
        return _with_curves(drawn, arrays, moved(one, self._curve), moved(one, self._curve))

    def _spreads(self, quantities: Iterable[Quantity | None]) -> NDArray[np.float64]:
        sources = (None if each is None else each.source for each in quantities)
        return np.array([self._spread(source) for source in sources], np.float64)

    def _spread(self, source: Source | None) -> float:
        if source is Source.MEASURED:
            return STATED_SPREAD if self.measured_spread is None else self.measured_spread
        return STATED_SPREAD


def _limits(routes: Sequence[Route | None], arrays: NetworkArrays) -> list[Quantity | None]:
    """For each limit of a pair the first route that states it."""
    limits: list[Quantity | None] = [None] * len(arrays.pair_limits)
    for route, number in zip(routes, arrays.limit_of_pair.tolist(), strict=True):
        if route is not None and number >= 0 and limits[number] is None:
            limits[number] = route.combined_bytes_per_s
    return limits


def _with_curves(
    drawn: NetworkArrays,
    middle: NetworkArrays,
    latency_factor: NDArray[np.float64],
    rate_factor: NDArray[np.float64],
) -> NetworkArrays:
    """Curves times their factors, and the best of them for the pairs that have one."""
    cap, stated = drawn.cap.copy(), drawn.stated_latency.copy()
    has = np.flatnonzero(middle.curve_of_pair >= 0)
    number = middle.curve_of_pair[has]
    cap[has] = middle.cap[has] * rate_factor[number]
    stated[has] = middle.stated_latency[has] * latency_factor[number]
    curves = tuple(
        RouteCurve(
            points=tuple(
                CurvePoint(
                    message_bytes=point.message_bytes,
                    latency_s=point.latency_s * latency,
                    bytes_per_s=point.bytes_per_s * rate,
                )
                for point in curve.points
            ),
            source=curve.source,
        )
        for curve, latency, rate in zip(
            middle.curves, latency_factor.tolist(), rate_factor.tolist(), strict=True
        )
    )
    return dataclasses.replace(drawn, cap=cap, stated_latency=stated, curves=curves)


def _recorded_spread(topology: Topology) -> float | None:
    try:
        spread = float(topology.metadata[SPREAD_KEY])
    except (KeyError, ValueError):
        return None
    return spread if 0 <= spread < 1 else None
