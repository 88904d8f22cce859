"""Covering every division into sets: bounds against placements, symmetries against brute force."""

import random
from itertools import combinations

import numpy as np
import pytest

from tests.mapping.test_sets import certain, grouped
from toposeat import _core
from toposeat.evaluation import Evaluator
from toposeat.mapping import map_traffic
from toposeat.mapping.set_cover import Looks, SetCover
from toposeat.model.map_options import MapOptions
from toposeat.model.traffic import Exchange
from toposeat.profile import pattern_traffic

MACHINES = ("k80-16", "k80-16-faraji", "dgx-2", "aurora-12", "mi250x-8", "dgx-1p")


def random_groups(rng, ranks):
    groups = []
    for _ in range(rng.randint(1, 5)):
        members = tuple(rng.sample(range(ranks), rng.randint(2, ranks)))
        groups.append((rng.choice(list(Exchange)), members, rng.randint(1, 100) * 10**6))
    return grouped(ranks, groups)


def cover_of(evaluator, ranks, count):
    assert evaluator.groups is not None
    allowed = [tuple(range(count))] * ranks
    return SetCover(evaluator.groups, allowed, range(count), {}, Looks(1e6))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("seed", range(3))
def test_no_placement_is_below_the_bound_of_its_first_ranks(name, seed):
    machine, rng = certain(name), random.Random(seed)
    count = len(machine.devices)
    ranks = rng.randint(4, count)
    layout = f"llm:tp=2,pp=2,dp={count // 4}"
    for traffic in (random_groups(rng, ranks), pattern_traffic(layout)):
        evaluator = Evaluator(machine, traffic)
        cover = cover_of(evaluator, traffic.ranks, count)
        for _ in range(5):
            placement = rng.sample(range(count), traffic.ranks)
            bounds = [cover.bound(placement[:seated]) for seated in range(traffic.ranks + 1)]
            assert bounds == sorted(bounds)
            assert bounds[-1] <= evaluator.evaluate(placement).predicted_s * (1 + 1e-9)


@pytest.mark.parametrize("name", ["k80-16", "k80-16-faraji", "dgx-2"])
@pytest.mark.parametrize("sizes", ["tp=2,pp=1,dp=8", "tp=4,pp=1,dp=4", "tp=16", "dp=16"])
def test_sixteen_devices_are_proved(name, sizes):
    machine = certain(name)
    traffic = pattern_traffic("llm:" + sizes)
    result = map_traffic(machine, traffic, MapOptions(budget_s=60))
    assert result.certificate.word == "proved"
    evaluator, rng = Evaluator(machine, traffic), random.Random(sizes)
    for _ in range(40):
        found = evaluator.evaluate(rng.sample(range(16), 16)).predicted_s
        assert found >= result.certificate.value * (1 - 1e-9)


def test_what_is_shuffled_is_put_back_and_proved():
    """Pairs of a box with two GPUs on each board, its ranks shuffled: all pairs get a board."""
    order = list(range(16))
    random.Random(3).shuffle(order)
    pairs = [(Exchange.RING, (order[at], order[at + 1]), 10**9) for at in range(0, 16, 2)]
    whole = (Exchange.RING, tuple(range(16)), 10**9)
    result = map_traffic(certain("k80-16"), grouped(16, [*pairs, whole]), MapOptions(budget_s=60))
    seats = {frozenset(result.device_of_rank[rank] for rank in ranks) for _, ranks, _ in pairs}
    assert seats == {frozenset((at, at + 1)) for at in range(0, 16, 2)}
    assert result.certificate.proved


def test_where_time_is_short_nothing_is_proved_but_a_bound_is_told():
    traffic = random_groups(random.Random(8), 12)
    machine = certain("aurora-12")
    short = map_traffic(machine, traffic, MapOptions(budget_s=0.05)).certificate
    assert short.lower_bound is not None
    assert short.lower_bound <= short.value
    assert short.proved == (short.gap == 0)


def test_symmetries_are_those_of_a_square_table():
    ring = np.array([[0.0 if (a - b) % 5 in (1, 4) else 1.0 for a in range(5)] for b in range(5)])
    symmetry = _core.Symmetry(ring)
    assert symmetry.representatives([], range(5)) == [0]
    assert symmetry.representatives([0], [1, 2, 3, 4]) == [1, 2]  # the mirror image is left
    assert all(
        len(symmetry.representatives([0, 1], each)) == 2 for each in combinations((2, 3, 4), 2)
    )
    with pytest.raises(ValueError, match="5 places"):
        symmetry.representatives([5], [0])
    with pytest.raises(ValueError, match="square"):
        _core.Symmetry(ring[:3])
