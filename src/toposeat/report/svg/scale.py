"""A placement on a large machine as one standalone drawing: congestion per level, busiest links."""

from __future__ import annotations

from toposeat.model.scale_result import ScaleEvaluation, ScaleResult
from toposeat.model.traffic import Traffic
from toposeat.report.svg.chart import paired_bars, single_bars
from toposeat.report.svg.element import Child, Markup, element
from toposeat.report.svg.machine import style_sheet
from toposeat.report.units import clean, format_seconds
from toposeat.report.words import traffic_sentence

_MARGIN = 16.0
_WIDTH = 1020.0
_LINKS = 12
_LINE = 18.0


def scale_svg(result: ScaleResult, traffic: Traffic) -> str:
    """A standalone SVG file. Every number is predicted."""
    y = _MARGIN + 14
    parts: list[Child] = [_text(y, clean(result.shape), "title")]
    y += _LINE
    parts.append(_text(y, traffic_sentence(traffic)))
    for name, each in (("default", result.default), ("placed", result.placed)):
        y += _LINE
        parts += [_swatch(y, name), _text(y, _words(name, each), x=_MARGIN + 22)]
    for heading, chart, height in _charts(result):
        y += 2 * _LINE
        parts.append(_text(y, heading, "title"))
        parts.append(element("g", {"transform": f"translate({_MARGIN:.0f} {y + 8:.0f})"}, chart))
        y += height + 8
    height = y + _MARGIN
    svg = element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "chart standalone",
            "viewBox": f"0 0 {_WIDTH:.0f} {height:.0f}",
            "width": round(_WIDTH),
            "height": round(height),
            "role": "img",
            "aria-label": f"placement on {clean(result.shape)}",
        },
        element("style", {}, Markup(style_sheet())),
        element("rect", {"class": "paper", "width": round(_WIDTH), "height": round(height)}),
        *parts,
    )
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + svg + "\n"


def _charts(result: ScaleResult) -> list[tuple[str, Markup, float]]:
    """Heading, chart and its height."""
    levels = used_levels(result)
    charts = [
        ("Busiest link of each level (predicted)", paired_bars(levels), 34.0 * len(levels) + 6)
    ]
    for name, each in (("default", result.default), ("placed", result.placed)):
        rows = [(0, clean(load.link), load.congestion_s) for load in each.links[:_LINKS]]
        chart = single_bars(rows, placed=name == "placed")
        charts.append((f"Busiest links, {name} (predicted)", chart, 24.0 * len(rows) + 6))
    return charts


def used_levels(result: ScaleResult) -> list[tuple[int, str, float, float]]:
    """Rows of `paired_bars`: levels that somebody uses, busiest link before and after."""
    return [
        (number, before.level, before.max_congestion_s, after.max_congestion_s)
        for number, (before, after) in enumerate(
            zip(result.default.levels, result.placed.levels, strict=True)
        )
        if max(before.max_congestion_s, after.max_congestion_s) > 0
    ]


def _words(name: str, each: ScaleEvaluation) -> str:
    time = format_seconds(each.predicted_s or 0.0)
    worst = format_seconds(each.max_congestion_s or 0.0)
    return f"{name}: predicted time {time}, busiest link {worst}"


def _swatch(y: float, name: str) -> Markup:
    look = "fill-before" if name == "default" else "fill-after"
    return element("rect", {"class": look, "x": _MARGIN, "y": y - 9, "width": 14, "height": 10})


def _text(y: float, words: str, look: str = "", *, x: float = _MARGIN) -> Markup:
    return element("text", {"class": look or None, "x": x, "y": y}, words)
