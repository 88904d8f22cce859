"""map_traffic: names, constraints, the guard, determinism, budget."""

import itertools
from collections import Counter

import numpy as np
import pytest

from tests.mapping.clusters import cluster
from tests.mapping.machines import (
    complete_mesh,
    random_topology,
    random_traffic,
    traffic_of,
)
from toposeat.errors import ToposeatError, UsageError
from toposeat.evaluation import evaluate
from toposeat.mapping import (
    map_to_shape,
    map_traffic,
    read_shape,
)
from toposeat.model.map_options import OBJECTIVES, Constraints, MapOptions
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology


def value(evaluation, objective):
    return {
        "cost": evaluation.cost,
        "congestion": evaluation.max_congestion_s,
        "time": evaluation.predicted_s,
    }[objective]


def check(result, slots=1):
    """What holds for every result."""
    certificate = result.certificate
    assert max(Counter(result.device_of_rank).values()) <= slots
    assert result.placed.device_of_rank == result.device_of_rank
    assert certificate.value == value(result.placed, result.objective)
    if certificate.lower_bound is not None:
        assert certificate.lower_bound <= certificate.value * (1 + 1e-9)
    if certificate.proved:
        assert certificate.gap == 0
    if not result.solver.startswith("random"):
        assert result.placed.predicted_s <= result.default.predicted_s * (1 + 1e-9)
        assert value(result.placed, result.objective) <= value(result.default, result.objective) * (
            1 + 1e-9
        )


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_those_that_are_not_slower_is_taken(objective, seed):
    rng = np.random.default_rng(seed)
    machine, traffic = random_topology(rng, 5), random_traffic(rng, 4 if seed == 0 else 5, 0.6)
    result = map_traffic(machine, traffic, MapOptions(objective=objective, budget_s=20))
    check(result)
    every = [
        evaluate(machine, traffic, row) for row in itertools.permutations(range(5), traffic.ranks)
    ]
    slowest_s = result.default.predicted_s * (1 + 1e-9)
    admitted = [value(each, objective) for each in every if each.predicted_s <= slowest_s]
    assert value(result.placed, objective) == pytest.approx(min(admitted))


@pytest.mark.parametrize("solver", ["auto", "search", "random"])
def test_a_seed_gives_one_answer(solver):
    machine = read_topology("dgx-2")
    traffic = random_traffic(np.random.default_rng(3), 12, 0.4)
    answers = {
        map_traffic(
            machine, traffic, MapOptions(objective="time", solver=solver, seed=5, budget_s=5)
        ).device_of_rank
        for _ in range(2)
    }
    assert len(answers) == 1


def test_random_differs_by_seed():
    machine = read_topology("k80-16")
    traffic = random_traffic(np.random.default_rng(3), 16, 0.4)
    answers = {
        map_traffic(machine, traffic, MapOptions(solver="random", seed=seed)).device_of_rank
        for seed in range(4)
    }
    assert len(answers) == 4


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    ("name", "alike"), [("dgx-a100", True), ("full:6", True), ("dgx-1v", False)]
)
def test_of_a_machine_without_better_places_it_is_said(name, alike, objective):
    """Whatever the ranks send; no other machine is taken for one."""
    traffic = pattern_traffic("random:6,degree=3" if name == "full:6" else "random:8,degree=3")
    result = map_traffic(read_topology(name), traffic, MapOptions(objective=objective))
    assert result.uniform == alike
    assert not alike or result.certificate.word == "proved"
    check(result)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_devices_and_pins_are_kept(objective):
    machine = read_topology("k80-16")
    traffic = random_traffic(np.random.default_rng(1), 6, 0.7)
    allowed = [15, 3, 2, 8, 9, 1, 0]
    result = map_traffic(
        machine,
        traffic,
        MapOptions(
            objective=objective, constraints=Constraints(devices=allowed, pins={2: 9, 5: 15})
        ),
    )
    check(result)
    assert set(result.device_of_rank) <= set(allowed)
    assert result.device_of_rank[2] == 9
    assert result.device_of_rank[5] == 15
    assert result.default.device_of_rank == (3, 2, 9, 8, 1, 15)
    best = min(
        value(evaluate(machine, traffic, placement), objective)
        for placement in itertools.permutations(allowed, 6)
        if placement[2] == 9 and placement[5] == 15
    )
    assert result.certificate.lower_bound == pytest.approx(best)


def test_time_is_proved_beyond_trees():
    """16 devices, where links alone decide: the congestion that no placement can avoid is exact."""
    rng = np.random.default_rng(0)
    machine = complete_mesh(rng, 16)
    traffic = random_traffic(np.random.default_rng(0), 16, 0.5)
    result = map_traffic(machine, traffic, MapOptions(budget_s=20))
    check(result)
    assert result.certificate.proved


@pytest.mark.parametrize("machine", ["k80-16", "dgx-2"])
def test_latency_is_in_the_bound_of_the_time(machine):
    """Many small messages: their latency is most of the time, and no placement can avoid it."""
    matrix = pattern_traffic("stencil3d:2x2x4").mapped_table().dense_bytes(16) // 2**10
    messages = 10 * (matrix > 0)
    matrix[0, 15], messages[0, 15] = 8, 1  # one rare small message must not spoil it
    result = map_traffic(read_topology(machine), traffic_of(matrix, messages))
    check(result)
    assert result.certificate.gap is not None
    assert result.certificate.gap < 0.05


