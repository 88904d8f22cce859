"""Edges of NCCL collectives against worked examples and the bus bandwidth factors."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.profile.nccl_edges import Algorithm, Collective, collective_edges, two_trees

S = 1200


def edges(operation: str, members: int, root: int = -1, **options: object) -> dict:
    found: dict[tuple[int, int], tuple[int, int]] = {}
    call = Collective(operation=operation, bytes=S, calls=1, root=root)
    for source, target, size, messages in collective_edges(call, members, **options):
        before = found.get((source, target), (0, 0))
        found[source, target] = (before[0] + size, before[1] + messages)
    return found


def test_ring_allreduce_of_four_ranks() -> None:
    """2 (n-1)/n S: 2 x 3/4 x 1200 = 1800 over each of the four edges, in six steps."""
    assert edges("allreduce", 4) == {
        (0, 1): (1800, 6),
        (1, 2): (1800, 6),
        (2, 3): (1800, 6),
        (3, 0): (1800, 6),
    }


@pytest.mark.parametrize("operation", ["allgather", "reduce_scatter_block"])
def test_ring_of_blocks(operation: str) -> None:
    """A block of 1200 of each of three ranks: (n-1)/n of the 3600 bytes pass every edge."""
    assert edges(operation, 3) == {
        (0, 1): (2400, 2),
        (1, 2): (2400, 2),
        (2, 0): (2400, 2),
    }


def test_broadcast_is_a_chain_that_begins_at_the_root() -> None:
    assert edges("bcast", 4, root=2) == {(2, 3): (S, 1), (3, 0): (S, 1), (0, 1): (S, 1)}


def test_reduce_is_a_chain_that_ends_at_the_root() -> None:
    assert edges("reduce", 4, root=2) == {(3, 0): (S, 1), (0, 1): (S, 1), (1, 2): (S, 1)}


def test_every_channel_carries_its_share() -> None:
    """Two rings in opposite directions: half of the bytes each, so 900 both ways."""
    found = edges("allreduce", 4, rings=[(0, 1, 2, 3), (0, 3, 2, 1)])
    assert set(found.values()) == {(900, 6)}
    assert len(found) == 8


def test_tree_allreduce_sends_half_up_and_down_each_of_two_trees() -> None:
    """Four nodes of one rank. Trees: 2->0, 1->2, 3->2, and mirrored 1->3, 2->1, 0->1."""
    assert two_trees([[0], [1], [2], [3]]) == [(-1, 2, 0, 2), (1, 3, 1, -1)]
    found = edges("allreduce", 4, algorithm=Algorithm.TREE, trees=two_trees([[0], [1], [2], [3]]))
    half = S // 2
    assert found[2, 0] == found[0, 2] == (half, 1)
    assert found[1, 2] == found[2, 1] == (2 * half, 2)  # in both trees
    assert found[1, 3] == found[3, 1] == (half, 1)


def test_trees_of_one_node_are_its_chain() -> None:
    assert two_trees([range(4)]) == [(-1, 0, 1, 2)] * 2
    found = edges("allreduce", 4, algorithm=Algorithm.TREE)
    assert found == {e: (S, 2) for a in range(3) for e in ((a, a + 1), (a + 1, a))}


def test_direct_operations() -> None:
    assert edges("alltoall", 3) == {(a, b): (S, 1) for a in range(3) for b in range(3) if a != b}
    assert edges("gather", 3, root=1) == {(0, 1): (S, 1), (2, 1): (S, 1)}
    assert edges("scatter", 3, root=1) == {(1, 0): (S, 1), (1, 2): (S, 1)}


def test_nothing_for_one_rank() -> None:
    assert edges("allreduce", 1) == {}


# Bytes that leave a GPU per byte of the buffer: nccl-tests' bus over algorithm bandwidth.
@given(
    members=st.integers(2, 64),
    operation=st.sampled_from(["allreduce", "allgather", "reduce_scatter_block", "alltoall"]),
    block=st.integers(1, 10**9),
)
def test_bytes_out_of_every_rank_follow_the_bus_bandwidth_factor(
    members: int, operation: str, block: int
) -> None:
    size = block * members
    call = Collective(operation=operation, bytes=size, calls=1)
    out: dict[int, int] = defaultdict(int)
    for source, _, nbytes, _ in collective_edges(call, members):
        out[source] += nbytes
    factor = 2 * (members - 1) * block if operation == "allreduce" else (members - 1) * size
    assert out == dict.fromkeys(range(members), factor)


@given(nodes=st.lists(st.integers(1, 4), min_size=1, max_size=40))
def test_trees_span_all_ranks_and_nobody_is_inner_twice(nodes: list[int]) -> None:
    groups, first = [], 0
    for size in nodes:
        groups.append(list(range(first, first + size)))
        first += size
    inner: list[set[int]] = []
    for parents in two_trees(groups):
        assert parents.count(-1) == 1
        for start in range(first):  # everyone reaches the root
            place, seen = start, set()
            while parents[place] >= 0:
                assert place not in seen
                seen.add(place)
                place = parents[place]
        heads = {group[0] for group in groups}
        inner.append({parents[h] for h in heads if parents[h] in heads} - {-1})
        children = [parents.count(h) for h in heads]
        assert max(children) <= 3  # two nodes below and the next rank of its own
    roots = {two_trees(groups)[k].index(-1) for k in (0, 1)}
    # The roots aside, which have one child, no node is an inner vertex of both trees.
    assert not (inner[0] & inner[1]) - roots
