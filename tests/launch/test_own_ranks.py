"""Programs that start their ranks themselves, as accelerate, deepspeed and vLLM do."""

import os
import re
import sys

import pytest

from tests.support.processes import executable
from tests.support.pytorch import python_with_torch, why_no_torch
from toposeat.launch import run_placed
from toposeat.model.runs import SeatVerdict

RANK = """
import os, sys
names = ("LOCAL_RANK", "RANK", "CUDA_VISIBLE_DEVICES", "TOPOSEAT_SEAT")
said = " ".join(f"{name}={os.environ.get(name, '')[:9]}" for name in names)
os.write(1, f"{said} {sys.argv[1:]}\\n".encode())
raise SystemExit(int(os.environ.get("RANK", 0)) == 3 and int(sys.argv[1]))
"""
# Children of another name and environment, behind a process that is no rank.
STARTER = f"""
import os, subprocess, sys
names, size, code = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
children = []
for rank in range(size):
    own = {{"LOCAL_RANK": str(rank), "RANK": str(rank), "WORLD_SIZE": str(size)}}
    env = {{**os.environ, **{{name: own[name] for name in names}}}}
    line = [sys.executable, "-c", {RANK!r}, code, "a word"]
    children.append(subprocess.Popen(line, env=env))
raise SystemExit(max([child.wait() for child in children]))
"""


def run(capfd, argv, placed, **options):
    record = run_placed([str(word) for word in argv], *placed, **options)
    out, err = capfd.readouterr()
    rows = [dict(re.findall(r"(\w+)=(\S*)", row)) for row in out.splitlines() if "RANK=" in row]
    return record, sorted(rows, key=lambda row: row["RANK"]), err


@pytest.fixture
def starter(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return executable(tmp_path / "starter", f"#!{sys.executable}\n{STARTER}")


def test_children_with_a_local_rank_are_seated(starter, place, capfd):
    argv = [starter, "LOCAL_RANK,RANK,WORLD_SIZE", "4", "0"]
    record, rows, _ = run(capfd, argv, place(4, bind=True))
    assert record.exit_code == 0
    assert [row["LOCAL_RANK"] for row in rows] == ["0", "1", "2", "3"]
    assert {row["CUDA_VISIBLE_DEVICES"] for row in rows} == {"3,2,1,0"}
    assert {row["TOPOSEAT_SEAT"] for row in rows} == {""}
    assert [seat.local_rank for seat in record.seats] == [0, 1, 2, 3]
    assert all("its report did not come" not in " ".join(s.differences) for s in record.seats)
    assert any("starts its ranks itself" in note for note in record.notes)


def test_each_child_sees_its_own_device_under_mask(starter, place, capfd):
    argv = [starter, "LOCAL_RANK,RANK,WORLD_SIZE", "4", "0"]
    _, rows, _ = run(capfd, argv, place(4), visibility="mask")
    assert [row["CUDA_VISIBLE_DEVICES"] for row in rows] == ["3", "2", "1", "0"]


def test_children_without_a_local_rank_get_the_list_and_are_not_judged(starter, place, capfd):
    record, rows, _ = run(capfd, [starter, "RANK", "4", "0"], place(4))
    assert {row["CUDA_VISIBLE_DEVICES"] for row in rows} == {"3,2,1,0"}
    assert {seat.verdict for seat in record.seats} == {SeatVerdict.NOT_CHECKED}


# Ranks that torch.multiprocessing starts; whether they are killed then is no matter to the program.
SPAWNED = """
import os, signal, socket, sys
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, size, port, end):
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    tasks = [int(name) for name in os.listdir("/proc/self/task")]
    cpus = {each for task in tasks for each in os.sched_getaffinity(task)}
    said = f"RANK={rank} CPUS={cpus} MORE={len(tasks) > 1} SEAT={os.environ.get('TOPOSEAT_SEAT')}"
    os.write(1, f"{said}\\n".encode())
    dist.barrier()
    if end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    dist.destroy_process_group()

if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    method, end = sys.argv[1:]
    context = mp.get_context(method)
    ranks = [context.Process(target=work, args=(rank, 2, port, end)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
"""


@pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process may use one CPU only")
@pytest.mark.parametrize("end", ["killed", "well"])
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_ranks_of_pytorch_are_seated_when_they_join_their_group(
    *, method, end, tmp_path, place, capfd, monkeypatch
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "train.py").write_text(SPAWNED)
    placed = place(2, bind=True)
    argv = [python_with_torch(), tmp_path / "train.py", method, end]
    record, rows, _ = run(capfd, argv, placed)
    assert record.exit_code == 0
    for seat, planned, row in zip(record.seats, placed[0].seats, rows, strict=True):
        assert (seat.cpus, seat.visible_devices) == (planned.cpus, "3,2")
        assert (row["CPUS"], row["MORE"], row["SEAT"]) == (f"{{{planned.cpus}}}", "True", "None")
        assert seat.used_device is (None if end == "killed" else False)
    assert record.verdict is (SeatVerdict.NOT_CHECKED if end == "killed" else SeatVerdict.AS_PLACED)
    cause = "the rank was killed later" if end == "killed" else "the program loaded no CUDA driver"
    assert cause in record.seats[1].differences[0]


def test_a_list_of_the_users_is_left_to_the_ranks(*, starter, place, capfd, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    record, _, _ = run(capfd, [starter, "RANK", "4", "0"], place(4), dry_run=True)
    assert not any(word.startswith("CUDA_VISIBLE") for word in record.launched)


def test_exit_code_of_a_child(starter, place, capfd):
    argv = [starter, "LOCAL_RANK,RANK,WORLD_SIZE", "4", "7"]
    assert run(capfd, argv, place(4))[0].exit_code == 7


def test_shells_may_start_ranks(starter, place, capfd):
    line = f"{starter} LOCAL_RANK,RANK,WORLD_SIZE 4 0"
    record, rows, _ = run(capfd, ["sh", "-c", line], place(4))
    assert (record.exit_code, len(rows)) == (0, 4)
    assert os.environ.get("TOPOSEAT_SEAT") is None
