"""Processes outside MPI_COMM_WORLD: each world has a number, and no byte is dropped."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.interposed import (
    PROGRAMS,
    compile_c,
    compile_text,
    fails_by_itself,
    run_ranks,
)
from tests.support.mpi import FEW_MPI_NAMES, MpiToolchain
from tests.support.processes import ran
from toposeat.installed import native_path
from toposeat.model.traffic import PairTable, Traffic, TrafficKind
from toposeat.profile import profile_run, read_records

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


def test_spawned_worlds_are_recorded_on_both_sides(
    mpi: MpiToolchain, build_dir: Path, tmp_path: Path
) -> None:
    """The recorder travels with what is spawned, and worlds of equal size are told apart."""
    name = "a program whose name is far longer than forty-eight bytes, to be shown whole"
    program = tmp_path / name
    shutil.copy(compile_c(mpi, PROGRAMS / "worlds.c", build_dir), program)
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", str(RANKS), str(program), "spawn"]
    if fails_by_itself(mpi, RANKS, [program, "spawn"]):
        pytest.skip(f"{mpi.name} has no dynamic processes here")
    traffic, code = profile_run(line, environment=mpi.env)
    assert code == 0
    assert [(w.id, w.ranks, w.parent) for w in traffic.worlds] == [(1, 2, 0), (2, 2, 0)]
    assert {w.name for w in traffic.worlds} == {f"spawned: {name}"}
    # Within each: 5 bytes there and back, and 20 around the merged communicator.
    tables = [PairTable.total(list(w.tables.values())) for w in traffic.worlds]
    assert [t.dense_bytes(2).tolist() for t in tables] == [[[0, 25], [5, 0]]] * 2
    flows = sorted(sorted((f.rank, f.bytes) for f in w.flows) for w in traffic.worlds)
    assert flows == [[(0, 10), (1, 20)], [(0, 10), (1, 50)]]


def test_what_cannot_be_found_is_spawned_as_it_is(
    mpi: MpiToolchain, build_dir: Path, tmp_path: Path
) -> None:
    """The MPI's own error, with and without the interposer."""
    if mpi.family == "mpich":
        pytest.skip("MPICH waits for ever for a program that is not there, by itself")
    text = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  MPI_Comm made;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int code = MPI_Comm_spawn("/no/such/program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                            &made, MPI_ERRCODES_IGNORE);
  printf("refused: %d\\n", code != MPI_SUCCESS);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 7);
}
"""
    program = compile_text(mpi, "refused", text, build_dir)
    environment = {**mpi.env, "TOPOSEAT_PROFILE_EXEC": str(native_path("bin/toposeat-exec"))}
    done = run_ranks(replace(mpi, env=environment), 1, [program], tmp_path / "records")
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", "1", str(program)]
    plain = ran(line, env=dict(mpi.env), timeout=90)
    assert (done.stdout, done.returncode) == (plain.stdout, plain.returncode)


@pytest.mark.parametrize("what", ["connect", "join"])
def test_another_way_to_the_own_world(
    mpi: MpiToolchain, what: str, build_dir: Path, tmp_path: Path
) -> None:
    """Ranks that connect to ranks of their own world are the ranks they are."""
    traffic = profile(mpi, what, build_dir, tmp_path)
    inside = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert inside.dense_bytes(RANKS).tolist() == [[0, 12], [12, 0]]
    assert traffic.worlds == ()
