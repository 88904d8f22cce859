"""Finding the relation matrix in text: terminal escapes, web pastes, markdown, wrapped lines.

Everything here is about characters and lines; what the cells mean is `nvidia_smi_topo`'s subject.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import InputError
from toposeat.topology.graph.relation import KNOWN_TOKENS, relation_of_token

MAX_ENDPOINTS = 512

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[[0-9;]{1,5}m")
_SPACES = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_INVISIBLE = re.compile(r"[\ufeff\u200b-\u200f\u2060]")
_AFFINITY = re.compile(r"(cpu)\s*affinity|(numa)\s*affinity|(gpu)\s*numa\s*id", re.IGNORECASE)
_LABEL = re.compile(r"[A-Za-z][\w.\-]*\d\w*", re.ASCII)
_SHORT_LABELS = re.compile(r"(?:(?:GPU|NIC)\d+|mlx\d+_(?:bond_)?\d+)+", re.ASCII)
_SHORT_LABEL = re.compile(r"(?:GPU|NIC)\d+|mlx\d+_(?:bond_)?\d+", re.ASCII)
_AFFINITY_CELL = re.compile(r"[\d,\-]+|N/A", re.ASCII)
_RULE = re.compile(r"[\s:\-+=]*")
_HEADER_START = re.compile(
    r"[\s|]*((cpu|numa)\s*affinity[\s|]+|gpu\s*numa\s*id[\s|]+)*GPU\d", re.IGNORECASE
)
_P2P_WORDS = frozenset({"OK", "NS", "CNS", "GNS", "TNS", "DR", "U"})
_SAVE = "save the whole output again: nvidia-smi topo -m > FILE"

_Header = tuple[tuple[str, ...], tuple[str, ...]]  # column labels, affinity columns


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the file, cleaned, with its number."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the matrix: its relation cells in column order, then what else it says."""

    label: str
    cells: tuple[str, ...]
    affinities: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Table:
    """The matrix as text. `end` is the position in the list of lines after the last row."""

    columns: tuple[str, ...]
    affinities: tuple[str, ...]  # "cpu", "numa", "gpu" (the GPU's own NUMA id), in order
    rows: tuple[Row, ...]
    line: int
    end: int
    markdown: bool


def clean_lines(text: str) -> list[Line]:
    """Lines without escapes, exotic blanks, markdown marks; line numbers count from 1."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = []
    for number, raw in enumerate(text.split("\n"), start=1):
        line = _INVISIBLE.sub("", _SPACES.sub(" ", _ESCAPE.sub("", raw)))
        line = line.replace("\\_", "_").replace("**", "").replace("`", "")
        lines.append(Line(number, line))
    return lines


def find_table(lines: list[Line], path: str | Path | None) -> Table | None:
    """The first matrix that has rows; None if no line looks like its header.

    Raises:
        InputError: a matrix is there, but cut, shifted or of unknown words.
    """
    without_rows: Line | None = None
    for position, line in enumerate(lines):
        header = _join_header(lines, position)
        if header is None:
            continue
        table = _read_table(lines, position, header, path)
        if table.rows:
            return table
        without_rows = without_rows or line
    if without_rows is not None:
        raise InputError(
            "the matrix has a header but no rows", path=path, line=without_rows.number, hint=_SAVE
        )
    return None


def header_after(lines: list[Line], position: int) -> int | None:
    """The line number of another matrix header at or after `position`."""
    return next((x.number for x in lines[position:] if _header(x.text) is not None), None)


def _header(text: str) -> _Header | None:
    """Column labels and affinity columns of a header line; None if it is none."""
    names = tuple(
        next(word.lower() for word in match.groups() if word) for match in _AFFINITY.finditer(text)
    )
    labels: list[str] = []
    for token in _tokens(_AFFINITY.sub(" ", text)):
        if relation_of_token(token) is not None:
            return None
        if _SHORT_LABELS.fullmatch(token):  # old drivers let long names run together
            labels.extend(_SHORT_LABEL.findall(token))
        elif _LABEL.fullmatch(token):
            labels.append(token)
        else:
            return None
    if not labels or not re.fullmatch(r"GPU\d+", labels[0], re.ASCII):
        return None
    return tuple(labels), names


def _tokens(text: str) -> list[str]:
    return text.replace("|", " ").split()


def _read_table(
    lines: list[Line], position: int, header: tuple[int, _Header], path: str | Path | None
) -> Table:
    first = lines[position]
    markdown = "|" in first.text
    position, (columns, affinities) = header
    _check_columns(columns, first.number, path)
    rows: list[Row] = []
    here = position
    while here < len(lines):
        text = lines[here].text
        if _ends_table(text, complete=len(rows) >= len(columns)):
            break
        if not _RULE.fullmatch(text.replace("|", " ")):
            taken, row = _read_row(
                lines, here, columns, affinities, width=len(first.text), path=path
            )
            if row is not None:
                rows.append(row)
                here += taken
                position = here
                continue
        here += 1
    return Table(columns, affinities, tuple(rows), first.number, position, markdown)


def _ends_table(text: str, *, complete: bool) -> bool:
    """A legend or another header ends the matrix; a blank line does once all rows are there."""
    if text.strip("#* \t").lower().startswith("legend") or _header(text) is not None:
        return True
    return complete and not text.strip()


def _join_header(lines: list[Line], position: int) -> tuple[int, _Header] | None:
    """The header that starts here, and the position after it; None if none does.

    A header that a terminal wrapped continues on the next lines, which may start inside a word.
    """
    text = lines[position].text
    if not _HEADER_START.match(text):
        return None
    found = _header(text)
    best = None if found is None else (position + 1, found)
    failures = 0
    for here in range(position + 1, min(len(lines), position + MAX_ENDPOINTS)):
        more = lines[here].text
        first = _tokens(more)[:1]
        if not first or (best is not None and first[0] in best[1][0]) or failures > 1:
            break
        text += more
        found = _header(text)
        failures = failures + 1 if found is None else 0
        if found is not None:
            best = (here + 1, found)
    return best


def _check_columns(columns: tuple[str, ...], line: int, path: str | Path | None) -> None:
    if len(set(columns)) != len(columns):
        twice = next(c for c in columns if columns.count(c) > 1)
        raise InputError(f"column {twice} appears twice", path=path, line=line, hint=_SAVE)
    if len(columns) > MAX_ENDPOINTS:
        raise InputError(
            f"the matrix has {len(columns)} columns, more than {MAX_ENDPOINTS}",
            path=path,
            line=line,
            hint="one node per file",
        )


def _read_row(
    lines: list[Line],
    position: int,
    columns: tuple[str, ...],
    affinities: tuple[str, ...],
    *,
    width: int,
    path: str | Path | None,
) -> tuple[int, Row | None]:
    """The row that starts here and how many lines it takes; (1, None) if none starts here.

    A terminal that wraps at `width` columns may cut a row anywhere, also inside a word.
    """
    line = lines[position]
    tokens = _tokens(line.text)
    place = next((i for i, t in enumerate(tokens[: len(affinities) + 1]) if t in columns), None)
    if place is None:
        _refuse_row_without_column(tokens, line, path)
        return 1, None
    taken, text = 1, line.text
    while position + taken < len(lines):
        more = lines[position + taken].text
        complete = len(_row_tokens(text, columns)) >= len(columns) + len(affinities)
        cut = len(lines[position + taken - 1].text) == width
        if not _continues(more, columns) or (complete and not cut):
            break
        text = _joined(text, more, columns)
        taken += 1
    return taken, _row_of_text(text, columns, affinities, line.number, path)


def _row_tokens(text: str, columns: tuple[str, ...]) -> list[str]:
    """The tokens after the row's label."""
    tokens = _tokens(text)
    return tokens[next(i for i, t in enumerate(tokens) if t in columns) + 1 :]


