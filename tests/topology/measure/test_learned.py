"""Topologies from measurements: laid onto a known machine, or made of nothing else; drift."""

from dataclasses import replace

import numpy as np
import pytest

from tests.topology.measure.fake_node import FakeWorkers, fair_rates, shared_links
from toposeat.model.quantity import Quantity, Source
from toposeat.topology import read_topology, save_topology
from toposeat.topology.measure import (
    PairResults,
    SharedLink,
    facts_of_measurement,
    measure_host,
    measure_pairs,
    measured_topology,
    topology_of_measurement,
    with_results,
)
from toposeat.topology.measure.results import Transfers


def measured(machine, **options):
    """All pairs of a machine, measured on its model."""
    workers = FakeWorkers(machine, **options)  # type: ignore[arg-type]
    results = PairResults(workers.count)
    measure_pairs(workers, ["get"], 0.0, results, lambda *_: None)
    return workers, results


def slower(machine, factor):
    """The same machine with all links and caps slower."""
    return replace(
        machine,
        links=tuple(
            replace(
                link,
                forward_bytes_per_s=Quantity(link.forward_bytes_per_s.value * factor),
                backward_bytes_per_s=Quantity(link.backward_bytes_per_s.value * factor),
                combined_bytes_per_s=None,
            )
            for link in machine.links
        ),
        routes=tuple(
            replace(r, cap_bytes_per_s=None, combined_bytes_per_s=None) for r in machine.routes
        ),
    )


def test_a_known_machine_takes_the_measured_capacities():
    base = read_topology("k80-16")
    real = slower(base, 0.7)
    workers, results = measured(real)
    shared = shared_links(workers, results.bandwidth("get"))
    told = []
    host = measure_host(workers, lambda done, total: told.append((done, total)))
    assert told == [(done, workers.count) for done in range(workers.count + 1)]
    facts = facts_of_measurement(workers.pci, results, "get", host)
    machine = measured_topology(base, facts, shared)
    for pair, route in machine.route_of_pair.items():
        if pair in real.route_of_pair:
            i, j = (int(name.removeprefix("gpu")) for name in pair)
            assert route.cap_bytes_per_s is not None
            assert route.cap_bytes_per_s.source is Source.MEASURED
            assert route.cap_bytes_per_s.value == pytest.approx(
                fair_rates(real, [(i, j)])[i, j], rel=0.01
            )
    uplinks = [
        link
        for link in machine.links
        if real.link_of_id[link.id].forward_bytes_per_s.value < 10e9
        and link.forward_bytes_per_s.source is Source.MEASURED
    ]
    assert len(uplinks) >= 8
    for link in uplinks:
        limit = real.link_of_id[link.id].forward_bytes_per_s.value
        assert link.forward_bytes_per_s.value <= 1.01 * limit


def test_a_machine_of_measurements_alone_predicts_sets_at_once():
    real = read_topology("k80-16")
    workers, results = measured(real)
    shared = shared_links(workers, results.bandwidth("get"))
    facts = facts_of_measurement(workers.pci, results, "get")
    learned = topology_of_measurement("node", facts, shared)
    assert any("measurements only" in line for line in learned.report)
    for flows in ([(0, 2), (1, 3)], [(0, 8), (1, 9), (2, 10), (3, 11)], [(0, 1), (2, 3)]):
        then = sum(fair_rates(real, flows).values())
        assert sum(fair_rates(learned, flows).values()) == pytest.approx(then, rel=0.06)


def test_overlapping_sets_make_no_tree():
    workers, results = measured(read_topology("k80-16"))
    facts = facts_of_measurement(workers.pci, results, "get")
    shared = [SharedLink(frozenset(x), 1e9, 1e9, 2e9) for x in ({0, 1, 2}, {2, 3, 4})]
    with pytest.raises(ValueError, match="overlap"):
        topology_of_measurement("node", facts, shared)


