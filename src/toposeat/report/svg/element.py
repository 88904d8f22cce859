"""Markup of escaped parts, so that a name from a file can never become markup; sheets of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from msgspec import Struct

from toposeat.report.units import clean

_SIZE = re.compile(r'width="(\d+)" height="(\d+)"')


class Markup(str):
    """Text that is already markup. Everything else is escaped where it is put in."""

    __slots__ = ()

    def __html__(self) -> str:
        """What page templates put in as it is: `element` has escaped every part of it."""
        return self


Child = str | Markup | None
Attribute = str | float | None
Attributes = dict[str, Attribute]


def element(name: str, attributes: Attributes | None = None, *children: Child) -> Markup:
    """`<name ...>children</name>`; plain strings are cleaned and escaped, None is left out.

    Attributes: None and False are left out, True is written bare, numbers lose useless digits.
    """
    head = name + "".join(_attribute(k, v) for k, v in (attributes or {}).items())
    if not children:
        return Markup(f"<{head}/>") if name in _VOID else Markup(f"<{head}></{name}>")
    return Markup(f"<{head}>{joined(children)}</{name}>")


_VOID = {
    *("rect", "line", "path", "circle", "use", "stop"),
    *("br", "hr", "img", "input", "meta", "link"),
}


def joined(children: Iterable[Child]) -> Markup:
    """The children one after the other."""
    return Markup("".join(markup(child) for child in children if child is not None))


def markup(child: Child) -> Markup:
    """`child` as markup."""
    if isinstance(child, Markup):
        return child
    return Markup(escape(_kept_blanks(child or ""), quote=True))


def _kept_blanks(text: str) -> str:
    start = " " if text[:1] == " " else ""
    end = " " if text[-1:] == " " and len(text) > 1 else ""
    return start + clean(text) + end


def _attribute(name: str, value: Attribute) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        value = number(value)
    return f' {name}="{escape(clean(str(value)), quote=True)}"'


class Picture(Struct, frozen=True):
    """An inline `<svg>` with what is said of it; `legend` has CSS classes and words."""

    name: str
    caption: str
    svg: Markup
    legend: Sequence[tuple[str, str]] = ()


def drawing(look: str, size: tuple[float, float], label: str, *children: Child) -> Markup:
    """An inline `<svg>` of (width, height); `label` is for readers who cannot see it."""
    return element(
        "svg",
        {
            "class": look,
            "viewBox": f"0 0 {number(size[0])} {number(size[1])}",
            "width": round(size[0]),
            "height": round(size[1]),
            "role": "img",
            "aria-label": label,
        },
        *children,
    )


def rect(
    look: str | None, x: float, y: float, width: float, height: float, **more: float
) -> Markup:
    """A rectangle; attributes in `more` have `_` for `-`."""
    named: Attributes = {name.replace("_", "-"): value for name, value in more.items()}
    spot: Attributes = {"class": look, "x": x, "y": y, "width": width, "height": height}
    return element("rect", {**spot, **named})


def titled(title: Child, *children: Child, look: str | None = None) -> Markup:
    """A group with a tooltip."""
    head = title if isinstance(title, Markup) else element("title", {}, title)
    return element("g", {"class": look}, head, *children)


def drawn_size(svg: Markup) -> tuple[float, float]:
    """Width and height of an inline `<svg>`."""
    found = _SIZE.search(svg)
    assert found is not None
    return float(found[1]), float(found[2])


def style_sheet() -> str:
    """The CSS that machine drawings and charts need, light and dark."""
    return files("toposeat.report.svg").joinpath("figure.css").read_text(encoding="utf-8")


def standalone_svg(
    look: str, size: tuple[float, float], label: str, *parts: Child, tall: float = 0
) -> str:
    """A self-contained SVG file of (width, height) pixels; in a small window `tall` instead."""
    width, height = map(round, size)
    high = max(height, round(tall))
    paper = element("rect", {"class": "paper", "width": width, "height": high})
    style = element("style", {}, Markup(style_sheet()))
    svg = drawing(f"{look} standalone", (width, height), label, style, paper, *parts)
    named = svg.replace(
        "<svg ",
        '<svg xmlns="http://www.w3.org/2000/svg" preserveAspectRatio="xMidYMin meet"'
        f' style="--tall: {width} / {high}" ',
        1,
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{named}\n'


def tooltip(*lines: Child) -> Markup:
    """A `<title>` with each of them on a line of its own; empty ones are left out."""
    return element("title", {}, Markup("\n".join(markup(line) for line in lines if line)))


def text_line(x: float, y: float, words: str, look: str = "") -> Markup:
    """One line of text at (x, y)."""
    return element("text", {"class": look or None, "x": x, "y": y}, words)


def number(value: float) -> str:
    """A coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def text_width(text: str, size: float) -> float:
    """The approximate width of `text` at font size `size` in a wide sans-serif font (DejaVu)."""
    return size * sum(_em(char) for char in text)


