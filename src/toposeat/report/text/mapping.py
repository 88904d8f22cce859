"""A mapping or a placement as text. Every number here is predicted."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from toposeat.model.evaluation import MappingResult
from toposeat.model.placement import Placement
from toposeat.model.topology import Topology, Vendor
from toposeat.model.traffic import Traffic
from toposeat.report.group_words import group_lines
from toposeat.report.machine_words import device_code, order_words, topology_sentence
from toposeat.report.text.console import (
    PLAIN,
    TextStyle,
    columns,
    fitting,
    height,
    labelled,
    lay_out,
    sentences,
)
from toposeat.report.units import clean, format_seconds, plural
from toposeat.report.words import (
    ROW_OF_OBJECTIVE,
    busiest_words,
    certificate_words,
    is_default_kept,
    line_to_copy,
    moved_ranks,
    moved_words,
    phase_words,
    placement_rows,
    range_words,
    run_share_words,
    table_rows,
    traffic_sentence,
    verdict_words,
)

_LINES = 13  # of the whole answer, unless all is asked for
_LEAST_WHY = 5  # of them for reasons, however long the order is
_MOST_NOTES = 2  # of them for notes


def render_mapping_text(
    result: MappingResult,
    topology: Topology,
    traffic: Traffic,
    style: TextStyle = PLAIN,
    *,
    verbose: bool = False,
) -> str:
    """What is gained, the order with the line to copy, and why, within 13 lines.

    Args:
        result: the mapping.
        topology: what it is on.
        traffic: what it is of.
        style: how text is laid out.
        verbose: also all figures, before and after, the seats and the proof's reason.
    """
    parts: list[RenderableType] = [*_answer(result, topology), ""]
    if verbose:
        parts += [*_reasons(result, topology, traffic, reasoned=True)]
        parts += [labelled("Groups", line) for line in group_lines(result, topology, traffic)]
        parts += sentences(result.notes)
        parts += [labelled("Mapping", _how(result)), "", *_seats(result, topology, style)]
        parts += ["", _before_after(result)]
    else:
        notes = fitting(sentences(result.notes), style, _MOST_NOTES)
        room = _LINES - height([*parts, *notes], style)
        parts += fitting(_reasons(result, topology, traffic), style, max(room, _LEAST_WHY))
        parts += notes
    if result.explanation is not None:
        from toposeat.report.text.explanation import explanation_parts  # noqa: PLC0415 - 7 ms

        parts += ["", *explanation_parts(result.explanation, topology)]
    return lay_out(parts, style)


def _answer(result: MappingResult, topology: Topology) -> list[RenderableType]:
    """The verdict, the order, and the line that realises it where one does."""
    parts: list[RenderableType] = [labelled("Verdict", verdict_words(result))]
    order = order_words(topology, result.device_of_rank)
    parts += [labelled("Order", f"{order} ({moved_words(result)})")]
    line = line_to_copy(result, topology)
    if line:
        parts.append(Text(line, no_wrap=True, overflow="ignore"))
    elif (
        not is_default_kept(result)
        and topology.devices[result.device_of_rank[0]].vendor is Vendor.INTEL
    ):
        parts.append(Text("(no line to copy: ZE_AFFINITY_MASK keeps Level Zero's own order)"))
    return parts


def _reasons(
    result: MappingResult, topology: Topology, traffic: Traffic, *, reasoned: bool = False
) -> list[RenderableType]:
    """Why, the most telling first; with the solver's reason where `reasoned`."""
    before, after = result.default.phases, result.placed.phases
    found = {
        "Topology": topology_sentence(topology),
        "Traffic": traffic_sentence(traffic),
        "Busiest": _busiest(result, topology),
        "Proof": certificate_words(result.certificate, result.metric, reasoned=reasoned),
        "Range": range_words(result.premises),
        "Reach": run_share_words(result, traffic),
        "Phases": phase_words(before, after) if after else None,
    }
    return [labelled(name, words) for name, words in found.items() if words]


def _how(result: MappingResult) -> str:
    metric = f", {clean(result.metric)} metric" if result.objective == "cost" else ""
    return (
        f"objective {clean(result.objective)}{metric}, solver {clean(result.solver)},"
        f" {format_seconds(result.solve_seconds)}"
    )


def _seats(result: MappingResult, topology: Topology, style: TextStyle) -> list[RenderableType]:
    """Two rows, rank over device, cut into blocks that fit the width; moved ranks stand out."""
    devices = [device_code(topology, d) for d in result.device_of_rank]
    moved = set(moved_ranks(result))
    width = max(len(str(len(devices) - 1)), *(len(d) for d in devices)) + 1
    per_line = max(1, (style.width - 9) // width)
    if per_line >= 8:
        per_line -= per_line % 8 if len(devices) > per_line else 0
    lines: list[RenderableType] = []
    for start in range(0, len(devices), per_line):
        ranks = range(start, min(start + per_line, len(devices)))
        first = Text("rank    ", style="bold") + Text("".join(f"{r:>{width}}" for r in ranks))
        second = Text("device  ", style="bold")
        for rank in ranks:
            style_of_rank = "bold green" if rank in moved else ""
            second.append(f"{devices[rank]:>{width}}", style=style_of_rank)
        if lines:
            lines.append("")
        lines += [first, second]
    return lines


def _before_after(result: MappingResult) -> RenderableType:
    rows: list[tuple[str | Text, ...]] = []
    for number, (name, before, after, change) in enumerate(
        table_rows(result.default, result.placed, result.metric)
    ):
        sign = "green" if change.startswith("-") and len(change) > 1 else ""
        sign = "red" if change.startswith(("+", "x")) else sign
        goal = "<- objective" if ROW_OF_OBJECTIVE.get(result.objective) == number else ""
        rows.append((name, before, after, Text(change, style=sign), goal))
    return columns(("predicted", "default", "placed", "change", ""), rows, right=(1, 2, 3))


def _busiest(result: MappingResult, topology: Topology) -> str:
    """The busiest link by default and as placed, with what its congestion was and is."""
    default, placed = result.default, result.placed
    before, after = busiest_words(topology, default), busiest_words(topology, placed)
    if is_default_kept(result):
        return before
    times = [format_seconds(each.max_congestion_s) for each in (default, placed)]
    if before == after:
        return f"{before}, {times[0]} to {times[1]}"
    return f"{before}, {times[0]}, by default; {after}, {times[1]}, as placed"


def render_placement_text(placement: Placement, style: TextStyle = PLAIN) -> str:
    """The placement table and its metadata; columns that hold nothing are left out."""
    header = ("rank", "host", "local rank", "device", "pci", "uuid", "cpus", "memory node", "nic")
    hosts = len({seat.host for seat in placement.seats})
    words = f"{plural(placement.ranks, 'rank')} on {plural(hosts, 'host')}, {placement.vendor}"
    parts: list[RenderableType] = [labelled("Placement", words)]
    parts += [
        labelled("", f"{clean(key)}: {clean(value)}") for key, value in placement.metadata.items()
    ]
    table = columns(
        header, placement_rows(placement), right=(0, 2, 3, 7), fold=(6,), only_used=True
    )
    return lay_out([*parts, "", table], style)
