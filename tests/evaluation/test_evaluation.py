import dataclasses

import pytest

from tests.evaluation.machines import two_switches
from tests.evaluation.test_flow import traffic_of
from toposeat.errors import InputError
from toposeat.evaluation import compile_network, default_placement, evaluate
from toposeat.model.quantity import nominal
from toposeat.model.topology import LinkKind
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind

TRAFFIC = traffic_of(4, [(0, 2, 300, 3), (3, 1, 100, 1), (0, 1, 100, 1)])


def test_a_small_machine_by_hand():
    machine = two_switches(uplink=50, combined=60, far_cap=40, latency=0.5)
    result = evaluate(machine, TRAFFIC, (0, 1, 2, 3))
    assert result.device_of_rank == (0, 1, 2, 3)
    # Uplink: 300 forward, 100 backward: max(300 / 50, 100 / 50, 400 / 60).
    seconds = {"up": 400 / 60, "p0": 4.0, "p1": 2.0, "p2": 3.0, "p3": 1.0}
    assert {load.link: load.congestion_s for load in result.links} == pytest.approx(seconds)
    assert [load.link for load in result.links] == ["up", "p0", "p2", "p1", "p3"]
    busiest = result.links[0]
    assert (busiest.kind, busiest.bytes) == (LinkKind.SMP, 400)
    assert result.max_congestion_s == pytest.approx(400 / 60)
    assert result.mean_congestion_s == pytest.approx(sum(seconds.values()) / 5)
    assert result.hop_bytes == 300 * 3 + 100 * 3 + 100 * 2
    # bandwidth: far pairs 40 (their cap), near pairs 100 (their ports): cost 2.5 and 1
    assert result.cost == pytest.approx(400 * 2.5 + 100)
    # A far message waits 1 s. 3 -> 1 has the uplink alone from 1 s, at its cap of 40, until 0 -> 2
    # (3 messages) starts at 3 s; then both have half of the combined 60 while 3 -> 1 moves its last
    # 20 bytes, as does 0 -> 2; the other 280 go at the cap.
    assert result.predicted_s == pytest.approx(3 + 20 / 30 + 280 / 40)


def test_the_placement_matters():
    machine = two_switches(uplink=50, latency=0.0)
    near = evaluate(machine, traffic_of(2, [(0, 1, 100, 1)]), (3, 2))
    assert (near.predicted_s, near.hop_bytes, near.cost) == (1.0, 200, 100)
    far = evaluate(machine, traffic_of(2, [(0, 1, 100, 1)]), (3, 1))
    assert (far.predicted_s, far.hop_bytes, far.cost) == (2.0, 300, 200)
    assert {load.link for load in near.links} == {"p0", "p1", "p2", "p3", "up"}  # idle ones too


def test_only_device_traffic_counts_where_there_is_some():
    machine = two_switches(uplink=50, latency=0.0)
    host = PairTable.from_pairs([0], [2], [10**6], [1])
    both = Traffic(
        ranks=4,
        origin="test",
        tables={**TRAFFIC.tables, (TrafficKind.COLLECTIVE, MemorySpace.HOST): host},
    )
    order = (0, 1, 2, 3)
    assert evaluate(machine, both, order) == evaluate(machine, TRAFFIC, order)


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ((0, 1, 2), "the placement has 3 ranks, the traffic has 4"),
        ((0, 1, 2, 4), "rank 3: device 4 does not exist in 'two switches', which has 4"),
        ((0, 1, 2, -1), "rank 3: device -1 does not exist in 'two switches', which has 4"),
    ],
)
def test_a_placement_that_does_not_fit_is_refused(placement, message):
    with pytest.raises(InputError) as caught:
        evaluate(two_switches(uplink=50, latency=0.0), TRAFFIC, placement)
    assert caught.value.message == message or str(caught.value) == message
    assert "toposeat map" in caught.value.hint


def test_default_placement():
    machine = two_switches(uplink=50, latency=0.0)
    assert default_placement(3, machine) == (0, 1, 2)
    assert default_placement(6, machine) == (0, 1, 2, 3, 0, 1)
    assert default_placement(0, machine) == ()


def test_a_missing_route_is_named():
    machine = two_switches(uplink=50, latency=0.0)
    cut = dataclasses.replace(
        machine, routes=tuple(r for r in machine.routes if (r.source, r.target) != ("g2", "g1"))
    )
    with pytest.raises(InputError, match="no route from device 'g2' to 'g1'"):
        compile_network(cut)


def test_a_link_without_capacity_is_named_only_if_it_is_needed():
    machine = two_switches(uplink=50, latency=0.0)
    dead = tuple(
        dataclasses.replace(each, backward_bytes_per_s=nominal(0)) if each.id == "up" else each
        for each in machine.links
    )
    with pytest.raises(InputError, match="link 'up' is on a route between devices"):
        compile_network(dataclasses.replace(machine, links=dead))
    idle = dataclasses.replace(machine.links[0], id="spare", forward_bytes_per_s=nominal(0))
    extended = dataclasses.replace(machine, links=(*machine.links, idle))
    result = evaluate(extended, TRAFFIC, (0, 1, 2, 3))
    assert result == evaluate(machine, TRAFFIC, (0, 1, 2, 3))


def test_a_cap_of_zero_is_named():
    machine = two_switches(uplink=50, far_cap=0, latency=0.0)
    with pytest.raises(InputError, match="route g0 -> g2 has a cap of 0"):
        compile_network(machine)
