"""Charts of a profile: message sizes by kind and memory, share of the run, time per rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toposeat.model.traffic import MemorySpace, RankInfo, TrafficKind
from toposeat.report.svg.element import (
    Attributes,
    Child,
    Markup,
    element,
    fitted,
    joined,
    number,
)
from toposeat.report.units import (
    format_count,
    format_percent,
    format_power_of_two,
    format_seconds,
)
from toposeat.report.view.traffic import TimePart

_MOST_COLUMNS = 256  # of ranks; more are averaged in groups
_SHADE_OF_KIND = {
    TrafficKind.POINT_TO_POINT.value: "",
    TrafficKind.COLLECTIVE.value: " shade-2",
    TrafficKind.ONE_SIDED.value: " shade-3",
    "completion": " shade-3",
}


def _chart_svg(width: float, height: float, label: str, *children: Child) -> Markup:
    """An inline `<svg>` of a chart."""
    return element(
        "svg",
        {
            "class": "chart",
            "viewBox": f"0 0 {number(width)} {number(height)}",
            "width": round(width),
            "height": round(height),
            "role": "img",
            "aria-label": label,
        },
        *children,
    )


def fill_class(kind: str, space: MemorySpace | None) -> str:
    """The CSS classes of a kind of traffic or time: a colour per memory, a shade per kind."""
    if space is None:
        return "fill-other"
    return f"fill-{space.value}{_SHADE_OF_KIND.get(kind, '')}"


def size_histogram(series: Sequence[tuple[str, str, Sequence[int]]]) -> Markup | None:
    """Messages per power-of-two size, one part of the column per series.

    Args:
        series: CSS classes, name, counts per bucket.
    """
    total = [sum(column) for column in zip(*(counts for *_, counts in series), strict=True)]
    used = [bucket for bucket, count in enumerate(total) if count]
    if not used:
        return None
    first, last = max(0, used[0] - 1), min(len(total) - 1, used[-1] + 1)
    top = max(total)
    count = last - first + 1
    pitch = max(20.0, min(46.0, 440.0 / count))
    height, floor = 190.0, 150.0
    every = 1 if pitch >= 44 else 2 if pitch >= 26 else 3
    parts: list[Child] = []
    for place, bucket in enumerate(range(first, last + 1)):
        x = 8 + place * pitch
        here = [(look, name, counts[bucket]) for look, name, counts in series]
        parts.append(_stack((x, pitch - 4, floor), here, top, bucket))
        if place % every == 0:
            name = "empty" if bucket == 0 else format_power_of_two(bucket - 1)
            spot: Attributes = {"class": "axis mid", "x": x + (pitch - 4) / 2, "y": floor + 15}
            parts.append(element("text", spot, name))
    width = 16 + count * pitch
    line: Attributes = {"class": "heat-split", "x1": 4, "x2": width - 4, "y1": floor, "y2": floor}
    words = f"most in one column: {format_count(top)}"
    parts += [
        element("line", line),
        element("text", {"class": "axis", "x": 8, "y": floor + 34}, words),
    ]
    return _chart_svg(max(width, 300), height, "messages per size", *parts)


def _stack(
    place: tuple[float, float, float],
    counts: Sequence[tuple[str, str, int]],
    top: int,
    bucket: int,
) -> Markup:
    """One column at (x, width, floor); anything that is there is at least 1.5 pixels high."""
    x, width, floor = place
    room = floor - 12
    parts: list[Child] = []
    y = floor
    for look, _, count in counts:
        if count:
            tall = max(1.5, room * count / top)
            y -= tall
            spot: Attributes = {"x": x, "y": y, "width": width, "height": tall}
            parts.append(element("rect", {"class": look, **spot}))
    low = "empty" if bucket == 0 else f"{format_power_of_two(bucket - 1)} and up"
    words = ", ".join(f"{format_count(count)} {name}" for _, name, count in counts)
    return element("g", {}, element("title", {}, f"{low}: {words}"), *parts)


def share_bar(parts: Sequence[TimePart]) -> Markup | None:
    """The run's time as one bar: MPI by kind and memory, and the rest; None when not timed."""
    if not parts:
        return None
    left, wide, x = 8.0, 440.0, 8.0
    children: list[Child] = []
    for part in parts:
        width = wide * part.share
        look = "track" if part.name == "outside MPI" else part_class(part)
        spot: Attributes = {"class": look, "x": x, "y": 6, "width": width, "height": 34}
        words = f"{part.name}: {format_percent(part.share)}, {format_seconds(part.seconds)}"
        name = fitted(format_percent(part.share), width - 4, 10)
        label: Attributes = {"class": "axis mid", "x": x + width / 2, "y": 54}
        children.append(
            element(
                "g",
                {},
                element("title", {}, words),
                element("rect", spot),
                element("text", label, name) if name and "…" not in name else None,
            )
        )
        x += width
    frame: Attributes = {"class": "heat-back", "x": left, "y": 6, "width": wide, "height": 34}
    children.append(element("rect", frame))
    return _chart_svg(left * 2 + wide, 62, "share of the run's time", *children)


