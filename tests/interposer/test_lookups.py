"""Programs that take MPI's calls from dlsym, and tools that wrap them by it."""

import os
from pathlib import Path

import pytest

from tests.support.interposed import (
    PROGRAMS,
    compile_c,
    fails_by_itself,
    libmpi,
    library,
    run_ranks,
)
from tests.support.mpi import MPI_NAMES
from toposeat.model.traffic import TrafficKind
from toposeat.profile import NothingRecordedError, profile_run, read_records

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.each_abi,
    pytest.mark.parametrize("mpi", MPI_NAMES, indirect=True),
]

RANKS = 3
THREADS, MESSAGES, BYTES = 4, 16, 80


def opened(mpi, build_dir):
    """The program, which is not linked to MPI."""
    program = compile_c(mpi, PROGRAMS / "opened.c", build_dir, "-Wl,--as-needed", "-pthread", "-w")
    assert b"libmpi" not in program.read_bytes().replace(b"LIBMPI", b"")
    return program


def check(traffic):
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert table.target.tolist() == [(rank + 1) % RANKS for rank in range(RANKS)]
    assert table.messages.tolist() == [THREADS * MESSAGES] * RANKS
    assert table.bytes.tolist() == [THREADS * MESSAGES * BYTES] * RANKS
    assert {(e.operation, e.bytes, e.calls) for e in traffic.collectives} == {("allreduce", 24, 1)}


@pytest.mark.parametrize("binding", ["", "deep"])
def test_every_call_by_dlsym(mpi, binding, build_dir, tmp_path):
    line = [opened(mpi, build_dir), libmpi(mpi, build_dir), *filter(None, [binding])]
    done = run_ranks(mpi, RANKS, line, tmp_path / "records")
    if done.returncode != 0 and fails_by_itself(mpi, RANKS, line):
        pytest.skip(f"{mpi.name} does not work when it is opened so")
    assert done.returncode == 0, done.stderr
    check(read_records(tmp_path / "records"))


def test_profile_of_a_program_that_opens_its_mpi(mpi, build_dir, tmp_path):
    """The launcher tells which MPI it will be; the variable leaves dlsym alone."""
    program = [str(opened(mpi, build_dir)), str(libmpi(mpi, build_dir))]
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", str(RANKS), *program]
    traffic, code = profile_run(line, environment=mpi.env)
    assert code == 0
    check(traffic)
    with pytest.raises(NothingRecordedError, match="not linked to an MPI library"):
        profile_run(line, environment={**mpi.env, "TOPOSEAT_PROFILE_DLSYM": "0"})


@pytest.mark.parametrize("first", ["tool", "interposer"])
def test_beside_a_tool_that_wraps_mpi(mpi, first, build_dir, tmp_path):
    """Both see the call, though this tool goes on to the next MPI_X, which it takes from dlsym."""
    tool = compile_c(mpi, PROGRAMS / "tool.c", build_dir, "-shared", "-fPIC")
    both = [tool, library(mpi)] if first == "tool" else [library(mpi), tool]
    program = compile_c(mpi, PROGRAMS / "linked.c", build_dir)
    preload = Path(os.pathsep.join(map(str, both)))
    done = run_ranks(mpi, 2, [program], tmp_path / "records", preload=preload)
    assert done.returncode == 0, done.stderr
    table = read_records(tmp_path / "records").table(kind=TrafficKind.POINT_TO_POINT)
    assert table.dense_bytes(2).tolist() == [[0, 80], [0, 0]]
    said = sorted(line for line in done.stderr.splitlines() if "tool" in line)
    assert said == ["tool: 0 sends", "tool: 1 sends"]
    if first == "interposer":  # what goes past is said, not lost without a word
        words = ["env", "TOPOSEAT_PROFILE_DLSYM=0", program]
        done = run_ranks(mpi, 2, words, tmp_path / "past", preload=preload)
        assert done.returncode == 0, done.stderr
        said = [line for line in done.stderr.splitlines() if "keeps a call of" in line]
        assert len(said) == 1
        assert "rank 0: another tool keeps a call of MPI_Send, or hands it on past" in said[0]
