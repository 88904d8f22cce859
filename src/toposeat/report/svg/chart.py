"""Bars: congestion per link before and after, message sizes, time per rank."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.traffic import RankInfo
from toposeat.report.svg.element import Attributes, Child, Markup, element, fitted, joined, number
from toposeat.report.units import (
    format_count,
    format_percent,
    format_power_of_two,
    format_seconds,
)

_ROW = 34.0
_NAMES = 300.0
_BARS = 600.0
_VALUES = 84.0


def _svg(width: float, height: float, label: str, *children: Child, name: str = "") -> Markup:
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


def paired_bars(rows: Sequence[tuple[int, str, float, float]], *, both: bool = True) -> Markup:
    """Congestion per link: one row per link with a bar for default and one for placed.

    Args:
        rows: (number of the link, its name, seconds before, seconds after), in drawing order.
        both: False draws only the first bar (the default was kept).
    """
    top = max((max(before, after) for _, _, before, after in rows), default=0.0)
    pitch = _ROW if both else 24.0
    parts = []
    for line, (index, name, before, after) in enumerate(rows):
        y = line * pitch + 4
        words = f"{name}: default {format_seconds(before)}"
        bars = [_bar(y, before, top, "before")]
        if both:
            words += f", placed {format_seconds(after)}"
            bars.append(_bar(y + 13, after, top, "after"))
        label_y = y + (16.5 if both else 10)
        parts.append(
            element(
                "g",
                {"class": "bar-row", "data-link": index},
                element("title", {}, words),
                element(
                    "rect",
                    {
                        "class": "hit-row",
                        "y": y - 4,
                        "width": _NAMES + _BARS + _VALUES,
                        "height": pitch,
                    },
                ),
                element(
                    "text",
                    {"class": "end", "x": _NAMES - 10, "y": label_y},
                    fitted(name, _NAMES - 10, 11),
                ),
                *bars,
            )
        )
    label = "predicted congestion per link, default and placed"
    height = len(rows) * pitch + 6
    return _svg(_NAMES + _BARS + _VALUES, height, label, *parts, name="bars")


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


def size_histogram(device: Sequence[int], host: Sequence[int]) -> Markup | None:
    """Messages per power-of-two size, device and host stacked; None when there are none."""
    used = [n for n in range(len(device)) if device[n] or host[n]]
    if not used:
        return None
    first, last = max(0, used[0] - 1), min(len(device) - 1, used[-1] + 1)
    top = max(device[n] + host[n] for n in used)
    count = last - first + 1
    pitch = max(20.0, min(46.0, 640.0 / count))
    height, floor = 190.0, 150.0
    every = 1 if pitch >= 44 else 2 if pitch >= 26 else 3
    parts = []
    for place, bucket in enumerate(range(first, last + 1)):
        x = 8 + place * pitch
        parts.append(_stack((x, pitch - 4, floor), (device[bucket], host[bucket]), top, bucket))
        if place % every == 0:
            name = "empty" if bucket == 0 else format_power_of_two(bucket - 1)
            spot: Attributes = {
                "class": "axis mid",
                "x": x + (pitch - 4) / 2,
                "y": floor + 15,
            }
            parts.append(element("text", spot, name))
    width = 16 + count * pitch
    parts.append(
        element("line", {"class": "heat-split", "x1": 4, "x2": width - 4, "y1": floor, "y2": floor})
    )
    words = f"most in one column: {format_count(top)} messages"
    parts.append(element("text", {"class": "axis", "x": 8, "y": floor + 34}, words))
    return _svg(max(width, 300), height, "messages per size", *parts)


def _stack(
    place: tuple[float, float, float], counts: tuple[int, int], top: int, bucket: int
) -> Markup:
    """One column at (x, width, floor); anything that is there is at least 1.5 pixels high."""
    x, width, floor = place
    device, host = counts
    room = floor - 12
    parts: list[Child] = []
    y = floor
    for which, count in (("device", device), ("host", host)):
        if count:
            tall = max(1.5, room * count / top)
            y -= tall
            spot: Attributes = {"x": x, "y": y, "width": width, "height": tall}
            parts.append(element("rect", {"class": f"fill-{which}", **spot}))
    low = "empty" if bucket == 0 else f"{format_power_of_two(bucket - 1)} and up"
    words = f"{low}: {format_count(device)} device, {format_count(host)} host messages"
    return element("g", {}, element("title", {}, words), *parts)


def time_bars(ranks: Sequence[RankInfo]) -> Markup | None:
    """Measured share of wall time inside MPI, one column per rank; None when nothing was timed."""
    timed = [info for info in ranks if info.wall_s > 0]
    if not timed:
        return None
    pitch = max(4.0, min(30.0, 620.0 / len(timed)))
    floor, room = 128.0, 112.0
    every = next(n for n in (1, 2, 4, 8, 16, 32, 64, 10**9) if n * pitch >= 18)
    parts: list[Child] = []
    for place, info in enumerate(timed):
        x, share = 40 + place * pitch, min(1.0, info.mpi_s / info.wall_s)
        spot: Attributes = {"x": x, "width": max(2.0, pitch - 3)}
        tall = room * share
        words = (
            f"rank {info.rank}: {format_percent(share)} of {format_seconds(info.wall_s)} in MPI"
            + ("" if info.finalized else " (did not reach MPI_Finalize)")
        )
        parts.append(
            element(
                "g",
                {},
                element("title", {}, words),
                element("rect", {"class": "track", **spot, "y": floor - room, "height": room}),
                element(
                    "rect", {"class": "fill-device", **spot, "y": floor - tall, "height": tall}
                ),
            )
        )
        if place % every == 0:
            where: Attributes = {"class": "axis mid", "x": x + (pitch - 3) / 2, "y": floor + 14}
            parts.append(element("text", where, str(info.rank)))
    for share in (0.0, 0.5, 1.0):
        y = floor - room * share + 3.5
        parts.append(element("text", {"class": "axis end", "x": 34, "y": y}, format_percent(share)))
    parts.append(element("text", {"class": "axis", "x": 40, "y": floor + 30}, "rank"))
    return _svg(48 + len(timed) * pitch, 166, "share of time in MPI per rank", *parts)
