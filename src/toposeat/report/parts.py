"""What views are made of: facts, notes, tables and lines, which each writer lays out its way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct


class Cell(Struct, frozen=True):
    """Words, how they stand out (`better`, `worse`, `moved` ...), and a mark behind them."""

    words: str
    look: str = ""
    mark: str = ""


Words = str | Cell
_OF_GAINS = {"saves": "better", "costs": "worse"}


def gain_cell(words: str) -> Cell:
    """`saves 48 %` or `costs 3 %` in a column of what is saved, each in its colour."""
    return Cell(words.removeprefix("saves "), _OF_GAINS.get(words.partition(" ")[0], ""))


class Line(Struct, frozen=True):
    """Cells one after the other, unaltered.

    `end` says what is done where there is no room: `wrap`, `hang` (wrap below the first word of a
    tree's line), or `keep` for lines to copy. Nothing is cut.
    """

    cells: tuple[Words, ...]
    end: str = "wrap"


class Fact(Struct, frozen=True):
    """A name and what it is; the name has `width` letters of room in text."""

    name: Words
    words: str | Line
    width: int = 10


class Note(Struct, frozen=True):
    """A sentence, in text behind a mark."""

    words: str
    mark: str = "- "


class Title(Struct, frozen=True):
    """What the parts below it are about."""

    words: str


class Table(Struct, frozen=True):
    """Rows under a header.

    Attributes:
        header: column names; a column whose name is empty still has a place.
        rows: cells; writers clean them of what could steer a terminal or become markup.
        right: columns aligned to the right.
        fold: columns that may be broken over lines in text; others go below as a whole.
        only_used: columns in which every cell is empty or `-` are left out, but the first.
        has_header: whether the header is shown.
        caption: what the table is, on a page.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Words]]
    right: Iterable[int] = ()
    fold: Iterable[int] = ()
    only_used: bool = False
    has_header: bool = True
    caption: str = ""

    def columns(self) -> list[int]:
        """The columns that are shown."""
        used = range(len(self.header))
        if not self.only_used:
            return [*used]
        return [n for n in used if n == 0 or any(text_of(r[n]) not in ("", "-") for r in self.rows)]


Part = str | Title | Line | Fact | Note | Table


def text_of(words: Words) -> str:
    """The words alone."""
    return words.words if isinstance(words, Cell) else words


def facts(**named: str | None) -> list[Part]:
    """A fact for each name that has words."""
    return [Fact(name, words) for name, words in named.items() if words]


def titled_list(title: str, lines: Sequence[str]) -> list[Part]:
    """A title with sentences below it; nothing where there are none."""
    return [Title(title), *sentences(lines)] if lines else []


def to_copy(line: str) -> Line:
    """A line that is never cut or broken."""
    return Line((line,), end="keep")


def sentences(lines: Iterable[str], *, mark: str = "- ") -> list[Part]:
    """Each sentence as a note."""
    return [Note(line, mark) for line in lines]
