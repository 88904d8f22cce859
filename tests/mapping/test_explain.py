"""Why a placement: moves and bottlenecks recomputed by hand, draws against the evaluator."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.mapping.checker import Checker
from tests.mapping.machines import random_traffic, tree_topology
from toposeat._core import flow_time
from toposeat.evaluation import compile_network, compile_traffic
from toposeat.evaluation.network import network_arrays
from toposeat.evaluation.spread import SPREAD_KEY, SpreadMachine
from toposeat.mapping import map_traffic
from toposeat.model.explanation import Explanation
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import Topology
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology


def explained(machine: str, pattern: str, **options: object) -> Explanation:
    result = map_traffic(
        read_topology(machine), pattern_traffic(pattern), MapOptions(explained=True, **options)
    )
    assert result.explanation is not None
    return result.explanation


def test_moves_and_bottleneck_of_the_papers_weighted_stencil() -> None:
    """The heavy pairs (first dimension) leave QPI; 16 pairs load it before, as Faraji's 1600."""
    machine, pattern = read_topology("k80-16-faraji"), "stencil3d:2x2x4,weight=3"
    traffic = pattern_traffic(pattern)
    result = map_traffic(machine, traffic, MapOptions(explained=True))
    explanation = result.explanation
    assert explanation is not None
    before = explanation.before
    assert before.link is not None
    assert machine.link_of_id[before.link].kind.value == "smp"
    assert before.pairs == 16
    assert {abs(load.source - load.target) for load in before.loads} == {8}
    assert before.congestion_s == result.default.max_congestion_s
    for move in explanation.moves:
        ends = [
            (
                machine.devices[devices[move.source]].id,
                machine.devices[devices[move.target]].id,
            )
            for devices in (result.default.device_of_rank, result.device_of_rank)
        ]
        assert move.links_before == machine.route_of_pair[ends[0]].links
        assert move.links_after == machine.route_of_pair[ends[1]].links
        assert move.links_before != move.links_after
    table = traffic.mapped_table()
    assert explanation.moves[0].bytes == table.bytes.max()
    assert explanation.moved_pairs >= 16
    assert explanation.sensitivity is not None
    assert explanation.sensitivity.not_worse == 100


def test_who_loads_the_bottleneck_adds_up() -> None:
    machine = tree_topology([2, 2], [4e9, 1e9])
    traffic = random_traffic(np.random.default_rng(4), 4, 0.8)
    result = map_traffic(machine, traffic, MapOptions(explained=True))
    assert result.explanation is not None
    after = result.explanation.after
    assert after.pairs <= 5, "or the sum below misses some"
    assert sum(load.bytes for load in after.loads) == after.bytes == result.placed.links[0].bytes


def test_nothing_moves_where_the_default_is_kept() -> None:
    explanation = explained("dgx-a100", "ring:8")
    assert explanation.moves == ()
    assert explanation.moved_pairs == explanation.moved_bytes == 0
    assert explanation.before == explanation.after


def test_ranks_on_one_device_use_no_links() -> None:
    explanation = explained("power9-4", "ring:8,bytes=1e6", constraints=Constraints(slots=2))
    assert any(move.links_after == () for move in explanation.moves)


@pytest.mark.parametrize(
    ("objective", "metric"),
    [("time", "bandwidth"), ("congestion", "bandwidth")]
    + [("cost", metric) for metric in ("bandwidth", "latency", "hybrid")],
)
def test_draws_are_the_same_for_a_seed(objective: str, metric: str) -> None:
    options = {"objective": objective, "metric": metric, "seed": 3}
    first, second = (explained("dgx-1v", "stencil2d:2x4", **options) for _ in range(2))
    assert first.sensitivity is not None
    assert first == second
    assert first.sensitivity.draws == 100
    assert 0 < first.sensitivity.best <= 100
    assert first.sensitivity.not_worse == 100


def test_distance_has_nothing_to_vary() -> None:
    found = explained("k80-16", "stencil2d:4x4", objective="cost", metric="distance")
    assert found.sensitivity is None


def test_a_narrow_win_is_called_sensitive() -> None:
    """Two equal halves but for 1 % of capacity: which is the better one is a toss-up."""
    machine = tree_topology([2, 2], [4e9, 1e9])
    links = [
        dataclasses.replace(
            link,
            forward_bytes_per_s=Quantity(3.96e9),
            backward_bytes_per_s=Quantity(3.96e9),
            combined_bytes_per_s=Quantity(3.96e9),
        )
        if {"d0", "d1"} & set(link.ends)
        else link
        for link in machine.links
    ]
    machine = dataclasses.replace(machine, links=tuple(links))
    traffic = random_traffic(np.random.default_rng(0), 2, 1.0)
    result = map_traffic(machine, traffic, MapOptions(explained=True))
    assert set(result.device_of_rank) == {2, 3}
    assert result.explanation is not None
    assert result.explanation.sensitivity is not None
    assert 20 < result.explanation.sensitivity.not_worse < 90


def measured(machine: Topology, spread: str) -> Topology:
    links = tuple(
        dataclasses.replace(
            link,
            forward_bytes_per_s=Quantity(link.forward_bytes_per_s.value, Source.MEASURED),
            backward_bytes_per_s=Quantity(link.backward_bytes_per_s.value, Source.MEASURED),
        )
        for link in machine.links
    )
    return dataclasses.replace(machine, links=links, metadata={SPREAD_KEY: spread})


