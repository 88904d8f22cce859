"""One `Traffic` from what the members of NCCL communicators report of their calls.

A collective is known if any member reports it: of several reports of the same calls the highest
count is used. Of a message between two ranks the sender's report counts; the receiver's is used
only for a sender that left none.

NCCL builds its rings and trees from the machine that it finds, so what it built says nothing of
another placement: mapping takes a collective as a set of ranks with bytes (`Traffic.groups`), and
edges only show it. With n members and S bytes (of one rank's contribution):

* all-reduce: reduce-scatter then all-gather, 2 (n-1)/n S over every edge of the ring;
* all-gather, reduce-scatter: (n-1) S, where S is one rank's block (of n S altogether);
* broadcast, reduce: a chain, S over every edge but the one that would close it at the root;
* all-to-all, gather, scatter: direct, one message per pair.

Sources: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", JPDC 69 (2009); the bus bandwidth factors of nccl-tests (doc/PERFORMANCE.md) are the
same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toposeat.errors import InputError
from toposeat.model.traffic import (
    MAX_TOTAL,
    CollectiveEvent,
    Communicator,
    Exchange,
    Int64Array,
    MemorySpace,
    RankInfo,
    Traffic,
    TrafficKind,
)
from toposeat.profile.message_list import MessageList

RING_OPERATIONS = frozenset({"allreduce", "allgather", "reduce_scatter_block", "bcast", "reduce"})
DIRECT_OPERATIONS = frozenset({"alltoall", "gather", "scatter"})
OPERATIONS = RING_OPERATIONS | DIRECT_OPERATIONS


def collective_edges(operation: str, root: int, members: int) -> tuple[Int64Array, Int64Array]:
    """Sources and targets of the edges, as positions in a communicator of so many members."""
    places, root = np.arange(members), max(root, 0)
    others = places[places != root]
    if operation == "alltoall":
        source, target = np.repeat(places, members), np.tile(places, members)
        return source[source != target], target[source != target]
    if operation == "gather":
        return others, np.full_like(others, root)
    if operation == "scatter":
        return np.full_like(others, root), others
    source, target = places, (places + 1) % members
    # A chain is a ring that is cut where it would come back to, or start from, the root.
    closing = {"bcast": target == root, "reduce": source == root}.get(operation, source == target)
    return source[~closing], target[~closing]


def edge_bytes(collective: Call, calls: int, members: int) -> tuple[int, int]:
    """Bytes and messages over each edge; `collective.size` is of one rank over all calls."""
    n, size, steps = members, collective.size, 1
    if collective.operation == "allreduce":
        size, steps = 2 * (n - 1) * size // n, 2 * (n - 1)
    elif collective.operation in ("allgather", "reduce_scatter_block"):
        size, steps = (n - 1) * size, n - 1
    return size, steps * calls


MAX_RANKS = 1 << 17
MAX_MEMBERS = 1 << 22  # of all communicators together
MAX_EDGES = 1 << 24
_MAX_EVENTS = 1 << 18

# NCCL's calls, lower case, and the MPI operations that they are. A call's size is one rank's
# contribution: the block of allgather and alltoall, the block that a rank gets of reduce-scatter.
OPERATION_OF_CALL = {
    "allreduce": "allreduce",
    "allgather": "allgather",
    "allgatherv": "allgather",
    "reducescatter": "reduce_scatter_block",
    "broadcast": "bcast",
    "bcast": "bcast",
    "reduce": "reduce",
    "alltoall": "alltoall",
    "gather": "gather",
    "scatter": "scatter",
}
_OF_SETS = {
    **dict.fromkeys(RING_OPERATIONS, Exchange.RING),
    "allreduce": Exchange.ALL_REDUCE,
    "alltoall": Exchange.PAIRWISE,
}
ROOTED = frozenset({"bcast", "reduce", "gather", "scatter"})

MODEL = (
    "allreduce 2(n-1)/n, allgather and reduce_scatter (n-1)/n of the bytes over each edge of"
    " a ring in rank order; bcast and reduce along it as a chain; alltoall, gather, scatter direct"
)


@dataclass(frozen=True, slots=True)
class Call:
    """A collective as one member sees it; `size` is one rank's contribution in bytes."""

    operation: str
    size: int
    root: int = -1  # position in the communicator


