"""The machines we ship against tables that others measured: `benchmarks/papers/physics.py`."""

import pytest
from benchmarks.papers import measured_links, summer_school
from benchmarks.papers.__main__ import ROWS as EVERY_ROW
from benchmarks.papers.physics import AURORA, LIMIT, POWER8, ROWS, compare
from benchmarks.papers.table import markdown_of

MUST = [row for row in ROWS if row.must]
FURTHER = [row for row in ROWS if row.source in (AURORA, POWER8)]  # not named by the task


@pytest.mark.parametrize(
    "row", [*MUST, *FURTHER], ids=lambda r: f"{r.machine}, {r.name}, {r.quantity}"
)
def test_class_is_within_ten_per_cent_of_what_was_measured(row):
    (comparison,) = compare([row])
    assert abs(comparison.error) <= LIMIT


def test_every_row_says_what_decides_it():
    assert {row.mark for row in ROWS} == {"calibrated-on", "held-out"}
    assert all(row.why for row in ROWS)
    assert {row.quantity for row in ROWS} == {"uni", "bidi", "latency"}
    # The named tables are not all calibrated: some of each source's rows were never looked at,
    # except of MI250, for which nothing else is published.
    held_out = {row.source for row in MUST if row.mark == "held-out"}
    assert len(held_out) == len({row.source for row in MUST}) - 1


def test_the_rows_are_what_the_command_prints():
    """Of the papers that no solver has a part in; `make papers` rewrites the file."""
    *lines, _ = markdown_of([measured_links.paper(), summer_school.paper()])
    rows = EVERY_ROW.read_text(encoding="utf-8")
    assert [line for line in lines if line not in rows] == []
