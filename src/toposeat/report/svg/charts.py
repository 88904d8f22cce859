"""Pictures of traffic: heat maps, message sizes, share of the run, time per rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from toposeat.model.evaluation import Evaluation, MappingResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import MemorySpace, PairTable, RankInfo, Traffic, TrafficKind
from toposeat.report.svg.element import (
    Attributes,
    Child,
    Markup,
    Picture,
    Sheet,
    drawing,
    element,
    fitted,
    joined,
    number,
    rect,
    text_line,
    text_width,
    titled,
)
from toposeat.report.svg.layout import Layout, lay_out_machine
from toposeat.report.units import (
    format_bytes,
    format_count,
    format_percent,
    format_seconds,
)
from toposeat.report.view.loads import placements_of
from toposeat.report.view.traffic import (
    LEVELS,
    HeatScale,
    TimePart,
    block_matrix,
    bucket_words,
    gain_words,
    heat_scale,
    histogram_series,
    kind_words,
    rank_times,
    time_parts,
    traffic_sentence,
)

_SIDE = 336.0
_MAX_CELL = 26.0
_MOST_CELLS = 128
_EACH_WITH_TITLE = 40  # up to this many ranks every cell has a tooltip
_LEFT, _TOP = 34.0, 30.0
_AXES = "row sends, column receives"


def heat_map(
    table: PairTable,
    ranks: int,
    *,
    label: str,
    order: Sequence[int] | None = None,
    splits: Sequence[int] = (),
    scale: HeatScale | None = None,
) -> Markup:
    """Bytes of `table` with rows (senders) and columns (receivers) in `order`.

    Args:
        table: the pairs to show.
        ranks: how many ranks there are.
        label: what the picture shows, for readers who cannot see it.
        order: ranks in drawing order; by number if None.
        splits: positions where a thin line separates groups of devices.
        scale: of colours; that of this table if None.
    """
    order = list(order if order is not None else range(ranks))
    place = np.zeros(ranks, dtype=np.int64)
    place[np.asarray(order, dtype=np.int64)] = np.arange(ranks)
    moved = PairTable.from_pairs(
        place[table.source], place[table.target], table.bytes, table.messages
    )
    matrix, block = block_matrix(moved, ranks, _MOST_CELLS)
    size = matrix.shape[0]
    cell = min(_MAX_CELL, _SIDE / size)
    side = cell * size
    scale = scale or heat_scale(matrix)
    cells = (
        _titled_cells(matrix, order, cell, scale)
        if size <= _EACH_WITH_TITLE
        else _cells(matrix, cell, scale)
    )
    return drawing(
        "chart heat",
        (_LEFT + side + 6, _TOP + side + 6),
        label,
        _axes(order, cell, block),
        element("g", {"transform": f"translate({_LEFT:.0f} {_TOP:.0f})"}, cells),
        _split_lines(splits, cell / block, side),
        rect("heat-back", _LEFT, _TOP, side, side),
    )


def heat_legend(scale: HeatScale) -> Markup:
    """Little squares from few to many bytes, with the ends of the scale named."""
    squares = [rect(f"heat-{n}", 14 * (n - 1), 2, 14, 12) for n in range(1, LEVELS)]
    bar = element(
        "svg",
        {"class": "chart swatch", "width": 14 * (LEVELS - 1), "height": 16, "aria-hidden": "true"},
        *squares,
    )
    words = f" {format_bytes(scale.high)} a cell, log scale; {_AXES}"
    low = f"{format_bytes(scale.low)} or less "
    return joined([element("span", {}, low), bar, element("span", {}, words)])


def _scale_of(ranks: int, *tables: PairTable) -> HeatScale:
    """The one scale of the heat maps of some tables."""
    return heat_scale(np.stack([block_matrix(each, ranks, _MOST_CELLS)[0] for each in tables]))


def _titled_cells(
    matrix: NDArray[np.int64], order: Sequence[int], cell: float, scale: HeatScale
) -> Markup:
    found = []
    for row, column in zip(*np.nonzero(matrix), strict=True):
        size = float(matrix[row, column])
        spot = {"x": float(column * cell + 0.5), "y": float(row * cell + 0.5)}
        look: Attributes = {"class": f"heat-{scale.level(size)}", **spot}
        title = f"rank {order[row]} -> {order[column]}: {format_bytes(size)}"
        sides: Attributes = {"width": cell - 1, "height": cell - 1}
        found.append(element("rect", {**look, **sides}, element("title", {}, title)))
    return joined(found)


def _cells(matrix: NDArray[np.int64], cell: float, scale: HeatScale) -> Markup:
    """One path per level: thousands of cells stay small."""
    paths: dict[int, list[str]] = defaultdict(list)
    step = number(cell)
    for row, column in zip(*np.nonzero(matrix), strict=True):
        at = f"M{number(column * cell)} {number(row * cell)}h{step}v{step}h-{step}z"
        paths[scale.level(float(matrix[row, column]))].append(at)
    return joined(
        element("path", {"class": f"heat-{level}", "d": "".join(parts)})
        for level, parts in sorted(paths.items())
    )


def _axes(order: Sequence[int], cell: float, block: int) -> Markup:
    """Rank numbers along the top and the left, as many as have room."""
    pitch = cell / block  # of one rank
    room = max(15.0, text_width(str(len(order) - 1), 10) + 5)
    every = next(n for n in (*(2**k for k in range(17)), 10**9) if n * pitch >= room)
    parts = [text_line(_LEFT, 10.0, "rank", "axis")]
    for place in range(0, len(order), every):
        middle = (place + 0.5) * pitch
        name = str(order[place])
        parts.append(text_line(_LEFT + middle, _TOP - 5, name, "axis mid"))
        parts.append(text_line(_LEFT - 5, _TOP + middle + 3.5, name, "axis end"))
    return joined(parts)


def _split_lines(splits: Sequence[int], pitch: float, side: float) -> Markup:
    parts = []
    for split in splits:
        if split <= 0:
            continue
        at = split * pitch
        across: Attributes = {"x1": _LEFT, "x2": _LEFT + side, "y1": _TOP + at, "y2": _TOP + at}
        down: Attributes = {"y1": _TOP, "y2": _TOP + side, "x1": _LEFT + at, "x2": _LEFT + at}
        parts += [element("line", {"class": "heat-split", **line}) for line in (across, down)]
    return joined(parts)


_MOST_COLUMNS = 256  # of ranks
_SHADE_OF_KIND = {
    TrafficKind.POINT_TO_POINT.value: "",
    TrafficKind.COLLECTIVE.value: " shade-2",
    TrafficKind.ONE_SIDED.value: " shade-3",
    "completion": " shade-3",
}


def fill_class(kind: str, space: MemorySpace | None) -> str:
    """The CSS classes of a kind of traffic or time: a colour per memory, a shade per kind."""
    if space is None:
        return "fill-other"
    return f"fill-{space.value}{_SHADE_OF_KIND.get(kind, '')}"


def size_histogram(series: Sequence[tuple[str, str, Sequence[int]]]) -> Markup | None:
    """Messages per power-of-two size, one part of the column per series.

    A series is CSS classes, a name, and counts per bucket.
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
        # Anything that is there is at least 1.5 pixels high.
        seen = ((look, max(1.5, (floor - 12) * n / top)) for look, _, n in here if n)
        low = bucket_words(bucket, " and up")
        words = ", ".join(f"{format_count(n)} {name}" for _, name, n in here)
        parts.append(titled(f"{low}: {words}", *_above_each_other(x, floor, pitch - 4, seen)))
        if place % every == 0:
            name = bucket_words(bucket, "")
            parts.append(text_line(x + (pitch - 4) / 2, floor + 15, name, "axis mid"))
    width = 16 + count * pitch
    line: Attributes = {"class": "heat-split", "x1": 4, "x2": width - 4, "y1": floor, "y2": floor}
    words = f"most in one column: {format_count(top)}"
    parts += [
        element("line", line),
        text_line(8, floor + 34, words, "axis"),
    ]
    return drawing("chart", (max(width, 300), height), "messages per size", *parts)


