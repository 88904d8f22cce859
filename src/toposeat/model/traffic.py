"""Who talks to whom: directed, sparse rank x rank bytes and messages, and where the memory was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

import numpy as np
from msgspec import field

from toposeat.model.noun import Noun, short_name
from toposeat.model.pair_table import Int64Array, MemorySpace, PairTable, TableKey, TrafficKind
from toposeat.model.rank_info import (
    DeviceChoice,
    DeviceUse,
    RankInfo,
    TimeKind,
    TimeShare,
    device_choice,
)
from toposeat.model.record import Record

__all__ = [
    "HISTOGRAM_BUCKETS",
    "MAX_TOTAL",
    "CollectiveEvent",
    "Communicator",
    "DeviceChoice",
    "DeviceUse",
    "Exchange",
    "GroupLoad",
    "Int64Array",
    "MemorySpace",
    "PairTable",
    "Phase",
    "RankInfo",
    "TableKey",
    "TimeKind",
    "TimeShare",
    "Traffic",
    "TrafficKind",
]

# Keys of the metadata: numbers, and words for people.
WORLDS_OF_ONE = "worlds_of_one"
BESIDE = "beside"  # numbers of ranks of MPI jobs that ran beside the recorded one
LEFT_OUT = "left_out"  # what the job did that no table has
INNER_LINE = "inner_line"  # the launch line in the command, which another program is to start
GRID = "grid"  # key of the metadata: of ranks in their order, "4x2", where messages show one
HISTOGRAM_BUCKETS = 65  # bucket 0: empty messages; bucket k: sizes with bit length k

MAX_TOTAL = 2.0**62  # bytes, or messages, of a whole job


class Communicator(Record, frozen=True, kw_only=True):
    """A group of world ranks, in communicator order."""

    id: int
    ranks: tuple[int, ...]
    name: str = ""


class CollectiveEvent(Record, frozen=True, kw_only=True):
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
    algorithm: str = ""  # whose messages are in the tables; "": exact, or in no table
    element: int = 0  # bytes of one element, where the vector may be cut; 0: not known


class Exchange(StrEnum):
    """How a library that orders a group itself moves the bytes of a collective inside it."""

    RING = "ring"  # cycles over all members, chosen by the library
    ALL_REDUCE = "all-reduce"  # by rings, or between nodes by two trees
    PAIRWISE = "pairwise"  # every member to every other

    @property
    def is_ring(self) -> bool:
        """Whether rings are drawn through the members inside each node."""
        return self is not Exchange.PAIRWISE


class GroupLoad(Record, frozen=True, kw_only=True):
    """What the collectives of one communicator move, where the library orders the members itself.

    NCCL and RCCL do: the cost is that of the *set* of devices, whatever the order of the ranks.
    `bytes` and `messages` are those over each edge: of the one ring (all-reduce of S bytes on n
    ranks: 2 (n-1)/n S; all-gather and reduce-scatter of S bytes altogether: (n-1)/n S; broadcast:
    S), or of each ordered pair of members.
    """

    communicator: int
    library: str  # "nccl" or "rccl"
    exchange: Exchange
    bytes: int
    messages: int
    phase: int | None = None  # index of the phase that it is part of; None: not told


class Phase(Record, frozen=True, kw_only=True, eq=False):
    """A part of the run: a time window, what lay between two MPI_Pcontrol marks, a pattern's part.

    The parts of a pattern (of a training step: `tensor`, `pipeline`, ...) have no times: 0 to 0.
    """

    index: int
    label: str
    begin_s: float  # seconds since MPI_Init, the earliest of all ranks
    end_s: float  # the latest of all ranks
    tables: Mapping[TableKey, PairTable]
    mpi_s: float = 0.0  # inside recorded MPI calls, summed over ranks
    active_s: float = 0.0  # spent in it, summed over ranks; without the time between two visits

    def __post_init__(self) -> None:
        if not self.begin_s <= self.end_s:
            raise ValueError(f"phase {self.index} ends at {self.end_s} s, before it begins")


class Traffic(Noun, Record, frozen=True, kw_only=True, eq=False):
    """The traffic of one job, or of a named pattern.

    `tables` is keyed by (kind, memory space); a missing key means none. Collective tables are
    *modelled* edges: `collective_model` names the algorithms that were assumed ("" if none).
    `histograms` has the same keys: int64 arrays of `HISTOGRAM_BUCKETS` message counts. `rounds` are
    those of their messages after which the sender waits, as their algorithms have it: in no file,
    for events and algorithms tell them (`read_traffic` of a profile does).

    With `groups`, the collective tables of device memory are those groups as rings in the order of
    their ranks, for display only: what they cost is a matter of the sets.
    """

    ranks: int
    origin: str
    tables: Mapping[TableKey, PairTable]
    histograms: Mapping[TableKey, Int64Array] = field(default_factory=dict)
    communicators: tuple[Communicator, ...] = ()
    collectives: tuple[CollectiveEvent, ...] = ()
    groups: tuple[GroupLoad, ...] = ()
    rounds: Mapping[MemorySpace, PairTable] = field(default_factory=dict)
    collective_model: str = ""
    rank_info: tuple[RankInfo, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    report: tuple[str, ...] = ()  # what the importer could not know or doubted
    phases: tuple[Phase, ...] = ()  # () = not asked for; else `tables` is their sum
    timed: bool = True  # False: `mpi_s` and `time` mean nothing

    def __post_init__(self) -> None:
        if not 1 <= self.ranks < 2**31:
            raise ValueError(f"expected 1 to 2^31-1 ranks, got {self.ranks}")
        for (kind, space), table in self._own_tables():
            if len(table) and max(table.source.max(), table.target.max()) >= self.ranks:
                raise ValueError(
                    f"{kind.value} {space.value} traffic names a rank beyond {self.ranks - 1}"
                )
        for tables in (self.tables, *(phase.tables for phase in self.phases)):
            _check_total(tables)

    def __repr__(self) -> str:
        size = sum(int(table.bytes.sum()) for table in self.tables.values())
        return f"<Traffic {short_name(self.origin)}: {self.ranks} ranks, {size} bytes>"

    def _own_tables(self) -> Iterator[tuple[TableKey, PairTable]]:
        yield from self.tables.items()
        for phase in self.phases:
            yield from phase.tables.items()

    @property
    def worlds_of_one(self) -> int:
        """How many processes were a world of one rank each, if all were and there were several."""
        return int(self.metadata.get(WORLDS_OF_ONE, "0"))

    @property
    def why_no_verdict(self) -> str:
        """Why silence of the recorded ranks says nothing of the job; "" where it does."""
        left, inner = self.metadata.get(LEFT_OUT), self.metadata.get(INNER_LINE)
        if len(self.mapped_table()) or not (left or inner):
            return ""
        return f"its ranks sent nothing to each other, and {left or 'another line'} is left out"

    @property
    def device_choice(self) -> DeviceChoice:
        """How the application picks its device, as far as the ranks tell."""
        return device_choice(self.rank_info)

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
        return _between_ranks(self.table(space=self.mapped_space))

    def rounds_of(self, table: PairTable, *, in_turn: bool = False) -> Int64Array:
        """How many messages of each pair of a table are rounds; none beside groups of a library.

        With `in_turn` so are all messages from point to point.
        """
        space, found = self.mapped_space, np.zeros(len(table), np.int64)
        parts = [t for s, t in self.rounds.items() if space in (None, s)]
        parts += [self.table(kind=TrafficKind.POINT_TO_POINT, space=space)] if in_turn else []
        rounds = PairTable.total(parts)
        if self.groups or not len(rounds) or not len(table):
            return found
        pairs, mine = (t.source * self.ranks + t.target for t in (table, rounds))
        at = np.minimum(np.searchsorted(pairs, mine), len(pairs) - 1)
        is_there = pairs[at] == mine
        found[at[is_there]] = rounds.messages[is_there]
        return np.minimum(found, table.messages)

    def edge_table(self) -> PairTable:
        """The pairs of `mapped_table` whose cost is that of the two devices, not that of a set."""
        shown_only = (TrafficKind.COLLECTIVE, MemorySpace.DEVICE)
        if not self.groups or shown_only not in self.tables:
            return self.mapped_table()
        tables = {key: table for key, table in self.tables.items() if key != shown_only}
        space = self.mapped_space
        return _between_ranks(
            PairTable.total(t for (_, s), t in sorted(tables.items()) if space in (None, s))
        )


def _between_ranks(table: PairTable) -> PairTable:
    """A table without a rank's own messages."""
    keep = table.source != table.target
    if keep.all():
        return table
    return PairTable.from_pairs(
        table.source[keep], table.target[keep], table.bytes[keep], table.messages[keep]
    )


def _check_total(tables: Mapping[TableKey, PairTable]) -> None:
    """Refuse tables whose sums an int64 might not hold."""
    for name in ("bytes", "messages"):
        total = sum(float(getattr(t, name).sum(dtype=np.float64)) for t in tables.values())
        if total >= MAX_TOTAL:
            raise ValueError(f"{total:.3g} {name} altogether are more than can be counted")
