"""Edges of NCCL collectives against worked examples and the bus bandwidth factors."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.profile.nccl_job import Call, collective_edges, edge_bytes

S = 1200


def edges(operation, members, root=-1):
    ends = zip(*(each.tolist() for each in collective_edges(operation, root, members)), strict=True)
    return dict.fromkeys(ends, edge_bytes(Call(operation, S, root), 1, members))


def test_ring_allreduce_of_four_ranks():
    """2 (n-1)/n S: 2 x 3/4 x 1200 = 1800 over each of the four edges, in six steps."""
    assert edges("allreduce", 4) == {
        (0, 1): (1800, 6),
        (1, 2): (1800, 6),
        (2, 3): (1800, 6),
        (3, 0): (1800, 6),
    }


@pytest.mark.parametrize("operation", ["allgather", "reduce_scatter_block"])
def test_ring_of_blocks(operation):
    """A block of 1200 of each of three ranks: (n-1)/n of the 3600 bytes pass every edge."""
    assert edges(operation, 3) == {
        (0, 1): (2400, 2),
        (1, 2): (2400, 2),
        (2, 0): (2400, 2),
    }


def test_broadcast_is_a_chain_that_begins_at_the_root():
    assert edges("bcast", 4, root=2) == {(2, 3): (S, 1), (3, 0): (S, 1), (0, 1): (S, 1)}


def test_reduce_is_a_chain_that_ends_at_the_root():
    assert edges("reduce", 4, root=2) == {(3, 0): (S, 1), (0, 1): (S, 1), (1, 2): (S, 1)}


def test_direct_operations():
    assert edges("alltoall", 3) == {(a, b): (S, 1) for a in range(3) for b in range(3) if a != b}
    assert edges("gather", 3, root=1) == {(0, 1): (S, 1), (2, 1): (S, 1)}
    assert edges("scatter", 3, root=1) == {(1, 0): (S, 1), (1, 2): (S, 1)}


def test_nothing_for_one_rank():
    assert edges("allreduce", 1) == {}


# Bytes that leave a GPU per byte of the buffer: nccl-tests' bus over algorithm bandwidth.
@given(
    members=st.integers(2, 64),
    operation=st.sampled_from(["allreduce", "allgather", "reduce_scatter_block", "alltoall"]),
    block=st.integers(1, 10**9),
)
def test_bytes_out_of_every_rank_follow_the_bus_bandwidth_factor(members, operation, block):
    size = block * members
    out = defaultdict(int)
    nbytes, _ = edge_bytes(Call(operation, size), 1, members)
    for source in collective_edges(operation, -1, members)[0].tolist():
        out[source] += nbytes
    factor = 2 * (members - 1) * block if operation == "allreduce" else (members - 1) * size
    assert out == dict.fromkeys(range(members), factor)
