"""A rank takes its own line, and only if the job is the one the placement was made for."""

import socket

import pytest

from tests.launcher.support import placement_text, seat_line

LIST = "CUDA_VISIBLE_DEVICES"
HERE = socket.gethostname()


def hydra(rank, size, local_rank, local_size=None):
    env = {"PMI_RANK": str(rank), "PMI_SIZE": str(size), "MPI_LOCALRANKID": str(local_rank)}
    return env if local_size is None else {**env, "MPI_LOCALNRANKS": str(local_size)}


TWO_HOSTS = placement_text(
    [
        seat_line(0, 3, host="elsewhere", local_rank=0),
        seat_line(1, 2, host=HERE, local_rank=0),
        seat_line(2, 0, host=HERE, local_rank=1),
    ],
    hosts=(HERE, "elsewhere"),
)


def test_the_seats_of_other_hosts_do_not_matter(launcher):
    for rank, local_rank in ((1, 0), (2, 1)):
        done = launcher.variables(TWO_HOSTS, env=hydra(rank, 3, local_rank, 2))
        assert done.variables[LIST] == "2,0"
        assert done.stderr == ""


def test_a_rank_on_another_host_than_placed_runs_unplaced_or_not_at_all(launcher):
    done = launcher.variables(TWO_HOSTS, env=hydra(0, 3, 0))
    assert LIST not in done.variables
    assert len(done.warnings) == 1
    assert f"rank 0: runs on host {HERE} and is placed on host elsewhere" in done.warnings[0]
    strict = launcher.run(
        *("-m", launcher.place(TWO_HOSTS), "--strict", "true"), env=hydra(0, 3, 0), check=False
    )
    assert strict.code == 98


@pytest.mark.parametrize("name", [f"{HERE}.cluster.example", HERE.upper()])
def test_a_host_is_known_with_its_domain_and_in_any_case(launcher, name):
    done = launcher.variables(placement_text([seat_line(0, 1, host=name)], hosts=(name,)))
    assert done.variables[LIST] == "1"


def test_the_launchers_name_of_the_node_counts(launcher):
    text = placement_text([seat_line(0, 1, host="n7")], hosts=("n7",))
    assert launcher.variables(text, env={"PMI_HOSTNAME": "n7"}).variables[LIST] == "1"
    # mpiexec passes on the batch node's SLURM_ variables: they say nothing about this node.
    assert LIST not in launcher.variables(text, env={"SLURMD_NODENAME": "n7"}).variables


def test_the_nodes_own_name_decides_where_the_launcher_calls_it_by_anothers(launcher):
    # Hydra's proxies that srun starts take their names from the host file, in another order.
    done = launcher.variables(TWO_HOSTS, env={**hydra(0, 3, 0), "PMI_HOSTNAME": "elsewhere"})
    assert LIST not in done.variables
    assert "is placed on host elsewhere" in done.warnings[0]


@pytest.mark.parametrize("size", ["1", "3", "16"])
def test_a_job_of_another_size_runs_unplaced(launcher, size):
    text = placement_text([seat_line(0, 2), seat_line(1, 0)])
    done = launcher.variables(text, env={"PMI_SIZE": size})
    assert LIST not in done.variables
    assert f"the placement is for 2 ranks and this is rank 0 of {size}" in done.warnings[0]


def torchrun(rank, size, local_rank):
    env = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": 2}
    return {name: str(value) for name, value in env.items()}


ELASTIC = ("--elastic", "--local-rank-env", "LOCAL_RANK")


def test_a_world_that_nodes_have_left_takes_the_seats_of_local_ranks(launcher):
    """Ranks 1 and 2 of the placement are ranks 0 and 1 of what is left."""
    for local_rank in (0, 1):
        env = torchrun(local_rank, 2, local_rank)
        done = launcher.variables(TWO_HOSTS, *ELASTIC, "--strict", env=env)
        assert done.variables[LIST] == "2,0"
        assert done.warnings == []
    assert "of 2" in launcher.variables(TWO_HOSTS, *ELASTIC[1:], env=torchrun(0, 2, 0)).warnings[0]


def test_a_whole_world_in_the_placements_order_is_nothing_to_speak_of(launcher):
    done = launcher.variables(TWO_HOSTS, *ELASTIC, env=torchrun(1, 3, 0))
    assert (done.variables[LIST], done.stderr) == ("2,0", "")


def test_a_whole_world_in_another_order_is_said_and_seated(launcher):
    done = launcher.variables(TWO_HOSTS, *ELASTIC, env=torchrun(0, 3, 0))
    assert done.variables[LIST] == "2,0"
    assert "rank 1 of the placement is rank 0 of this world" in done.warnings[0]


def test_a_node_that_the_placement_has_not_runs_unplaced(launcher):
    text = TWO_HOSTS.replace(f"\t{HERE}\t", "\tother\t")
    done = launcher.variables(text, *ELASTIC, env=torchrun(3, 4, 1))
    assert LIST not in done.variables
    assert f"no seat for local rank 1 of host {HERE}; started without" in done.warnings[0]


TWO = placement_text([seat_line(0, 2), seat_line(1, 0)])


@pytest.mark.parametrize("mode", ["permute", "cpu-only"])
def test_another_local_rank_than_placed_spoils_modes_that_count_by_it(launcher, mode):
    done = launcher.variables(TWO, "--visibility", mode, env=hydra(0, 2, 1))
    assert LIST not in done.variables
    assert "local rank 1 of this job is local rank 0 in the placement" in done.warnings[0]
    assert "started without placement" in done.warnings[0]


@pytest.mark.parametrize(("mode", "expected"), [("mask", "2"), ("rotate", "2,0,1,3")])
def test_another_local_rank_is_said_where_the_own_device_comes_first(launcher, mode, expected):
    done = launcher.variables(TWO, "--visibility", mode, env=hydra(0, 2, 1))
    assert done.variables[LIST] == expected
    assert len(done.warnings) == 1


def test_more_ranks_on_the_host_than_placed_is_said(launcher):
    done = launcher.variables(TWO, env=hydra(0, 2, 0, 1))
    assert "1 ranks run on host " in done.warnings[0]


def test_a_missing_or_damaged_placement_is_named_and_the_program_runs(launcher):
    done = launcher.run("-m", launcher.folder / "no.place", "echo", "ran")
    assert done.stdout == "ran\n"
    assert "no.place: No such file or directory; started without placement" in done.warnings[0]
    place = launcher.place(TWO.replace("\t0\t", "\tzero\t"))
    done = launcher.run("-m", place, "echo", "ran")
    assert done.stdout == "ran\n"
    assert f"{place}:5: local_rank must be a number" in done.warnings[0]
