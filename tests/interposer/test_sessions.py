"""MPI Sessions without MPI_Init, beside it, and after each other: one record per process."""

import subprocess

import numpy as np
import pytest

from tests.support.entries import declarations
from tests.support.interposed import PROGRAMS, compile_c, fails_by_itself, run_ranks
from tests.support.mpi import FEW_MPI_NAMES
from tests.support.raw_records import matrices, records_of_ranks
from toposeat.profile.records.segment import State

pytestmark = [pytest.mark.mpi, pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)]

RANKS = 4


def records_of(mpi, what, build_dir, folder):
    if "MPI_Session_init" not in declarations(mpi):
        pytest.skip(f"{mpi.name} has no sessions (MPI before 4.0)")
    program = compile_c(mpi, PROGRAMS / "sessions.c", build_dir)
    done = run_ranks(mpi, RANKS, [program, what], folder)
    if what != "kill" and done.returncode != 0 and fails_by_itself(mpi, RANKS, [program, what]):
        pytest.skip(f"{mpi.name} fails by itself")
    assert (done.returncode == 0) == (what != "kill"), done.stderr
    return records_of_ranks(folder, RANKS)


def sent(records):
    """Point-to-point bytes; nothing else moved, and nothing was lost."""
    seen = matrices(records, RANKS)
    assert seen[1:].sum() == 0
    assert all(record.lost_messages == record.lost_events == 0 for record in records)
    return seen[0, 0]


@pytest.mark.parametrize(
    ("what", "total"), [("only", 10), ("again", 30), ("two", 60), ("beside", 60)]
)
def test_rings(mpi, what, total, build_dir, tmp_path):
    try:
        records = records_of(mpi, what, build_dir, tmp_path / "records")
    except subprocess.TimeoutExpired:
        if what != "again" or mpi.name != "wheel-mpich":
            raise
        pytest.skip("this MPICH hangs in a fifth of such runs by itself, without the interposer")
    assert (sent(records) == total * np.roll(np.eye(RANKS, dtype=int), 1, axis=1)).all()
    assert {record.world_size for record in records} == {RANKS}
    assert all(record.state is State.FINALIZED for record in records)
    assert all(0 < record.info.mpi_s <= record.info.wall_s for record in records)


def test_inter_communicator_from_groups(mpi, build_dir, tmp_path):
    records = records_of(mpi, "inter", build_dir, tmp_path / "records")
    assert (sent(records) == 40 * np.roll(np.eye(RANKS, dtype=int), RANKS // 2, axis=1)).all()


def test_killed_within_a_session(mpi, build_dir, tmp_path):
    records = records_of(mpi, "kill", build_dir, tmp_path / "records")
    assert (sent(records) == 10 * np.roll(np.eye(RANKS, dtype=int), 1, axis=1)).all()
    assert all(record.state is State.RUNNING for record in records)
