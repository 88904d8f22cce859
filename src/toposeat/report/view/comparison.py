"""Several placements side by side, as text. Every number here is predicted."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.evaluation import Evaluation
from toposeat.model.quantity import Premises
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.report.parts import Cell, Fact, Part, Table, sentences
from toposeat.report.text import PLAIN, TextStyle, lay_out
from toposeat.report.units import clean, format_bytes, format_seconds, three_digits
from toposeat.report.view.hosts import levels_and_links
from toposeat.report.view.machine import topology_sentence
from toposeat.report.view.mapping import busiest_words, fastest_words, format_cost, range_words
from toposeat.report.view.traffic import traffic_sentence


def render_comparison_text(
    evaluations: Sequence[tuple[str, Evaluation]],
    topology: Topology | None,
    traffic: Traffic,
    style: TextStyle = PLAIN,
    *,
    machine: str = "",
    metric: str = "bandwidth",
    premises: Sequence[Premises] = (),
    notes: Sequence[str] = (),
) -> str:
    """The verdict, what it is on and of, and a row for each placement.

    The first of the evaluations is what the others are compared with. `machine` is a name, where
    there is no topology whose devices are listed; `premises` are those of each gain.
    """
    times = [(name, each.predicted_s) for name, each in evaluations]
    base = times[0][1]
    rows = [
        (
            name,
            format_seconds(each.predicted_s),
            three_digits(each.predicted_s / base if base > 0 else 1.0),
            format_seconds(each.max_congestion_s),
            format_seconds(each.mean_congestion_s),
            format_bytes(each.hop_bytes),
            format_cost(metric, each.cost),
        )
        for name, each in evaluations
    ]
    header = ("predicted", "link time", "relative", "worst link", "mean link", "hop-bytes", "cost")
    words = clean(machine) if topology is None else topology_sentence(topology)
    parts: list[Part] = [
        Fact("Verdict", fastest_words(times, "link time")),
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
    parts.append(f"relative: link time over that of {clean(times[0][0])}; nothing was measured")
    ranges = [
        (f"  {clean(name)}", said)
        for (name, _), each in zip(evaluations, premises, strict=False)
        if (said := range_words(each))
    ]
    if ranges:
        parts += ["Range", _without_header(ranges)]
    return lay_out([*parts, *sentences(notes)], style)


def _without_header(rows: Sequence[tuple[str, str]]) -> Part:
    shown = [(Cell(name), words) for name, words in rows]
    return Table(("", ""), shown, fold=(1,), has_header=False)
