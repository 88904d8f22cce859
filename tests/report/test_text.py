import io
from collections import Counter
from unicodedata import east_asian_width

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toposeat.report import TextStyle, text_style_for
from toposeat.report.parts import Cell, Fact, Line, Note, Table, Title
from toposeat.report.text import lay_out


class Terminal(io.StringIO):
    def __init__(self, encoding="utf-8", *, tty=True):
        super().__init__()
        self._encoding = encoding
        self._tty = tty

    @property
    def encoding(self):  # type: ignore[override]
        return self._encoding

    def isatty(self):
        return self._tty


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        (Terminal(), {}, TextStyle(width=132, colour=True)),
        (Terminal(), {"NO_COLOR": "1"}, TextStyle(width=132, colour=False)),
        (Terminal(), {"NO_COLOR": ""}, TextStyle(width=132, colour=True)),
        (Terminal(), {"TERM": "dumb"}, TextStyle(width=132, colour=False)),
        (Terminal(tty=False), {}, TextStyle(width=100, colour=False)),
        (Terminal("latin-1"), {}, TextStyle(width=132, colour=True, unicode=False)),
    ],
)
def test_style_follows_the_stream(stream, environment, expected):
    assert text_style_for(stream, environment, columns=132) == expected


def test_the_process_environment_changes_nothing(monkeypatch):
    plain = lay_out([Table(("a",), [("x" * 50,)])], TextStyle(width=60))
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "20"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    assert lay_out([Table(("a",), [("x" * 50,)])], TextStyle(width=60)) == plain


def test_lines_have_no_trailing_blanks():
    text = lay_out([Table(("a", "b"), [("x", ""), ("longer", "y")])], TextStyle())
    assert text == "a       b\nx\nlonger  y\n"


WORDS = st.text(st.sampled_from("ab -,é—\n\t好"), max_size=60)
CELLS = st.one_of(WORDS, st.builds(Cell, WORDS, st.just("better"), st.sampled_from(["", "here"])))
LINES = st.builds(Line, st.lists(CELLS, max_size=4).map(tuple), st.sampled_from(["wrap", "hang"]))


@st.composite
def tables(draw):
    """Of one to four columns."""
    columns = draw(st.integers(1, 4))
    row = st.lists(CELLS, min_size=columns, max_size=columns)
    header = draw(st.lists(WORDS, min_size=columns, max_size=columns))
    some = st.sets(st.integers(0, columns - 1))
    rows = draw(st.lists(row, max_size=4))
    return Table(header, rows, right=draw(some), fold=draw(some), has_header=draw(st.booleans()))


PARTS = st.one_of(
    WORDS,
    st.builds(Title, WORDS),
    LINES,
    st.builds(Fact, st.text("ab", max_size=12), st.one_of(WORDS, LINES)),
    st.builds(Note, WORDS),
    tables(),
)


def said(part):
    """The words of a part."""
    match part:
        case str():
            yield part
        case Title() | Note():
            yield part.words
        case Line():
            yield from (c if isinstance(c, str) else c.words for c in part.cells)
        case Fact():
            yield from (part.name, *said(part.words))
        case Table():
            yield from part.header if part.has_header else ()
            for row in part.rows:
                yield from (c if isinstance(c, str) else c.words + c.mark for c in row)


@given(part=PARTS, width=st.integers(40, 60))
@example(part=Table(("a", "b"), [("好" * 70, "-" * 70)]), width=40)
def test_nothing_is_cut_and_no_line_is_too_wide(part, width):
    text = lay_out([part], TextStyle(width=width))
    for line in text.splitlines():
        assert sum(1 + (east_asian_width(c) in "FW") for c in line) <= width
    letters = Counter("".join("".join(said(part)).split()))
    assert letters <= Counter(text)
    plain = lay_out([part], TextStyle(width=width, colour=True))
    for code in ("\x1b[32m", "\x1b[1m", "\x1b[0m"):
        plain = plain.replace(code, "")
    assert [line.rstrip() for line in plain.splitlines()] == text.splitlines()


def test_how_parts_are_broken():
    note = Note("a sentence that is longer than its line, and so is broken")
    table = Table(("a", "b\nc"), [("1", "x"), ("22", Cell("y", "worse", "here"))], right=(0,))
    copied = Line(("--word " * 9,), end="keep")
    text = lay_out([note, table, copied], TextStyle(width=30))
    assert text.splitlines() == [
        "- a sentence that is longer",
        "  than its line, and so is",
        "  broken",
        " a  b",
        "    c",
        " 1  x",
        "22  y  <- here",
        ("--word " * 9).rstrip(),
    ]
    line = Line((Cell("ok", "ok"), " it is"))
    assert lay_out([line], TextStyle(colour=True)) == "\x1b[32mok\x1b[0m it is\n"
