"""Every ordered pair of GPUs alone: seconds by size and protocol, hence latency and bandwidth."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toposeat.topology.measure.workers import Workers

PROTOCOLS = ("get", "put", "cooperate", "staged")  # numbers 1 to 4 for the worker
LATENCY_BYTES = 8
SMALL_BYTES = 1 << 20
LARGE_BYTES = 4 << 20
_LEAST_REPEATS = 3
_LEAD_S = 0.02  # between the order and the common start


@dataclass(frozen=True)
class Transfers:
    """Repeated transfers of one size: seconds of each, as the receiver saw them."""

    source: int
    target: int
    protocol: str
    bytes: int
    seconds: tuple[float, ...]

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
    """All transfers of all pairs, by (source, target, protocol, bytes)."""

    count: int
    of: dict[tuple[int, int, str, int], Transfers] = field(default_factory=dict)

    def add(self, each: Transfers) -> None:
        """Keep a measurement, together with earlier ones of the same kind."""
        key = (each.source, each.target, each.protocol, each.bytes)
        old = self.of.get(key)
        seconds = (*old.seconds, *each.seconds) if old else each.seconds
        self.of[key] = Transfers(*key, seconds)

    def bandwidth(self, protocol: str) -> NDArray[np.float64]:
        """Bytes/s of each ordered pair by the slope between two sizes; NaN where not measured.

        T = L + M / Bw: the slope leaves out what every transfer takes, whatever its size.
        """
        values = np.full((self.count, self.count), np.nan)
        for i, j in self.pairs():
            small = self.of.get((i, j, protocol, SMALL_BYTES))
            large = self.of.get((i, j, protocol, LARGE_BYTES))
            if small and large and large.best > small.best:
                values[i, j] = (LARGE_BYTES - SMALL_BYTES) / (large.best - small.best)
        return values

    def latency(self, protocol: str) -> NDArray[np.float64]:
        """Seconds of a transfer of 8 bytes, handshake included; NaN where not measured."""
        values = np.full((self.count, self.count), np.nan)
        for i, j in self.pairs():
            found = self.of.get((i, j, protocol, LATENCY_BYTES))
            if found:
                values[i, j] = found.best
        return values

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


def tournament(count: int) -> list[list[tuple[int, int]]]:
    """Rounds in which every GPU meets every other once (circle method); odd counts have byes."""
    players = list(range(count)) + ([-1] if count % 2 else [])
    rounds = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        pairs = zip(players[:half], reversed(players[half:]), strict=True)
        rounds.append([(min(a, b), max(a, b)) for a, b in pairs if a >= 0 and b >= 0])
        players = [players[0], players[-1], *players[1:-1]]
    return rounds


def transfer(
    workers: Workers,
    flows: Sequence[tuple[int, int]],
    protocol: str,
    size: int,
    repeats: int,
) -> list[Transfers]:
    """Transfers of disjoint pairs, all at once.

    Raises:
        MeasureError: a worker failed or stopped answering.
    """
    for source, target in flows:
        workers.link(source, target)
    start = time.clock_gettime(time.CLOCK_MONOTONIC) + _LEAD_S
    number = PROTOCOLS.index(protocol) + 1
    orders = {}
    for source, target in flows:
        orders[source] = f"send {target} {size} {repeats} {start:.6f}"
        orders[target] = f"receive {source} {number} {size} {repeats} {start:.6f}"
    answers = workers.ask(orders)
    return [
        Transfers(s, t, answers[t][0], size, tuple(float(x) for x in answers[t][1:]))
        for s, t in flows
    ]


def measure_pairs(
    workers: Workers,
    protocols: Sequence[str],
    budget_s: float,
    results: PairResults,
    advance: Callable[[int, int], None],
) -> None:
    """Measure every ordered pair alone, in the order of a tournament, within a budget.

    All pairs are visited at least once whatever the budget; what time is left goes into repeats.

    Args:
        workers: one per GPU.
        protocols: of `PROTOCOLS`.
        budget_s: for all of it.
        results: is added to, and is complete up to any interruption.
        advance: is called with what is done and how much there is in all.
    """
    begin = time.monotonic()
    workers.ask(dict.fromkeys(range(workers.count), f"size {LARGE_BYTES}"))
    todo = [
        (pair, protocol)
        for matches in tournament(workers.count)
        for a, b in matches
        for pair in ((a, b), (b, a))
        for protocol in protocols
        if (*pair, protocol, LARGE_BYTES) not in results.of
    ]
    for number, (pair, protocol) in enumerate(todo):
        advance(number, len(todo))
        for size in (LATENCY_BYTES, SMALL_BYTES, LARGE_BYTES):
            repeats = 20 if size == LATENCY_BYTES else _LEAST_REPEATS
            for found in transfer(workers, [pair], protocol, size, repeats):
                # what could not be done as asked was staged: it is known under that name
                results.add(found)
    rounds = 0
    while todo and time.monotonic() - begin < budget_s * (rounds + 1) / (rounds + 2):
        rounds += 1
        for number, (pair, protocol) in enumerate(todo):
            advance(number, len(todo))
            for size in (SMALL_BYTES, LARGE_BYTES):
                for found in transfer(workers, [pair], protocol, size, 1):
                    results.add(found)
            if time.monotonic() - begin > budget_s:
                return
