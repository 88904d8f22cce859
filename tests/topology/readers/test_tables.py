"""The engine of tables, by those of numbers: what is found, refused, and nothing between."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toposeat.errors import InputError
from toposeat.topology.readers.cells import counted_numbers, report_asymmetry, values_of
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import clean_lines, find_tables

FILE = FileText("", Path("f.txt"))


def tables(text, *, square=False):
    spec = counted_numbers(r"[A-Za-z][\w\\/]{0,11}\s", square=square)
    return find_tables(clean_lines(text), spec, FILE)


def written(values, *, corner="   D\\D", mark=""):
    """As the CUDA sample prints a matrix."""
    head = mark + corner + "".join(f"{j:6d} " for j in range(values.shape[1]))
    rows = [
        f"{mark}{i:6d} " + "".join("   N/A " if np.isnan(v) else f"{v:6.2f} " for v in row)
        for i, row in enumerate(values)
    ]
    return "\n".join([head, *rows]) + "\n"


matrices = st.integers(1, 9).flatmap(
    lambda n: st.lists(
        st.lists(
            st.one_of(st.just(float("nan")), st.integers(0, 999_999).map(lambda x: x / 100)),
            min_size=n, max_size=n,
        ),
        min_size=1, max_size=n,
    )
).map(np.array)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    several=st.lists(matrices, min_size=1, max_size=3),
    corner=st.sampled_from(["   D\\D", "   GPU", "      "]),
    mark=st.sampled_from(["", "#", "# ", "> "]),
)
def test_reads_back_what_was_printed(several, corner, mark):
    text = "Title (GB/s)\n".join(["", *(written(v, corner=corner, mark=mark) for v in several)])
    found = tables(text)
    assert len(found) == len(several)
    for table, values in zip(found, several, strict=True):
        np.testing.assert_array_equal(values_of(table, FILE), values)
        assert table.corner.strip() == corner.strip()


def test_lines_count_from_one():
    (table,) = tables("title\n\n   D\\D  0  1\n  0  1.5  2\n\n  1  3  4\nend\n")
    assert (table.line, [row.line for row in table.rows]) == (3, [4, 6])
    assert values_of(table, FILE).tolist() == [[1.5, 2.0], [3.0, 4.0]]


def test_numbers_of_two_decimals_that_ran_together_are_cut():
    (table,) = tables("     0      1\n 0 2474.761037.19\n 1  36.36 2512.44\n")
    assert values_of(table, FILE).tolist() == [[2474.76, 1037.19], [36.36, 2512.44]]


def test_a_missing_row_is_refused_where_the_next_one_stands():
    with pytest.raises(InputError, match="row 1 is missing") as caught:
        tables("  0 1 2\n 0 1 2 3\n 2 1 2 3\n")
    assert caught.value.line == 3


def test_a_missing_last_row_is_no_square():
    assert len(tables("  0 1\n 0 1.5 2.5\n")) == 1
    with pytest.raises(InputError, match="the row of 1 is missing") as caught:
        tables("  0 1\n 0 1.5 2.5\n", square=True)
    assert caught.value.line == 3


@pytest.mark.parametrize(
    "text", ["0 1 2 3\nhello\n", "0 is first\n", "1 2\n1 2 3\n", "", "0\n", "0 1\n\n\n\n0 1 2\n"]
)
def test_no_matrix_is_none(text):
    assert tables(text) == []


def test_absurd_widths_are_refused():
    header = " ".join(str(i) for i in range(600))
    with pytest.raises(InputError, match="600 columns"):
        tables(f"{header}\n0 {header}\n")


def test_asymmetry_beyond_a_quarter_is_reported():
    report = []
    report_asymmetry(np.array([[0.0, 10.0], [12.4, 0.0]]), "copies", report)
    assert report == []
    report_asymmetry(np.array([[0.0, 10.0], [20.0, 0.0]]), "copies", report)
    assert "copies" in report[0]
    assert "(2.00 times)" in report[0]
