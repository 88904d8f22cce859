"""Placements on machines of many hosts: predicted loads by level, and ranks of hosts."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.evaluation import Candidate, Evaluation, LevelLoad, MappingResult
from toposeat.report.parts import Part, Table
from toposeat.report.units import (
    clean,
    format_bytes,
    format_count,
    format_seconds,
    known,
    plural,
)

_SHOWN_CANDIDATES = 8
_SHOWN_NAMES = 3  # of the same placement
_SHOWN_LINKS = 3


def levels_and_links(evaluations: Sequence[tuple[str, Evaluation]]) -> list[Part]:
    """What each level carries, and the busiest links; nothing on a machine without levels."""
    tables = (*level_table(evaluations), *busy_link_table(evaluations))
    return [part for table in tables for part in ("", table)]


def level_table(evaluations: Sequence[tuple[str, Evaluation]]) -> list[Part]:
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
    evaluations: Sequence[tuple[str, Evaluation]], most: int = _SHOWN_LINKS
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
        if load.level
    ]
    header = ("busiest links", "link", "level", "bytes", "congestion")
    return [Table(header, rows, right=(3, 4), caption="Predicted")] if rows else []


def _worst_and_mean(load: LevelLoad) -> str:
    return f"{format_seconds(load.max_congestion_s)} / {format_seconds(load.mean_congestion_s)}"


def host_table(result: MappingResult, most: int) -> tuple[Table, int]:
    """Ranks of the first hosts, and how many hosts are left out."""
    ranks_of_host: dict[int, list[int]] = {}
    for rank, host in enumerate(result.host_numbers):
        ranks_of_host.setdefault(host, []).append(rank)
    rows = [
        (result.hosts[host], format_cpu_list(ranks))
        for host, ranks in sorted(ranks_of_host.items())[:most]
    ]
    caption = f"Ranks of each host; a host has {plural(result.slots_per_host, 'device')}"
    return Table(("host", "ranks"), rows, caption=caption), len(ranks_of_host) - len(rows)


def candidate_table(result: MappingResult) -> list[Part]:
    """The best few of the placements that were tried, by what was asked for."""
    rows = [
        (
            _name(each),
            known(each.predicted_s, format_seconds),
            format_bytes(each.cost),
            format_seconds(each.cpu_s),
        )
        for each in sorted(result.candidates, key=lambda each: each.value(result.objective))[
            :_SHOWN_CANDIDATES
        ]
    ]
    return [Table(("candidate", "time", "cost", "CPU"), rows, right=(1, 2, 3))] if rows else []


def _name(candidate: Candidate) -> str:
    """The name, with the first few other candidates that gave the same placement."""
    if not candidate.also:
        return clean(candidate.name)
    also = [*map(clean, candidate.also)]
    if len(also) > _SHOWN_NAMES:
        also[_SHOWN_NAMES:] = [f"{len(also) - _SHOWN_NAMES} more"]
    return f"{clean(candidate.name)} (also: {', '.join(also)})"
