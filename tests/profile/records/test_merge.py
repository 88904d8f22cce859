"""Records of a run become one Traffic; what is missing or strange is said."""

import os

import pytest

from tests.profile.records.records import write_record
from toposeat.errors import InputError, ToposeatError
from toposeat.model import pair_table
from toposeat.model.traffic import (
    DeviceChoice,
    DeviceUse,
    MemorySpace,
    PairTable,
    TimeKind,
    TrafficKind,
)
from toposeat.model.traffic_file import save_traffic
from toposeat.profile import read_records, read_traffic
from toposeat.profile.records import world, world_traffic
from toposeat.profile.records.segment import OPERATIONS

ALLTOALL = next(code for code, name in OPERATIONS.items() if name == "alltoall")
WORLD = [(0, [(0, 1, 3)])]
OUTSIDE = 0x7FFFFFFF
P2P, HOST = TrafficKind.POINT_TO_POINT, MemorySpace.HOST


@pytest.mark.parametrize("most", [1, pair_table.MAX_WAITING])
def test_tables_add_up(tmp_path, monkeypatch, most):
    """Whether rows are added up at once or in pieces."""
    monkeypatch.setattr(pair_table, "MAX_WAITING", most)
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


def test_collectives_are_listed_and_modelled(tmp_path):
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


def test_rounds_are_told_by_a_profile_and_by_its_file(tmp_path):
    """Two allreduces of 30 bytes among three are a ring: each sends its neighbour 2 (n - 1)."""
    events = [(0, 13, 0, -1, 30, 2), (0, 2, 0, 0, 30, 5)]  # and five broadcasts, down a tree
    for rank in range(3):
        write_record(tmp_path, rank, 3, events=events, communicators=WORLD)
    traffic = read_records(tmp_path)
    assert {e.operation: e.algorithm for e in traffic.collectives}["allreduce"] == "ring"
    rounds = traffic.rounds_of(traffic.mapped_table())
    of_pair = dict(zip(pairs_of(traffic), rounds.tolist(), strict=True))
    assert {pair: n for pair, n in of_pair.items() if n} == {(0, 1): 8, (1, 2): 8, (2, 0): 8}
    save_traffic(traffic, tmp_path / "app.prof")
    again = read_traffic(tmp_path / "app.prof")
    assert again.rounds == traffic.rounds


def pairs_of(traffic):
    table = traffic.mapped_table()
    return list(zip(table.source.tolist(), table.target.tolist(), strict=True))


@pytest.mark.parametrize(
    ("library", "hosts", "doubted", "modelled"),
    [
        (b"Open MPI v5.0.11, package: Open MPI x Distribution", 2, True, True),
        (b"Open MPI v5.0.11, package: x", 1, False, True),
        (b"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", 2, False, True),
        (b"Open MPI v4.0.3, package: y", 1, False, False),
        (b"Open MPI v6.0.0, package: y", 1, False, False),
        (b"MPICH Version:      5.0.2", 1, False, False),
        (b"Intel(R) MPI Library 2021.18 for Linux* OS", 1, False, False),
        (b"", 1, False, False),
    ],
)
def test_rules_follow_the_library(tmp_path, library, hosts, doubted, modelled):
    """And collectives that may be hierarchical are doubted."""
    for rank in range(3):
        header = {"library": library, "host": b"node%d" % (rank % hosts)}
        events = [(0, 13, 0, -1, 32, 2)]
        write_record(tmp_path, rank, 3, events=events, communicators=WORLD, header=header)
    traffic = read_records(tmp_path)
    assert traffic.collective_model.startswith("Open MPI 4.1 and 5" if modelled else "textbook")
    algorithm = "recursive_doubling" if modelled else "ring"
    assert {e.algorithm for e in traffic.collectives} == {algorithm}
    assert any("coll/han" in line for line in traffic.report) is doubted


def test_communicators_are_joined_by_members(tmp_path):
    swapped, part = (0, [(2, -1, 3)]), (0, [(0, 2, 2)])
    write_record(tmp_path, 0, 3, communicators=[*WORLD, swapped, part])
    write_record(tmp_path, 1, 3, communicators=[swapped, *WORLD], events=[(0, 2, 0, 1, 8, 1)])
    write_record(tmp_path, 2, 3, communicators=[part], events=[(0, 1, 0, -1, 0, 1)])
    traffic = read_records(tmp_path)
    assert [c.ranks for c in traffic.communicators] == [(0, 1, 2), (2, 1, 0), (0, 2)]
    assert [(e.rank, e.communicator) for e in traffic.collectives] == [(1, 1), (2, 2)]


def test_what_is_missing_is_said(tmp_path):
    write_record(tmp_path, 1, 4, state=0)
    write_record(tmp_path, 3, 4, state=2, flags=8 | 256)
    (tmp_path / "rank-0-7.tpsrec").write_bytes(bytes(4096))
    (tmp_path / "rank-2-8.tpsrec").touch()  # killed between creating and growing it
    report = read_records(tmp_path).report
    assert "2 ranks died while MPI was being initialised" in report
    assert "ranks 0, 2 left no record" in report
    assert "rank 3 called MPI_Abort" in report
    assert "rank 3 used buffers of several devices" in report
    assert "rank 3 gave device memory to an MPI that says it is not GPU-aware" in report


