"""The records of one MPI_COMM_WORLD added up in bounded memory: pairs and collectives."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toposeat.model.pair_table import PairSum
from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    CollectiveEvent,
    Communicator,
    Int64Array,
    MemorySpace,
    PairTable,
    RankInfo,
    TableKey,
)
from toposeat.profile.records.record import (
    NO_COMMUNICATOR,
    OUTSIDE,
    Members,
    RankRecord,
    RecordedEvent,
    space_of,
)
from toposeat.profile.records.segment import (
    TRAFFIC_KINDS,
    Flag,
    Kind,
    PhaseMode,
    State,
)

MAX_EVENTS = 1 << 20  # of one job; beyond, sizes are merged by class

# phase, communicator, operation, root, space, element, bytes
_Shape = tuple[int, int, str, int, MemorySpace, int, int]


class EventSum:
    """Calls by shape and rank."""

    def __init__(self) -> None:
        self._calls: dict[_Shape, array[int]] = defaultdict(lambda: array("q"))
        self._count = 0
        self.merged_by_class = False

    def add(self, *, rank: int, communicator: int, event: RecordedEvent, phase: int) -> None:
        """Add what one rank recorded of one shape."""
        operation, root = event.operation, event.root
        shape = (phase, communicator, operation, root, event.space, event.element, event.bytes)
        self._calls[shape].extend((rank, event.calls))
        self._count += 1

    def phases(self) -> list[int]:
        """The phases that have events."""
        return sorted({shape[0] for shape in self._calls})

    def events(self, phase: int | None = None) -> Iterator[CollectiveEvent]:
        """The events of one phase or of all, calls of one shape and rank summed; any order."""
        if self._count > MAX_EVENTS and not self.merged_by_class:
            self._merge_by_class()
        rows: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
        for (own_phase, *shape), calls in self._calls.items():
            if phase in (None, own_phase):
                by_rank = rows[tuple(shape)]
                for rank, number in zip(calls[0::2], calls[1::2], strict=True):
                    by_rank[rank] = by_rank.get(rank, 0) + number
        for (communicator, operation, root, space, element, size), by_rank in rows.items():
            for rank, number in by_rank.items():
                yield CollectiveEvent(
                    communicator=communicator,
                    operation=operation,
                    rank=rank,
                    root=root,
                    space=space,
                    bytes=size,
                    calls=number,
                    element=element,
                )

    def _merge_by_class(self) -> None:
        """Sizes of one bit length become one, their mean over all calls."""
        classes: dict[tuple[object, ...], list[_Shape]] = defaultdict(list)
        for shape in self._calls:
            classes[(*shape[:6], shape[6].bit_length())].append(shape)
        merged: dict[_Shape, array[int]] = {}
        for shapes in classes.values():
            calls = [sum(self._calls[shape][1::2]) for shape in shapes]
            total = sum(n * shape[6] for n, shape in zip(calls, shapes, strict=True))
            mean = total // max(sum(calls), 1)
            together: dict[int, int] = defaultdict(int)
            for shape in shapes:
                for rank, number in zip(*[iter(self._calls[shape])] * 2, strict=True):
                    together[rank] += number
            flat = array("q", [n for item in together.items() for n in item])
            merged[(*shapes[0][:6], mean)] = flat
        self._calls, self.merged_by_class = defaultdict(lambda: array("q"), merged), True


_MAX_MEMBERS = 1 << 23  # of all communicators together
_MAX_PHASE_ROWS = 1 << 22  # of all phases together, before equal pairs are summed

Sums = dict[TableKey, PairSum]


def tables_of(sums: Sums) -> dict[TableKey, PairTable]:
    """The tables that are not empty."""
    tables = {key: each.table() for key, each in sums.items()}
    return {key: table for key, table in tables.items() if len(table)}


@dataclass
class PhaseSum:
    """One phase over all ranks."""

    label: int
    begin_s: float
    end_s: float
    mpi_s: float = 0.0
    active_s: float = 0.0
    pairs: Sums = field(default_factory=dict)


class WorldSum:
    """What the ranks of one MPI_COMM_WORLD recorded, added up as records come in."""

    def __init__(self, first: RankRecord) -> None:
        self.name, self.size = first.world, first.world_size
        self.host, self.span_ns = first.info.host, first.span_ns
        self.library, self.abi = first.library, first.abi
        self.phase_mode = first.phase_mode
        self.timed = True
        self.seen: set[int] = set()
        self.ranks: list[RankInfo] = []
        self.pairs: Sums = {}
        self.histograms: dict[TableKey, Int64Array] = {}
        self.phases: dict[int, PhaseSum] = {}
        self.phase_pairs_left_out = False
        self.events = EventSum()
        self.communicators: list[Communicator] = []
        self.inter: set[int] = set()
        self.communicators_left_out = 0
        self.flags: dict[Flag, list[int]] = defaultdict(list)  # ranks that have it
        self.states: dict[State, list[int]] = defaultdict(list)
        self.by_class: list[int] = []  # ranks with too many shapes of collectives
        self.lost = {"messages": 0, "bytes": 0, "events": 0}
        self.outside = {"messages": 0, "bytes": 0}  # with processes that are not in it
        self._ids: dict[tuple[bool, bytes], int] = {}
        self._members = 0
        self._phase_rows = 0
        self._numbers: list[int] = []  # one object per rank number, shared by all groups

    def add(self, record: RankRecord) -> bool:
        """Add one rank's record; False if that rank is known already, and nothing was added."""
        if record.rank in self.seen:
            return False
        self.seen.add(record.rank)
        self.timed = self.timed and record.timed
        self.ranks.append(record.info)
        self._add_pairs(record)
        self._add_phases(record)
        self._add_events(record)
        self.states[record.state].append(record.rank)
        for flag in Flag:
            if record.has(flag):
                self.flags[flag].append(record.rank)
        self.lost["messages"] += record.lost_messages
        self.lost["bytes"] += record.lost_bytes
        self.lost["events"] += record.lost_events
        outside = record.peer == OUTSIDE
        self.outside["messages"] += int(record.messages[outside].sum())
        self.outside["bytes"] += int(record.bytes[outside].sum())
        return True

    def is_beside(self, host: str, span_ns: tuple[int, int]) -> bool:
        """Whether a rank of another job ran at the time of the first of this one, on its host."""
        (begin, end), (begun, ended) = self.span_ns, span_ns
        return self.host == host and begin < ended and begun < end

    @property
    def in_phases(self) -> bool:
        """Whether the run was split."""
        return self.phase_mode is not PhaseMode.OFF

    def rank_info(self) -> tuple[RankInfo, ...]:
        """In rank order."""
        return tuple(sorted(self.ranks, key=lambda info: info.rank))

    def _add_pairs(self, record: RankRecord) -> None:
        for key, chosen, rows in _inside(record):
            self.pairs.setdefault(key, PairSum()).add(*rows)
            counts = self.histograms.setdefault(key, np.zeros(HISTOGRAM_BUCKETS, dtype=np.int64))
            counts += record.histogram[chosen].sum(axis=0)
            if self.in_phases and not self.phase_pairs_left_out:
                self._add_phase_pairs(record, key, record.phase[chosen], rows)

    def _add_phase_pairs(
        self, record: RankRecord, key: TableKey, phase: Int64Array, rows: Int64Array
    ) -> None:
        self._phase_rows += rows.shape[1]
        if self._phase_rows > _MAX_PHASE_ROWS:
            self.phase_pairs_left_out = True
            for each in self.phases.values():
                each.pairs.clear()
            return
        for place in sorted(set(phase.tolist())):
            pairs = self._phase(record, place).pairs
            pairs.setdefault(key, PairSum()).add(*rows[:, phase == place])

    def _phase(self, record: RankRecord, place: int) -> PhaseSum:
        own = record.phases[place]
        return self.phases.setdefault(own.label, PhaseSum(own.label, own.begin_s, own.end_s))

    def _add_phases(self, record: RankRecord) -> None:
        for place, own in enumerate(record.phases if self.in_phases else ()):
            phase = self._phase(record, place)
            phase.begin_s = min(phase.begin_s, own.begin_s)
            phase.end_s = max(phase.end_s, own.end_s)
            phase.mpi_s += own.mpi_s
            phase.active_s += own.active_s

    def _add_events(self, record: RankRecord) -> None:
        number_of = [self._number(seen) for seen in record.communicators]
        if any(event.by_class for event in record.events):
            self.by_class.append(record.rank)
        for event in record.events:
            known = event.communicator != NO_COMMUNICATOR
            self.events.add(
                rank=record.rank,
                communicator=number_of[event.communicator] if known else NO_COMMUNICATOR,
                event=event,
                phase=record.phases[event.phase].label if self.in_phases else 0,
            )

    def _number(self, seen: Members) -> int:
        """A communicator's number in the job: those with the same members are one."""
        key = seen.key
        if key in self._ids:
            return self._ids[key]
        self._members += seen.size
        if self._members > _MAX_MEMBERS:
            self.communicators_left_out += 1
            return NO_COMMUNICATOR
        number = self._ids[key] = len(self.communicators)
        if seen.inter:
            self.inter.add(number)
        if not self._numbers:
            self._numbers = list(range(self.size))
        ranks = tuple(self._numbers[r] for r in seen.ranks() if r != OUTSIDE)
        self.communicators.append(Communicator(id=number, ranks=ranks, name=seen.name))
        return number


def _inside(record: RankRecord) -> list[tuple[TableKey, Int64Array, Int64Array]]:
    """Per kind and space: which entries are between ranks of the world, and their rows."""
    found = []
    code = record.kind * 2 + record.device
    inside = record.peer != OUTSIDE
    for number in sorted(set(code[inside].tolist())):
        kind = Kind(number // 2)
        chosen = np.flatnonzero(inside & (code == number))
        peer = record.peer[chosen]
        own = np.full_like(peer, record.rank)
        ends = (peer, own) if kind is Kind.ONE_SIDED_FROM else (own, peer)
        rows = np.stack([*ends, record.bytes[chosen], record.messages[chosen]])
        found.append(((TRAFFIC_KINDS[kind], space_of(number % 2 == 1)), chosen, rows))
    return found
