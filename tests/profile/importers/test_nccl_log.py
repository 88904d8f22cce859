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


def edges(*pairs, ranks=4):
    """Bytes by pair, as a matrix."""
    matrix = np.zeros((ranks, ranks), dtype=np.int64)
    for source, target, size in pairs:
        matrix[source, target] = size
    return matrix.tolist()


def ring(size, ranks=4):
    return edges(*((rank, (rank + 1) % ranks, size) for rank in range(ranks)), ranks=ranks)


def matrix_of(folder, lines, **kind):
    traffic = read(folder, lines)
    return traffic.table(**(kind or COLLECTIVE)).dense_bytes(traffic.ranks).tolist()


def calls(name, count=1000, processes=FOUR, number=0, **more):
    return [call_line(p, number, len(processes), name, count, **more) for p in processes]


def test_allreduce_of_four_ranks(tmp_path):
    """1000 floats: 2 x 3/4 x 4000 = 6000 bytes over each edge of the ring, twice."""
    lines = ["some output of the application", *init_lines(FOUR, 0), *calls("AllReduce") * 2]
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


# Bytes over each edge, and in how many steps. AllGather, ReduceScatter, AlltoAll count a block of
# 1000 floats, the others the whole buffer. A chain begins, or ends, at the root.
EDGES = {
    "AllReduce": (ring(6000), 6),
    "AllGather": (ring(12000), 3),
    "ReduceScatter": (ring(12000), 3),
    "AlltoAll": ((4000 * (1 - np.eye(4, dtype=int))).tolist(), 1),
    "Broadcast": (edges((1, 2, 4000), (2, 3, 4000), (3, 0, 4000)), 1),
    "Reduce": (edges((2, 3, 4000), (3, 0, 4000), (0, 1, 4000)), 1),
    "Gather": (edges((0, 1, 4000), (2, 1, 4000), (3, 1, 4000)), 1),
    "Scatter": (edges((1, 0, 4000), (1, 2, 4000), (1, 3, 4000)), 1),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges_of_collectives(tmp_path, name):
    expected, steps = EDGES[name]
    table = read(tmp_path, init_lines(FOUR, 0) + calls(name, root=1)).table()
    assert table.dense_bytes(4).tolist() == expected
    assert set(table.messages.tolist()) == {steps}


def test_nothing_passes_in_a_group_of_one(tmp_path):
    lines = init_lines(FOUR, 0) + calls("AllGather") + init_lines(FOUR[:1], 1)
    assert matrix_of(tmp_path, lines + calls("AllReduce", 10, FOUR[:1], 1)) == ring(12000)


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
    lines = named + calls("AllReduce")[:3]
    lines.append(call_line(FOUR[1], 0, 4, "Recv", 100, root=3))
    traffic = read(tmp_path, lines)
    assert traffic.table(**COLLECTIVE).dense_bytes(4).tolist() == ring(6000)
    assert traffic.table(**MESSAGE).dense_bytes(4)[3, 1] == 400
    assert any("1 of 4 ranks left no record, such as rank 3" in line for line in traffic.report)


def test_messages_with_unknown_ranks_are_counted_not_dropped_silently(tmp_path):
    """Two pairs without a world: of the second only one member left a log."""
    lines = init_lines(FOUR[:2], 1) + init_lines(FOUR[2:], 2)
    lines = [line for line in lines if ":1003:" not in line]
    lines += calls("AllReduce", 10, FOUR[:2], 1)
    lines += [call_line(FOUR[2], 2, 2, name, 10, root=1) for name in ("Send", "Send", "Recv")]
    lines.append(call_line(FOUR[2], 2, 2, "AllReduce", 10))
    report = "\n".join(read(tmp_path, lines).report)
    assert "3 messages are with ranks of which nothing is known" in report
    assert "80 bytes of collectives pass ranks of which nothing is known" in report


def test_subgroups_keep_their_ranks(tmp_path):
    """Two groups 0, 2 and 1, 3, named by the log, in a world that has its own communicator."""
    lines = init_lines(FOUR, 0)
    for number, members in enumerate((FOUR[::2], FOUR[1::2]), start=1):
        lines += init_lines(members, number) + calls("AllReduce", 100, members, number)
    pairs = [(0, 2, 400), (2, 0, 400), (1, 3, 400), (3, 1, 400)]
    assert matrix_of(tmp_path, lines) == edges(*pairs)


def test_without_a_world_communicator_ranks_are_numbered_by_device(tmp_path):
    lines = []
    for number, members in enumerate([FOUR[:2], FOUR[2:]], start=1):
        lines += init_lines(members, number) + calls("AllReduce", 100, members, number)
    traffic = read(tmp_path, lines)
    assert traffic.ranks == 4
    assert traffic.table(**COLLECTIVE).dense_bytes(4)[2, 3] == 400
    assert any("no communicator has all 4 processes" in line for line in traffic.report)


def test_prefixes_of_launchers_and_several_records_on_a_line(tmp_path):
    before = [
        "(RayTrainWorker pid=7, ip=10.0.0.1) ",
        "[2026-05-05 06:16:47] ",
        "[1,0]<stdout>:",
        "3: ",
    ]
    lines, rng = init_lines(FOUR, 0) + calls("AllReduce"), random.Random(1)
    assert matrix_of(tmp_path, [rng.choice(before) + line for line in lines]) == ring(6000)
    joined = [*init_lines(FOUR, 0), "".join(calls("AllReduce"))]
    assert matrix_of(tmp_path, joined) == ring(6000)


def test_one_file_per_process_in_a_folder(tmp_path):
    lines = init_lines(FOUR, 0) + calls("AllReduce")
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
    lines = init_lines(FOUR[:2], 0)
    lines += calls("AllReduce", 64, FOUR[:2]) + calls("Gather", 64, FOUR[:2])
    traffic = read(tmp_path, lines)
    (load,) = traffic.groups
    assert load.exchange is Exchange.ALL_REDUCE
    assert traffic.edge_table().dense_bytes(2).tolist() == [[0, 0], [256, 0]]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    ranks=st.integers(2, 9),
    told=st.lists(
        st.tuples(
            st.sampled_from(["AllReduce", "AllGather", "ReduceScatter"]), st.integers(1, 10**6)
        ),
        min_size=1,
    ),
)
def test_any_order_of_lines_of_different_processes_gives_the_same(tmp_path, data, ranks, told):
    """Interleaving keeps each process's own order; the sums are those of the ring formulas."""
    processes = [LoggedProcess("n", device) for device in range(ranks)]
    lines = init_lines(processes, 0)
    own = {p: [line for line in lines if f":{p.pid}:" in line] for p in processes}
    per_edge = 0
    for name, count in told:
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
