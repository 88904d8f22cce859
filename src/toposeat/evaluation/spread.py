"""The machine as it might be: every number moved within its spread."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from toposeat.evaluation.network import NetworkArrays, network_arrays
from toposeat.evaluation.route_numbers import device_routes
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import CurvePoint, Device, Link, Route, RouteCurve, Topology

STATED_SPREAD = 0.10  # of numbers whose spread nobody recorded
SPREAD_KEY = "measured_spread"  # in `Topology.metadata`: of measured numbers without their own
_MOST = 0.9  # no number is drawn below a tenth of itself


class SpreadMachine:
    """Draws machines whose capacities, limits of pairs and latencies differ by their spread.

    A number x with spread s becomes x times a factor that is uniform in [1 - s, 1 + s], every
    direction of a link, combined capacity, cap and latency on its own; the points of a curve by
    message size move together, by the spreads of their route's cap and latency. A number's spread
    is its own, if it has one; else, of a measured number, what the topology's metadata says under
    `measured_spread`; else `STATED_SPREAD`. `middle` is the machine as it stands, `recorded` the
    least and largest recorded spread that is used (None: none is recorded), and `assumed` whether
    `STATED_SPREAD` is used as well.
    """

    def __init__(self, topology: Topology) -> None:
        self.middle = network_arrays(topology)
        self._of_machine = _recorded_spread(topology)
        self._recorded: list[float] = []
        self.assumed = False
        used = set(self.middle.use_link.tolist())
        links = [link if k in used else None for k, link in enumerate(topology.links)]
        self._capacity = self._spreads(
            each for link in links for each in _capacities(link)
        ).reshape(-1, 3)
        self._latency = self._spreads(None if link is None else link.latency_s for link in links)
        routes = list(device_routes(topology))
        copies = iter(topology.devices)
        pairs = [next(copies) if route is None else route for route in routes]
        self._cap = self._spreads(map(_rate, pairs))
        self._stated = self._spreads(map(_wait, pairs))
        self._limit = self._spreads(_limits(routes, self.middle))
        self._curve_rate, self._curve_latency = self._curve_spreads(routes)

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
        if stated.any():
            latency = moved(arrays.stated_latency, np.where(stated, self._stated, 0))
            drawn = dataclasses.replace(drawn, stated_latency=latency)
        if not arrays.curves:
            return drawn
        one = np.ones(len(arrays.curves))
        latency, rate = moved(one, self._curve_latency), moved(one, self._curve_rate)
        return _with_curves(drawn, arrays, latency, rate)

    @property
    def recorded(self) -> tuple[float, float] | None:
        """Least and largest recorded spread of the machine's numbers."""
        return (min(self._recorded), max(self._recorded)) if self._recorded else None

    def _spreads(self, quantities: Iterable[Quantity | None]) -> NDArray[np.float64]:
        return np.array(
            [0.0 if each is None else self._spread(each, each.source) for each in quantities],
            np.float64,
        )

    def _spread(self, quantity: Quantity | None, source: Source) -> float:
        """Of a number, or of a curve from `source` whose route states none."""
        spread = None if quantity is None else quantity.spread
        if spread is None and source is Source.MEASURED:
            spread = self._of_machine
        if spread is None:
            self.assumed = True
            return STATED_SPREAD
        self._recorded.append(spread)
        return min(spread, _MOST)

    def _curve_spreads(
        self, routes: Sequence[Route | None]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of bandwidths and of latencies of each curve: the widest of the routes that have it."""
        count = len(self.middle.curves)
        rate, latency = np.zeros(count), np.zeros(count)
        for route, number in zip(routes, self.middle.curve_of_pair.tolist(), strict=True):
            if route is not None and number >= 0:
                source = self.middle.curves[number].source
                rate[number] = max(rate[number], self._spread(route.cap_bytes_per_s, source))
                latency[number] = max(latency[number], self._spread(route.latency_s, source))
        return rate, latency


def _capacities(link: Link | None) -> tuple[Quantity | None, ...]:
    if link is None:
        return None, None, None
    return link.forward_bytes_per_s, link.backward_bytes_per_s, link.combined_bytes_per_s


def _rate(pair: Route | Device) -> Quantity | None:
    """Of a pair's own limit; of a copy within a device."""
    return pair.copy_bytes_per_s if isinstance(pair, Device) else pair.cap_bytes_per_s


def _wait(pair: Route | Device) -> Quantity | None:
    return pair.copy_latency_s if isinstance(pair, Device) else pair.latency_s


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
