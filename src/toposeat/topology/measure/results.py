"""Clocked transfers between pairs of GPUs, and what follows: bandwidth, latency, curves."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toposeat.model.quantity import Source
from toposeat.model.route import CopyProtocol
from toposeat.model.topology import CurvePoint, RouteCurve

PROTOCOLS = tuple(each.value for each in CopyProtocol)  # numbers 1 to 4 for the worker
LATENCY_BYTES = 8
LATENCY_SIZES = (1, LATENCY_BYTES, 64, 512, 2048)
SMALL_BYTES = 1 << 20
LARGE_BYTES = 4 << 20
BANDWIDTH_SIZES = (64 << 10, 256 << 10, SMALL_BYTES, LARGE_BYTES)
SIZES = (*LATENCY_SIZES, *BANDWIDTH_SIZES)
LARGER_SIZES = (16 << 20, 64 << 20)  # where the budget allows
_FARTHEST = 1.03  # pairs within this factor of the least bandwidth are the farthest


@dataclass(frozen=True)
class Transfers:
    """Repeated transfers of one size: seconds of each, as the receiver saw them.

    `at_once`: while the same pair copied as much the other way.
    """

    source: int
    target: int
    protocol: str
    bytes: int
    seconds: tuple[float, ...]
    at_once: bool = False

    @property
    def best(self) -> float:
        """The fastest: what the links allow when nothing else happens on the host."""
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """(median - fastest) / fastest."""
        return (statistics.median(self.seconds) - self.best) / self.best


@dataclass
class PairResults:
    """All transfers of all pairs, by (source, target, protocol, bytes).

    `both` has those of a pair's two directions at once. Matrices have shape (count, count), by
    source and target.
    """

    count: int
    of: dict[tuple[int, int, str, int], Transfers] = field(default_factory=dict)
    both: dict[tuple[int, int, str, int], Transfers] = field(default_factory=dict)

    def add(self, each: Transfers) -> None:
        """Keep a measurement, together with earlier ones of the same kind."""
        key = (each.source, each.target, each.protocol, each.bytes)
        known = self.both if each.at_once else self.of
        old = known.get(key)
        seconds = (*old.seconds, *each.seconds) if old else each.seconds
        known[key] = Transfers(*key, seconds, each.at_once)

    def best(self, protocol: str, size: int) -> NDArray[np.float64]:
        """Seconds of the fastest transfer of a size, each ordered pair; NaN where not measured."""
        values = np.full((self.count, self.count), np.nan)
        for i, j in self.pairs():
            found = self.of.get((i, j, protocol, size))
            if found:
                values[i, j] = found.best
        return values

    def bandwidth(self, protocol: str) -> NDArray[np.float64]:
        """Bytes/s of each ordered pair by the slope between two sizes; NaN where not measured.

        T = L + M / Bw: the slope leaves out what every transfer takes, whatever its size.
        """
        seconds = self.best(protocol, LARGE_BYTES) - self.best(protocol, SMALL_BYTES)
        seconds[~(seconds > 0)] = np.nan
        return (LARGE_BYTES - SMALL_BYTES) / seconds

    def both_ways(self, protocol: str) -> NDArray[np.float64]:
        """Bytes/s of each pair's two directions at once, their sum; NaN where not measured.

        It uses the median of each direction, because the fastest transfer may have run alone.
        """
        values = np.full((self.count, self.count), np.nan)
        for i, j in self.pairs():
            ways = [self.both.get((*way, protocol, LARGE_BYTES)) for way in ((i, j), (j, i))]
            found = [statistics.median(each.seconds) for each in ways if each is not None]
            if len(found) == 2:
                values[i, j] = sum(LARGE_BYTES / seconds for seconds in found)
        return values

    def both_ways_ratio(self, protocol: str) -> NDArray[np.float64]:
        """Bandwidth of both directions over that of the farthest pairs (Faraji et al. 2016)."""
        rate = self.both_ways(protocol)
        return rate / np.nanmin(rate) if not np.isnan(rate).all() else rate

    def latency(self, protocol: str) -> NDArray[np.float64]:
        """Seconds of a transfer of 8 bytes, handshake included; NaN where not measured."""
        return self.best(protocol, LATENCY_BYTES)

    def curve(self, source: int, target: int, protocol: str) -> RouteCurve | None:
        """Latency and bandwidth of a pair by message size; None where too little was measured.

        A message of M bytes that took T has, up to 2 KiB, latency T - M / Bw with the bandwidth of
        large ones, and above that bandwidth M / (T - L) with the latency L of the largest small
        one: both parts of the hybrid cost L(M) + M / Bw(M), which gives T at each measured size.
        """
        rate = float(self.bandwidth(protocol)[source, target])
        times = {
            size: found.best
            for size in (*SIZES, *LARGER_SIZES)
            if (found := self.of.get((source, target, protocol, size)))
        }
        small = [size for size in LATENCY_SIZES if size in times]
        if np.isnan(rate) or not small:
            return None
        points = [(size, max(0.0, times[size] - size / rate), rate) for size in small]
        wait = points[-1][1]
        points += [
            (size, wait, size / (times[size] - wait))
            for size in (*BANDWIDTH_SIZES, *LARGER_SIZES)
            if times.get(size, 0.0) > wait
        ]
        return RouteCurve(
            points=tuple(
                CurvePoint(message_bytes=size, latency_s=latency, bytes_per_s=bandwidth)
                for size, latency, bandwidth in points
            ),
            source=Source.MEASURED,
        )

    def latency_ratio(self, protocol: str) -> NDArray[np.float64]:
        """Latency of the farthest pairs over that of each pair, mean over 1 B to 2 KiB.

        Faraji et al. 2016, section 4: larger is nearer. Their "level 3" is here: the pairs whose
        bandwidth is within 3 % of the least.
        """
        return self._ratio(protocol, LATENCY_SIZES)

    def bandwidth_ratio(self, protocol: str) -> NDArray[np.float64]:
        """Bandwidth of each pair over that of the farthest pairs, mean over 64 KiB to 4 MiB.

        The farthest pairs are those of `latency_ratio`. The ratio is of one direction; that of both
        at once, which Faraji et al. use, is `both_ways_ratio`.
        """
        return self._ratio(protocol, BANDWIDTH_SIZES)

    def spread(self) -> float:
        """Median over all large transfers of how far the median is from the fastest."""
        found = [t.spread for t in self.of.values() if t.bytes >= SMALL_BYTES]
        return statistics.median(found) if found else float("nan")

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All ordered pairs."""
        for i in range(self.count):
            for j in range(self.count):
                if i != j:
                    yield i, j

    def _ratio(self, protocol: str, sizes: tuple[int, ...]) -> NDArray[np.float64]:
        rate = self.bandwidth(protocol)
        if np.isnan(rate).all():
            return rate
        farthest = rate <= np.nanmin(rate) * _FARTHEST
        ratios = []
        for size in sizes:
            seconds = self.best(protocol, size)
            if not np.isnan(seconds[farthest]).all():
                ratios.append(np.nanmedian(seconds[farthest]) / seconds)
        return np.mean(ratios, axis=0) if ratios else np.full_like(rate, np.nan)
