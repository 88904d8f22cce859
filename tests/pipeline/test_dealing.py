"""Plans of a launcher that only deals ranks out to hosts."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from toposeat import mapping
from toposeat.evaluation import Evaluator
from toposeat.launch import Dealing
from toposeat.launch.launchers.launcher import LauncherKind, LaunchLine
from toposeat.launch.line import parse_launch_line
from toposeat.mapping import Machine
from toposeat.model.map_options import MapOptions
from toposeat.model.pair_table import MemorySpace, PairTable
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic, TrafficKind
from toposeat.pipeline.dealing import dealt
from toposeat.pipeline.placing import map_traffic
from toposeat.pipeline.stack_path import StackPath
from toposeat.topology import read_network, read_topology

HOSTS = ("n1", "n2", "n3", "n4")
SIZES = {"cyclic": 1, "plane=2": 2, "plane=3": 3, "block": 4}


@pytest.fixture
def network(tmp_path: Path) -> str:
    path = tmp_path / "topology.conf"
    path.write_text(
        "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=top Switches=a,b\n"
    )
    return f"slurm:{path}"


@pytest.fixture
def machine(network: str) -> Topology:
    return mapping.join_hosts(read_network(network), [read_topology("polaris-4")] * 4)


def line(text: str) -> LaunchLine:
    return parse_launch_line(shlex.split(text), identify=lambda _: LauncherKind.SRUN)


def far_ones(swapped: int) -> Traffic:
    """Every rank talks to those that are 4, 8 and 12 away, but the first ones change places."""
    at = [swapped - 1 - rank if rank < swapped else rank for rank in range(16)]
    pairs = [(at[r], at[(r + far) % 16]) for r in range(16) for far in (4, 8, 12)]
    source, target = np.array(pairs).T
    table = PairTable.from_pairs(
        source, target, np.full(source.size, 1 << 24), np.ones(source.size, np.int64)
    )
    return Traffic(
        ranks=16, origin="test", tables={(TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE): table}
    )


def dealt_by_hand(size: int) -> list[str]:
    """The rule of srun: ranks in turns of `size`, no more than 4 on a host."""
    room = dict.fromkeys(HOSTS, 4)
    hosts: list[str] = []
    while len(hosts) < 16:
        for host in HOSTS:
            turn = min(size, room[host])
            room[host] -= turn
            hosts += [host] * turn
    return hosts


def test_only_srun_with_pmi2_deals() -> None:
    environment = {"SLURM_JOB_NODELIST": "n[1-4]", "SLURM_JOB_CPUS_PER_NODE": "4(x4)"}
    dealing = Dealing.of(["srun", "--mpi=pmi2", "-n16", "./app"], HOSTS, environment)
    assert dealing.order == HOSTS
    default = [host for host in HOSTS for _ in range(4)]
    assert {name: list(plan) for name, plan in dealing.plans(default, default[::-1]).items()} == {
        name: dealt_by_hand(size) for name, size in SIZES.items()
    }
    assert not dealing.plans(default[:-1], default)  # hosts with different numbers of ranks
    for words in ("srun --mpi=pmix -n16 ./app", "srun --mpi=cray_shasta -n16 ./app"):
        assert Dealing.of(words.split(), HOSTS, environment).order == ()


def test_the_best_plan_that_can_be_dealt(machine: Topology) -> None:
    traffic, options = far_ones(swapped=2), MapOptions(budget_s=0.5)
    dealing = Dealing(line=line("srun --mpi=pmi2 -n16 ./app x"), order=HOSTS)
    best = map_traffic(machine, traffic, options)
    found, words = dealt(Machine.of(machine), traffic, options, StackPath(), best, dealing=dealing)
    hosts = [machine.devices[device].host for device in found.device_of_rank]
    name = words[0].removeprefix("Order     ").partition(":")[0]
    assert hosts == dealt_by_hand(SIZES[name])
    evaluator = Evaluator(machine, traffic)
    of_host = {host: [4 * at + k for k in range(4)] for at, host in enumerate(HOSTS)}
    for size in SIZES.values():
        left = {host: iter(devices) for host, devices in of_host.items()}
        row = [next(left[host]) for host in dealt_by_hand(size)]
        assert found.placed.predicted_s <= evaluator.evaluate(row).predicted_s * (1 + 1e-9)
    assert best.placed.predicted_s < found.placed.predicted_s < found.default.predicted_s
    assert found.default.device_of_rank == best.default.device_of_rank == tuple(range(16))
    assert not found.certificate.proved
    assert found.certificate.lower_bound == best.certificate.lower_bound
    assert words[1].endswith("toposeat tune -- mpiexec -n 16 ./app x")


def test_a_plan_that_can_be_dealt_already_is_kept(machine: Topology) -> None:
    traffic, options = far_ones(swapped=0), MapOptions(budget_s=0.5)
    dealing = Dealing(line=line("srun --mpi=pmi2 -n16 ./app"), order=HOSTS)
    best = map_traffic(machine, traffic, options)
    found, _ = dealt(Machine.of(machine), traffic, options, StackPath(), best, dealing=dealing)
    hosts = [machine.devices[device].host for device in found.device_of_rank]
    assert hosts in map(dealt_by_hand, SIZES.values())
    any_plan = Dealing(line=dealing.line, order=())
    assert dealt(Machine.of(machine), traffic, options, StackPath(), best, dealing=any_plan) == (
        best,
        (),
    )


def test_large_jobs(network: str) -> None:
    shape = mapping.shape_of_network(read_network(network), read_topology("polaris-4"))
    traffic, options = far_ones(swapped=2), MapOptions(budget_s=1)
    dealing = Dealing(line=line("srun --mpi=pmi2 -n16 ./app"), order=HOSTS)
    best = mapping.map_to_shape(shape, traffic, options)
    found, words = dealt(
        Machine.of_shape(shape), traffic, options, StackPath(), best, dealing=dealing
    )
    name = words[0].removeprefix("Order     ").partition(":")[0]
    hosts = [HOSTS[slot // 4] for slot in found.device_of_rank]
    assert hosts == dealt_by_hand(SIZES[name])
    assert not found.kept_default
    assert best.placed.predicted_s < found.placed.predicted_s < found.default.predicted_s


def test_torchrun_below_srun_has_blocks_of_nodes_in_any_order(machine: Topology) -> None:
    command = ["srun", "-N4", "torchrun", "--nnodes=4", "--nproc-per-node=4", "t.py"]
    dealing = Dealing.of(command, HOSTS, {})
    default = dealt_by_hand(4)
    reordered = [host for host in ("n3", "n1", "n4", "n2") for _ in range(4)]
    assert not dealing.plans(default, reordered)  # which torchrun can start
    traffic, options = far_ones(swapped=0), MapOptions(budget_s=0.5)
    best = map_traffic(machine, traffic, options)
    found, words = dealt(Machine.of(machine), traffic, options, StackPath(), best, dealing=dealing)
    hosts = [machine.devices[device].host for device in found.device_of_rank]
    assert all(len(set(hosts[at : at + 4])) == 1 for at in range(0, 16, 4))
    assert words[0].startswith("Order     block")
    assert "the best that torchrun can start" in words[0]


def test_no_gain_is_not_called_one() -> None:
    dealing = Dealing(line=line("srun --mpi=pmi2 -n16 ./app"), order=HOSTS)
    words = dealing.words("block", "time", 0.0, 31.4)
    assert words[0] == "Order     block: the default, the best that srun --mpi=pmi2 can start"
    assert "31 % less time than the default" in words[1]
