"""Records of `torch.distributed` calls: their sums, and damage told in one line."""

import json
import struct

import pytest

from tests.profile.records.records import write_record
from toposeat.errors import InputError, ToposeatError
from toposeat.model.traffic import (
    DeviceChoice,
    Exchange,
    MemorySpace,
    TrafficKind,
)
from toposeat.profile import merge_records, read_folders

# As the recorder lays it out; written down here once more.
HEADER, ROWS = 4096, 16384
MAGIC = b"toposeat torch record 1\n"


def row(number, **changed):
    return {
        **{"row": number, "group": 0, "operation": "allreduce", "size": 800, "other": -1},
        **{"type": "float32", "device": "cuda", "index": 0, "backend": "nccl"},
        **changed,
    }


def write(folder, rank=0, *, lines=None, counts=None, world=2, end=b'{"end":true}\n', **changed):
    """A record of one all-reduce of 800 bytes by ranks 0 and 1, or with the lines given."""
    table = bytearray(16 * ROWS)
    for number, pair in (counts or {1: (3, 2400)}).items():
        struct.pack_into("<QQ", table, 16 * number, *pair)
    about = {"rank": rank, "world": world, "pid": 7, "host": "n1", "torch": "2.13.0"}
    about |= {"library": "nccl", "local_rank": rank, "restart": 0, **changed}
    group = {"group": 0, "name": "default_pg", "members": list(range(world))}
    texts = [json.dumps(each) for each in (about, *(lines or [group, row(1, index=rank)]))]
    path = folder / f"rank-{rank}-{7 + rank}.tpstorch"
    path.write_bytes(MAGIC.ljust(HEADER, b"\0") + table + "\n".join([*texts, ""]).encode() + end)
    return path


GROUP = {"group": 0, "name": "tp", "members": [0, 1]}


def test_nccl_groups_are_sets(tmp_path):
    for rank in range(2):
        write(tmp_path, rank)
    traffic = read_folders(tmp_path)
    (load,) = traffic.groups
    assert (load.exchange, load.bytes, load.library) == (Exchange.ALL_REDUCE, 2400, "nccl")
    table = traffic.table(kind=TrafficKind.COLLECTIVE, space=MemorySpace.DEVICE)
    assert table.dense_bytes(2).tolist() == [[0, 2400], [2400, 0]]
    assert len(traffic.edge_table()) == 0
    assert traffic.device_choice is DeviceChoice.LOCAL_RANK


def test_rccl_is_named(tmp_path):
    for rank in range(2):
        write(tmp_path, rank, library="rccl")
    assert read_folders(tmp_path).groups[0].library == "rccl"


def test_host_and_device_are_told_apart(tmp_path):
    lines = [GROUP, row(1), row(2, operation="send", other=1, device="cpu", backend="gloo")]
    write(tmp_path, 0, lines=lines, counts={1: (1, 800), 2: (2, 40)})
    write(tmp_path, 1, lines=lines[:2], counts={1: (1, 800)})
    traffic = read_folders(tmp_path)
    assert traffic.groups
    messages = traffic.table(kind=TrafficKind.POINT_TO_POINT, space=MemorySpace.HOST)
    assert messages.dense_bytes(2).tolist() == [[0, 40], [0, 0]]
    assert messages.dense_messages(2).tolist() == [[0, 2], [0, 0]]


def test_device_buffers_over_gloo_are_no_sets(tmp_path):
    for rank in range(2):
        write(tmp_path, rank, lines=[GROUP, row(1, backend="gloo")])
    assert read_folders(tmp_path).groups == ()


def test_messages_are_the_senders(tmp_path):
    sent = row(1, operation="send", other=1)
    write(tmp_path, 0, lines=[GROUP, sent], counts={1: (3, 100)})
    write(tmp_path, 1, lines=[GROUP, row(1, operation="recv", other=0)], counts={1: (9, 900)})
    table = read_folders(tmp_path).table(kind=TrafficKind.POINT_TO_POINT)
    assert table.dense_bytes(2).tolist() == [[0, 100], [0, 0]]


def test_calls_of_sizes_that_were_summed_count_once(tmp_path):
    # One rank had room for their sizes, the other only for their sum.
    sizes = [row(1, size=100), row(2, size=300)]
    write(tmp_path, 0, lines=[GROUP, *sizes], counts={1: (1, 100), 2: (1, 300)})
    write(tmp_path, 1, lines=[GROUP, row(1, size=-1)], counts={1: (2, 400)})
    traffic = read_folders(tmp_path)
    assert traffic.table().dense_bytes(2).tolist() == [[0, 400], [400, 0]]


def test_the_last_restart_counts(tmp_path):
    write(tmp_path, 0)
    (tmp_path / "rank-0-7.tpstorch").rename(tmp_path / "rank-0-1.tpstorch")
    for rank in range(2):
        write(tmp_path, rank, restart=2, counts={1: (1, 800)})
    traffic = read_folders(tmp_path)
    assert traffic.groups[0].bytes == 800
    assert any("restarted the job 2 times" in line for line in traffic.report)


