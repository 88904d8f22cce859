"""Every entry point of calls.tsv that an MPI declares, called, against the program's own books.

By default on four ranks; with TOPOSEAT_TEST_MPIS set on 2, 3, 4, 8 and 16.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.support.entries import ALL_CALLS, BY_HAND, compile_entries, declarations
from tests.support.interposed import PROGRAMS, read_truth, run_ranks
from tests.support.mpi import WIDE, MpiToolchain
from tests.support.raw_records import matrices, records_of_ranks
from toposeat.model.traffic import TimeKind

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

RANKS = (2, 3, 4, 8, 16) if WIDE else (4,)
# What other test programs call: an end by MPI_Abort, worlds beside MPI_COMM_WORLD, and sessions.
ELSEWHERE = {
    "MPI_Abort": "crash.c",
    "MPI_Comm_spawn": "worlds.c",
    "MPI_Comm_spawn_multiple": "worlds.c",
    "MPI_Comm_accept": "worlds.c",
    "MPI_Comm_connect": "worlds.c",
    "MPI_Comm_join": "worlds.c",
    "MPI_Comm_create_from_group": "sessions.c",
    "MPI_Intercomm_create_from_groups": "sessions.c",
    "MPI_Session_init": "sessions.c",
    "MPI_Session_finalize": "sessions.c",
}


@dataclass(frozen=True)
class Run:
    """One run of the program on one MPI."""

    mpi: MpiToolchain
    records: list
    truth: Path

    def notes(self, rank, word):
        """The program's own lines of one kind."""
        lines = Path(f"{self.truth}.{rank}").read_text().splitlines()
        return [line.split()[1:] for line in lines if line.startswith(word)]


@pytest.fixture(scope="module", params=RANKS)
def run(mpi, request, build_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("entries")
    program = compile_entries(mpi, build_dir)
    truth = folder / "truth"
    words = [program, truth, folder / "file", *(["thread"] if request.param > 2 else [])]
    done = run_ranks(mpi, request.param, words, folder / "records")
    assert done.returncode == 0, done.stderr
    return Run(mpi, records_of_ranks(folder / "records", request.param), truth)


def test_every_cell(run):
    ranks = len(run.records)
    expected = read_truth(run.truth, ranks, kinds=3)
    assert (expected[:, 0].sum(axis=(1, 2)) > 0).all()
    assert np.array_equal(matrices(run.records, ranks), expected)
    for record in run.records:
        assert (record.histogram.sum(axis=1) == record.messages).all()
        least = (record.histogram * np.array([0, *(1 << np.arange(64, dtype=object))])).sum(axis=1)
        assert all(least <= record.bytes)


def test_every_event(run):
    for record in run.records:
        expected = Counter[tuple[str, int, int]]()
        for base, root, size in run.notes(record.rank, "event"):
            expected[base.lower(), int(root), int(size)] += 1
        seen = Counter[tuple[str, int, int]]()
        for event in record.events:
            seen[event.operation, event.root, event.bytes] += event.calls
        assert seen == expected
        backwards = tuple(range(len(run.records)))[::-1]
        of_bcasts = [each.communicator for each in record.events if each.operation == "bcast"]
        assert {record.communicators[each].ranks() for each in of_bcasts} == {backwards}


def test_every_call_was_seen_once(run):
    for record in run.records:
        names = [name for (name,) in run.notes(record.rank, "call")]
        own = [name for name in names if name not in BY_HAND]
        assert record.calls == len(own)
        of_files = sum(name.startswith("MPI_File_") for name in names)
        # the case of a nonblocking one waits at once
        of_files += sum(name.startswith("MPI_File_i") for name in names)
        counted = {share.kind: share.calls for share in record.info.time}
        assert of_files == counted[TimeKind.FILE] > 0
        assert (record.lost_messages, record.lost_bytes, record.lost_events) == (0, 0, 0)


def test_no_entry_point_is_left_out(run):
    """A new line of calls.tsv needs a case in entries.cases."""
    declared = set(declarations(run.mpi))
    called = {name for (name,) in run.notes(0, "call")}
    either = {"MPI_Init", "MPI_Init_thread"}
    assert called <= ALL_CALLS
    assert (ALL_CALLS & declared) - called - ELSEWHERE.keys() - either == set()
    assert len(called & either) == 1
    for name, program in ELSEWHERE.items():
        assert f"{name}(" in (PROGRAMS / program).read_text()
