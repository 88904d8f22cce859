"""Every pair of GPUs alone, in the rounds of a tournament and within a budget; copies of hosts."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from toposeat.model.pair import BANDWIDTH, LATENCY
from toposeat.model.topology import HostNumbers
from toposeat.topology.measure.results import (
    LARGE_BYTES,
    LARGER_SIZES,
    LATENCY_BYTES,
    LATENCY_SIZES,
    PROTOCOLS,
    SIZES,
    SMALL_BYTES,
    PairResults,
    Transfers,
)

_LEAST_REPEATS = 3
_LATENCY_REPEATS = 20
_BOTH_REPEATS = 3
_HOST_REPEATS = 5
_AGREED = 0.001  # of the time: the fastest counts if the second fastest is this near
_LEAD_S = 0.02  # from the command to the common start

Advance = Callable[[int, int], None]  # is told how many steps are done, and how many there are


class Copiers(Protocol):
    """Processes that copy, one for each of `count` GPUs; with memory for `LARGE_BYTES`."""

    @property
    def count(self) -> int:
        """Number of processes."""

    def link(self, a: int, b: int) -> None:
        """Connect two processes; does nothing if they are connected."""

    def ask(self, lines: Mapping[int, str]) -> dict[int, list[str]]:
        """Send each of some processes one line; returns the words of their answers."""


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
    workers: Copiers,
    flows: Sequence[tuple[int, int]],
    protocol: str,
    size: int,
    repeats: int,
    *,
    host_end: str = "",
) -> list[Transfers]:
    """Transfers of disjoint pairs, all at once.

    No GPU is in two of the ordered pairs `flows`. Each makes `repeats` transfers of `size` bytes
    one after the other. `host_end` "source" or "target" copies from or to host memory of that side.
    """
    for source, target in flows:
        workers.link(source, target)
    start = time.clock_gettime(time.CLOCK_MONOTONIC) + _LEAD_S if len(flows) > 1 else 0.0
    number = PROTOCOLS.index(protocol) + 1
    orders = {}
    for source, target in flows:
        orders[source] = f"send {target} {size} {repeats} {start:.6f}"
        orders[target] = f"receive {source} {number} {size} {repeats} {start:.6f}"
        if host_end:
            orders[source if host_end == "source" else target] += " host"
    answers = workers.ask(orders)
    return [
        Transfers(s, t, answers[t][0], size, tuple(float(x) for x in answers[t][1:]))
        for s, t in flows
    ]


def exchange(
    workers: Copiers, pair: tuple[int, int], protocol: str, size: int, repeats: int
) -> tuple[Transfers, Transfers]:
    """Transfers of one pair in both directions at once: from its first to its second, and back."""
    a, b = pair
    rest = f"{PROTOCOLS.index(protocol) + 1} {size} {repeats}"
    answers = workers.ask({a: f"exchange {b} 1 {rest}", b: f"exchange {a} 0 {rest}"})
    there, back = (
        Transfers(s, t, answers[t][0], size, tuple(float(x) for x in answers[t][1:]), at_once=True)
        for s, t in ((a, b), (b, a))
    )
    return there, back


def measure_pairs(
    workers: Copiers,
    protocols: Sequence[str],
    budget_s: float,
    results: PairResults,
    advance: Advance,
) -> None:
    """Measure every ordered pair alone, in the order of a tournament, within a budget.

    All pairs are visited at least once whatever the budget; the time that is left goes into repeats
    where the fastest transfers do not agree.

    `results` receives each measurement at once, and so is complete up to any interruption.
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
        for size in SIZES:  # the largest last: a pair that has it is done
            repeats = _LATENCY_REPEATS if size in LATENCY_SIZES else _LEAST_REPEATS
            for found in transfer(workers, [pair], protocol, size, repeats):
                # a transfer that the protocol cannot do is staged, and recorded as staged
                results.add(found)
    deadline = begin + budget_s
    _repeat_in_doubt(workers, [(*pair, name) for pair, name in todo], deadline, results)
    _measure_larger(workers, todo, deadline, results)


def _measure_larger(
    workers: Copiers,
    todo: Sequence[tuple[tuple[int, int], str]],
    deadline: float,
    results: PairResults,
) -> None:
    """Transfers of the largest sizes: a size for all pairs, or for none if time is too short."""
    for size in LARGER_SIZES:
        rates = [results.bandwidth(name)[pair] for pair, name in todo]
        need = 2.5 * sum(size / rate for rate in rates if rate > 0)  # each twice, with a margin
        if not todo or time.monotonic() + need > deadline:
            return
        workers.ask(dict.fromkeys(range(workers.count), f"size {size}"))
        for pair, name in todo:
            for found in transfer(workers, [pair], name, size, 2):
                results.add(found)


