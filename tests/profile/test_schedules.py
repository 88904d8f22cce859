"""Schedules of collectives: what is sent in which step, and that the data gets where it must."""

import numpy as np
import pytest

from toposeat.errors import UsageError
from toposeat.model.runs import COLLECTIVES
from toposeat.profile import (
    ALGORITHMS,
    collective_schedule,
    exchange_schedule,
    grid_exchange,
    schedule_traffic,
)

EVERY = [(operation, name) for operation, each in ALGORITHMS.items() for name in each]


def steps(schedule):
    return [
        list(zip(phase.source.tolist(), phase.target.tolist(), phase.bytes.tolist(), strict=True))
        for phase in schedule.phases
    ]


def test_alltoall_by_hand():
    def alltoall(algorithm):
        return steps(collective_schedule("alltoall", algorithm, [[0, 1, 2]], 10))

    ring, back = [(0, 1, 10), (1, 2, 10), (2, 0, 10)], [(0, 2, 10), (1, 0, 10), (2, 1, 10)]
    assert alltoall("linear") == [sorted(ring + back)]
    assert alltoall("pairwise") == [ring, back]
    # Block 1 goes one on, block 2 goes two on: both in steps of their own with three members.
    assert alltoall("bruck") == [ring, back]


def test_ring_allreduce_by_hand():
    schedule = collective_schedule("allreduce", "ring", [[0, 1, 2, 3]], 400)
    assert steps(schedule) == [[(0, 1, 100), (1, 2, 100), (2, 3, 100), (3, 0, 100)]] * 6


def test_communicators_run_at_the_same_time_in_their_own_ranks():
    schedule = collective_schedule("bcast", "binomial", [[4, 2, 0], [1, 5]], 7, repeats=3)
    assert steps(schedule) == [[(1, 5, 7), (4, 0, 7)], [(4, 2, 7)]]
    assert (schedule.ranks, schedule.repeats) == (6, 3)
    assert schedule.table().bytes.sum() == 3 * 3 * 7


def test_an_exchange_is_the_collective_of_its_lines():
    exchange = grid_exchange("allreduce:2x3")
    assert exchange.groups == ((0, 3), (1, 4), (2, 5))
    schedule = exchange_schedule(exchange, "recursive-doubling", 10)
    both = [(0, 3, 10), (1, 4, 10), (2, 5, 10), (3, 0, 10), (4, 1, 10), (5, 2, 10)]
    assert steps(schedule) == [both]
    assert exchange_schedule(exchange, None, 10).origin.startswith("allreduce (ring)")
    traffic = schedule_traffic(schedule)
    assert (traffic.mapped_table().bytes.sum(), traffic.ranks) == (60, 6)
    with pytest.raises(UsageError, match="no collective"):
        exchange_schedule(grid_exchange("ring:4"), None, 10)


@pytest.mark.parametrize("members", [2, 3, 4, 7, 8, 16])
@pytest.mark.parametrize(("operation", "algorithm"), EVERY)
def test_everybody_hears_of_everybody(operation, algorithm, members):
    """What a rank knows at the end of a step can only come from what senders knew before it."""
    schedule = collective_schedule(operation, algorithm, [list(range(members))], members * 64)
    knows = np.eye(members, dtype=np.bool_)
    for phase in schedule.phases:
        before = knows.copy()
        for source, target in zip(phase.source, phase.target, strict=True):
            knows[target] |= before[source]
    assert knows[:, 0].all()
    assert operation == "bcast" or knows.all()


@pytest.mark.parametrize("members", [2, 5, 8])
@pytest.mark.parametrize("algorithm", ["linear", "pairwise"])
def test_direct_algorithms_send_every_block_once(algorithm, members):
    table = collective_schedule("alltoall", algorithm, [list(range(members))], 3).table()
    assert len(table) == members * (members - 1)
    assert set(table.bytes.tolist()) == {3}


@pytest.mark.parametrize(
    ("operation", "algorithm", "groups", "message"),
    [
        ("alltoall", "magic", [[0, 1]], "no algorithm 'magic' of 'alltoall'"),
        ("alltoallx", "linear", [[0, 1]], "no algorithm 'linear' of 'alltoallx'"),
        ("alltoall", "linear", [[0, 1], [1, 2]], "share a rank"),
        ("alltoall", "linear", [], "or have none"),
    ],
)
def test_what_is_not_known_is_refused(operation, algorithm, groups, message):
    with pytest.raises(UsageError, match=message):
        collective_schedule(operation, algorithm, groups, 1)


def test_the_names_that_the_command_line_offers_are_those_of_the_algorithms():
    assert dict(COLLECTIVES) == {name: tuple(ALGORITHMS[name]) for name in COLLECTIVES}