def test_recorded_spread_is_used_for_measured_numbers() -> None:
    machine = measured(read_topology("dgx-1v"), "0.02")
    spread = SpreadMachine(machine)
    assert spread.recorded == (0.02, 0.02)
    assert spread.assumed, "latencies are nominal"
    drawn = spread.draw(np.random.default_rng(0))
    ratio = drawn.capacity[:, :2] / spread.middle.capacity[:, :2]
    assert 0.01 < abs(ratio - 1).max() <= 0.02
    assert 0.05 < abs(drawn.link_latency / spread.middle.link_latency - 1).max() <= 0.1
    assert SpreadMachine(measured(machine, "much")).recorded is None


def test_each_number_moves_by_its_own_spread() -> None:
    """Two pairs of equal devices, one measured within 1 %, the other within 30 %."""
    machine = tree_topology([2, 2], [4e9, 1e9])
    routes = tuple(
        dataclasses.replace(
            route,
            cap_bytes_per_s=Quantity(
                2e9, Source.MEASURED, 0.01 if {route.source, route.target} == {"d0", "d1"} else 0.3
            ),
        )
        for route in machine.routes
    )
    machine = dataclasses.replace(machine, routes=routes)
    spread = SpreadMachine(machine)
    assert spread.recorded == (0.01, 0.3)
    generator = np.random.default_rng(0)
    factor = np.array([spread.draw(generator).cap / 2e9 for _ in range(200)])
    most = abs(factor - 1).max(axis=0).reshape(4, 4)
    assert 0.009 < most[0, 1] <= 0.01
    assert 0.27 < most[2, 3] <= 0.3


def test_the_winner_by_measured_numbers_depends_on_their_spread() -> None:
    """Half of the machine is 2 % faster: certain where repeats agree to 0.5 %, not to 20 %."""
    machine = tree_topology([2, 2], [4e9, 1e9])

    def at(spread: float) -> int:
        routes = tuple(
            dataclasses.replace(
                route,
                cap_bytes_per_s=Quantity(
                    0.98e9 if "d0" in (route.source, route.target) else 1e9,
                    Source.MEASURED,
                    spread,
                ),
            )
            for route in machine.routes
        )
        measured = dataclasses.replace(machine, routes=routes)
        traffic = random_traffic(np.random.default_rng(0), 2, 1.0)
        result = map_traffic(measured, traffic, MapOptions(explained=True, objective="cost"))
        assert set(result.device_of_rank) == {2, 3}
        assert result.explanation is not None
        assert result.explanation.sensitivity is not None
        return result.explanation.sensitivity.not_worse

    assert at(0.005) == 100
    assert 40 < at(0.2) < 80


@pytest.mark.parametrize("solver", ["default", "random"])
def test_better_candidates_are_not_hidden(solver: str) -> None:
    """One placement is looked at; what a search finds is better, and so it is called."""
    found = explained("dgx-1v", "random:8,seed=3", solver=solver).sensitivity
    assert found is not None
    assert found.better > 0
    assert found.best < 50


def test_a_gain_too_small_to_take_is_still_a_better_candidate() -> None:
    found = explained("dgx-1v", "random:8,seed=3", min_gain=0.9).sensitivity
    assert found is not None
    assert found.better > 0
    assert (found.best, found.not_worse) == (0, 100)


@pytest.mark.parametrize("solver", ["auto", "random"])
@pytest.mark.parametrize("machine", ["k80-16", "dgx-1v", "mi250x-8"])
def test_bottlenecks_are_those_of_the_checker(machine: str, solver: str) -> None:
    """Link, bytes, seconds and users of the busiest link, from the topology's own words."""
    topology = read_topology(machine)
    traffic = random_traffic(np.random.default_rng(9), 8, 0.6)
    result = map_traffic(topology, traffic, MapOptions(solver=solver, explained=True))
    assert result.explanation is not None
    checker = Checker(topology, traffic)
    for evaluation, told in (
        (result.default, result.explanation.before),
        (result.placed, result.explanation.after),
    ):
        device = evaluation.device_of_rank
        assert told.congestion_s == pytest.approx(checker.congestion(device), rel=1e-9)
        users = {
            (source, target): nbytes
            for source, target, nbytes, _ in checker.flows
            if any(
                (device[source], device[target]) in checker.uses((told.link or "", way))
                for way in ("forward", "backward")
            )
        }
        assert told.pairs == len(users)
        assert told.bytes == sum(users.values())
        for load in told.loads:
            assert users[load.source, load.target] == load.bytes
        heaviest = sorted(users.values(), reverse=True)[: len(told.loads)]
        assert [load.bytes for load in told.loads] == heaviest


def test_arrays_are_the_compiled_machine() -> None:
    machine = read_topology("dgx-1v")
    traffic = compile_traffic(pattern_traffic("random:8,seed=2,degree=4"))
    order = [3, 1, 0, 2, 7, 6, 5, 4]
    arrays = network_arrays(machine)
    assert flow_time(arrays.network(), traffic, order) == flow_time(
        compile_network(machine), traffic, order
    )
