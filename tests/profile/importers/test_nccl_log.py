"""NCCL debug logs: lines in, edges out."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profile.importers.nccl_samples import LoggedProcess, call_line, init_lines
from toposeat.errors import InputError
from toposeat.model.traffic import Exchange, MemorySpace, TrafficKind
from toposeat.profile import read_traffic

FOUR = [LoggedProcess("node07", device) for device in range(4)]
COLLECTIVE = {"kind": TrafficKind.COLLECTIVE, "space": MemorySpace.DEVICE}
MESSAGE = {"kind": TrafficKind.POINT_TO_POINT, "space": MemorySpace.DEVICE}


def read(folder, lines):
    path = folder / "nccl.log"
    path.write_text("\n".join(lines) + "\n")
    return read_traffic(path)


def ring(size, ranks=4):
    matrix = [[0] * ranks for _ in range(ranks)]
    for rank in range(ranks):
        matrix[rank][(rank + 1) % ranks] = size
    return matrix


def test_allreduce_of_four_ranks(tmp_path):
    """1000 floats: 2 x 3/4 x 4000 = 6000 bytes over each edge of the ring, twice."""
    lines = ["some output of the application", *init_lines(FOUR, 0)]
    for _ in range(2):
        lines += [call_line(process, 0, 4, "AllReduce", 1000) for process in FOUR]
    traffic = read(tmp_path, lines)
    assert traffic.origin == "NCCL debug log"
    assert traffic.table(**COLLECTIVE).dense_bytes(4).tolist() == ring(12000)
    assert not traffic.timed
    assert [info.device_pci_bus_id for info in traffic.rank_info] == [
        "0000:10:00.0", "0000:20:00.0", "0000:30:00.0", "0000:40:00.0",
    ]  # fmt: skip
    assert [info.local_rank for info in traffic.rank_info] == [0, 1, 2, 3]
    assert {(e.operation, e.bytes, e.calls) for e in traffic.collectives} == {
        ("allreduce", 4000, 2)
    }
    assert "ring" in traffic.collective_model


def test_counts_are_one_ranks_share(tmp_path):
    """AllGather, ReduceScatter, AlltoAll count a block; Broadcast the whole buffer."""
    for name, size in (("AllGather", 12000), ("ReduceScatter", 12000)):
        lines = init_lines(FOUR, 0) + [call_line(p, 0, 4, name, 1000) for p in FOUR]
        assert read(tmp_path, lines).table(**COLLECTIVE).dense_bytes(4).tolist() == ring(size)
    lines = init_lines(FOUR, 0) + [call_line(p, 0, 4, "Broadcast", 1000, root=1) for p in FOUR]
    chain = ring(4000)
    chain[0][1] = 0
    assert read(tmp_path, lines).table(**COLLECTIVE).dense_bytes(4).tolist() == chain
    lines = init_lines(FOUR, 0) + [call_line(p, 0, 4, "AlltoAll", 10, size=2) for p in FOUR]
    matrix = read(tmp_path, lines).table(**COLLECTIVE).dense_bytes(4)
    assert matrix.tolist() == (20 * (1 - np.eye(4, dtype=int))).tolist()


def test_messages_count_at_the_sender(tmp_path):
    lines = [
        *init_lines(FOUR, 0),
        call_line(FOUR[0], 0, 4, "Send", 100, root=2),
        call_line(FOUR[2], 0, 4, "Recv", 100, root=0),
        call_line(FOUR[1], 0, 4, "Send", 5, root=1),  # to itself: no edge
    ]
    table = read(tmp_path, lines).table(**MESSAGE)
    assert table.dense_bytes(4).tolist()[0] == [0, 0, 400, 0]
    assert table.messages.sum() == 1


def test_a_lost_log_is_made_up_for_by_the_other_members(tmp_path):
    """Rank 3 left no log: its ring edge and what it sent are known from the others."""
    named = [line for line in init_lines(FOUR, 0) if ":1003:" not in line]
    lines = named + [call_line(p, 0, 4, "AllReduce", 1000) for p in FOUR[:3]]
    lines.append(call_line(FOUR[1], 0, 4, "Recv", 100, root=3))
    traffic = read(tmp_path, lines)
    assert traffic.table(**COLLECTIVE).dense_bytes(4).tolist() == ring(6000)
    assert traffic.table(**MESSAGE).dense_bytes(4)[3, 1] == 400
    assert any("1 of 4 ranks left no record, such as rank 3" in line for line in traffic.report)


def test_messages_with_unknown_ranks_are_counted_not_dropped_silently(tmp_path):
    """Two pairs without a world: of the second only one member left a log."""
    lines = init_lines(FOUR[:2], 1) + init_lines(FOUR[2:], 2)
    lines = [line for line in lines if ":1003:" not in line]
    lines += [call_line(p, 1, 2, "AllReduce", 10) for p in FOUR[:2]]
    lines += [call_line(FOUR[2], 2, 2, name, 10, root=1) for name in ("Send", "Send", "Recv")]
    lines.append(call_line(FOUR[2], 2, 2, "AllReduce", 10))
    report = "\n".join(read(tmp_path, lines).report)
    assert "3 messages are with ranks of which nothing is known" in report
    assert "80 bytes of collectives pass ranks of which nothing is known" in report


def test_subgroups_keep_their_ranks(tmp_path):
    """Two groups 0, 2 and 1, 3, named by the log, in a world that has its own communicator."""
    groups = [[FOUR[0], FOUR[2]], [FOUR[1], FOUR[3]]]
    lines = init_lines(FOUR, 0)
    for number, members in enumerate(groups, start=1):
        lines += init_lines(members, number)
        lines += [call_line(p, number, 2, "AllReduce", 100) for p in members]
    matrix = read(tmp_path, lines).table(**COLLECTIVE).dense_bytes(4)
    expected = np.zeros((4, 4), dtype=int)
    expected[0, 2] = expected[2, 0] = expected[1, 3] = expected[3, 1] = 400
    assert matrix.tolist() == expected.tolist()


def test_without_a_world_communicator_ranks_are_numbered_by_device(tmp_path):
    lines = []
    for number, members in enumerate([FOUR[:2], FOUR[2:]], start=1):
        lines += init_lines(members, number)
        lines += [call_line(p, number, 2, "AllReduce", 100) for p in members]
    traffic = read(tmp_path, lines)
    assert traffic.ranks == 4
    assert traffic.table(**COLLECTIVE).dense_bytes(4)[2, 3] == 400
    assert any("no communicator has all 4 processes" in line for line in traffic.report)


def test_prefixes_of_launchers_and_timestamps(tmp_path):
    before = [
        "(RayTrainWorker pid=7, ip=10.0.0.1) ",
        "[2026-05-05 06:16:47] ",
        "[1,0]<stdout>:",
        "3: ",
    ]
    lines = init_lines(FOUR, 0) + [call_line(p, 0, 4, "AllReduce", 1000) for p in FOUR]
    rng = random.Random(1)
    assert read(tmp_path, [rng.choice(before) + line for line in lines]).table(
        **COLLECTIVE
    ).dense_bytes(4).tolist() == ring(6000)


def test_two_records_on_one_line_are_both_read(tmp_path):
    lines = init_lines(FOUR, 0) + ["".join(call_line(p, 0, 4, "AllGather", 1000) for p in FOUR)]
    assert read(tmp_path, lines).table(**COLLECTIVE).dense_bytes(4).tolist() == ring(12000)


def test_one_file_per_process_in_a_folder(tmp_path):
    lines = init_lines(FOUR, 0) + [call_line(p, 0, 4, "AllReduce", 1000) for p in FOUR]
    for process in FOUR:
        own = [line for line in lines if f":{process.pid}:" in line]
        (tmp_path / f"nccl.node07.{process.pid}").write_text("\n".join(own) + "\n")
    (tmp_path / "readme").write_text("not a log\n")
    traffic = read_traffic(tmp_path)
    assert traffic.origin == "NCCL debug logs (4 files)"
    assert traffic.table(**COLLECTIVE).dense_bytes(4).tolist() == ring(6000)


def test_lines_that_are_not_understood_are_counted(tmp_path):
    call = call_line(FOUR[0], 0, 4, "AllReduce", 1000)
    lines = [
        *init_lines(FOUR, 0),
        call,
        call.replace("datatype 7", "datatype 77"),
        call.replace("AllReduce", "FutureOperation"),
        call.replace("comm 0x55", "comm 0x77"),
    ]
    report = "\n".join(read(tmp_path, lines).report)
    assert "2 lines could not be understood, such as nccl.log:19" in report
    assert "1 calls are on communicators whose INIT line is not in the log" in report


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["host:1:1 [0] NCCL INFO Bootstrap : Using eth0"], "names no communicator by commId"),
        (init_lines(FOUR, 0), "has no collective and no message"),
        (
            [*init_lines(FOUR, 0, named=False), call_line(FOUR[0], 0, 4, "AllReduce", 10)],
            "names no communicator by commId",
        ),
    ],
)
def test_a_log_without_traffic_is_refused(tmp_path, lines, words):
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path, lines)
    assert "NCCL_DEBUG_SUBSYS=INIT,COLL" in caught.value.hint


def test_a_collective_with_a_root_is_messages_beside_the_groups(tmp_path):
    """NCCL has no gather: its members send to the root."""
    processes = [LoggedProcess("n", device) for device in range(2)]
    lines = init_lines(processes, 0)
    for name in ("AllReduce", "Gather"):
        lines += [call_line(process, 0, 2, name, 64) for process in processes]
    traffic = read(tmp_path, lines)
    (load,) = traffic.groups
    assert load.exchange is Exchange.ALL_REDUCE
    messages = traffic.edge_table()
    assert (messages.source.tolist(), messages.target.tolist()) == ([1], [0])
    assert messages.bytes.tolist() == [256]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    ranks=st.integers(2, 9),
    calls=st.lists(
        st.tuples(st.sampled_from(["AllReduce", "AllGather"]), st.integers(1, 10**6)), min_size=1
    ),
)
def test_any_order_of_lines_of_different_processes_gives_the_same(tmp_path, data, ranks, calls):
    """Interleaving keeps each process's own order; the sums are those of the ring formulas."""
    processes = [LoggedProcess("n", device) for device in range(ranks)]
    lines = init_lines(processes, 0)
    own = {p: [line for line in lines if f":{p.pid}:" in line] for p in processes}
    per_edge = 0
    for name, count in calls:
        for process in processes:
            own[process].append(call_line(process, 0, ranks, name, count))
        per_edge += (2 if name == "AllReduce" else ranks) * (ranks - 1) * 4 * count
    order = data.draw(st.permutations([p for p in processes for _ in own[p]]))
    mixed = [own[process].pop(0) for process in order]
    matrix = read(tmp_path, mixed).table(**COLLECTIVE).dense_bytes(ranks)
    edges = matrix[np.nonzero(matrix)]
    # Chunks are whole bytes: each size may lose less than a byte per operation and edge.
    assert len(edges) == ranks
    assert np.all(np.abs(edges - per_edge / ranks) <= 2)
