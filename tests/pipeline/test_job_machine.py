"""The machine of a job, without starting anything on its nodes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from toposeat import topology
from toposeat.errors import InputError, UnavailableError, UsageError
from toposeat.launch.launch_line import LaunchLine, parse_launch_line
from toposeat.launch.launchers import LauncherKind
from toposeat.pipeline.job_machine import JobMachine, MachineSource, machine_of_job
from toposeat.pipeline.node_discovery import nodes_of_answers
from toposeat.topology.topology_file import topology_text


@pytest.fixture
def network(tmp_path: Path) -> str:
    path = tmp_path / "topology.conf"
    path.write_text(
        "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=top Switches=a,b\n"
    )
    return f"slurm:{path}"


def line(text: str, kind: LauncherKind = LauncherKind.OPENMPI) -> LaunchLine:
    return parse_launch_line(shlex.split(text), identify=lambda _: kind)


def found(launch: LaunchLine, source: MachineSource, **environment: str) -> JobMachine:
    return machine_of_job(launch, source, environment, lambda _: None)


def test_hosts_of_the_line_and_a_node_of_a_file(network: str) -> None:
    source = MachineSource(topology=network, node="polaris-4")
    job = found(line("mpirun --host n2:4,n3:4 -n 8 ./app"), source)
    assert job.topology.hosts == ("n2", "n3")
    assert job.devices is None
    assert job.words == (
        "Topology  2 nodes, 2 leaf switches (Slurm topology.conf), 8 devices",
        "          n[2-3]: 4 x NVIDIA A100-SXM4-40GB",
    )


def test_as_many_devices_as_the_line_has_ranks_on_a_node(network: str) -> None:
    source = MachineSource(topology=network, node="polaris-4", hosts="n[1-4]")
    job = found(line("srun -N2 -n5 ./app", LauncherKind.SRUN), source)
    assert job.topology.hosts == ("n1", "n2")
    assert job.devices == (0, 1, 2, 4, 5)
    all_of_them = found(line("srun -N4 -n16 ./app", LauncherKind.SRUN), source)
    assert all_of_them.devices is None


def test_places_of_hosts_limit_devices(network: str) -> None:
    source = MachineSource(topology=network, node="polaris-4")
    job = found(line("mpirun --host n1:2,n4:3 -n 5 ./app"), source)
    assert job.devices == (0, 1, 4, 5, 6)
    with pytest.raises(InputError, match=r"--host leaves places for 5 of 7 ranks on 8 devices"):
        found(line("mpirun --host n1:2,n4:3 -n 7 ./app"), source)
    free = found(line("mpirun --oversubscribe --host n1:2,n4:3 -n 7 ./app"), source)
    assert free.devices is None


def test_one_node(network: str) -> None:
    job = found(line("mpirun --host n1:4,n2:4 -n 4 ./app"), MachineSource(topology="power9-4"))
    assert job.words == ("Topology  power9-4, 4 devices (catalogue)",)
    with pytest.raises(UsageError, match="--node and --hosts need a network"):
        found(line("mpirun -n 4 ./app"), MachineSource(topology="power9-4", hosts="n1"))
    source = MachineSource(topology=network, node="polaris-4", hosts="m1")
    with pytest.raises(InputError, match="has no host"):
        found(line("mpirun -n 4 ./app"), source)


def test_a_node_without_gpus_is_named() -> None:
    good = topology_text(topology.read_topology("polaris-4")).encode()
    assert nodes_of_answers({"n1": good})["n1"].hosts == ("n1",)
    bad = json.dumps(["no GPU found on this machine", "ask for some"]).encode()
    with pytest.raises(UnavailableError, match="n2: no GPU found") as refused:
        nodes_of_answers({"n1": good, "n2.error": bad})
    assert refused.value.hint == "ask for some"
