"""Dumps of PyTorch's flight recorder: their calls, and pickles that are more than data."""

from __future__ import annotations

import io
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from toposeat.errors import InputError
from toposeat.model.traffic import Exchange, MemorySpace, TrafficKind
from toposeat.profile import read_traffic
from toposeat.profile.importers.flight_recorder import load_data


def entry(name: str, size: int, *, out: int | None = None, group: str = "0") -> dict[str, Any]:
    return {
        **{"record_id": 1, "pg_id": 0, "process_group": (group, "default_pg"), "state": "x"},
        **{"profiling_name": name, "input_sizes": [[size]], "input_dtypes": ["BFloat16"]},
        **{"output_sizes": [[size if out is None else out]], "output_dtypes": ["BFloat16"]},
        **{"frames": [{"name": "f", "filename": "a.py", "line": 3}], "is_p2p": False},
    }


def dump(folder: Path, rank: int, entries: list[Any], ranks: str = "[0, 1]") -> Path:
    """As of the nccl backend: groups are told with their members."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
    whole = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}
    path = folder / f"nccl_trace_rank_{rank}"
    path.write_bytes(pickle.dumps(whole, protocol=2))
    return path


def test_nccl_calls_by_hand(tmp_path: Path) -> None:
    calls = [entry("nccl:all_reduce", 100), entry("nccl:_reduce_scatter_base", 40, out=20)]
    calls += [entry("nccl:all_to_all", 8), entry("nccl:barrier", 1), entry("nccl:coalesced", 1)]
    dump(tmp_path, 0, [*calls, entry("nccl:send 0->1", 30)])
    dump(tmp_path, 1, [*calls, entry("nccl:recv 1<-0", 30)])
    traffic = read_traffic(tmp_path)
    loads = {load.exchange: load.bytes for load in traffic.groups}
    # Ring of two: all-reduce 2 (n-1)/n of 200 bytes, reduce-scatter n-1 blocks of 40.
    assert loads == {Exchange.RING: 200 + 40, Exchange.PAIRWISE: 8}
    messages = traffic.table(kind=TrafficKind.POINT_TO_POINT, space=MemorySpace.DEVICE)
    assert messages.dense_bytes(2).tolist() == [[0, 60], [0, 0]]
    assert any("taken as even" in line for line in traffic.report)


def test_members_are_in_the_order_of_the_group(tmp_path: Path) -> None:
    for rank in (0, 1):
        dump(tmp_path, rank, [entry("nccl:all_reduce", 4)], ranks="[1, 0]")
    assert read_traffic(tmp_path).communicators[0].ranks == (1, 0)


def test_unknown_calls_are_told(tmp_path: Path) -> None:
    dump(tmp_path, 0, [entry("nccl:all_reduce", 4), entry("nccl:teleport", 4)], ranks="[0]")
    traffic = read_traffic(tmp_path)
    assert any("1 calls were not understood: operation 'teleport'" in x for x in traffic.report)


class _Evil:
    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._mark),)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_code_in_a_pickle_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "ran"
    whole = {"pg_config": {}, "entries": [_Evil(mark)]}
    path = tmp_path / "trace_rank_0"
    path.write_bytes(pickle.dumps(whole, protocol=protocol))
    with pytest.raises(InputError, match="more than data") as caught:
        read_traffic(path)
    assert not mark.exists()
    assert "\n" not in str(caught.value)


HOSTILE = {
    "a memo without end": b"\x80\x02r\xff\xff\xff\xffpg_config.",
    "an array of 2^62 bytes": b"\x80\x05\x96" + (1 << 62).to_bytes(8, "little") + b"pg_config.",
    "names by extension": b"\x80\x02\x82\x01pg_config.",
    "persistent": b"\x80\x02\x88Qpg_config.",
    "no end": pickle.dumps({"pg_config": {}}, protocol=2)[:-1],
    "a second one": pickle.dumps({"pg_config": {}}, protocol=2) * 2,
    "an empty stack": b"\x80\x02\x85X\x09\x00\x00\x00pg_config.",
    "appended to a text": b"\x80\x02X\x09\x00\x00\x00pg_configNa.",
    "no entries": pickle.dumps({"pg_config": {}}, protocol=2),
    "a list": pickle.dumps(["pg_config"], protocol=2),
    "other keys": pickle.dumps({"pg_config": 3, "entries": [1]}, protocol=2),
    "unhashable": b"\x80\x02}]Ns}X\x09\x00\x00\x00pg_config.",
    "half a dump in JSON": b'{"comm_lib_version":"","entries":[',
    "nested": b'{"comm_lib_version":' + b"[" * 200000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_dumps_are_refused_in_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trace_rank_0"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(InputError) as caught:
        read_traffic(path)
    assert "\n" not in str(caught.value)
    assert "dump" in str(caught.value) or "call" in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"input_sizes": [[-1]]},
        {"input_sizes": [[1 << 61, 1 << 61]]},
        {"input_sizes": "x"},
        {"input_dtypes": ["Nothing"]},
        {"input_dtypes": []},
        {"process_group": 3},
        {"profiling_name": None},
        {"profiling_name": "nccl:send 0->7"},
    ],
)
def test_what_cannot_be_told_of_a_call_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    dump(tmp_path, 0, [entry("nccl:all_reduce", 4) | change], ranks="[0, 1, 1]")
    with pytest.raises(InputError, match="no call of it says"):
        read_traffic(tmp_path / "nccl_trace_rank_0")


def test_name_without_a_rank(tmp_path: Path) -> None:
    path = dump(tmp_path, 0, []).rename(tmp_path / "trace")
    with pytest.raises(InputError, match="does not end with a rank"):
        read_traffic(path)


def test_data_survive(tmp_path: Path) -> None:
    whole = {"a": [1, -70000, 1 << 80, 2.5, None, True, ("x", ()), [[]]], "b": {"c": "é"}}
    for protocol in (2, 3, 4):
        assert load_data(pickle.dumps(whole, protocol=protocol)) == whole
    buffer = io.BytesIO()
    pickle.Pickler(buffer, protocol=2).dump(whole)
    assert json.dumps(load_data(buffer.getvalue())) == json.dumps(whole)
