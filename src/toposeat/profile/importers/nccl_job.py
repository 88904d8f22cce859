"""One `Traffic` from what the members of NCCL communicators report of their calls.

A collective is known if any member reports it: of several reports of the same calls the highest
count is used. Of a message between two ranks the sender's report counts; the receiver's is used
only for a sender that left none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toposeat.errors import InputError
from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    MAX_TOTAL,
    CollectiveEvent,
    Communicator,
    Int64Array,
    MemorySpace,
    PairTable,
    RankInfo,
    Traffic,
    TrafficKind,
)
from toposeat.profile.importers.nccl_edges import (
    DIRECT_OPERATIONS,
    OPERATIONS,
    RING_OPERATIONS,
    Algorithm,
    Collective,
    Parents,
    Ring,
    collective_edges,
)

MAX_RANKS = 1 << 17
MAX_MEMBERS = 1 << 22  # of all communicators together
MAX_EDGES = 1 << 24
_MAX_EVENTS = 1 << 18

MODEL = (
    "NCCL: allreduce 2(n-1)/n, allgather and reduce_scatter (n-1)/n of the bytes over each edge of"
    " a ring; bcast and reduce along it as a chain; alltoall, gather, scatter direct"
)
DEFAULT_RING = "; rings in rank order (the source does not say which NCCL chose)"
GIVEN_RINGS = "; over the rings that NCCL logged, equal shares per channel"
TREES = "; where NCCL chose trees: allreduce over two trees with half of the bytes each"


@dataclass(frozen=True, slots=True)
class Call:
    """A collective as one member sees it; `size` is one rank's contribution in bytes."""

    operation: str
    size: int
    root: int = -1  # position in the communicator
    algorithm: Algorithm = Algorithm.RING


@dataclass(slots=True)
class Group:
    """A communicator of the job.

    Attributes:
        members: world rank of each position, None where it is not known.
        name: as the source calls it.
        rings: positions in ring order, one ring per channel; () = rank order.
        trees: parents by position, one tree per channel; () = two trees of `nccl_edges`.
        calls: how often each position reports each call.
    """

    members: Sequence[int | None]
    name: str = ""
    rings: Sequence[Ring] = ()
    trees: Sequence[Parents] = ()
    calls: dict[int, Counter[Call]] = field(default_factory=lambda: defaultdict(Counter))


@dataclass(slots=True)
class _Edges:
    """Messages in columns, with their sum watched."""

    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    total: int = 0

    def add(self, source: int, target: int, size: int, messages: int) -> None:
        self.total += size + messages
        if self.total >= MAX_TOTAL or len(self.source) >= MAX_EDGES:
            raise InputError(
                "the calls add up to more than can be counted", hint="is the source damaged?"
            )
        self.source.append(source)
        self.target.append(target)
        self.bytes.append(size)
        self.messages.append(messages)

    def table(self) -> PairTable:
        return PairTable.from_pairs(self.source, self.target, self.bytes, self.messages)


