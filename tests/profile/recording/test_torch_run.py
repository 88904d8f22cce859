"""`profile_run` of real PyTorch jobs under torchrun: every byte by hand, exit codes, deaths."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran
from tests.support.pytorch import PROGRAM, python_with_torch, torchrun, why_no_torch
from tests.support.torch_bytes import MOVED, RANKS, differences, given, pairs
from toposeat.errors import ToposeatError, UsageError
from toposeat.launch import python_hook
from toposeat.model.traffic import MemorySpace
from toposeat.profile import (
    NothingRecordedError,
    Recording,
    merge_records,
    pattern_traffic,
    profile_line,
    profile_run,
)
from toposeat.profile.recording import recorders

needs_torch = pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch())
STEPS = 3
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
HOOK = Path(python_hook.__file__).parent


def recorded(case, *, code=0, steps=STEPS):
    traffic, found = profile_run(torchrun(PROGRAM, case, str(steps)), environment=ENVIRONMENT)
    assert found == code
    return traffic


@needs_torch
@pytest.mark.parametrize("case", MOVED)
def test_bytes_by_formula(case):
    live = recorded(case)
    assert not differences(case, STEPS, live)
    assert {space for _, space in live.tables} == {MemorySpace.HOST}
    assert live.metadata["exit_code"] == "0"
    assert "torch.distributed.run" in live.metadata["command"]
    assert [info.local_rank for info in live.rank_info] == list(range(RANKS))
    assert all(info.finalized for info in live.rank_info)


@pytest.mark.parametrize("case", [case for case, moved in MOVED.items() if moved.pattern])
def test_patterns_by_name_move_what_the_formulas_say(case):
    named = pattern_traffic(MOVED[case].pattern).table().dense_bytes(RANKS)
    assert (named == pairs(case, steps=1)).all()


@needs_torch
def test_roots_and_groups_by_world_rank():
    traffic = recorded("rooted")
    world, odd = tuple(range(RANKS)), (1, 3)
    roots = {
        (event.operation, event.root, event.bytes)
        for event in traffic.collectives
        if event.root >= 0
    }
    assert roots == {
        ("bcast", 2, 10),
        ("reduce", 1, 10),
        ("gather", 3, 10),
        ("scatter", 0, 10),
        ("bcast", 3, 14),
    }
    members = {each.ranks for each in traffic.communicators}
    assert world in members
    assert members - {world} == {odd}
    assert given(traffic)["allgather", world, 2] == STEPS * 10


@needs_torch
def test_record_of_a_killed_rank(tmp_path):
    kept = tmp_path / "kept"
    argv = torchrun(PROGRAM, "killed", str(STEPS))
    traffic, code = profile_run(argv, environment=ENVIRONMENT, directory=kept)
    assert code == 1
    assert not traffic.rank_info[1].finalized
    assert given(traffic)["allreduce", tuple(range(RANKS)), 1] == STEPS * 2000
    next(kept.glob("rank-2-*")).unlink()
    with pytest.raises(Exception, match=r"1 of 4 ranks have no record: rank 2"):
        merge_records(kept)
    assert merge_records(kept, partial=True).ranks == RANKS


@needs_torch
def test_exit_code_is_torchruns():
    argv = torchrun(PROGRAM, "failed", "3", ranks=2)
    plain = subprocess.run(argv, env=ENVIRONMENT, capture_output=True, check=False).returncode
    assert profile_run(argv, environment=ENVIRONMENT)[1] == plain != 0


@needs_torch
def test_signals_reach_the_job(tmp_path):
    kept = tmp_path / "kept"
    argv = torchrun(PROGRAM, "waiting", "2", ranks=2)
    start = "from toposeat.cli.main import entry; entry()"
    profile = [sys.executable, "-c", start, "profile", "--keep-records", str(kept)]
    codes = []
    for line in (argv, [*profile, "-o", str(tmp_path / "a.prof"), "--", *argv]):
        with subprocess.Popen(line, env=ENVIRONMENT, stdout=subprocess.PIPE) as job:
            assert job.stdout is not None
            assert job.stdout.readline() == b"waiting\n"
            job.send_signal(signal.SIGTERM)
            codes.append(job.wait(60))
    assert codes[0] != 0
    assert codes[1] in (codes[0], 128 - codes[0])
    assert given(merge_records(kept))["allreduce", (0, 1), 1] == 2 * 4


@needs_torch
def test_python_alone_is_recorded_too():
    text = (
        "import torch.distributed as d; import torch;"
        "d.init_process_group('gloo', init_method='tcp://127.0.0.1:0', rank=0, world_size=1);"
        "d.all_reduce(torch.ones(4)); d.destroy_process_group(); raise SystemExit(9)"
    )
    traffic, code = profile_run([python_with_torch(), "-c", text], environment=ENVIRONMENT)
    assert code == 9
    assert given(traffic) == {("allreduce", (0,), 0): 16}


def test_own_sitecustomize_runs_as_if_there_were_no_other(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('mine', __name__)\n")
    text = "import sys, sitecustomize; print(sitecustomize.__file__); print(sys.path)"
    path = os.pathsep.join((str(HOOK), str(own)))
    env = {**os.environ, "PYTHONPATH": path, "TOPOSEAT_PROFILE_DIR": str(tmp_path)}
    done = ran([sys.executable, "-c", text], env=env, check=True)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["mine sitecustomize", str(own / "sitecustomize.py")]
    assert str(own) in lines[2]
    assert str(HOOK) not in lines[2]
    assert done.stderr == ""


def test_errors_of_own_sitecustomize_are_told_by_python(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import no_such_module\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(HOOK), str(tmp_path)))}
    done = ran([sys.executable, "-c", "print('went on')"], env=env, check=True)  # fmt: skip
    assert done.stdout == "went on\n"
    assert "no_such_module" in done.stderr


@pytest.fixture
def without_mpi(monkeypatch):
    def none(*arguments):
        raise ToposeatError("cannot tell which MPI")

    monkeypatch.setattr(recorders, "choose_library", none)


@pytest.mark.usefixtures("without_mpi")
def test_why_nothing_was_recorded(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print('no groups')")
    with pytest.raises(NothingRecordedError, match=r"python.* -I .*keeps the recorder out"):
        profile_run([sys.executable, "-I", str(script)])
    with pytest.raises(NothingRecordedError, match="made no process group"):
        profile_run([sys.executable, str(script)])
    with pytest.raises(ToposeatError, match="cannot tell which MPI"):
        profile_run(["true"])


@pytest.mark.usefixtures("without_mpi")
def test_phases_need_mpi():
    with pytest.raises(UsageError, match="phases are told by MPI calls"):
        profile_run([sys.executable, "-c", ""], recording=Recording(phases=1.0))


@pytest.mark.usefixtures("without_mpi")
def test_line_that_would_run():
    argv = ["torchrun", "--nproc-per-node", "4", "train.py"]
    line = profile_line(argv)
    assert line[0] == "env"
    assert line[-len(argv) :] == argv
    assert f"PYTHONPATH={HOOK}" in " ".join(line)