def test_outside_and_lost_are_said(tmp_path):
    lost = {"lost_messages": 2, "lost_bytes": 50, "lost_events": 1}
    write_record(tmp_path, 0, 1, pairs=[(0, 0, 0x7FFFFFFF, 8, 3)], header=lost)
    traffic = read_records(tmp_path)
    assert any("3 messages (24 bytes) are with processes outside" in s for s in traffic.report)
    assert "2 messages (50 bytes) could not be attributed" in traffic.report
    assert "1 collective calls could not be recorded" in traffic.report
    assert traffic.tables == {}


def test_inter_communicators_are_not_modelled(tmp_path):
    write_record(tmp_path, 0, 2, communicators=[(1, [(1, 1, 1)])], events=[(0, 2, 0, 1, 8, 1)])
    write_record(tmp_path, 1, 2)
    traffic = read_records(tmp_path)
    assert traffic.tables == {}
    assert any("inter-communicators" in line for line in traffic.report)


def test_several_runs(tmp_path):
    for rank in range(3):
        write_record(tmp_path, rank, 3, world=b"large", pairs=[(0, 0, 0, 1, 1)])
    write_record(tmp_path, 0, 2, pid=5, world=b"small")
    traffic = read_records(tmp_path)
    assert traffic.ranks == 3
    assert any("2 MPI jobs" in line for line in traffic.report)


