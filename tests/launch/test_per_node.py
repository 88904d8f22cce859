"""The line that starts one process on every node of a job (tests/cluster runs them)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from toposeat.launch.launchers.launcher import LauncherKind
from toposeat.launch.line import parse_launch_line
from toposeat.launch.per_node import per_node_line

IN_JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "4", "SLURM_HOSTFILE": "order"}


def line_of(
    kind: LauncherKind, text: str, environment: Mapping[str, str] | None = None
) -> str | None:
    line = parse_launch_line(text.split(), identify=lambda _: kind)
    found = per_node_line(line, ["./one"], environment or {})
    return None if found is None else " ".join(found.argv)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (
            LauncherKind.OPENMPI,
            "mpirun -np 8 -H a:4,b:4 --map-by core --mca rmaps_x y --mca plm_rsh_agent ssh ./app",
            "mpirun -H a:4,b:4 --mca plm_rsh_agent ssh --map-by ppr:1:node --bind-to none ./one",
        ),
        (
            LauncherKind.MPICH,
            "mpiexec -n 8 -hosts a:4,b:4 -ppn 4 -bind-to core -launcher ssh -rankmap (v,0) ./app",
            "mpiexec -hosts a:4,b:4 -launcher ssh -ppn 1 -n 2 ./one",
        ),
        (
            LauncherKind.INTEL,
            "mpiexec -n 8 -f /no/such/file ./app",
            "mpiexec -f /no/such/file -ppn 1 ./one",
        ),
        (LauncherKind.NONE, "./app", None),
        (LauncherKind.FLUX, "flux run -n 4 ./app", None),
    ],
)
def test_hosts_are_kept_and_places_are_not(
    kind: LauncherKind, text: str, expected: str | None
) -> None:
    assert line_of(kind, text) == expected


def test_hydra_is_told_the_hosts_of_a_job() -> None:
    """Without the scheduler's part it would stay on its own host."""
    job = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_TASKS_PER_NODE": "4(x3)"}
    expected = "mpiexec -ppn 1 -hosts n1,n2,n3 -n 3 ./one"
    assert line_of(LauncherKind.MPICH, "mpiexec -n 12 ./app", job) == expected


@pytest.mark.parametrize(
    ("kind", "words", "stays"),
    [
        (LauncherKind.OPENMPI, "mpirun -n 8 ./app", True),  # which starts nothing without it
        (LauncherKind.MPICH, "mpiexec -n 8 ./app", False),
        (LauncherKind.SRUN, "srun -n 8 ./app", False),
    ],
)
def test_where_ranks_go_is_not_where_one_process_per_node_goes(
    kind: LauncherKind, words: str, stays: bool
) -> None:
    job = {**IN_JOB, "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_TASKS_PER_NODE": "2(x4)"}
    line = parse_launch_line(words.split(), identify=lambda _: kind)
    found = per_node_line(line, ["./one"], job)
    assert found is not None
    assert ("SLURM_TASKS_PER_NODE" in found.environment) == stays
    assert "SLURM_HOSTFILE" not in found.environment


def test_srun_needs_an_allocation_that_lasts() -> None:
    text = "srun -N2 -n 8 --cpu-bind=cores -m arbitrary --mpi=pmix ./app"
    assert line_of(LauncherKind.SRUN, text) is None
    expected = "srun --overlap --mpi=none --cpu-bind=none -N 4 -n 4 --ntasks-per-node=1 ./one"
    assert line_of(LauncherKind.SRUN, text, IN_JOB) == expected
    line = parse_launch_line(text.split(), identify=lambda _: LauncherKind.SRUN)
    found = per_node_line(line, ["./one"], IN_JOB)
    assert found is not None
    assert "SLURM_HOSTFILE" not in found.environment


def step_of(text: str, environment: Mapping[str, str] | None = None) -> str | None:
    """The line of `srun` with the devices of the job."""
    line = parse_launch_line(text.split(), identify=lambda _: LauncherKind.SRUN)
    found = per_node_line(line, ["./one"], environment or {}, as_job=True)
    return None if found is None else " ".join(found.argv)


@pytest.mark.parametrize(
    ("job", "step"),
    [
        ("srun -N4 -n16 ./app", "srun -N4 --mpi=none"),
        (
            "srun -p a --exclusive=user -N 2 -c 8 -m cyclic ./app",
            "srun -p a --exclusive=user -N 2 --mpi=none",
        ),
        (
            "srun -N2 --gres=gpu:2 --cpu-bind=cores ./app",
            "srun -N2 --mpi=none --gres=gpu:2",
        ),
        ("srun -N2 -n8 --gpus-per-task=1 ./app", "srun -N2 --mpi=none --gpus-per-node=4"),
        ("srun -w n[1-2] -N2 -o out -K ./app", "srun -w n[1-2] -N2 --mpi=none"),
    ],
)
def test_srun_asks_for_an_allocation_like_that_of_the_job(job: str, step: str) -> None:
    assert step_of(job) == f"{step} --ntasks-per-node=1 ./one"


def test_srun_has_to_say_on_how_many_nodes() -> None:
    assert step_of("srun -n16 ./app") is None


def test_devices_of_the_job_inside_its_allocation() -> None:
    found = step_of("srun -N2 -n8 -p gpu --gpus-per-node=2 ./app", IN_JOB)
    words = "srun --overlap --mpi=none -N 4 -n 4 --gpus-per-node=2 --ntasks-per-node=1 ./one"
    assert found == words
