"""Finding a matrix of words in text: terminal escapes, web pastes, markdown, wrapped lines.

Everything here is about characters and lines; which words may stand in a cell is the caller's
`Vocabulary`, and what they mean is the subject of `nvidia_smi_topo` and its siblings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from toposeat.errors import InputError

MAX_ENDPOINTS = 512

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[[0-9;]{1,5}m")
_SPACES = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_INVISIBLE = re.compile(r"[\ufeff\u200b-\u200f\u2060]")
_AFFINITY = re.compile(r"(cpu)\s*affinity|(numa|node)\s*affinity|(gpu)\s*numa\s*id", re.IGNORECASE)
_LABEL = re.compile(r"[A-Za-z][\w.\-]*\d\w*", re.ASCII)
_SHORT_LABELS = re.compile(r"(?:(?:GPU|NIC)\d+|mlx\d+_(?:bond_)?\d+)+", re.ASCII)
_SHORT_LABEL = re.compile(r"(?:GPU|NIC)\d+|mlx\d+_(?:bond_)?\d+", re.ASCII)
_AFFINITY_CELL = re.compile(r"[\d,\-]+|N/A", re.ASCII)
_WORD = re.compile(r"[A-Z][A-Z0-9?*+_]{0,7}", re.ASCII)  # what a relation may look like
_RULE = re.compile(r"[\s:\-+=]*")
_HEADER_START = re.compile(
    r"[\s|]*((cpu|numa|node)\s*affinity[\s|]+|gpu\s*numa\s*id[\s|]+)*GPU\d", re.IGNORECASE
)
_AFFINITY_NAME = {"cpu": "cpu", "numa": "numa", "node": "numa", "gpu": "gpu"}

_Header = tuple[tuple[str, ...], tuple[str, ...]]  # column labels, affinity columns


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a kind of matrix may say.

    Args:
        command: that prints it.
        is_cell: whether an upper-case word stands for a pair.
        known: all such words, for messages.
        foreign: words of other commands' matrices, with the command.
        unknown_is_value: whether words that are not known stand for pairs that are not known:
            tools learn words with every generation of links. Else they are damage.
    """

    command: str
    is_cell: Callable[[str], bool]
    known: str
    foreign: Mapping[str, str] = field(default_factory=dict)
    unknown_is_value: bool = False

    @property
    def save(self) -> str:
        """What to do about damage."""
        return f"save the whole output again: {self.command} > FILE"

    def holds(self, token: str) -> bool:
        """Whether a token is a cell of such a matrix, the diagonal's X included."""
        return token.upper() == "X" or self.is_cell(token.upper())

    def may_hold(self, token: str) -> bool:
        """Whether a token in the place of a cell is one, though its word may not be known."""
        unknown = self.unknown_is_value and token not in self.foreign and _WORD.fullmatch(token)
        return bool(unknown) or self.holds(token)


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


def find_table(lines: list[Line], vocabulary: Vocabulary, path: str | Path | None) -> Table | None:
    """The first matrix that has rows; None if no line looks like its header.

    Raises:
        InputError: a matrix is there, but cut, shifted or of unknown words.
    """
    return _Finder(lines, vocabulary, path).find()


def header_after(lines: list[Line], position: int, vocabulary: Vocabulary) -> int | None:
    """The line number of another matrix header at or after `position`."""
    return next((x.number for x in lines[position:] if _header(x.text, vocabulary)), None)


def _header(text: str, vocabulary: Vocabulary) -> _Header | None:
    """Column labels and affinity columns of a header line; None if it is none."""
    names = tuple(
        _AFFINITY_NAME[next(word.lower() for word in match.groups() if word)]
        for match in _AFFINITY.finditer(text)
    )
    labels: list[str] = []
    for token in _tokens(_AFFINITY.sub(" ", text)):
        if vocabulary.is_cell(token):
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


def _row_tokens(text: str, columns: tuple[str, ...]) -> list[str]:
    """The tokens after the row's label."""
    tokens = _tokens(text)
    return tokens[next(i for i, t in enumerate(tokens) if t in columns) + 1 :]


