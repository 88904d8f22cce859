"""A placement on a large machine as one standalone drawing: its picture, levels, busiest links."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.scale_result import ScaleEvaluation, ScaleResult
from toposeat.model.traffic import Traffic
from toposeat.report.svg.network import can_draw, network_svg
from toposeat.report.svg.sheet import Sheet
from toposeat.report.units import clean, format_seconds
from toposeat.report.view.traffic import traffic_sentence

_LINKS = 6
_LOOKS = {"default": "fill-before", "placed": "fill-after"}


def scale_svg(result: ScaleResult, traffic: Traffic) -> str:
    """A standalone SVG file. Every number is predicted."""
    shown = [("default", result.default), ("placed", result.placed)][: 2 - result.kept_default]
    sheet = Sheet(clean(result.shape))
    sheet.line(traffic_sentence(traffic))
    for name, each in shown:
        sheet.line(_words(name, each), sample=_LOOKS[name])
    for name, _ in shown if can_draw(result) else ():
        heading = f"The machine, {'as placed' if name == 'placed' else 'by default'} (predicted)"
        sheet.heading(heading)
        sheet.chart(network_svg(result, name, label=heading))
    sheet.heading("Busiest link of each level (predicted)")
    levels = used_levels([each for _, each in shown])
    top = max((max(seconds) for *_, seconds in levels), default=0.0)
    for _, level, seconds in levels:
        both = zip(shown, seconds, strict=True)
        sheet.bars(level, [(_LOOKS[name], s / top, format_seconds(s)) for (name, _), s in both])
    for name, each in shown:
        sheet.heading(f"Busiest links, {name} (predicted)")
        for load in each.links[:_LINKS]:
            sheet.line(f"{clean(load.link)}: {format_seconds(load.congestion_s)}")
    return sheet.svg(f"placement on {clean(result.shape)}")


def used_levels(placements: Sequence[ScaleEvaluation]) -> list[tuple[int, str, list[float]]]:
    """Of each level that somebody uses its number, its name, and its busiest link's seconds."""
    levels = enumerate(zip(*(each.levels for each in placements), strict=True))
    rows = [(at, of[0].level, [each.max_congestion_s for each in of]) for at, of in levels]
    return [row for row in rows if max(row[2]) > 0]


def _words(name: str, each: ScaleEvaluation) -> str:
    time = format_seconds(each.predicted_s or 0.0)
    worst = format_seconds(each.max_congestion_s or 0.0)
    return f"{name}: predicted time {time}, busiest link {worst}"
