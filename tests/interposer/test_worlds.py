"""Processes outside MPI_COMM_WORLD: their bytes are said, and no byte is dropped."""

import pytest

from tests.support.interposed import (
    PROGRAMS,
    compile_c,
    fails_by_itself,
    run_ranks,
)
from tests.support.mpi import FEW_MPI_NAMES
from toposeat.model.traffic import TrafficKind
from toposeat.profile import read_records

pytestmark = [pytest.mark.mpi, pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)]

RANKS = 2


def profile(mpi, what, build_dir, tmp_path):
    program = compile_c(mpi, PROGRAMS / "worlds.c", build_dir)
    done = run_ranks(mpi, RANKS, [program, what], tmp_path / "records")
    if done.returncode != 0 and fails_by_itself(mpi, RANKS, [program, what]):
        pytest.skip(f"{mpi.name} has no dynamic processes here: {what} fails by itself")
    assert done.returncode == 0, done.stderr
    return read_records(tmp_path / "records")


def test_spawned_processes_are_outside(mpi, build_dir, tmp_path):
    """Two worlds after each other, over an inter-communicator and a merged one."""
    traffic = profile(mpi, "spawn", build_dir, tmp_path)
    # Around each merged communicator (ranks 0 and 1, then the children), rank 0 sends to rank 1.
    inside = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert inside.dense_bytes(RANKS).tolist() == [[0, 40], [0, 0]]
    assert inside.dense_messages(RANKS).tolist() == [[0, 2], [0, 0]]
    said = "\n".join(traffic.report)
    assert "ranks 0, 1 called MPI_Comm_spawn: the processes that it started are not" in said
    assert "5 messages (90 bytes) are with processes outside MPI_COMM_WORLD" in said
    assert len(list((tmp_path / "records").glob("rank-*.tpsrec"))) == RANKS


@pytest.mark.parametrize("what", ["connect", "join"])
def test_another_way_to_the_own_world(mpi, what, build_dir, tmp_path):
    """Ranks that connect to ranks of their own world are the ranks they are."""
    traffic = profile(mpi, what, build_dir, tmp_path)
    inside = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert inside.dense_bytes(RANKS).tolist() == [[0, 12], [12, 0]]
    assert not any("outside" in line for line in traffic.report)
