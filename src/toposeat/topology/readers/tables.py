r"""One engine for the tables that tools print: a reader specifies its table.

    GPU0  GPU1  mlx5_0  CPU Affinity        corner, columns, what else each row says
    GPU0   X    NV4     0-15                label of the row, cells, the rest

Terminal escapes, web pastes, markdown and lines that a terminal wrapped are understood. Tabs and
bars separate cells where there are any, and an empty cell tells nothing. A table that is cut,
shifted or has unknown cells is refused with its line, or its damaged rows are named as such (see
`mending`); after the complete rows of all devices it may be cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from toposeat.topology.readers.file_text import FileText

MAX_ENDPOINTS = 512

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[[0-9;]{1,5}m")
_SPACES = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_INVISIBLE = re.compile(r"[\ufeff\u200b-\u200f\u2060]")
_MARKS = re.compile(r"^[\s#>*|]+")
_NUMBER = re.compile(r"\d{1,4}|N/A", re.ASCII)
_REST_CELL = re.compile(r"[\d,\-]+|N/A", re.ASCII)
WORD = re.compile(r"[A-Z][A-Z0-9?*+_-]{0,15}", re.ASCII)  # what a tool may print for a pair
LONGEST_WORD = 16  # word that may be two of them
_BLANK = "\0"  # inside a label, until labels and cells are told apart

_Title = TypeVar("_Title")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the file, cleaned, with its number."""

    number: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSpec:
    """What a kind of table looks like.

    Args:
        label: a column's or row's name; may hold blanks.
        name: makes the name of a match; None takes it as it stands.
        first: what the first column's name must match.
        corner: what may stand in the header before the columns' names.
        counted: columns are called 0, 1, 2, ...; rows come in that order.
        is_cell: whether a word, in upper case, is known to stand for a pair.
        cells: what such words are, for messages.
        learns: the tool prints words, and may print some that are not known yet: they look like
            words, and count. Two known ones that ran together are cut apart.
        mark: the word that only the diagonal has; "" where the diagonal has cells like the rest.
        extras: columns behind (or before) the cells, with the kind of each.
        empty: the kind of the only one that the tool leaves empty; it writes N/A in the others.
        joined: a name of those that may run together in the header.
        square: there is a row for each column; else the table ends with its last row.
        mends: damaged rows are kept as such, since both halves of the table say the same.
        split: splits words that ran together into cells.
    """

    label: re.Pattern[str]
    name: Callable[[re.Match[str]], str] | None = None
    first: str = ""
    corner: str = ""
    counted: bool = False
    is_cell: Callable[[str], bool]
    cells: str
    mark: str = ""
    learns: bool = False
    extras: tuple[tuple[str, str], ...] = ()
    empty: str = ""
    joined: re.Pattern[str] | None = None
    square: bool = True
    mends: bool = False
    split: Callable[[str], list[str]] | None = None

    def tokens(self, text: str) -> list[str]:
        """The words of a line; a label is one word."""
        text = _MARKS.sub("", text).replace("|", " ")
        if not self.counted:
            text = self.label.sub(self._word, text)
        split = self.split or (self._apart if self.learns else None)
        words = text.split()
        return [part for word in words for part in split(word)] if split else words

    def _apart(self, word: str) -> list[str]:
        """The known words in a word: two where they ran together."""
        if self.holds(word):
            return [word]
        ways = [(word[:cut], word[cut:]) for cut in range(1, min(len(word), LONGEST_WORD))]
        known = [way for way in ways if all(map(self.holds, way))]
        return list(known[0]) if len(known) == 1 else [word]

    def _word(self, match: re.Match[str]) -> str:
        return re.sub(r"\s+", _BLANK, self.name(match) if self.name else match[0])

    def holds(self, token: str) -> bool:
        """Whether a token is a cell that is known, the diagonal's mark included."""
        word = token.upper()
        return self.is_cell(word) or (self.mark != "" and word == self.mark)

    def may_hold(self, token: str) -> bool:
        """Whether a token in the place of a cell is one."""
        return self.holds(token) or (self.learns and WORD.fullmatch(token) is not None)

    def is_needed(self, label: str) -> bool:
        """Whether a table without the row of this label is cut; NICs need only their columns."""
        return self.counted or not self.square or re.match(self.first, label) is not None

    def cells_between(self, text: str, separator: str) -> list[str] | None:
        """The cells of a line, "" for empty ones; None where two words have no separator."""
        if separator == "|":
            text = text.strip().removeprefix("|").removesuffix("|")
        else:
            text = _MARKS.sub("", text)
        cells = [self.tokens(cell) for cell in text.split(separator)]
        return None if any(len(cell) > 1 for cell in cells) else ["".join(cell) for cell in cells]

    def with_empty(self, rest: tuple[str, ...], extras: Sequence[str]) -> tuple[str, ...]:
        """What stands behind the cells, by column; an empty cell among them looks like blanks.

        With fewer words than columns nobody knows which is empty, but of what the tool says so.
        """
        if len(rest) == len(extras):
            return rest
        if rest and len(rest) == len(extras) - 1 and self.empty in extras:
            place = extras.index(self.empty)
            if all(_NUMBER.fullmatch(word) for word in rest[place:]):
                return (*rest[:place], "", *rest[place:])
        return ("",) * len(extras)


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its cells in column order, then one for each further column; "" is untold.

    Of a damaged one, which has no cells, `damage` says what is wrong, `rest` is what stands before
    its label, and `words` are all behind it.
    """

    label: str
    cells: tuple[str, ...]
    rest: tuple[str, ...]
    line: int
    damage: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table as text. `end` is the position in the list of lines after the last row."""

    corner: str
    columns: tuple[str, ...]
    extras: tuple[str, ...]
    rows: tuple[Row, ...]
    line: int
    end: int


