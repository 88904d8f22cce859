"""GPUs that Slurm shows a task: a plan is refused where its ranks would not see theirs."""

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.processes import executable, ran
from tests.support.tables import rows
from toposeat.launch import LauncherKind, parse_launch_line, refusal_of

CASE = Path(__file__).parents[3] / "shared" / "cases" / "ml" / "07-ignite-3259.place"
LINES = Path(__file__).with_name("lines.txt")
TYPE = "type: toposeat run -p PLACE -- "


def refusal(placement, text, **variables):
    """Cause and hint; two empty texts where the line is realised."""
    kinds = {"srun": LauncherKind.SRUN, "torchrun": LauncherKind.TORCHRUN}
    line = parse_launch_line(
        shlex.split(text), identify=lambda name: kinds.get(name, LauncherKind.NONE)
    )
    found = refusal_of(line, placement, variables)
    return (found.message, found.hint) if found else ("", "")


@pytest.mark.parametrize(("text", "cause"), rows(LINES, "gpus too few"))
def test_tasks_that_see_too_few(text, cause, place):
    message, hint = refusal(place(4)[0], text)
    assert cause in message
    program = text.split()[-2:] if "torchrun" in text else text.split()[-1:]
    assert hint.endswith(shlex.join(["srun", "--gpus-per-node=4", "-n", "4", *program]))


@pytest.mark.parametrize("text", [text for (text,) in rows(LINES, "gpus enough")])
def test_tasks_that_see_what_they_need(text, place):
    assert refusal(place(4)[0], text) == ("", "")


def test_a_job_that_was_asked_for_so(place):
    """By variables, as in a job of `sbatch --gpus-per-task=1`: imitated, the bed has no cgroups."""
    placement = place(4)[0]
    message, hint = refusal(placement, "srun -n 4 ./app", SLURM_GPUS_PER_TASK="1")
    assert "SLURM_GPUS_PER_TASK=1: each task then sees 1 of the 4 GPUs" in message
    typed = "env -u SLURM_GPUS_PER_TASK srun --gpus-per-node=4 -n 4 ./app"
    assert hint == TYPE + typed
    assert refusal(placement, typed, SLURM_GPUS_PER_TASK="1") == ("", "")
    assert refusal(placement, "srun -n 4 ./app", SLURM_GPU_BIND="none") == ("", "")
    assert (
        "SLURM_GPU_BIND=single:1" in refusal(placement, "srun ./app", SLURM_GPU_BIND="single:1")[0]
    )


def test_ranks_that_choose_their_devices_may_see_any(place):
    chosen = replace(place(4)[0], metadata={"visibility": "cpu-only"})
    assert refusal(chosen, "srun -n 4 --gpus-per-task=1 ./app") == ("", "")


def test_the_published_case(tmp_path):
    if not CASE.is_file():
        pytest.skip("no shared cases here")
    executable(tmp_path / "srun", "#!/bin/sh\n")
    toposeat = Path(sys.executable).with_name("toposeat")
    line = ["srun", "--mpi=pmix", "-N2", "-n8", "--gpus-per-task=1", sys.executable]
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = ran([toposeat, "run", "-p", CASE, "--", *line], env=environment)
    assert done.returncode == 1, done.stderr
    assert "--gpus-per-task=1: each task then sees 1 of the 4 GPUs" in done.stderr
    assert "srun --gpus-per-node=4 --mpi=pmix -N2 -n8" in done.stderr
