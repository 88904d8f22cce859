"""Parts drawn by rich: in colours, and where lines have to be broken. Nothing is cut."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeGuard

import rich.table
from rich.console import Console, RenderableType
from rich.text import Text

from toposeat.report.parts import Cell, Fact, Line, Note, Part, Table, Title, Words, text_of
from toposeat.report.units import clean

_STYLES = {
    **dict.fromkeys(("better", "as-placed", "ok"), "green"),
    **dict.fromkeys(("moved", "device"), "bold green"),
    **dict.fromkeys(("noise", "not-checked", "doubt", "heat-5", "heat-6"), "yellow"),
    **dict.fromkeys(("mismatch", "fault"), "bold red"),
    **dict.fromkeys(("worse", "heat-7"), "red"),
    **dict.fromkeys(("info", "heat-3", "heat-4"), "cyan"),
    **dict.fromkeys(("heat-1", "heat-2"), "blue"),
    **{"strong": "bold", "nic": "bold cyan", "faint": "dim", "untold": "bold yellow"},
}


_GUIDES = " \N{BOX DRAWINGS LIGHT VERTICAL}\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}" + (
    "\N{BOX DRAWINGS LIGHT UP AND RIGHT}\N{BOX DRAWINGS LIGHT HORIZONTAL}|`+-"
)


def drawn(part: Part, width: int, *, colour: bool) -> list[str]:
    """The lines of a part."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    for each in _drawn(part, width):
        if isinstance(each, Text):  # whose own wishes `print` forgets
            whole = each.overflow == "ignore"  # a line to copy, however narrow the terminal
            console.print(each, no_wrap=each.no_wrap, overflow=each.overflow, crop=not whole)
        else:
            console.print(each)
    return out.getvalue().splitlines()


def _drawn(part: Part, width: int) -> list[RenderableType]:
    match part:
        case str():
            return [Text(part)]
        case Title():
            return [Text(part.words)]
        case Line():
            return [_line(part) if part.end != "hang" else _hung(_line(part))]
        case Fact():
            words = _line(part.words) if isinstance(part.words, Line) else Text(part.words)
            name = Cell(part.name, "strong") if isinstance(part.name, str) else part.name
            return [_hanging(_text(name), words, part.width)]
        case Note():
            return [_hanging(Text(part.mark), Text(clean(part.words)), len(part.mark))]
        case Table():
            return _blocks(part, width)


def _line(line: Line) -> Text:
    text = Text.assemble(*map(_text, line.cells))
    if line.end == "keep":
        text.no_wrap, text.overflow = True, "ignore"
    return text


def _hung(text: Text) -> RenderableType:
    """A line of a tree, wrapped behind what leads to it."""
    leads = len(text.plain) - len(text.plain.lstrip(_GUIDES))
    return _hanging(text[:leads], text[leads:], leads)


def _is_marked(words: Words) -> TypeGuard[Cell]:
    return isinstance(words, Cell) and bool(words.mark)


def _text(words: Words) -> Text:
    look = words.look if isinstance(words, Cell) else ""
    return Text(text_of(words), style=_STYLES.get(look, ""))


def _hanging(first: Text, words: Text, width: int) -> RenderableType:
    """`words` wrapped beside what comes first."""
    table = rich.table.Table(box=None, pad_edge=False, padding=0, show_header=False)
    table.add_column(width=width)
    table.add_column(overflow="fold")
    table.add_row(first, words)
    return table


def _table(shown: Table, columns: Sequence[int], *, whole: bool) -> RenderableType:
    """Columns two blanks apart, without lines; each cell `whole`, but in columns that fold."""
    table = rich.table.Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
        show_header=shown.has_header,
    )
    right, fold = set(shown.right), set(shown.fold)
    for number in columns:
        table.add_column(
            Text(shown.header[number]),
            justify="right" if number in right else "left",
            no_wrap=whole and number not in fold,
            overflow="fold",
        )
    if any(_is_marked(row[number]) for row in shown.rows for number in columns):
        table.add_column(overflow="fold")
    for row in shown.rows:
        cells = [row[number] for number in columns]
        marks = [f"<- {c.mark}" for c in cells if isinstance(c, Cell) and c.mark]
        table.add_row(*(Text(clean(c)) if isinstance(c, str) else _text(c) for c in cells), *marks)
    return table


def _blocks(shown: Table, width: int) -> list[RenderableType]:
    """Blocks of columns that fit the width, each after the first column."""
    columns = shown.columns()
    if not columns:
        return []
    first, *others = [_needed(shown, number) + 2 for number in columns]
    starts, used = [1], 0
    for column, wide in enumerate(others, 1):
        if used and used + wide > width - first + 2:  # the last column's gap may hang over
            starts.append(column)
            used = 0
        used += wide
    blocks: list[RenderableType] = []
    for start, stop in pairwise([*starts, max(len(columns), 2)]):
        wide = first + sum(others[start - 1 : stop - 1])
        blocks += [Text("")] if blocks else []
        blocks.append(_table(shown, [columns[0], *columns[start:stop]], whole=wide <= width + 2))
    return blocks


_FOLDED = 16  # letters that a column needs which can be folded


def _needed(shown: Table, number: int) -> int:
    """How wide a column has to be, the marks behind its cells with it."""
    header = shown.header[number].splitlines() if shown.has_header else []
    cells = [*map(len, header), *(len(text_of(row[number])) for row in shown.rows)]
    most = _FOLDED if number in set(shown.fold) else max(cells, default=0)
    widest = min(max(cells, default=0), most)
    marked = [row[number] for row in shown.rows]
    marks = [len(cell.mark) + 5 for cell in marked if _is_marked(cell)]
    return widest + max(marks, default=0)
