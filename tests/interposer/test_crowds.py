"""Many threads of a rank, and more kinds of calls than a record has room for."""

import pytest

from tests.support.interposed import PROGRAMS, compile_c, doubts, run_ranks
from tests.support.raw_records import records_of_ranks
from toposeat.profile import read_records

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]


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
