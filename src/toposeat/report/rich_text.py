"""Parts drawn by rich: in colours, and where lines have to be broken or cut."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import pairwise

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
            return [_line(part)]
        case Fact():
            words = _line(part.words) if isinstance(part.words, Line) else Text(part.words)
            name = Cell(part.name, "strong") if isinstance(part.name, str) else part.name
            return [_hanging(_text(name), words, part.width)]
        case Note():
            return [_hanging(Text(part.mark), Text(clean(part.words)), len(part.mark))]
        case Table():
            return _blocks(part, width) if part.split else [_table(part, part.columns())]


def _line(line: Line) -> Text:
    text = Text.assemble(*map(_text, line.cells))
    if line.end != "wrap":
        text.no_wrap, text.overflow = True, "ignore" if line.end == "keep" else "ellipsis"
    return text


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


def _table(shown: Table, columns: Iterable[int]) -> RenderableType:
    """Columns two blanks apart, without lines."""
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
            no_wrap=number not in fold,
            overflow="fold" if number in fold else "ellipsis",
        )
    marked = [any(isinstance(cell, Cell) and cell.mark for cell in row) for row in shown.rows]
    if any(marked):
        table.add_column(no_wrap=True)
    for row in shown.rows:
        cells = [row[number] for number in columns]
        marks = [f"<- {c.mark}" for c in cells if isinstance(c, Cell) and c.mark]
        table.add_row(*(Text(clean(c)) if isinstance(c, str) else _text(c) for c in cells), *marks)
    return table


def _blocks(shown: Table, width: int) -> list[RenderableType]:
    """Blocks of columns that fit the width, each after the first column."""
    lines = [shown.header, *(list(map(text_of, row)) for row in shown.rows)]
    first, *widths = [max(len(line[n]) for line in lines) + 2 for n in range(len(shown.header))]
    starts, used = [1], 0
    for column, wide in enumerate(widths, 1):
        if used and used + wide > width - first + 2:  # the last column's gap may hang over
            starts.append(column)
            used = 0
        used += wide
    blocks: list[RenderableType] = []
    for start, stop in pairwise([*starts, len(shown.header)]):
        blocks += [Text("")] if blocks else []
        blocks.append(_table(shown, [0, *range(start, stop)]))
    return blocks
