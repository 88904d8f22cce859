r"""Finding matrices of numbers in text: how NVIDIA's and other tools print what they measured.

    Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)      <- title
       D\D     0      1                                     <- corner, columns 0 to n-1
         0 752.60  68.46                                    <- row number, cells
         1  68.51 735.64

Everything here is about characters and lines; units and directions are the callers' subject.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.number_checks import check_pair_number
from toposeat.topology.readers.word_table import Line

MAX_COLUMNS = 512
ASYMMETRY_REPORTED = 1.25  # 10 to 25 % between the two directions of a pair is normal

_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_COLLIDED = re.compile(r"(?:\d{1,9}\.\d\d){2,}", re.ASCII)
_NOT_KNOWN = frozenset({"n/a", "[n/a]", "nan", "-nan", "inf", "-"})
_CORNER = re.compile(r"[A-Za-z][\w\\/]{0,11}", re.ASCII)
_MARKS = re.compile(r"^[\s#>*|]+")


@dataclass(frozen=True)
class NumberTable:
    """One matrix: `values` has one row for each row number 0, 1, ...; NaN for N/A.

    `line` is that of the header, `end` the line after the last row; all count from 1.
    """

    corner: str
    line: int
    end: int
    values: NDArray[np.float64]
    row_lines: tuple[int, ...] = ()


def find_number_tables(lines: Sequence[Line], path: str | Path | None) -> list[NumberTable]:
    """All matrices, in the order of the text. Lines may carry comment marks.

    Raises:
        InputError: a matrix is there, but a row is short, long or missing.
    """
    tables = []
    position = 0
    while position < len(lines):
        header = _header(lines, position)
        if header is None:
            position += 1
            continue
        corner, columns = header
        if columns > MAX_COLUMNS:
            raise InputError(
                f"the matrix has {columns} columns, more than {MAX_COLUMNS}",
                path=path,
                line=lines[position].number,
                hint="one node per file",
            )
        table, position = _table(lines, position, corner, columns, path)
        tables.append(table)
    return tables


def without_marks(text: str) -> str:
    """A line without comment, quote and table marks before its first word."""
    return _MARKS.sub("", text)


def report_asymmetry(values: NDArray[np.float64], what: str, report: list[str]) -> None:
    """Say so if the two directions of pairs differ by more than is normal."""
    with np.errstate(all="ignore"):
        ratio = np.maximum(values / values.T, values.T / values)
    np.fill_diagonal(ratio, np.nan)
    ratio[~np.isfinite(ratio)] = np.nan
    many = int(np.nansum(np.triu(ratio) > ASYMMETRY_REPORTED))
    if many:
        i, j = np.unravel_index(int(np.nanargmax(ratio)), ratio.shape)
        report.append(
            f"{what}: the two directions of {many} pairs differ by more than"
            f" {ASYMMETRY_REPORTED - 1:.0%}, most between devices {min(i, j)} and {max(i, j)}"
            f" ({ratio[i, j]:.2f} times)"
        )


def report_cut(text: str, tables: Sequence[NumberTable], report: list[str]) -> None:
    """Say so if the text ends inside the last row: its last number may have lost digits."""
    lines = text.count("\n") + 1
    if tables and tables[-1].end > lines and not text.endswith(("\n", "\r")):
        report.append("the file ends in the last row without a newline: its end may be cut")


def _header(lines: Sequence[Line], position: int) -> tuple[str, int] | None:
    """Corner word and number of columns, if a matrix starts here: 0 1 2 ..., then a row 0."""
    tokens = without_marks(lines[position].text).split()
    corner = ""
    if tokens and _CORNER.fullmatch(tokens[0]) and tokens[0].lower() not in _NOT_KNOWN:
        corner, tokens = tokens[0], tokens[1:]
    if not tokens or tokens != [str(i) for i in range(len(tokens))]:
        return None
    first = _next_row(lines, position + 1)
    if first is None or first[1][0] != "0" or len(first[1]) < 2:
        return None
    cells = [_is_cell(token) for token in first[1][1:]]
    # Of one column, or with no cell at all, it may be anything; else a cell of it is damaged.
    if all(cells) or (len(cells) == len(tokens) > 1 and any(cells)):
        return corner, len(tokens)
    return None


def _next_row(lines: Sequence[Line], position: int) -> tuple[int, list[str]] | None:
    """The next line with words, at most one blank line away, and its words."""
    for here in range(position, min(position + 2, len(lines))):
        tokens = _cells(without_marks(lines[here].text))
        if tokens:
            return here, tokens
    return None


def _cells(text: str) -> list[str]:
    """The words of a line; numbers of two decimals that ran together are cut apart."""
    tokens: list[str] = []
    for token in text.split():
        if _COLLIDED.fullmatch(token):
            tokens.extend(re.findall(r"\d+\.\d\d", token))
        else:
            tokens.append(token)
    return tokens


def _is_cell(token: str) -> bool:
    return _NUMBER.fullmatch(token) is not None or token.lower() in _NOT_KNOWN


def _value(token: str) -> float:
    if token.lower() in _NOT_KNOWN:
        return math.nan
    value = float(token)
    return value if math.isfinite(value) else math.nan


def _table(
    lines: Sequence[Line], position: int, corner: str, columns: int, path: str | Path | None
) -> tuple[NumberTable, int]:
    """The matrix whose header is at `position`, and the position after it."""
    header = lines[position]
    rows: list[list[float]] = []
    row_lines: list[int] = []
    here = position + 1
    while (found := _next_row(lines, here)) is not None:
        place, tokens = found
        if tokens[0] == str(len(rows)) and len(tokens) == columns + 1 > 2:
            _refuse_cell(tokens, lines[place].number, path)
        if tokens[0] != str(len(rows)) or not all(_is_cell(t) for t in tokens):
            _refuse_gap(tokens, len(rows), columns, lines[place].number, path)
            break
        if rows and place > here and _header(lines, place) is not None:
            break  # a blank line, then another matrix of one column
        if len(tokens) != columns + 1:
            raise InputError(
                f"row {len(rows)} of the matrix has {len(tokens) - 1} of {columns} cells",
                path=path,
                line=lines[place].number,
                hint="the file is truncated or damaged; save the whole output again",
            )
        rows.append([_value(token) for token in tokens[1:]])
        row_lines.append(lines[place].number)
        here = place + 1
    values = np.array(rows, dtype=np.float64).reshape(len(rows), columns)
    end = lines[here - 1].number + 1
    return NumberTable(corner, header.number, end, values, tuple(row_lines)), here


def _refuse_cell(tokens: list[str], line: int, path: str | Path | None) -> None:
    """A row of the right number and length, with a word that is no number among numbers."""
    bad = [token for token in tokens[1:] if not _is_cell(token)]
    if bad and len(bad) < len(tokens) - 1:
        raise InputError(
            f"{bad[0][:40]!r} where a number or N/A belongs",
            path=path,
            line=line,
            hint="the file is damaged; save the whole output again",
        )


def _refuse_gap(
    tokens: list[str], expected: int, columns: int, line: int, path: str | Path | None
) -> None:
    """A full row with a later number means that rows are missing."""
    full = len(tokens) == columns + 1 and all(_is_cell(t) for t in tokens) and columns > 1
    if full and tokens[0].isdigit() and expected < int(tokens[0]) < columns:
        raise InputError(
            f"row {expected} of the matrix is missing: the next is {tokens[0]}",
            path=path,
            line=line,
            hint="the file is truncated or damaged; save the whole output again",
        )


def check_numbers(table: NumberTable, what: str, unit: float, path: str | Path | None) -> None:
    """Refuse numbers that no pair of devices has, with their line; `unit` is one cell's in SI."""
    for line, row in zip(table.row_lines, table.values * unit, strict=True):
        for value in row:
            try:
                check_pair_number(what, float(value))
            except ValueError as error:
                raise InputError(
                    str(error), path=path, line=line, hint="save the whole output again"
                ) from None


def check_square(table: NumberTable, path: str | Path | None) -> None:
    """Refuse a matrix of devices that has not one row for each column."""
    rows, columns = table.values.shape
    if rows != columns:
        raise InputError(
            f"the matrix has {rows} of {columns} rows: it is truncated",
            path=path,
            line=table.end,
            hint="save the whole output again",
        )
