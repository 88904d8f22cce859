"""A plan for nodes that are taken, from a login node of a real Slurm with two leaf switches."""

import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.cluster.test_realise import plan
from tests.support.cluster import LOGIN, toposeat
from toposeat.model.placement_file import save_placement

TELL = ["sh", "-c", "echo rank=${PMI_RANK:-$SLURM_PROCID} host=$(hostname)"]


@contextmanager
def taken(cluster, node):
    """A node that another job has."""
    job = cluster.start(LOGIN, ["srun", "-w", node, "--exclusive", "sleep", "60"])
    try:
        for _ in range(100):
            state = cluster.on(LOGIN, ["sinfo", "-h", "-n", node, "-o", "%T"]).stdout.strip()
            if state == "allocated":
                break
            time.sleep(0.1)
        yield
    finally:
        cluster.on(LOGIN, ["scancel", "--user=root"])
        job.communicate(timeout=30)
        for _ in range(100):
            if cluster.on(LOGIN, ["sinfo", "-h", "-t", "idle", "-o", "%D"]).stdout.strip() == "4":
                break
            time.sleep(0.1)


def two_nodes(names):
    """Four ranks on each of two nodes in turn, CPUs left alone."""
    found = plan((0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3))
    halves = found.seats[:4], found.seats[4:8]
    seats = [halves[rank % 2][rank // 2] for rank in range(8)]
    return replace(
        found,
        seats=tuple(
            replace(seat, rank=rank, host=names[rank % 2], cpus=None)
            for rank, seat in enumerate(seats)
        ),
        devices_of_host=dict(
            zip(names, (found.devices_of_host["tb1"], found.devices_of_host["tb2"]), strict=True)
        ),
    )


def run(cluster, place, *options, launcher=("srun", "-n8")):
    words = [toposeat(), "run", *options, "-p", place, "--", *launcher, *TELL]
    return cluster.on(LOGIN, words, environment=cluster.emulated("polaris-4"))


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        (("tb1", "tb2"), ("tb3", "tb4")),  # both below the other leaf
        (("tb1", "tb3"), ("tb2", "tb3")),  # the neighbour takes the place
    ],
)
def test_idle_nodes_in_the_same_places_are_taken(cluster, tmp_path, planned, expected):
    path = cluster.share / f"{tmp_path.name}.place"
    save_placement(two_nodes(planned), path)
    with taken(cluster, "tb1"):
        done = run(cluster, path)
        assert done.returncode == 0, done.stderr
        assert "in the same places of the network" in done.stderr
        dry = run(cluster, path, "--dry-run")
    hosts = {line.split()[0]: line.split("host=")[1] for line in done.stdout.splitlines()}
    assert hosts == {f"rank={rank}": expected[rank % 2] for rank in range(8)}
    assert f"\n{expected[0]}\n" in dry.stdout


def test_nodes_that_are_idle_are_kept(cluster, tmp_path):
    path = cluster.share / f"{tmp_path.name}.place"
    save_placement(two_nodes(("tb2", "tb3")), path)
    done = run(cluster, path)
    assert done.returncode == 0, done.stderr
    assert "same places" not in done.stderr
    assert {line.split("host=")[1] for line in done.stdout.splitlines()} == {"tb2", "tb3"}


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
@pytest.mark.parametrize(("named", "fits"), [("tb3:4,tb4:4", True), ("tb2:4,tb3:4", False)])
def test_hosts_that_the_line_names_must_lie_as_the_planned_ones(
    cluster, mpi, tmp_path, named, fits
):
    path = cluster.share / f"{tmp_path.name}.place"
    save_placement(two_nodes(("tb1", "tb2")), path)
    done = run(cluster, path, launcher=(str(mpi.mpirun), "-n", "8", "-hosts", named))
    assert (done.returncode == 0) == fits, done.stderr
    if fits:
        assert "tb3 for tb1, tb4 for tb2" in done.stderr
        hosts = {line.split()[0]: line.split("host=")[1] for line in done.stdout.splitlines()}
        assert hosts == {f"rank={rank}": ("tb3", "tb4")[rank % 2] for rank in range(8)}
    else:
        assert "the placement is for tb[1-2]" in done.stderr
