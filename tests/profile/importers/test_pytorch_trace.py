"""Traces of the PyTorch profiler, written from the attributes of `record_param_comms`."""

import gzip
import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toposeat.errors import InputError
from toposeat.model.traffic import Exchange, MemorySpace, TrafficKind
from toposeat.profile import read_traffic
from toposeat.profile.importers import pytorch_trace

COLLECTIVE = {"kind": TrafficKind.COLLECTIVE, "space": MemorySpace.DEVICE}
GROUPS = {"0": [0, 1, 2, 3], "1": [0, 1], "2": [2, 3]}


def event(name, given, got, group="0", **more):
    """A host event of one call with floats."""
    args = {
        "External id": 7, "Collective name": name, "dtype": "Float", "In msg nelems": given,
        "Out msg nelems": got, "Group size": len(GROUPS[group]), "Process Group Name": group,
        "Process Group Description": f"mesh_{group}",
        "Process Group Ranks": str(GROUPS[group]), "Rank": 0, **more,
    }  # fmt: skip
    return {
        "ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 2, "ts": 1.5,
        "dur": 2.5, "args": args,
    }  # fmt: skip


def kernel(host):
    """The GPU's event of the same call, to which the profiler copies its attributes."""
    return {**host, "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL"}


def trace(rank, events, *, world=4, **more):
    config = [
        {"pg_name": name, "pg_desc": f"mesh_{name}", "ranks": ranks, "pg_size": len(ranks)}
        for name, ranks in GROUPS.items()
        if rank in ranks
    ]
    info = {"backend": "nccl", "rank": rank, "world_size": world, "pg_config": config, **more}
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}],
        "distributedInfo": info,
        "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1, "args": {}},
            *events,
        ],
        "traceName": "trace.json",
    }


def write(folder, traces):
    folder.mkdir(exist_ok=True)
    for each in traces:
        rank = each["distributedInfo"]["rank"]
        (folder / f"rank{rank}.pt.trace.json").write_text(json.dumps(each, indent=1))
    return folder


def test_host_events_are_counted_and_their_kernels_are_not(tmp_path):
    call = event("allreduce", 1000, 1000)
    write(tmp_path, [trace(rank, [call, kernel(call), call]) for rank in range(4)])
    traffic = read_traffic(tmp_path)
    matrix = traffic.table(**COLLECTIVE).dense_bytes(4)
    assert matrix.tolist() == (np.roll(np.eye(4, dtype=int), 1, axis=1) * 12000).tolist()
    assert traffic.origin == "PyTorch traces of 4 of 4 ranks"
    assert [(c.name, c.ranks) for c in traffic.communicators] == [("mesh_0", (0, 1, 2, 3))]


def test_kernels_serve_where_the_host_was_not_recorded(tmp_path):
    call = kernel(event("allreduce", 1000, 1000))
    write(tmp_path, [trace(rank, [call]) for rank in range(4)])
    assert read_traffic(tmp_path).table(**COLLECTIVE).bytes.tolist() == [6000] * 4


@pytest.mark.parametrize(
    ("name", "given", "got", "per_edge"),
    [
        ("_allgather_base", 250, 1000, 3000),
        ("all_gather_into_tensor_coalesced", 250, 1000, 3000),
        ("_reduce_scatter_base", 1000, 250, 3000),
        ("reduce_scatter_tensor_coalesced", 1000, 250, 3000),
        ("allreduce_coalesced", 1000, 1000, 6000),
    ],
)
def test_blocks(tmp_path, name, given, got, per_edge):
    write(tmp_path, [trace(rank, [event(name, given, got)]) for rank in range(4)])
    assert read_traffic(tmp_path).table(**COLLECTIVE).bytes.tolist() == [per_edge] * 4


def test_groups_by_their_ranks(tmp_path):
    call = {rank: event("allreduce", 10, 10, "1" if rank < 2 else "2") for rank in range(4)}
    write(tmp_path, [trace(rank, [call[rank]]) for rank in range(4)])
    matrix = read_traffic(tmp_path).table(**COLLECTIVE).dense_bytes(4)
    assert {(a, b) for a, b in zip(*np.nonzero(matrix), strict=True)} == {
        (0, 1), (1, 0), (2, 3), (3, 2),
    }  # fmt: skip


def test_broadcast_from_its_root(tmp_path):
    write(tmp_path, [trace(rank, [event("broadcast", 10, 10, Rank=2)]) for rank in range(4)])
    matrix = read_traffic(tmp_path).table(**COLLECTIVE).dense_bytes(4)
    assert sorted(zip(*np.nonzero(matrix), strict=True)) == [(0, 1), (2, 3), (3, 0)]


def test_messages_with_and_without_a_named_peer(tmp_path):
    """Newer profilers name the peer's world rank, older ones its position in the group."""
    new = event("send", 10, 10, "2", **{"Dst Rank": 3})
    old = event("send", 10, 10, "2", Rank=1)
    write(tmp_path, [trace(2, [new, old])])
    table = read_traffic(tmp_path).table(kind=TrafficKind.POINT_TO_POINT)
    assert (table.source.tolist(), table.target.tolist(), table.bytes.tolist()) == ([2], [3], [80])


def test_all_to_all_with_splits_counts_each_pair(tmp_path):
    calls = [
        event("all_to_allv", 10, 10, **{"In split size": str(splits)})
        for splits in ([1, 2, 3, 4], [4, 3, 2, 1], [10, 0, 0, 0], [])
    ]
    write(tmp_path, [trace(rank, [call]) for rank, call in enumerate(calls)])
    matrix = read_traffic(tmp_path).table(kind=TrafficKind.EXACT_COLLECTIVE).dense_bytes(4)
    assert matrix[0].tolist() == [0, 8, 12, 16]
    assert matrix[1].tolist() == [16, 0, 8, 4]
    assert matrix[2].tolist() == [40, 0, 0, 0]


