"""Language models on tapered leaves: the order of nodes gains, the order inside does not."""

import random
from dataclasses import replace

import numpy as np
import pytest

from toposeat.mapping import SlotEvaluator, map_to_shape, map_traffic, shape_of_network
from toposeat.model.map_options import MapOptions
from toposeat.model.network import NetworkRates
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology
from toposeat.topology.networks.builder import NetworkBuilder

NAMES = [f"node{number}" for number in range(1, 33)]
JOB = "llm:tp=8,pp=4,dp=8"


def leaves_of_four(order, taper):
    """Nodes 1 to 4 on the first leaf, 5 to 8 on the next; the job has them in `order`."""
    builder = NetworkBuilder()
    for name in order:
        builder.port(name, builder.switch(f"leaf{NAMES.index(name) // 4}"))
    for leaf in range(8):
        builder.link(builder.switch(f"leaf{leaf}"), builder.switch("spine"))
    made = builder.build(name="leaves", origin="test")
    return replace(made, rates=NetworkRates(taper=taper))


def mapped(order, taper):
    shape = shape_of_network(leaves_of_four(order, taper), read_topology("hgx-h100"))
    return map_to_shape(shape, pattern_traffic(JOB), MapOptions(budget_s=3))


@pytest.fixture(scope="module")
def best():
    """Of nodes that the job has in the order of their names."""
    return mapped(sorted(NAMES), 4)


def is_in_rank_order(result):
    """Whether every host's ranks, ascending, have its devices 0, 1, ..."""
    hosts = np.array(result.device_of_rank) // result.slots_per_host
    return all(
        (
            np.array(result.device_of_rank)[hosts == host] % result.slots_per_host == range(count)
        ).all()
        for host, count in enumerate(np.bincount(hosts))
    )


@pytest.mark.parametrize("seed", [None, *range(4)])
def test_the_order_of_nodes_gains_on_tapered_leaves(best, seed):
    names = sorted(NAMES) if seed is None else random.Random(seed).sample(NAMES, 32)
    result = mapped(names, 4)
    assert result.placed.predicted_s == pytest.approx(
        best.placed.predicted_s
    )  # whatever the default was
    assert result.placed.predicted_s <= (0.6 if seed is None else 0.65) * result.default.predicted_s
    assert result.placed.low_s <= result.default.low_s
    assert is_in_rank_order(result)
    hosts = np.array(result.device_of_rank) // 8
    assert sorted(result.hosts[host] for host in set(hosts.tolist())) == sorted(NAMES)


def test_nothing_is_gained_where_leaves_are_not_tapered():
    result = mapped(random.Random(7).sample(NAMES, 32), 1)
    assert result.kept_default
    assert is_in_rank_order(result)


def test_the_phases_are_those_of_the_groups(best):
    assert [phase.label for phase in best.placed.phases] == ["tensor", "data", "pipeline"]
    assert best.placed.low_s == max(phase.seconds for phase in best.placed.phases)
    assert best.placed.predicted_s is not None


@pytest.mark.parametrize("objective", ["time", "cost", "congestion"])
@pytest.mark.parametrize("node", ["dgx-1v", "rtx-4-crossed-bridges"])
@pytest.mark.parametrize("axis", ["tp", "dp"])
def test_no_objective_promises_an_order_inside_groups(objective, node, axis):
    """Groups of whole nodes: neither rings in rank order nor latencies of pairs count."""
    machine = read_topology(node)
    count = len(machine.devices)
    shape = shape_of_network(leaves_of_four(NAMES[:8], 4), machine)
    job = f"llm:tp={count},pp=1,dp=8" if axis == "tp" else f"llm:tp=1,pp=1,dp={8 * count}"
    traffic = pattern_traffic(job)
    result = map_to_shape(shape, traffic, MapOptions(objective=objective, budget_s=1))
    assert result.kept_default
    evaluator = SlotEvaluator(shape, traffic)
    turned = np.arange(8 * count).reshape(8, count)[:, ::-1].ravel()
    values = [evaluator.evaluate(slots).value(objective) for slots in (evaluator.default, turned)]
    assert values[1] == pytest.approx(values[0], rel=1e-6)


@pytest.mark.parametrize("seed", [None, 3])
def test_groups_get_the_sets_of_devices_that_are_best_on_each_host(seed):
    """Pairs on hosts of eight V100, of which some have two links: as on one host alone."""
    names = NAMES[:8] if seed is None else random.Random(seed).sample(NAMES[:8], 8)
    machine = read_topology("dgx-1v")
    shape = shape_of_network(leaves_of_four(names, 4), machine)
    result = map_to_shape(shape, pattern_traffic("llm:tp=2,pp=1,dp=32"))
    alone = map_traffic(machine, pattern_traffic("llm:tp=2,pp=1,dp=4"))
    for found, phases in ((result.default, alone.default), (result.placed, alone.placed)):
        assert found.phases[0].seconds == pytest.approx(phases.phases[0].seconds)
    assert result.placed.predicted_s < 0.8 * result.default.predicted_s
    local = (np.array(result.device_of_rank) % 8).reshape(8, 8)
    assert (local == local[0]).all()
    pairs = np.array(result.device_of_rank).reshape(-1, 2) % 8
    assert {frozenset(pair) for pair in pairs.tolist()} == {
        *map(frozenset, ((0, 3), (1, 2), (4, 7), (5, 6)))
    }