def test_a_line_without_end_is_left_out(tmp_path):
    for rank in range(2):
        write(tmp_path, rank, end=b'{"row":2,"gro')
    traffic = read_folders(tmp_path)
    assert traffic.groups[0].bytes == 2400
    assert not traffic.rank_info[0].finalized


def test_ranks_without_a_record(tmp_path):
    write(tmp_path, 1)
    with pytest.raises(ToposeatError, match="1 of 2 ranks have no record: rank 0"):
        merge_records(tmp_path)
    assert merge_records(tmp_path, partial=True).ranks == 2


def test_records_of_two_jobs(tmp_path):
    write(tmp_path, 0).rename(tmp_path / "rank-0-1.tpstorch")
    write(tmp_path, 0)
    with pytest.raises(InputError, match="and a plan is for one world"):
        read_folders(tmp_path)


@pytest.mark.parametrize("space", [0, 1])
def test_of_mpi_and_pytorch_the_sum(tmp_path, space):
    for rank in range(2):
        write(tmp_path, rank)
        pairs, events = [(0, 1, 1 - rank, 100, 1)], [(0, 13, space, -1, 30, 2)]
        members = [(0, [(0, 1, 2)])]
        write_record(tmp_path, rank, 2, pairs=pairs, events=events, communicators=members)
    both = read_folders(tmp_path)
    sent = both.table(kind=TrafficKind.POINT_TO_POINT, space=MemorySpace.DEVICE)
    assert sent.dense_bytes(2).tolist() == [[0, 100], [100, 0]]
    shared = both.table(kind=TrafficKind.COLLECTIVE, space=MemorySpace.DEVICE)
    assert shared.dense_bytes(2)[0, 1] == 2400 + 2 * 30 * space
    name_of = {each.id: each.name for each in both.communicators}
    assert sorted(name_of.values()) == ["comm", "default_pg"]
    # Groups are sets only where no pairs of ranks are beside them.
    assert [name_of[each.communicator] for each in both.groups] == ["default_pg"] * (1 - space)
    assert {name_of[each.communicator] for each in both.collectives} == {"comm", "default_pg"}


def test_of_more_ranks_of_mpi_those_of_pytorch_count(tmp_path):
    for rank in range(2):
        write(tmp_path, rank)
    for rank in range(3):
        write_record(tmp_path, rank, 3)
    alone = read_folders(tmp_path)
    assert alone.ranks == 2
    assert "PyTorch alone: 2 of its ranks, where MPI had 3" in alone.report


HOSTILE = {
    "Expected `int` >= 1 - at `$.world`": {"changed": {"world": 0}},
    "131072 - at `$.world`": {"changed": {"world": 99999999}},
    "rank 5 of 2": {"changed": {"rank": 5}},
    "Expected `int`, got `bool` - at `$.rank`": {"changed": {"rank": True}},
    "not printable": {"changed": {"host": "a\nb"}},
    "length >= 1 - at `$.members`": {"lines": [{"group": 0, "name": "", "members": []}]},
    "beyond the world": {"lines": [{"group": 0, "name": "", "members": [0, 2]}]},
    "rank twice": {"lines": [{"group": 0, "name": "", "members": [0, 0]}]},
    "not its own": {"lines": [{"group": 0, "name": "", "members": [1]}]},
    "a group out of order": {"lines": [{"group": 3, "name": "", "members": [0]}]},
    "of an unknown group": {"lines": [row(1)]},
    "Expected `int` >= 1 - at `$.row`": {"lines": [GROUP, row(0)]},
    "Expected `int` <= 16383 - at `$.row`": {"lines": [GROUP, row(16384)]},
    "row 1 twice": {"lines": [GROUP, row(1), row(1)]},
    "no known operation": {"lines": [GROUP, row(1, operation="evil")]},
    "operation and member": {"lines": [GROUP, row(1, operation="send", other=2)]},
    "twice, or of no": {"lines": [GROUP, row(1, operation="send", other=-1)]},
    "counts too much": {"lines": [GROUP, row(1)], "counts": {1: (2**63, 1)}},
    "no object": {"lines": [[1]]},
}


@pytest.mark.parametrize("cause", HOSTILE)
def test_hostile_records_are_refused_in_one_line(tmp_path, cause):
    told = dict(HOSTILE[cause])
    changed = told.pop("changed", {})
    path = write_changed(tmp_path, changed) if changed else write(tmp_path, **told)
    with pytest.raises(InputError) as caught:
        read_folders(tmp_path)
    assert cause in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)


def write_changed(folder, changed):
    path = write(folder)
    data = path.read_bytes()
    begin = HEADER + 16 * ROWS
    first, _, rest = data[begin:].partition(b"\n")
    path.write_bytes(data[:begin] + json.dumps(json.loads(first) | changed).encode() + b"\n" + rest)
    return path


@pytest.mark.parametrize("size", [0, 10, HEADER, HEADER + 16 * ROWS])
def test_cut_records_are_refused(tmp_path, size):
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=r"no record of|before its first line"):
        read_folders(tmp_path)


def test_nested_text_is_refused(tmp_path):
    path = write(tmp_path)
    path.write_bytes(path.read_bytes() + b"[" * 100000 + b"\n")
    with pytest.raises(InputError, match="damaged record"):
        read_folders(tmp_path)
