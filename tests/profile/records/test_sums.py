"""Summing in pieces is summing at once, in little memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.model import pair_table
from toposeat.model.pair_table import PairSum, PairTable

rows = st.lists(
    st.tuples(*(st.integers(0, high) for high in (5, 5, 1 << 40, 1 << 20))), max_size=20
)


@given(parts=st.lists(rows, max_size=8))
def test_pieces_add_up(parts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_table, "MAX_WAITING", 10)
        made = PairSum()
        for part in parts:
            made.add(*np.array(part, dtype=np.int64).reshape(-1, 4).T)
        flat = [row for part in parts for row in part]
        columns = np.array(flat, dtype=np.int64).reshape(-1, 4).T
        assert made.table() == PairTable.from_pairs(*columns)
        assert made.table() == made.table()


def test_what_waits_is_bounded(monkeypatch):
    monkeypatch.setattr(pair_table, "MAX_WAITING", 1000)
    made = PairSum()
    one = np.array([[1], [2], [8], [1]]).repeat(100, axis=1)
    for _ in range(500):
        made.add(*one)
        assert len(made) <= 1000
    table = made.table()
    assert (len(table), int(table.bytes[0]), int(table.messages[0])) == (1, 400_000, 50_000)
