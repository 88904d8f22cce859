"""What `benchmarks.emulated_gain` clocked, as a page of the documentation."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.machine import markdown_table

from toposeat.model.runs import ClockedPattern
from toposeat.pipeline import PatternPlan

PAGE_HEAD = """\
# Clocked gains on emulated GPUs

`make emulated-gains` clocks everything on this page again and writes it. Real MPI ranks, real
copies, **no GPU**: every copy takes the time of the links it uses, which are slowed down so that
few cores keep pace ([what that proves and what not](emulation.md)).
"""
PAGE_TIMES = """
## Time of one exchange

*Predicted* is link time by the flow model, for the slowed-down links. *One byte* is the same
exchange with messages of one byte, measured in the same runs: start-up, protocol, ranks that wait
for a core. They are not added up; *clocked / predicted* is what the prediction is off by.
"""
PAGE_GAINS = """
## Gain of the placed order

Shares of the default order's time. The 95 % interval is Student's, over paired repeats. *A/A* is
the default order against itself in the same turns: what is noise. The paper (Faraji, Mirsadeghi,
Afsahi, Parallel Computing, 2017) measured communication time on 16 real K80 GPUs; the stand-in's
links were fitted to its 2-D, 3-D weighted and collective figures
([which](papers.md)), so that this shows the path at work and is no evidence for the model.
"""
PAGE_RANDOM = """
## Random orders

Each repeat runs another random order, once. *Best* is the fastest of them all, against the median
of the placed order: never faster, if the mapping is any good.
"""


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
RANDOM_HEAD = ("pattern", "random orders", "median", "best", "placed", "best against placed")


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
        best = min(random)
        verdict = f"{best / placed - 1:+.1%}" + (" (faster)" if best < placed else " (slower)")
        cells = (str(len(random)), _ms(statistics.median(random)), _ms(best), _ms(placed))
        yield (each.name, *cells, verdict)


def markdown_of(head: str, where: str, patterns: Sequence[PaperPattern]) -> str:
    """The page."""
    parts = [PAGE_HEAD, f"{head};\n{where}."]
    tables = (
        (PAGE_TIMES, TIMES_HEAD, time_rows(patterns)),
        (PAGE_GAINS, GAINS_HEAD, gain_rows(patterns)),
        (PAGE_RANDOM, RANDOM_HEAD, random_rows(patterns)),
    )
    for section, header, rows in tables:
        parts += [section, *markdown_table(header, rows)]
    return "\n".join(parts) + "\n"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
