"""The NCCL Inspector's JSON, written from its documented members."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toposeat.errors import InputError
from toposeat.model.traffic import Exchange, MemorySpace, Traffic, TrafficKind
from toposeat.profile import read_traffic

COLLECTIVE = {"kind": TrafficKind.COLLECTIVE, "space": MemorySpace.DEVICE}


def record(
    rank: int, ranks: int, *, comm: str = "0xfeed", pid: int | None = None
) -> dict[str, Any]:
    return {
        "header": {"id": comm, "rank": rank, "n_ranks": ranks, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "git_rev": "",
            "rec_mechanism": "profiler_plugin",
            "dump_timestamp_us": 1748030377748202,
            "hostname": "node07",
            "pid": 1000 + rank if pid is None else pid,
        },
    }


def collective(rank: int, ranks: int, name: str, size: int, sn: int = 1, **more: Any) -> dict:
    extra = {key: more.pop(key) for key in list(more) if key.startswith("coll_")}
    return {
        **record(rank, ranks, **more),
        "coll_perf": {
            "coll": name, "coll_sn": sn, "coll_msg_size_bytes": size, "coll_exec_time_us": 61974,
            "coll_algobw_gbs": 277.2, "coll_busbw_gbs": 485.1, **extra,
        },
    }  # fmt: skip


def message(rank: int, ranks: int, name: str, peer: int, size: int) -> dict:
    return {
        **record(rank, ranks),
        "p2p_perf": {"p2p": name, "p2p_sn": 1, "p2p_peer": peer, "p2p_msg_size_bytes": size},
    }


def read(folder: Path, records: list[dict], *, indent: int | None = None) -> Traffic:
    path = folder / "node07-pid.log"
    path.write_text("\n".join(json.dumps(each, indent=indent) for each in records) + "\n")
    return read_traffic(path)


@pytest.mark.parametrize("indent", [None, 2])
def test_sizes_are_those_of_one_rank(tmp_path: Path, indent: int | None) -> None:
    """An AllReduce of S sends 2 x 7/8 S; an AllGather of blocks of S sends 7 S; per edge."""
    records = [collective(r, 8, "AllReduce", 8000, 1) for r in range(8)]
    records += [collective(r, 8, "AllGather", 100, 2) for r in range(8)]
    traffic = read(tmp_path, records, indent=indent)
    matrix = traffic.table(**COLLECTIVE).dense_bytes(8)
    assert matrix.tolist() == (np.roll(np.eye(8, dtype=int), 1, axis=1) * (14000 + 700)).tolist()
    assert traffic.origin == "NCCL Inspector (1 file)"
    assert [info.host for info in traffic.rank_info] == ["node07"] * 8


def test_messages(tmp_path: Path) -> None:
    records = [message(0, 2, "Send", 1, 9000), message(1, 2, "Recv", 0, 9000)]
    table = read(tmp_path, records).table(kind=TrafficKind.POINT_TO_POINT)
    assert table.dense_bytes(2).tolist() == [[0, 9000], [0, 0]]


def test_files_of_a_folder_and_gzip(tmp_path: Path) -> None:
    for rank in range(2):
        text = json.dumps(collective(rank, 2, "AllReduce", 100)) + "\n"
        (tmp_path / f"p{rank}.log.gz").write_bytes(gzip.compress(text.encode()))
    traffic = read_traffic(tmp_path)
    assert traffic.table(**COLLECTIVE).dense_bytes(2).tolist() == [[0, 100], [100, 0]]


def test_gaps_in_sequence_numbers_and_unknown_operations_are_said(tmp_path: Path) -> None:
    records = [collective(0, 2, "AllReduce", 8, 10), collective(0, 2, "Novelty", 8, 11)]
    records.append(collective(0, 2, "Broadcast", 8, 12))
    report = "\n".join(read(tmp_path, records).report)
    assert "about 9 collectives were not recorded" in report
    assert "1 operations are not known: Novelty" in report
    assert "root of a broadcast" in report
    assert "1 of 2 ranks left no record" in report


def test_one_process_with_several_devices(tmp_path: Path) -> None:
    """Ranks 0 and 1 in one process; in the group they are 1 and 0 of the same two devices."""
    records = [collective(r, 2, "AllReduce", 100, pid=7) for r in (1, 0)]
    traffic = read(tmp_path, records)
    assert traffic.table(**COLLECTIVE).dense_bytes(2).tolist() == [[0, 100], [100, 0]]
    assert any("drive several devices" in line for line in traffic.report)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"header": {"id": "0x1", "rank": 9, "n_ranks": 2}}, "rank 9 of 2"),
        (
            {"header": {"id": "0x1", "rank": 0, "n_ranks": 10**9}},
            r"<= 131072 .*n_ranks",
        ),
        (
            {"coll_perf": {"coll": "AllReduce", "coll_msg_size_bytes": -1}},
            r">= 0 .*bytes",
        ),
        ({"header": None}, "no header"),
    ],
)
def test_impossible_records_are_named_by_line(tmp_path: Path, change: dict, words: str) -> None:
    records = [collective(0, 2, "AllReduce", 8), {**collective(0, 2, "AllReduce", 8), **change}]
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path, records)
    assert caught.value.line == 2


def test_a_file_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "cut.log"
    path.write_text(json.dumps(collective(0, 2, "AllReduce", 8)) + "\n" + '{"header": {"id"')
    with pytest.raises(InputError, match=r"cut\.log:2: damaged JSON"):
        read_traffic(path)


def test_sizes_beyond_any_float_are_refused(tmp_path: Path) -> None:
    """Found by fuzzing: the message could not be written."""
    with pytest.raises(InputError, match="coll_msg_size_bytes"):
        read(tmp_path, [collective(0, 2, "AllReduce", 10**400)])


def test_collectives_are_sets_whose_edges_carry_what_a_ring_does(tmp_path: Path) -> None:
    size = 3 * 2**20
    records = [collective(rank, 3, "AllReduce", size) for rank in range(3)]
    (load,) = read(tmp_path, records).groups
    assert (load.library, load.exchange) == ("nccl", Exchange.RING)
    assert load.bytes == 2 * 2 * size // 3


def test_a_collective_with_a_root_is_messages_beside_the_groups(tmp_path: Path) -> None:
    """NCCL has no gather: its members send to the root."""
    records = [collective(rank, 2, "AllReduce", 64) for rank in range(2)]
    records += [collective(rank, 2, "Gather", 64, 2, coll_root=0) for rank in range(2)]
    traffic = read(tmp_path, records)
    (load,) = traffic.groups
    assert load.exchange is Exchange.RING
    assert load.bytes > 0
    messages = traffic.edge_table()
    assert (messages.source.tolist(), messages.target.tolist()) == ([1], [0])
    assert messages.bytes.tolist() == traffic.table(kind=TrafficKind.POINT_TO_POINT).bytes.tolist()
