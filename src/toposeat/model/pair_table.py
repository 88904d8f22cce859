"""Sparse tables of directed rank pairs, and messages in the order in which they are sent."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

Int64Array = NDArray[np.int64]


class TrafficKind(StrEnum):
    """The kind of MPI call that moved the bytes; exact: of collectives that say who sends whom."""

    POINT_TO_POINT = "point-to-point"
    COLLECTIVE = "collective"
    EXACT_COLLECTIVE = "exact collective"
    ONE_SIDED = "one-sided"


# Collectives whose edges MPI itself fixes: counted, never modelled.
EXACT = frozenset(
    {
        "alltoallv",
        "alltoallw",
        "scatterv",
        "neighbor_allgather",
        "neighbor_allgatherv",
        "neighbor_alltoall",
        "neighbor_alltoallv",
        "neighbor_alltoallw",
    }
)


class MemorySpace(StrEnum):
    """Where the sender's buffer was."""

    DEVICE = "device"
    HOST = "host"


TableKey = tuple[TrafficKind, MemorySpace]


class PairTable(Struct, frozen=True, eq=False):
    """Sparse directed rank-pair counts, sorted by (source, target), each pair once.

    Four int64 arrays of one length: `source`, `target` (world ranks), `bytes`, `messages`.
    """

    source: Int64Array
    target: Int64Array
    bytes: Int64Array
    messages: Int64Array

    @staticmethod
    def from_pairs(
        source: ArrayLike, target: ArrayLike, nbytes: ArrayLike, messages: ArrayLike
    ) -> PairTable:
        """Sort by pair, and sum the entries of the same pair."""
        src, dst, size, count = (
            np.atleast_1d(np.asarray(a, dtype=np.int64)) for a in (source, target, nbytes, messages)
        )
        if not src.shape == dst.shape == size.shape == count.shape or src.ndim != 1:
            raise ValueError("source, target, bytes and messages differ in length")
        if src.size and min(src.min(), dst.min(), size.min(), count.min()) < 0:
            raise ValueError("ranks, bytes and messages must be >= 0")
        order = np.lexsort((dst, src))
        src, dst, size, count = src[order], dst[order], size[order], count[order]
        first = np.ones(src.size, dtype=bool)
        first[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
        starts = np.flatnonzero(first)
        if starts.size and max(size.sum(dtype=np.float64), count.sum(dtype=np.float64)) >= 2.0**63:
            raise ValueError("bytes or messages are more than can be counted")
        if starts.size:
            size, count = np.add.reduceat(size, starts), np.add.reduceat(count, starts)
        arrays = (src[starts], dst[starts], size, count)
        for each in arrays:
            each.setflags(write=False)
        return PairTable(*arrays)

    @staticmethod
    def from_dense(nbytes: ArrayLike, messages: ArrayLike | None = None) -> PairTable:
        """From square matrices, row = sender; without `messages`, one per non-zero pair."""
        matrix = np.asarray(nbytes, dtype=np.int64)
        counts = (
            (matrix > 0).astype(np.int64) if messages is None else np.asarray(messages, np.int64)
        )
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or counts.shape != matrix.shape:
            raise ValueError("a traffic matrix must be square")
        src, dst = np.nonzero((matrix != 0) | (counts != 0))
        return PairTable.from_pairs(src, dst, matrix[src, dst], counts[src, dst])

    @staticmethod
    def empty() -> PairTable:
        """A table without pairs."""
        return PairTable.from_pairs([], [], [], [])

    @staticmethod
    def total(tables: Iterable[PairTable]) -> PairTable:
        """The sum of several tables."""
        parts = list(tables)
        if len(parts) < 2:
            return parts[0] if parts else PairTable.empty()
        return PairTable.from_pairs(
            *(
                np.concatenate([getattr(p, name) for p in parts])
                for name in ("source", "target", "bytes", "messages")
            )
        )

    def dense_bytes(self, ranks: int) -> Int64Array:
        """Square int64 matrix of bytes, row = sender."""
        matrix = np.zeros((ranks, ranks), dtype=np.int64)
        matrix[self.source, self.target] = self.bytes
        return matrix

    def dense_messages(self, ranks: int) -> Int64Array:
        """Square int64 matrix of message counts, row = sender."""
        matrix = np.zeros((ranks, ranks), dtype=np.int64)
        matrix[self.source, self.target] = self.messages
        return matrix

    def __len__(self) -> int:
        return int(self.source.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PairTable):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("source", "target", "bytes", "messages")
        )

    __hash__ = None  # type: ignore[assignment]


class Messages:
    """Messages between pairs as they are added, some at a time; equal pairs are not yet summed."""

    def __init__(self) -> None:
        self._parts: list[Int64Array] = []

    def add(
        self, source: ArrayLike, target: ArrayLike, size: ArrayLike, count: ArrayLike = 1
    ) -> None:
        """`count` messages from each source to each target, of `size` bytes **altogether**."""
        columns = np.broadcast_arrays(*np.atleast_1d(source, target, size, count))
        self._parts.append(np.stack(columns).astype(np.int64))

    def rounds(self) -> list[Int64Array]:
        """What was added at a time, in order: arrays (4, messages) like `rows`."""
        return self._parts

    def rows(self) -> Int64Array:
        """Array (4, messages): source, target, bytes, messages."""
        return np.concatenate([np.empty((4, 0), np.int64), *self._parts], axis=1)

    def table(self) -> PairTable:
        """All of them, by pair."""
        return PairTable.from_pairs(*self.rows())


class PairSum(Messages):
    """Messages that are summed per pair now and then.

    Memory: a few times the distinct pairs, not the rows that were added.
    """

    def __init__(self) -> None:
        super().__init__()
        self._table = PairTable.empty()  # the first of the parts
        self._waiting = 0  # rows of the others

    def __len__(self) -> int:
        return len(self._table) + self._waiting

    def add(
        self, source: ArrayLike, target: ArrayLike, size: ArrayLike, count: ArrayLike = 1
    ) -> None:
        """See `Messages.add`."""
        super().add(source, target, size, count)
        self._waiting += self._parts[-1].shape[1]
        if self._waiting >= max(MAX_WAITING, len(self._table) // 2):
            self.table()

    def table(self) -> PairTable:
        """Everything so far."""
        if self._waiting:
            self._table, self._waiting = super().table(), 0
            old = self._table
            self._parts = [np.stack([old.source, old.target, old.bytes, old.messages])]
        return self._table


MAX_WAITING = 1 << 19  # rows that wait before they are summed
MAX_SCHEDULE_FLOWS = 1 << 22  # over all repeats; as the core has it


class Schedule(Struct, frozen=True, kw_only=True, eq=False):
    """Phases of messages between ranks, one after the other, `repeats` times.

    A phase holds bytes and messages of ordered pairs of ranks; a traffic matrix is their sum and
    knows no order. `origin` says where it is from: an algorithm's name, a pattern, a profile.
    """

    ranks: int
    origin: str
    phases: tuple[PairTable, ...]
    repeats: int = 1

    def __post_init__(self) -> None:
        if self.flows * self.repeats > MAX_SCHEDULE_FLOWS:
            raise ValueError(f"more than {MAX_SCHEDULE_FLOWS} flows over all repeats")

    @property
    def flows(self) -> int:
        """Ordered pairs of ranks, summed over the phases of one repeat."""
        return sum(len(phase) for phase in self.phases)

    def table(self) -> PairTable:
        """Bytes and messages of all phases and repeats together."""
        total = PairTable.total(self.phases)
        return PairTable.from_pairs(
            total.source, total.target, total.bytes * self.repeats, total.messages * self.repeats
        )
