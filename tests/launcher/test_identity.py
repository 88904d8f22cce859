"""Rank, local rank and sizes from the variables of every launcher."""

import subprocess
import uuid
from pathlib import Path

import pytest

from tests.launcher.support import placement_text, seat_line
from tests.support.processes import LONGEST_S
from tests.support.tables import rows, variables

LAUNCHERS = {
    name: variables(said)
    for name, said in rows(Path(__file__).with_name("launchers.txt"), "launchers")
}
TWO = placement_text([seat_line(0, 3), seat_line(1, 1)])


def identity(launcher, env, *options, text=TWO):
    folder = launcher.folder / "report"
    folder.mkdir(exist_ok=True)
    done = launcher.run("-m", launcher.place(text), "--report", folder, *options, "true", env=env)
    rank = next(folder.glob("*.seat")).stem.removeprefix("rank-")
    report = done.report(folder, int(rank))
    assert done.warnings == [], done.stderr
    keys = ("launcher", "rank", "size", "local_rank", "local_size")
    return [report[key][0] for key in keys]


@pytest.mark.parametrize("name", LAUNCHERS)
def test_every_launcher_is_understood(launcher, name):
    family = name.split(maxsplit=1)[0]
    assert identity(launcher, LAUNCHERS[name]) == [family, "1", "2", "1", "2"]


@pytest.mark.parametrize("name", [name for name in LAUNCHERS if name != "slurm"])
def test_the_variables_of_a_batch_script_lose_against_any_launcher(launcher, name):
    batch = {
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NTASKS": "16",
        "SLURM_NODEID": "0",
        "SLURM_TASKS_PER_NODE": "16",
    }
    assert identity(launcher, {**batch, **LAUNCHERS[name]})[1:] == ["1", "2", "1", "2"]


def test_mpirun_wins_over_a_torchrun_around_it_unless_told_otherwise(launcher):
    env = {**LAUNCHERS["openmpi"], **dict.fromkeys(("RANK", "LOCAL_RANK"), "0"), "WORLD_SIZE": "2"}
    assert identity(launcher, env)[:4] == ["openmpi", "1", "2", "1"]
    (launcher.folder / "report" / "rank-1.seat").unlink()
    told = identity(launcher, env, "--local-rank-env", "LOCAL_RANK")
    assert told[:4] == ["torchrun", "0", "2", "0"]


def test_a_local_rank_variable_of_ones_own(launcher):
    env = {"MY_LOCAL": "1", "PMIX_RANK": "1"}
    assert identity(launcher, env, "--local-rank-env", "MY_LOCAL")[1:4] == ["1", "-1", "1"]


def test_a_local_rank_alone_leads_to_the_seat_of_this_host(launcher):
    assert identity(launcher, {"MPI_LOCALRANKID": "1"})[1] == "1"


def test_a_local_rank_variable_that_is_not_set_is_said(launcher):
    place = launcher.place(TWO)
    done = launcher.run(
        "-m", place, "--local-rank-env", "NOPE", "echo", "ran", env=LAUNCHERS["torchrun"]
    )
    assert done.stdout == "ran\n"
    assert "--local-rank-env: NOPE is not set" in done.warnings[0]


@pytest.mark.parametrize(
    ("tasks", "node", "size"),
    [("2(x3),1", 0, 2), ("2(x3),1", 2, 2), ("2(x3),1", 3, 1), ("4", 0, 4), ("1,3(x2)", 2, 3)],
)
def test_slurms_list_of_tasks_per_node(launcher, tasks, node, size):
    seats = [seat_line(0, 0)] + [seat_line(i, i) for i in range(1, size)]
    env = {
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_NODEID": str(node),
        "SLURM_STEP_TASKS_PER_NODE": tasks,
    }
    assert identity(launcher, env, text=placement_text(seats))[4] == str(size)


@pytest.mark.parametrize("tasks", ["2(x", "2(x3", "2(3)", "x", "2,", "99999999999(x2)", "2(x3),1"])
def test_a_list_that_does_not_tell_is_not_guessed_at(launcher, tasks):
    env = {
        "SLURM_PROCID": "1",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "4",
        "SLURM_STEP_TASKS_PER_NODE": tasks,
    }
    assert identity(launcher, env)[4] == "-1"


def test_a_rank_that_is_no_number_is_said_and_the_program_runs_unplaced(launcher):
    done = launcher.variables(TWO, env={"PMI_RANK": "one", "MPI_LOCALRANKID": "x"})
    assert "CUDA_VISIBLE_DEVICES" not in done.variables
    assert any("MPI_LOCALRANKID is not a number: 'x'" in line for line in done.warnings)


def test_without_a_launcher_a_placement_of_one_rank_applies(launcher):
    text = placement_text([seat_line(0, 3)])
    done = launcher.run("-m", launcher.place(text), "env", "-0")
    assert done.variables["CUDA_VISIBLE_DEVICES"] == "3"
    assert done.stderr == ""


def test_without_a_launcher_a_placement_of_two_ranks_does_not_apply(launcher):
    done = launcher.run("-m", launcher.place(TWO), "env", "-0")
    assert "CUDA_VISIBLE_DEVICES" not in done.variables
    assert len(done.warnings) == 1
    assert "states the rank (of 2 in the placement)" in done.warnings[0]


# ---- rendezvous: global ranks known, local ranks not ----


def meet(launcher, ranks, text, job):
    place = launcher.place(text)
    children = [
        subprocess.Popen(
            [launcher.program, "-m", place, "sh", "-c", "echo $PMIX_RANK $CUDA_VISIBLE_DEVICES"],
            env={"PATH": "/usr/bin:/bin", "PMIX_RANK": str(rank), "PMIX_NAMESPACE": job},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in ranks
    ]
    return sorted(child.communicate(timeout=LONGEST_S)[0].strip() for child in children)


def shared_files():
    return set(Path("/dev/shm").glob("toposeat-*"))


@pytest.mark.alone
def test_ranks_without_a_local_rank_meet_in_shared_memory(launcher):
    before = shared_files()
    text = placement_text([seat_line(i, 3 - i) for i in range(4)])
    job = f"job-{uuid.uuid4()}"
    for _ in range(2):  # the second job of the same name must not trip over the first
        found = meet(launcher, [3, 1, 0, 2], text, job)
        assert found == [f"{rank} 3,2,1,0" for rank in range(4)]
    assert shared_files() == before


def test_a_rendezvous_shows_that_ranks_are_dealt_otherwise(launcher):
    # Ranks 0 and 2 are placed on this node with local ranks 1 and 0, which no launcher does.
    text = placement_text(
        [
            seat_line(0, 0, local_rank=1),
            seat_line(1, 0, host="elsewhere"),
            seat_line(2, 1, local_rank=0),
        ],
        hosts=("*", "elsewhere"),
    )
    found = meet(launcher, [0, 2], text, f"job-{uuid.uuid4()}")
    assert all("in the placement; started without placement" in each for each in found)
