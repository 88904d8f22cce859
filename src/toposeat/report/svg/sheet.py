"""A standalone drawing that grows downwards: lines of words, samples of colours, charts."""

from __future__ import annotations

from collections.abc import Iterable

from toposeat.report.svg.element import (
    Attributes,
    Child,
    Markup,
    drawn_size,
    element,
    standalone_svg,
    text_line,
    text_width,
)

_MARGIN = 16.0
_LINE = 18.0
_NAMES, _BARS = 180.0, 600.0  # widths of names and of the longest bar


class Sheet:
    """Parts below each other; as wide as the widest of them."""

    def __init__(self, title: str) -> None:
        self._parts: list[Child] = []
        self._y = _MARGIN - 4
        self._width = 660.0
        self.line(title, "title")

    def line(self, words: str, look: str = "", *, sample: str = "") -> None:
        """One line of words, behind a sample of a colour if there is one."""
        self._y += _LINE
        x = _MARGIN
        if sample:
            self._parts.append(self._bar(sample, x, 14))
            x += 22
        self._words(words, x, look)

    def heading(self, words: str) -> None:
        """What comes next is about this."""
        self._y += _LINE
        self.line(words, "title")

    def chart(self, svg: Markup) -> None:
        """An inline `<svg>`."""
        at: Attributes = {"transform": f"translate({_MARGIN:.0f} {self._y + 8:.0f})"}
        self._parts.append(element("g", at, svg))
        width, height = drawn_size(svg)
        self._y += height + 8
        self._width = max(self._width, width + 2 * _MARGIN)

    def bars(self, name: str, bars: Iterable[tuple[str, float, str]]) -> None:
        """A name with bars below each other: colour, share of the longest, words behind it."""
        self._y += 6
        self._parts.append(text_line(_MARGIN, self._y + _LINE, name))
        for look, share, words in bars:
            self._y += _LINE
            self._parts.append(self._bar(look, _MARGIN + _NAMES, share * _BARS))
            self._words(words, _MARGIN + _NAMES + share * _BARS + 6)

    def svg(self, label: str) -> str:
        """The file."""
        return standalone_svg("chart", (self._width, self._y + _MARGIN), label, *self._parts)

    def _bar(self, look: str, x: float, width: float) -> Markup:
        spot: Attributes = {"class": look, "x": x, "y": self._y - 10, "width": width}
        return element("rect", {**spot, "height": 11})

    def _words(self, words: str, x: float, look: str = "") -> None:
        self._parts.append(text_line(x, self._y, words, look))
        size = 14 if look == "title" else 11
        self._width = max(self._width, x + text_width(words, size) + _MARGIN)
