"""Square matrices of bytes in text files: CSV with commas, TreeMatch and TopoMatch with blanks.

A row is a sender, a column a receiver. TreeMatch takes weights without a direction, and most of its
files are symmetric; what is read here keeps each cell as bytes from the row's rank to the column's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np

from toposeat.errors import InputError
from toposeat.model.files import read_input
from toposeat.model.traffic import MAX_TOTAL, PairTable, Traffic
from toposeat.profile.message_list import table_traffic

Line = tuple[int, list[str]]  # line number, cells

MAX_ROUNDING = 0.01  # of all bytes of a TreeMatch matrix: what rounding to whole bytes may change
_CSV_HINT = "expected one line per sender with the bytes to each receiver, separated by commas"
_TREEMATCH_HINT = "expected one line per rank with the weight to each rank, separated by blanks"
_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})(e[+-]?\d{1,4})?", re.ASCII | re.I)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.ASCII | re.I)


def read_csv_matrix(path: str | Path) -> Traffic:
    """Read a square matrix of bytes.

    Lines that are empty or begin with `#` are skipped. The first line may be a header; then the
    first column may hold labels (the corner cell is empty or text). Numbers are whole, not
    negative, in any usual notation (`1048576`, `1e6`).

    Raises:
        InputError: with the line number, on anything else.
    """
    lines = _without_labels(path, list(matrix_lines(path, comma_cells, hint=_CSV_HINT)))
    check_square(path, lines, hint=_CSV_HINT)
    matrix = np.array(whole_numbers(path, lines, hint=_CSV_HINT), np.int64)
    return table_traffic("CSV matrix", path, len(lines), PairTable.from_dense(matrix))


def comma_cells(line: str) -> list[str]:
    """The cells of a line of a CSV file, without blanks around them."""
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
            raise wrong_width(path, number, len(cells), len(rows) + 1, hint=_CSV_HINT)
    return [(number, cells[1:]) for number, cells in rows]


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
    lines = list(matrix_lines(path, str.split, hint=_TREEMATCH_HINT))
    check_square(path, lines, hint=_TREEMATCH_HINT)
    matrix = whole_numbers(path, lines, hint=_TREEMATCH_HINT, allow_fraction=True)
    exact = sum((Decimal(cell) for _, cells in lines for cell in cells), Decimal(0))
    total = sum(map(sum, matrix))
    if abs(exact - total) > exact * Decimal(MAX_ROUNDING):
        raise InputError(
            "the weights are too small to be bytes",
            path=path,
            hint="multiply the matrix, for example by 1e6: only the relation of its cells matters",
        )
    notes = ["its weights are taken as bytes from the row's rank to the column's"]
    if exact != total:
        notes.append("weights with a fraction were rounded to whole bytes")
    table = PairTable.from_dense(np.array(matrix, np.int64))
    return table_traffic("TreeMatch matrix", path, len(lines), table, notes=notes)


def matrix_lines(
    path: str | Path, split: Callable[[str], list[str]], *, hint: str
) -> Iterator[Line]:
    """The numbered lines with cells; lines that are empty or begin with `#` are left out.

    Raises:
        InputError: the file cannot be read, or is no text.
    """
    try:
        text = read_input(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("this is not a text file", path=path, hint=hint) from error
    # Only line feeds end lines here: splitlines() would also break at form feeds and the like, and
    # count differently from an editor.
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, split(line)


def check_square(path: str | Path, lines: Sequence[Line], *, hint: str) -> None:
    """Refuse a matrix that is empty, ragged or not square, with the line."""
    if not lines:
        raise InputError("there is no number in the file", path=path, hint=hint)
    width = len(lines[0][1])
    for number, cells in lines:
        if len(cells) != width:
            raise wrong_width(path, number, len(cells), width, hint=hint)
    if len(lines) != width:
        raise InputError(
            f"the matrix is not square: {len(lines)} rows of {width} columns",
            path=path,
            line=lines[-1][0],
            hint="is the file truncated, or does it have a column of labels without a header?"
            " a list of pairs begins with the line source,target,bytes",
        )


def wrong_width(path: str | Path, line: int, found: int, expected: int, *, hint: str) -> InputError:
    """The error of a line with too few or too many cells."""
    return InputError(
        f"expected {expected} columns, found {found}", path=path, line=line, hint=hint
    )


def is_number(cell: str) -> bool:
    """Whether a cell is a number in any usual notation, infinities included."""
    return bool(_NUMBER.fullmatch(cell) or _NOT_FINITE.fullmatch(cell))


def whole_numbers(
    path: str | Path, lines: Sequence[Line], *, hint: str, allow_fraction: bool = False
) -> list[list[int]]:
    """The cells as bytes; fractions are refused, or rounded where they are allowed.

    Raises:
        InputError: with line and column, on a cell that is no number of bytes, and on a sum beyond
            62 bits.
    """
    total = 0
    matrix = []
    for number, cells in lines:
        row = []
        for column, cell in enumerate(cells, start=1):
            if cell.isascii() and cell.isdigit() and len(cell) <= 18:  # nearly always
                row.append(int(cell))
                continue
            problem = _problem(cell, allow_fraction=allow_fraction)
            if problem:
                raise InputError(f"column {column}: {problem}", path=path, line=number, hint=hint)
            row.append(round(Decimal(cell)))
        total += sum(row)
        if float(total) >= MAX_TOTAL:
            raise InputError(
                "the bytes up to this line do not fit in 62 bits",
                path=path,
                line=number,
                hint="are these bytes? scale the matrix down",
            )
        matrix.append(row)
    return matrix


def _problem(cell: str, *, allow_fraction: bool) -> str:
    if not cell:
        return "the cell is empty"
    shown = cell[:40]
    if not _NUMBER.fullmatch(cell):
        finite = not _NOT_FINITE.fullmatch(cell)
        return f"{shown!r} is not a number" if finite else f"{shown} is not a number of bytes"
    if float(cell) < 0:
        return f"{shown} is negative"
    if math.isinf(float(cell)) or float(cell) >= MAX_TOTAL:
        return f"{shown} is too large, bytes must fit in 62 bits"
    whole = allow_fraction or Decimal(cell) == Decimal(cell).to_integral_value()
    return "" if whole else f"{shown} is not a whole number of bytes"
