"""Bars: congestion per link before and after."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.report.svg.element import Attributes, Child, Markup, element, fitted, joined, number
from toposeat.report.units import format_seconds

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


def congestion_bars(rows: Sequence[tuple[int, str, Sequence[float]]], *names: str) -> Markup:
    """Congestion per link: one row per link with a bar for each placement.

    Args:
        rows: (number of the link, its name, seconds of each placement), in drawing order.
        names: `default`, `placed` or both, in the order of the seconds.
    """
    top = max((max(seconds) for _, _, seconds in rows), default=0.0)
    pitch = bar_pitch(len(names))
    parts = []
    for line, (index, link, seconds) in enumerate(rows):
        y = line * pitch + 4
        words = [
            f"{name} {format_seconds(each)}" for name, each in zip(names, seconds, strict=True)
        ]
        bars = [
            _bar(y + 13 * at, each, top, "after" if name == "placed" else "before")
            for at, (name, each) in enumerate(zip(names, seconds, strict=True))
        ]
        parts.append(_bar_row(index, link, f"{link}: {', '.join(words)}", y, pitch, bars))
    label = f"predicted congestion per link, {' and '.join(names)}"
    height = len(rows) * pitch + 6
    return chart_svg(_NAMES + _BARS + _VALUES, height, label, *parts, name="bars")


def bar_pitch(bars: int) -> float:
    """How many pixels a link of so many bars takes."""
    return 34.0 if bars > 1 else 24.0


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
