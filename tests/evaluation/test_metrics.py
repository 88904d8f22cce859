import dataclasses

import numpy as np
import pytest

from tests.evaluation.machines import device, paper_tree, two_switches
from toposeat.errors import InputError, UsageError
from toposeat.evaluation import cost_matrix, costs_within_host, evaluate, pair_costs
from toposeat.model.map_options import METRICS
from toposeat.model.quantity import nominal
from toposeat.model.topology import Topology
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind


def test_bandwidth_of_the_paper_is_its_published_ratios():
    cost = cost_matrix(paper_tree(), "bandwidth")
    assert cost[0, [1, 2, 4, 8]] == pytest.approx([1, 2.47, 4.22, 4.47])
    assert np.array_equal(cost, cost.T)
    assert not cost.diagonal().any()


def test_distance_counts_levels_from_the_far_end():
    # Levels 0..3 have the values 4, 3, 2, 1 (maximum number of levels minus the level).
    cost = cost_matrix(paper_tree(), "distance")
    assert cost[0, [1, 2, 4, 8]] == pytest.approx([1, 4 / 3, 2, 4])


def test_latency_is_relative_to_the_nearest_pair():
    cost = cost_matrix(two_switches(uplink=50, latency=0.5), "latency")
    assert cost[0].tolist() == [0, 1, 2, 2]  # 0.5 s in a switch, 1 s over the uplink


def test_bandwidth_is_the_narrowest_of_cap_links_and_combined_capacity():
    assert cost_matrix(two_switches(uplink=50, latency=0))[0, 2] == 2
    assert cost_matrix(two_switches(uplink=50, combined=25, latency=0))[0, 2] == 4
    assert cost_matrix(two_switches(uplink=50, far_cap=10, latency=0))[0, 2] == 10


def test_directions_differ():
    machine = two_switches(uplink=50, latency=0)
    slow_back = tuple(
        dataclasses.replace(each, backward_bytes_per_s=nominal(10)) if each.id == "up" else each
        for each in machine.links
    )
    cost = cost_matrix(dataclasses.replace(machine, links=slow_back))
    assert (cost[0, 2], cost[2, 0]) == (2, 10)


def test_bad_input():
    machine = two_switches(uplink=50, latency=0)
    with pytest.raises(UsageError, match="unknown metric 'speed'") as caught:
        cost_matrix(machine, "speed")
    assert all(name in caught.value.hint for name in METRICS)
    with pytest.raises(InputError, match="g0 -> g1 has no latency"):
        cost_matrix(machine, "latency")


@pytest.mark.parametrize("metric", METRICS)
def test_one_device_has_no_pairs(metric):
    alone = Topology(name="alone", origin="test", devices=(device(0),))
    assert pair_costs(alone, metric).per_byte.tolist() == [[0]]


def test_hybrid_prices_every_message_by_its_own_size():
    machine = two_switches(uplink=50, latency=0.5)
    costs = pair_costs(machine, "hybrid")
    assert costs.per_message is not None
    sizes = [1, 70, 3000]  # of the messages from rank 0 to rank 2
    table = PairTable.from_pairs([0], [2], [sum(sizes)], [len(sizes)])
    key = (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE)
    traffic = Traffic(ranks=3, origin="test", tables={key: table})
    assert costs.per_message[0, 2] == 1.0  # two links of 0.5 s, over the uplink
    assert evaluate(machine, traffic, (0, 1, 2), metric="hybrid").cost == pytest.approx(
        sum(costs.per_message[0, 2] + size * costs.per_byte[0, 2] for size in sizes)
    )
    assert 1 / costs.per_byte[0, 2] == 50


def test_ranks_on_one_device_pay_for_its_own_copies():
    machine = two_switches(uplink=50, latency=0.5)
    slow = dataclasses.replace(
        machine.devices[1], copy_bytes_per_s=nominal(20), copy_latency_s=nominal(0.25)
    )
    devices = (machine.devices[0], slow, *machine.devices[2:])
    machine = dataclasses.replace(machine, devices=devices)
    nearest = 100.0  # bytes/s inside a switch
    assert cost_matrix(machine, "bandwidth").diagonal().tolist() == [0, nearest / 20, 0, 0]
    assert cost_matrix(machine, "latency").diagonal().tolist() == [0, 0.25 / 0.5, 0, 0]
    assert cost_matrix(machine, "distance").diagonal().tolist() == [0, 0, 0, 0]
    table = PairTable.from_pairs([0], [1], [40], [2])
    key = (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE)
    traffic = Traffic(ranks=2, origin="test", tables={key: table})
    both = evaluate(machine, traffic, (1, 1), metric="hybrid")
    assert both.cost == both.predicted_s == 2 * 0.25 + 40 / 20
    assert both.max_congestion_s == both.hop_bytes == 0  # no link is used
    assert evaluate(machine, traffic, (0, 0)).predicted_s == 0  # not known: free


def test_costs_within_a_host_are_those_of_the_matrix_in_per_cent():
    machine = paper_tree()
    cost = cost_matrix(machine)
    rows = costs_within_host(machine)
    assert [len(row) for row in rows] == list(range(1, 16))
    for at, row in enumerate(rows, 1):
        assert row == [round(100 * each) for each in cost[at, :at]]


def test_costs_within_hosts_say_nothing_where_there_is_nothing_to_choose_by():
    alike = two_switches(uplink=100, latency=0)
    assert set(cost_matrix(alike).ravel()) == {0, 1}
    assert costs_within_host(alike) == []
    machine = two_switches(uplink=50, latency=0)
    assert costs_within_host(machine) == [[100], [200, 200], [200, 200, 100]]
    slow_back = tuple(
        dataclasses.replace(each, backward_bytes_per_s=nominal(10)) if each.id == "up" else each
        for each in machine.links
    )
    slower = costs_within_host(dataclasses.replace(machine, links=slow_back))
    assert slower == [[100], [1000, 1000], [1000, 1000, 100]]
