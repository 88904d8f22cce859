"""Which of the free devices: against every set, and against what breaks a pair."""

import random
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from toposeat import pipeline
from toposeat.errors import ToposeatError, UsageError
from toposeat.evaluation import GroupRates
from toposeat.mapping import choose_by_placements, choose_devices
from toposeat.model.topology import Vendor
from toposeat.topology import parse_topology_text, read_topology, topology_text

CROSSED = "rtx-4-crossed-bridges"  # bridges 0-2 and 1-3


@pytest.fixture(scope="module")
def crossed():
    return read_topology(CROSSED)


def test_a_pair_is_one_that_a_bridge_joins(crossed):
    chosen = choose_devices(crossed, 2)
    assert chosen.devices == (0, 2)
    assert chosen.lowest == (0, 1)
    assert chosen.bytes_per_s > 2 * chosen.lowest_bytes_per_s
    assert [left.groups for left in chosen.left] == [((1, 3),)]
    assert chosen.is_exact


def test_one_device_breaks_no_pair(crossed):
    assert choose_devices(crossed, 1, [0, 2, 3]).devices == (3,)
    assert choose_devices(crossed, 1, [0, 1, 3]).devices == (0,)


def test_of_equal_sets_the_one_that_cuts_no_island():
    """Summit's islands are 0 to 2 and 3 to 5: a job of four leaves the GPU beside the busy one."""
    chosen = choose_devices(read_topology("summit-6"), 4, [0, 1, 3, 4, 5])
    assert chosen.devices in ((0, 3, 4, 5), (1, 3, 4, 5))


def test_of_equal_sets_the_one_on_a_socket_is_left():
    chosen = choose_devices(read_topology("l40s-8"), 2, [0, 1, 2, 4, 5, 6, 7])
    assert [left.groups for left in chosen.left] == [((4, 5), (6, 7)), ((4, 5, 6, 7),)]


@pytest.mark.parametrize("name", ["dgx-1v", CROSSED, "a100-pcie-8-bridged", "mi250x-8"])
def test_no_set_of_free_devices_is_faster(name):
    machine = read_topology(name)
    rates, rng = GroupRates(machine), random.Random(2)
    for _ in range(10):
        free = sorted(rng.sample(range(len(machine.devices)), rng.randint(2, 4)))
        count = rng.randint(2, len(free))
        chosen = choose_devices(machine, count, free)
        assert set(chosen.devices) <= set(free)
        best = max(rates.of(each).bytes_per_s for each in combinations(free, count))
        assert chosen.bytes_per_s == pytest.approx(best)


def test_the_best_set_of_a_scenario_is_compared_however_many_are_as_fast_nominally():
    """Bridges may join neighbours: of 1001 sets that are equal without, few have two of them."""
    box = read_topology("tree:16")
    cards = (
        replace(each, name="NVIDIA A100-PCIE-40GB", vendor=Vendor.NVIDIA) for each in box.devices
    )
    open_machine = pipeline.open_machine(
        parse_topology_text(topology_text(replace(box, devices=tuple(cards), tells=())), Path("x"))
    )
    free = [1, 3, *range(4, 16)]
    machine = open_machine.nominal.topology
    chosen = choose_devices(machine, 4, free, machine=open_machine)
    (fact,) = open_machine.facts
    bridged = open_machine.at((len(fact.choices) - 1,)).rates
    best = max(bridged.of(each).bytes_per_s for each in combinations(free, 4))
    assert best > 1.5 * chosen.lowest_bytes_per_s
    assert bridged.of(chosen.devices).bytes_per_s == pytest.approx(best)


def test_many_sets_are_searched_and_said_to_be(crossed):
    machine = read_topology("k80-16")
    chosen = choose_devices(machine, 8)
    assert not chosen.is_exact
    assert len(set(chosen.devices)) == 8
    assert chosen.bytes_per_s >= chosen.lowest_bytes_per_s


def test_of_equal_placements_the_one_that_leaves_a_pair(crossed):
    chosen = choose_by_placements(crossed, [(1, 0), (3, 1)], [0, 1, 2, 3])
    assert chosen.devices == (3, 1)  # 0 and 2 stay together
    for both in ([(2, 3), (1, 0)], [(1, 0), (2, 3)]):
        assert choose_by_placements(read_topology("k40-4"), both, range(4)).devices == (1, 0)


@pytest.mark.parametrize(
    ("count", "free", "error", "message"),
    [
        (0, None, UsageError, "0 devices"),
        (5, None, ToposeatError, "4 are free"),
        (2, [1], ToposeatError, "1 are free"),
        (1, [0, 0], UsageError, "each once"),
        (1, [9], UsageError, "each once"),
    ],
)
def test_what_cannot_be_is_refused(crossed, count, free, error, message):
    with pytest.raises(error, match=message):
        choose_devices(crossed, count, free)
