"""Placements of large jobs, and several placements side by side. Every number here is predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.evaluation import Evaluation
from toposeat.model.premise import Premises
from toposeat.model.scale_result import LevelLoad, ScaleEvaluation, ScaleResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.report.parts import Cell, Fact, Part, Table, facts, sentences
from toposeat.report.text import PLAIN, TextStyle, fitting, height, lay_out
from toposeat.report.units import (
    clean,
    format_bytes,
    format_change,
    format_count,
    format_seconds,
    known,
    plural,
    three_digits,
)
from toposeat.report.view.explanation import scale_explanation_parts
from toposeat.report.view.machine import host_words, topology_sentence
from toposeat.report.view.mapping import (
    busiest_words,
    change_table,
    fastest_words,
    format_cost,
    phase_words,
    range_words,
    table_rows,
    tree_words,
)
from toposeat.report.view.traffic import traffic_sentence

_LINES = 13  # of the whole answer, unless all is asked for
# How notes on the search begin; they come after those on the machine and the traffic.
_OF_SEARCH = ("the traffic is that of", "scotch was not tried", "kept the default: no better")
_SHOWN_CANDIDATES = 8
_SHOWN_NAMES = 3  # of the same placement
_SHOWN_LINKS = 3


def render_scale_text(
    result: ScaleResult, traffic: Traffic, style: TextStyle = PLAIN, *, verbose: bool = False
) -> str:
    """What is gained, the order of nodes, and why, within 13 lines.

    Args:
        result: the mapping.
        traffic: what it is of.
        style: how text is laid out.
        verbose: also all figures before and after, by level, and the candidates that were tried.
    """
    parts: list[Part] = [Fact("Verdict", scale_verdict(result))]
    if result.hosts_by_first_rank:
        parts.append(Fact("Nodes", f"by first rank: {host_words(result.hosts_by_first_rank)}"))
    parts.append("")
    if verbose:
        parts += [*_subject(result, traffic), *scale_reasons(result), *_details(result)]
    else:
        notes = sorted(result.notes, key=lambda note: note.startswith(_OF_SEARCH))
        said = [*_subject(result, traffic), *_why(result), *sentences(notes)]
        parts += fitting([[part] for part in said], style, _LINES - height(parts, style))
    if result.explanation is not None:
        parts += ["", *scale_explanation_parts(result.explanation)]
    return lay_out(parts, style)


def _subject(result: ScaleResult, traffic: Traffic) -> list[Part]:
    machine = f"{clean(result.shape)}: {plural(result.slots, 'slot')}"
    return facts(Machine=machine, Traffic=traffic_sentence(traffic))


def scale_reasons(result: ScaleResult) -> list[Part]:
    """All of why, and how the placement was found."""
    return [*_why(result), Fact("Mapping", mapping_words(result)), *sentences(result.notes)]


def _why(result: ScaleResult) -> list[Part]:
    """Why, the most telling first."""
    before, after = result.default.phases, result.placed.phases
    return facts(
        Busiest=_busiest(result),
        Phases=phase_words(before, after) if after else None,
        Trees=tree_words(before, after),
    )


def _busiest(result: ScaleResult) -> str:
    """The busiest link by default and as placed; "" where it is not known."""
    before, after = result.default.busiest_link, result.placed.busiest_link
    if not before or not after or result.kept_default:
        return clean(after or "")
    if before == after:
        return f"{clean(after)} (in both)"
    return f"{clean(before)} (default), {clean(after)} (placed)"


def _details(result: ScaleResult) -> list[Part]:
    """Figures, levels, links and candidates."""
    both = (("default", result.default), ("placed", result.placed))
    parts: list[Part] = ["", scale_figures(result), *_levels_and_links(both)]
    return parts + [part for table in candidate_table(result) for part in ("", table)]


def _levels_and_links(evaluations: Sequence[tuple[str, ScaleEvaluation]]) -> list[Part]:
    tables = (*level_table(evaluations), *busy_link_table(evaluations))
    return [part for table in tables for part in ("", table)]


def level_table(evaluations: Sequence[tuple[str, ScaleEvaluation]]) -> list[Part]:
    """Congestion per level of the machine; levels that nobody uses are left out."""
    rows = []
    for loads in zip(*(each.levels for _, each in evaluations), strict=True):
        if max(load.max_congestion_s for load in loads) > 0:
            words = [_worst_and_mean(load) for load in loads]
            rows.append([loads[0].level, format_count(loads[0].links), *words])
    header = ["worst / mean link", "links", *(name for name, _ in evaluations)]
    caption = "Links of each level (predicted)"
    return [Table(header, rows, range(1, len(header)), caption=caption)] if rows else []


def busy_link_table(
    evaluations: Sequence[tuple[str, ScaleEvaluation]], most: int = _SHOWN_LINKS
) -> list[Part]:
    """The busiest links of each placement by name."""
    rows = [
        [
            name if at == 0 else "",
            load.link,
            load.level,
            format_bytes(load.bytes),
            format_seconds(load.congestion_s),
        ]
        for name, each in evaluations
        for at, load in enumerate(each.links[:most])
    ]
    header = ("busiest links", "link", "level", "bytes", "congestion")
    return [Table(header, rows, right=(3, 4), caption="Predicted")] if rows else []


def _worst_and_mean(load: LevelLoad) -> str:
    return f"{format_seconds(load.max_congestion_s)} / {format_seconds(load.mean_congestion_s)}"


def host_table(result: ScaleResult, most: int) -> tuple[Table, int]:
    """Ranks of the first hosts, and how many hosts are left out."""
    ranks_of_host: dict[int, list[int]] = {}
    for rank, slot in enumerate(result.slot_of_rank.tolist()):
        ranks_of_host.setdefault(slot // result.slots_per_host, []).append(rank)
    rows = [
        (result.hosts[host], format_cpu_list(ranks))
        for host, ranks in sorted(ranks_of_host.items())[:most]
    ]
    caption = f"Ranks of each host; a host has {plural(result.slots_per_host, 'device')}"
    return Table(("host", "ranks"), rows, caption=caption), len(ranks_of_host) - len(rows)


def mapping_words(result: ScaleResult) -> str:
    """How the placement was found."""
    if result.solver == "given":
        return "given, not searched for"
    return (
        f"objective {clean(result.objective)}, solver {clean(result.solver)},"
        f" {format_seconds(result.solve_seconds)},"
        f" {format_bytes(result.peak_memory_bytes)} of memory"
    )


def scale_figures(result: ScaleResult) -> Table:
    """Figures of the whole machine, by default and as placed."""
    cost = "cost (bytes x distance)"
    return change_table(table_rows(result.default, result.placed, time="time", cost=cost))


def scale_verdict(result: ScaleResult) -> str:
    """What is gained, in one sentence."""
    if result.kept_default and result.solver == "given":
        return "the default order"
    if result.kept_default:
        return "No gain: the default order is kept, because nothing better was found"
    moved = f"{format_count(result.moved_ranks)} of {plural(result.ranks, 'rank')}"
    name, before, after, form = _judged_by(result)
    word = "gain" if after < before else "loss" if after > before else "change"
    values = f"{name} {form(before)} to {form(after)} ({format_change(before, after)})"
    return f"Predicted {word} from moving {moved}: {values}"


def _judged_by(result: ScaleResult) -> tuple[str, float, float, Callable[[float], str]]:
    """What was minimised, by default and as placed, and its form; the cost if it is not known."""
    default, placed = result.default, result.placed
    names = {"time": "time", "congestion": "worst link congestion"}
    before, after = default.value(result.objective), placed.value(result.objective)
    if result.objective not in names or before is None or after is None:
        return "cost", default.cost, placed.cost, format_bytes
    return names[result.objective], before, after, format_seconds


def _name(candidate: ScaleEvaluation) -> str:
    """The name, with the first few other candidates that gave the same placement."""
    if not candidate.also:
        return clean(candidate.name)
    shown = [clean(name) for name in candidate.also[:_SHOWN_NAMES]]
    rest = len(candidate.also) - len(shown)
    more = [f"{rest} more"] if rest else []
    return f"{clean(candidate.name)} (also: {', '.join(shown + more)})"


def candidate_table(result: ScaleResult) -> list[Part]:
    """The best few of the placements that were tried, by what was asked for."""

    def value(each: ScaleEvaluation) -> float:
        named = {"time": each.predicted_s, "congestion": each.max_congestion_s}
        by = named.get(result.objective)
        return each.cost if by is None else by

    rows = [
        (
            _name(each),
            known(each.predicted_s, format_seconds),
            format_bytes(each.cost),
            format_seconds(each.cpu_s),
        )
        for each in sorted(result.candidates, key=value)[:_SHOWN_CANDIDATES]
    ]
    return [Table(("candidate", "time", "cost", "CPU"), rows, right=(1, 2, 3))] if rows else []


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
    machine = Fact("Topology", topology_sentence(topology))
    parts = _comparison(evaluations, "link time", machine, traffic, partial(format_cost, metric))
    busiest = [(f"  {clean(name)}", busiest_words(topology, each)) for name, each in evaluations]
    parts += ["Busiest link", _without_header(busiest), _relative(evaluations, "link time")]
    ranges = [
        (f"  {clean(name)}", words)
        for (name, _), each in zip(evaluations, premises, strict=False)
        if (words := range_words(each))
    ]
    if ranges:
        parts += ["Range", _without_header(ranges)]
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
    parts = _comparison(evaluations, "time", Fact("Machine", clean(machine)), traffic, format_bytes)
    parts += [*_levels_and_links(evaluations), _relative(evaluations, "time"), *sentences(notes)]
    return lay_out(parts, style)


def _comparison(
    evaluations: Named,
    time: str,
    machine: Part,
    traffic: Traffic,
    cost: Callable[[float], str],
) -> list[Part]:
    """The verdict, what it is on and of, and a row for each placement."""
    times = [(name, each.predicted_s or 0.0) for name, each in evaluations]
    base = times[0][1]
    rows = [
        (
            name,
            known(each.predicted_s, format_seconds),
            three_digits(seconds / base if base > 0 else 1.0),
            known(each.max_congestion_s, format_seconds),
            known(each.mean_congestion_s, format_seconds),
            known(each.hop_bytes, format_bytes),
            cost(each.cost),
        )
        for (name, each), (_, seconds) in zip(evaluations, times, strict=True)
    ]
    header = ("predicted", time, "relative", "worst link", "mean link", "hop-bytes", "cost")
    verdict = Fact("Verdict", fastest_words(times, time))
    of = Fact("Traffic", traffic_sentence(traffic))
    return [verdict, "", machine, of, "", Table(header, rows, right=range(1, 7))]


def _relative(evaluations: Named, time: str) -> str:
    return f"relative: {time} over that of {clean(evaluations[0][0])}; nothing was measured"


def _without_header(rows: Sequence[tuple[str, str]]) -> Part:
    shown = [(Cell(name), words) for name, words in rows]
    return Table(("", ""), shown, fold=(1,), has_header=False)
