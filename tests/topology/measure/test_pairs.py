"""Rounds of pairs, and what is made of their times."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.measure.fake_node import FakeWorkers, fair_rates, shared_links
from toposeat.topology import read_topology
from toposeat.topology.measure import PairResults, measure_pairs, tournament, try_sets
from toposeat.topology.measure.pairs import clusters, crossing_flows
from toposeat.topology.measure.results import LARGE_BYTES, LATENCY_BYTES, SMALL_BYTES, Transfers


@given(st.integers(2, 40))
def test_everyone_meets_everyone_once_and_nobody_plays_twice_a_round(count):
    rounds = tournament(count)
    matches = [match for each in rounds for match in each]
    assert sorted(matches) == [(a, b) for a in range(count) for b in range(a + 1, count)]
    for each in rounds:
        players = [player for match in each for player in match]
        assert len(players) == len(set(players))
    assert len(rounds) == (count - 1 if count % 2 == 0 else count)


@given(
    st.floats(1e-7, 1e-3),
    st.floats(1e6, 1e12),
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_the_slope_gives_the_bandwidth_whatever_the_latency(latency, rate, noise):
    results = PairResults(2)
    for size in (LATENCY_BYTES, SMALL_BYTES, LARGE_BYTES):
        exact = latency + size / rate
        results.add(Transfers(0, 1, "get", size, (exact, *(exact * (1 + x) for x in noise))))
    found = results.bandwidth("get")
    assert found[0, 1] == pytest.approx(rate, rel=1e-3)
    assert np.isnan(found[1, 0])
    assert np.isnan(results.bandwidth("put")).all()
    assert results.latency("get")[0, 1] == pytest.approx(latency + LATENCY_BYTES / rate)


def test_measurements_of_one_kind_add_up():
    results = PairResults(2)
    results.add(Transfers(0, 1, "get", LARGE_BYTES, (3.0, 2.0)))
    results.add(Transfers(0, 1, "get", LARGE_BYTES, (1.0,)))
    (only,) = results.of.values()
    assert only.seconds == (3.0, 2.0, 1.0)
    assert only.best == 1.0
    assert only.spread == pytest.approx(1.0)
    assert results.spread() == pytest.approx(1.0)
    assert math.isnan(PairResults(2).spread())


def test_every_pair_is_measured_whatever_the_budget():
    machine = read_topology("k80-16")
    results = PairResults(16)
    measure_pairs(FakeWorkers(machine, 0.01), ["get", "staged"], 0.0, results, lambda *_: None)
    for protocol in ("get", "staged"):
        found = results.bandwidth(protocol)
        assert np.isnan(found).sum() == 16  # the diagonal
    times = {key[3]: len(found.seconds) for key, found in results.of.items()}
    assert times[LATENCY_BYTES] > times[LARGE_BYTES] > 1  # short ones vary more, and cost little


def test_a_pair_without_peer_access_is_known_as_staged():
    machine = read_topology("k80-16")
    denied = frozenset({(0, 9)})
    results = PairResults(16)
    measure_pairs(FakeWorkers(machine, denied=denied), ["get"], 0.0, results, lambda *_: None)
    assert np.isnan(results.bandwidth("get")[0, 9])
    assert results.bandwidth("staged")[0, 9] > 0
    assert np.isnan(results.bandwidth("staged")[9, 0])


@pytest.mark.parametrize(("budget", "largest"), [(0.0, 4 << 20), (60.0, 64 << 20)])
def test_larger_sizes_where_the_budget_allows(budget, largest):
    workers, results = FakeWorkers(read_topology("dgx-1v")), PairResults(8)
    measure_pairs(workers, ["get"], budget, results, lambda *_: None)
    assert max(key[3] for key in results.of) == largest
    curve = results.curve(0, 1, "get")
    assert curve is not None
    assert curve.points[-1].message_bytes == largest
    if budget:  # for all pairs
        assert not np.isnan(results.best("get", largest)[~np.eye(8, dtype=bool)]).any()


def alone(machine):
    """Bandwidth of each ordered pair alone."""
    n = len(machine.devices)
    values = np.full((n, n), np.nan)
    for i in range(n):
        for j in range(n):
            if i != j:
                values[i, j] = fair_rates(machine, [(i, j)])[i, j]
    return values


def nested(levels, rates):
    """A matrix of groups in groups: pairs whose smallest common group is of level k have rate k."""
    n = int(np.prod(levels))
    values = np.full((n, n), np.nan)
    for i in range(n):
        for j in range(n):
            if i != j:
                size, level = 1, 0
                while i // (size * levels[level]) != j // (size * levels[level]):
                    size, level = size * levels[level], level + 1
                values[i, j] = rates[level]
    return values


K80_SETS = [
    *({2 * k, 2 * k + 1} for k in range(8)),
    *({4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3} for k in range(4)),
    *({*range(8 * k, 8 * k + 8)} for k in range(2)),
]


def test_clusters_of_the_sixteen_gpu_node():
    assert [set(each) for each in clusters(alone(read_topology("k80-16")))] == K80_SETS


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(2, 4), min_size=2, max_size=3),
    st.floats(1.2, 5),
    st.floats(0, 0.01),
    st.integers(0, 2**32 - 1),
)
def test_nested_groups_are_found_through_noise_and_in_any_order(levels, step, noise, seed):
    exact = nested(levels, [1e9 / step**k for k in range(len(levels))])
    n = len(exact)
    generator = np.random.default_rng(seed)
    order = generator.permutation(n)
    noisy = exact * (1 - noise * generator.random((n, n)))
    expected, size = [], 1
    for level in levels[:-1]:
        size *= level
        expected += [frozenset(range(k, k + size)) for k in range(0, n, size)]
    moved = noisy[np.ix_(order, order)]
    found = {frozenset(int(order[i]) for i in each) for each in clusters(moved)}
    assert found == set(expected)


@given(st.integers(2, 12), st.floats(1e6, 1e12))
def test_equal_pairs_make_no_cluster(count, rate):
    assert clusters(np.full((count, count), rate)) == []


@given(st.integers(2, 8), st.data())
def test_any_matrix_gives_proper_sets(count, data):
    cell = st.one_of(st.just(float("nan")), st.just(0.0), st.floats(1e3, 1e12))
    rows = st.lists(cell, min_size=count, max_size=count)
    values = np.array(data.draw(st.lists(rows, min_size=count, max_size=count)))
    for inside in clusters(values):
        assert 1 < len(inside) < count
        flows = crossing_flows(inside, values)
        assert len(flows) == min(len(inside), count - len(inside))
        assert len({s for s, _ in flows}) == len({t for _, t in flows}) == len(flows)
        assert all(s in inside and t not in inside for s, t in flows)


def test_one_slow_direction_hides_no_cluster():
    values = nested([2, 2, 2], [4e9, 2e9, 1e9])
    values[0, 1] = np.nan
    values[2, 3] = 1e8  # a disturbed measurement
    assert [set(each) for each in clusters(values)][:4] == [{0, 1}, {2, 3}, {4, 5}, {6, 7}]


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_shared_links_of_the_sixteen_gpu_node(noise):
    machine = read_topology("k80-16")
    rates = alone(machine)
    done = []
    tried = try_sets(FakeWorkers(machine, noise), rates, "get", lambda *at: done.append(at))
    found = [each for each in tried if each.limits]
    assert [set(each.inside) for each in found][:12] == K80_SETS[:12]
    for each in found:
        flows = crossing_flows(each.inside, rates)
        assert each.out_bytes_per_s == pytest.approx(
            sum(fair_rates(machine, flows).values()),
            rel=0.04,  # latency counts as well
        )
        back = [(t, s) for s, t in flows]
        assert each.in_bytes_per_s == pytest.approx(
            sum(fair_rates(machine, back).values()),
            rel=0.04,  # latency counts as well
        )
    assert len(done) == len(K80_SETS)


def test_gpus_with_private_ports_share_nothing():
    machine = read_topology("dgx-a100")
    assert shared_links(FakeWorkers(machine), alone(machine)) == []


def test_what_cannot_be_filled_is_no_constraint():
    machine = read_topology("k80-16")
    rates = alone(machine)
    tried = try_sets(FakeWorkers(machine), rates, "get", lambda *_: None)
    assert [set(each.inside) for each in tried] == K80_SETS
    assert [each.limits for each in tried] == [True] * 12 + [False] * 2  # the sockets
    for socket in tried[12:]:
        # each of the socket's two boards' uplinks carries all it can
        uplinks = [x for x in tried if len(x.inside) == 4 and x.inside < socket.inside]
        assert socket.out_bytes_per_s == pytest.approx(
            sum(each.out_bytes_per_s for each in uplinks), rel=0.04
        )
