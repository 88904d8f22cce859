"""The part of the page on a placement over a large machine: figures, levels, links, hosts."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.scale_result import ScaleEvaluation, ScaleResult
from toposeat.report.html import tables
from toposeat.report.svg.chart import paired_bars
from toposeat.report.svg.element import Child, Markup, element, joined
from toposeat.report.svg.scale import used_levels
from toposeat.report.text.scale import figure_rows, level_rows, mapping_words, scale_verdict
from toposeat.report.units import format_bytes, format_seconds, plural

_MOST_HOSTS = 256
_LINKS = 10


def machine_words(result: ScaleResult) -> str:
    """The machine as one sentence."""
    hosts = plural(len(result.hosts), "host")
    return f"{result.shape}: {hosts} of {plural(result.slots_per_host, 'device')}"


def scale_parts(result: ScaleResult) -> list[Child]:
    """Everything predicted of the placement, beside the default."""
    before, after = result.default.predicted_s or 0.0, result.placed.predicted_s or 0.0
    look = "gain" if after < before else "loss" if after > before else "change"
    bars = paired_bars(used_levels(result), both=not result.kept_default)
    return [
        element(
            "div",
            {"class": f"verdict {'kept' if result.kept_default else look}"},
            element("p", {"class": "says"}, scale_verdict(result)),
            element("p", {}, mapping_words(result)),
            *(element("p", {}, note) for note in result.notes),
        ),
        tables.table(
            ("", "default", "placed", "change"),
            figure_rows(result),
            numbers=(1, 2, 3),
            name="compare",
            caption="Predicted (nothing here was measured)",
        ),
        element("h3", {}, "Congestion per level (predicted)"),
        element("p", {"class": "hint"}, "The busiest link of each level: bytes over capacity."),
        element("div", {"class": "wide"}, bars),
        _levels(result),
        _busiest(result),
        _hosts(result),
    ]


def _levels(result: ScaleResult) -> Markup:
    return tables.table(
        ("level", "links", "default, worst / mean", "placed, worst / mean"),
        level_rows([result.default, result.placed]),
        numbers=(1, 2, 3),
        caption="Links of each level (predicted)",
    )


def _busiest(result: ScaleResult) -> Markup:
    shown = [("default", result.default)]
    if not result.kept_default:
        shown.append(("placed", result.placed))
    parts = [_links(name, each) for name, each in shown]
    return element("details", {}, element("summary", {}, "busiest links"), *parts)


def _links(name: str, evaluation: ScaleEvaluation) -> Markup:
    rows: Sequence[Sequence[Child]] = [
        (load.link, load.level, format_bytes(load.bytes), format_seconds(load.congestion_s))
        for load in evaluation.links[:_LINKS]
    ]
    header = ("link", "level", "bytes", "congestion")
    return tables.table(header, rows, numbers=(2, 3), caption=f"Busiest links, {name} (predicted)")


def _hosts(result: ScaleResult) -> Markup:
    ranks_of_host: dict[int, list[int]] = {}
    for rank, slot in enumerate(result.slot_of_rank.tolist()):
        ranks_of_host.setdefault(slot // result.slots_per_host, []).append(rank)
    rows = [
        (result.hosts[host], format_cpu_list(ranks))
        for host, ranks in sorted(ranks_of_host.items())[:_MOST_HOSTS]
    ]
    left = len(ranks_of_host) - len(rows)
    more = element("p", {"class": "hint"}, f"and {plural(left, 'more host')}") if left > 0 else ""
    return element(
        "details",
        {},
        element("summary", {}, "ranks of each host"),
        joined([tables.table(("host", "ranks"), rows, caption="Ranks of each host"), more]),
    )
