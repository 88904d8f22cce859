"""What the tables of this folder share: the label, the cells, medians with their spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from toposeat.topology.measure import Workers
from toposeat.topology.measure.pairs import transfer

REPEATS = 9
SMALL = 16 << 10  # below it a table shows microseconds, from it on MB/s


@dataclass(frozen=True)
class Label:
    """Whether copies were emulated, which every table and row says."""

    emulated: bool

    def __str__(self) -> str:
        return "EMULATED" if self.emulated else "REAL"

    def title(self, text: str) -> None:
        """Print the head of a table."""
        print(f"\n{self}: {text}")

    def published(self, text: str) -> None:
        """Print what the paper says, below a table."""
        print(f"  published, real: {text}")


def seconds_of(
    workers: Workers, protocol: str, size: int, repeats: int = REPEATS, *, host_end: str = ""
) -> list[float]:
    """Seconds of each transfer from the first worker to the second; NaN if another way was taken.

    One more is done before them, which opens the memory.
    """
    (done,) = transfer(workers, [(0, 1)], protocol, size, repeats + 1, host_end=host_end)
    return list(done.seconds[1:]) if done.protocol == protocol else [float("nan")]


def cell(size: int, seconds: Sequence[float]) -> str:
    """Best (median) of a size: us of small messages, MB/s of large ones."""
    best, middle = min(seconds), statistics.median(seconds)
    if math.isnan(best):
        return "-"
    if size < SMALL:
        return f"{best * 1e6:.1f} ({middle * 1e6:.1f})"
    return f"{size / best / 1e6:.1f} ({size / middle / 1e6:.1f})"


def print_curves(
    workers: Workers, sizes: Sequence[int], protocols: Sequence[str], *, host_end: str = ""
) -> dict[tuple[str, int], float]:
    """A table of sizes by protocols; the best seconds of each."""
    print(f"{'bytes':>9} " + " ".join(f"{each:>20}" for each in protocols))
    found = {}
    for size in sizes:
        cells = []
        for protocol in protocols:
            times = seconds_of(workers, protocol, size, host_end=host_end)
            found[protocol, size] = min(times)
            cells.append(cell(size, times))
        print(f"{size:>9} " + " ".join(f"{each:>20}" for each in cells), flush=True)
    return found


def with_memory(workers: Workers, size: int) -> Workers:
    """The workers, with room for messages of a size."""
    workers.ask(dict.fromkeys(range(workers.count), f"size {size}"))
    return workers