def test_no_traffic_keeps_the_default():
    silent = traffic_of(np.zeros((8, 8), np.int64))
    for objective in OBJECTIVES:
        result = map_traffic(read_topology("dgx-1v"), silent, MapOptions(objective=objective))
        assert result.device_of_rank == tuple(range(8))
        assert result.certificate.proved
        assert result.notes == ("default is already optimal",)


def test_the_cheapest_placement_is_not_taken_if_it_is_slower():
    # Cost likes all pairs on nearest devices; a narrow shared uplink makes that slow.
    rng = np.random.default_rng(0)
    slower = 0
    for _ in range(40):
        machine = random_topology(rng, 5)
        traffic = random_traffic(rng, 5, 0.5)
        result = map_traffic(machine, traffic, MapOptions(objective="cost"))
        check(result)
        slower += any("slower" in note for note in result.notes)
    assert slower > 0


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"objective": "speed"}, UsageError, "unknown objective 'speed'"),
        ({"solver": "magic"}, UsageError, "unknown solver 'magic'"),
        ({"metric": "colour"}, UsageError, "colour"),
        ({"seed": -1}, UsageError, "seed"),
        ({"seed": 1.5}, UsageError, "seed 1.5"),
        ({"budget_s": float("nan")}, UsageError, "budget of nan"),
        ({"budget_s": float("inf")}, UsageError, "budget of inf"),
        ({"budget_s": -1.0}, UsageError, "budget of -1"),
        ({"min_gain": float("nan")}, UsageError, "gain of nan"),
        ({"min_gain": 2.0}, UsageError, "gain of 2"),
    ],
)
def test_mistakes_are_named(options, error, words):
    traffic = random_traffic(np.random.default_rng(0), 4, 0.5)
    with pytest.raises(error, match=words) as caught:
        map_traffic(read_topology("dgx-1v"), traffic, MapOptions(**options))
    assert caught.value.hint
    if "metric" not in options:
        with pytest.raises(error, match=words.replace("unknown solver", "solver")):
            map_to_shape(read_shape("hierarchy:4:4"), traffic, MapOptions(**options))


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        ({"devices": [0, 1, 1]}, "device 1 is listed twice"),
        ({"devices": [0, 99]}, "device 99 does not exist"),
        ({"exclude": [8]}, "device 8 does not exist"),
        ({"pins": {0: 9}}, "pinned to device 9"),
        ({"allowed": {0: [9]}}, "device 9 does not exist"),
    ],
)
def test_devices_that_cannot_be_are_named(constraints, words):
    """What the command line cannot say; what it can is in `tests/cli/typed_lines.txt`."""
    traffic = random_traffic(np.random.default_rng(0), 4, 0.5)
    with pytest.raises(UsageError, match=words) as caught:
        map_traffic(
            read_topology("dgx-1v"), traffic, MapOptions(constraints=Constraints(**constraints))
        )
    assert caught.value.hint


def test_ranks_share_devices_only_if_asked_to():
    traffic = random_traffic(np.random.default_rng(0), 19, 0.5)
    with pytest.raises(ToposeatError, match="19 ranks do not fit on the 8 devices") as caught:
        map_traffic(read_topology("dgx-1v"), traffic)
    assert "--slots 3" in caught.value.hint
    constraints = Constraints(slots=3)
    result = map_traffic(
        read_topology("dgx-1v"), traffic, MapOptions(budget_s=0.1, constraints=constraints)
    )
    assert result.default.device_of_rank == tuple(rank % 8 for rank in range(19))
    assert max(Counter(result.device_of_rank).values()) <= 3
    assert "19 ranks on 8 devices, at most 3 each" in result.notes[0]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_without_time_nothing_is_searched(objective):
    """A budget that is gone at once: the default, with a bound, and no placement tried."""
    machine = cluster(9)
    traffic = random_traffic(np.random.default_rng(1), len(machine.devices), 0.2)
    result = map_traffic(machine, traffic, MapOptions(objective=objective, budget_s=1e-9))
    assert result.device_of_rank == tuple(range(len(machine.devices)))
    assert result.certificate.lower_bound is not None
    assert 0 < result.certificate.lower_bound <= result.certificate.value
    assert any("no better placement was found" in note for note in result.notes)


def test_gains_too_small_to_matter_keep_the_default():
    """dgx-2 with dense random traffic: the search gains a fraction of a percent."""
    machine, traffic = read_topology("dgx-2"), pattern_traffic("random:16,seed=1,degree=12")
    found = map_traffic(machine, traffic, MapOptions(min_gain=0))
    gain = 1 - found.placed.predicted_s / found.default.predicted_s
    assert 0 < gain < 0.01, "the machine of this test must offer a tiny gain"
    kept = map_traffic(machine, traffic, MapOptions(min_gain=0.01))
    assert kept.device_of_rank == tuple(range(16))
    assert kept.placed == kept.default
    assert not kept.certificate.proved
    assert kept.certificate.value == kept.default.predicted_s
    assert any("not worth moving ranks" in note for note in kept.notes)


def test_a_proved_optimum_not_worth_having_is_no_proof_for_the_default():
    machine, traffic = read_topology("k80-16"), pattern_traffic("stencil3d:2x2x4,weight=3")
    kept = map_traffic(machine, traffic, MapOptions(objective="cost", min_gain=1.0))
    assert kept.placed == kept.default
    assert not kept.certificate.proved
    assert kept.certificate.lower_bound is not None
    assert kept.certificate.value > kept.certificate.lower_bound
    assert kept.certificate.gap == pytest.approx(318 / 191 - 1, rel=0.01)