def test_a_rank_that_spawned_processes_is_named(tmp_path):
    members = [(0, 1, 2), (-1, 0, 3)]  # of the job, and of those that it spawned
    write_record(tmp_path, 0, 2, flags=512, communicators=[(0, members)], pairs=())
    write_record(tmp_path, 1, 2)
    traffic = read_records(tmp_path)
    line = "rank 0 called MPI_Comm_spawn: the processes that it started are not recorded"
    assert line in traffic.report
    (communicator,) = traffic.communicators
    assert communicator.ranks == (0, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pairs": [(0, 0, OUTSIDE - 1, 8, 3)]}, "unknown kind, rank or phase"),
        ({"communicators": [(0, [(-2, 0, 1)])]}, "beyond the world"),
        ({"communicators": [(0, [(-1, 1, 2)])]}, "beyond the world"),
    ],
)
def test_processes_outside_have_one_number(tmp_path, change, words):
    write_record(tmp_path, 0, 2, **change)
    with pytest.raises(InputError, match=words):
        read_records(tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(ToposeatError, match="no traffic record"):
        read_records(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read_records(tmp_path / "absent")
    (tmp_path / "rank-0-1.tpsrec").write_bytes(b"rubbish" * 200)
    with pytest.raises(InputError, match=r"rank-0-1\.tpsrec"):
        read_records(tmp_path)


def test_pairs_of_phases_have_a_bound(tmp_path, monkeypatch):
    """All-to-alls in two phases: room for one of them is room for the whole run's."""
    monkeypatch.setattr(world_traffic, "MAX_PAIRS", 6)
    for rank in range(3):
        write_record(
            tmp_path,
            rank,
            3,
            phases=[(5, 1000, 2000, 1000), (7, 2000, 4000, 2000)],
            header={"phase_mode": 1},
            events=[(0, ALLTOALL, 0, -1, 30, 1, n) for n in range(2)],
            communicators=[(0, [(0, 1, 3)])],
        )
    traffic = read_records(tmp_path)
    assert traffic.tables[TrafficKind.COLLECTIVE, HOST].bytes.tolist() == [60] * 6
    assert [dict(phase.tables) for phase in traffic.phases] == [{}, {}]
    assert {(event.calls, event.algorithm) for event in traffic.collectives} == {(2, "direct")}
    assert any("too many pairs" in line for line in traffic.report)


def test_phases_add_up(tmp_path):
    phases = [(5, 1000, 2000, 1000), (7, 2000, 4000, 2000)]
    for rank in range(2):
        write_record(
            tmp_path,
            rank,
            2,
            phases=phases,
            header={"phase_mode": 1},
            pairs=[(0, 0, 1 - rank, 10, 1, 0), (0, 0, 1 - rank, 100, 2, 1)],
            events=[(0, 13, 0, -1, 16, 1, 1), (0, 13, 0, -1, 16, 3, 0)],
            communicators=[(0, [(0, 1, 2)])],
            time={(0, 0, 0): (100, 1), (1, 1, 1): (300, 2)},
        )
    traffic = read_records(tmp_path)
    assert [(p.index, p.label) for p in traffic.phases] == [(0, "level 5"), (1, "level 7")]
    assert [round(p.mpi_s * 1e6) for p in traffic.phases] == [200, 600]
    assert [round(p.active_s * 1e6) for p in traffic.phases] == [2000, 4000]
    assert [round(p.begin_s * 1e6) for p in traffic.phases] == [0, 1000]
    assert [p.tables[P2P, HOST].bytes.tolist() for p in traffic.phases] == [[10, 10], [200, 200]]
    for key, table in traffic.tables.items():
        assert PairTable.total(p.tables[key] for p in traffic.phases if key in p.tables) == table
    assert [(e.rank, e.calls, e.algorithm) for e in traffic.collectives] == [
        (0, 4, "ring"),
        (1, 4, "ring"),
    ]
    (share, other) = traffic.rank_info[0].time
    assert (share.kind, share.space, share.calls) == (TimeKind.POINT_TO_POINT, HOST, 1)
    assert (other.kind, other.space) == (TimeKind.COLLECTIVE, MemorySpace.DEVICE)
    assert sum(s.seconds for s in traffic.rank_info[0].time) == pytest.approx(400e-6)


def test_devices_and_local_ranks(tmp_path):
    for rank in range(4):
        devices = [(rank % 2, b"00000000:0%d:00.0" % rank, 8, 1), (9, b"no address", 100, 1)]
        header = {"host": b"node%d" % (rank // 2), "visible_devices": 4}
        write_record(tmp_path, rank, 4, devices=devices[: 1 + (rank == 3)], header=header)
    traffic = read_records(tmp_path)
    assert [info.local_rank for info in traffic.rank_info] == [0, 1, 0, 1]
    assert traffic.rank_info[0].devices == (
        DeviceUse(pci_bus_id="0000:00:00.0", ordinal=0, bytes=8),
    )
    assert [(d.pci_bus_id, d.ordinal, d.bytes) for d in traffic.rank_info[3].devices] == [
        (None, 9, 100),
        ("0000:03:00.0", 1, 8),
    ]
    assert traffic.device_choice is DeviceChoice.OWN


def test_untimed_records_make_an_untimed_profile(tmp_path):
    write_record(tmp_path, 0, 1, flags=64)
    assert not read_records(tmp_path).timed


def test_one_damaged_record_does_not_cost_the_others(tmp_path):
    for rank in range(6):
        write_record(tmp_path, rank, 6, pairs=[(0, 0, (rank + 1) % 6, 10, 1)])
    damaged = tmp_path / "rank-2-1000.tpsrec"
    damaged.write_bytes(damaged.read_bytes()[:5000])
    traffic = read_records(tmp_path)
    assert traffic.table().source.tolist() == [0, 1, 3, 4, 5]
    assert traffic.metadata["damaged_records"] == "1"
    assert traffic.report[0].startswith("1 damaged records are left out: rank-2-1000.tpsrec: ")
    assert "rank 2 left no record" in traffic.report


def test_a_pipe_hangs_nobody(tmp_path):
    write_record(tmp_path, 0, 2)
    os.mkfifo(tmp_path / "rank-1-1000.tpsrec")
    assert "rank 1 left no record" in read_records(tmp_path).report


def test_folders_of_several_nodes(tmp_path):
    for rank in range(4):
        folder = tmp_path / f"node{rank // 2}"
        folder.mkdir(exist_ok=True)
        write_record(folder, rank, 4, pairs=[(0, 0, (rank + 1) % 4, 10, 1)])
    both = read_records(tmp_path / "node0", tmp_path / "node1")
    assert len(both.table()) == 4
    assert both.report == ()
    assert "ranks 2, 3 left no record" in read_records(tmp_path / "node0").report
    twice = read_records(*[tmp_path / f"node{n}" for n in (0, 1, 0)])
    assert twice.table() == both.table()
    assert "2 ranks left a second record: several MPI runs; the first is used" in twice.report


def test_progress_counts_records(tmp_path):
    for rank in range(3):
        write_record(tmp_path, rank, 3)
    seen = []
    read_records(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_very_many_shapes_are_merged_by_size_class(tmp_path, monkeypatch):
    monkeypatch.setattr(world, "MAX_EVENTS", 8)
    events = [(0, 13, 0, -1, 16 + n, 2) for n in range(6)]
    for rank in range(3):
        write_record(tmp_path, rank, 3, events=events, communicators=WORLD)
    traffic = read_records(tmp_path)
    assert [(e.rank, e.bytes, e.calls) for e in traffic.collectives] == [
        (rank, 18, 12) for rank in range(3)
    ]
    assert "collectives have very many sizes: those of one size class are merged" in traffic.report


def test_jobs_within_ranks_are_left_out(tmp_path):
    write_record(tmp_path, 0, 2, pairs=[(0, 0, 1, 10, 1)])
    write_record(tmp_path, 1, 2)
    for rank in range(4):
        write_record(tmp_path, rank, 4, pid=2000 + rank, world=b"inner", flags=32)
    traffic = read_records(tmp_path)
    assert traffic.ranks == 2
    assert traffic.report == (
        "4 processes belong to MPI jobs that ranks started themselves and are left out",
    )
