"""Rounds of pairs, and what is made of their times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.measure.fake_node import FakeWorkers
from toposeat.topology import read_topology
from toposeat.topology.measure import PairResults, measure_pairs, tournament
from toposeat.topology.measure.results import LARGE_BYTES, LATENCY_BYTES, SMALL_BYTES, Transfers


@given(st.integers(2, 40))
def test_everyone_meets_everyone_once_and_nobody_plays_twice_a_round(count: int) -> None:
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
def test_the_slope_gives_the_bandwidth_whatever_the_latency(
    latency: float, rate: float, noise: list[float]
) -> None:
    results = PairResults(2)
    for size in (LATENCY_BYTES, SMALL_BYTES, LARGE_BYTES):
        exact = latency + size / rate
        results.add(Transfers(0, 1, "get", size, (exact, *(exact * (1 + x) for x in noise))))
    found = results.bandwidth("get")
    assert found[0, 1] == pytest.approx(rate, rel=1e-3)
    assert np.isnan(found[1, 0])
    assert np.isnan(results.bandwidth("put")).all()
    assert results.latency("get")[0, 1] == pytest.approx(latency + LATENCY_BYTES / rate)


def test_measurements_of_one_kind_add_up() -> None:
    results = PairResults(2)
    results.add(Transfers(0, 1, "get", LARGE_BYTES, (3.0, 2.0)))
    results.add(Transfers(0, 1, "get", LARGE_BYTES, (1.0,)))
    (only,) = results.of.values()
    assert only.seconds == (3.0, 2.0, 1.0)
    assert only.best == 1.0
    assert only.spread == pytest.approx(1.0)
    assert results.spread() == pytest.approx(1.0)
    assert math.isnan(PairResults(2).spread())


def test_every_pair_is_measured_whatever_the_budget() -> None:
    machine = read_topology("k80-16")
    results = PairResults(16)
    measure_pairs(FakeWorkers(machine, 0.01), ["get", "staged"], 0.0, results, lambda *_: None)
    for protocol in ("get", "staged"):
        found = results.bandwidth(protocol)
        assert np.isnan(found).sum() == 16  # the diagonal


def test_a_pair_without_peer_access_is_known_as_staged() -> None:
    machine = read_topology("k80-16")
    denied = frozenset({(0, 9)})
    results = PairResults(16)
    measure_pairs(FakeWorkers(machine, denied=denied), ["get"], 0.0, results, lambda *_: None)
    assert np.isnan(results.bandwidth("get")[0, 9])
    assert results.bandwidth("staged")[0, 9] > 0
    assert np.isnan(results.bandwidth("staged")[9, 0])


@pytest.mark.parametrize(("budget", "largest"), [(0.0, 4 << 20), (60.0, 64 << 20)])
def test_larger_sizes_where_the_budget_allows(budget: float, largest: int) -> None:
    workers, results = FakeWorkers(read_topology("dgx-1v")), PairResults(8)
    measure_pairs(workers, ["get"], budget, results, lambda *_: None)
    assert max(key[3] for key in results.of) == largest
    curve = results.curve(0, 1, "get")
    assert curve is not None
    assert curve.points[-1].message_bytes == largest
    if budget:  # for all pairs
        assert not np.isnan(results.best("get", largest)[~np.eye(8, dtype=bool)]).any()
