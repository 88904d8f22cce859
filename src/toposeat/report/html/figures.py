"""The page's pictures: the machine before and after, congestion bars, heat maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from toposeat.model.evaluation import Evaluation, MappingResult
from toposeat.model.scale_result import ScaleResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import MemorySpace, Traffic
from toposeat.report.html import tables
from toposeat.report.svg import network
from toposeat.report.svg.element import Markup, number
from toposeat.report.svg.heat_map import heat_legend, heat_map
from toposeat.report.svg.layout import Layout, lay_out_machine
from toposeat.report.svg.machine import (
    CONGESTION_STEPS,
    caption_of,
    kind_legend,
    machine_svg,
    seatings,
)
from toposeat.report.units import format_seconds, plural
from toposeat.report.view.machine import link_words
from toposeat.report.view.mapping import is_default_kept

_MOST_BARS = 14
_NARROW = 570.0  # two drawings up to this width stand side by side

View = dict[str, Any]  # what a template shows


def machine_views(result: MappingResult, topology: Topology) -> View:
    """The machine under the default and under the new placement, or under the default alone."""
    layout = lay_out_machine(topology)
    shown = seatings(result)
    changed = len(shown) > 1
    return {
        "heading": "The machine, before and after" if changed else "The machine",
        "samples": _load_samples(shown[0][1].top_s),
        "has_moved": changed,
        "last_rank": 0,
        "narrow": changed and layout.width <= _NARROW,
        "drawings": [
            _drawing(
                name,
                caption_of(seating),
                "f-after" if at else "f-before",
                partial(machine_svg, topology, seating=seating, layout=layout),
            )
            for at, (name, seating) in enumerate(shown)
        ],
    }


def _drawing(name: str, caption: str, look: str, draw: Callable[..., Markup]) -> View:
    return {"name": name, "caption": caption, "look": look, "svg": draw(label=f"{name}: {caption}")}


def network_views(result: ScaleResult) -> View | None:
    """A large machine under the default and under the new placement; None if it has no picture."""
    if not network.can_draw(result):
        return None
    shown = [("Default placement, kept" if result.kept_default else "Default placement", "default")]
    if not result.kept_default:
        shown.append(("Placed", "placed"))
    drawings = []
    for heading, name in shown:
        each = result.default if name == "default" else result.placed
        worst = max((load.max_congestion_s for load in each.levels), default=0.0)
        time = format_seconds(each.predicted_s or 0.0)
        caption = f"predicted: busiest link {format_seconds(worst)}, time {time}"
        look = "f-before" if name == "default" else "f-after"
        drawings.append(
            _drawing(heading, caption, look, partial(network.network_svg, result, name))
        )
    return {
        "samples": _load_samples(network.top_seconds(result)),
        "has_moved": False,
        "last_rank": result.ranks - 1,
        "narrow": False,
        "drawings": drawings,
    }


def _load_samples(top: float) -> list[View]:
    """The legend of congestion: lines from idle to the busiest, whose congestion is stated."""
    samples: list[View] = [{"step": 0, "width": number(1.6), "words": "idle"}]
    for step in range(1, CONGESTION_STEPS + 1):
        width = number(1.6 + 8.4 * step / CONGESTION_STEPS)
        words = format_seconds(top) if step == CONGESTION_STEPS else ""
        samples.append({"step": step, "width": width, "words": words})
    return samples


def machine_plain(topology: Topology) -> View:
    """The machine alone, links coloured by kind."""
    layout = lay_out_machine(topology)
    svg = machine_svg(topology, label=f"machine {topology.name}", layout=layout)
    return {"legend": kind_legend(topology), "svg": svg}


def congestion_bars(result: MappingResult, topology: Topology) -> View | None:
    """The busiest links before and after as paired bars; None if no link carries anything."""
    before = {load.link: load.congestion_s for load in result.default.links}
    after = {load.link: load.congestion_s for load in result.placed.links}
    index = {link.id: number for number, link in enumerate(topology.links)}
    rows = sorted(
        (
            (index.get(name, -1), link_words(topology, name), (b, after.get(name, 0.0)))
            for name, b in {**dict.fromkeys(after, 0.0), **before}.items()
        ),
        key=lambda row: (-max(row[2]), row[0]),
    )
    rows = [row for row in rows if max(row[2]) > 0]
    if not rows:
        return None
    both = not is_default_kept(result)
    left = len(rows) - _MOST_BARS
    shown = [(at, link, seconds[: 1 + both]) for at, link, seconds in rows[:_MOST_BARS]]
    return {
        "bars": bars(shown),
        "more": f"and {plural(left, 'less busy link')}: see the table" if left > 0 else "",
        "table": tables.links(result, topology),
    }


def bars(rows: Sequence[tuple[int, str, Sequence[float]]]) -> View:
    """Seconds side by side, as bars that share one scale.

    Args:
        rows: number of the link, its name, seconds by default and perhaps as placed.
    """
    top = max((max(seconds) for _, _, seconds in rows), default=0.0)
    drawn = []
    for at, name, all_seconds in rows:
        named = list(zip(("default", "placed"), all_seconds, strict=False))
        parts = [
            {
                "look": "before" if which == "default" else "after",
                "share": number(100 * seconds / top if top > 0 else 0.0),
                "words": format_seconds(seconds) if seconds > 0 else "idle",
            }
            for which, seconds in named
        ]
        words = ", ".join(f"{which} {format_seconds(seconds)}" for which, seconds in named)
        drawn.append({"link": at, "name": name, "words": f"{name}: {words}", "parts": parts})
    return {"both": any(len(seconds) > 1 for *_, seconds in rows), "rows": drawn}


def heat_maps(result: MappingResult | None, topology: Topology | None, traffic: Traffic) -> View:
    """Heat maps of the traffic: by device before and after if mapped, else by rank and memory."""
    if result is not None and topology is not None and len(traffic.mapped_table()):
        return _mapped_heat(result, topology, traffic)
    maps = [_heat_of(traffic, space) for space in MemorySpace if len(traffic.table(space=space))]
    return {"note": "", "legend": None, "maps": maps}


def _heat_of(traffic: Traffic, space: MemorySpace) -> tuple[str, Markup]:
    words = f"{space.value} memory, by rank"
    pairs = traffic.table(space=space)
    return words, heat_map(pairs, traffic.ranks, label=f"bytes sent: {words}")


def _mapped_heat(result: MappingResult, topology: Topology, traffic: Traffic) -> View:
    pairs = traffic.mapped_table()
    space = traffic.mapped_space
    what = f"{space.value} memory" if space is not None else "all memory"
    layout = lay_out_machine(topology)
    shown = [("default order", result.default)]
    if not is_default_kept(result):
        shown.append(("placed order", result.placed))
    maps = []
    for name, evaluation in shown:
        order, splits = _device_order(evaluation, topology, layout)
        words = f"{what}, {name}"
        label = f"bytes sent: {words}"
        maps.append(
            (words, heat_map(pairs, traffic.ranks, label=label, order=order, splits=splits))
        )
    if traffic.mapped_space is MemorySpace.DEVICE and len(traffic.table(space=MemorySpace.HOST)):
        maps.append(_heat_of(traffic, MemorySpace.HOST))
    note = (
        "Ranks in the order of the devices they sit on, left to right in the drawing; lines"
        " separate packages. Near the diagonal is near in the machine."
    )
    return {"note": note, "legend": heat_legend(pairs, traffic.ranks), "maps": maps}


def _device_order(
    evaluation: Evaluation, topology: Topology, layout: Layout
) -> tuple[list[int], tuple[int, ...]]:
    """Ranks in the order of their devices in the drawing, and where a new group begins."""
    position = {device.id: number for number, device in enumerate(topology.devices)}
    ranks = {device: rank for rank, device in enumerate(evaluation.device_of_rank)}
    order: list[int] = []
    splits = []
    for place, vertex in enumerate(layout.device_order):
        if place in layout.group_starts:
            splits.append(len(order))
        if position[vertex] in ranks:
            order.append(ranks[position[vertex]])
    return order, tuple(s for s in splits if 0 < s < len(order))
