"""Why a placement: moves and bottlenecks recomputed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.mapping.checker import Checker
from tests.mapping.machines import random_traffic
from toposeat.evaluation import network_arrays
from toposeat.mapping import map_traffic
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.traffic import MemorySpace
from toposeat.profile import pattern_traffic
from toposeat.report import render_mapping_text
from toposeat.topology import read_topology


def explained(machine, pattern, **options):
    result = map_traffic(
        read_topology(machine), pattern_traffic(pattern), MapOptions(explained=True, **options)
    )
    assert result.explanation is not None
    return result.explanation


def test_moves_and_bottleneck_of_the_papers_weighted_stencil():
    """The heavy pairs (first dimension) leave QPI; 16 pairs load it before, as Faraji's 1600."""
    machine, pattern = read_topology("k80-16-faraji"), "stencil3d:2x2x4,weight=3"
    traffic = pattern_traffic(pattern)
    result = map_traffic(machine, traffic, MapOptions(explained=True))
    explanation = result.explanation
    before = explanation.before
    assert before.link is not None
    assert machine.link_of_id[before.link].kind.value == "smp"
    assert before.pairs == 16
    assert {abs(load.source - load.target) for load in before.loads} == {8}
    assert before.congestion_s == result.default.max_congestion_s
    for move in explanation.moves:
        ends = [
            (
                machine.devices[devices[move.source]].id,
                machine.devices[devices[move.target]].id,
            )
            for devices in (result.default.device_of_rank, result.device_of_rank)
        ]
        assert move.links_before == machine.route_of_pair[ends[0]].links
        assert move.links_after == machine.route_of_pair[ends[1]].links
        assert move.links_before != move.links_after
    table = traffic.mapped_table()
    assert explanation.moves[0].bytes == table.bytes.max()
    assert explanation.moved_pairs >= 16


def test_latency_is_named_with_its_pair_or_with_the_rank_that_waits():
    machine = read_topology("dgx-1v")
    small = pattern_traffic("stencil2d:2x4,bytes=8")
    table, options = small.mapped_table(), MapOptions(solver="default", explained=True)
    one_way = network_arrays(machine).latency().reshape(8, 8)[table.source, table.target]
    rank = int(np.bincount(table.source, one_way).argmax())
    messages = int((table.source == rank).sum())
    pair = f"{table.source[one_way.argmax()]} to {table.target[one_way.argmax()]}"
    for rounds, words, share in (
        ({}, f"is held up by the latency of 1 message from {pair}", "99.9 %"),
        (
            {MemorySpace.DEVICE: table},
            f"All is held up by the latency of {messages} messages of rank {rank} in rounds",
            "100 %",
        ),
    ):
        traffic = replace(small, rounds=rounds)
        result = map_traffic(machine, traffic, options)
        text = " ".join(render_mapping_text(result, machine, traffic).split())
        assert words in text.partition(" After ")[2]
        assert f"Latency {share} of the link time" in text
    large = pattern_traffic("ring:8,bytes=64MiB")
    text = render_mapping_text(map_traffic(machine, large, options), machine, large)
    assert "After" in text
    assert "the latency of" not in " ".join(text.split())


def test_nothing_moves_where_the_default_is_kept():
    explanation = explained("dgx-a100", "ring:8")
    assert explanation.moves == ()
    assert explanation.moved_pairs == explanation.moved_bytes == 0
    assert explanation.before == explanation.after


def test_no_more_ranks_move_than_by_hand():
    """Symmetries of the stencil and of the tree leave four of the eight where they are."""
    tree, traffic = read_topology("tree:2:2:2"), pattern_traffic("stencil2d:2x4")
    devices = tuple(tree.devices[at] for at in (6, 0, 4, 7, 1, 5, 3, 2))
    machine, by_hand = replace(tree, devices=devices), (0, 3, 4, 1, 2, 5, 6, 7)
    result = map_traffic(machine, traffic, MapOptions())
    value = Checker(machine, traffic).value(by_hand, "time", "bandwidth")
    assert result.certificate.value == pytest.approx(value)
    assert sum(np.array(result.device_of_rank) != range(8)) <= sum(np.array(by_hand) != range(8))


def test_ranks_on_one_device_use_no_links():
    explanation = explained("power9-4", "ring:8,bytes=1e6", constraints=Constraints(slots=2))
    assert any(move.links_after == () for move in explanation.moves)


@pytest.mark.parametrize("solver", ["auto", "random"])
@pytest.mark.parametrize("machine", ["k80-16", "dgx-1v", "mi250x-8"])
def test_bottlenecks_are_those_of_the_checker(machine, solver):
    """Link, bytes, seconds and users of the busiest link, from the topology's own words."""
    topology = read_topology(machine)
    traffic = random_traffic(np.random.default_rng(9), 8, 0.6)
    result = map_traffic(topology, traffic, MapOptions(solver=solver, explained=True))
    checker = Checker(topology, traffic)
    for evaluation, told in (
        (result.default, result.explanation.before),
        (result.placed, result.explanation.after),
    ):
        device = evaluation.device_of_rank
        assert told.congestion_s == pytest.approx(checker.congestion(device), rel=1e-9)
        users = {
            (source, target): nbytes
            for source, target, nbytes, _ in checker.flows
            if any(
                (device[source], device[target]) in checker.uses((told.link or "", way))
                for way in ("forward", "backward")
            )
        }
        assert told.pairs == len(users)
        assert told.bytes == sum(users.values())
        for load in told.loads:
            assert users[load.source, load.target] == load.bytes
        heaviest = sorted(users.values(), reverse=True)[: len(told.loads)]
        assert [load.bytes for load in told.loads] == heaviest
