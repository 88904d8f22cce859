"""Groups that a library orders itself: against every placement, and where nothing can be gained."""

import random
from dataclasses import replace
from itertools import permutations

import pytest

from tests.mapping.machines import corners_of, ends_of, machine_at, two_islands
from tests.support.catalogue import CATALOGUE
from toposeat.errors import UsageError
from toposeat.evaluation import Evaluator, group_rate
from toposeat.mapping import map_traffic
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.traffic import Communicator, Exchange, GroupLoad, Traffic
from toposeat.profile import pattern_traffic
from toposeat.report import mapping_json, range_words
from toposeat.topology import read_topology


def grouped(ranks, groups):
    return Traffic(
        ranks=ranks,
        origin="test",
        tables={},
        communicators=tuple(
            Communicator(id=at, ranks=members, name=f"group {at}")
            for at, (_, members, _) in enumerate(groups)
        ),
        groups=tuple(
            GroupLoad(communicator=at, library="nccl", exchange=exchange, bytes=size, messages=1)
            for at, (exchange, _, size) in enumerate(groups)
        ),
    )


def random_groups(rng, ranks, most):
    """Up to so many groups of any kind."""
    groups = []
    for _ in range(rng.randint(1, most)):
        members = tuple(rng.sample(range(ranks), rng.randint(2, ranks)))
        groups.append((rng.choice(list(Exchange)), members, rng.randint(1, 100) * 10**6))
    return grouped(ranks, groups)


def mapped(name, pattern):
    options = MapOptions(budget_s=20)  # a busy machine proves it too
    return map_traffic(read_topology(name), pattern_traffic(pattern), options)


def certain(name):
    """A machine of which nothing is assumed."""
    return replace(read_topology(name), premises=())


def saved(result):
    return 1 - result.placed.predicted_s / result.default.predicted_s


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("axis", ["tp", "dp"])
def test_a_group_of_all_devices_gains_nothing(name, axis):
    count = len(read_topology(name).devices)
    result = mapped(name, f"llm:{axis}={count}")
    assert result.device_of_rank == tuple(range(count))
    assert result.certificate.value == pytest.approx(result.default.predicted_s)
    assert result.certificate.word == "proved"


@pytest.mark.parametrize("objective", ["cost", "congestion"])
def test_no_objective_gains_by_the_order_inside_a_group(objective):
    options = MapOptions(objective=objective)
    for name in ("dgx-1v", "rtx-4-crossed-bridges", "k40-8"):
        machine = read_topology(name)
        ranks = len(machine.devices)
        result = map_traffic(machine, pattern_traffic(f"llm:tp={ranks}"), options)
        assert result.device_of_rank == tuple(range(ranks))
        order = list(range(ranks))
        random.Random(name).shuffle(order)
        evaluator = Evaluator(machine, pattern_traffic(f"llm:tp={ranks}"))
        assert evaluator.evaluate(order).value(objective) == pytest.approx(
            result.default.value(objective)
        )


@pytest.mark.parametrize("objective", ["cost", "congestion"])
@pytest.mark.parametrize("seed", range(6))
def test_other_objectives_against_every_placement(objective, seed):
    rng = random.Random(seed)
    machine = read_topology(rng.choice(["dgx-1v", "mi60-8", "k40-8", "rtx-4-crossed-bridges"]))
    members = [tuple(rng.sample(range(4), rng.randint(2, 4))) for _ in range(rng.randint(1, 3))]
    traffic = grouped(4, [(Exchange.RING, each, rng.randint(1, 9) << 20) for each in members])
    result = map_traffic(machine, traffic, MapOptions(objective=objective))
    evaluator = Evaluator(machine, traffic)
    every = [evaluator.evaluate(order) for order in permutations(range(len(machine.devices)), 4)]
    least = min(each.value(objective) for each in every)
    assert result.certificate.value == pytest.approx(
        evaluator.evaluate(result.device_of_rank).value(objective)
    )
    assert result.placed.predicted_s <= result.default.predicted_s * (1 + 1e-9)
    assert (result.certificate.lower_bound or 0) <= least * (1 + 1e-9)
    if result.certificate.proved:
        assert result.certificate.value == pytest.approx(least)


def test_tensor_parallel_pairs_get_the_crossed_bridges():
    result = mapped("rtx-4-crossed-bridges", "llm:tp=2,pp=2,dp=1")
    assert {frozenset(result.device_of_rank[at : at + 2]) for at in (0, 2)} == {
        frozenset((0, 2)),
        frozenset((1, 3)),
    }
    tensor = result.default.phases[0], result.placed.phases[0]
    assert 1 - tensor[1].seconds / tensor[0].seconds == pytest.approx(0.70, abs=0.02)
    assert result.placed.groups[0].bytes_per_s == pytest.approx(48e9, rel=0.01)


