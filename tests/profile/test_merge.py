"""Records of a run become one Traffic; what is missing or strange is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profile.records import write_record
from toposeat.errors import InputError, ToposeatError
from toposeat.model.traffic import MemorySpace, TrafficKind
from toposeat.profile import read_records

WORLD = [(0, [(0, 1, 3)])]
P2P, HOST = TrafficKind.POINT_TO_POINT, MemorySpace.HOST


def test_tables_add_up(tmp_path: Path) -> None:
    write_record(tmp_path, 0, 3, pairs=[(0, 0, 1, 10, 2), (0, 1, 2, 5, 1)])
    write_record(tmp_path, 1, 3, pairs=[(0, 0, 0, 7, 1), (2, 0, 2, 3, 4), (3, 0, 2, 100, 2)])
    write_record(tmp_path, 2, 3, pairs=[(1, 0, 0, 9, 1)])
    traffic = read_records(tmp_path)
    assert traffic.ranks == 3
    assert traffic.report == ()
    assert traffic.tables[P2P, HOST].dense_bytes(3).tolist() == [[0, 20, 0], [7, 0, 0], [0, 0, 0]]
    assert traffic.tables[P2P, MemorySpace.DEVICE].dense_bytes(3)[0, 2] == 5
    one_sided = traffic.tables[TrafficKind.ONE_SIDED, HOST]
    assert one_sided.dense_bytes(3)[1, 2] == 12  # put
    assert one_sided.dense_bytes(3)[2, 1] == 200  # get: a flow from the target
    assert traffic.histograms[P2P, HOST][4] == 2  # 10 bytes: bit length 4
    assert traffic.histograms[P2P, HOST][3] == 1
    assert traffic.histograms[P2P, HOST].sum() == 3


def test_collectives_are_listed_and_modelled(tmp_path: Path) -> None:
    for rank in range(3):
        write_record(tmp_path, rank, 3, events=[(0, 13, 0, -1, 30, 2)], communicators=WORLD)
    traffic = read_records(tmp_path)
    assert [c.ranks for c in traffic.communicators] == [(0, 1, 2)]
    assert [(e.rank, e.operation, e.bytes, e.calls) for e in traffic.collectives] == [
        (rank, "allreduce", 30, 2) for rank in range(3)
    ]
    table = traffic.tables[TrafficKind.COLLECTIVE, HOST]
    assert table.bytes.tolist() == [80] * 3  # 2 calls x 2 (n - 1) / n x 30 bytes
    assert "allreduce" in traffic.collective_model


def test_communicators_are_joined_by_members(tmp_path: Path) -> None:
    swapped, part = (0, [(2, -1, 3)]), (0, [(0, 2, 2)])
    write_record(tmp_path, 0, 3, communicators=[*WORLD, swapped, part])
    write_record(tmp_path, 1, 3, communicators=[swapped, *WORLD], events=[(0, 2, 0, 1, 8, 1)])
    write_record(tmp_path, 2, 3, communicators=[part], events=[(0, 1, 0, -1, 0, 1)])
    traffic = read_records(tmp_path)
    assert [c.ranks for c in traffic.communicators] == [(0, 1, 2), (2, 1, 0), (0, 2)]
    assert [(e.rank, e.communicator) for e in traffic.collectives] == [(1, 1), (2, 2)]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    write_record(tmp_path, 1, 4, state=0)
    write_record(tmp_path, 3, 4, state=2, flags=8)
    (tmp_path / "rank-0-7.tpsrec").write_bytes(bytes(4096))
    (tmp_path / "rank-2-8.tpsrec").touch()  # killed between creating and growing it
    report = read_records(tmp_path).report
    assert "2 ranks died while MPI was being initialised" in report
    assert "ranks 0, 2 left no record" in report
    assert "rank 1 did not reach MPI_Finalize" in report
    assert "rank 3 called MPI_Abort" in report
    assert "rank 3 used buffers of several devices" in report


def test_outside_and_lost_are_said(tmp_path: Path) -> None:
    lost = {"lost_messages": 2, "lost_bytes": 50, "lost_events": 1}
    write_record(tmp_path, 0, 1, pairs=[(0, 0, 0x7FFFFFFF, 8, 3)], header=lost)
    traffic = read_records(tmp_path)
    assert "3 messages (24 bytes) with processes outside MPI_COMM_WORLD are not in the tables" in (
        traffic.report
    )
    assert "2 messages (50 bytes) could not be attributed" in traffic.report
    assert "1 collective calls could not be recorded" in traffic.report
    assert traffic.tables == {}


def test_inter_communicators_are_not_modelled(tmp_path: Path) -> None:
    write_record(tmp_path, 0, 2, communicators=[(1, [(1, 1, 1)])], events=[(0, 2, 0, 1, 8, 1)])
    write_record(tmp_path, 1, 2)
    traffic = read_records(tmp_path)
    assert traffic.tables == {}
    assert any("inter-communicators" in line for line in traffic.report)


def test_several_runs(tmp_path: Path) -> None:
    for rank in range(3):
        write_record(tmp_path, rank, 3, world=b"large", pairs=[(0, 0, 0, 1, 1)])
    write_record(tmp_path, 0, 2, pid=5, world=b"small")
    write_record(tmp_path, 0, 1, pid=6, world=b"child", flags=1)
    traffic = read_records(tmp_path)
    assert traffic.ranks == 3
    assert any("2 MPI jobs" in line for line in traffic.report)
    assert any("1 processes were spawned" in line for line in traffic.report)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(ToposeatError, match="no traffic record"):
        read_records(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read_records(tmp_path / "absent")
    (tmp_path / "rank-0-1.tpsrec").write_bytes(b"rubbish" * 200)
    with pytest.raises(InputError, match=r"rank-0-1\.tpsrec"):
        read_records(tmp_path)


def test_jobs_within_ranks_are_left_out(tmp_path: Path) -> None:
    write_record(tmp_path, 0, 2, pairs=[(0, 0, 1, 10, 1)])
    write_record(tmp_path, 1, 2)
    for rank in range(4):
        write_record(tmp_path, rank, 4, pid=2000 + rank, world=b"inner", flags=32)
    traffic = read_records(tmp_path)
    assert traffic.ranks == 2
    assert traffic.report == (
        "4 processes belong to MPI jobs that ranks started themselves and are left out",
    )