def test_pairs_without_peer_access_have_the_numbers_of_staging():
    real = read_topology("k80-16")
    workers, results = measured(real, denied=frozenset({(0, 8), (8, 0)}))
    facts = facts_of_measurement(workers.pci, results, "get")
    assert not np.isnan(facts.numbers[0].values[0, 8])
    machine = with_results(measured_topology(real, facts, []), workers.pci, results, "get")
    assert machine.route_of_pair["gpu0", "gpu8"].curve is not None
    assert machine.route_of_pair["gpu0", "gpu1"].curve is not None


def test_a_set_without_a_link_of_its_own_is_said():
    real = read_topology("k80-16")
    workers, results = measured(real)
    facts = facts_of_measurement(workers.pci, results, "get")
    odd = SharedLink(frozenset({0, 5}), 1e9, 1e9, 2e9)
    machine = measured_topology(real, facts, [odd])
    assert any("GPUs 0, 5 share 1 GB/s" in line for line in machine.report)


def test_drift_names_the_pair_that_moved_most():
    base = read_topology("k80-16")
    workers, results = measured(base)
    facts = facts_of_measurement(workers.pci, results, "get")
    half = np.ones((16, 16))
    half[0, 1] = 0.5
    slow = tuple(replace(each, values=each.values * half) for each in facts.numbers)
    slow = replace(facts, numbers=slow)
    before = measured_topology(base, facts, [])
    (line,) = (each for each in measured_topology(before, slow, []).report if "differ" in each)
    assert line.startswith("1 pairs differ by more than 10%")
    assert "gpu0 -> gpu1 most: -50%" in line
    for earlier, told in (
        (base, slow),
        (before, facts),
    ):  # nothing was measured before, or the same
        assert "differ" not in " ".join(measured_topology(earlier, told, []).report)


def test_measured_again_the_new_numbers_count_and_the_drift_is_said():
    base = read_topology("k80-16")
    workers, results = measured(base)
    before = measured_topology(base, facts_of_measurement(workers.pci, results, "get"), [])
    _, again = measured(slower(base, 0.7))
    after = measured_topology(before, facts_of_measurement(workers.pci, again, "get"), [])
    cap = after.route_of_pair["gpu0", "gpu1"].cap_bytes_per_s
    assert cap is not None
    assert cap.value == pytest.approx(again.bandwidth("get")[0, 1], rel=1e-6)
    assert any("pairs differ by more than 10%" in line for line in after.report)


def test_a_pair_that_cannot_copy_has_the_curve_of_staging(tmp_path):
    machine = read_topology("k80-16")
    workers = FakeWorkers(machine, denied=frozenset({(0, 8)}))
    results = PairResults(workers.count)
    measure_pairs(workers, ["get"], 0.0, results, lambda *_: None)
    learned = with_results(machine, workers.pci, results, "get")
    assert learned.route_of_pair["gpu0", "gpu8"].curve == results.curve(0, 8, "staged")
    assert learned.route_of_pair["gpu0", "gpu1"].curve == results.curve(0, 1, "get")
    save_topology(learned, tmp_path / "m.json")
    assert read_topology(tmp_path / "m.json") == learned


def test_what_both_directions_reach_is_kept_where_they_hinder_each_other():
    machine = read_topology("k80-16")
    workers = FakeWorkers(machine)
    results = PairResults(workers.count)
    measure_pairs(workers, ["get"], 0.0, results, lambda *_: None)
    for source, target in ((0, 1), (1, 0)):
        seconds = (2 * (4 << 20) / results.bandwidth("get")[source, target],)
        each = Transfers(source, target, "get", 4 << 20, seconds, at_once=True)
        results.add(each)
    route = with_results(machine, workers.pci, results, "get").route_of_pair["gpu0", "gpu1"]
    assert route.combined_bytes_per_s is not None
    alone = results.bandwidth("get")[0, 1]
    assert route.combined_bytes_per_s.value == pytest.approx(alone, rel=1e-6)