def _continues(text: str, columns: tuple[str, ...]) -> bool:
    """Whether a line holds only cells: relations, numbers, CPU lists."""
    tokens = _tokens(text)
    return bool(tokens) and all(
        t not in columns and (_is_cell(t) or _AFFINITY_CELL.fullmatch(t)) for t in tokens
    )


def _joined(text: str, more: str, columns: tuple[str, ...]) -> str:
    """Two parts of a wrapped row. A word may have been cut, or blanks at the end removed."""
    whole = text + more
    cells = _row_tokens(whole, columns)[: len(columns)]
    return whole if all(_is_cell(t) for t in cells) else f"{text} {more}"


def _refuse_row_without_column(tokens: list[str], line: Line, path: str | Path | None) -> None:
    """A line that is a row of something the header does not name means a damaged header."""
    if len(tokens) < 2 or not re.fullmatch(r"(?:GPU|NIC|mlx)\d+\w*", tokens[0], re.ASCII):
        return
    if tokens[1].upper() == "X" or relation_of_token(tokens[1]):
        raise InputError(
            f"row {tokens[0]} has no column: the header is cut",
            path=path,
            line=line.number,
            hint=_SAVE,
        )


def _row_of_text(
    text: str,
    columns: tuple[str, ...],
    affinities: tuple[str, ...],
    line: int,
    path: str | Path | None,
) -> Row:
    tokens = _tokens(text)
    place = next(i for i, t in enumerate(tokens) if t in columns)
    label, leading, rest = tokens[place], tokens[:place], tokens[place + 1 :]
    cells = [t.upper() for t in rest[: len(columns)]]
    good = next((i for i, c in enumerate(cells) if not _is_cell(c)), len(cells))
    if good < len(cells) and not _AFFINITY_CELL.fullmatch(cells[good]):
        _refuse_cell(cells[good], f"{label} and {columns[good]}", line, path)
    if good < len(columns):
        _refuse_short(label, f"{good} of {len(columns)} cells", line, path)
    _check_diagonal(label, cells, columns, line, path)
    values = (*leading, *rest[len(columns) :])
    if len(values) > len(affinities):
        raise InputError(
            f"row {label} has more cells than the header has columns",
            path=path,
            line=line,
            hint=_SAVE,
        )
    return Row(label, tuple(cells), values, line)


def _is_cell(token: str) -> bool:
    return token.upper() == "X" or relation_of_token(token) is not None


def _refuse_cell(cell: str, pair: str, line: int, path: str | Path | None) -> None:
    if cell in _P2P_WORDS:
        raise InputError(
            f"{cell!r} is a word of `nvidia-smi topo -p2p`, which says nothing of distances",
            path=path,
            line=line,
            hint="use the output of: nvidia-smi topo -m",
        )
    raise InputError(
        f"unknown relation {cell!r} between {pair}",
        path=path,
        line=line,
        hint=f"known are {KNOWN_TOKENS}; {_SAVE}",
    )


def _refuse_short(label: str, has: str, line: int, path: str | Path | None) -> None:
    raise InputError(
        f"row {label} has {has}: the matrix is truncated", path=path, line=line, hint=_SAVE
    )


def _check_diagonal(
    label: str, cells: list[str], columns: tuple[str, ...], line: int, path: str | Path | None
) -> None:
    marks = [column for column, cell in zip(columns, cells, strict=True) if cell == "X"]
    if marks != [label]:
        where = f"in the columns of {', '.join(marks)}" if marks else "nowhere"
        raise InputError(
            f"row {label} has its X {where}: columns are shifted", path=path, line=line, hint=_SAVE
        )
