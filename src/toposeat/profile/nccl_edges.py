"""Bytes on each edge of an NCCL collective: rings, trees, and direct exchange.

NCCL moves a collective along rings or trees of its communicator, which it builds from the machine;
each channel carries an equal share of the bytes. With n members and S bytes (of one rank's
contribution, as NCCL counts it):

* all-reduce, ring: reduce-scatter then all-gather, 2 (n-1)/n S over every edge of the ring;
* all-gather, reduce-scatter, ring: (n-1) S, where S is one rank's block (of n S altogether);
* broadcast, reduce, ring: a chain, S over every edge but the one that would close it at the root;
* all-reduce, tree: two trees with half of the bytes each, up and down every edge;
* all-to-all, gather, scatter: direct, one message per pair.

Sources: P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", JPDC 69 (2009), for the ring; P. Sanders, J. Speck, J. L. Traeff, "Two-tree
algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35 (2009), for the
two trees; the bus bandwidth factors of nccl-tests (doc/PERFORMANCE.md) are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

Ring = tuple[int, ...]  # positions in the communicator, in the order of the ring
Parents = tuple[int, ...]  # of each position its parent in a tree, -1 at the root
Edge = tuple[int, int, int, int]  # source, target (positions), bytes, messages

RING_OPERATIONS = frozenset({"allreduce", "allgather", "reduce_scatter_block", "bcast", "reduce"})
DIRECT_OPERATIONS = frozenset({"alltoall", "gather", "scatter"})
OPERATIONS = RING_OPERATIONS | DIRECT_OPERATIONS


class Algorithm(StrEnum):
    """How NCCL moved a collective."""

    RING = "ring"
    TREE = "tree"


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


def collective_edges(
    collective: Collective,
    members: int,
    *,
    algorithm: Algorithm = Algorithm.RING,
    rings: Sequence[Ring] = (),
    trees: Sequence[Parents] = (),
) -> Iterator[Edge]:
    """Bytes and messages over each edge, in positions of the communicator.

    Args:
        collective: what was called.
        members: how many ranks the communicator has.
        algorithm: only an all-reduce is done by trees here; everything else goes by ring.
        rings: those of the channels; equal shares go over each. Default: one, in rank order.
        trees: those of the channels; default: `two_trees` of all members.
    """
    if members < 2 or collective.calls == 0:
        return
    if collective.operation in DIRECT_OPERATIONS:
        yield from _direct(collective, members)
    elif algorithm is Algorithm.TREE and collective.operation == "allreduce":
        for share, parents in _shares(collective.bytes, trees or two_trees([range(members)])):
            yield from _tree_allreduce(share, collective.calls, parents)
    else:
        for share, ring in _shares(collective.bytes, rings or [tuple(range(members))]):
            yield from _ring(collective, share, ring)


def _shares(total: int, channels: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, Ring]]:
    """The bytes cut into equal parts, one per channel; the first ones get what is left over."""
    part, rest = divmod(total, len(channels))
    for number, channel in enumerate(channels):
        yield part + (number < rest), channel


def _ring(collective: Collective, share: int, ring: Ring) -> Iterator[Edge]:
    n = len(ring)
    if collective.operation == "allreduce":
        size, steps = 2 * (n - 1) * share // n, 2 * (n - 1)
    elif collective.operation in ("allgather", "reduce_scatter_block"):
        size, steps = (n - 1) * share, n - 1
    else:
        size, steps = share, 1
    for source, target in zip(ring, (*ring[1:], ring[0]), strict=True):
        # A chain is a ring that is cut where it would come back to, or start from, the root.
        closing = target if collective.operation == "bcast" else source
        if collective.operation in ("bcast", "reduce") and closing == max(collective.root, 0):
            continue
        yield source, target, size, steps * collective.calls


def _tree_allreduce(share: int, calls: int, parents: Parents) -> Iterator[Edge]:
    for child, parent in enumerate(parents):
        if parent >= 0:
            yield child, parent, share, calls
            yield parent, child, share, calls


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


def two_trees(nodes: Sequence[Sequence[int]]) -> list[Parents]:
    """Two trees over all positions: a chain inside each node, binary trees between the nodes.

    Between nodes a member is an inner vertex of at most one of the trees, so that each link has
    about as much to send as to receive (Sanders, Speck, Traeff). With one node both are its chain.

    Args:
        nodes: positions of the communicator by node, in order.
    """
    heads = [node[0] for node in nodes]
    found = []
    for up in (_in_order_tree(len(nodes)), _second_tree(len(nodes))):
        parents = [-1] * sum(map(len, nodes))
        for node in nodes:
            for before, after in pairwise(node):
                parents[after] = before
        for place, parent in enumerate(up):
            if parent >= 0:
                parents[heads[place]] = heads[parent]
        found.append(tuple(parents))
    return found


def _in_order_tree(size: int) -> list[int]:
    """Parents in a binary tree whose leaves are the odd positions; position 0 is the root.

    The level of a position is its lowest set bit; its parent is the nearest position one level up
    that exists, which is below the position if the one above is not there.
    """
    parents = [-1] * size
    for place in range(1, size):
        level = place & -place
        above = (place ^ level) | (2 * level)
        parents[place] = above if above < size else place ^ level
    return parents


def _second_tree(size: int) -> list[int]:
    """The first tree mirrored (an even number of positions) or shifted by one (an odd number)."""
    first = _in_order_tree(size)

    def moved(place: int) -> int:
        return size - 1 - place if size % 2 == 0 else (place + 1) % size

    parents = [-1] * size
    for place, parent in enumerate(first):
        parents[moved(place)] = moved(parent) if parent >= 0 else -1
    return parents
