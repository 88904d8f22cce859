"""The search for pairwise cost through the core: QAPLIB, determinism, refused input."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toposeat import _core

# 2e6 moves take about a second; no instance of up to 30 ranks took more than 0.7e6 (ADR 0006).
MOVES = 2_000_000
LARGER = ("esc64a", "kra32", "lipa50b", "sko49", "ste36c", "tai35b", "tai64c", "wil50")


def known(folder):
    lines = (folder / "qaplib" / "best-known.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return [(row[0], int(row[1]), int(row[2])) for row in rows]


def matrices(folder, name):
    words = (folder / "qaplib" / f"{name}.dat").read_text(encoding="ascii").split()
    size = int(words[0])
    numbers = np.array(words[1 : 1 + 2 * size * size], np.float64)
    flow, distance = numbers.reshape(2, size, size)
    return flow, distance


def cost_of(flow, distance, placement):
    where = np.array(placement)
    return float((flow * distance[np.ix_(where, where)]).sum())


def misses(folder, instances, seed):
    found = []
    for name, best_known in instances:
        flow, distance = matrices(folder, name)
        record = _core.search_pairwise(
            flow, distance, seed=seed, budget_s=60, moves=MOVES, target=best_known
        )
        assert sorted(record.placement) == list(range(len(flow)))
        assert record.cost == cost_of(flow, distance, record.placement)
        if record.cost != best_known:
            found.append(f"{name}: {record.cost:.0f}, best known {best_known}")
    return found


def test_every_small_instance_reaches_its_best_known_cost(shared_dir):
    small = [(name, cost) for name, size, cost in known(shared_dir) if size <= 30]
    assert len(small) == 79
    assert misses(shared_dir, small, seed=1) == []


def test_larger_structured_instances_reach_theirs(shared_dir):
    larger = [(name, cost) for name, _, cost in known(shared_dir) if name in LARGER]
    assert len(larger) == len(LARGER)
    assert misses(shared_dir, larger, seed=1) == []


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_strategy_agrees_with_brute_force(data):
    size = data.draw(st.integers(1, 6))
    whole = st.lists(st.integers(0, 9), min_size=size * size, max_size=size * size)
    flow = np.array(data.draw(whole), np.float64).reshape(size, size)
    distance = np.array(data.draw(whole), np.float64).reshape(size, size) / 3
    best = min(cost_of(flow, distance, list(each)) for each in permutations(range(size)))
    for strategy in ("auto", "iterated", "memetic"):
        record = _core.search_pairwise(flow, distance, strategy=strategy, moves=4000, budget_s=60)
        assert record.cost == pytest.approx(best)


def test_moves_not_time_decide_the_answer():
    rng = np.random.default_rng(3)
    flow, distance = rng.integers(0, 100, (2, 60, 60)).astype(np.float64)
    first, again, other = (
        _core.search_pairwise(flow, distance, seed=seed, moves=3000, budget_s=60)
        for seed in (4, 4, 5)
    )
    assert first.placement == again.placement
    assert first.moves == again.moves == 3000
    assert other.placement != first.placement


def test_ends_at_a_target():
    rng = np.random.default_rng(3)
    flow, distance = rng.integers(0, 100, (2, 20, 20)).astype(np.float64)
    first = _core.search_pairwise(flow, distance, moves=5000, budget_s=60)
    stopped = _core.search_pairwise(flow, distance, moves=5000, budget_s=60, target=first.cost)
    assert stopped.cost == first.cost
    assert stopped.moves < 5000
    assert stopped.seconds_to_best <= stopped.seconds


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_refuses_what_is_not_a_number(bad):
    flow = np.ones((4, 4))
    flow[1, 2] = bad
    with pytest.raises(ValueError, match="finite"):
        _core.search_pairwise(flow, np.ones((4, 4)))


def test_refuses_matrices_that_do_not_fit():
    with pytest.raises(ValueError, match="one size"):
        _core.search_pairwise(np.ones((4, 4)), np.ones((3, 3)))
    with pytest.raises(ValueError, match="strategy"):
        _core.search_pairwise(np.ones((4, 4)), np.ones((4, 4)), strategy="luck")