def _above_each_other(
    x: float, floor: float, width: float, parts: Iterable[tuple[str, float]]
) -> list[Child]:
    """A rectangle for each look and height, the first on the floor."""
    drawn: list[Child] = []
    for look, height in parts:
        floor -= height
        drawn.append(rect(look, x, floor, width, height))
    return drawn


def share_bar(parts: Sequence[TimePart]) -> Markup | None:
    """The run's time as one bar: MPI by kind and memory, and the rest; None when not timed."""
    if not parts:
        return None
    left, wide, x = 8.0, 440.0, 8.0
    children: list[Child] = []
    for part in parts:
        width = wide * part.share
        look = "track" if part.name == "outside MPI" else part_class(part)
        words = f"{part.name}: {format_percent(part.share)}, {format_seconds(part.seconds)}"
        name = fitted(format_percent(part.share), width - 4, 10)
        shown = text_line(x + width / 2, 54, name, "axis mid") if name and "…" not in name else None
        children.append(titled(words, rect(look, x, 6, width, 34), shown))
        x += width
    children.append(rect("heat-back", left, 6, wide, 34))
    return drawing("chart", (left * 2 + wide, 62), "share of the run's time", *children)


def part_class(part: TimePart) -> str:
    """The CSS classes of a part of the run's time."""
    return fill_class(part.name.partition(",")[0], part.space)