def measure_both_ways(
    workers: Copiers,
    protocol: str,
    results: PairResults,
    advance: Advance,
) -> None:
    """Measure every pair's two directions at once, in the order of a tournament."""
    pairs = [pair for matches in tournament(workers.count) for pair in matches]
    todo = [
        pair
        for pair in pairs
        if not any(key[:2] in (pair, pair[::-1]) and key[2] == protocol for key in results.both)
    ]
    for number, pair in enumerate(todo):
        advance(number, len(todo))
        for each in exchange(workers, pair, protocol, LARGE_BYTES, _BOTH_REPEATS + 1):
            results.add(replace(each, seconds=each.seconds[1:]))  # the first opens the memory


def _repeat_in_doubt(
    workers: Copiers,
    todo: Sequence[tuple[int, int, str]],
    deadline: float,
    results: PairResults,
) -> None:
    """Repeat large transfers, those first whose fastest times agree least, until all do."""
    turns: Counter[tuple[int, int, str]] = Counter()
    while time.monotonic() < deadline:
        doubt = {key: _doubt(results, *key) / 2 ** turns[key] for key in todo}
        key = max(doubt, key=lambda each: doubt[each], default=None)
        if key is None or doubt[key] < _AGREED:
            return
        turns[key] += 1
        for size in (SMALL_BYTES, LARGE_BYTES):
            for found in transfer(workers, [key[:2]], key[2], size, 1):
                results.add(found)


def _doubt(results: PairResults, source: int, target: int, protocol: str) -> float:
    """How far the second fastest large transfer is from the fastest, as a share of it."""
    found = 0.0
    for size in (SMALL_BYTES, LARGE_BYTES):
        each = results.of.get((source, target, protocol, size))
        if each is not None:
            fastest = sorted(each.seconds)[:2]
            found = max(found, fastest[1] / fastest[0] - 1 if len(fastest) == 2 else 1.0)
    return found


def measure_host(workers: Copiers, advance: Advance) -> list[HostNumbers]:
    """Bandwidth (by the slope between two sizes) and latency, both ways.

    GPUs whose driver refuses to pin host memory are left out: copies of pageable memory say what
    the driver's own staging reaches, not what the link does.
    """
    numbers = []
    for device in range(workers.count):
        advance(device, workers.count)
        into = _host_times(workers, device, 0)
        out = _host_times(workers, device, 1)
        if into is None or out is None:
            continue
        numbers += [
            HostNumbers(
                what=BANDWIDTH,
                device=f"GPU{device}",
                to_device=_slope(into),
                from_device=_slope(out),
            ),
            HostNumbers(
                what=LATENCY,
                device=f"GPU{device}",
                to_device=into[LATENCY_BYTES],
                from_device=out[LATENCY_BYTES],
            ),
        ]
    advance(workers.count, workers.count)
    return numbers


def _host_times(workers: Copiers, device: int, direction: int) -> dict[int, float] | None:
    found = {}
    for size in (LATENCY_BYTES, SMALL_BYTES, LARGE_BYTES):
        words = workers.ask({device: f"host {direction} {size} {_HOST_REPEATS} 0"})[device]
        if words[0] != "pinned":
            return None
        found[size] = min(map(float, words[1:]))
    return found


def _slope(seconds: dict[int, float]) -> float | None:
    more = seconds[LARGE_BYTES] - seconds[SMALL_BYTES]
    return (LARGE_BYTES - SMALL_BYTES) / more if more > 0 else None


_SAME_LEVEL = 0.97  # bandwidths within this factor of each other belong to one level
_SHARED = 0.9  # all together reach less than this share of what they reach one by one
_REPEATS = 6


@dataclass(frozen=True)
class SharedLink:
    """A set of GPUs whose transfers to all others pass one bottleneck.

    Bytes/s of all of them together: out of the set, into it, both at once (the sum), and the sum of
    what the transfers of both directions reach alone.

    Without `limits`, the link carried all that the GPUs, and the links that smaller sets share,
    could deliver: it is no constraint, and its capacity is unknown.
    """

    inside: frozenset[int]
    out_bytes_per_s: float
    in_bytes_per_s: float
    both_bytes_per_s: float
    both_alone_bytes_per_s: float = float("inf")
    limits: bool = True

    @property
    def has_combined_limit(self) -> bool:
        """Whether the two directions hinder each other.

        They do not where the transfers of both directions at once reach what each of them reaches
        alone: their pairs are limited then, and the link is not full.
        """
        least = min(self.out_bytes_per_s + self.in_bytes_per_s, self.both_alone_bytes_per_s)
        return self.both_bytes_per_s < _SHARED * least


