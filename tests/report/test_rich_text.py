"""What is laid out without rich: the same lines as rich's, or none."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from toposeat.report.parts import Cell, Fact, Line, Note, Part, Table, Title
from toposeat.report.rich_text import drawn
from toposeat.report.text import plain_lines

WORDS = st.text(st.sampled_from("ab -,é—\n\t好"), max_size=60)
CELLS = st.one_of(WORDS, st.builds(Cell, WORDS, st.just("better"), st.sampled_from(["", "here"])))
LINES = st.builds(
    Line, st.lists(CELLS, max_size=4).map(tuple), st.sampled_from(["wrap", "cut", "keep"])
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Of one to three columns."""
    columns = draw(st.integers(1, 3))
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


@given(part=PARTS, width=st.integers(20, 60))
@example(part="two words", width=20)
@example(part=Note("a sentence that is longer than its line, and so is broken"), width=30)
@example(part=Table(("a", ""), [("1", "x"), ("22", "yy")], right=(0,)), width=20)
def test_plain_lines_are_those_of_rich(part: Part, width: int) -> None:
    plain = plain_lines(part, width)
    if plain is not None:
        rich = drawn(part, width, colour=False)
        assert [line.rstrip() for line in plain] == [line.rstrip() for line in rich]


def test_what_commands_print_most_is_plain() -> None:
    note = Note("a sentence that is longer than its line, and so is broken")
    assert plain_lines(note, 30) == [
        "- a sentence that is longer ",
        "  than its line, and so is ",
        "  broken",
    ]
    assert plain_lines(Table(("a", "b"), [("1", "x")]), 20) == ["a  b", "1  x"]
    assert plain_lines("a" * 21, 20) is None  # to be cut