class _Finder:
    """Reads one text; every refusal names its line."""

    def __init__(self, lines: list[Line], vocabulary: Vocabulary, path: str | Path | None) -> None:
        self.lines = lines
        self.words = vocabulary
        self.path = path

    def find(self) -> Table | None:
        without_rows: Line | None = None
        for position, line in enumerate(self.lines):
            header = self._join_header(position)
            if header is None:
                continue
            table = self._read_table(position, *header)
            if table.rows:
                return table
            without_rows = without_rows or line
        if without_rows is not None:
            self._refuse("the matrix has a header but no rows", without_rows.number)
        return None

    def _refuse(self, message: str, line: int, hint: str = "") -> NoReturn:
        raise InputError(message, path=self.path, line=line, hint=hint or self.words.save)

    def _join_header(self, position: int) -> tuple[int, _Header] | None:
        """The header that starts here, and the position after it; None if none does.

        A header that a terminal wrapped continues on the next lines, which may start inside a word.
        """
        text = self.lines[position].text
        if not _HEADER_START.match(text):
            return None
        found = _header(text, self.words)
        best = None if found is None else (position + 1, found)
        failures = 0
        for here in range(position + 1, min(len(self.lines), position + MAX_ENDPOINTS)):
            more = self.lines[here].text
            first = _tokens(more)[:1]
            if not first or (best is not None and first[0] in best[1][0]) or failures > 1:
                break
            text += more
            found = _header(text, self.words)
            failures = failures + 1 if found is None else 0
            if found is not None:
                best = (here + 1, found)
        return best

    def _read_table(self, start: int, position: int, header: _Header) -> Table:
        first = self.lines[start]
        columns, affinities = header
        self._check_columns(columns, first.number)
        rows: list[Row] = []
        here = position
        while here < len(self.lines):
            text = self.lines[here].text
            if self._ends_table(text, complete=len(rows) >= len(columns)):
                break
            if not _RULE.fullmatch(text.replace("|", " ")):
                taken, row = self._read_row(here, columns, affinities, width=len(first.text))
                if row is not None:
                    rows.append(row)
                    here += taken
                    position = here
                    continue
            here += 1
        return Table(columns, affinities, tuple(rows), first.number, position, "|" in first.text)

    def _ends_table(self, text: str, *, complete: bool) -> bool:
        """A legend or another header ends the matrix; a blank line does once all rows are there."""
        if text.strip("#* \t").lower().startswith("legend"):
            return True
        return _header(text, self.words) is not None or (complete and not text.strip())

    def _check_columns(self, columns: tuple[str, ...], line: int) -> None:
        if len(set(columns)) != len(columns):
            twice = next(c for c in columns if columns.count(c) > 1)
            self._refuse(f"column {twice} appears twice", line)
        if len(columns) > MAX_ENDPOINTS:
            self._refuse(
                f"the matrix has {len(columns)} columns, more than {MAX_ENDPOINTS}",
                line,
                "one node per file",
            )

    def _read_row(
        self, position: int, columns: tuple[str, ...], affinities: tuple[str, ...], *, width: int
    ) -> tuple[int, Row | None]:
        """The row that starts here and how many lines it takes; (1, None) if none starts here.

        A terminal that wraps at `width` columns may cut a row anywhere, also inside a word.
        """
        line = self.lines[position]
        tokens = _tokens(line.text)
        place = next((i for i, t in enumerate(tokens[: len(affinities) + 1]) if t in columns), None)
        if place is None:
            self._refuse_row_without_column(tokens, line)
            return 1, None
        taken, text = 1, line.text
        while position + taken < len(self.lines):
            more = self.lines[position + taken].text
            complete = len(_row_tokens(text, columns)) >= len(columns) + len(affinities)
            cut = len(self.lines[position + taken - 1].text) == width
            if not self._continues(more, columns) or (complete and not cut):
                break
            text = self._joined(text, more, columns)
            taken += 1
        return taken, self._row_of_text(text, columns, affinities, line.number)

    def _continues(self, text: str, columns: tuple[str, ...]) -> bool:
        """Whether a line holds only cells: words, numbers, CPU lists."""
        tokens = _tokens(text)
        return bool(tokens) and all(
            t not in columns and (self.words.holds(t) or _AFFINITY_CELL.fullmatch(t))
            for t in tokens
        )

    def _joined(self, text: str, more: str, columns: tuple[str, ...]) -> str:
        """Two parts of a wrapped row. A word may have been cut, or blanks at the end removed."""
        whole = text + more
        cells = _row_tokens(whole, columns)[: len(columns)]
        return whole if all(self.words.holds(t) for t in cells) else f"{text} {more}"

    def _refuse_row_without_column(self, tokens: list[str], line: Line) -> None:
        """A line that is a row of something the header does not name means a damaged header."""
        if len(tokens) < 2 or not re.fullmatch(r"(?:GPU|NIC|mlx)\d+\w*", tokens[0], re.ASCII):
            return
        if tokens[1].upper() == "X" or self.words.is_cell(tokens[1]):
            self._refuse(f"row {tokens[0]} has no column: the header is cut", line.number)

    def _row_of_text(
        self, text: str, columns: tuple[str, ...], affinities: tuple[str, ...], line: int
    ) -> Row:
        tokens = _tokens(text)
        place = next(i for i, t in enumerate(tokens) if t in columns)
        label, leading, rest = tokens[place], tokens[:place], tokens[place + 1 :]
        cells = [t.upper() for t in rest[: len(columns)]]
        good = next((i for i, c in enumerate(cells) if not self.words.may_hold(c)), len(cells))
        if good < len(cells) and not _AFFINITY_CELL.fullmatch(cells[good]):
            self._refuse_cell(cells[good], f"{label} and {columns[good]}", line)
        if good < len(columns):
            self._refuse(
                f"row {label} has {good} of {len(columns)} cells: the matrix is truncated", line
            )
        self._check_diagonal(label, cells, columns, line)
        values = (*leading, *rest[len(columns) :])
        if len(values) > len(affinities):
            self._refuse(f"row {label} has more cells than the header has columns", line)
        return Row(label, tuple(cells), values, line)

    def _refuse_cell(self, cell: str, pair: str, line: int) -> None:
        command = self.words.foreign.get(cell)
        if command is not None:
            self._refuse(
                f"{cell!r} is a word of `{command}`, not of `{self.words.command}`",
                line,
                f"one output per file; {self.words.save}",
            )
        self._refuse(
            f"unknown relation {cell[:20]!r} between {pair}",
            line,
            f"known are {self.words.known}; {self.words.save}",
        )

    def _check_diagonal(
        self, label: str, cells: list[str], columns: tuple[str, ...], line: int
    ) -> None:
        marks = [column for column, cell in zip(columns, cells, strict=True) if cell == "X"]
        if marks != [label]:
            where = f"in the columns of {', '.join(marks)}" if marks else "nowhere"
            self._refuse(f"row {label} has its X {where}: columns are shifted", line)
