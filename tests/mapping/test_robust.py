"""Gains as ranges: corners against machines built anew, the choice against every placement."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from tests.mapping.machines import corners_of, machine_at, random_traffic, two_islands
from toposeat.evaluation import Evaluator, evaluate
from toposeat.evaluation.corners import Machines
from toposeat.mapping import map_traffic
from toposeat.mapping.robust import Untold
from toposeat.model.topology import ComponentKind, Device, FactKind, Topology
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topologies, read_topology
from toposeat.topology.graph.graph_builder import GraphBuilder

EPSILON = 1e-9
SMI = "nvidia-smi-topo"


def recorded(shared_dir: Path, *names: str) -> Topology:

    return read_topologies([str(shared_dir / "machines" / name) for name in names])


@pytest.fixture(
    params=[
        "nvidia-smi-topo/8gpu-4090-sys-nic-phb.txt",
        "nvidia-smi-topo/4gpu-phb-soc.txt",
        "l40s-8",
    ]
)
def machine(request: pytest.FixtureRequest, shared_dir: Path) -> Topology:
    name = str(request.param)
    return recorded(shared_dir, name) if "/" in name else read_topology(name)


def test_corners_are_those_of_machines_written_anew(machine: Topology) -> None:
    count = len(machine.devices)
    traffic = random_traffic(np.random.default_rng(5), count, 0.5)
    placements = np.array([range(count), range(count - 1, -1, -1)], np.uint32)
    machines = Machines(Evaluator(machine, traffic), None)
    outlook = machines.outlook(placements)
    assert {p.what for p in outlook.premises} <= {p.what for p in machine.premises}
    for row, times in zip(outlook.factors.tolist(), outlook.times, strict=True):
        names = (p.what for p in outlook.premises)
        other = machine_at(machine, dict(zip(names, row, strict=True)))
        for placement, seconds in zip(placements.tolist(), times, strict=True):
            expected = evaluate(other, traffic, placement).predicted_s
            assert seconds == pytest.approx(expected, rel=1e-9)
    assert outlook.factors[0].tolist() == [1.0] * len(outlook.premises)


def test_staged_rates_are_moved_together(shared_dir: Path) -> None:
    machine = recorded(
        shared_dir, "nvidia-smi-topo/2gpu-puget-wrx90.txt", "nvidia-smi-p2p/2gpu-5090-gns.txt"
    )
    traffic = pattern_traffic("ring:2")
    rows = np.array([[0, 1]], np.uint32)
    outlook = Machines(Evaluator(machine, traffic), rows).outlook(rows)
    assert "staged copies in a socket" in {p.what for p in outlook.premises}
    for row, times in zip(outlook.factors.tolist(), outlook.times, strict=True):
        names = (p.what for p in outlook.premises)
        other = machine_at(machine, dict(zip(names, row, strict=True)))
        assert times[0] == pytest.approx(evaluate(other, traffic, [0, 1]).predicted_s)


@pytest.mark.parametrize("pattern", ["stencil2d:2x{half}", "alltoall:2x{half}", "random:{n}"])
def test_never_slower_than_the_default_at_a_corner(machine: Topology, pattern: str) -> None:
    count = len(machine.devices)
    traffic = pattern_traffic(pattern.format(n=count, half=count // 2))
    result = map_traffic(machine, traffic)
    assert result.premises is not None
    low, high = result.premises.gain_range
    nominal = 1 - result.placed.predicted_s / result.default.predicted_s
    assert low - EPSILON <= nominal <= high + EPSILON
    for corner in corners_of(machine):
        other = machine_at(machine, corner)
        before = evaluate(other, traffic, result.default.device_of_rank).predicted_s
        after = evaluate(other, traffic, result.device_of_rank).predicted_s
        assert after <= before * (1 + EPSILON)
        assert low - EPSILON <= 1 - after / before <= high + EPSILON


@pytest.mark.parametrize("seed", range(6))
def test_proved_is_said_of_every_corner(shared_dir: Path, seed: int) -> None:
    """On four devices every placement can be looked at, on every corner."""
    machine = recorded(shared_dir, "nvidia-smi-topo/4gpu-phb-soc.txt")
    traffic = random_traffic(np.random.default_rng(seed), 4, 0.8)
    result = map_traffic(machine, traffic)
    orders = np.array(list(permutations(range(4))), np.uint32)
    gaps = []
    for corner in corners_of(machine):
        other = machine_at(machine, corner)
        times = [evaluate(other, traffic, order).predicted_s for order in orders.tolist()]
        mine = evaluate(other, traffic, result.device_of_rank).predicted_s
        gaps.append(mine / min(times) - 1)
    if result.certificate.word == "proved":
        assert max(gaps) <= EPSILON
    elif result.certificate.proved:
        assert result.certificate.word == "bounded"
    assert result.certificate.everywhere == (max(gaps) <= EPSILON)


def test_the_default_is_kept_where_an_assumed_number_may_make_it_the_faster_one() -> None:
    """Two ways to lay a ring: the nominal winner uses a link that may be ten times slower."""
    machine = two_islands(across=30e9, low=0.1)
    traffic = pattern_traffic("ring:4,bytes=1e8")
    certain = map_traffic(replace(machine, premises=()), traffic)
    assert certain.device_of_rank != (0, 1, 2, 3)
    result = map_traffic(machine, traffic)
    assert result.device_of_rank == (0, 1, 2, 3)
    assert result.premises is not None
    assert result.premises.gain_range == (0.0, 0.0)
    assert [each.what for each in result.premises.deciding] == ["across"]
    (note,) = [note for note in result.notes if note.startswith("kept the default")]
    assert "slower with across of 3 GB/s" in note


def test_a_reading_counts_as_a_machine_that_may_be() -> None:
    told = two_islands(across=30e9, low=0.999)
    slow = two_islands(across=2e9, low=0.999)
    traffic = pattern_traffic("ring:4,bytes=1e8")
    assert map_traffic(told, traffic).device_of_rank != (0, 1, 2, 3)
    untold = Untold(readings=(slow,), pairs=(("gpu0", "gpu2"),))
    result = map_traffic(told, traffic, untold=untold)
    assert result.device_of_rank == (0, 1, 2, 3)
    assert result.premises is not None
    assert result.premises.untold_pairs == (("gpu0", "gpu2"),)
    assert not result.certificate.everywhere


def test_nothing_is_in_doubt_on_a_machine_of_told_numbers() -> None:
    result = map_traffic(read_topology("k80-16"), pattern_traffic("stencil2d:4x4"))
    assert result.premises is not None
    assert result.premises.assumed == ()
    low, high = result.premises.gain_range
    assert low == high == pytest.approx(1 - result.placed.predicted_s / result.default.predicted_s)
    assert result.certificate.word == "proved"


def test_a_large_machine_is_looked_at_in_few_places() -> None:
    """160 devices, all to all: the premises at one end together, then each alone."""
    builder = GraphBuilder(tells=set(FactKind))
    numa = [builder.component(ComponentKind.NUMA, f"numa{i}") for i in range(2)]
    builder.sockets(*numa)
    for i in range(160):
        builder.devices.append(Device(id=f"gpu{i}", index=i))
        builder.pcie(f"gpu{i}", numa[i % 2], bytes_per_s=24e9)
    machine = builder.build(name="large", origin="test")
    evaluator = Evaluator(machine, pattern_traffic("alltoall:160"))
    machines = Machines(evaluator, np.array([range(160)], np.uint32))
    assert len(machines.premises) == 3
    ends = {(p.low / p.nominal, p.high / p.nominal) for p in machines.premises}
    assert 3 <= len(machines.factors) < 2**3 + 1
    assert set(zip(*machines.factors[1:3].tolist(), strict=True)) == ends