def clusters(bandwidth: NDArray[np.float64]) -> list[frozenset[int]]:
    """Sets of GPUs that are nearer to each other than to all others, the small ones first.

    `bandwidth` is of shape (n, n), bytes/s of each pair alone; NaN counts as 0.
    """
    n = len(bandwidth)
    # A disturbed measurement is too slow, never too fast: of the two directions the better counts.
    both = np.fmax(np.nan_to_num(bandwidth), np.nan_to_num(bandwidth.T))
    levels = sorted({both[i, j] for i in range(n) for j in range(i)}, reverse=True)
    found: list[frozenset[int]] = []
    for level in levels:
        reach = (both >= level * _SAME_LEVEL) | np.eye(n, dtype=bool)
        for _ in range(n.bit_length()):  # paths of twice the length each time
            reach = reach.astype(np.float32) @ reach > 0
        for inside in {frozenset(np.flatnonzero(row).tolist()) for row in reach}:
            if 1 < len(inside) < n and inside not in found and _is_compact(both, inside):
                found.append(inside)
    return sorted(found, key=lambda each: (len(each), sorted(each)))


def _is_compact(both: NDArray[np.float64], inside: frozenset[int]) -> bool:
    """Whether pairs inside are faster than pairs that cross the border, but for a few outliers."""
    outside = [i for i in range(len(both)) if i not in inside]
    slow = np.quantile([both[i, j] for i in inside for j in inside if i != j], 0.1)
    fast = np.quantile([both[i, j] for i in inside for j in outside], 0.9)
    return bool(fast < slow * _SAME_LEVEL)


def crossing_flows(inside: frozenset[int], bandwidth: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Pairs from distinct GPUs inside to distinct GPUs outside, the fastest first."""
    outside = [i for i in range(len(bandwidth)) if i not in inside]
    flows: list[tuple[int, int]] = []
    free = set(outside)
    for source in sorted(inside):
        if free:
            target = max(sorted(free), key=lambda t: np.nan_to_num(bandwidth[source, t]))
            flows.append((source, target))
            free.discard(target)
    return flows


def _together(workers: Copiers, flows: Sequence[tuple[int, int]], protocol: str) -> float:
    """Bytes/s of all flows at once: the sum of their medians, the first of each left out."""
    done = transfer(workers, flows, protocol, LARGE_BYTES, _REPEATS)
    return sum(LARGE_BYTES / statistics.median(each.seconds[1:]) for each in done)


def try_sets(
    workers: Copiers,
    bandwidth: NDArray[np.float64],
    protocol: str,
    advance: Advance,
) -> list[SharedLink]:
    """Try every cluster: do its transfers to the outside hinder each other?

    Every GPU of the set sends (receives) at the same time. More flows cannot bring more: what
    leaves the set is at most what its GPUs, and links that smaller sets share, carry.
    `bandwidth` is that of each ordered pair alone, bytes/s.
    """
    found: list[SharedLink] = []
    candidates = clusters(bandwidth)
    for number, inside in enumerate(candidates):
        advance(number, len(candidates))
        out = crossing_flows(inside, bandwidth)
        into = [(t, s) for s, t in out]
        alone_out = sum(float(bandwidth[pair]) for pair in out)
        alone_in = sum(float(bandwidth[pair]) for pair in into)
        if len(out) < 2:
            continue
        rate_out = _together(workers, out, protocol)
        rate_in = _together(workers, into, protocol)
        # every other one, so that smaller sets inside send and receive as well
        mixed = out[::2] + into[1::2]
        both = _together(workers, mixed, protocol)
        alone_both = sum(float(bandwidth[pair]) for pair in mixed)
        each = SharedLink(inside, rate_out, rate_in, both, alone_both)
        hindered = rate_out < _SHARED * alone_out or rate_in < _SHARED * alone_in
        limiting = [x for x in found if x.limits]
        found.append(replace(each, limits=hindered and not _explained(each, limiting)))
    return found


def _explained(each: SharedLink, found: Sequence[SharedLink]) -> bool:
    """Whether smaller sets that share links already make this one as slow as it is."""
    inner = [x for x in found if x.inside < each.inside]
    largest = [x for x in inner if not any(x.inside < y.inside for y in inner)]
    if frozenset().union(*(x.inside for x in largest)) != each.inside:
        return False
    out = sum(x.out_bytes_per_s for x in largest)
    into = sum(x.in_bytes_per_s for x in largest)
    return each.out_bytes_per_s > _SHARED * out and each.in_bytes_per_s > _SHARED * into
