"""On a node that does not see the folder of the run, the last rank to leave brings records home."""

import os
import re
import secrets
import socket
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.support.interposed import PROGRAMS, compile_c, compile_text, read_truth, run_ranks
from tests.support.mpi import FEW_MPI_NAMES
from tests.support.node_folders import node_folders
from tests.support.processes import LONGEST_S
from tests.support.raw_records import matrices, records_of_ranks
from toposeat.installed import native_path
from toposeat.launch.home import Home
from toposeat.launch.home_job import Expected
from toposeat.profile.recording.gathering import BUNDLE_SUFFIX, unpack_bundles
from toposeat.profile.records.segment import State

pytestmark = [pytest.mark.mpi, pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)]

RANKS = 3
RING = """
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  int me, n, got;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 0, &got, 1, MPI_INT, (me + n - 1) % n, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  if (argc > 1)
    exit(0);
  return MPI_Finalize();
}
"""


BUNDLES = Expected(
    name=re.compile(r"node-.*"), max_bytes=1 << 30, max_all_bytes=1 << 32, by_sender=True
)


@dataclass(frozen=True)
class Elsewhere:
    """The environment of ranks whose node does not see the folder of the run."""

    home: str
    key: dict[str, str]
    arrived: Path
    run: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def words(self):
        return [
            "env",
            f"TOPOSEAT_PROFILE_RUN={self.run}",
            f"TOPOSEAT_PROFILE_HOME={self.home}",
            *(f"{name}={value}" for name, value in self.key.items()),
        ]

    def folders(self):
        """What the ranks left on their node."""
        return node_folders(self.run, self.key)

    def collect(self):
        line = [native_path("bin/toposeat-exec"), "--collect", f"{self.run}:{self.home}"]
        return subprocess.run(line, env={**os.environ, **self.key}, check=False).returncode

    def collect_all(self):
        """No mpirun waits for those whom it kills, and one may leave a file meanwhile."""
        end = time.monotonic() + LONGEST_S
        while self.collect() or self.folders():
            assert time.monotonic() < end
            time.sleep(0.1)


@pytest.fixture
def elsewhere(tmp_path):
    arrived = tmp_path / "home"
    arrived.mkdir()
    with Home(arrived, expected=BUNDLES) as home:
        yield Elsewhere(home.words, home.environment, arrived)


def test_the_last_rank_brings_all_home(mpi, build_dir, elsewhere, tmp_path):
    program = compile_text(mpi, "departing", RING, build_dir)
    done = run_ranks(mpi, RANKS, [*elsewhere.words, program], tmp_path / "not-of-the-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "not-of-the-run").iterdir()) == []
    assert elsewhere.folders() == []
    assert len(list(elsewhere.arrived.glob(f"*{BUNDLE_SUFFIX}"))) == 1
    unpack_bundles(elsewhere.arrived, {})
    records = records_of_ranks(elsewhere.arrived, RANKS)
    assert {record.state for record in records} == {State.FINALIZED}
    sent = matrices(records, RANKS)[0]
    assert sent[0].tolist() == [[0, 4, 0], [0, 0, 4], [4, 0, 0]]
    main = max(elsewhere.arrived.glob("*.tpsrec"), key=lambda path: path.stat().st_size)
    assert main.stat().st_blocks * 512 < main.stat().st_size / 4  # its holes are holes again


def test_ranks_that_exit_without_finalize_come_home(mpi, build_dir, elsewhere, tmp_path):
    program = compile_text(mpi, "departing", RING, build_dir)
    run_ranks(mpi, RANKS, [*elsewhere.words, program, "exit"], tmp_path / "records")
    elsewhere.collect_all()  # mpirun kills the others when the first one exits like that
    unpack_bundles(elsewhere.arrived, {})
    records = records_of_ranks(elsewhere.arrived, RANKS)
    assert {record.state for record in records} == {State.RUNNING}
    assert matrices(records, RANKS)[0][0].sum() == 4 * RANKS


@pytest.mark.parametrize("how", ["kill", "abort"])
def test_what_killed_ranks_left_is_collected(mpi, how, build_dir, elsewhere, tmp_path):
    program = compile_c(mpi, PROGRAMS / "crash.c", build_dir)
    words = [*elsewhere.words, program, how, tmp_path / "truth"]
    assert run_ranks(mpi, RANKS, words, tmp_path / "records").returncode != 0
    elsewhere.collect_all()
    unpack_bundles(elsewhere.arrived, {})
    expected = read_truth(tmp_path / "truth", RANKS)[0]
    assert (matrices(records_of_ranks(elsewhere.arrived, RANKS), RANKS)[0] == expected).all()


def test_without_a_way_home_records_stay_until_they_are_collected(
    mpi, build_dir, elsewhere, tmp_path
):
    program = compile_text(mpi, "departing", RING, build_dir)
    closed = replace(elsewhere, home="1:1:127.0.0.1")
    done = run_ranks(mpi, RANKS, [*closed.words, program], tmp_path / "records")
    assert (done.returncode, done.stderr) == (0, "")
    assert closed.collect() == 1
    assert len(closed.folders()) == 1
    assert elsewhere.collect() == 0
    unpack_bundles(elsewhere.arrived, {})
    assert len(records_of_ranks(elsewhere.arrived, RANKS)) == RANKS
    assert elsewhere.collect() == 0  # nothing is left, which is no fault


def test_a_port_that_answers_nothing_does_not_hold_the_job_up(mpi, build_dir, elsewhere, tmp_path):
    """As one that a firewall drops: packets to a listener whose queue is full are lost."""
    program = compile_text(mpi, "departing", RING, build_dir)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        closed = replace(elsewhere, home=f"{listener.getsockname()[1]}:8:127.0.0.1")
        done = run_ranks(mpi, RANKS, [*closed.words, program], tmp_path / "records")
        assert (done.returncode, done.stderr) == (0, "")
        assert len(closed.folders()) == 1
    assert elsewhere.collect() == 0
    unpack_bundles(elsewhere.arrived, {})
    assert len(records_of_ranks(elsewhere.arrived, RANKS)) == RANKS
