"""Ranks that use no GPU: beside others, of which no two share a device."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mapping.clusters import cluster
from tests.mapping.machines import random_topology, random_traffic
from toposeat.errors import ToposeatError, UsageError
from toposeat.evaluation import evaluate
from toposeat.mapping import Machine, map_traffic
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.pipeline import map_on_path, path_of_stack
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology


def traffic_of_ranks(ranks, seed):
    return random_traffic(np.random.default_rng(seed), ranks, 0.8)


CROSSED = read_topology("rtx-4-crossed-bridges")


@given(seed=st.integers(0, 2**32 - 1), cpu=st.sets(st.integers(0, 4), min_size=1, max_size=2))
@settings(max_examples=15, deadline=None)
def test_no_two_ranks_with_a_gpu_share_one(seed, cpu):
    """Brute force over all orders of the others, by congestion."""
    topology, traffic = random_topology(np.random.default_rng(seed), 4), traffic_of_ranks(5, seed)
    options = MapOptions(objective="congestion", constraints=Constraints(cpu_ranks=cpu), min_gain=0)
    result = map_traffic(topology, traffic, options)
    others = [rank for rank in range(5) if rank not in cpu]
    taken = [result.device_of_rank[rank] for rank in others]
    assert len(set(taken)) == len(others)
    assert {result.device_of_rank[rank] for rank in cpu} == {0}

    def congestion(devices):
        row = [0] * 5
        for rank, device in zip(others, devices, strict=True):
            row[rank] = device
        return evaluate(topology, traffic, row).max_congestion_s

    best = min(map(congestion, itertools.permutations(range(4), len(others))))
    assert result.placed.max_congestion_s >= best * (1 - 1e-9)
    if result.certificate.proved:
        assert result.placed.max_congestion_s == pytest.approx(best)


@pytest.mark.parametrize(
    ("constraints", "cause"),
    [
        (Constraints(cpu_ranks=[4], pins={4: 1}), "has one by --pin"),
        (Constraints(cpu_ranks=[0], allowed={0: [1]}), "has one by --pin or --allow"),
        (Constraints(cpu_ranks=range(5)), "no rank is left"),
        (Constraints(cpu_ranks=[7]), "there is no rank 7"),
        (Constraints(), "--cpu-ranks names ranks that use no GPU"),
    ],
)
def test_what_cannot_be(constraints, cause):
    with pytest.raises(ToposeatError) as refused:
        map_traffic(CROSSED, traffic_of_ranks(5, 1), MapOptions(constraints=constraints))
    assert cause in f"{refused.value.message} {refused.value.hint}"


def test_on_several_nodes_they_are_refused():
    """Nothing says on which node such a rank starts."""
    nodes = cluster(2)
    options = MapOptions(constraints=Constraints(cpu_ranks=[0]))
    with pytest.raises(UsageError, match="one node only"):
        map_traffic(nodes, traffic_of_ranks(3, 1), options)


def test_a_profile_tells_them_where_devices_are_too_few():
    path = path_of_stack(None, None, CROSSED, 5, environment={})
    traffic = replace(traffic_of_ranks(5, 3), metadata={"cpu_ranks": "0"})
    result = map_on_path(Machine.of(CROSSED), traffic, MapOptions(), path)
    assert len(set(result.device_of_rank[1:])) == 4
    assert any(note.startswith("without a GPU: rank 0") for note in result.notes)
    four = replace(pattern_traffic("llm:tp=4"), metadata={"cpu_ranks": "0"})
    kept = map_on_path(Machine.of(CROSSED), four, MapOptions(), path)
    assert len(set(kept.device_of_rank)) == 4
