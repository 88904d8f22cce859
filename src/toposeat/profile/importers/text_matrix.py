"""What text files with a square matrix of bytes have in common: lines, cells, numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.input_file import read_input
from toposeat.model.traffic import MAX_TOTAL

Line = tuple[int, list[str]]  # line number, cells

_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})(e[+-]?\d{1,4})?", re.ASCII | re.I)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.ASCII | re.I)


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
            hint="is the file truncated, or does it have a column of labels without a header?",
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
