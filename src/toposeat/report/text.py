"""How text is laid out: width, colour, character set. Views hand parts to `lay_out`."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import rich.table
from rich.console import Console, RenderableType
from rich.text import Text

from toposeat.report.parts import Cell, Fact, Line, Note, Part, Table, Title, Words, text_of
from toposeat.report.units import clean

PIPE_WIDTH = 100
_MIN_WIDTH = 40
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


@dataclass(frozen=True, slots=True)
class TextStyle:
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

    Args:
        stream: where the text will go.
        environment: the process environment (`NO_COLOR`, `TERM`).
        columns: the terminal's width where known; ignored when `stream` is no terminal.
    """
    terminal = stream.isatty()
    plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
    encoding = (stream.encoding or "").lower().replace("-", "")
    width = max(columns or PIPE_WIDTH, _MIN_WIDTH) if terminal else PIPE_WIDTH
    return TextStyle(width=width, colour=terminal and not plain, unicode=encoding.startswith("utf"))


def lay_out(parts: Iterable[Part], style: TextStyle) -> str:
    """The text of `parts`, each on lines of its own, without trailing blanks."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=style.width,
        force_terminal=style.colour,
        color_system="standard" if style.colour else None,
        no_color=not style.colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    for part in parts:
        for each in _drawn(part, style.width):
            if isinstance(each, Text):  # whose own wishes `print` forgets
                whole = each.overflow == "ignore"  # a line to copy, however narrow the terminal
                console.print(each, no_wrap=each.no_wrap, overflow=each.overflow, crop=not whole)
            else:
                console.print(each)
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
    if not style.unicode:
        text = text.encode("ascii", "replace").decode("ascii")
    return text + "\n"


def height(parts: Iterable[Part], style: TextStyle) -> int:
    """How many lines `parts` take."""
    return lay_out(parts, style).count("\n")


def fitting(blocks: Iterable[Sequence[Part]], style: TextStyle, most: int) -> list[Part]:
    """The blocks that `most` lines hold, the first before the others, each whole or not at all."""
    taken: list[Part] = []
    for block in blocks:
        lines = height(block, style)
        if lines <= most:
            taken += block
            most -= lines
    return taken


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
