"""Curves and ratio matrices from times."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.measure.fake_node import FakeWorkers
from toposeat.model.quantity import Source
from toposeat.topology import read_topology
from toposeat.topology.measure import (
    PairResults,
    measure_both_ways,
    measure_pairs,
    with_results,
)
from toposeat.topology.measure.results import SIZES, Transfers


@given(
    st.lists(st.floats(1e-6, 1e-4), min_size=len(SIZES), max_size=len(SIZES)),
    st.floats(1e7, 1e11),
)
def test_a_curve_gives_back_the_times_it_was_made_of(waits, rate):
    times = [wait + size / rate for wait, size in zip(sorted(waits), SIZES, strict=True)]
    results = PairResults(2)
    for size, seconds in zip(SIZES, times, strict=True):
        results.add(Transfers(1, 0, "put", size, (seconds,)))
    curve = results.curve(1, 0, "put")
    assert curve is not None
    assert curve.source is Source.MEASURED
    slope = float(results.bandwidth("put")[1, 0])
    for size, seconds in zip(SIZES, times, strict=True):
        latency, bandwidth = curve.at(size)
        if latency > 0 or size > 2048:
            assert latency + size / bandwidth == pytest.approx(seconds)
        else:  # a small message cannot be faster than its bytes
            assert seconds <= size / slope * (1 + 1e-9)


def test_too_few_sizes_make_no_curve():
    results = PairResults(2)
    assert results.curve(0, 1, "get") is None
    results.add(Transfers(0, 1, "get", 8, (1e-5,)))
    assert results.curve(0, 1, "get") is None


def test_ratios_of_the_sixteen_gpu_node():
    results = PairResults(16)
    machine = read_topology("k80-16")
    measure_pairs(FakeWorkers(machine), ["get"], 0.0, results, lambda *_: None)
    rate, ratio = results.bandwidth("get"), results.bandwidth_ratio("get")
    assert ratio[0, 8] == pytest.approx(1.0)
    assert ratio[0, 1] > ratio[0, 2] > ratio[0, 4] > 1.0
    # below what large messages alone show: small ones of every pair wait as long
    assert ratio[0, 1] < rate[0, 1] / rate[0, 8]
    assert results.latency_ratio("get")[0, 8] == pytest.approx(1.0)
    assert np.isnan(results.bandwidth_ratio("put")).all()


def test_both_directions_of_a_pair_share_what_its_links_carry_together():
    machine = read_topology("k80-16")
    uplink = next(x for x in machine.links if x.combined_bytes_per_s is None)
    links = tuple(
        replace(x, combined_bytes_per_s=x.forward_bytes_per_s) if x.id == uplink.id else x
        for x in machine.links
    )
    machine = replace(machine, links=links)
    workers, results = FakeWorkers(machine), PairResults(16)
    measure_pairs(workers, ["get"], 0.0, results, lambda *_: None)
    seen = []
    measure_both_ways(workers, "get", results, lambda *at: seen.append(at))
    assert len(seen) == 120
    both, alone = results.both_ways("get"), results.bandwidth("get")
    assert both == pytest.approx(both.T, nan_ok=True)
    assert np.nanmin(results.both_ways_ratio("get")) == 1.0
    learned = with_results(machine, workers.pci, results, "get")
    for (a, b), route in learned.route_of_pair.items():
        i, j = (int(name.removeprefix("gpu")) for name in (a, b))
        shared = uplink.id in route.links
        assert both[i, j] <= alone[i, j] + alone[j, i]
        if shared and route.cap_bytes_per_s is None:
            assert route.combined_bytes_per_s is not None
            assert route.combined_bytes_per_s.source is Source.MEASURED
        if route.combined_bytes_per_s is not None:
            assert route.combined_bytes_per_s.value == pytest.approx(both[i, j])
    count = workers.asked
    measure_both_ways(workers, "get", results, lambda *_: None)
    assert workers.asked == count  # what is known is not measured again
