"""The placement of a large job as text. Every number here is predicted."""

from __future__ import annotations

from rich.console import RenderableType

from toposeat.model.scale_result import ScaleEvaluation, ScaleResult
from toposeat.model.traffic import Traffic
from toposeat.report.text.console import TextStyle, columns, labelled, lay_out, sentences
from toposeat.report.units import clean, format_bytes, format_change, format_seconds, plural
from toposeat.report.words import traffic_sentence

_SHOWN_CANDIDATES = 8
_SHOWN_NAMES = 3  # of the same placement


def render_scale_text(result: ScaleResult, traffic: Traffic, style: TextStyle | None = None) -> str:
    """What was asked, the predicted before/after table, and the candidates that were tried."""
    parts: list[RenderableType] = [
        labelled("Machine", f"{clean(result.shape)}: {plural(result.slots, 'slot')}"),
        labelled("Traffic", traffic_sentence(traffic)),
        labelled(
            "Mapping",
            f"objective {clean(result.objective)}, solver {clean(result.solver)},"
            f" {format_seconds(result.solve_seconds)},"
            f" {format_bytes(result.peak_memory_bytes)} of memory",
        ),
        "",
        columns(("predicted", "default", "placed", "change"), _rows(result), right=(1, 2, 3)),
        "",
        labelled("Verdict", _verdict(result)),
        "",
        columns(("candidate", "time", "cost", "CPU"), _candidates(result), right=(1, 2, 3)),
    ]
    return lay_out([*parts, *sentences(result.notes)], style or TextStyle())


def _rows(result: ScaleResult) -> list[list[str]]:
    rows = [
        ("time", "predicted_s", format_seconds),
        ("worst link congestion", "max_congestion_s", format_seconds),
        ("mean link congestion", "mean_congestion_s", format_seconds),
        ("cost (bytes x distance)", "cost", format_bytes),
    ]
    table = []
    for words, name, form in rows:
        before, after = getattr(result.default, name), getattr(result.placed, name)
        if before is None or after is None:
            continue
        table.append([words, form(before), form(after), format_change(before, after)])
    return table


def _verdict(result: ScaleResult) -> str:
    if result.kept_default:
        return "the default order is kept: nothing better was found"
    link = result.placed.busiest_link
    where = f"; busiest link: {clean(link)}" if link else ""
    return f"{plural(result.moved_ranks, 'rank')} of {result.ranks} moved{where}"


def _name(candidate: ScaleEvaluation) -> str:
    """With the other ways that led to the same placement, the first few of them."""
    if not candidate.also:
        return clean(candidate.name)
    shown = [clean(name) for name in candidate.also[:_SHOWN_NAMES]]
    rest = len(candidate.also) - len(shown)
    more = [f"{rest} more"] if rest else []
    return f"{clean(candidate.name)} (also: {', '.join(shown + more)})"


def _candidates(result: ScaleResult) -> list[list[str]]:
    """The best few by what was asked for."""

    def value(each: ScaleEvaluation) -> float:
        named = {"time": each.predicted_s, "congestion": each.max_congestion_s}
        by = named.get(result.objective)
        return each.cost if by is None else by

    ranked = sorted(result.candidates, key=value)[:_SHOWN_CANDIDATES]
    rows = []
    for each in ranked:
        time = "-" if each.predicted_s is None else format_seconds(each.predicted_s)
        rows.append([_name(each), time, format_bytes(each.cost), format_seconds(each.cpu_s)])
    return rows
