"""The algorithm models really do what their collective promises: simulated with blocks of data."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.model.traffic import CollectiveEvent, Communicator, MemorySpace, PairTable
from toposeat.profile.records.collectives import (
    EXACT,
    GENERAL,
    OPEN_MPI,
    expand_collectives,
    rules_of,
)
from toposeat.profile.records.segment import OPERATIONS

ROOTED = ["bcast", "reduce", "gather", "scatter", "gatherv"]
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


def out_and_in(table):
    sent, received = defaultdict[int, int](int), defaultdict[int, int](int)
    for source, target, size in zip(table.source, table.target, table.bytes, strict=True):
        assert source != target
        sent[int(source)] += int(size)
        received[int(target)] += int(size)
    return sent, received


@given(groups, sizes, st.data())
def test_bcast_reaches_everybody_once(members, size, data):
    root = data.draw(st.sampled_from(members))
    table = expand("bcast", members, size, root)
    assert sorted(table.target) == sorted(set(members) - {root})
    assert (table.bytes == size).all()
    reached = {root}
    for _ in members:
        reached |= {int(t) for s, t in zip(table.source, table.target, strict=True) if s in reached}
    assert reached == set(members)


@given(groups, sizes, st.data())
def test_trees_conserve_blocks(members, size, data):
    """Gather: a rank sends on what it received and its own; scatter: the same backwards."""
    root = data.draw(st.sampled_from(members))
    sent, received = out_and_in(expand("gather", members, size, root))
    for rank in members:
        keeps = size * len(members) if rank == root else 0
        assert received[rank] + size == sent[rank] + keeps
    sent, received = out_and_in(expand("scatter", members, size, root))
    for rank in members:
        gets = size * len(members) if rank == root else received[rank]
        assert gets == sent[rank] + size


@given(groups, sizes)
def test_reduce_and_bcast_are_mirror_images(members, size):
    down = expand("bcast", members, size, members[0])
    up = expand("reduce", members, size, members[0])
    mirrored = PairTable.from_pairs(up.target, up.source, up.bytes, up.messages)
    assert mirrored == down


@given(groups, sizes)
def test_ring_totals(members, size):
    """Ring allreduce moves exactly 2 (n - 1) times the vector, whatever the rounding."""
    n = len(members)
    assert expand("allreduce", members, size).bytes.sum() == 2 * (n - 1) * size
    assert expand("reduce_scatter", members, size).bytes.sum() == (n - 1) * size
    assert expand("allgather", members, size).bytes.sum() == n * (n - 1) * size
    assert expand("alltoall", members, size).bytes.sum() == n * (n - 1) * size
    assert expand("scan", members, size).bytes.sum() == (n - 1) * size


@given(groups, sizes, st.integers(1, 1000))
def test_calls_multiply(members, size, calls):
    for operation in ("allreduce", "alltoall", "barrier", "allgatherv", "gather"):
        one, many = (expand(operation, members, size, members[-1], c) for c in (1, calls))
        assert (many.bytes == one.bytes * calls).all()
        assert (many.messages == one.messages * calls).all()


@pytest.mark.parametrize("members", [2, 3, 4, 7, 8])
def test_barrier_is_dissemination(members):
    table = expand("barrier", tuple(range(members)), 0)
    rounds = (members - 1).bit_length()
    assert table.bytes.sum() == 0
    assert table.messages.sum() == rounds * members
    assert (0, 1) in set(zip(table.source.tolist(), table.target.tolist(), strict=True))


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


@pytest.mark.parametrize("operation", ["barrier", *ROOTED, "allreduce", "alltoall", "scan"])
def test_alone_nobody_sends(operation):
    assert len(expand(operation, (3,), 100, 3)) == 0


@pytest.mark.parametrize("rules", [GENERAL, OPEN_MPI], ids=lambda r: r.name[:8])
@pytest.mark.parametrize("operation", sorted(set(OPERATIONS.values()) - EXACT))
def test_every_operation_is_modelled_and_named(operation, rules):
    made = expand_collectives([event(operation, 1, 64)], [Communicator(id=5, ranks=(0, 1))], rules)
    (named,) = made.events
    assert named.algorithm
    assert made.model == f"{rules.name}: {operation}: {named.algorithm}"


@pytest.mark.parametrize(
    ("library", "rules"),
    [
        ("Open MPI v5.0.11, package: Open MPI x Distribution", OPEN_MPI),
        ("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", OPEN_MPI),
        ("Open MPI v4.0.3, package: y", GENERAL),
        ("Open MPI v6.0.0, package: y", GENERAL),
        ("MPICH Version:      5.0.2", GENERAL),
        ("Intel(R) MPI Library 2021.18 for Linux* OS", GENERAL),
        ("", GENERAL),
    ],
)
def test_rules_follow_the_library(library, rules):
    assert rules_of(library) is rules


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