def clean_lines(text: str) -> list[Line]:
    """Lines without escapes, exotic blanks, markdown marks; line numbers count from 1."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = []
    for number, raw in enumerate(text.split("\n"), start=1):
        line = _INVISIBLE.sub("", _SPACES.sub(" ", _ESCAPE.sub("", raw)))
        line = line.replace("\\_", "_").replace("**", "").replace("`", "")
        lines.append(Line(number, line))
    return lines


def without_marks(text: str) -> str:
    """A line without comment, quote and table marks before its first word."""
    return _MARKS.sub("", text)


def sections(
    lines: Sequence[Line], title: Callable[[Line], _Title | None]
) -> list[tuple[_Title, Line, list[Line]]]:
    """Each title with its line and the lines below it, up to the next title."""
    found = [(i, said) for i, line in enumerate(lines) if (said := title(line)) is not None]
    ends = [*(i for i, _ in found[1:]), len(lines)]
    return [
        (said, lines[i], list(lines[i + 1 : end]))
        for (i, said), end in zip(found, ends, strict=False)  # without titles, an end alone
    ]


def find_table(lines: Sequence[Line], spec: TableSpec, file: FileText) -> Table | None:
    """The first table that has rows; see `find_tables`."""
    return next(iter(find_tables(lines, spec, file, most=1)), None)


def find_tables(
    lines: Sequence[Line], spec: TableSpec, file: FileText, *, most: int | None = None
) -> list[Table]:
    """All tables that have rows, or the first of them, in the order of the text."""
    finder = _Finder(lines, spec, file)
    found: list[Table] = []
    bare: Line | None = None
    position = 0
    while position < len(lines) and (most is None or len(found) < most):
        header = finder.header(position)
        if header is None:
            position += 1
            continue
        table = finder.table(position, header)
        if table.rows:
            found.append(table)
        else:
            bare = bare or lines[position]
        position = max(table.end, position + 1)
    if bare is not None and not found:
        finder.refuse("the table has a header but no rows", bare.number)
    return found


def _padding(cells: Sequence[str]) -> int:
    """Which empty cell aligns the next one, as nvidia-smi does before N/A; else the last one."""
    empty = [i for i, cell in enumerate(cells) if not cell]
    return next((i for i in reversed(empty) if any(cells[i + 1 : i + 2])), empty[-1])


@dataclass(frozen=True, slots=True)
class _Header:
    corner: str
    columns: tuple[str, ...]
    extras: tuple[str, ...]
    end: int  # position after it


class _Finder:
    """Reads one text; every refusal names its line."""

    def __init__(self, lines: Sequence[Line], spec: TableSpec, file: FileText) -> None:
        self.lines = lines
        self.spec = spec
        self.file = file

    def refuse(self, message: str, line: int, hint: str = "") -> NoReturn:
        """Refuse the file."""
        raise self.file.refusal(message, line, hint=hint)

    # ---- header

    def header(self, position: int) -> _Header | None:
        """The header that starts here; a terminal may have wrapped it, also inside a word."""
        text = self.lines[position].text
        best = self._header_of(text, position + 1)
        if self.spec.counted:
            return best if best and self._begins_rows(best) else None
        if best is None and not self._starts_header(text):
            return None
        failures = 0
        for here in range(position + 1, min(len(self.lines), position + MAX_ENDPOINTS)):
            more = self.lines[here].text
            first = self.spec.tokens(more)[:1]
            if not first or (best is not None and first[0] in best.columns) or failures > 1:
                break
            text += more
            found = self._header_of(text, here + 1)
            failures = failures + 1 if found is None else 0
            best = found or best
        return best

    def is_header(self, text: str) -> bool:
        """Whether a line alone is a header."""
        return self._header_of(text, 0) is not None

    def _starts_header(self, text: str) -> bool:
        tokens = self.spec.tokens(self._split_header(text)[2])
        return bool(tokens) and re.match(self.spec.first, tokens[0]) is not None

    def _split_header(self, text: str) -> tuple[str, tuple[str, ...], str]:
        """Corner, extra columns, and what is left of a header."""
        extras: list[tuple[int, str]] = []
        for pattern, kind in self.spec.extras:
            for match in re.finditer(pattern, text, re.IGNORECASE):
                extras.append((match.start(), kind))
                text = text[: match.start()] + " " * len(match[0]) + text[match.end() :]
        text = without_marks(text)
        corner = re.match(self.spec.corner, text) if self.spec.corner else None
        if corner is not None:
            text = text[corner.end() :]
        return corner[0] if corner else "", tuple(kind for _, kind in sorted(extras)), text

    def _header_of(self, text: str, end: int) -> _Header | None:
        corner, extras, text = self._split_header(text)
        columns: list[str] = []
        for token in self.spec.tokens(text):
            name = token.replace(_BLANK, " ")
            if self.spec.joined and re.fullmatch(f"(?:{self.spec.joined.pattern})+", name):
                columns += self.spec.joined.findall(name)
            elif self.spec.label.fullmatch(name):
                columns.append(token)
            else:
                return None
        if not columns or not re.match(self.spec.first, columns[0]):
            return None
        if self.spec.counted and columns != [str(i) for i in range(len(columns))]:
            return None
        return _Header(corner, tuple(columns), extras, end)

    def _begins_rows(self, header: _Header) -> bool:
        """Whether row 0 follows; numbers alone do not make a header."""
        found = self._next_tokens(header.end)
        if found is None or found[1][0] != "0" or len(found[1]) < 2:
            return False
        good = [self.spec.holds(token) for token in found[1][1:]]
        # Of one column, or with no cell at all, it may be anything; else a cell of it is damaged.
        return all(good) or (len(good) == len(header.columns) > 1 and any(good))

    def _next_tokens(self, position: int) -> tuple[int, list[str]] | None:
        """The next line with words, at most one blank line away."""
        for here in range(position, min(position + 2, len(self.lines))):
            tokens = self.spec.tokens(self.lines[here].text)
            if tokens:
                return here, tokens
        return None

    # ---- rows

    def table(self, position: int, header: _Header) -> Table:
        """The table below a header."""
        line = self.lines[position]
        columns = tuple(column.replace(_BLANK, " ") for column in header.columns)
        if len(set(columns)) < len(columns):
            twice = next(c for c in columns if columns.count(c) > 1)
            self.refuse(f"column {twice} appears twice", line.number)
        if len(columns) > MAX_ENDPOINTS:
            self.refuse(
                f"the table has {len(columns)} columns, more than {MAX_ENDPOINTS}",
                line.number,
                "one node per file",
            )
        read = self._counted_rows if self.spec.counted else self._named_rows
        rows, end = read(header, len(line.text))
        if rows and self.spec.square:
            rows = self._whole(columns, rows, end)
        return Table(header.corner, columns, header.extras, tuple(rows), line.number, end)

    def _whole(self, columns: tuple[str, ...], rows: list[Row], end: int) -> list[Row]:
        """The rows in the order of the columns; those of NICs may be missing."""
        row_of: dict[str, Row] = {}
        for row in rows:
            if row_of.setdefault(row.label, row) is not row:
                self.refuse(f"row {row.label} appears twice", row.line)
        missing = [column for column in columns if column not in row_of]
        if any(map(self.spec.is_needed, missing)):
            after = columns[columns.index(missing[0]) :]
            later = (row.line for row in rows if row.label in after)
            what = "the row of {} is" if len(missing) == 1 else "the rows of {} are"
            self.refuse(
                f"{what.format(', '.join(missing[:8]))} missing: the table is truncated",
                next(later, self.lines[end - 1].number + 1),
            )
        return [row_of[column] for column in columns if column in row_of]

    def _counted_rows(self, header: _Header, _width: int) -> tuple[list[Row], int]:
        rows: list[Row] = []
        count, here = len(header.columns), header.end
        while (found := self._next_tokens(here)) is not None:
            place, (name, *cells) = found
            line = self.lines[place].number
            good = [self.spec.holds(cell) for cell in cells]
            full = len(cells) == count > 1
            if name != str(len(rows)) or not all(good):
                if full and any(good) and name == str(len(rows)):
                    self.refuse(self._no_cell(cells[good.index(False)]), line)
                if full and all(good) and name.isdigit() and len(rows) < int(name) < count:
                    self.refuse(f"row {len(rows)} is missing: the table is truncated", line)
                break
            if rows and place > here and self.header(place) is not None:
                break  # a blank line, then another table of one column
            if len(cells) != count:
                self._refuse_length(name, len(cells), count, line)
            rows.append(Row(name, tuple(cell.upper() for cell in cells), (), line))
            here = place + 1
        return rows, here

    def _named_rows(self, header: _Header, width: int) -> tuple[list[Row], int]:
        """Rows by name, in any order, with whatever else stands between them."""
        rows: list[Row] = []
        here = end = header.end
        while here < len(self.lines):
            text = self.lines[here].text
            tokens = self.spec.tokens(text)
            place = self._place(tokens, header)
            if not tokens and len(rows) >= len(header.columns):
                break
            if place is None:
                self._check_column(tokens, self.lines[here].number)
            if self._ends(text, tokens, place, header, len(rows)):
                break
            if place is None:
                here += 1
                continue
            taken, row = self._row(here, header, width)
            if row.damage or len(row.cells) == len(header.columns):
                rows.append(row)
            elif self._needs(row, header, rows):
                self._refuse_length(row.label, len(row.cells), len(header.columns), row.line)
            here = end = here + taken
        return rows, end

    def _needs(self, row: Row, header: _Header, rows: list[Row]) -> bool:
        """Whether a cut row matters, which it does not after the rows of all devices."""
        names = [column.replace(_BLANK, " ") for column in header.columns]
        needed = set(filter(self.spec.is_needed, names))
        return row.label in needed or not needed <= {each.label for each in rows}

    def _place(self, tokens: Sequence[str], header: _Header) -> int | None:
        """Where the row's label stands: first, or behind leading affinities."""
        first = tokens[: len(header.extras) + 1]
        return next((i for i, token in enumerate(first) if token in header.columns), None)

    def _ends(
        self, text: str, tokens: list[str], place: int | None, header: _Header, rows: int
    ) -> bool:
        """Whether the table ends: at a legend or header; once complete, at all but one more row."""
        if text.strip("#* \t").lower().startswith("legend"):
            return True
        if place is None and self.is_header(text):
            return True
        if rows < len(header.columns):
            return False
        more = [] if place is None else tokens[place + 1 :]
        return not more or not all(self.spec.holds(each) for each in more[: len(header.columns)])

    def _check_column(self, tokens: Sequence[str], line: int) -> None:
        """A row of something that the header does not name means a damaged header."""
        if len(tokens) < 2 or not self.spec.label.fullmatch(tokens[0].replace(_BLANK, " ")):
            return
        if self.spec.holds(tokens[1]):
            name = tokens[0].replace(_BLANK, " ")
            self.refuse(f"row {name} has no column: the header is cut", line)

    def _row(self, position: int, header: _Header, width: int) -> tuple[int, Row]:
        """The row that starts here and how many lines it takes.

        A terminal that wraps at `width` columns may cut a row anywhere, also inside a word.
        """
        text, taken = self.lines[position].text, 1
        wanted = len(header.columns) + len(header.extras)
        while position + taken < len(self.lines):
            more = self.lines[position + taken].text
            cut = len(self.lines[position + taken - 1].text) == width
            if not self._continues(more, header) or (
                len(self._behind_label(text, header)[1]) >= wanted and not cut
            ):
                break
            whole = self._behind_label(text + more, header)[1][: len(header.columns)]
            text = text + more if all(map(self.spec.holds, whole)) else f"{text} {more}"
            taken += 1
        return taken, self._row_of(text, header, self.lines[position].number)

    def _continues(self, text: str, header: _Header) -> bool:
        """Whether a line holds only cells: words, numbers, CPU lists."""
        tokens = self.spec.tokens(text)
        return bool(tokens) and all(
            (self.spec.holds(t) or _REST_CELL.fullmatch(t))
            and t not in header.columns
            and not self.spec.label.fullmatch(t.replace(_BLANK, " "))
            for t in tokens
        )

    def _behind_label(self, text: str, header: _Header) -> tuple[list[str], list[str]]:
        """The tokens before the cells, the label last, and those from the cells on."""
        tokens = self.spec.tokens(text)
        start = (self._place(tokens, header) or 0) + 1
        return tokens[:start], tokens[start:]

    def _row_of(self, text: str, header: _Header, line: int) -> Row:
        """A row by its separators where it has them, else by its words; cut ones lack cells."""
        found = self._separated(text, header)
        if found is not None:
            return Row(found[0], found[1], found[2], line)
        (*leading, name), behind = self._behind_label(text, header)
        label, count = name.replace(_BLANK, " "), len(header.columns)
        cells = [token.upper() for token in behind[:count]]
        good = next((i for i, c in enumerate(cells) if not self.spec.may_hold(c)), len(cells))
        rest = (*leading, *behind[count:])
        marks = self._marks(cells, header)
        if good < len(cells) and not _REST_CELL.fullmatch(cells[good]):
            damage = self._no_cell(cells[good], f" ({label}, {header.columns[good]})")
        elif good < count and not self.spec.mends:
            return Row(label, tuple(cells[:good]), (), line)
        elif good < count:
            damage = f"row {label} has {good} of {count} cells"
        elif self.spec.mark and marks != [name]:
            where = f"in the columns of {', '.join(marks)}" if marks else "nowhere"
            where = where.replace(_BLANK, " ")
            damage = f"row {label} has its {self.spec.mark} {where}: columns are shifted"
        elif len(rest) > len(header.extras):
            damage = f"row {label} has more cells than the header has columns"
        else:
            return Row(label, tuple(cells), self.spec.with_empty(rest, header.extras), line)
        if not self.spec.mends:
            self.refuse(damage, line)
        return Row(label, (), tuple(leading), line, damage, tuple(behind))

    def _separated(
        self, text: str, header: _Header
    ) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
        """Label, cells and rest of a row whose cells have separators; None if they do not fit."""
        separator = next((mark for mark in "|\t" if mark in text), None)
        words = self.spec.cells_between(text, separator) if separator else None
        place = None if words is None else self._place(words, header)
        if words is None or place is None:
            return None
        start, count = place + 1, len(header.columns)
        cells = [word.upper() for word in words[start : start + count]]
        fits = len(cells) == count and all(not c or self.spec.may_hold(c) for c in cells)
        if not fits or (self.spec.mark and self._marks(cells, header) != [words[place]]):
            return None
        behind = words[start + count :]
        most = len(header.extras) - place
        while len(behind) > most and "" in behind:
            del behind[_padding(behind)]
        rest = (*words[:place], *behind)
        if len(rest) > len(header.extras):
            return None
        told = (*rest, *[""] * (len(header.extras) - len(rest)))
        return words[place].replace(_BLANK, " "), tuple(cells), told

    def _marks(self, cells: Sequence[str], header: _Header) -> list[str]:
        """The columns in which a row has the mark of the diagonal."""
        named = zip(header.columns, cells, strict=False)
        return [column for column, cell in named if cell == self.spec.mark]

    def _no_cell(self, cell: str, where: str = "") -> str:
        return f"{cell[:40]!r} where {self.spec.cells} belongs{where.replace(_BLANK, ' ')}"

    def _refuse_length(self, label: str, found: int, count: int, line: int) -> NoReturn:
        self.refuse(f"row {label} has {found} of {count} cells: the table is truncated", line)