@dataclass(slots=True)
class NcclJob:
    """What is gathered of one job; `traffic` makes the result.

    Attributes:
        ranks: of the world.
        groups: communicators with their calls.
        sends: messages as their senders report them: (source, target, bytes of one) -> count.
        receives: the same messages as their receivers report them.
        exchanged: messages of collectives with a size per pair, as their senders report them.
        reporting: world ranks that left a report.
        nowhere: messages with ranks of which nothing is known.
        space: where all buffers are.
    """

    ranks: int
    groups: list[Group] = field(default_factory=list)
    sends: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    receives: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    exchanged: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    reporting: set[int] = field(default_factory=set)
    nowhere: int = 0
    space: MemorySpace = MemorySpace.DEVICE

    def traffic(
        self,
        origin: str,
        *,
        rank_info: Sequence[RankInfo] = (),
        metadata: Mapping[str, str] | None = None,
        report: Sequence[str] = (),
    ) -> Traffic:
        """The edges of all calls.

        Raises:
            InputError: the sums cannot be counted.
        """
        notes = list(report)
        collective, direct = _Edges(), _Edges()
        unplaced = sum(self._expand(group, collective) for group in self.groups)
        for (source, target, size), count in self.exchanged.items():
            if source != target:
                collective.add(source, target, size * count, count)
        if unplaced:
            notes.append(
                f"{unplaced} bytes of collectives pass ranks of which nothing is known; they are"
                " left out"
            )
        if self.nowhere:
            notes.append(
                f"{self.nowhere} messages are with ranks of which nothing is known; they are left"
                " out"
            )
        histogram = self._messages(direct)
        tables: dict[tuple[TrafficKind, MemorySpace], PairTable] = {}
        if collective.source:
            tables[TrafficKind.COLLECTIVE, self.space] = collective.table()
        histograms: dict[tuple[TrafficKind, MemorySpace], Int64Array] = {}
        if direct.source:
            tables[TrafficKind.POINT_TO_POINT, self.space] = direct.table()
            histograms[TrafficKind.POINT_TO_POINT, self.space] = histogram
        return Traffic(
            ranks=self.ranks,
            origin=origin,
            tables=tables,
            histograms=histograms,
            communicators=tuple(
                Communicator(
                    id=number,
                    ranks=tuple(rank for rank in group.members if rank is not None),
                    name=group.name,
                )
                for number, group in enumerate(self.groups)
            ),
            collectives=self._events(notes),
            collective_model=self._model() if collective.source else "",
            rank_info=tuple(rank_info),
            metadata=dict(metadata or {}),
            report=tuple(notes),
            timed=False,
        )

    def _expand(self, group: Group, edges: _Edges) -> int:
        """Adds a communicator's edges; returns the bytes on edges with an end that is unknown."""
        unplaced = 0
        n = len(group.members)
        for call, algorithm in _summed(group):
            pairs = n * n if call.operation in DIRECT_OPERATIONS else n
            if pairs > MAX_EDGES:
                raise InputError(
                    f"an {call.operation} of {n} ranks has too many pairs", hint="is it damaged?"
                )
            for source, target, size, messages in collective_edges(
                call, n, algorithm=algorithm, rings=group.rings, trees=group.trees
            ):
                ends = group.members[source], group.members[target]
                if ends[0] is None or ends[1] is None:
                    unplaced += size
                else:
                    edges.add(ends[0], ends[1], size, messages)
        return unplaced

    def _messages(self, edges: _Edges) -> Int64Array:
        histogram = np.zeros(HISTOGRAM_BUCKETS, np.int64)
        seen = [*self.sends.items()]
        seen += [
            (key, count) for key, count in self.receives.items() if key[0] not in self.reporting
        ]
        for (source, target, size), count in seen:
            if source != target:
                edges.add(source, target, size * count, count)
                histogram[size.bit_length()] += count
        return histogram

    def _events(self, notes: list[str]) -> tuple[CollectiveEvent, ...]:
        total = sum(len(calls) for group in self.groups for calls in group.calls.values())
        by_class = total > _MAX_EVENTS
        if by_class:
            notes.append("collectives of very many sizes: listed by size class")
        events: Counter[tuple[int, str, int, int, int, str]] = Counter()
        for number, group in enumerate(self.groups):
            for position, calls in group.calls.items():
                rank = group.members[position]
                for call, count in calls.items():
                    if rank is not None:
                        size = 1 << (call.size.bit_length() - 1) if by_class and call.size else 0
                        root = group.members[call.root] if call.root >= 0 else -1
                        key = (number, call.operation, rank, -1 if root is None else root)
                        size = size if by_class else call.size
                        events[(*key, size, _how(call))] += count
        return tuple(
            CollectiveEvent(
                communicator=number,
                operation=operation,
                rank=rank,
                root=root,
                space=self.space,
                bytes=size,
                calls=count,
                algorithm=how,
            )
            for (number, operation, rank, root, size, how), count in sorted(events.items())
        )

    def _model(self) -> str:
        calls = {call for group in self.groups for each in group.calls.values() for call in each}
        words = MODEL + (GIVEN_RINGS if any(g.rings for g in self.groups) else DEFAULT_RING)
        return words + (TREES if any(c.algorithm is Algorithm.TREE for c in calls) else "")


def _how(call: Call) -> str:
    """The algorithm that is modelled, in a word."""
    return call.algorithm.value if call.operation in RING_OPERATIONS else "direct"


def _summed(group: Group) -> Iterator[tuple[Collective, Algorithm]]:
    """Calls of all sizes together: the edges are linear in the bytes."""
    counts: Counter[Call] = Counter()
    for calls in group.calls.values():
        counts |= calls  # the highest count of each
    counts = Counter({call: n for call, n in counts.items() if call.operation in OPERATIONS})
    bytes_of: Counter[tuple[str, int, Algorithm]] = Counter()
    calls_of: Counter[tuple[str, int, Algorithm]] = Counter()
    for call, count in counts.items():
        key = call.operation, call.root, call.algorithm
        bytes_of[key] += call.size * count
        calls_of[key] += count
    for key in sorted(calls_of):
        operation, root, algorithm = key
        yield Collective(operation, bytes_of[key], calls_of[key], root), algorithm
