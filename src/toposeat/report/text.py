"""How text is laid out: width, colour, character set. Views hand parts to `lay_out`."""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import groupby, repeat, zip_longest
from operator import itemgetter
from typing import Protocol, TypeGuard
from unicodedata import category, east_asian_width

from msgspec import Struct

from toposeat.report.parts import Cell, Fact, Line, Note, Part, Table, Title, Words, text_of
from toposeat.report.units import clean

PIPE_WIDTH = 100
_MIN_WIDTH = 40


class TextStyle(Struct, frozen=True):
    """What the output can show. The default suits files and pipes."""

    width: int = PIPE_WIDTH
    colour: bool = False
    unicode: bool = True


PLAIN = TextStyle()


class _Stream(Protocol):
    @property
    def encoding(self) -> str: ...

    def isatty(self) -> bool: ...


def text_style_for(
    stream: _Stream, environment: Mapping[str, str], *, columns: int | None = None
) -> TextStyle:
    """The style for `stream`: colour only on a terminal that has it, `NO_COLOR` honoured.

    `columns` is a terminal's width, where it is known.
    """
    terminal = stream.isatty()
    plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
    encoding = (stream.encoding or "").lower().replace("-", "")
    width = max(columns or PIPE_WIDTH, _MIN_WIDTH) if terminal else PIPE_WIDTH
    return TextStyle(width=width, colour=terminal and not plain, unicode=encoding.startswith("utf"))


def lay_out(parts: Iterable[Part], style: TextStyle) -> str:
    """The text of `parts`, each on lines of its own, without trailing blanks. Nothing is cut."""
    lines = (line for part in parts for line in _lines(part, style.width))
    text = "\n".join(_inked(_stripped(line), colour=style.colour) for line in lines)
    if not style.unicode:
        text = text.encode("ascii", "replace").decode("ascii")
    return text + "\n"


def height(parts: Iterable[Part]) -> int:
    """How many lines `parts` take in a pipe: what is said does not depend on the width."""
    return sum(len(_lines(part, PLAIN.width)) for part in parts)


def fitting(blocks: Iterable[Sequence[Part]], most: int) -> list[Part]:
    """The blocks that `most` lines hold, the first before the others, each whole or not at all."""
    taken: list[Part] = []
    for block in blocks:
        lines = height(block)
        if lines <= most:
            taken += block
            most -= lines
    return taken


_Letters = list[tuple[str, str]]  # runs of characters of a line, each with its look

_INKS = {
    **dict.fromkeys(("better", "as-placed", "ok"), "32"),
    **dict.fromkeys(("moved", "device"), "1;32"),
    **dict.fromkeys(("noise", "not-checked", "doubt", "heat-5", "heat-6"), "33"),
    **dict.fromkeys(("mismatch", "fault"), "1;31"),
    **dict.fromkeys(("worse", "heat-7"), "31"),
    **dict.fromkeys(("info", "heat-3", "heat-4"), "36"),
    **dict.fromkeys(("heat-1", "heat-2"), "34"),
    **{"strong": "1", "nic": "1;36", "faint": "2", "untold": "1;33"},
}
_GUIDES = " \N{BOX DRAWINGS LIGHT VERTICAL}\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}" + (
    "\N{BOX DRAWINGS LIGHT UP AND RIGHT}\N{BOX DRAWINGS LIGHT HORIZONTAL}|`+-"
)
_WORD = re.compile(r"\s*\S+\s*")
_GAP = 2  # blanks between columns
_FOLDED = 16  # letters that a column needs which can be folded


def _inked(letters: _Letters, *, colour: bool) -> str:
    """A line as it is written, in colours of the terminal's own palette."""
    if not colour:
        return "".join(map(itemgetter(0), letters))
    text = ""
    for look, group in groupby(letters, key=itemgetter(1)):
        words = "".join(letter for letter, _ in group)
        text += f"\x1b[{_INKS[look]}m{words}\x1b[0m" if look in _INKS else words
    return text


def _letters(words: Words | Line) -> _Letters:
    """The characters of words; what could steer a terminal is none of them."""
    found: _Letters = []
    for cell in words.cells if isinstance(words, Line) else (words,):
        text, look = (cell.words, cell.look) if isinstance(cell, Cell) else (cell, "")
        if not text.isprintable():
            text = "".join(c if category(c) != "Cc" or c == "\n" else " " for c in text)
        found.append((text, look))
    return found


def _cut(letters: _Letters, begin: int, end: int = sys.maxsize) -> _Letters:
    """The letters from one place to another."""
    return [each for run, look in letters for each in zip(run, repeat(look))][begin:end]


def _stripped(letters: _Letters) -> _Letters:
    for at in reversed(range(len(letters))):
        run, look = letters[at]
        if text := run.rstrip(" "):
            return [*letters[:at], (text, look)]
    return []


def _wide(letters: _Letters) -> int:
    """How many places the letters take."""
    places = 0
    for run, _ in letters:
        places += len(run) if run.isascii() else sum(map(_places, run))
    return places


def _places(char: str) -> int:
    return 0 if category(char) in ("Mn", "Me", "Cf") else 1 + (east_asian_width(char) in "FW")