def time_bars(ranks: Sequence[RankInfo]) -> Markup | None:
    """Measured share of wall time inside MPI, one column per rank; None when nothing was timed."""
    columns = rank_times(ranks, _MOST_COLUMNS)
    if not columns:
        return None
    pitch = max(4.0, min(30.0, 440.0 / len(columns)))
    floor, room = 128.0, 112.0
    every = next(n for n in (1, 2, 4, 8, 16, 32, 64, 10**9) if n * pitch >= 18)
    parts: list[Child] = []
    for place, column in enumerate(columns):
        x = 40 + place * pitch
        width = max(2.0, pitch - 3)
        shares = zip(("device", "host", "other"), column.shares, strict=True)
        heights = ((f"fill-{what}", room * share) for what, share in shares if share > 0)
        bars = _above_each_other(x, floor, width, heights)
        parts.append(titled(column.words, rect("track", x, floor - room, width, room), *bars))
        if place % every == 0:
            parts.append(text_line(x + (pitch - 3) / 2, floor + 14, str(column.first), "axis mid"))
    for share in (0.0, 0.5, 1.0):
        y = floor - room * share + 3.5
        parts.append(text_line(34, y, format_percent(share), "axis end"))
    parts.append(text_line(40, floor + 30, "rank", "axis"))
    width = 48 + len(columns) * pitch
    return drawing("chart", (width, 166), "share of time in MPI per rank", *parts)


def traffic_svg(traffic: Traffic) -> str:
    """A standalone SVG file of a profile.

    In the manner of figures 10 to 12 of the paper that toposeat follows: the communication matrix,
    the distribution of message sizes and the share of the run's time.
    """
    sheet = Sheet(traffic_sentence(traffic))
    for words in filter(None, (traffic.metadata.get("pattern", ""), gain_words(traffic))):
        sheet.line(words)
    maps = [
        _heat_of(traffic, space, f"Bytes sent from {space.value} memory, log scale; {_AXES}")
        for space in MemorySpace
        if len(traffic.table(space=space))
    ]
    for picture in (*maps, size_picture(traffic), *time_pictures(traffic)[:1]):
        if picture is not None:
            sheet.picture(picture)
    return sheet.svg(f"profile {traffic.origin}")


def size_picture(traffic: Traffic) -> Picture | None:
    """The histogram of message sizes, if it was recorded."""
    series = [
        (fill_class(kind.value, space), kind_words(kind.value, space), counts)
        for kind, space, counts in histogram_series(traffic)
    ]
    chart = size_histogram(series) if series else None
    if chart is None:
        return None
    name = "Messages by size (from the size named, up to twice it)"
    return Picture(name, "", chart, [(look, words) for look, words, _ in series])


def time_pictures(traffic: Traffic) -> list[Picture]:
    """Share of the run and time of each rank; nothing where no time was measured."""
    parts = time_parts(traffic)
    bar, ranks = share_bar(parts), time_bars(traffic.rank_info)
    if bar is None or ranks is None:
        return []
    legend = [(part_class(p), f"{p.name} ({format_percent(p.share)})") for p in parts[:-1]]
    heading = "Share of the run's time (measured while profiling)"
    return [Picture(heading, "", bar, legend), Picture("Time in MPI per rank", "", ranks)]


def heat_pictures(
    result: MappingResult | None, topology: Topology | None, traffic: Traffic
) -> tuple[str, Markup | None, list[Picture]]:
    """Heat maps: by device before and after if mapped, else by rank and memory.

    Before them what is said of their order, and their legend.
    """
    pairs = traffic.mapped_table()
    if result is None or topology is None or not len(pairs):
        spaces = [each for each in MemorySpace if len(traffic.table(space=each))]
        return "", None, [_heat_of(traffic, each) for each in spaces]
    space = traffic.mapped_space
    what = f"{space.value} memory" if space is not None else "all memory"
    layout = lay_out_machine(topology)
    maps = []
    for name, evaluation in placements_of(result):
        order, splits = _device_order(evaluation, topology, layout)
        words = f"{what}, {name} order"
        label = f"bytes sent: {words}"
        drawn = heat_map(pairs, traffic.ranks, label=label, order=order, splits=splits)
        maps.append(Picture(words, "", drawn))
    if space is MemorySpace.DEVICE and len(traffic.table(space=MemorySpace.HOST)):
        maps.append(_heat_of(traffic, MemorySpace.HOST))
    note = (
        "Ranks in the order of the devices they sit on, left to right in the drawing; lines"
        " separate packages. Near the diagonal is near in the machine."
    )
    return note, heat_legend(_scale_of(traffic.ranks, pairs)), maps


def _heat_of(traffic: Traffic, space: MemorySpace, name: str = "") -> Picture:
    words = name or f"{space.value} memory, by rank"
    pairs = traffic.table(space=space)
    drawn = heat_map(pairs, traffic.ranks, label=name or f"bytes sent: {words}")
    return Picture(words, "", drawn)


def _device_order(
    evaluation: Evaluation, topology: Topology, layout: Layout
) -> tuple[list[int], tuple[int, ...]]:
    """Ranks in the order of their devices in the drawing, and where a new group begins."""
    position = {device.id: number for number, device in enumerate(topology.devices)}
    ranks: dict[int, list[int]] = {}
    for rank, device in enumerate(evaluation.device_of_rank):
        ranks.setdefault(device, []).append(rank)
    order: list[int] = []
    splits = []
    for place, vertex in enumerate(layout.device_order):
        if place in layout.group_starts:
            splits.append(len(order))
        order += ranks.get(position[vertex], [])
    return order, tuple(s for s in splits if 0 < s < len(order))
