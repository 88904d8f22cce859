"""How text is laid out: width, colour, character set. Everything else hands lines to `lay_out`."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from toposeat.report.units import clean

PIPE_WIDTH = 100
_MIN_WIDTH = 40


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


def lay_out(parts: Iterable[RenderableType], style: TextStyle) -> str:
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
        line = Text(part) if isinstance(part, str) else part
        if isinstance(line, Text):  # whose own wishes `print` forgets
            whole = line.overflow == "ignore"  # a line to copy, however narrow the terminal
            console.print(line, no_wrap=line.no_wrap, overflow=line.overflow, crop=not whole)
        else:
            console.print(line)
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
    if not style.unicode:
        text = text.encode("ascii", "replace").decode("ascii")
    return text + "\n"


def height(parts: Iterable[RenderableType], style: TextStyle) -> int:
    """How many lines `parts` take."""
    return lay_out(parts, style).count("\n")


def fitting(parts: Iterable[RenderableType], style: TextStyle, most: int) -> list[RenderableType]:
    """The parts that `most` lines hold, the first before the others, each whole or not at all."""
    taken = []
    for part in parts:
        lines = height([part], style)
        if lines <= most:
            taken.append(part)
            most -= lines
    return taken


def columns(
    header: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    right: Iterable[int] = (),
    fold: Iterable[int] = (),
    only_used: bool = False,
) -> Table:
    """Rows under a header, two blanks apart, without lines.

    Args:
        header: column names; a column whose name is empty still has a place.
        rows: cells, cleaned here of what could steer a terminal.
        right: columns aligned to the right.
        fold: columns that may be broken over lines; others are cut with an ellipsis if need be.
        only_used: columns in which every cell is empty or `-` are left out, but the first.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    right, fold, rows = set(right), set(fold), list(rows)
    used = list(range(len(header)))
    if only_used:
        used = [n for n in used if n == 0 or any(str(row[n]) not in ("", "-") for row in rows)]
    for number in used:
        table.add_column(
            Text(header[number]),
            justify="right" if number in right else "left",
            no_wrap=number not in fold,
            overflow="fold" if number in fold else "ellipsis",
        )
    for row in rows:
        cells = [row[number] for number in used]
        table.add_row(*(cell if isinstance(cell, Text) else Text(clean(cell)) for cell in cells))
    return table


def labelled(label: str, content: str, *, width: int = 10) -> Table:
    """`label` in bold at the left, `content` wrapped beside it."""
    table = Table(box=None, pad_edge=False, padding=0, show_header=False)
    table.add_column(width=width)
    table.add_column(overflow="fold")
    table.add_row(Text(label, style="bold"), Text(content))
    return table


def sentences(lines: Iterable[str], *, mark: str = "- ") -> list[Table]:
    """Each sentence with a hanging indent."""
    tables = []
    for line in lines:
        table = Table(box=None, pad_edge=False, padding=0, show_header=False)
        table.add_column(width=len(mark))
        table.add_column(overflow="fold")
        table.add_row(Text(mark), Text(clean(line)))
        tables.append(table)
    return tables
