"""What `benchmarks.emulated_gain` clocked, as a section of the appendix of evidence."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.machine import markdown_table

from toposeat.model.runs import ClockedPattern
from toposeat.pipeline import PatternPlan

ORDERS = ("default", "placed")


@dataclass(frozen=True, kw_only=True)
class PaperPattern:
    """Runs of one pattern with messages of 1 byte and of the size that counts.

    Attributes:
        paper: what the paper says is gained.
        plan: predicts the size that counts.
        result: its sizes are 1 byte and that one.
    """

    name: str
    paper: str
    plan: PatternPlan
    result: ClockedPattern

    def seconds(self, order: str, size: int = 1) -> list[float]:
        """Of every run of an order; `size` 0 is one byte."""
        clocked = self.result.results[size]
        if order == "default":
            return [*clocked.default_s, *clocked.again_s]
        return [s for each in clocked.orders if each.name == order for s in each.seconds]

    def predicted_s(self, order: str) -> float:
        """Link time of the default or the placed order."""
        devices = self.plan.placed if order == "placed" else self.plan.default
        (seconds,) = self.plan.predicted(devices)
        return seconds


Row = tuple[str, ...]
TIMES_HEAD = ("pattern", "order", "predicted", "one byte", "clocked", "spread", "clocked/predicted")
GAINS_HEAD = ("pattern", "predicted", "clocked", "95 % interval", "A/A", "paper")
RANDOM_HEAD = ("pattern", "random orders", "their median", "the fastest", "placed")


def time_rows(patterns: Sequence[PaperPattern]) -> Iterator[Row]:
    """One row per pattern and order."""
    for each in patterns:
        for order in ORDERS:
            times = each.seconds(order)
            middle, predicted = statistics.median(times), each.predicted_s(order)
            spread = f"{min(times) / middle - 1:+.1%} to {max(times) / middle - 1:+.1%}"
            tiny = statistics.median(each.seconds(order, 0))
            cells = (_ms(predicted), _ms(tiny), _ms(middle), spread, f"{middle / predicted:.3f}")
            yield (each.name, order, *cells)


def gain_rows(patterns: Sequence[PaperPattern]) -> Iterator[Row]:
    """One row per pattern."""
    for each in patterns:
        clocked = each.result.results[1]
        placed = clocked.orders[0]
        gain = placed.gain
        interval = "" if gain.low is None else f"{gain.low:+.1%} to {gain.high:+.1%}"
        noise = f"{clocked.control.mean:+.1%}"
        yield (
            each.name,
            f"{placed.predicted:+.1%}",
            f"{gain.mean:+.1%}",
            interval,
            noise,
            each.paper,
        )


def random_rows(patterns: Sequence[PaperPattern]) -> Iterator[Row]:
    """One row per pattern."""
    for each in patterns:
        random = each.seconds("random")
        placed = statistics.median(each.seconds("placed"))
        yield (
            each.name,
            str(len(random)),
            *map(_ms, (statistics.median(random), min(random), placed)),
        )


def section_of(head: str, where: str, patterns: Sequence[PaperPattern]) -> str:
    """What the page shows."""
    parts = ["", f"{head};\n{where}."]
    tables = (
        (TIMES_HEAD, time_rows(patterns)),
        (GAINS_HEAD, gain_rows(patterns)),
        (RANDOM_HEAD, random_rows(patterns)),
    )
    for header, rows in tables:
        parts += ["", *markdown_table(header, rows)]
    return "\n".join(parts) + "\n"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
