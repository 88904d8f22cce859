"""A placement on a large machine as one standalone drawing: its picture, levels, busiest links."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.scale_result import ScaleEvaluation, ScaleResult
from toposeat.model.traffic import Traffic
from toposeat.report.svg import network
from toposeat.report.svg.element import (
    Child,
    Markup,
    drawn_size,
    element,
    standalone_svg,
    text_line,
)
from toposeat.report.units import clean, format_seconds
from toposeat.report.words import traffic_sentence

_MARGIN = 16.0
_LINKS = 6
_LINE = 18.0
_NAMES, _BARS = 180.0, 600.0


def scale_svg(result: ScaleResult, traffic: Traffic) -> str:
    """A standalone SVG file. Every number is predicted."""
    shown = [("default", result.default), ("placed", result.placed)][: 2 - result.kept_default]
    y = _MARGIN + 14
    parts: list[Child] = [text_line(_MARGIN, y, clean(result.shape), "title")]
    y += _LINE
    parts.append(text_line(_MARGIN, y, traffic_sentence(traffic)))
    for name, each in shown:
        y += _LINE
        parts += [_bar(y, name, _MARGIN, 14), text_line(_MARGIN + 22, y, _words(name, each))]
    for name, _ in shown if network.can_draw(result) else ():
        heading = f"The machine, {'as placed' if name == 'placed' else 'by default'} (predicted)"
        y += 2 * _LINE
        parts.append(text_line(_MARGIN, y, heading, "title"))
        picture = network.network_svg(result, name, label=heading)
        parts.append(element("g", {"transform": f"translate({_MARGIN:.0f} {y + 8:.0f})"}, picture))
        y += drawn_size(picture)[1]
    y += 2 * _LINE
    parts.append(text_line(_MARGIN, y, "Busiest link of each level (predicted)", "title"))
    levels = used_levels([each for _, each in shown])
    top = max((max(seconds) for *_, seconds in levels), default=0.0)
    for _, level, seconds in levels:
        y += 6
        parts.append(text_line(_MARGIN, y + _LINE, level))
        for (name, _), value in zip(shown, seconds, strict=True):
            y += _LINE
            width = _BARS * value / top
            at = _MARGIN + _NAMES + width + 6
            parts += [
                _bar(y, name, _MARGIN + _NAMES, width),
                text_line(at, y, format_seconds(value)),
            ]
    for name, each in shown:
        y += 2 * _LINE
        parts.append(text_line(_MARGIN, y, f"Busiest links, {name} (predicted)", "title"))
        for load in each.links[:_LINKS]:
            y += _LINE
            words = f"{clean(load.link)}: {format_seconds(load.congestion_s)}"
            parts.append(text_line(_MARGIN, y, words))
    label = f"placement on {clean(result.shape)}"
    size = (network.WIDTH + 2 * _MARGIN, y + _MARGIN)
    return standalone_svg("chart", size, label, *parts)


def used_levels(placements: Sequence[ScaleEvaluation]) -> list[tuple[int, str, list[float]]]:
    """Of each level that somebody uses its number, its name, and its busiest link's seconds."""
    levels = enumerate(zip(*(each.levels for each in placements), strict=True))
    rows = [(at, of[0].level, [each.max_congestion_s for each in of]) for at, of in levels]
    return [row for row in rows if max(row[2]) > 0]


def _words(name: str, each: ScaleEvaluation) -> str:
    time = format_seconds(each.predicted_s or 0.0)
    worst = format_seconds(each.max_congestion_s or 0.0)
    return f"{name}: predicted time {time}, busiest link {worst}"


def _bar(y: float, name: str, x: float, width: float) -> Markup:
    look = "fill-before" if name == "default" else "fill-after"
    return element("rect", {"class": look, "x": x, "y": y - 10, "width": width, "height": 11})
