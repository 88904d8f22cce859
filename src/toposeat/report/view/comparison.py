"""Several placements side by side, as text. Every number here is predicted."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.evaluation import Evaluation
from toposeat.model.quantity import Premises
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.report.parts import Cell, Fact, Part, Table, Words, gain_cell, sentences
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean, format_gain, format_range, format_seconds
from toposeat.report.view.loads import busiest_words, levels_and_links
from toposeat.report.view.machine import topology_sentence
from toposeat.report.view.mapping import (
    ends_of,
    fastest_words,
    figures_of,
    gain_range_words,
    range_words,
)
from toposeat.report.view.traffic import traffic_sentence


def render_comparison_text(
    evaluations: Sequence[tuple[str, Evaluation]],
    topology: Topology | None,
    traffic: Traffic,
    style: TextStyle = PLAIN,
    *,
    machine: str = "",
    metric: str = "bandwidth",
    premises: Sequence[Premises | None] = (),
    notes: Sequence[str] = (),
) -> str:
    """The verdict, what it is on and of, and a row for each placement.

    The first of the evaluations is what the others are compared with. `machine` is a name, where
    there is no topology whose devices are listed; `premises` are those of each gain.
    """
    times = [(name, each.predicted_s) for name, each in evaluations]
    base = times[0][1]
    rows: list[tuple[Words, ...]] = []
    of_default = [ends_of(each)[0] for each in premises if ends_of(each)]
    for (name, each), own in zip(evaluations, premises or [None] * len(times), strict=True):
        time, *others = (figure.form(figure.of(each)) for figure in figures_of(metric).values())
        change = format_gain(base, each.predicted_s)
        if of_default:  # seconds of no machine are told by their ends alone
            time = format_range((ends_of(own) or of_default)[own is not None], format_seconds)
            change = "0 %" if own is None else gain_range_words(own)
            others[:2] = "-", "-"
        rows.append((name, time, gain_cell(change), *others))
    header = ("predicted", "link time", "saves", "worst link", "mean link", "hop-bytes", "cost")
    words = clean(machine) if topology is None else topology_sentence(topology)
    parts: list[Part] = [
        Fact("Verdict", fastest_words(times, "link time", premises)),
        "",
        Fact("Topology", words),
        Fact("Traffic", traffic_sentence(traffic)),
        "",
        Table(header, rows, right=range(1, 7)),
        *levels_and_links(evaluations),
    ]
    if topology is not None:
        busiest = [
            (f"  {clean(name)}", busiest_words(topology, each)) for name, each in evaluations
        ]
        parts += ["Busiest link", _without_header(busiest)]
    parts.append(f"saves: of the link time of {clean(times[0][0])}; nothing was measured")
    ranges = [
        (f"  {clean(name)}", said)
        for (name, _), each in zip(evaluations, premises, strict=False)
        if each is not None and (said := range_words(each))
    ]
    if ranges:
        parts += ["Range", _without_header(ranges)]
    return lay_out([*parts, *sentences(notes)], style)


def _without_header(rows: Sequence[tuple[str, str]]) -> Part:
    shown = [(Cell(name), words) for name, words in rows]
    return Table(("", ""), shown, fold=(1,), has_header=False)
