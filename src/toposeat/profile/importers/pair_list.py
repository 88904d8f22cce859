"""A sparse traffic matrix in a text file: one line per pair of ranks that communicate.

    source,target,bytes,messages
    0,1,1048576,16
    1,0,524288,8

The header says what the columns are; `messages` may be missing, and the order is free. A comment
`# ranks=4096` says how many ranks there are, if the last ones send and receive nothing.
"""

from __future__ import annotations

import io
import re
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from toposeat.errors import InputError
from toposeat.model.input_file import read_input
from toposeat.model.traffic import (
    MAX_TOTAL,
    Int64Array,
    PairTable,
    Traffic,
)
from toposeat.profile.importers.text_matrix import (
    Line,
    comma_cells,
    matrix_lines,
    whole_numbers,
    wrong_width,
)
from toposeat.profile.message_list import table_traffic

MAX_RANKS = 1 << 22
_HINT = "expected source,target,bytes[,messages] in the first line, then one line of these per pair"
_COLUMNS = ("source", "target", "bytes", "messages")
_NAMES = {
    **dict.fromkeys(("source", "src", "sender", "from"), "source"),
    **dict.fromkeys(("target", "dst", "dest", "destination", "receiver", "to"), "target"),
    **dict.fromkeys(("bytes", "size"), "bytes"),
    **dict.fromkeys(("messages", "count", "calls"), "messages"),
}
_RANKS = re.compile(r"^[ \t]*#[ \t]*ranks[ \t]*[=:][ \t]*([0-9]{1,10})[ \t]*\r?$", re.MULTILINE)
_PLAIN = b"0123456789,\r\n"  # a file of nothing else is read in one go
_TOO_MANY_DIGITS = re.compile(rb"[0-9]{19}")


def looks_like_pair_list(text: str) -> bool:
    """Whether the first line that is no comment names the columns of a pair list."""
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            return _columns(comma_cells(line)) is not None
    return False


def read_pair_list(path: str | Path) -> Traffic:
    """Read pairs of ranks with their bytes; memory grows with pairs, not with ranks squared.

    Pairs that are named more than once are added up. Without a column of messages there is one per
    line. There are as many ranks as the largest number needs, or as `# ranks=N` says. Lines that
    are empty or begin with `#` are skipped; numbers are whole, not negative, in any usual notation.

    Raises:
        InputError: with the line number, on anything else.
    """
    columns, rows = _table(path)
    table = dict(zip(columns, rows, strict=True))
    size = table["bytes"]
    counted = "messages" in table
    messages = table["messages"] if counted else np.ones(size.size, np.int64)
    ranks = _ranks(path, 1 + int(max(table["source"].max(), table["target"].max())))
    pairs = PairTable.from_pairs(table["source"], table["target"], size, messages)
    return table_traffic("pair list", path, ranks, pairs, one_per=None if counted else "line")


def _columns(cells: Sequence[str]) -> tuple[str, ...] | None:
    """The columns that a header names; None if it is none of a pair list."""
    names = tuple(_NAMES.get(cell.lower(), "") for cell in cells)
    complete = set(_COLUMNS[:3]) <= set(names)
    return names if complete and "" not in names and len(set(names)) == len(names) else None


def _table(path: str | Path) -> tuple[tuple[str, ...], Sequence[Int64Array]]:
    """The names of the columns, and the columns."""
    lines = matrix_lines(path, comma_cells, hint=_HINT)
    header = next(lines, None)
    columns = None if header is None else _columns(header[1])
    if header is None or columns is None:
        at = None if header is None else header[0]
        raise InputError("no line names the columns", path=path, line=at, hint=_HINT)
    quick = _plain_columns(path, header[0], columns)
    if quick is not None:
        return columns, quick
    found = [array("q") for _ in columns]
    totals = dict.fromkeys(columns, 0)
    for line in lines:
        for name, column, value in zip(columns, found, _row(path, line, columns), strict=True):
            column.append(value)
            totals[name] += value
        if max(float(totals["bytes"]), float(totals.get("messages", 0))) >= MAX_TOTAL:
            raise InputError(
                "the bytes or messages up to this line do not fit in 62 bits",
                path=path, line=line[0], hint="are these bytes? scale them down",
            )  # fmt: skip
    if not found[0]:
        raise InputError("there is no pair in the file", path=path, hint=_HINT)
    return columns, [np.frombuffer(column, np.int64) for column in found]


def _row(path: str | Path, line: Line, columns: tuple[str, ...]) -> list[int]:
    """The numbers of one line."""
    number, cells = line
    if len(cells) != len(columns):
        raise wrong_width(path, number, len(cells), len(columns), hint=_HINT)
    (row,) = whole_numbers(path, [line], hint=_HINT)
    for name, value in zip(columns, row, strict=True):
        if name in ("source", "target") and value >= MAX_RANKS:
            raise InputError(
                f"rank {value} is beyond the {MAX_RANKS} that are read",
                path=path, line=number, hint="ranks are numbered from 0",
            )  # fmt: skip
    return row


def _plain_columns(
    path: str | Path, header_line: int, columns: tuple[str, ...]
) -> Sequence[Int64Array] | None:
    """The columns of a file of plain numbers; None if it has to be read line by line.

    What is wrong is not said here: reading line by line finds it, with its line.
    """
    body = read_input(path).split(b"\n", header_line)[-1]
    if body.translate(None, _PLAIN) or _TOO_MANY_DIGITS.search(body) or not body.strip():
        return None
    try:
        rows = np.loadtxt(io.BytesIO(body), np.int64, delimiter=",", ndmin=2, comments=None)
    except ValueError:
        return None
    if rows.shape[1] != len(columns):
        return None
    table = dict(zip(columns, rows.T, strict=True))
    too_much = any(
        table[name].sum(dtype=np.float64) > 0.99 * MAX_TOTAL
        for name in ("bytes", "messages")
        if name in table
    )
    if too_much or max(table["source"].max(), table["target"].max()) >= MAX_RANKS:
        return None
    return list(rows.T)


def _ranks(path: str | Path, needed: int) -> int:
    """What a comment says, if it says anything, else what the pairs need."""
    text = read_input(path).decode("utf-8-sig")
    said = _RANKS.search(text)
    if said is None:
        return needed
    ranks = int(said.group(1))
    if not needed <= ranks <= MAX_RANKS:
        raise InputError(
            f"ranks={ranks}, but the pairs need {needed} and at most {MAX_RANKS} are read",
            path=path,
            line=text.count("\n", 0, said.start()) + 1,
            hint="ranks are numbered from 0",
        )
    return ranks