def test_the_range_is_said_to_be_that_of_the_phases():
    machine = certain("rtx-4-crossed-bridges")
    traffic = pattern_traffic("llm:tp=2,pp=2,dp=1")
    result = map_traffic(machine, traffic)
    form = mapping_json(result, machine, traffic)
    shares = sorted(1 - form["placed"][end] / form["default"][end] for end in ("low_s", "high_s"))
    assert result.premises.gain_range == pytest.approx(tuple(shares))
    assert form["default"]["high_s"] == pytest.approx(form["default"]["predicted_s"])
    words = range_words(result.premises) or ""
    assert words.endswith("depending on whether phases overlap.")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("rtx-4-crossed-bridges", "llm:tp=2,pp=2,dp=1"),
        ("mi100-8", "llm:tp=4,pp=1,dp=2"),
        ("k40-8", "llm:tp=2,pp=2,dp=2"),
    ],
)
def test_the_range_covers_what_is_assumed_of_the_machine(name, pattern):
    machine, traffic = read_topology(name), pattern_traffic(pattern)
    result = map_traffic(machine, traffic)
    low, high = result.premises.gain_range
    found = []
    for end in ends_of(machine):
        evaluator = Evaluator(machine_at(machine, end), traffic)
        rows = result.default.device_of_rank, result.device_of_rank
        before, after = (evaluator.evaluate(row) for row in rows)
        found.append(1 - after.predicted_s / before.predicted_s)
    assert min(found) >= -0.1
    assert low - 1e-9 <= min(found)
    assert max(found) <= high + 1e-9
    if max(found) - min(found) > 0.01:
        assert result.premises.depends_on
        assert "depending on " in (range_words(result.premises) or "")


@pytest.mark.parametrize("seed", range(8))
def test_proved_is_said_of_all_that_is_assumed(seed):
    rng = random.Random(seed)
    machine = read_topology(rng.choice(["k40-4", "rtx-4-crossed-bridges"]))
    traffic = random_groups(rng, 4, 3)
    result = map_traffic(machine, traffic, MapOptions(budget_s=20))
    gaps = []
    for corner in corners_of(machine):
        other = machine_at(machine, corner)
        placed = Evaluator(other, traffic).evaluate(result.device_of_rank).predicted_s
        gaps.append(placed / everything(other, traffic) - 1)
    assert not result.certificate.everywhere or max(gaps) <= 1e-9
    if max(gaps) > 1e-9:
        assert result.certificate.word != "proved"


def test_an_answer_that_may_be_slower_is_refused_and_nothing_is_proved_of_the_default():
    """Links of 60 GB/s that may have 6: nominally they are best for pairs."""
    machine = two_islands(across=60e9, low=0.1)
    traffic = grouped(4, [(Exchange.RING, each, 10**9) for each in ((0, 1), (2, 3))])
    assert saved(map_traffic(replace(machine, premises=()), traffic)) == pytest.approx(0.5)
    result = map_traffic(machine, traffic)
    assert result.device_of_rank == result.default.device_of_rank
    assert result.certificate.lower_bound == pytest.approx(result.certificate.value / 2)
    assert not result.certificate.proved
    assert result.premises.barred.worst.share == pytest.approx(-4)
    assert result.premises.barred.worst.scenario == "across of 3 GB/s"


def test_known_boxes():
    pairs = mapped("dgx-1v", "llm:tp=2,pp=1,dp=4")
    before, after = pairs.default.phases[0].seconds, pairs.placed.phases[0].seconds
    assert after == pytest.approx(before / 2)
    assert saved(mapped("dgx-1v", "llm:tp=4,pp=1,dp=2")) == 0
    assert saved(mapped("mi60-8", "llm:tp=4,pp=1,dp=2")) == 0
    assert saved(mapped("hgx-h100", "llm:tp=2,pp=2,dp=2")) == 0


def test_no_gain_rests_on_rings_through_dies_outside_of_a_group():
    machine = read_topology("mi250x-8")
    direct, forwarded = (group_rate(machine, each) for each in ((0, 2, 4, 6), (0, 2, 5, 7)))
    assert forwarded.bytes_per_s < direct.bytes_per_s
    assert len(forwarded.rings) == 1
    assert saved(mapped("mi250x-8", "llm:tp=2,pp=1,dp=4")) == 0
    four = mapped("mi250x-8", "llm:tp=4,pp=1,dp=2")
    assert four.placed.phases[0].seconds == pytest.approx(four.default.phases[0].seconds)


