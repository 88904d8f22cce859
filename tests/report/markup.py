"""A strict reader of the report's markup: balanced, quoted, nothing from outside."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Parses and remembers; raises AssertionError at the first unbalanced tag."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.svg_text: list[str] = []
        self.titles: list[str] = []
        self.feed(text)
        self.close()
        assert not self.stack, f"never closed: {self.stack}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack[-1] == tag, f"</{tag}> closes <{self.stack[-1]}>"
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] not in ("style", "script"):
            self.text.append(data)
            if "svg" in self.stack and self.stack[-1] == "text":
                self.svg_text.append(data)
            if self.stack[-1] == "title":
                self.titles.append(data)

    @property
    def words(self) -> str:
        return "\n".join(self.text)

    def classes(self, name: str) -> int:
        """How many elements carry the class."""
        return sum(name in (attrs.get("class") or "").split() for _, attrs in self.tags)


def assert_nothing_from_outside(text: str) -> None:
    """No address is fetched or followed: links stay inside the page."""
    page = Page(text)
    for tag, attrs in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "use", "image"}
        for name, value in attrs.items():
            assert not name.startswith("on"), f"{name} on <{tag}>"
            if name in {"src", "href", "xlink:href", "action", "srcset", "data"}:
                assert value is not None
                assert value.startswith("#")
    for block in re.findall(r"<style>(.*?)</style>", text, re.S):
        assert "url(" not in block
        assert "@import" not in block
    for block in re.findall(r"<script>(.*?)</script>", text, re.S):
        assert not re.search(r"fetch|XMLHttp|import|eval|innerHTML|http", block)
