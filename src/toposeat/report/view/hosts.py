"""Placements on machines of many hosts: predicted loads by level, and ranks of hosts."""

from __future__ import annotations

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.evaluation import Candidate, MappingResult
from toposeat.report.parts import Part, Table
from toposeat.report.units import (
    clean,
    format_bytes,
    format_seconds,
    known,
    plural,
)

_SHOWN_CANDIDATES = 8
_SHOWN_NAMES = 3  # of the same placement


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
