"""A traffic matrix in a text file: comma-separated bytes, row = sender, column = receiver."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.profile.importers.text_matrix import (
    Line,
    check_square,
    is_number,
    matrix_lines,
    whole_numbers,
    wrong_width,
)

_HINT = "expected one line per sender with the bytes to each receiver, separated by commas"


def read_csv_matrix(path: str | Path) -> Traffic:
    """Read a square matrix of bytes.

    Lines that are empty or begin with `#` are skipped. The first line may be a header; then the
    first column may hold labels (the corner cell is empty or text). Numbers are whole, not
    negative, in any usual notation (`1048576`, `1e6`).

    The file says neither how many messages there were nor where the buffers lay: one message per
    pair and device memory are assumed, and the traffic's `report` says so.

    Raises:
        InputError: with the line number, on anything else.
    """
    lines = _without_labels(path, list(matrix_lines(path, _split, hint=_HINT)))
    check_square(path, lines, hint=_HINT)
    matrix = whole_numbers(path, lines, hint=_HINT)
    return Traffic(
        ranks=len(lines),
        origin=f"CSV matrix {Path(path).name}",
        tables={
            (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE): PairTable.from_dense(
                np.array(matrix, np.int64)
            )
        },
        report=(
            "a CSV matrix has no message counts: one message per pair of ranks is assumed",
            "a CSV matrix does not say where the buffers were: device memory is assumed",
        ),
        timed=False,
    )


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")]


def _without_labels(path: str | Path, lines: list[Line]) -> list[Line]:
    """Drops a header line, and with it a column of labels where the rows have one."""
    if not lines or all(is_number(cell) for cell in lines[0][1]):
        return lines
    header, rows = lines[0][1], lines[1:]
    if any(is_number(cell) for cell in header) and header[0] != "":
        return lines  # not a header but a damaged row: let it be named
    labelled = rows and len(rows[0][1]) == len(rows) + 1
    if not labelled:
        return rows
    for number, cells in rows:
        if len(cells) != len(rows) + 1:
            raise wrong_width(path, number, len(cells), len(rows) + 1, hint=_HINT)
    return [(number, cells[1:]) for number, cells in rows]
