"""The placement of a large job as text. Every number here is predicted."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from toposeat.model.scale_result import LevelLoad, NamedLinkLoad, ScaleEvaluation, ScaleResult
from toposeat.model.traffic import Traffic
from toposeat.report.text.console import PLAIN, TextStyle, columns, labelled, lay_out, sentences
from toposeat.report.text.explanation import scale_explanation_parts
from toposeat.report.units import (
    clean,
    format_bytes,
    format_count,
    format_seconds,
    plural,
    three_digits,
)
from toposeat.report.words import Figure, figure_rows, phase_words, traffic_sentence

_SHOWN_CANDIDATES = 8
_SHOWN_NAMES = 3  # of the same placement
_SHOWN_LINKS = 3


def render_scale_text(result: ScaleResult, traffic: Traffic, style: TextStyle = PLAIN) -> str:
    """The verdict, the predicted before/after tables, and the candidates that were tried."""
    header = ("predicted", "default", "placed", "change")
    parts: list[RenderableType] = [
        labelled("Verdict", scale_verdict(result)),
        "",
        labelled("Machine", f"{clean(result.shape)}: {plural(result.slots, 'slot')}"),
        labelled("Traffic", traffic_sentence(traffic)),
        labelled("Mapping", mapping_words(result)),
        "",
        columns(header, scale_figure_rows(result), right=(1, 2, 3)),
        *levels_and_links([("default", result.default), ("placed", result.placed)]),
    ]
    if result.placed.phases:
        words = phase_words(result.default.phases, result.placed.phases)
        parts += ["", labelled("Phases", words)]
    if result.explanation is not None:
        parts += ["", *scale_explanation_parts(result.explanation)]
    if result.candidates:
        rows = _candidates(result)
        parts += ["", columns(("candidate", "time", "cost", "CPU"), rows, right=(1, 2, 3))]
    return lay_out([*parts, *sentences(result.notes)], style)


def render_scale_comparison_text(
    evaluations: Sequence[tuple[str, ScaleEvaluation]],
    machine: str,
    traffic: Traffic,
    style: TextStyle = PLAIN,
    *,
    notes: Sequence[str] = (),
) -> str:
    """Several placements side by side; the first is the one the others are compared with."""
    base = evaluations[0][1].predicted_s or 0.0
    rows = []
    for name, each in evaluations:
        relative = (each.predicted_s or 0.0) / base if base > 0 else 1.0
        rows.append([name, _seconds(each.predicted_s), three_digits(relative), *_figures(each)])
    header = ("predicted", "time", "relative", "worst link", "mean link", "hop-bytes", "cost")
    parts: list[RenderableType] = [
        labelled("Machine", clean(machine)),
        labelled("Traffic", traffic_sentence(traffic)),
        "",
        columns(header, rows, right=range(1, 7)),
        *levels_and_links(evaluations),
        Text(f"relative: time over that of {clean(evaluations[0][0])}; nothing was measured"),
    ]
    return lay_out([*parts, *sentences(notes)], style)


def _figures(each: ScaleEvaluation) -> list[str]:
    hops = "-" if each.hop_bytes is None else format_bytes(each.hop_bytes)
    seconds = [_seconds(each.max_congestion_s), _seconds(each.mean_congestion_s)]
    return [*seconds, hops, format_bytes(each.cost)]


def _seconds(value: float | None) -> str:
    return "-" if value is None else format_seconds(value)


def levels_and_links(evaluations: Sequence[tuple[str, ScaleEvaluation]]) -> list[RenderableType]:
    """Congestion per level of the machine, and the busiest links of each placement by name."""
    names = [name for name, _ in evaluations]
    header = ["worst / mean link", "links", *names]
    right = range(1, len(header))
    parts: list[RenderableType] = []
    rows = level_rows([each for _, each in evaluations])
    if rows:
        parts += ["", columns(header, rows, right=right)]
    links = [
        [name if at == 0 else "", load.link, load.level, *_load(load)]
        for name, each in evaluations
        for at, load in enumerate(each.links[:_SHOWN_LINKS])
    ]
    if links:
        header = ["busiest links", "link", "level", "bytes", "congestion"]
        parts += ["", columns(header, links, right=(3, 4))]
    return parts


def _load(load: NamedLinkLoad) -> list[str]:
    return [format_bytes(load.bytes), format_seconds(load.congestion_s)]


def level_rows(evaluations: Sequence[ScaleEvaluation]) -> list[list[str]]:
    """Of each level its name, its number of links, and worst / mean congestion by evaluation.

    Levels that nobody uses are left out.
    """
    rows = []
    for loads in zip(*(each.levels for each in evaluations), strict=True):
        if max(load.max_congestion_s for load in loads) > 0:
            words = [_worst_and_mean(load) for load in loads]
            rows.append([loads[0].level, format_count(loads[0].links), *words])
    return rows


def _worst_and_mean(load: LevelLoad) -> str:
    return f"{format_seconds(load.max_congestion_s)} / {format_seconds(load.mean_congestion_s)}"


def mapping_words(result: ScaleResult) -> str:
    """How the placement was found."""
    if result.solver == "given":
        return "given, not searched for"
    return (
        f"objective {clean(result.objective)}, solver {clean(result.solver)},"
        f" {format_seconds(result.solve_seconds)},"
        f" {format_bytes(result.peak_memory_bytes)} of memory"
    )


def scale_figure_rows(result: ScaleResult) -> list[tuple[str, str, str, str]]:
    """Figures of the whole machine: name, default, placed, change."""
    figures: list[Figure] = [
        ("time", "predicted_s", format_seconds),
        ("worst link congestion", "max_congestion_s", format_seconds),
        ("mean link congestion", "mean_congestion_s", format_seconds),
        ("hop-bytes", "hop_bytes", format_bytes),
        ("cost (bytes x distance)", "cost", format_bytes),
    ]
    return figure_rows(result.default, result.placed, figures)


def scale_verdict(result: ScaleResult) -> str:
    """What changed, in one sentence."""
    if result.kept_default and result.solver == "given":
        return "the default order"
    if result.kept_default:
        return "the default order is kept, because nothing better was found"
    link = result.placed.busiest_link
    where = f"; busiest link: {clean(link)}" if link else ""
    return f"{plural(result.moved_ranks, 'rank')} of {result.ranks} moved{where}"


def _name(candidate: ScaleEvaluation) -> str:
    """The name, with the first few other candidates that gave the same placement."""
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
