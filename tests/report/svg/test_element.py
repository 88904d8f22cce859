from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from toposeat.report.svg.element import Markup, element, fitted, joined, number
from toposeat.report.units import clean


class _Collector(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags = []
        self.data = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, attrs))

    def handle_data(self, data):
        self.data += data


@given(st.text(), st.text())
def test_any_text_comes_back_as_text(content, value):
    reader = _Collector()
    reader.feed(element("p", {"title": value}, content))
    reader.close()
    assert reader.tags == [("p", [("title", clean(value))])]
    assert reader.data.strip() == clean(content)


def test_elements():
    assert element("br") == "<br/>"
    assert element("p") == "<p></p>"
    assert element("input", {"checked": True, "hidden": False, "id": None}) == "<input checked/>"
    assert element("rect", {"x": 1.5, "y": 2.0, "width": 3}) == '<rect x="1.5" y="2" width="3"/>'
    assert element("b", {}, "a < b ", Markup("<i>x</i>"), None) == "<b>a &lt; b <i>x</i></b>"
    assert joined(["a", None, Markup("<br/>")]) == "a<br/>"


def test_numbers_are_short():
    assert [number(v) for v in (0.0, -0.001, 100.0, 1.25, 1 / 3)] == [
        "0",
        "0",
        "100",
        "1.25",
        "0.33",
    ]


def test_fitted_text():
    assert fitted("package 0", 200, 11) == "package 0"
    assert fitted("a very long name of a switch", 70, 11) == "a very lo…"
    assert fitted("host bridge 0", 85, 11) == "host bridge 0"
    assert fitted("日本日本", 30, 11) == "日…"
    assert fitted("name", 3, 11) == ""
