"""Placements by the clock: what is read, what is noise, what is refused."""

from dataclasses import replace

import pytest

from toposeat import pipeline
from toposeat.errors import ToposeatError, UsageError
from toposeat.launch import find_installations
from toposeat.mapping import seat_ranks
from toposeat.model.placement_file import save_placement
from toposeat.report import form_of, render_clocked_text
from toposeat.topology import read_topology

pytestmark = pytest.mark.mpi


def clock(tmp_path, *program, repeats=2, pattern):
    found = find_installations()
    if not found:
        pytest.skip("no MPI here")
    command = (*found[0].launch_words(2), *program)
    return clocked(tmp_path, command, repeats, pattern, found[0].environment())


def clocked(tmp_path, command, repeats, pattern, environment=None):
    ranks = 1 if environment is None else 2
    placement = seat_ranks(read_topology("power9-4"), ranks, (3, 1)[:ranks], metadata={})
    path = tmp_path / "p.place"
    save_placement(placement, path, overwrite=True)
    candidate = pipeline.Candidate(name="mine", placement=placement, path=path, predicted=0.25)
    return pipeline.clock_placements(
        pipeline.ClockPlan(command=command, repeats=repeats, pattern=pattern),
        [candidate],
        progress=lambda done, of: None,
        environment=environment,
    )


def test_the_last_time_that_is_printed_counts(tmp_path):
    result = clock(tmp_path, "echo", "took 9 s, 0.25 s", pattern=r"([0-9.]+) s")
    assert result.default_s == result.again_s == result.orders[0].seconds == (0.25, 0.25)
    assert result.is_noise(result.orders[0])
    assert result.emulated == ""
    text = render_clocked_text(result)
    assert "no measurable difference" in text
    assert "measured" in text
    assert "emulated" not in text
    assert " 25.0 %" in text  # the prediction, in a column of its own
    assert form_of(result)["orders"][0]["is_noise"] is True


def test_refused(tmp_path):
    for pattern, said in (("(", "regular expression"), ("[0-9]", "groups"), ("(a)(b)", "groups")):
        with pytest.raises(UsageError, match=said):
            clock(tmp_path, "true", pattern=pattern)
    with pytest.raises(UsageError, match="no repeats"):
        clock(tmp_path, "true", repeats=0, pattern=None)
    with pytest.raises(ToposeatError, match="no time found"):
        clock(tmp_path, "echo", "nothing", pattern=r"([0-9.]+) s")
    with pytest.raises(ToposeatError, match="exit code"):
        clock(tmp_path, "false", pattern=None)


def test_predicted_seconds_stand_beside_the_clocked(tmp_path):
    result = clock(tmp_path, "echo", "0.25 s", pattern=r"([0-9.]+) s")
    assert "link time" not in render_clocked_text(result)
    both = replace(result, predicted_s=(0.2, 0.25))
    rows = [line.split() for line in render_clocked_text(both).splitlines()]
    assert next(row for row in rows if row[:1] == ["default"])[-3:] == ["200", "ms", "1.25"]
    assert next(row for row in rows if row[:1] == ["mine"])[-1] == "1.00"
    assert form_of(both)["predicted_s"] == [0.2, 0.25]


@pytest.mark.parametrize(
    ("default", "placed", "deviation", "student"),  # t of 95 % by tables
    [
        (4.0, [5.0], None, None),
        (2.0, [1.0, 1.2], 0.1 / 2**0.5, 12.706),
        (2.0, [1.0, 1.2, 0.8], 0.1, 4.303),
        (2.0, [1.0, 1.2, 0.8, 1.2, 0.8], 0.1, 2.776),
    ],
)
def test_the_gain_is_the_mean_of_pairs_with_students_interval(
    tmp_path, default, placed, deviation, student
):
    times = tmp_path / "times"
    times.write_text("".join(f"{default} s\n{each} s\n{default} s\n" for each in placed))
    script = f"head -n 1 {times}; sed -i 1d {times}"
    found = clocked(tmp_path, ("sh", "-c", script), len(placed), r"([0-9.]+) s")
    assert found.orders[0].seconds == tuple(placed)
    gain, mean = found.orders[0].gain, 1 - sum(placed) / len(placed) / default
    half = student and student * deviation / len(placed) ** 0.5
    expected = (mean, deviation, half and mean - half, half and mean + half)
    assert (gain.mean, gain.deviation, gain.low, gain.high) == pytest.approx(expected)
    assert found.control.mean == 0
