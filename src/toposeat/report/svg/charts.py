"""Pictures of traffic: heat maps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toposeat.model.evaluation import Evaluation, MappingResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import MemorySpace, PairTable, Traffic
from toposeat.report.svg.element import (
    Attributes,
    Markup,
    Picture,
    Sheet,
    drawing,
    element,
    joined,
    number,
    rect,
    text_line,
    text_width,
)
from toposeat.report.svg.layout import Layout, lay_out_machine
from toposeat.report.units import (
    format_bytes,
)
from toposeat.report.view.loads import placements_of
from toposeat.report.view.traffic import (
    LEVELS,
    HeatScale,
    block_matrix,
    gain_words,
    heat_scale,
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
) -> Markup:
    """Bytes of `table` with rows (senders) and columns (receivers) in `order`.

    Args:
        table: the pairs to show.
        ranks: how many ranks there are.
        label: what the picture shows, for readers who cannot see it.
        order: ranks in drawing order; by number if None.
        splits: positions where a thin line separates groups of devices.
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
    scale = heat_scale(matrix)
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


def traffic_svg(traffic: Traffic) -> str:
    """A standalone SVG file of a profile: the communication matrix of each memory."""
    sheet = Sheet(traffic_sentence(traffic))
    for words in filter(None, (traffic.metadata.get("pattern", ""), gain_words(traffic))):
        sheet.line(words)
    for space in MemorySpace:
        if len(traffic.table(space=space)):
            words = f"Bytes sent from {space.value} memory, log scale; {_AXES}"
            sheet.picture(_heat_of(traffic, space, words))
    return sheet.svg(f"profile {traffic.origin}")


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
    return note, heat_legend(heat_scale(block_matrix(pairs, traffic.ranks, _MOST_CELLS)[0])), maps


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
