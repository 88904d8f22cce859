"""A program that uses every kind of call, against its own books."""

from collections import Counter

import numpy as np
import pytest

from tests.support.interposed import PROGRAMS, compile_c, doubts, read_truth, run_ranks
from tests.support.raw_records import matrices, records_of_ranks
from toposeat.profile import read_records

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

RANKS = 5


@pytest.fixture(scope="module")
def records(mpi, build_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("every")
    program = compile_c(mpi, PROGRAMS / "every_call.c", build_dir)
    truth = folder / "truth"
    done = run_ranks(mpi, RANKS, [program, truth], folder / "records")
    assert done.returncode == 0, done.stderr
    return records_of_ranks(folder / "records", RANKS), truth


def test_every_cell(records):
    found, truth = records
    expected = read_truth(truth, RANKS, kinds=3)
    assert (expected[:, 0].sum(axis=(1, 2)) > 0).all()
    assert (matrices(found, RANKS) == expected).all()


def test_histogram_adds_up(records):
    for record in records[0]:
        assert (record.histogram.sum(axis=1) == record.messages).all()
        low = (record.histogram * np.array([0, *(1 << np.arange(64, dtype=object))])).sum(axis=1)
        assert all(low <= record.bytes)


def test_collective_events(records):
    for record in records[0]:
        events = Counter[tuple[str, int, int, int]]()
        for event in record.events:
            size = record.communicators[event.communicator].size
            assert size == RANKS
            events[event.operation, event.root, event.bytes, event.communicator] += event.calls
        by_name = Counter[str]()
        for (name, *_), calls in events.items():
            by_name[name] += calls
        large = by_name.pop("exscan", 0)  # MPI 4 part of the program
        assert by_name.pop("bcast") == 4 + 5 * large
        assert by_name == {
            "barrier": 16,  # 8 on the world, 8 on the reversed communicator
            "allreduce": 1,
            "gather": 1,
            "scatter": 1,
            "allgather": 1,
            "alltoall": 1,
            "alltoallv": 2,
            "scatterv": 1,
            "reduce": 1,
            "scan": 1,
            "neighbor_alltoall": 1,
            "neighbor_allgather": 1,
            "neighbor_alltoallv": 1,
        }


def test_communicators_and_roots(records):
    for record in records[0]:
        members = [c.ranks() for c in record.communicators]
        assert members[0] == tuple(range(RANKS))
        assert tuple(reversed(range(RANKS))) in members
        bcast = [e for e in record.events if e.operation == "bcast" and e.bytes == 32]
        assert [(e.root, e.calls) for e in bcast] == [(RANKS - 2, 4)]
        reduce = [e for e in record.events if e.operation == "reduce"]
        assert [(e.root, e.bytes) for e in reduce] == [(2, 8)]


def test_nothing_lost(records):
    for record in records[0]:
        assert (record.lost_messages, record.lost_bytes, record.lost_events) == (0, 0, 0)
        assert record.calls > 100


def test_threads(mpi, build_dir, tmp_path):
    ranks, messages, threads = 2, 200, 4
    program = compile_c(mpi, PROGRAMS / "threads.c", build_dir, "-pthread")
    done = run_ranks(mpi, ranks, [program, str(messages)], tmp_path / "records")
    assert done.returncode == 0, done.stderr
    if done.stdout.strip() != "multiple":
        pytest.skip(f"{mpi.name} does not provide MPI_THREAD_MULTIPLE")
    for record in records_of_ranks(tmp_path / "records", ranks):
        assert 2 <= record.segments <= threads + 2  # a thread may take over another's
        selves = -(-messages // 16)
        peers = dict(zip(record.peer.tolist(), record.messages.tolist(), strict=True))
        assert peers == {1 - record.rank: threads * messages, record.rank: selves}
        sizes = dict(zip(record.peer.tolist(), record.bytes.tolist(), strict=True))
        assert sizes == {1 - record.rank: (1 + 2 + 3 + 4) * messages, record.rank: 5 * selves}


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)  # no ABI has a table of its own
def test_more_shapes_than_room(mpi, build_dir, tmp_path):
    """Nothing is lost: sizes are merged by class, equal communicators share one entry."""
    program = compile_c(mpi, PROGRAMS / "shapes.c", build_dir)
    done = run_ranks(mpi, 2, [program], tmp_path / "records")
    assert (done.returncode, done.stderr) == (0, "")
    for record in records_of_ranks(tmp_path / "records", 2):
        bcasts = [e for e in record.events if e.operation == "bcast"]
        assert sum(e.calls for e in bcasts) == 8300
        assert sum(e.bytes_total for e in bcasts) == 8300 * 8299 // 2
        assert any(e.by_class for e in bcasts)
        assert sum(e.calls for e in record.events if e.operation == "barrier") == 4200
        assert len(record.communicators) == 1
        assert record.lost_events == 0
    assert doubts(read_records(tmp_path / "records")) == (
        "ranks 0, 1 made collectives of very many sizes: some are merged by size class",
    )
