"""How text is laid out: width, colour, character set. Views hand parts to `lay_out`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from unicodedata import category, east_asian_width

from toposeat.report.parts import Cell, Fact, Line, Note, Part, Table, Title, Words, text_of
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

    `columns` is a terminal's width, where it is known.
    """
    terminal = stream.isatty()
    plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
    encoding = (stream.encoding or "").lower().replace("-", "")
    width = max(columns or PIPE_WIDTH, _MIN_WIDTH) if terminal else PIPE_WIDTH
    return TextStyle(width=width, colour=terminal and not plain, unicode=encoding.startswith("utf"))


def lay_out(parts: Iterable[Part], style: TextStyle) -> str:
    """The text of `parts`, each on lines of its own, without trailing blanks.

    Most of it is plain, for which rich is not loaded (it costs a third of numpy): that draws
    colours, and what has to be folded.
    """
    lines: list[str] = []
    for part in parts:
        plain = None if style.colour else plain_lines(part, style.width)
        if plain is None:
            from toposeat.report.rich_text import drawn  # noqa: PLC0415 - 20 ms

            plain = drawn(part, style.width, colour=style.colour)
        lines += plain
    text = "\n".join(line.rstrip() for line in lines)
    if not style.unicode:
        text = text.encode("ascii", "replace").decode("ascii")
    return text + "\n"


def height(parts: Iterable[Part]) -> int:
    """How many lines `parts` take in a pipe: what is said does not depend on the width."""
    return lay_out(parts, PLAIN).count("\n")


def fitting(blocks: Iterable[Sequence[Part]], most: int) -> list[Part]:
    """The blocks that `most` lines hold, the first before the others, each whole or not at all."""
    taken: list[Part] = []
    for block in blocks:
        lines = height(block)
        if lines <= most:
            taken += block
            most -= lines
    return taken


def plain_lines(part: Part, width: int) -> list[str] | None:
    """The lines of a part; None for what is more than letters and columns that fit."""
    match part:
        case str():
            return _wrapped(part, width)
        case Title():
            return _wrapped(part.words, width)
        case Line():
            text = _joined(part)
            return _wrapped(text, width) if part.end == "wrap" else _whole(text, width, part.end)
        case Fact():
            return _hanging(text_of(part.name), part.words, part.width, width)
        case Note():
            return _hanging(part.mark, clean(part.words), len(part.mark), width)
        case Table():
            return _table(part, width)


def _joined(line: Line) -> str:
    return "".join(map(text_of, line.cells))


def _is_plain(text: str) -> bool:
    """Whether each letter takes one place, and none steers a terminal."""
    if text.isascii():
        return text.isprintable()
    return all(category(c)[0] not in "CM" and east_asian_width(c) not in "FW" for c in text)


def _whole(text: str, width: int, end: str) -> list[str] | None:
    return [text] if _is_plain(text) and (len(text) <= width or end == "keep") else None


def _wrapped(text: str, width: int) -> list[str] | None:
    """A text broken between words; None where a word alone is too long."""
    if not _is_plain(text):
        return None
    lines, line = [], ""
    for word in re.findall(r"\s*\S+\s*", text):
        size = len(word.rstrip())
        if size > width:
            return None
        if line and len(line) + size > width:
            lines.append(line)
            line = ""
        line += word
    return [*lines, line]


def _hanging(first: str, words: str | Line, indent: int, width: int) -> list[str] | None:
    """`words` broken beside what comes first."""
    if not _is_plain(first) or len(first) > indent:
        return None
    if isinstance(words, Line) and words.end != "wrap":
        rest = _whole(_joined(words), width - indent, "")
    else:
        text = _joined(words) if isinstance(words, Line) else words
        rest = _wrapped(text, width - indent)
    if rest is None:
        return None
    return [
        f"{head:{indent}}{line}"
        for head, line in zip([first, *[""] * len(rest)], rest, strict=False)
    ]


def _table(shown: Table, width: int) -> list[str] | None:
    """Columns two blanks apart."""
    columns = shown.columns()
    rows = [[_cell(row[number]) for number in columns] for row in shown.rows]
    if any(isinstance(cell, Cell) and cell.mark for row in shown.rows for cell in row):
        return None
    if shown.has_header:
        rows.insert(0, [shown.header[number] for number in columns])
    if not columns or not all(_is_plain(cell) for row in rows for cell in row):
        return None
    widths = [max((len(row[at]) for row in rows), default=0) or 1 for at in range(len(columns))]
    if sum(widths) + 2 * (len(widths) - 1) > width:
        return None
    right = {at for at, number in enumerate(columns) if number in set(shown.right)}
    return [
        "  ".join(
            cell.rjust(wide) if at in right else cell.ljust(wide)
            for at, (cell, wide) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _cell(words: Words) -> str:
    return clean(words) if isinstance(words, str) else text_of(words)
