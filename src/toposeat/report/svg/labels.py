"""Where the rate of each link stands: beside straight lines, on curves, on nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toposeat.report.svg.element import Child, Markup, element, rect, text_line, text_width
from toposeat.report.svg.layout import Layout, Wire

SIZE = 10.0  # of letters
_HEIGHT = 12.0
_MOST_CURVES = 160  # more of them hide each other: the key has their rates
_SHARES = (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82, 0.12, 0.88)  # along a line
_Edges = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class _Spot:
    x: float  # the middle of the words
    y: float
    width: float

    @property
    def edges(self) -> _Edges:
        half = self.width / 2
        return self.x - half, self.y - _HEIGHT / 2, self.x + half, self.y + _HEIGHT / 2

    def is_inside(self, layout: Layout) -> bool:
        """Whether the picture has all of it."""
        left, top, right, bottom = self.edges
        return min(left, top) >= 0 and right <= layout.width and bottom <= layout.height


def rate_labels(lines: Sequence[Wire], words: Sequence[str], layout: Layout) -> list[Markup]:
    """The words of each line, where they fit without hiding something.

    Of all places that are free the one that the fewest other lines pass is taken; a line without a
    free place goes without.
    """
    frames = [(f.x, f.y + 4, f.x + f.width, f.y + 22) for f in layout.frames if f.label]
    boxes = [*layout.boxes.values(), *layout.buses, *layout.risers]
    taken: list[_Edges] = frames + [(b.x, b.y, b.right, b.bottom) for b in boxes]
    taken += [(x - 20, y - 18, x + 20, y - 4) for x, y in _named(lines)]
    segments, owner = _segments(lines)
    curves = sum(line.is_curved for line in lines)
    found = []
    for at in sorted(range(len(lines)), key=lambda n: (lines[n].is_curved, lines[n].length)):
        line = lines[at]
        if line.is_curved and curves > _MOST_CURVES:
            continue
        width = text_width(words[at], SIZE) + 2
        spots = (spot for spot in _spots(line, width) if spot.is_inside(layout))
        there = np.array(taken)
        free = [spot for spot in spots if not _hits(there, spot).any()]
        if not free:
            continue
        passed = [len(np.unique(owner[_hits(segments, s) & (owner != at)])) for s in free]
        best = free[int(np.argmin(passed))]
        taken.append(best.edges)
        found.append(_label(best, words[at], line))
    return found


def _named(lines: Sequence[Wire]) -> list[tuple[float, float]]:
    return [(line.label_x, line.label_y) for line in lines if line.room]


def _spots(line: Wire, width: float) -> Iterator[_Spot]:
    (x1, y1), (x2, y2) = line.points[0], line.points[-1]
    for share in _SHARES:
        if line.is_curved:
            x, y = line.points[round(share * (len(line.points) - 1))]
            yield _Spot(x, y, width)
        elif x1 == x2:
            for side in (1, -1):
                yield _Spot(x1 + side * (width / 2 + 4), y1 + share * (y2 - y1), width)
        else:
            for off in (9.0, -9.0, 20.0, -20.0):
                yield _Spot(x1 + share * (x2 - x1), y1 + off, width)


def _segments(lines: Sequence[Wire]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Boxes around short pieces of all lines, and the number of the line of each."""
    boxes, owner = [], []
    for at, line in enumerate(lines):
        points = np.array(line.points)
        low, high = np.minimum(points[:-1], points[1:]) - 2, np.maximum(points[:-1], points[1:]) + 2
        boxes.append(np.hstack([low, high]))
        owner += [at] * len(low)
    return np.vstack(boxes) if boxes else np.empty((0, 4)), np.array(owner, np.int64)


def _hits(boxes: NDArray[np.float64], spot: _Spot) -> NDArray[np.bool_]:
    left, top, right, bottom = spot.edges
    boxes = boxes.reshape(-1, 4)
    return (
        (boxes[:, 0] < right) & (boxes[:, 2] > left) & (boxes[:, 1] < bottom) & (boxes[:, 3] > top)
    )


def _label(spot: _Spot, words: str, line: Wire) -> Markup:
    left, top, _, _ = spot.edges
    paper: Child = rect(None, left, top, spot.width, _HEIGHT, rx=3) if line.is_curved else None
    return element("g", {"class": "rate"}, paper, text_line(spot.x, spot.y + 3.5, words))
