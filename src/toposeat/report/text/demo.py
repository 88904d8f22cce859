"""The whole story of `demo` in a few lines: what was predicted, what the clock says."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from toposeat.model.clocked import ClockedResult
from toposeat.model.evaluation import MappingResult
from toposeat.model.topology import Topology
from toposeat.report.text.bench import gain_words, interval
from toposeat.report.text.clocked import clocked_verdict
from toposeat.report.text.console import PLAIN, TextStyle, labelled, lay_out
from toposeat.report.units import clean
from toposeat.report.words import line_to_copy, verdict_words


def render_demo_text(
    machines: Sequence[tuple[Topology, MappingResult]],
    clocked: ClockedResult | None,
    style: TextStyle = PLAIN,
) -> str:
    """One line per machine and one for the clock, and where an order gains the line to copy.

    Args:
        machines: on which the program was mapped, with what was found.
        clocked: runs on emulated GPUs of the first of them; None where there were none.
        style: how text is laid out.
    """
    parts: list[RenderableType] = []
    for number, (machine, result) in enumerate(machines):
        parts.append(labelled(clean(machine.name), verdict_words(result)))
        line = line_to_copy(result, machine)
        if line:
            parts.append(Text(line, no_wrap=True, overflow="ignore"))
        if number == 0 and clocked is not None:
            parts.append(labelled("Clocked", _clocked(clocked)))
    return lay_out(parts, style)


def _clocked(result: ClockedResult) -> str:
    """`placed: emulated gain of +55 % (+54 to +56 %), predicted for these runs +56 %`."""
    order = result.orders[0]
    spread = "" if result.is_noise(order) else f" ({interval(order.gain)})"
    forecast = "" if order.predicted is None else gain_words(order.predicted)
    return f"{clocked_verdict(result)}{spread}, predicted for these runs {forecast}"
