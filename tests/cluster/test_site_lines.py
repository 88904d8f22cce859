"""Lines as sites type them, on a real Slurm: wrappers, arrays, srun below srun, GPUs by task."""

import sys
from pathlib import Path

import pytest

from tests.support.cluster import LOGIN, toposeat
from tests.support.interposed import compile_text

ALL_CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
CASES = ALL_CASES / "ml"
JOB = ["-w", "tb1,tb2", "-N2"]


@pytest.fixture
def folder(cluster, tmp_path):
    """A shared folder with a placement, 0 on tb2 and 1 on tb1, and a program that says where."""
    own = cluster.share / tmp_path.name
    own.mkdir()
    (own / "p.place").write_text((CASES / "11-slurm-master-addr.place").read_text())
    program = own / "tell"
    program.write_text("#!/bin/sh\necho rank $SLURM_PROCID $(hostname) $A\n")
    program.chmod(0o755)
    return own


def told(text):
    return sorted(line.strip() for line in text.splitlines() if line.startswith("rank "))


@pytest.mark.parametrize(
    "line",
    [
        "nohup srun -w tb1,tb2 -N2 -n2 env A=x nice ./tell",
        "bash -c 'cd . && srun -w tb1,tb2 -N2 -n2 sh -c \"A=x ./tell\"'",
    ],
)
def test_wrapped_lines_are_placed(line, cluster, folder):
    words = ["sh", "-c", f"{toposeat()} run -p p.place {line}"]
    done = cluster.on(LOGIN, words, environment=cluster.emulated("polaris-4"), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert told(done.stdout) == ["rank 0 tb2 x", "rank 1 tb1 x"]


def test_a_srun_below_one_task_of_srun(cluster, folder):
    line = "srun -N1 -n1 srun --overlap -N2 -n2 ./tell"
    words = ["salloc", *JOB, "-n4", "--overcommit", toposeat(), "run", "-p", "p.place"]
    done = cluster.on(
        LOGIN, [*words, *line.split()], environment=cluster.emulated("polaris-4"), cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert told(done.stdout) == ["rank 0 tb2", "rank 1 tb1"]


def test_each_task_of_an_array_is_placed(cluster, folder):
    run = f"{toposeat()} run -p p.place srun -N2 -n2 ./tell > out.$SLURM_ARRAY_TASK_ID"
    (folder / "job.sh").write_text(f"#!/bin/sh\n{run}\n")
    words = ["--array=0-1", *JOB, "job.sh"]
    done = cluster.batch(words, environment=cluster.emulated("polaris-4"), cwd=folder)
    logs = "".join(path.read_text() for path in folder.glob("slurm-*"))
    assert done.returncode == 0, (done.stderr, logs)
    for task in (0, 1):
        assert told((folder / f"out.{task}").read_text()) == ["rank 0 tb2", "rank 1 tb1"]


def test_gpus_by_task_are_refused_before_any_rank(cluster, folder):
    (folder / "tell").write_text("#!/bin/sh\ntouch started\n")
    line = "srun --mpi=none -N2 -n8 --gpus-per-task=1 ./tell"
    words = [toposeat(), "run", "-p", str(CASES / "07-ignite-3259.place"), "--", *line.split()]
    done = cluster.on(LOGIN, words, environment=cluster.emulated("polaris-4"), cwd=folder)
    assert done.returncode == 1
    assert "--gpus-per-task=1: each task then sees 1 of the 4 GPUs" in done.stderr
    assert "type: toposeat run -p PLACE -- srun --gpus-per-node=4" in done.stderr
    assert not (folder / "started").exists()
    typed = done.stderr.partition("PLACE -- ")[2].split()
    done = cluster.on(
        LOGIN, [*words[:5], *typed], environment=cluster.emulated("polaris-4"), cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "started").exists()


@pytest.mark.parametrize("starter", ["mpirun", "srun"])
@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_input_and_signals_reach_the_ranks_of_a_profiled_job(cluster, mpi, starter, folder):
    """As they do bare: only mpirun of Open MPI 5 ends no input on another node, there neither."""
    cases = ALL_CASES / "launch"
    names = {"05-stdin-input": "read_deck", "17-signals": "sig"}
    deck, sig = (
        compile_text(mpi, name, (cases / case / f"{name}.c").read_text(), folder)
        for case, name in names.items()
    )
    line = [mpi.mpirun] if starter == "mpirun" else ["srun", "--mpi=pmi2", "-N4"]
    job = [toposeat(), "profile", "-f", "-o", "x.prof", "--", *line, "-n", "4"]
    inside = ["salloc", "-N4", "--ntasks-per-node=1"]
    feed = ["sh", "-c", f'"$@" < {cases}/05-stdin-input/deck', "sh"]
    done = cluster.on(LOGIN, [*inside, *feed, *job, deck], environment=mpi.env, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": 3 lines") == 4
    warned = [sys.executable, cases / "17-signals/try.py", "SIGUSR1", *job, sig]
    done = cluster.on(LOGIN, [*inside, *warned], environment=mpi.env, cwd=folder)
    assert "rc 0 | ranks that got a signal: " in done.stdout, done.stdout + done.stderr
