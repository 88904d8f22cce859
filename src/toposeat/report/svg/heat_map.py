"""The heat map of traffic: bytes by sender and receiver, on a logarithmic scale."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toposeat.model.traffic import PairTable
from toposeat.report.heat import LEVELS, HeatScale, block_matrix, heat_scale
from toposeat.report.svg.element import (
    Attributes,
    Markup,
    element,
    joined,
    number,
    text_width,
)
from toposeat.report.units import format_bytes

_SIDE = 336.0
_MAX_CELL = 26.0
_MOST_CELLS = 128
_EACH_WITH_TITLE = 40  # up to this many ranks every cell has a tooltip
_LEFT, _TOP = 34.0, 30.0


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
    cells = _titled_cells(matrix, order, cell) if size <= _EACH_WITH_TITLE else _cells(matrix, cell)
    frame: Attributes = {"x": _LEFT, "y": _TOP, "width": side, "height": side}
    return element(
        "svg",
        {
            "class": "chart heat",
            "viewBox": f"0 0 {number(_LEFT + side + 6)} {number(_TOP + side + 6)}",
            "width": round(_LEFT + side + 6),
            "height": round(_TOP + side + 6),
            "role": "img",
            "aria-label": label,
        },
        _axes(order, cell, block),
        element("g", {"transform": f"translate({_LEFT:.0f} {_TOP:.0f})"}, cells),
        _split_lines(splits, cell / block, side),
        element("rect", {"class": "heat-back", **frame}),
    )


def heat_legend(table: PairTable, ranks: int) -> Markup:
    """Little squares from few to many bytes, with the ends of the scale named."""
    matrix, _ = block_matrix(table, ranks, _MOST_CELLS)
    scale: HeatScale = heat_scale(matrix)
    squares = [
        element(
            "rect", {"class": f"heat-{n}", "x": 14 * (n - 1), "y": 2, "width": 14, "height": 12}
        )
        for n in range(1, LEVELS)
    ]
    bar = element(
        "svg",
        {"class": "chart swatch", "width": 14 * (LEVELS - 1), "height": 16, "aria-hidden": "true"},
        *squares,
    )
    words = f" {format_bytes(scale.high)} a cell, log scale; row sends, column receives"
    low = f"{format_bytes(scale.low)} or less "
    return joined([element("span", {}, low), bar, element("span", {}, words)])


def _titled_cells(matrix: NDArray[np.int64], order: Sequence[int], cell: float) -> Markup:
    scale = heat_scale(matrix)
    found = []
    for row, column in zip(*np.nonzero(matrix), strict=True):
        size = float(matrix[row, column])
        found.append(
            element(
                "rect",
                {
                    "class": f"heat-{scale.level(size)}",
                    "x": float(column * cell + 0.5),
                    "y": float(row * cell + 0.5),
                    "width": cell - 1,
                    "height": cell - 1,
                },
                element("title", {}, f"rank {order[row]} -> {order[column]}: {format_bytes(size)}"),
            )
        )
    return joined(found)


def _cells(matrix: NDArray[np.int64], cell: float) -> Markup:
    """One path per level: thousands of cells stay small."""
    scale = heat_scale(matrix)
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
    parts = [element("text", {"class": "axis", "x": _LEFT, "y": 10.0}, "rank")]
    for place in range(0, len(order), every):
        middle = (place + 0.5) * pitch
        name = str(order[place])
        top: Attributes = {"class": "axis mid", "x": _LEFT + middle, "y": _TOP - 5}
        left: Attributes = {"class": "axis end", "x": _LEFT - 5, "y": _TOP + middle + 3.5}
        parts += [element("text", top, name), element("text", left, name)]
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
