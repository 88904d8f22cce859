"""Bytes on each edge of an NCCL collective: a ring in rank order, a chain, or direct exchange.

NCCL builds its rings and trees from the machine that it finds, so what it built says nothing of
another placement: mapping takes a collective as a set of ranks with bytes (`Traffic.groups`), and
the edges here only show it. With n members and S bytes (of one rank's contribution):

* all-reduce: reduce-scatter then all-gather, 2 (n-1)/n S over every edge of the ring;
* all-gather, reduce-scatter: (n-1) S, where S is one rank's block (of n S altogether);
* broadcast, reduce: a chain, S over every edge but the one that would close it at the root;
* all-to-all, gather, scatter: direct, one message per pair.

Sources: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", JPDC 69 (2009); the bus bandwidth factors of nccl-tests (doc/PERFORMANCE.md) are the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Edge = tuple[int, int, int, int]  # source, target (positions), bytes, messages

RING_OPERATIONS = frozenset({"allreduce", "allgather", "reduce_scatter_block", "bcast", "reduce"})
DIRECT_OPERATIONS = frozenset({"alltoall", "gather", "scatter"})
OPERATIONS = RING_OPERATIONS | DIRECT_OPERATIONS


@dataclass(frozen=True, slots=True)
class Collective:
    """All calls of one collective that share a communicator and a root.

    Attributes:
        operation: one of `OPERATIONS`.
        bytes: contributions of one rank, summed over the calls (see the module).
        calls: how many calls.
        root: position in the communicator; -1 where the operation has none.
    """

    operation: str
    bytes: int
    calls: int
    root: int = -1


def collective_edges(collective: Collective, members: int) -> Iterator[Edge]:
    """Bytes and messages over each edge, in positions of a communicator of so many members."""
    if members < 2 or collective.calls == 0:
        return
    if collective.operation in DIRECT_OPERATIONS:
        yield from _direct(collective, members)
        return
    n, size, steps = members, collective.bytes, 1
    if collective.operation == "allreduce":
        size, steps = 2 * (n - 1) * size // n, 2 * (n - 1)
    elif collective.operation in ("allgather", "reduce_scatter_block"):
        size, steps = (n - 1) * size, n - 1
    for source in range(n):
        target = (source + 1) % n
        # A chain is a ring that is cut where it would come back to, or start from, the root.
        closing = target if collective.operation == "bcast" else source
        if collective.operation in ("bcast", "reduce") and closing == max(collective.root, 0):
            continue
        yield source, target, size, steps * collective.calls


def _direct(collective: Collective, members: int) -> Iterator[Edge]:
    root = max(collective.root, 0)
    for source in range(members):
        for target in _targets(collective.operation, source, root, members):
            yield source, target, collective.bytes, collective.calls


def _targets(operation: str, source: int, root: int, members: int) -> Iterable[int]:
    if operation == "alltoall":
        return (target for target in range(members) if target != source)
    if operation == "gather":
        return () if source == root else (root,)
    return (t for t in range(members) if t != root) if source == root else ()
