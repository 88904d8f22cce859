from dataclasses import replace

from tests.report import samples
from toposeat.model.runs import RealisedSeat, SeatVerdict
from toposeat.report import TextStyle, render_run_text, render_verdict

RUN = """\
Run       mpirun -n 3 './my app'
Placed by app.place, visibility permute
Where     node07, 2026-11-20T22:00:00Z
Measured  wall time 61.3 s, exit code 0

rank  host    pci           cpus  verdict
   0  node07  0000:04:00.0  0-3   as placed
   1  node07  0000:05:00.0  -     mismatch
   2  node07  -             -     not checked

1 of 3 ranks on 1 node not as planned, 1 not checked
- rank 1: device 0000:05:00.0 instead of 0000:06:00.0
"""


def test_exact_text():
    assert render_run_text(samples.run_record()) == RUN


def test_measured_never_beside_predicted():
    assert "predict" not in render_run_text(samples.run_record()).lower()


def test_mismatch_is_loud_in_colour():
    text = render_run_text(samples.run_record(), TextStyle(colour=True))
    assert "\x1b[1;31mmismatch" in text


def test_run_without_reports():
    record = replace(samples.run_record(), seats=(), repeats=5, notes=("stopped early",))
    text = render_run_text(record)
    assert "61.3 s, 5 runs" in text
    assert "- stopped early" in text
    assert "rank" not in text


def seat(rank, verdict, *differences):
    return RealisedSeat(
        rank=rank, host=f"n{rank // 4}", verdict=verdict, differences=tuple(differences)
    )


def record(seats, *notes):
    return replace(samples.run_record(), seats=tuple(seats), notes=notes)


def test_a_run_as_planned_is_said_in_one_line():
    text = render_verdict(record([seat(rank, SeatVerdict.AS_PLACED) for rank in range(16)]))
    assert text.splitlines()[0] == "16 ranks as planned on 4 nodes"
    assert len(text.splitlines()) == 2


def test_when_all_is_wrong_twelve_lines_say_it():
    """Devices differ from rank to rank: the cause is one. Each rank has a cause of its own too."""
    words = [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "zeta",
        "eta",
        "theta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "pi",
        "rho",
    ]
    seats = [
        seat(
            rank,
            SeatVerdict.MISMATCH,
            f"used device 0000:{rank:02x}:00.0, placed on 0000:{rank + 1:02x}:00.0",
            f"runs on CPUs {rank}, is placed on {rank + 32}",
            f"its library says {words[rank]}",
        )
        for rank in range(16)
    ]
    lines = render_verdict(record(seats)).splitlines()
    assert lines[0] == "16 of 16 ranks on 4 nodes not as planned"
    assert lines[1].startswith("- ranks 0-15: used device 0000:00:00.0, placed on 0000:01:00.0")
    assert "- ranks 0-15: runs on CPUs 0, is placed on 32" in lines[2]
    assert "9 causes more" in lines[-2]
    assert len(lines) == 12


def test_what_was_not_checked_is_not_called_planned():
    seats = [seat(rank, SeatVerdict.NOT_CHECKED, "not checked: device (why)") for rank in range(4)]
    lines = render_verdict(record(seats)).splitlines()
    assert lines[0] == "4 ranks on 1 node, not all of the plan checked"
    assert lines[1] == "- ranks 0-3: not checked: device (why)"


def test_a_launcher_that_starts_nothing_is_the_verdict():
    """Where no rank reported, none of the hosts is known either."""
    seats = [replace(seat(0, SeatVerdict.NOT_CHECKED, "not checked: no report"), host="")]
    lines = render_verdict(replace(record(seats), exit_code=1)).splitlines()
    assert lines[0] == "No rank reported what it got: the launcher ended with code 1"
