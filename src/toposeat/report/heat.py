"""Levels of a logarithmic heat scale, and large matrices summed to blocks. Display only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toposeat.model.traffic import PairTable

LEVELS = 8  # 0 is nothing
_DECADES = (1.0, 4.0)  # the scale reaches at least and at most this far below the largest value


@dataclass(frozen=True, slots=True)
class HeatScale:
    """A log scale from `low` (or less) to `high`; both 0 when there is nothing to show."""

    low: float
    high: float

    def level(self, value: float) -> int:
        """0 for nothing, else 1 .. `LEVELS` - 1."""
        if value <= 0 or self.high <= 0:
            return 0
        span = math.log10(self.high / self.low)
        below = min(max(math.log10(self.high / value), 0.0), span) / span
        return 1 + round((1 - below) * (LEVELS - 2))


def heat_scale(matrix: NDArray[np.int64]) -> HeatScale:
    """The scale that fits the non-zero cells of `matrix`."""
    cells = matrix[matrix > 0]
    if not cells.size:
        return HeatScale(0.0, 0.0)
    high = float(cells.max())
    decades = min(max(math.log10(high / float(cells.min())), _DECADES[0]), _DECADES[1])
    return HeatScale(high / 10**decades, high)


def block_matrix(table: PairTable, ranks: int, cells: int) -> tuple[NDArray[np.int64], int]:
    """Bytes as a square matrix of at most `cells` rows, and how many ranks one row stands for."""
    block = max(1, -(-ranks // max(1, cells)))
    size = -(-ranks // block)
    matrix = np.zeros((size, size), dtype=np.int64)
    np.add.at(matrix, (table.source // block, table.target // block), table.bytes)
    return matrix, block
