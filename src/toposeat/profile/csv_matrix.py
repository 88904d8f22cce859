"""A traffic matrix in a text file: comma-separated bytes, row = sender, column = receiver."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np

from toposeat.errors import InputError
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind

_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})(e[+-]?\d{1,4})?", re.ASCII | re.I)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.ASCII | re.I)
_MAX_TOTAL = 2**63 - 1

_HINT = "expected one line per sender with the bytes to each receiver, separated by commas"

_Line = tuple[int, list[str]]  # line number, cells


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
    lines = list(_cells(path))
    lines = _without_labels(path, lines)
    if not lines:
        raise InputError("there is no number in the file", path=path, hint=_HINT)
    _check_square(path, lines)
    matrix = _numbers(path, lines)
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
    )


def _cells(path: str | Path) -> Iterator[_Line]:
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"cannot read: {error.strerror}", path=path, hint="give the path of a CSV file"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError("this is not a text file", path=path, hint=_HINT) from error
    # Only line feeds end lines here: splitlines() would also break at form feeds and the like, and
    # count differently from an editor.
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, [cell.strip() for cell in line.split(",")]


def _without_labels(path: str | Path, lines: list[_Line]) -> list[_Line]:
    """Drops a header line, and with it a column of labels where the rows have one."""
    if not lines or all(_is_number(cell) for cell in lines[0][1]):
        return lines
    header, rows = lines[0][1], lines[1:]
    if any(_is_number(cell) for cell in header) and header[0] != "":
        return lines  # not a header but a damaged row: let it be named
    labelled = rows and len(rows[0][1]) == len(rows) + 1
    if not labelled:
        return rows
    for number, cells in rows:
        if len(cells) != len(rows) + 1:
            raise _wrong_width(path, number, len(cells), len(rows) + 1)
    return [(number, cells[1:]) for number, cells in rows]


def _check_square(path: str | Path, lines: list[_Line]) -> None:
    width = len(lines[0][1])
    for number, cells in lines:
        if len(cells) != width:
            raise _wrong_width(path, number, len(cells), width)
    if len(lines) != width:
        raise InputError(
            f"the matrix is not square: {len(lines)} rows of {width} columns",
            path=path,
            line=lines[-1][0],
            hint="is the file truncated, or does it have a column of labels without a header?",
        )


def _wrong_width(path: str | Path, line: int, found: int, expected: int) -> InputError:
    return InputError(
        f"expected {expected} columns, found {found}", path=path, line=line, hint=_HINT
    )


def _numbers(path: str | Path, lines: list[_Line]) -> list[list[int]]:
    total = 0
    matrix = []
    for number, cells in lines:
        row = [_number(path, number, column, cell) for column, cell in enumerate(cells, start=1)]
        total += sum(row)
        if total > _MAX_TOTAL:
            raise InputError(
                "the bytes up to this line do not fit in 63 bits",
                path=path,
                line=number,
                hint="are these bytes? scale the matrix down",
            )
        matrix.append(row)
    return matrix


def _is_number(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell) or _NOT_FINITE.fullmatch(cell))


def _number(path: str | Path, line: int, column: int, cell: str) -> int:
    if cell.isascii() and cell.isdigit() and len(cell) <= 18:  # nearly always
        return int(cell)
    what = f"column {column}: "
    if not cell:
        problem = "the cell is empty"
    elif _NOT_FINITE.fullmatch(cell):
        problem = f"{cell} is not a number of bytes"
    elif not _NUMBER.fullmatch(cell):
        problem = f"{cell[:40]!r} is not a number"
    elif float(cell) < 0:
        problem = f"{cell[:40]} is negative"
    elif math.isinf(float(cell)) or float(cell) > _MAX_TOTAL:
        problem = f"{cell[:40]} is too large, bytes must fit in 63 bits"
    elif (value := Decimal(cell)) != value.to_integral_value():
        problem = f"{cell[:40]} is not a whole number of bytes"
    else:
        return int(value)
    raise InputError(what + problem, path=path, line=line, hint=_HINT)
