"""Processes outside MPI_COMM_WORLD: each world has a number, and no byte is dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interposed import PROGRAMS, compile_c, fails_by_itself, run_ranks
from tests.support.mpi import FEW_MPI_NAMES, MpiToolchain
from toposeat.model.traffic import Traffic, TrafficKind
from toposeat.profile import read_records

pytestmark = [pytest.mark.mpi, pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)]

RANKS = 2


def profile(mpi: MpiToolchain, what: str, build_dir: Path, tmp_path: Path) -> Traffic:
    program = compile_c(mpi, PROGRAMS / "worlds.c", build_dir)
    done = run_ranks(mpi, RANKS, [program, what], tmp_path / "records")
    if done.returncode != 0 and fails_by_itself(mpi, RANKS, [program, what]):
        pytest.skip(f"{mpi.name} has no dynamic processes here: {what} fails by itself")
    assert done.returncode == 0, done.stderr
    return read_records(tmp_path / "records")


def test_spawned_worlds(mpi: MpiToolchain, build_dir: Path, tmp_path: Path) -> None:
    """Two worlds after each other, over an inter-communicator and a merged one."""
    traffic = profile(mpi, "spawn", build_dir, tmp_path)
    # Around each merged communicator (ranks 0 and 1, then the children), rank 0 sends to rank 1.
    inside = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert inside.dense_bytes(RANKS).tolist() == [[0, 40], [0, 0]]
    assert inside.dense_messages(RANKS).tolist() == [[0, 2], [0, 0]]
    assert [(w.id, w.ranks, w.parent) for w in traffic.worlds] == [(1, 2, 0), (2, 2, 0)]
    assert all(w.name.startswith("spawned: worlds-") for w in traffic.worlds)
    flows = [{(f.rank, f.bytes, f.messages) for f in w.flows} for w in traffic.worlds]
    assert flows == [{(0, 10, 1), (1, 20, 1)}, {(0, 10, 1), (1, 50, 2)}]
    assert any("listed apart by world" in line for line in traffic.report)


@pytest.mark.parametrize("what", ["connect", "join"])
def test_another_way_to_the_own_world(
    mpi: MpiToolchain, what: str, build_dir: Path, tmp_path: Path
) -> None:
    """Ranks that connect to ranks of their own world are the ranks they are."""
    traffic = profile(mpi, what, build_dir, tmp_path)
    inside = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert inside.dense_bytes(RANKS).tolist() == [[0, 12], [12, 0]]
    assert traffic.worlds == ()