def _em(char: str) -> float:
    if char in "ijlI.,:;'|! ()[]-/":
        return 0.37
    if char in "mwMW@%":
        return 0.92
    if unicodedata.east_asian_width(char) in "WF":
        return 1.05
    return 0.68 if char.isupper() else 0.62


def fitted(text: str, width: float, size: float) -> str:
    """`text` cut with an ellipsis so that it is no wider than `width` at font size `size`."""
    text = clean(text)
    if text_width(text, size) <= width:
        return text
    while text and text_width(text, size) + size > width:
        text = text[:-1]
    return text.rstrip() + "…" if text else ""


def folded(text: str, width: float, size: float) -> list[str]:
    """`text` in lines no wider than `width` at font size `size`; words too long are broken."""
    lines, width = [""], 0.95 * width  # some letters are wider than `text_width` takes them
    for word in clean(text).split():
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if text_width(longer, size) <= width:
            lines[-1] = longer
            continue
        if lines[-1]:
            lines.append("")
        for char in word:
            if lines[-1] and text_width(lines[-1] + char, size) > width:
                lines.append("")
            lines[-1] += char
    return lines


_MARGIN = 16.0
_LINE = 18.0
_NAMES, _BARS = 180.0, 600.0  # widths of names and of the longest bar
_PHONE, _PHONE_SIZE = 390.0, 13.0  # pixels: a small window, and letters that it needs


def _wider(look: str) -> float:
    """How much wider than plain letters of 11 pixels: titles are larger and bold."""
    return 1.35 if look == "title" else 1.0


class Sheet:
    """Parts below each other; words fold, so that only drawings make it wider.

    In a small window the sheet shrinks with its drawings; then `list_line`s stand below it, large.
    """

    def __init__(self, title: str, width: float = 660.0) -> None:
        self._parts: list[Child] = []
        self._list: list[tuple[str, str]] = []
        self._y = _MARGIN - 4
        self._width = width
        self.line(title, "title")

    def line(self, words: str, look: str = "", *, sample: Child = None) -> None:
        """Words, behind a sample of what they are about if there is one."""
        x = _MARGIN if sample is None else _MARGIN + 42
        for at, part in enumerate(folded(words, self._width - x - _MARGIN, 11 * _wider(look))):
            self._y += _LINE
            if sample is not None and at == 0:
                self._parts.append(self._moved(sample, _MARGIN, self._y - 11))
            self._parts.append(text_line(x, self._y, part, look))

    def heading(self, words: str) -> None:
        """What comes next is about this."""
        self._y += _LINE
        self.line(words, "title")

    def list_line(self, words: str, look: str = "") -> None:
        """Words that stand below the sheet where it has shrunk."""
        self._list.append((words, look))

    def chart(self, svg: Markup) -> None:
        """An inline `<svg>`."""
        self._parts.append(self._moved(svg, _MARGIN, self._y + 8))
        width, height = drawn_size(svg)
        self._y += height + 8
        self._width = max(self._width, width + 2 * _MARGIN)

    def picture(self, picture: Picture) -> None:
        """A picture below its name and its legend."""
        self.heading(", ".join(filter(None, (picture.name, picture.caption))))
        for look, words in picture.legend:
            self.line(words, sample=rect(look, 0, 1, 28, 11))
        self.chart(picture.svg)

    def bars(self, name: str, bars: Iterable[tuple[str, float, str]]) -> None:
        """A name with bars below each other: look, share of the longest, words behind it."""
        self._y += 6
        self._parts.append(text_line(_MARGIN, self._y + _LINE, name))
        for look, share, words in bars:
            self._y += _LINE
            x = _MARGIN + _NAMES + share * _BARS
            self._parts.append(
                rect(f"fill-{look}", _MARGIN + _NAMES, self._y - 10, share * _BARS, 11)
            )
            self._parts.append(text_line(x + 6, self._y, words))
            self._width = max(self._width, x + text_width(words, 11) + _MARGIN)

    def svg(self, label: str) -> str:
        """The file."""
        size = (self._width, self._y + _MARGIN)
        below, height = self._below()
        return standalone_svg("chart", size, label, *self._parts, below, tall=size[1] + height)

    def _below(self) -> tuple[Child, float]:
        """The list, in letters that a small window can show, and its height."""
        scale = self._width / _PHONE
        if not self._list or scale < 1.3:
            return None, 0.0
        size, y = _PHONE_SIZE * scale, self._y + _MARGIN
        parts = []
        for words, look in self._list:
            for part in folded(words, self._width - 2 * _MARGIN, size * _wider(look)):
                y += 1.4 * size
                styled: Attributes = {"class": look or None, "x": _MARGIN, "y": y}
                parts.append(element("text", {**styled, "style": f"font-size: {size:.0f}px"}, part))
            y += 0.4 * size
        group: Attributes = {"class": "narrow", "display": "none"}
        return element("g", group, *parts), y - self._y

    @staticmethod
    def _moved(what: Child, x: float, y: float) -> Markup:
        return element("g", {"transform": f"translate({number(x)} {number(y)})"}, what)
