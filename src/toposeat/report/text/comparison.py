"""Placements side by side as text; the first is what others are compared with. All predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rich.console import RenderableType
from rich.text import Text

from toposeat.model.evaluation import Evaluation
from toposeat.model.premise import Premises
from toposeat.model.scale_result import ScaleEvaluation
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.report.machine_words import topology_sentence
from toposeat.report.text.console import PLAIN, TextStyle, columns, labelled, lay_out, sentences
from toposeat.report.text.scale import levels_and_links
from toposeat.report.units import clean, format_bytes, format_seconds, three_digits
from toposeat.report.words import (
    busiest_words,
    fastest_words,
    format_cost,
    range_words,
    traffic_sentence,
)

Named = Sequence[tuple[str, Evaluation | ScaleEvaluation]]


def render_comparison_text(
    evaluations: Sequence[tuple[str, Evaluation]],
    topology: Topology,
    traffic: Traffic,
    style: TextStyle = PLAIN,
    *,
    metric: str = "bandwidth",
    premises: Sequence[Premises] = (),
) -> str:
    """On a machine: `metric` is that of the cost, `premises` are those of each gain."""
    machine = labelled("Topology", topology_sentence(topology))
    parts = _table(evaluations, "link time", machine, traffic, partial(format_cost, metric))
    busiest = [(f"  {clean(name)}", busiest_words(topology, each)) for name, each in evaluations]
    parts += [Text("Busiest link"), _without_header(busiest), _relative(evaluations, "link time")]
    ranges = [
        (f"  {clean(name)}", words)
        for (name, _), each in zip(evaluations, premises, strict=False)
        if (words := range_words(each))
    ]
    if ranges:
        parts += [Text("Range"), _without_header(ranges)]
    return lay_out(parts, style)


def render_scale_comparison_text(
    evaluations: Sequence[tuple[str, ScaleEvaluation]],
    machine: str,
    traffic: Traffic,
    style: TextStyle = PLAIN,
    *,
    notes: Sequence[str] = (),
) -> str:
    """On a large machine, with its levels and busiest links."""
    parts = _table(evaluations, "time", labelled("Machine", clean(machine)), traffic, format_bytes)
    parts += [*levels_and_links(evaluations), _relative(evaluations, "time"), *sentences(notes)]
    return lay_out(parts, style)


def _table(
    evaluations: Named,
    time: str,
    machine: RenderableType,
    traffic: Traffic,
    cost: Callable[[float], str],
) -> list[RenderableType]:
    """The verdict, what it is on and of, and a row for each placement."""
    times = [(name, each.predicted_s or 0.0) for name, each in evaluations]
    base = times[0][1]
    rows = [
        (
            name,
            _known(each.predicted_s, format_seconds),
            three_digits(seconds / base if base > 0 else 1.0),
            _known(each.max_congestion_s, format_seconds),
            _known(each.mean_congestion_s, format_seconds),
            _known(each.hop_bytes, format_bytes),
            cost(each.cost),
        )
        for (name, each), (_, seconds) in zip(evaluations, times, strict=True)
    ]
    header = ("predicted", time, "relative", "worst link", "mean link", "hop-bytes", "cost")
    verdict = labelled("Verdict", fastest_words(times, time))
    of = labelled("Traffic", traffic_sentence(traffic))
    return [verdict, "", machine, of, "", columns(header, rows, right=range(1, 7))]


def _known(value: float | None, form: Callable[[float], str]) -> str:
    return "-" if value is None else form(value)


def _relative(evaluations: Named, time: str) -> Text:
    return Text(f"relative: {time} over that of {clean(evaluations[0][0])}; nothing was measured")


def _without_header(rows: Sequence[tuple[str, str]]) -> RenderableType:
    table = columns(("", ""), [(Text(name), words) for name, words in rows], fold=(1,))
    table.show_header = False
    return table
