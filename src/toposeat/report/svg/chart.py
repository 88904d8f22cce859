"""Bars: congestion per link before and after."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.report.svg.element import Attributes, Child, Markup, element, fitted, joined, number
from toposeat.report.units import (
    format_seconds,
)

_ROW = 34.0
_PITCH = 24.0
_NAMES = 300.0
_BARS = 600.0
_VALUES = 84.0


def chart_svg(width: float, height: float, label: str, *children: Child, name: str = "") -> Markup:
    """An inline `<svg>` of a chart."""
    return element(
        "svg",
        {
            "class": f"chart {name}".strip(),
            "viewBox": f"0 0 {number(width)} {number(height)}",
            "width": round(width),
            "height": round(height),
            "role": "img",
            "aria-label": label,
        },
        *children,
    )


def single_bars(rows: Sequence[tuple[int, str, float]], *, placed: bool) -> Markup:
    """Congestion per link of one placement, the default or the placed: one bar per row."""
    top = max((seconds for _, _, seconds in rows), default=0.0)
    name = "placed" if placed else "default"
    parts = []
    for line, (index, link, seconds) in enumerate(rows):
        y = line * _PITCH + 4
        bar = _bar(y, seconds, top, "after" if placed else "before")
        words = f"{link}: {name} {format_seconds(seconds)}"
        parts.append(_bar_row(index, link, words, y, _PITCH, [bar]))
    label = f"predicted congestion per link, {name}"
    height = len(rows) * _PITCH + 6
    return chart_svg(_NAMES + _BARS + _VALUES, height, label, *parts, name="bars")


def paired_bars(rows: Sequence[tuple[int, str, float, float]], *, both: bool = True) -> Markup:
    """Congestion per link: one row per link with a bar for default and one for placed.

    Args:
        rows: (number of the link, its name, seconds before, seconds after), in drawing order.
        both: False draws only the first bar (the default was kept).
    """
    top = max((max(before, after) for _, _, before, after in rows), default=0.0)
    pitch = _ROW if both else _PITCH
    parts = []
    for line, (index, name, before, after) in enumerate(rows):
        y = line * pitch + 4
        words = f"{name}: default {format_seconds(before)}"
        bars = [_bar(y, before, top, "before")]
        if both:
            words += f", placed {format_seconds(after)}"
            bars.append(_bar(y + 13, after, top, "after"))
        parts.append(_bar_row(index, name, words, y, pitch, bars))
    label = "predicted congestion per link, default and placed"
    height = len(rows) * pitch + 6
    return chart_svg(_NAMES + _BARS + _VALUES, height, label, *parts, name="bars")


def _bar_row(  # noqa: PLR0917
    index: int, name: str, words: str, y: float, pitch: float, bars: Sequence[Markup]
) -> Markup:
    """A link's name and its one or two bars; pointing at the row shows `words`."""
    area: Attributes = {
        "class": "hit-row",
        "y": y - 4,
        "width": _NAMES + _BARS + _VALUES,
        "height": pitch,
    }
    label_y = y + (16.5 if len(bars) > 1 else 10)
    return element(
        "g",
        {"class": "bar-row", "data-link": index},
        element("title", {}, words),
        element("rect", area),
        element(
            "text",
            {"class": "end", "x": _NAMES - 10, "y": label_y},
            fitted(name, _NAMES - 10, 11),
        ),
        *bars,
    )


def _bar(y: float, value: float, top: float, which: str) -> Markup:
    width = _BARS * value / top if top > 0 else 0.0
    shown = max(width, 1.5) if value > 0 else 0.0
    bar: Attributes = {
        "class": f"fill-{which}",
        "x": _NAMES,
        "y": y,
        "width": shown,
        "height": 11,
        "rx": 2,
    }
    words = "idle" if value <= 0 else format_seconds(value)
    return joined(
        [
            element("rect", bar),
            element("text", {"class": "axis", "x": _NAMES + shown + 6, "y": y + 9.5}, words),
        ]
    )
