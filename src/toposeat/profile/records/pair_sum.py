"""Adding up many rank-pair rows in bounded memory."""

from __future__ import annotations

import numpy as np

from toposeat.model.traffic import Int64Array, PairTable

_ROOM = 1 << 19  # rows that wait before they are summed


class PairSum:
    """Rows (source, target, bytes, messages) that are summed per pair now and then.

    Memory: a few times the distinct pairs, not the rows that were added.
    """

    def __init__(self) -> None:
        self._table = PairTable.empty()
        self._waiting: list[Int64Array] = []
        self._rows = 0

    def add(self, rows: Int64Array) -> None:
        """Add an array (4, rows)."""
        if rows.shape[1] == 0:
            return
        self._waiting.append(rows)
        self._rows += rows.shape[1]
        if self._rows >= max(_ROOM, len(self._table) // 2):
            self._sum()

    def table(self) -> PairTable:
        """Everything so far."""
        self._sum()
        return self._table

    def _sum(self) -> None:
        if self._waiting:
            old = self._table
            have = np.stack([old.source, old.target, old.bytes, old.messages])
            rows = np.concatenate([have, *self._waiting], axis=1)
            self._waiting, self._rows = [], 0
            self._table = PairTable.from_pairs(*rows)
