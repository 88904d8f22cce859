"""Expand recorded collectives into rank-pair traffic by stated algorithm models.

A record says that a rank took part in a collective, with how many bytes, not which messages the
MPI library made of it. The models below are the textbook algorithm of each operation; they are
*models*, named in `Traffic.collective_model`, and real libraries choose others by size. Operations
whose edges MPI itself fixes (alltoallv, alltoallw, scatterv, neighbour collectives) were counted
exactly by the interposer and are not expanded again.

Sources: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations
in MPICH", IJHPCA 19 (2005): binomial tree, ring, pairwise exchange, dissemination.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toposeat.model.traffic import (
    CollectiveEvent,
    Communicator,
    Int64Array,
    MemorySpace,
    PairTable,
)

MODEL = (
    "barrier: dissemination, empty messages; bcast, reduce, gather, scatter: binomial tree; "
    "allreduce, reduce_scatter, reduce_scatter_block, allgather, allgatherv: ring; "
    "alltoall: pairwise; gatherv: every rank to the root; scan, exscan: chain; "
    "alltoallv, alltoallw, scatterv and neighbour collectives: exact, one message per pair"
)

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


@dataclass(frozen=True, slots=True)
class Sends:
    """What one member sends in one call: members (positions), bytes and messages to each."""

    to: NDArray[np.int64]
    bytes: NDArray[np.int64]
    messages: NDArray[np.int64]


def _sends(to: Iterable[int], size: Iterable[int], messages: Iterable[int] | None = None) -> Sends:
    targets = np.array(list(to), dtype=np.int64)
    counts = np.ones_like(targets) if messages is None else np.array(list(messages), np.int64)
    return Sends(targets, np.array(list(size), dtype=np.int64), counts)


_NOTHING = _sends([], [])


@dataclass(frozen=True, slots=True)
class Call:
    """One member's view of one call: its position, the group, the root's position, the bytes."""

    me: int
    members: int
    root: int
    size: int

    @property
    def place(self) -> int:
        """Position counted from the root."""
        return (self.me - self.root) % self.members

    def at(self, distance: int) -> int:
        """The member `distance` positions to the right."""
        return (self.me + distance) % self.members


def _powers_below(limit: int) -> list[int]:
    return [1 << k for k in range(max(limit - 1, 0).bit_length())]


def _children(position: int, members: int) -> list[int]:
    """Distances to the children in a binomial tree rooted at 0: powers below the lowest set bit."""
    reach = members if position == 0 else position & -position
    return [step for step in _powers_below(reach) if position + step < members]


def _subtree(position: int, members: int) -> int:
    """Members in the subtree of a binomial tree rooted at 0."""
    return members if position == 0 else min(position & -position, members - position)


def _barrier(call: Call) -> Sends:
    steps = _powers_below(call.members)
    return _sends(map(call.at, steps), [0] * len(steps))


def _bcast(call: Call) -> Sends:
    steps = _children(call.place, call.members)
    return _sends(map(call.at, steps), [call.size] * len(steps))


def _scatter(call: Call) -> Sends:
    steps = _children(call.place, call.members)
    blocks = (call.size * _subtree(call.place + step, call.members) for step in steps)
    return _sends(map(call.at, steps), blocks)


def _to_parent(call: Call, size: int) -> Sends:
    """Up a binomial tree."""
    return _sends([call.at(-(call.place & -call.place))], [size]) if call.place else _NOTHING


def _reduce(call: Call) -> Sends:
    return _to_parent(call, call.size)


def _gather(call: Call) -> Sends:
    return _to_parent(call, call.size * _subtree(call.place, call.members))


def _gatherv(call: Call) -> Sends:
    return _sends([call.root], [call.size]) if call.place else _NOTHING


def _chunk(call: Call, index: int) -> int:
    """Bytes of chunk `index` when the size is cut into one chunk per member."""
    return call.size // call.members + (index % call.members < call.size % call.members)


def _allreduce(call: Call) -> Sends:
    # Reduce-scatter leaves out the chunk that the right neighbour ends up with, allgather the next.
    skipped = _chunk(call, call.me + 1) + _chunk(call, call.me + 2)
    return _sends([call.at(1)], [2 * call.size - skipped], [2 * (call.members - 1)])


def _reduce_scatter(call: Call) -> Sends:
    return _sends([call.at(1)], [call.size - _chunk(call, call.me)], [call.members - 1])


def _ring_of_blocks(call: Call) -> Sends:
    return _sends([call.at(1)], [call.size * (call.members - 1)], [call.members - 1])


def _alltoall(call: Call) -> Sends:
    others = range(1, call.members)
    return _sends(map(call.at, others), [call.size] * len(others))


def _chain(call: Call) -> Sends:
    return _sends([call.me + 1], [call.size]) if call.me < call.members - 1 else _NOTHING


_ALGORITHMS: Mapping[str, Callable[[Call], Sends]] = {
    "barrier": _barrier,
    "bcast": _bcast,
    "reduce": _reduce,
    "gather": _gather,
    "scatter": _scatter,
    "gatherv": _gatherv,
    "allgather": _ring_of_blocks,
    "allreduce": _allreduce,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_block": _ring_of_blocks,
    "alltoall": _alltoall,
    "scan": _chain,
    "exscan": _chain,
}


def expand_collectives(
    events: Iterable[CollectiveEvent], communicators: Sequence[Communicator]
) -> dict[MemorySpace, PairTable]:
    """Model the messages of all events.

    Args:
        events: per rank, as recorded; bytes are one call's contribution (`CollectiveEvent`).
        communicators: looked up by their `id`; events on others are left out.

    Returns:
        Directed pairs by memory space of the sender's contribution. A rank whose record is missing
        sends nothing in the model, though others send to it.
    """
    members_of = {c.id: c.ranks for c in communicators}
    edges: dict[MemorySpace, list[Int64Array]] = defaultdict(list)
    gathered: dict[tuple[int, MemorySpace], list[CollectiveEvent]] = defaultdict(list)
    for event in events:
        members = members_of.get(event.communicator)
        if members is None or len(members) < 2 or event.operation in EXACT:
            continue
        if event.operation == "allgatherv":
            gathered[event.communicator, event.space].append(event)
            continue
        rows = _rows(event, members)
        if rows is not None:
            edges[event.space].append(rows)
    for (communicator, space), group in gathered.items():
        edges[space].append(_allgatherv_rows(group, members_of[communicator]))
    return {s: PairTable.from_pairs(*np.concatenate(r, axis=1)) for s, r in edges.items()}


def _rows(event: CollectiveEvent, members: tuple[int, ...]) -> Int64Array | None:
    """Rows source, target, bytes, messages of all calls of one event."""
    algorithm = _ALGORITHMS.get(event.operation)
    if algorithm is None or event.rank not in members:
        return None
    root = members.index(event.root) if event.root in members else 0
    sends = algorithm(Call(members.index(event.rank), len(members), root, event.bytes))
    return np.stack(
        [
            np.full(sends.to.size, event.rank, dtype=np.int64),
            np.asarray(members, dtype=np.int64)[sends.to],
            sends.bytes * event.calls,
            sends.messages * event.calls,
        ]
    )


def _allgatherv_rows(events: Sequence[CollectiveEvent], members: tuple[int, ...]) -> Int64Array:
    """Ring: everyone passes on every block but the one its right neighbour started with."""
    blocks: dict[int, int] = defaultdict(int)
    calls: dict[int, int] = defaultdict(int)
    for event in events:
        blocks[event.rank] += event.bytes * event.calls
        calls[event.rank] += event.calls
    total = sum(blocks.values())
    rows = [
        (rank, right, total - blocks[right], calls[rank] * (len(members) - 1))
        for rank, right in zip(members, (*members[1:], members[0]), strict=True)
        if calls[rank]
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 4).T
