"""Events of a record become messages of a stated model; `algorithms` has what models promise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.model.traffic import CollectiveEvent, Communicator, MemorySpace, PairTable
from toposeat.profile.records.collectives import (
    EXACT,
    GENERAL,
    OPEN_MPI,
    expand_collectives,
)
from toposeat.profile.records.segment import OPERATIONS

sizes = st.integers(0, 1 << 20)
groups = st.permutations(range(9)).flatmap(
    lambda order: st.integers(1, 9).map(lambda n: tuple(order[:n]))
)


def event(operation, rank, size, *, root=0, calls=1):
    return CollectiveEvent(
        communicator=5,
        operation=operation,
        rank=rank,
        root=root,
        space=MemorySpace.DEVICE,
        bytes=size,
        calls=calls,
    )


def expand(operation, members, size, root=-1, calls=1):
    events = [event(operation, rank, size, root=root, calls=calls) for rank in members]
    tables = expand_collectives(events, [Communicator(id=5, ranks=members)]).tables
    assert set(tables) <= {MemorySpace.DEVICE}
    return tables.get(MemorySpace.DEVICE, PairTable.empty())


@given(groups, sizes, st.integers(1, 1000))
def test_calls_multiply(members, size, calls):
    for operation in ("allreduce", "alltoall", "barrier", "allgatherv", "gather"):
        assert len(expand(operation, members[:1], size, members[0])) == 0  # alone nobody sends
        one, many = (expand(operation, members, size, members[-1], c) for c in (1, calls))
        assert (many.bytes == one.bytes * calls).all()
        assert (many.messages == one.messages * calls).all()


def test_allgatherv_passes_on_every_block_but_the_neighbours_own():
    members = (2, 0, 1)
    events = [event("allgatherv", rank, 10**rank) for rank in members]
    (table,) = expand_collectives(events, [Communicator(id=5, ranks=members)]).tables.values()
    assert table.dense_bytes(3).tolist() == [[0, 101, 0], [0, 0, 11], [110, 0, 0]]
    assert table.messages.tolist() == [2, 2, 2]


def test_exact_ones_and_strangers_add_nothing():
    for operation in EXACT:
        assert len(expand(operation, (0, 1, 2), 100)) == 0
    assert (
        expand_collectives([event("bcast", 0, 8)], [Communicator(id=0, ranks=(0, 1))]).tables == {}
    )


@pytest.mark.parametrize("rules", [GENERAL, OPEN_MPI], ids=lambda r: r.name[:8])
@pytest.mark.parametrize("operation", sorted(set(OPERATIONS.values()) - EXACT))
def test_every_operation_is_modelled_and_named(operation, rules):
    made = expand_collectives([event(operation, 1, 64)], [Communicator(id=5, ranks=(0, 1))], rules)
    (named,) = made.events
    assert named.algorithm
    assert made.model == f"{rules.name}: {operation}: {named.algorithm}"


def test_a_vast_alltoall_stays_an_event():
    members = tuple(range(16384))
    events = [
        event(operation, rank, 8, calls=2)
        for rank in members
        for operation in ("alltoall", "allreduce")
    ]
    made = expand_collectives(events, [Communicator(id=5, ranks=members)])
    (table,) = made.tables.values()
    assert len(table) == 16384  # the ring of the other operation
    assert {e.operation: e.algorithm for e in made.events} == {"alltoall": "", "allreduce": "ring"}
    assert made.report == (
        "alltoall among 16384 ranks (4294705152 bytes) is listed, but not in the tables:"
        " 268419072 pairs, all with the same bytes",
    )


def test_impossible_sizes_do_not_cost_the_rest():
    events = [
        event(operation, rank, size, calls=size)
        for rank in (0, 1)
        for operation, size in (("allreduce", 1 << 40), ("bcast", 8))
    ]
    made = expand_collectives(events, [Communicator(id=5, ranks=(0, 1))])
    assert made.tables[MemorySpace.DEVICE].dense_bytes(2).tolist() == [[0, 64], [0, 0]]
    assert {e.operation: e.algorithm for e in made.events} == {"allreduce": "", "bcast": "binomial"}
    assert made.report == ("allreduce: more bytes than any traffic, not in the tables",)
