"""The part of the page on a placement over a large machine: figures, levels, links, hosts."""

from __future__ import annotations

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.scale_result import ScaleEvaluation, ScaleResult
from toposeat.report.html.figures import View, bars, network_views
from toposeat.report.html.tables import Table
from toposeat.report.svg.scale import used_levels
from toposeat.report.units import format_bytes, format_seconds, plural
from toposeat.report.view.scale import (
    level_rows,
    mapping_words,
    scale_figure_rows,
    scale_verdict,
)

_MOST_HOSTS = 256
_LINKS = 10


def machine_words(result: ScaleResult) -> str:
    """The machine as one sentence."""
    hosts = plural(len(result.hosts), "host")
    return f"{result.shape}: {hosts} of {plural(result.slots_per_host, 'device')}"


def scale_parts(result: ScaleResult) -> View:
    """Everything predicted of the placement, beside the default."""
    before, after = result.default.predicted_s or 0.0, result.placed.predicted_s or 0.0
    look = "gain" if after < before else "loss" if after > before else "change"
    shown = [("default", result.default)]
    if not result.kept_default:
        shown.append(("placed", result.placed))
    hosts, more_hosts = _hosts(result)
    return {
        "outcome": "kept" if result.kept_default else look,
        "verdict": scale_verdict(result),
        "remarks": [mapping_words(result), *result.notes],
        "figures": Table(
            ("", "default", "placed", "change"),
            scale_figure_rows(result),
            numbers=(1, 2, 3),
            name="compare",
            caption="Predicted (nothing here was measured)",
        ),
        "machine": network_views(result),
        "bars": bars(used_levels([each for _, each in shown])),
        "levels": Table(
            ("level", "links", "default, worst / mean", "placed, worst / mean"),
            level_rows([result.default, result.placed]),
            numbers=(1, 2, 3),
            caption="Links of each level (predicted)",
        ),
        "links": [_links(name, each) for name, each in shown],
        "hosts": hosts,
        "more_hosts": more_hosts,
    }


def _links(name: str, evaluation: ScaleEvaluation) -> Table:
    rows = [
        (load.link, load.level, format_bytes(load.bytes), format_seconds(load.congestion_s))
        for load in evaluation.links[:_LINKS]
    ]
    header = ("link", "level", "bytes", "congestion")
    return Table(header, rows, numbers=(2, 3), caption=f"Busiest links, {name} (predicted)")


def _hosts(result: ScaleResult) -> tuple[Table, str]:
    """Ranks of the first hosts, and how many hosts are left out."""
    ranks_of_host: dict[int, list[int]] = {}
    for rank, slot in enumerate(result.slot_of_rank.tolist()):
        ranks_of_host.setdefault(slot // result.slots_per_host, []).append(rank)
    rows = [
        (result.hosts[host], format_cpu_list(ranks))
        for host, ranks in sorted(ranks_of_host.items())[:_MOST_HOSTS]
    ]
    left = len(ranks_of_host) - len(rows)
    more = f"and {plural(left, 'more host')}" if left > 0 else ""
    return Table(("host", "ranks"), rows, caption="Ranks of each host"), more
