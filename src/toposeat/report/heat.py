"""Levels of a logarithmic heat scale, and large matrices summed to blocks. Display only."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from toposeat.model.traffic import PairTable

LEVELS = 8  # 0 is nothing
_DECADES = 3.5  # the scale reaches this far below the largest value


def heat_level(value: float, largest: float, *, levels: int = LEVELS) -> int:
    """0 for nothing, else 1 .. levels - 1 on a log scale that ends at `largest`."""
    if value <= 0 or largest <= 0:
        return 0
    below = min(math.log10(largest / value), _DECADES) / _DECADES
    return 1 + round((1 - max(below, 0.0)) * (levels - 2))


def block_matrix(table: PairTable, ranks: int, cells: int) -> tuple[NDArray[np.int64], int]:
    """Bytes as a square matrix of at most `cells` rows, and how many ranks one row stands for."""
    block = max(1, -(-ranks // max(1, cells)))
    size = -(-ranks // block)
    matrix = np.zeros((size, size), dtype=np.int64)
    np.add.at(matrix, (table.source // block, table.target // block), table.bytes)
    return matrix, block
