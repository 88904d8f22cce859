"""The machine of a job, without starting anything on its nodes."""

import json
import shlex
from dataclasses import replace

import pytest

from toposeat import launch as launch_package
from toposeat import topology
from toposeat.errors import InputError, UnavailableError, UsageError
from toposeat.launch import LauncherKind, parse_launch_line
from toposeat.mapping import seat_ranks
from toposeat.pipeline import MachineSource, machine_of_job
from toposeat.topology import topology_text


@pytest.fixture
def network(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text(
        "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=top Switches=a,b\n"
    )
    return f"slurm:{path}"


@pytest.fixture
def answer(monkeypatch):
    """Gives nodes, by host, or what each sends home in place of one."""

    def given(nodes):
        said = {
            host: node if isinstance(node, bytes) else topology_text(node).encode()
            for host, node in nodes.items()
        }
        monkeypatch.setattr(launch_package, "node_answers", lambda *_, **__: said)

    return given


def line(text, kind=LauncherKind.OPENMPI):
    return parse_launch_line(shlex.split(text), identify=lambda _: kind)


def found(launch, source, **environment):
    return machine_of_job(launch, source, environment, lambda _: None)


def test_hosts_of_the_line_and_a_node_of_a_file(network):
    source = MachineSource(topology=network, node="polaris-4")
    job = found(line("mpirun --host n2:4,n3:4 -n 8 ./app"), source)
    assert job.machine.hosts == ("n2", "n3")
    assert job.devices is None
    assert job.words == (
        "Topology  2 nodes, 2 leaf switches (Slurm topology.conf), 8 devices",
        "          n[2-3]: 4 x NVIDIA A100-SXM4-40GB",
    )


def test_cpus_that_are_reserved_are_kept_on_all_hosts(network):
    source = MachineSource(topology=network, node="mi250x-8", reserved="1,65")
    job = found(line("mpirun --host n1:8,n2:8 -n 16 ./app"), source)
    machine = job.machine.topology
    assert machine is not None
    cpus = [seat.cpus for seat in seat_ranks(machine, 16, range(16))]
    assert cpus[4] == cpus[12] == "2-7,66-71"
    one = found(line("mpirun -n 1 ./app"), MachineSource(topology="mi250x-8", reserved="1,65"))
    assert one.machine.topology is not None
    assert seat_ranks(one.machine.topology, 1, [4])[0].cpus == "2-7,66-71"


def test_as_many_devices_as_the_line_has_ranks_on_a_node(network):
    source = MachineSource(topology=network, node="polaris-4", hosts="n[1-4]")
    job = found(line("srun -N2 -n5 ./app", LauncherKind.SRUN), source)
    assert job.machine.hosts == ("n1", "n2")
    assert job.devices == (0, 1, 2, 4, 5)
    all_of_them = found(line("srun -N4 -n16 ./app", LauncherKind.SRUN), source)
    assert all_of_them.devices is None


def test_places_of_hosts_limit_devices(network):
    source = MachineSource(topology=network, node="polaris-4")
    job = found(line("mpirun --host n1:2,n4:3 -n 5 ./app"), source)
    assert job.devices == (0, 1, 4, 5, 6)
    with pytest.raises(InputError, match=r"--host leaves places for 5 of 7 ranks on 8 devices"):
        found(line("mpirun --host n1:2,n4:3 -n 7 ./app"), source)
    free = found(line("mpirun --oversubscribe --host n1:2,n4:3 -n 7 ./app"), source)
    assert free.devices is None


def test_one_node(network):
    job = found(line("mpirun --host n1:4,n2:4 -n 4 ./app"), MachineSource(topology="power9-4"))
    assert job.words == ("Topology  power9-4, 4 devices (catalogue)",)
    with pytest.raises(UsageError, match="--node and --hosts need a network"):
        found(line("mpirun -n 4 ./app"), MachineSource(topology="power9-4", hosts="n1"))
    source = MachineSource(topology=network, node="polaris-4", hosts="m1")
    with pytest.raises(InputError, match="has no host"):
        found(line("mpirun -n 4 ./app"), source)


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large.conf"
    leaves = "".join(f"SwitchName=l{k} Nodes=n[{16 * k + 1}-{16 * k + 16}]\n" for k in range(4))
    path.write_text(leaves + "SwitchName=top Switches=l[0-3]\n")
    return f"slurm:{path}"


def test_equal_nodes_with_more_devices_than_are_listed_are_a_shape(large):
    source = MachineSource(topology=large, node="dgx-a100", hosts="n[1-64]")
    job = found(line("srun -N64 -n512 ./app", LauncherKind.SRUN), source)
    assert (job.machine.shape.slots, job.machine.shape.slots_per_host) == (512, 8)
    assert job.words[0] == (
        "Topology  64 nodes, 4 leaf switches (Slurm topology.conf), 512 devices"
    )
    assert job.sources == {"hosts": "n[1-64]", "source": large}
    few = found(line("srun -N64 --ntasks-per-node=3 ./app", LauncherKind.SRUN), source)
    assert (few.machine.shape.slots, few.machine.shape.slots_per_host) == (192, 3)
    assert [device.number for device in few.node.devices] == [0, 1, 2]
    listed = found(line("srun -N32 -n256 ./app", LauncherKind.SRUN), source)
    assert listed.machine.topology is not None


def test_unlike_counts_or_nodes_on_a_large_machine(large, answer):
    source = MachineSource(topology=large, node="dgx-a100", hosts="n[1-64]")
    with pytest.raises(
        InputError, match="differ: 8 ranks on each of n\\[1-52\\]; 7 ranks"
    ) as error:
        found(line("srun -N64 -n500 ./app", LauncherKind.SRUN), source)
    assert "--hosts n[1-52], with -N 52" in str(error.value.hint)
    node = topology.read_topology("dgx-a100")
    gone = frozenset({node.devices[7].id})
    nodes = {
        f"n{i}": topology.without_devices(node, gone) if i == 9 else node for i in range(1, 65)
    }
    answer(nodes)
    asked = MachineSource(topology=large, hosts="n[1-64]")
    with pytest.raises(InputError, match=r"n\[1-8,10-64\] with 8 x .*; n9 with 7 x") as error:
        found(line("srun -N64 ./app", LauncherKind.SRUN), asked)
    assert "--hosts n[1-8,10-64], with -N 63" in str(error.value.hint)
    answer(nodes | {"n9": node})
    job = found(line("srun -N64 -n512 ./app", LauncherKind.SRUN), asked)
    assert len(job.nodes) == 64


def test_a_node_without_gpus_is_named(network, answer):
    good = topology.read_topology("polaris-4")
    asked = MachineSource(topology=network, hosts="n[1-2]")
    answer({"n1": good, "n2": good})
    both = found(line("mpirun -n 8 ./app"), asked).nodes
    assert sorted(host for node in both for host in node.hosts) == ["n1", "n2"]
    answer({"n1": good, "n2.error": json.dumps(["no GPU found here", "ask for some"]).encode()})
    with pytest.raises(UnavailableError, match="n2: no GPU found") as refused:
        found(line("mpirun -n 8 ./app"), asked)
    assert refused.value.hint == "ask for some"


def test_nodes_that_say_their_nvlink_domain_share_it(network, answer):
    tray = topology.read_topology("dgx-a100")
    of_host = {"n1": "c.1", "n2": "c.2", "n3": "c.1", "n4": "c.2"}
    answer({h: replace(tray, metadata={"nvlink_domain": own}) for h, own in of_host.items()})
    source = MachineSource(topology=network, hosts="n[1-4]")
    job = found(line("srun -N4 -n32 ./app", LauncherKind.SRUN), source)
    assert "          NVLink joins n[1,3]; n[2,4]" in job.words
    assert job.machine.shape.domain_of_host == (0, 1, 0, 1)
    listed = job.machine.listed(wanted=True)
    joined = {
        (a, b): any("nvlink" in link for link in route.links)
        for (a, b), route in listed.route_of_pair.items()
        if {a.split("/")[0], b.split("/")[0]} <= set(of_host) and a.split("/")[0] != b.split("/")[0]
    }
    assert joined
    for (a, b), by_nvlink in joined.items():
        assert by_nvlink == (of_host[a.split("/")[0]] == of_host[b.split("/")[0]])


def test_srun_that_does_not_say_its_nodes(monkeypatch):
    """The login node may have GPUs, too."""
    node = topology.read_topology("polaris-4")
    monkeypatch.setattr(topology, "read_topology", lambda _: node)
    with pytest.raises(InputError, match="16 ranks do not fit on the 4 devices") as error:
        found(line("srun -n16 ./app", LauncherKind.SRUN), MachineSource())
    assert "srun -N NODES" in str(error.value.hint)


def test_torchrun_below_srun_says_how_many_ranks_a_node_takes(network):
    source = MachineSource(topology=network, node="polaris-4")
    text = "srun -N4 --ntasks-per-node=1 torchrun --nnodes=4 --nproc-per-node=3 t.py"
    job = found(line(text, LauncherKind.SRUN), source)
    assert job.devices == tuple(position for position in range(16) if position % 4 < 3)
