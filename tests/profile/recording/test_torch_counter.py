"""The counter below Python: compiled after many calls, it records what recorder.py does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.pytorch import python_with_torch, why_no_torch
from toposeat.launch.python_hook import recorder
from toposeat.profile import profile_run
from toposeat.profile.recording.torch_counter import WORTH_CALLS, compile_counter
from toposeat.profile.records.torch_job import read_torch_record

# Prints how many calls Python counted. The backend moves nothing.
PROGRAM = """
import os, sys, threading, torch, torch.distributed as d
from torch.testing._internal.distributed import fake_pg

Recorder = sys.modules["toposeat_torch_recorder"].Recorder
own, seen = Recorder._add, []
def add(self, row, size):
    seen.append(row)
    own(self, row, size)
Recorder._add = add
d.init_process_group("fake", rank=0, world_size=2, store=fake_pg.FakeStore())

def calls(group=None):
    for size in (8, 16):
        for kind in (torch.float32, torch.int64):
            d.all_reduce(torch.ones(size, dtype=kind), group=group)
            d.broadcast(torch.ones(size, dtype=kind), 1, group=group)
    d.isend(torch.ones(4), 1, group=group)
    d.irecv(torch.ones(4), 1, group=group)
    d.all_gather_into_tensor(torch.ones(8), torch.ones(4), group=group)
    d.all_gather([torch.ones(4), torch.ones(4)], torch.ones(4), group=group)
    d.reduce_scatter_tensor(torch.ones(4), torch.ones(8), group=group)
    d.all_to_all_single(torch.ones(8), torch.ones(8), group=group)
    d.barrier(group=group)
    with torch.inference_mode():
        d.all_reduce(torch.ones(8), group=group)

def many(count):
    for _ in range(count):
        d.all_reduce(torch.ones(8))

for _ in range(5):
    calls()
for _ in range(20):  # a new group may get the place of an old one
    group = d.new_group([0, 1])
    calls(group)
    d.destroy_process_group(group)
    del group
threads = [threading.Thread(target=many, args=(int(sys.argv[1]) // 4,)) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
if os.fork() == 0:
    many(3)
    os._exit(0)
os.wait()
print(len(seen))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "TOPOSEAT_CACHE_DIR": str(tmp_path / "cache")}


def recorded(
    folder: Path, many: int, environment: dict[str, str]
) -> tuple[int, list[dict[str, Any]]]:
    """How many calls Python counted, and what the record says."""
    folder.mkdir()
    program, said = folder / "program.py", folder / "said"
    program.write_text(PROGRAM)
    with said.open("wb") as output:
        _, code = profile_run(
            [python_with_torch(), str(program), str(many)],
            directory=folder / "records",
            environment=environment,
            partial=True,  # the other rank of the world does not exist
            output=output,
        )
    assert code == 0
    (path,) = (folder / "records").glob("*.tpstorch")
    record = read_torch_record(path)
    assert record.lost == 0
    rows = [{each: getattr(row, each) for each in row.__struct_fields__} for row in record.calls]
    return int(said.read_text()), rows


@pytest.mark.slow
@pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch())
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_it_is_compiled_after_many_calls_and_then_records_the_same(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    counters = tmp_path / "cache" / "torch"
    recorded(tmp_path / "few", 4, environment)
    assert not counters.exists()
    in_python, expected = recorded(tmp_path / "many", WORTH_CALLS, environment)
    assert in_python == sum(row["calls"] for row in expected) > WORTH_CALLS
    (made,) = counters.glob("*.so")
    in_python, rows = recorded(tmp_path / "below", WORTH_CALLS, environment)
    assert in_python < 1000
    assert rows == expected
    made.chmod(0o755)
    counters.chmod(0o755)  # others may enter: what is in it is not loaded
    in_python, rows = recorded(tmp_path / "open", 4, environment)
    assert in_python == sum(row["calls"] for row in rows)


def test_another_torch_has_another_counter(tmp_path: Path) -> None:
    core = tmp_path / "torch" / "lib" / "libc10.so"
    core.parent.mkdir(parents=True)
    core.write_bytes(b"1")
    folder = str(tmp_path / "torch")
    names = {recorder.counter_name("2.14.1", folder), recorder.counter_name("2.14.2", folder)}
    core.write_bytes(b"22")
    names.add(recorder.counter_name("2.14.1", folder))
    assert len(names) == 3


def test_what_cannot_be_compiled_says_why_and_leaves_nothing(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    assert "No such file" in compile_counter("2.14.1", str(tmp_path / "none"), environment)
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    core = tmp_path / "torch" / "lib" / "libc10.so"
    core.parent.mkdir(parents=True)
    core.write_bytes(b"")
    why = compile_counter("2.14.1", str(tmp_path / "torch"), environment)
    assert "Dispatcher.h" in why
    assert not list((tmp_path / "cache" / "torch").glob("*.so"))