@dataclass(slots=True, eq=False)
class Group:
    """A communicator of the job.

    Attributes:
        members: world rank of each position, None where it is not known.
        name: as the source calls it.
        calls: how often each position reports each call.
    """

    members: Sequence[int | None]
    name: str = ""
    calls: dict[int, Counter[Call]] = field(default_factory=lambda: defaultdict(Counter))


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
        unplaced: messages with ranks of which nothing is known.
        space: where all buffers are.
        library: which orders the members of a group itself, "" for one that goes by their ranks.
    """

    ranks: int
    groups: list[Group] = field(default_factory=list)
    sends: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    receives: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    exchanged: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    reporting: set[int] = field(default_factory=set)
    unplaced: int = 0
    space: MemorySpace = MemorySpace.DEVICE
    library: str = "nccl"
    _known: dict[tuple[int, ...], Group] = field(default_factory=dict)
    _members: int = 0

    def add_group(self, members: Sequence[int | None], name: str) -> Group:
        """One more group."""
        self._members += len(members)
        if self._members > MAX_MEMBERS:
            raise InputError("too many members of process groups", hint="is the source damaged?")
        self.groups.append(Group(members, name=name))
        return self.groups[-1]

    def group_of(self, members: tuple[int, ...], name: str) -> Group:
        """The one group of these members in this order."""
        if members not in self._known:
            self._known[members] = self.add_group(members, name)
        return self._known[members]

    def add_message(self, called: str, rank: int, peer: int, size: int, count: int) -> None:
        """Messages by `send` or `recv` as `rank` reports them."""
        if called == "send":
            self.sends[rank, peer, size] += count
        else:
            self.receives[peer, rank, size] += count

    def traffic(
        self,
        origin: str,
        *,
        rank_info: Sequence[RankInfo] = (),
        metadata: Mapping[str, str] | None = None,
        report: Sequence[str] = (),
    ) -> Traffic:
        """The edges of all calls.

        What communicators move is also told as sets where NCCL orders the members itself. What has
        a size per pair, or a root that all send to or from, is messages of its members.
        """
        notes = list(report)
        messages = MessageList(self.ranks, self.space)
        has_sets = self._has_sets(notes)
        unplaced = sum(
            self._expand(number, messages, has_sets=has_sets) for number in range(len(self.groups))
        )
        source, target, size, count = _columns(self.exchanged)
        nbytes = np.multiply(size, count, dtype=object)
        messages.add_sum(TrafficKind.EXACT_COLLECTIVE, source, target, nbytes, count)
        modelled = len(messages) > 0
        messages.add(TrafficKind.POINT_TO_POINT, *_columns(self._reported()))
        _check(messages)
        if unplaced:
            notes.append(
                f"{unplaced} bytes of collectives pass ranks of which nothing is known; they are"
                " left out"
            )
        if self.unplaced:
            notes.append(
                f"{self.unplaced} messages are with ranks of which nothing is known; they are left"
                " out"
            )
        messages.communicators = [
            Communicator(
                id=number,
                ranks=tuple(rank for rank in group.members if rank is not None),
                name=group.name,
            )
            for number, group in enumerate(self.groups)
        ]
        messages.collectives = self._events(notes)
        return messages.traffic(
            origin,
            collective_model=f"{self.library.upper() or 'as of NCCL'}: {MODEL}" if modelled else "",
            metadata=dict(metadata or {}),
            rank_info=tuple(rank_info),
            report=tuple(notes),
            timed=False,
        )

    def split_equal_exchanges(self) -> None:
        """Where some member of a group gave sizes per pair, the others' equal blocks are theirs.

        Without this an equal block would be taken for what all members do.
        """
        for group in self.groups:
            members = group.members
            if not any(c.operation == "alltoallv" for calls in group.calls.values() for c in calls):
                continue
            for position, calls in group.calls.items():
                for call in [call for call in calls if call.operation == "alltoall"]:
                    count = calls.pop(call)
                    calls[Call("alltoallv", call.size * len(members))] += count
                    for target in members:
                        source = members[position]
                        if source is not None and target is not None:
                            self.exchanged[source, target, call.size] += count

    def _has_sets(self, notes: list[str]) -> bool:
        """Whether collectives are those of sets of ranks, whose members a library orders itself."""
        if not self.library or self.space is not MemorySpace.DEVICE:
            return False
        unknown = sum(bool(group.calls) and None in group.members for group in self.groups)
        if unknown:
            notes.append(
                f"members of {unknown} communicators are not known: collectives are taken as"
                " messages between pairs of ranks, in rank order"
            )
        return not unknown

    def _expand(self, number: int, messages: MessageList, *, has_sets: bool) -> int:
        """Adds a communicator's edges; returns the bytes on edges with an end that is unknown."""
        unplaced = 0
        group = self.groups[number]
        n = len(group.members)
        ranks = np.array([-1 if rank is None else rank for rank in group.members], np.int64)
        for call, calls in _summed(group) if n > 1 else ():
            if n * n > MAX_EDGES and call.operation in DIRECT_OPERATIONS:
                raise InputError(
                    f"an {call.operation} of {n} ranks has too many pairs", hint="is it damaged?"
                )
            ends = [ranks[ends] for ends in collective_edges(call.operation, call.root, n)]
            known = (ends[0] >= 0) & (ends[1] >= 0)
            size, count = edge_bytes(call, calls, n)
            unplaced += size * int((~known).sum())
            exchange = _OF_SETS.get(call.operation)
            kind = TrafficKind.COLLECTIVE
            if has_sets and exchange is None:
                kind = TrafficKind.POINT_TO_POINT  # sent without a collective of the library
            elif has_sets and exchange is not None:
                messages.add_load(number, self.library, exchange, size, count)
            messages.add_sum(kind, ends[0][known], ends[1][known], size, count)
            _check(messages)
        return unplaced

    def _reported(self) -> dict[tuple[int, int, int], int]:
        """Messages by their senders' reports; by the receivers' where the sender left none."""
        lost = {key: n for key, n in self.receives.items() if key[0] not in self.reporting}
        return {**self.sends, **lost}

    def _events(self, notes: list[str]) -> list[CollectiveEvent]:
        total = sum(len(calls) for group in self.groups for calls in group.calls.values())
        by_class = total > _MAX_EVENTS
        if by_class:
            notes.append("collectives of very many sizes: listed by size class")
        events: Counter[tuple[int, str, int, int, int, str]] = Counter()
        for number, group in enumerate(self.groups):
            for position, calls in group.calls.items():
                rank = group.members[position]
                if rank is None:
                    continue
                for call, count in calls.items():
                    root = group.members[call.root] if call.root >= 0 else -1
                    size = call.size
                    if by_class and size:
                        size = 1 << (size.bit_length() - 1)
                    how = "ring" if call.operation in RING_OPERATIONS else "direct"
                    key = (number, call.operation, rank, -1 if root is None else root)
                    events[(*key, size, how)] += count
        return [
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
        ]


def _columns(counts: Mapping[tuple[int, int, int], int]) -> list[Int64Array]:
    """Source, target, bytes of one message, and how many."""
    rows = [(*key, count) for key, count in counts.items()]
    return list(np.array(rows, np.int64).reshape(-1, 4).T)


def _check(messages: MessageList) -> None:
    if len(messages) >= MAX_EDGES or messages.total >= MAX_TOTAL:
        raise InputError(
            "the calls add up to more than can be counted", hint="is the source damaged?"
        )


def _summed(group: Group) -> Iterator[tuple[Call, int]]:
    """Calls of all sizes together: the edges are linear in the bytes."""
    counts: Counter[Call] = Counter()
    for calls in group.calls.values():
        counts |= calls  # the highest count of each
    counts = Counter({call: n for call, n in counts.items() if call.operation in OPERATIONS})
    bytes_of: Counter[tuple[str, int]] = Counter()
    calls_of: Counter[tuple[str, int]] = Counter()
    for call, count in counts.items():
        bytes_of[call.operation, call.root] += call.size * count
        calls_of[call.operation, call.root] += count
    for operation, root in sorted(calls_of):
        key = operation, root
        yield Call(operation, bytes_of[key], root), calls_of[key]
