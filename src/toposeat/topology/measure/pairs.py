"""Every pair of GPUs alone, in the rounds of a tournament and within a budget; copies of hosts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

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


class Copiers(Protocol):
    """Interface of the processes that copy: one for each of `count` GPUs."""

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

    Args:
        workers: one per GPU.
        flows: ordered pairs; no GPU is in two of them.
        protocol: one of `PROTOCOLS`.
        size: bytes of each transfer.
        repeats: number of transfers of each pair, one after the other.
        host_end: "source" or "target" to copy from or to host memory of that side.

    Raises:
        MeasureError: a worker failed or stopped answering.
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
    """Transfers of one pair in both directions at once: from its first to its second, and back.

    Raises:
        MeasureError: a worker failed or stopped answering.
    """
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
    advance: Callable[[int, int], None],
) -> None:
    """Measure every ordered pair alone, in the order of a tournament, within a budget.

    All pairs are visited at least once whatever the budget; the time that is left goes into repeats
    where the fastest transfers do not agree.

    Args:
        workers: one per GPU.
        protocols: some of `PROTOCOLS`.
        budget_s: seconds for the whole measurement.
        results: receives each measurement at once, and so is complete up to any interruption.
        advance: is called with the number of steps done and the number of all steps.
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
    advance: Callable[[int, int], None],
) -> None:
    """Measure every pair's two directions at once, in the order of a tournament.

    Args:
        workers: one per GPU, with memory for `LARGE_BYTES`.
        protocol: to copy with.
        results: receives each measurement at once, and so is complete up to any interruption.
        advance: is called with the number of steps done and the number of all steps.
    """
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


def measure_host(workers: Copiers, advance: Callable[[int, int], None]) -> list[HostNumbers]:
    """Bandwidth (by the slope between two sizes) and latency, both ways.

    GPUs whose driver refuses to pin host memory are left out: copies of pageable memory say what
    the driver's own staging reaches, not what the link does.

    Args:
        workers: with memory for `LARGE_BYTES`.
        advance: is called with the number of GPUs done and the number of all GPUs.

    Raises:
        MeasureError: a worker failed or stopped answering.
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
