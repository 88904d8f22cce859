from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.samples import pair_tables
from toposeat.model.traffic import (
    Communicator,
    Exchange,
    GroupLoad,
    MemorySpace,
    PairTable,
    Traffic,
    TrafficKind,
)

P2P = TrafficKind.POINT_TO_POINT


def test_pairs_are_sorted_and_summed():
    table = PairTable.from_pairs([1, 0, 1], [0, 1, 0], [10, 5, 1], [1, 1, 2])
    assert table.source.tolist() == [0, 1]
    assert table.bytes.tolist() == [5, 11]
    assert table.messages.tolist() == [1, 3]


@given(table=pair_tables(5))
def test_dense_and_sparse_hold_the_same(table):
    dense = PairTable.from_dense(table.dense_bytes(5), table.dense_messages(5))
    assert np.array_equal(dense.dense_bytes(5), table.dense_bytes(5))
    assert dense.bytes.sum() == table.bytes.sum()


@given(tables=st.lists(pair_tables(4), max_size=4))
def test_total_is_the_sum_of_the_matrices(tables):
    total = PairTable.total(tables)
    expected = sum((t.dense_bytes(4) for t in tables), np.zeros((4, 4), dtype=np.int64))
    assert np.array_equal(total.dense_bytes(4), expected)


def test_device_traffic_is_what_counts_when_there_is_any():
    host = PairTable.from_dense([[0, 1000], [0, 0]])
    device = PairTable.from_dense([[9, 1], [0, 0]])
    both = Traffic(
        ranks=2,
        origin="",
        tables={(P2P, MemorySpace.HOST): host, (P2P, MemorySpace.DEVICE): device},
    )
    assert both.mapped_table().bytes.tolist() == [1]  # no self traffic, no host traffic
    only_host = Traffic(ranks=2, origin="", tables={(P2P, MemorySpace.HOST): host})
    assert only_host.mapped_table().bytes.tolist() == [1000]


def test_ranks_beyond_the_job_are_refused():
    with pytest.raises(ValueError, match="beyond 1"):
        Traffic(
            ranks=2,
            origin="",
            tables={(P2P, MemorySpace.HOST): PairTable.from_pairs([0], [2], [1], [1])},
        )


def test_edges_leave_out_what_a_library_orders_itself():
    one = PairTable.from_pairs([0], [1], [8], [1])
    ring = PairTable.from_pairs([0, 1], [1, 0], [100, 100], [1, 1])
    load = GroupLoad(communicator=0, library="nccl", exchange=Exchange.RING, bytes=100, messages=1)
    traffic = Traffic(
        ranks=2,
        origin="test",
        tables={
            (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE): one,
            (TrafficKind.COLLECTIVE, MemorySpace.DEVICE): ring,
        },
        communicators=(Communicator(id=0, ranks=(0, 1)),),
        groups=(load,),
    )
    assert traffic.edge_table().bytes.tolist() == [8]
    assert replace(traffic, groups=()).edge_table().bytes.sum() == 208
    assert traffic.mapped_table().bytes.sum() == 208
