"""CPU time of calls that take turns, for solvers that are measured beside each other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """CPU milliseconds of one call over all rounds."""

    milliseconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds)

    @property
    def worst(self) -> float:
        return max(self.milliseconds)


def interleaved(
    calls: Sequence[Callable[[], object]], rounds: int, warm: bool = True
) -> list[Sample]:
    """Each call once per round, in turn, after one call that is not counted (if `warm`: not worth
    it for calls that take long).

    Time of this thread: other processes and threads on a busy machine do not count, caches and
    clock they disturb do. Solvers here have one thread.
    """
    taken: list[list[float]] = [[] for _ in calls]
    for call in calls if warm else ():
        call()
    for _ in range(rounds):
        for call, each in zip(calls, taken, strict=True):
            begin = time.thread_time_ns()
            call()
            each.append((time.thread_time_ns() - begin) / 1e6)
    return [Sample(tuple(each)) for each in taken]
