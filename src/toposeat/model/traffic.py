"""Who talks to whom: directed, sparse rank x rank bytes and messages, and where the memory was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

HISTOGRAM_BUCKETS = 65  # bucket 0: empty messages; bucket k: sizes with bit length k

MAX_TOTAL = 2.0**62  # bytes, or messages, of a whole job

Int64Array = NDArray[np.int64]


class TrafficKind(str, Enum):
    """How the bytes were asked for."""

    POINT_TO_POINT = "point-to-point"
    COLLECTIVE = "collective"
    ONE_SIDED = "one-sided"


class MemorySpace(str, Enum):
    """Where the sender's buffer was."""

    DEVICE = "device"
    HOST = "host"


@dataclass(frozen=True, eq=False, slots=True)
class PairTable:
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
        """Sort, and sum what is given for the same pair."""
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
        """No pair at all."""
        return PairTable.from_pairs([], [], [], [])

    @staticmethod
    def total(tables: Iterable[PairTable]) -> PairTable:
        """The sum of several tables."""
        parts = list(tables)
        if not parts:
            return PairTable.empty()
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Communicator:
    """A group of world ranks, in communicator order."""

    id: int
    ranks: tuple[int, ...]
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveEvent:
    """All calls of one collective with the same shape, summed over the calls, seen from one rank.

    `bytes` is the size of one call's send contribution of this rank (MPI's count x type size; for
    the vector forms, the sum over peers), `calls` how often. `root` is a world rank or -1.
    """

    communicator: int
    operation: str  # "allreduce", "alltoall", ...: the MPI name, lower case, without MPI_
    rank: int
    root: int
    space: MemorySpace
    bytes: int
    calls: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RankInfo:
    """What is known of one rank of the profiled run."""

    rank: int
    host: str = ""
    pid: int = 0
    finalized: bool = True  # False: the rank died or was killed; its counts reach to that moment
    wall_s: float = 0.0  # from MPI_Init to MPI_Finalize, or to the last record
    mpi_s: float = 0.0  # inside recorded MPI calls
    device_pci_bus_id: str | None = None  # device that owned its buffers, when known
    device_ordinal: int | None = None  # that device's number as the application saw it
    visible_devices: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Traffic:
    """The traffic of one job, or of a named pattern.

    `tables` is keyed by (kind, memory space); a missing key means none. Collective tables are
    *modelled* edges: `collective_model` names the algorithms that were assumed ("" if none).
    `histograms` has the same keys: int64 arrays of `HISTOGRAM_BUCKETS` message counts.
    """

    ranks: int
    origin: str
    tables: Mapping[tuple[TrafficKind, MemorySpace], PairTable]
    histograms: Mapping[tuple[TrafficKind, MemorySpace], Int64Array] = field(default_factory=dict)
    communicators: tuple[Communicator, ...] = ()
    collectives: tuple[CollectiveEvent, ...] = ()
    collective_model: str = ""
    rank_info: tuple[RankInfo, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    report: tuple[str, ...] = ()  # what the importer could not know or doubted

    def __post_init__(self) -> None:
        if not 1 <= self.ranks < 2**31:
            raise ValueError(f"expected 1 to 2^31-1 ranks, got {self.ranks}")
        for (kind, space), table in self.tables.items():
            if len(table) and max(table.source.max(), table.target.max()) >= self.ranks:
                raise ValueError(
                    f"{kind.value} {space.value} traffic names a rank beyond {self.ranks - 1}"
                )
        for name in ("bytes", "messages"):
            total = sum(float(getattr(t, name).sum(dtype=np.float64)) for t in self.tables.values())
            if total >= MAX_TOTAL:  # sums over tables must not wrap around
                raise ValueError(f"{total:.3g} {name} altogether are more than can be counted")

    def table(
        self, *, kind: TrafficKind | None = None, space: MemorySpace | None = None
    ) -> PairTable:
        """The sum over all tables that match; None matches everything."""
        return PairTable.total(
            t
            for (k, s), t in sorted(self.tables.items())
            if kind in (None, k) and space in (None, s)
        )

    @property
    def mapped_space(self) -> MemorySpace | None:
        """Which memory space placement should serve: device if any device bytes exist, else all."""
        has_device = any(
            s is MemorySpace.DEVICE and t.bytes.sum() > 0 for (_, s), t in self.tables.items()
        )
        return MemorySpace.DEVICE if has_device else None

    def mapped_table(self) -> PairTable:
        """The pairs a mapper should serve (see `mapped_space`), without a rank's own messages."""
        table = self.table(space=self.mapped_space)
        keep = table.source != table.target
        return PairTable.from_pairs(
            table.source[keep], table.target[keep], table.bytes[keep], table.messages[keep]
        )