def _lines(part: Part, width: int) -> list[_Letters]:
    """The lines of a part."""
    match part:
        case Fact():
            name = _letters(Cell(part.name, "strong") if isinstance(part.name, str) else part.name)
            return _beside(name, part.words, max(part.width, _wide(name) + 1), width)
        case Note():
            return _beside(_letters(part.mark), clean(part.words), len(part.mark), width)
        case Table():
            return _table(part, width)
        case Line() if part.end == "hang":
            text = "".join(map(text_of, part.cells))
            leads = len(text) - len(text.lstrip(_GUIDES))
            letters = _letters(part)
            rest = _broken(_cut(letters, leads), width - leads)
            return _row([[_cut(letters, 0, leads)], rest], [leads, 0])
        case _:
            return _folded(part.words if isinstance(part, Title) else part, width)


def _folded(words: Words | Line, width: int) -> list[_Letters]:
    """Words broken over lines, but for a line to copy, which is whole however narrow it is."""
    whole = isinstance(words, Line) and words.end == "keep"
    return [_letters(words)] if whole else _broken(_letters(words), width)


def _broken(letters: _Letters, width: int) -> list[_Letters]:
    """Letters broken between words, and inside one that is longer than a line."""
    text = "".join(map(itemgetter(0), letters))
    if "\n" in text:
        at = text.index("\n")
        return _broken(_cut(letters, 0, at), width) + _broken(_cut(letters, at + 1), width)
    if _wide(letters) <= width:
        return [letters]
    letters = _cut(letters, 0)
    lines: list[_Letters] = [[]]
    room = width
    for word in _WORD.finditer(text):
        size = _wide(letters[word.start() : word.start() + len(word[0].rstrip())])
        if size > room and room < width:
            lines.append([])
            room = width
        for letter in letters[word.start() : word.end()]:
            places = _places(letter[0])
            if room < places and letter[0] != " ":
                lines.append([])
                room = width
            lines[-1].append(letter)
            room -= places
    return lines


def _beside(first: _Letters, words: str | Line, indent: int, width: int) -> list[_Letters]:
    """Words broken beside what comes first."""
    return _row([_broken(first, indent), _folded(words, width - indent)], [indent, 0])


def _row(
    cells: Sequence[list[_Letters]], widths: Sequence[int], right: Container[int] = (), gap: int = 0
) -> list[_Letters]:
    """The lines of cells side by side, each of which is as wide as is said."""
    lines = []
    for across in zip_longest(*cells, fillvalue=[]):
        line: _Letters = []
        for at, (each, wide) in enumerate(zip(across, widths, strict=True)):
            letters = _stripped(each)
            blanks = [(" " * (wide - _wide(letters)), "")]
            line += [(" " * gap, "")] if at else []
            line += blanks + letters if at in right else letters + blanks
        lines.append(line)
    return lines


def _table(shown: Table, width: int) -> list[_Letters]:
    """Blocks of columns that fit the width, each after the first column."""
    columns = shown.columns()
    if not columns:
        return []
    first, *others = columns
    cells = {number: [_cell(row[number]) for row in shown.rows] for number in columns}
    needed = {number: _needed(shown, number, cells[number]) + _GAP for number in columns}
    blocks: list[list[int]] = [[first]]
    used = needed[first]
    for number in others:
        used += needed[number]
        if len(blocks[-1]) > 1 and used > width + _GAP:  # the last column's gap may hang over
            blocks.append([first])
            used = needed[first] + needed[number]
        blocks[-1].append(number)
    lines: list[_Letters] = []
    for block in blocks:
        whole = sum(needed[number] for number in block) <= width + _GAP
        lines += [[]] if lines else []
        rows = [*zip(*(cells[number] for number in block), strict=True)]
        lines += _columns(shown, block, rows, width, whole=whole)
    return lines


def _columns(
    shown: Table,
    columns: Sequence[int],
    rows: list[tuple[_Letters, ...]],
    width: int,
    *,
    whole: bool,
) -> list[_Letters]:
    """Columns two blanks apart; each cell `whole`, but in columns that fold."""
    folds = [at for at, number in enumerate(columns) if not whole or number in set(shown.fold)]
    header = [_letters(Cell(shown.header[number], "strong")) for number in columns]
    marks = [
        [f"<- {each.mark}" for each in (row[n] for n in columns) if _is_marked(each)]
        for row in shown.rows
    ]
    if any(marks):
        folds.append(len(columns))
        header.append([])
        rows = [(*row, _letters(" ".join(of))) for row, of in zip(rows, marks, strict=True)]
    if shown.has_header:
        rows = [tuple(header), *rows]
    widths = [max(map(_widest, column), default=0) or 1 for column in zip(*rows, strict=True)]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    while excess > 0 and any(widths[at] > 1 for at in folds):
        widths[max(folds, key=widths.__getitem__)] -= 1
        excess -= 1
    right = {at for at, number in enumerate(columns) if number in set(shown.right)}
    return [
        line for row in rows for line in _row([*map(_broken, row, widths)], widths, right, _GAP)
    ]


def _cell(words: Words) -> _Letters:
    return _letters(clean(words) if isinstance(words, str) else words)


def _widest(letters: _Letters) -> int:
    """Places of the widest of its lines."""
    return max(map(_wide, _broken(letters, sys.maxsize)))


def _is_marked(words: Words) -> TypeGuard[Cell]:
    return isinstance(words, Cell) and bool(words.mark)


def _needed(shown: Table, number: int, cells: Sequence[_Letters]) -> int:
    """How wide a column has to be, the marks behind its cells with it."""
    header = [_letters(shown.header[number])] if shown.has_header else []
    most = _FOLDED if number in set(shown.fold) else sys.maxsize
    widest = max(map(_widest, [*header, *cells]), default=0)
    marked = (len(cell.mark) + 5 for row in shown.rows if _is_marked(cell := row[number]))
    return min(widest, most) + max(marked, default=0)
