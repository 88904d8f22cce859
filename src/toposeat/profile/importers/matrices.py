"""Traffic matrices: CSV, pair lists and NumPy arrays. A row is a sender.

Memory for a NumPy array is taken only if the file has as much as its header declares; nothing is
ever unpickled.
"""

from __future__ import annotations

import io
import operator
import os
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.files import open_input, read_input
from toposeat.model.traffic import MAX_TOTAL, Int64Array, PairTable, Traffic
from toposeat.profile.message_list import table_traffic

_Line = tuple[int, list[str]]  # line number, cells

MAX_ROUNDING = 0.01  # of all bytes: what rounding to whole bytes may change
_TEXT_HINT = "expected one line per sender with the bytes to each receiver, by commas"
_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})(e[+-]?\d{1,4})?", re.ASCII | re.I)


def read_csv_matrix(path: str | Path) -> Traffic:
    """Read a square matrix of bytes; lines that are empty or begin with `#` are skipped.

    The first line may be a header; then the first column may hold labels (the corner cell is empty
    or text). Numbers are not negative, in any usual notation (`1048576`, `1e6`). Fractions are
    rounded to whole bytes, if that changes the sum by no more than `MAX_ROUNDING`.
    """
    try:
        text = read_input(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("this is not a text file", path=path, hint=_TEXT_HINT) from error
    # Only line feeds end lines here: splitlines() would also break at form feeds and the like, and
    # count differently from an editor.
    numbered = enumerate(text.replace("\r\n", "\n").split("\n"), start=1)
    lines = _without_labels(
        [
            (number, [cell.strip() for cell in line.split(",")])
            for number, line in numbered
            if line.strip() and not line.lstrip().startswith("#")
        ]
    )
    _check_square(path, lines)
    total, rounded, matrix = 0, Decimal(0), []
    for number, cells in lines:
        row = []
        for column, cell in enumerate(cells, start=1):
            if cell.isascii() and cell.isdigit() and len(cell) <= 18:  # nearly always
                row.append(int(cell))
                continue
            if not _NUMBER.fullmatch(cell) or not 0 <= float(cell) < MAX_TOTAL:
                problem = f"column {column}: {cell[:40]!r} is no number from 0 to 2^62"
                raise InputError(problem, path=path, line=number, hint=_TEXT_HINT)
            row.append(round(Decimal(cell)))
            rounded += Decimal(cell) - row[-1]
        total += sum(row)
        if float(total) >= MAX_TOTAL:
            raise InputError(
                "the bytes up to this line do not fit in 62 bits",
                path=path,
                line=number,
                hint="are these bytes? scale the matrix down",
            )
        matrix.append(row)
    if abs(rounded) > (total + rounded) * Decimal(MAX_ROUNDING):
        raise InputError(
            "the weights are too small to be bytes",
            path=path,
            hint="multiply the matrix, for example by 1e6: only the relation of its cells matters",
        )
    notes = ["weights with a fraction were rounded to whole bytes"] if rounded else []
    table = PairTable.from_dense(np.array(matrix, np.int64))
    return table_traffic("CSV matrix", path, len(lines), table, notes=notes)


def _without_labels(lines: list[_Line]) -> list[_Line]:
    """Drops a header line, and with it a column of labels where the rows have one."""
    if not lines or all(_NUMBER.fullmatch(cell) for cell in lines[0][1]):
        return lines
    header, rows = lines[0][1], lines[1:]
    if any(_NUMBER.fullmatch(cell) for cell in header) and header[0] != "":
        return lines  # not a header but a damaged row: let it be named
    labelled = rows and len(rows[0][1]) == len(rows) + 1
    return [(number, cells[1:]) for number, cells in rows] if labelled else rows


def _check_square(path: str | Path, lines: Sequence[_Line]) -> None:
    """Refuse a matrix that is empty, ragged or not square, with the line."""
    if not lines:
        raise InputError("there is no number in the file", path=path, hint=_TEXT_HINT)
    width = len(lines[0][1])
    for number, cells in lines:
        if len(cells) != width:
            cause = f"expected {width} columns, found {len(cells)}"
            raise InputError(cause, path=path, line=number, hint=_TEXT_HINT)
    if len(lines) != width:
        raise InputError(
            f"the matrix is not square: {len(lines)} rows of {width} columns",
            path=path,
            line=lines[-1][0],
            hint="the file may be truncated, or have a column of labels without a header;"
            " a list of pairs begins with the line source,target,bytes",
        )


MAX_LISTED_RANKS = 1 << 22
_PAIRS_HINT = "a line source,target,bytes[,messages], then a line of such whole numbers per pair"
_PAIRS_HEADER = re.compile(
    r"\A\ufeff?(?:[ \t]*(?:#.*)?\r?\n)*[ \t]*source,target,bytes(,messages)?[ \t]*\r?$", re.M
)
_RANKS = re.compile(r"^[ \t]*#[ \t]*ranks[ \t]*=[ \t]*([0-9]{1,10})[ \t]*\r?$", re.MULTILINE)


def looks_like_pair_list(text: str) -> bool:
    """Whether the first line that is no comment names the columns of a pair list."""
    return _PAIRS_HEADER.match(text) is not None


def read_pair_list(path: str | Path) -> Traffic:
    """Read pairs of ranks with their bytes; memory grows with pairs, not with ranks squared.

    Pairs that are named more than once are added up. Without a column of messages there is one per
    line. There are as many ranks as the largest number needs, or as `# ranks=N` says.
    """
    try:
        text = read_input(path).decode()
    except UnicodeDecodeError as error:
        raise InputError("this is not a text file", path=path, hint=_PAIRS_HINT) from error
    header = _PAIRS_HEADER.match(text)
    if header is None:
        raise InputError("no line names the columns", path=path, hint=_PAIRS_HINT)
    rows = _rows(text, header, path)
    source, target, size = rows.T[:3]
    messages = rows[:, 3] if header[1] else np.ones(size.size, np.int64)
    if max(each.sum(dtype=np.float64) for each in (size, messages)) >= MAX_TOTAL:
        raise InputError("the bytes or messages do not fit in 62 bits", path=path, hint=_PAIRS_HINT)
    said = _RANKS.search(text) if "#" in text else None
    line = None if said is None else text.count("\n", 0, said.start()) + 1
    ranks = _listed_ranks(rows, None if said is None else int(said[1]), path, line)
    pairs = PairTable.from_pairs(source, target, size, messages)
    return table_traffic("pair list", path, ranks, pairs, one_per=None if header[1] else "line")


def _rows(text: str, header: re.Match[str], path: str | Path) -> NDArray[np.int64]:
    """The rows below the header; only a file that is not plain has each of its lines looked at."""
    columns, body = 4 if header[1] else 3, text[header.end() :]
    if not body.encode().translate(None, b"0123456789,\n") and body.strip():
        with suppress(ValueError):
            rows = np.loadtxt(io.StringIO(body), np.int64, delimiter=",", ndmin=2)
            if rows.shape[1] == columns:
                return rows
    no_row = re.compile(
        rf"^(?![ \t]*(?:#.*)?\r?$|[0-9]{{1,18}}(?:,[0-9]{{1,18}}){{{columns - 1}}}\r?$).*", re.M
    )
    wrong = no_row.search(text, header.end() + 1)
    if wrong is not None:
        raise InputError(
            f"{wrong[0].strip()[:40]!r} is no line of {columns} whole numbers",
            path=path, line=text.count("\n", 0, wrong.start()) + 1, hint=_PAIRS_HINT,
        )  # fmt: skip
    if re.search("^[0-9]", body, re.MULTILINE) is None:
        raise InputError("there is no pair in the file", path=path, hint=_PAIRS_HINT)
    return np.loadtxt(io.StringIO(body), np.int64, delimiter=",", ndmin=2)


def _listed_ranks(
    rows: NDArray[Any], told: int | None, path: str | Path | None = None, line: int | None = None
) -> int:
    """How many ranks there are: as many as the rows need, or more where that is told."""
    needed = 1 + int(rows[:, :2].max())
    ranks = needed if told is None else told
    if not needed <= ranks <= MAX_LISTED_RANKS:
        raise InputError(
            f"{ranks} ranks, but the pairs need {needed} and at most {MAX_LISTED_RANKS} are read",
            path=path,
            line=line,
            hint="ranks are numbered from 0",
        )
    return ranks


MAX_DENSE_RANKS = 1 << 14  # of a dense matrix
MAX_PAIRS = 1 << 24
_MAX_HEADER = 4096

_HINT = "save one with: numpy.save(F, bytes_sent), row = sender"
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

_WHAT = "the array"
_Pairs = tuple[int, NDArray[np.int64]]  # ranks, and rows of source, target and value


class _Refused(Exception):
    """Why a file is no traffic, and a hint."""


def read_npy_matrix(path: str | Path) -> Traffic:
    """Read a square matrix of bytes from a `.npy` file, row = sender."""
    with _errors_of(path), open_input(path) as file:
        return _traffic(path, _square(file))


_ARRAY_HINT = (
    "give bytes as a square array of numbers, row = sender; edges are tuples, [(0, 1, bytes), ...]"
)
_EDGES_HINT = "an edge is (source, target, bytes) or (source, target, bytes, messages)"


def traffic_of_array(cells: object) -> Traffic:
    """The traffic of a square array of bytes that a program holds; row = sender."""
    try:
        return _traffic("in memory", _square_of(cells))
    except _Refused as refused:
        message, hint = refused.args
        raise InputError(message, hint=hint if hint != _HINT else _ARRAY_HINT) from None


def _square_of(cells: Any) -> _Pairs:
    try:
        array = np.asarray(cells)
    except ValueError:
        raise _Refused(f"{_WHAT} has rows of several lengths", _ARRAY_HINT) from None
    _check_array(array.shape, array.dtype)
    return _pairs_of(array)


def _pairs_of(array: NDArray[Any]) -> _Pairs:
    """The cells of a square array that are not 0."""
    if np.count_nonzero(array) > MAX_PAIRS:
        raise _Refused(f"more than {MAX_PAIRS} pairs of ranks are used", _HINT)
    rows, columns = np.nonzero(array)
    return array.shape[0], np.stack([rows, columns, _whole(array[rows, columns])])


def traffic_of_edges(edges: Sequence[tuple[Any, ...]], ranks: int | None = None) -> Traffic:
    """The traffic of edges `(source, target, bytes)` or `(source, target, bytes, messages)`.

    Edges that are named more than once are added up. Without messages there is one per edge. Ranks
    count from 0; by default there are as many as the largest number needs.
    """
    rows = [_edge(each) for each in edges]
    if not rows:
        raise InputError("there is no edge", hint=_EDGES_HINT)
    if max(sum(row[at] for row in rows) for at in (2, 3)) >= MAX_TOTAL:
        raise InputError("the bytes or messages do not fit in 62 bits", hint="scale them down")
    table = np.array(rows, object)  # of any size
    pairs = PairTable.from_pairs(*table.T)
    one_per = None if all(len(each) == 4 for each in edges) else "edge"
    return table_traffic("edge list", "", _listed_ranks(table, ranks), pairs, one_per=one_per)


def _edge(edge: tuple[Any, ...]) -> tuple[int, int, int, int]:
    try:
        source, target, *more = map(_index, edge)
        size, messages = more if len(more) == 2 else (*more, 1)
    except (TypeError, ValueError):
        raise InputError(f"{edge!r:.60} is no edge", hint=f"{_EDGES_HINT}, whole numbers") from None
    if min(source, target, size, messages) < 0:
        raise InputError(f"{edge!r:.60} has a number below 0", hint=_EDGES_HINT)
    return source, target, size, messages


def _index(number: Any) -> int:
    """A whole number, as 1e6 is one."""
    return (
        int(number) if isinstance(number, float) and number.is_integer() else operator.index(number)
    )


@contextmanager
def _errors_of(path: str | Path) -> Iterator[None]:
    """Turn what a damaged file can raise into an `InputError`."""
    try:
        yield
    except _Refused as refused:
        message, hint = refused.args
        raise InputError(message, path=path, hint=hint) from None
    except OSError as error:
        cause = error.strerror or error
        raise InputError(f"cannot read: {cause}", path=path, hint="check the file") from error
    except (
        ValueError, KeyError, EOFError, OverflowError, SyntaxError, TypeError, MemoryError,
        RecursionError, tokenize.TokenError,
    ) as error:  # fmt: skip
        what = str(error).partition("\n")[0][:120]
        raise InputError(f"a damaged NumPy file: {what}", path=path, hint=_HINT) from error


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, Any]:
    """Shape, Fortran order and type of an array, with the file at its first byte."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise _Refused(f"NumPy format {version[0]}.{version[1]}", _HINT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "created on Python 2": nothing to the user
        shape, fortran, dtype = _HEADERS[version](file, max_header_size=_MAX_HEADER)
    if dtype.hasobject:
        raise _Refused(f"{_WHAT} holds Python objects, which are never loaded", _HINT)
    return shape, fortran, dtype


def _check_array(shape: tuple[int, ...], dtype: Any) -> None:
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 1:
        raise _Refused(f"{_WHAT} has shape {shape}, expected a square matrix", _HINT)
    if dtype.kind not in "iufb":
        raise _Refused(f"{_WHAT} holds {dtype}, expected numbers", _HINT)


def _square(file: IO[bytes]) -> _Pairs:
    """The cells of a dense matrix that are not 0."""
    shape, fortran, dtype = _header(file)
    _check_array(shape, dtype)
    ranks = int(shape[0])
    if ranks > MAX_DENSE_RANKS:
        raise _Refused(
            f"{_WHAT} is of {ranks} ranks, at most {MAX_DENSE_RANKS} are read",
            f"write the pairs of so many ranks: {_PAIRS_HINT}",
        )
    if os.fstat(file.fileno()).st_size - file.tell() < ranks * ranks * dtype.itemsize:
        raise EOFError(f"{_WHAT} is cut short")
    array = np.fromfile(file, dtype, ranks * ranks)
    return _pairs_of(array.reshape(shape, order="F" if fortran else "C"))


def _whole(values: NDArray[Any]) -> Int64Array:
    """Values as int64, refused if negative, fractional, not finite or too large together."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise _Refused(f"{_WHAT} holds values that are not finite", _HINT)
    if values.dtype.kind in "if" and (values < 0).any():
        raise _Refused(f"{_WHAT} holds negative values", _HINT)
    if float(values.sum(dtype=np.float64)) >= MAX_TOTAL:
        raise _Refused(f"{_WHAT} is more than can be counted", "scale the matrix down")
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        raise _Refused(
            f"{_WHAT} holds fractions, expected whole numbers",
            "round it first: numpy.rint(matrix)",
        )
    return values.astype(np.int64)


def _traffic(path: str | Path, sent: _Pairs) -> Traffic:
    ranks, (source, target, value) = sent
    table = PairTable.from_pairs(source, target, value, (value > 0).astype(np.int64))
    return table_traffic("NumPy matrix", path, ranks, table)