def part_class(part: TimePart) -> str:
    """The CSS classes of a part of the run's time."""
    return fill_class(part.name.partition(",")[0], part.space)


@dataclass(frozen=True, slots=True)
class _Column:
    """One rank's time, or the mean of a group's."""

    first: int
    words: str
    device: float  # shares of the run
    host: float
    other: float


def time_bars(ranks: Sequence[RankInfo]) -> Markup | None:
    """Measured share of wall time inside MPI, one column per rank; None when nothing was timed."""
    timed = [info for info in ranks if info.wall_s > 0]
    if not timed:
        return None
    columns = _columns(timed)
    pitch = max(4.0, min(30.0, 440.0 / len(columns)))
    floor, room = 128.0, 112.0
    every = next(n for n in (1, 2, 4, 8, 16, 32, 64, 10**9) if n * pitch >= 18)
    parts: list[Child] = []
    for place, column in enumerate(columns):
        x = 40 + place * pitch
        parts.append(_time_column(column, x, max(2.0, pitch - 3), floor, room))
        if place % every == 0:
            where: Attributes = {"class": "axis mid", "x": x + (pitch - 3) / 2, "y": floor + 14}
            parts.append(element("text", where, str(column.first)))
    for share in (0.0, 0.5, 1.0):
        y = floor - room * share + 3.5
        parts.append(element("text", {"class": "axis end", "x": 34, "y": y}, format_percent(share)))
    parts.append(element("text", {"class": "axis", "x": 40, "y": floor + 30}, "rank"))
    width = 48 + len(columns) * pitch
    return _chart_svg(width, 166, "share of time in MPI per rank", *parts)


def _columns(timed: Sequence[RankInfo]) -> list[_Column]:
    size = -(-len(timed) // _MOST_COLUMNS)
    groups = [timed[at : at + size] for at in range(0, len(timed), size)]
    return [_column(group) for group in groups]


def _column(group: Sequence[RankInfo]) -> _Column:
    wall = sum(info.wall_s for info in group)
    inside = min(sum(info.mpi_s for info in group) / wall, 1.0)
    share = {
        space: sum(t.seconds for info in group for t in info.time if t.space is space) / wall
        for space in MemorySpace
    }
    device, host = (min(share[space], inside) for space in MemorySpace)
    first, last = group[0], group[-1]
    unfinished = any(not info.finalized for info in group)
    who = f"rank {first.rank}" if first is last else f"ranks {first.rank} to {last.rank}"
    words = (
        f"{who}: {format_percent(inside)} of {format_seconds(wall / len(group))} in MPI"
        + (f", {format_percent(device)} on device buffers" if device else "")
        + (" (did not reach MPI_Finalize)" if unfinished else "")
    )
    return _Column(first.rank, words, device, host, max(inside - device - host, 0.0))


def _time_column(column: _Column, x: float, width: float, floor: float, room: float) -> Markup:
    spot: Attributes = {"x": x, "width": width}
    bars: list[Child] = [
        element("rect", {"class": "track", **spot, "y": floor - room, "height": room})
    ]
    y = floor
    for look, share in (
        ("fill-device", column.device),
        ("fill-host", column.host),
        ("fill-other", column.other),
    ):
        if share > 0:
            y -= room * share
            bars.append(element("rect", {"class": look, **spot, "y": y, "height": room * share}))
    return element("g", {}, element("title", {}, column.words), joined(bars))