def test_groups_stay_sets_beside_an_all_to_all_with_splits(tmp_path):
    """As in training with experts: NCCL orders the all-reduce, the splits are messages."""
    calls = [event("allreduce", 1000, 1000), event("all_to_allv", 10, 10)]
    calls[1]["args"]["In split size"] = "[1, 2, 3, 4]"
    write(tmp_path, [trace(rank, calls) for rank in range(4)])
    traffic = read_traffic(tmp_path)
    (load,) = traffic.groups
    assert (load.library, load.exchange) == ("nccl", Exchange.ALL_REDUCE)
    assert load.bytes == 4000 * 2 * 3 // 4
    assert int(traffic.edge_table().bytes.sum()) == 4 * (4 + 8 + 12 + 16) - (4 + 8 + 12 + 16)


def test_ranks_that_the_profiler_cut_are_taken_from_the_configuration(tmp_path):
    call = event("allreduce", 1000, 1000, **{"Process Group Ranks": "[0, 1, ..., 3]"})
    write(tmp_path, [trace(rank, [call]) for rank in range(4)])
    assert len(read_traffic(tmp_path).table(**COLLECTIVE)) == 4


@pytest.mark.parametrize("listed", [[], "[0, 1, 2, 3]"])  # no ranks: all of them
def test_forms_of_a_group_in_the_configuration(tmp_path, listed):
    call = event("allreduce", 1000, 1000, **{"Process Group Ranks": "[0, 1, ..., 3]"})
    traces = [trace(rank, [call]) for rank in range(4)]
    for each in traces:
        each["distributedInfo"]["pg_config"] = [{"pg_name": "0", "pg_size": 4, "ranks": listed}]
    write(tmp_path, traces)
    assert read_traffic(tmp_path).table(**COLLECTIVE).bytes.tolist() == [6000] * 4


def test_one_rank_of_several(tmp_path):
    write(tmp_path, [trace(2, [event("allreduce", 10, 10, "2")])])
    traffic = read_traffic(tmp_path / "rank2.pt.trace.json")
    assert len(traffic.table(**COLLECTIVE)) == 2
    assert any("3 of 4 ranks have no trace" in line for line in traffic.report)


def test_a_trace_of_gloo_is_refused_by_name(tmp_path):
    write(tmp_path, [trace(rank, [], backend="gloo") for rank in range(4)])
    with pytest.raises(InputError, match="a trace of gloo") as caught:
        read_traffic(tmp_path)
    assert "toposeat profile -- torchrun" in caught.value.hint


def test_what_is_not_understood_is_counted(tmp_path):
    calls = [
        event("allreduce", 10, 10),
        event("allreduce", 10, 10, dtype="Mystery"),
        event("teleport", 10, 10),
        event("barrier", 0, 0),
    ]
    write(tmp_path, [trace(rank, calls) for rank in range(4)])
    report = "\n".join(read_traffic(tmp_path).report)
    assert "8 calls were not understood" in report
    assert "type 'Mystery' (4)" in report


def test_traces_of_different_jobs(tmp_path):
    write(tmp_path, [trace(0, []), trace(1, [], world=8)])
    with pytest.raises(InputError, match="worlds of 4 and 8 ranks"):
        read_traffic(tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"distributedInfo": {},\n"traceEvents": [{"args": 1},\n{]}', 3),
        ('{"traceEvents": [{"args"', None),
        ('{"distributedInfo": {}, "traceEvents": 3}', None),
        ('{"distributedInfo": {}, "traceEvents": [{"Collective name": "\xff"}]}', None),
        ('{"traceEvents": ' + "[" * 100_000, None),
    ],
)
def test_damaged_json(tmp_path, text, line):
    path = tmp_path / "rank0.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"damaged JSON|does not state its rank") as caught:
        read_traffic(path)
    assert caught.value.line == line


def test_a_trace_that_unpacks_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(pytorch_trace, "MAX_TRACE_BYTES", 1 << 20)
    path = tmp_path / "rank0.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (1 << 21)))
    with pytest.raises(InputError, match="more than 0 GiB of text"):
        read_traffic(path)


def test_a_large_trace_is_in_memory_once(tmp_path):
    """8 MB of events, of which only those of process groups become objects."""
    filler = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "args": {"Input Dims": [[1] * 40]}}
    events = [filler] * 40_000
    events += [event("allreduce", 1000, 1000)] * 500
    path = tmp_path / "big.json.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        json.dump(trace(0, events), file)
    tracemalloc.start()
    traffic = read_traffic(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert traffic.table(**COLLECTIVE).bytes.tolist() == [500 * 6000] * 4
    assert peak < 20 * 2**20


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=st.lists(st.integers(4, 10**9), min_size=1, max_size=6),
    ranks=st.sets(st.integers(0, 3), min_size=1),
)
def test_any_reporting_rank_is_enough_for_the_ring(tmp_path, sizes, ranks):
    calls = [event("allreduce", size, size) for size in sizes]
    folder = write(tmp_path / f"{sizes} {ranks}"[:200], [trace(rank, calls) for rank in ranks])
    table = read_traffic(folder).table(**COLLECTIVE)
    assert table.bytes.tolist() == [6 * 4 * sum(sizes) // 4] * 4
