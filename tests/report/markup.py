"""A strict reader of the report's markup: balanced, quoted, nothing from outside."""

import re
from html.parser import HTMLParser

_VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Parses and remembers; raises AssertionError at the first unbalanced tag."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.stack = []
        self.tags = []
        self.text = []
        self.svg_text = []
        self.titles = []
        self.feed(text)
        self.close()
        assert not self.stack, f"never closed: {self.stack}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack[-1] == tag, f"</{tag}> closes <{self.stack[-1]}>"
        self.stack.pop()

    def handle_data(self, data):
        if self.stack and self.stack[-1] not in ("style", "script"):
            self.text.append(data)
            if "svg" in self.stack and self.stack[-1] == "text":
                self.svg_text.append(data)
            if self.stack[-1] == "title":
                self.titles.append(data)

    @property
    def words(self):
        return "\n".join(self.text)

    def classes(self, name):
        """How many elements carry the class."""
        return sum(name in (attrs.get("class") or "").split() for _, attrs in self.tags)


def assert_nothing_from_outside(text):
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
