"""Published figures beside ours: what must hold does, and the page in the documentation says so."""

from pathlib import Path

import pytest
from benchmarks.papers import faraji, gemini, measured_links, nvtags, summer_school
from benchmarks.papers.__main__ import ROWS
from benchmarks.papers.row import Row, Status
from benchmarks.papers.simulated import simulated_program, simulated_seconds
from benchmarks.papers.table import counts, markdown_of, section_of, text_of
from benchmarks.referee.simgrid import why_no_smpi

from toposeat.launch import MicrobenchOptions
from toposeat.model.map_options import MapOptions
from toposeat.pipeline import plan_pattern
from toposeat.topology import read_topology

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "evidence.md"

# Held out, and known to differ; each has its reason in a note.
DIFFER = {
    "HOOMD-Blue: gain in GPU communication time",
}


@pytest.fixture(scope="module")
def papers():
    """Without the large tori, SimGrid and whatever depends on this host's speed."""
    return [
        faraji.paper(simulate=False, measure=False),
        nvtags.paper(),
        summer_school.paper(),
    ]


def test_what_is_published_holds(papers):
    rows = [row for paper in papers for row in paper.rows]
    assert {row.quantity for row in rows if row.holds is False} == DIFFER
    for status in (Status.EXACT, Status.CALIBRATED, Status.HELD_OUT):
        assert sum(row.status is status for row in rows) >= 5


def test_a_seat_for_every_published_placement():
    """Ours for CHROMA is no worse than NVTAGS' in maximum and mean congestion and in time."""
    rows = [
        row for row in nvtags.paper().rows if "CHROMA" in row.quantity and row.holds is not None
    ]
    assert len(rows) == 3
    assert all(row.holds for row in rows)


@pytest.mark.parametrize(
    ("pattern", "plain", "optimised"),
    [("stencil2d:8x8", 0.894, 0.700), ("stencil3d:4x4x4", 1.786, 1.050)],
)
def test_orders_of_a_small_gemini_mesh(pattern, plain, optimised):
    """Ours, judged link by link, is as good as the best order; random ones are far behind."""
    rows = [*gemini._order_rows((2, 4, 4), pattern, 1.0)]
    assert [row.holds for row in rows] == [True, True]
    assert f"plain {plain:.3f}" in rows[0].predicted
    assert f"optimised {optimised:.3f}" in rows[0].predicted


def test_links_are_marked():
    rows = measured_links.paper().rows
    assert {row.status for row in rows} <= {Status.CALIBRATED, Status.HELD_OUT}
    assert sum(bool(row.holds) for row in rows) > len(rows) / 2


def test_the_page_and_the_rows_have_these_numbers(papers):
    page, every = PAGE.read_text(), ROWS.read_text()
    assert [line for line in section_of(papers) if line not in page] == [], "run: make papers"
    for paper in papers:
        lines = [line for line in markdown_of([paper]) if line.startswith("| ")]
        rows = [line for line in lines if "--no-measure" not in line and "Sec. 5.2.2" not in line]
        assert len(rows) > 8
        missing = [line for line in rows if line not in every]
        assert not missing, "run: make papers"


def test_forms(papers):
    text = "\n".join(text_of(papers))
    assert "published     level 3: 1600 -> 264" in text
    assert counts(papers) in text


def test_a_row_without_a_reason_is_refused():
    with pytest.raises(ValueError, match="say why"):
        Row(figure="1", quantity="x", published="1", status=Status.NOT_REPRODUCIBLE)
    with pytest.raises(ValueError, match="verdict"):
        Row(figure="1", quantity="x", published="1", status=Status.EXACT)


@pytest.fixture(scope="module")
def program():
    with simulated_program() as made:
        yield made


@pytest.mark.skipif(why_no_smpi() is not None, reason=str(why_no_smpi()))
@pytest.mark.parametrize(
    ("pattern", "algorithm", "apart"),
    [
        ("stencil2d:4x4", None, 0.05),
        ("alltoall:4x2x2", None, 0.05),
        ("alltoall:4x2", "pairwise", 0.03),
        ("allreduce:4x2", "ring", 0.03),
    ],
)
def test_the_program_on_simgrid_gains_as_predicted(program, pattern, algorithm, apart):
    """The real MPI program on someone else's simulator.

    SimGrid gives flows of shorter latency a larger share of a link, which moves times by up to 8 %
    here; with equal latencies it agrees with the model to a thousandth, as other tests show.
    """
    plan = plan_pattern(
        pattern,
        read_topology("k80-16"),
        MicrobenchOptions(sizes=(4 * 2**20,), iterations=1, batch=1, warmup=0),
        options=MapOptions(min_gain=0),
        randoms=0,
        algorithm=algorithm,
    )
    orders = [plan.default, plan.placed]
    (default,), (placed,) = simulated_seconds(plan, orders, program)
    (before,), (after,) = map(plan.predicted, orders)
    assert 1 - placed / default == pytest.approx(1 - after / before, abs=apart)
    assert placed < 0.8 * default
