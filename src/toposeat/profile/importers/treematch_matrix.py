"""Communication matrices of TreeMatch and TopoMatch: one line per rank, numbers between blanks.

Both tools take them as a weight without a direction, and most of their files are symmetric; what is
read here keeps each cell as bytes from the row's rank to the column's.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np

from toposeat.errors import InputError
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.profile.importers.text_matrix import (
    check_square,
    is_number,
    matrix_lines,
    whole_numbers,
)

MAX_ROUNDING = 0.01  # of all bytes: what rounding to whole bytes may change

_HINT = "expected one line per rank with the weight to each rank, separated by blanks"


def looks_like_treematch(text: str) -> bool:
    """Whether the first line that says something is numbers between blanks."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            cells = line.split()
            return len(cells) > 1 and all(is_number(cell) for cell in cells[:-1])
    return False


def read_treematch_matrix(path: str | Path) -> Traffic:
    """Read a dense matrix of weights, which are taken as bytes.

    Fractions are rounded to whole bytes, if that changes the sum by no more than `MAX_ROUNDING`.

    Raises:
        InputError: with the line number, on anything else.
    """
    lines = list(matrix_lines(path, str.split, hint=_HINT))
    check_square(path, lines, hint=_HINT)
    matrix = whole_numbers(path, lines, hint=_HINT, allow_fraction=True)
    exact = sum((Decimal(cell) for _, cells in lines for cell in cells), Decimal(0))
    total = sum(map(sum, matrix))
    if abs(exact - total) > exact * Decimal(MAX_ROUNDING):
        raise InputError(
            "the weights are too small to be bytes",
            path=path,
            hint="multiply the matrix, for example by 1e6: only the relation of its cells matters",
        )
    report = [
        "a TreeMatch matrix has no message counts: one message per pair of ranks is assumed",
        "a TreeMatch matrix does not say where the buffers were: device memory is assumed",
        "its weights are taken as bytes from the row's rank to the column's",
    ]
    if exact != total:
        report.append("weights with a fraction were rounded to whole bytes")
    return Traffic(
        ranks=len(lines),
        origin=f"TreeMatch matrix {Path(path).name}",
        tables={
            (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE): PairTable.from_dense(
                np.array(matrix, np.int64)
            )
        },
        report=tuple(report),
        timed=False,
    )