def everything(machine, traffic):
    """The least sum of phases that is at the low end no slower than the default, of all orders."""
    evaluator = Evaluator(machine, traffic)
    default = evaluator.groups.seconds(range(traffic.ranks))
    values = (
        evaluator.groups.seconds(order)
        for order in permutations(range(len(machine.devices)), traffic.ranks)
    )
    return min(sum(each) for each in values if max(each) <= max(default) * (1 + 1e-9))


@pytest.mark.parametrize("seed", range(12))
def test_no_placement_is_better_than_one_that_is_proved(seed):
    rng = random.Random(seed)
    machine = certain(rng.choice(["dgx-1v", "mi60-8", "k40-8", "rtx-4-crossed-bridges"]))
    ranks = min(len(machine.devices), 5)
    traffic = random_groups(rng, ranks, 4)
    result = map_traffic(machine, traffic, MapOptions(budget_s=20))
    assert result.certificate.proved
    assert result.placed.predicted_s == pytest.approx(everything(machine, traffic))


def test_the_order_inside_a_group_costs_nothing():
    machine = read_topology("dgx-1v")
    traffic = grouped(
        8, [(Exchange.RING, (0, 1, 2, 3), 10**9), (Exchange.RING, (4, 5, 6, 7), 10**9)]
    )
    evaluator = Evaluator(machine, traffic)
    one = evaluator.evaluate((0, 1, 2, 3, 4, 5, 6, 7))
    other = evaluator.evaluate((3, 0, 1, 2, 7, 6, 4, 5))
    assert other.predicted_s == one.predicted_s
    assert other.links == one.links


def test_disjoint_groups_run_together_and_others_after_them():
    machine = read_topology("hgx-h100")
    pairs = [(Exchange.RING, (at, at + 1), 10**9) for at in (0, 2, 4, 6)]
    one = Evaluator(machine, grouped(8, pairs)).evaluate(range(8))
    two = Evaluator(machine, grouped(8, [*pairs, *pairs])).evaluate(range(8))
    assert len(one.phases) == 1
    assert [phase.seconds for phase in two.phases] == [one.predicted_s] * 2
    assert two.low_s == one.predicted_s
    assert two.predicted_s == 2 * one.predicted_s


def test_constraints_hold():
    machine = read_topology("dgx-1v")
    traffic = pattern_traffic("llm:tp=2,pp=1,dp=2")
    constraints = Constraints(pins={0: 5}, exclude=[4])
    found = map_traffic(machine, traffic, MapOptions(constraints=constraints)).device_of_rank
    assert found[0] == 5
    assert 4 not in found
    assert len(set(found)) == 4
    with pytest.raises(UsageError):
        map_traffic(machine, traffic, MapOptions(constraints=Constraints(pins={0: 9})))


def test_a_pairwise_exchange_is_no_ring():
    machine = read_topology("k40-8")
    members = (0, 1, 2, 3)
    ring = Evaluator(machine, grouped(4, [(Exchange.RING, members, 10**9)])).evaluate(members)
    each = Evaluator(machine, grouped(4, [(Exchange.PAIRWISE, members, 10**9)])).evaluate(members)
    assert each.predicted_s > 2 * ring.predicted_s


@pytest.mark.parametrize("name", ["k80-16", "k80-16-faraji", "dgx-2"])
@pytest.mark.parametrize("sizes", ["tp=2,pp=1,dp=8", "tp=4,pp=1,dp=4", "tp=16", "dp=16"])
def test_sixteen_devices_are_proved(name, sizes):
    machine, traffic = certain(name), pattern_traffic("llm:" + sizes)
    result = map_traffic(machine, traffic, MapOptions(budget_s=60))
    assert result.certificate.word == "proved"
    none_is_faster(machine, traffic, result.certificate.value, random.Random(sizes))


@pytest.mark.parametrize("name", ["k80-16", "k80-16-faraji", "aurora-12", "mi250x-8", "dgx-1p"])
@pytest.mark.parametrize("seed", range(2))
def test_no_placement_is_below_a_bound(name, seed):
    """However little time there was for it."""
    machine, rng = certain(name), random.Random(seed)
    for budget_s in (0.02, 0.5):
        traffic = random_groups(rng, rng.randint(4, len(machine.devices)), 5)
        found = map_traffic(machine, traffic, MapOptions(budget_s=budget_s)).certificate
        assert found.lower_bound is not None
        assert found.proved == (found.gap == 0)
        none_is_faster(machine, traffic, found.lower_bound, rng)


def none_is_faster(machine, traffic, seconds, rng):
    evaluator = Evaluator(machine, traffic)
    for _ in range(40):
        order = rng.sample(range(len(machine.devices)), traffic.ranks)
        assert evaluator.evaluate(order).predicted_s >= seconds * (1 - 1e-9)


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
