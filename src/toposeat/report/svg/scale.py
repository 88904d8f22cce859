"""A placement on a large machine as one standalone drawing: its picture, levels, busiest links."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.scale_result import ScaleEvaluation, ScaleResult
from toposeat.model.traffic import Traffic
from toposeat.report.svg import network
from toposeat.report.svg.chart import bar_pitch, congestion_bars
from toposeat.report.svg.element import Child, Markup, element, standalone_svg, text_line
from toposeat.report.units import clean, format_seconds
from toposeat.report.words import traffic_sentence

_MARGIN = 16.0
_LINKS = 12
_LINE = 18.0


def scale_svg(result: ScaleResult, traffic: Traffic) -> str:
    """A standalone SVG file. Every number is predicted."""
    y = _MARGIN + 14
    parts: list[Child] = [text_line(_MARGIN, y, clean(result.shape), "title")]
    y += _LINE
    parts.append(text_line(_MARGIN, y, traffic_sentence(traffic)))
    for name, each in (("default", result.default), ("placed", result.placed)):
        y += _LINE
        parts += [_swatch(y, name), text_line(_MARGIN + 22, y, _words(name, each))]
    for heading, chart, height in _charts(result):
        y += 2 * _LINE
        parts.append(text_line(_MARGIN, y, heading, "title"))
        parts.append(element("g", {"transform": f"translate({_MARGIN:.0f} {y + 8:.0f})"}, chart))
        y += height + 8
    height = y + _MARGIN
    label = f"placement on {clean(result.shape)}"
    return standalone_svg("chart", (network.WIDTH + 2 * _MARGIN, height), label, *parts)


def _charts(result: ScaleResult) -> list[tuple[str, Markup, float]]:
    """Heading, chart and its height."""
    both = [("default", result.default), ("placed", result.placed)]
    pictures = [] if not network.can_draw(result) else both[: 1 if result.kept_default else 2]
    charts = []
    for name, _ in pictures:
        heading = f"The machine, {'as placed' if name == 'placed' else 'by default'} (predicted)"
        charts.append((heading, *network.network_svg(result, name, label=heading)))
    used = len(_used_levels([each for _, each in both]))
    height = bar_pitch(2) * used + 6
    charts.append(("Busiest link of each level (predicted)", level_bars(both), height))
    for name, each in both:
        rows = [(0, clean(load.link), [load.congestion_s]) for load in each.links[:_LINKS]]
        height = bar_pitch(1) * len(rows) + 6
        charts.append((f"Busiest links, {name} (predicted)", congestion_bars(rows, name), height))
    return charts


def level_bars(placements: Sequence[tuple[str, ScaleEvaluation]]) -> Markup:
    """The busiest link of each level that somebody uses, under each placement by its name."""
    names = [name for name, _ in placements]
    return congestion_bars(_used_levels([each for _, each in placements]), *names)


def _used_levels(placements: Sequence[ScaleEvaluation]) -> list[tuple[int, str, list[float]]]:
    levels = enumerate(zip(*(each.levels for each in placements), strict=True))
    rows = [(at, of[0].level, [each.max_congestion_s for each in of]) for at, of in levels]
    return [row for row in rows if max(row[2]) > 0]


def _words(name: str, each: ScaleEvaluation) -> str:
    time = format_seconds(each.predicted_s or 0.0)
    worst = format_seconds(each.max_congestion_s or 0.0)
    return f"{name}: predicted time {time}, busiest link {worst}"


def _swatch(y: float, name: str) -> Markup:
    look = "fill-before" if name == "default" else "fill-after"
    return element("rect", {"class": look, "x": _MARGIN, "y": y - 9, "width": 14, "height": 10})
