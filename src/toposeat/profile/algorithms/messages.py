"""Algorithms of collectives as lists of messages, but for those that reduce (`reduction`).

A call of bcast, gather, scatter, allgather(v), alltoall, barrier or scan becomes messages between
the positions of its members; trees are over places 0 .. members - 1, counted from the root, as
arrays of parents and children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from toposeat.model.pair_table import Int64Array, Messages
from toposeat.model.record import Record


class Call(Record, frozen=True, kw_only=True):
    """One call: how many members take part, the root's position, and the bytes.

    `size` has the meaning of `CollectiveEvent.bytes`: the whole vector of bcast, reduce,
    allreduce, reduce_scatter, scan and exscan; else the block that one member gives or gets.
    `blocks` are the members' own blocks where they differ (gatherv, allgatherv).
    """

    members: int
    root: int = 0
    size: int = 0
    element: int = 1  # bytes of one element: vectors are cut between elements
    blocks: Int64Array | None = None

    @property
    def positions(self) -> Int64Array:
        """0, 1, ... members - 1."""
        return np.arange(self.members, dtype=np.int64)

    @property
    def count(self) -> int:
        """Elements in `size`."""
        return self.size // self.element

    def own_blocks(self) -> Int64Array:
        """Bytes of every member's own block."""
        if self.blocks is not None:
            return self.blocks
        return np.full(self.members, self.size, dtype=np.int64)

    def shares(self) -> Int64Array:
        """`size` cut into one piece of whole elements per member, the larger ones first."""
        low, more = divmod(self.count, self.members)
        return (low + (self.positions < more)) * self.element

    def at(self, place: ArrayLike) -> Int64Array:
        """Positions of members that are counted from the root."""
        return (np.asarray(place, dtype=np.int64) + self.root) % self.members


Algorithm = Callable[[Call, Messages], None]


def power_of_two_below(members: int) -> int:
    """The largest power of two that is not above `members`."""
    return 1 << (members.bit_length() - 1)


def doublings(limit: int) -> list[int]:
    """1, 2, 4, ... below `limit`."""
    return [1 << k for k in range(max(limit - 1, 0).bit_length())]


Edges = tuple[Int64Array, Int64Array]  # parents, children


def linear(members: int) -> Edges:
    """Everybody below the root."""
    children = np.arange(1, members, dtype=np.int64)
    return np.zeros_like(children), children


def chain(members: int) -> Edges:
    """Each below the one before."""
    children = np.arange(1, members, dtype=np.int64)
    return children - 1, children


def binary(members: int) -> Edges:
    """Two children each; on every level first the left children of all, then the right ones."""
    places = np.arange(members, dtype=np.int64)
    step = power_at_or_below(places + 1)  # members of this level
    parents = np.concatenate([places, places])
    children = np.concatenate([places + step, places + 2 * step])
    inside = children < members
    return parents[inside], children[inside]


def knomial(members: int, radix: int) -> Edges:
    """A child's parent is found by clearing its lowest digit that is not 0, in base `radix`.

    With radix 2 this is the binomial tree whose subtrees are runs of neighbouring places.
    """
    children = np.arange(1, members, dtype=np.int64)
    mask = np.ones_like(children)
    while True:
        deeper = children % (mask * radix) == 0
        if not deeper.any():
            break
        mask[deeper] *= radix
    return children // (mask * radix) * (mask * radix), children


def binomial(members: int) -> Edges:
    """Subtrees are runs of neighbouring places."""
    return knomial(members, 2)


def binomial_by_distance(members: int) -> Edges:
    """The binomial tree that grows by doubling distances: the highest bit cleared is the parent."""
    children = np.arange(1, members, dtype=np.int64)
    return children - power_at_or_below(children), children


def subtree_sizes(members: int) -> Int64Array:
    """Members in the subtree of every place of `binomial`."""
    places = np.arange(members, dtype=np.int64)
    reach = np.where(places == 0, members, places & -places)
    return np.minimum(reach, members - places)


def power_at_or_below(numbers: Int64Array) -> Int64Array:
    """The largest power of two that is not above each number (all > 0)."""
    exponent = np.frexp(numbers.astype(np.float64))[1] - 1
    return np.left_shift(np.int64(1), exponent.astype(np.int64))


def in_order_binary(members: int) -> Edges:
    """Binary tree in rank order with the last member at the root; here the places are ranks.

    The right child of a run of ranks is the middle of it, the left one the last but one.
    """
    parents, children = [], []
    pending = [(0, members)]  # runs (first rank, length); the root of a run is its last rank
    while pending:
        first, length = pending.pop()
        root, right = first + length - 1, length >> 1
        left = length - 1 - right
        for start, part in ((first, right), (first + right, left)):
            if part > 0:
                parents.append(root)
                children.append(start + part - 1)
                pending.append((start, part))
    return np.array(parents, dtype=np.int64), np.array(children, dtype=np.int64)


Step = tuple[Int64Array, Int64Array, Int64Array]  # sources, targets, bytes


def double_recursively(pieces: Int64Array) -> Iterator[Step]:
    """Allgather of pieces by recursive doubling among any number of members.

    In step k members exchange all they have with the one whose number differs in bit k. Where that
    one does not exist, those of their subtree who got something pass it on, by recursive halving.
    """
    members = pieces.size
    places = np.arange(members, dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(pieces)])

    def run(start: Int64Array, length: int) -> Int64Array:
        low, high = np.minimum(start, members), np.minimum(start + length, members)
        return np.asarray(ends[high] - ends[low], dtype=np.int64)

    for mask in doublings(members):
        partner = places ^ mask
        own = places // mask * mask
        inside = partner < members
        yield places[inside], partner[inside], run(own, mask)[inside]
        there = partner // mask * mask  # where the subtree of the partner begins
        have = members - own - mask  # how many of the own subtree got it
        for half in doublings(mask)[::-1]:
            helper = places ^ half
            base = places // (2 * half) * (2 * half)
            sends = (there + mask > members) & (helper > places) & (helper < members)
            sends &= (places < base + have) & (helper >= base + have)
            if sends.any():
                yield places[sends], helper[sends], run(there, mask)[sends]


def allgather_recursive_doubling(call: Call, out: Messages) -> None:
    """Allgather by recursive doubling; Bruck's algorithm unless the members are a power of two."""
    if power_of_two_below(call.members) != call.members:
        allgather_bruck(call, out)
        return
    for source, target, sizes in double_recursively(call.own_blocks()):
        out.add(source, target, sizes)


def allgather_bruck(call: Call, out: Messages) -> None:
    """Allgather(v): in step k all blocks so far go 2^k members to the left."""
    members, places = call.members, call.positions
    blocks = call.own_blocks()
    ends = np.concatenate([[0], np.cumsum(np.concatenate([blocks, blocks]))])
    for distance in doublings(members):
        length = min(distance, members - distance)
        out.add(places, (places - distance) % members, ends[places + length] - ends[places])


def allgather_ring(call: Call, out: Messages) -> None:
    """Allgather(v): everybody passes on every block but the one its right neighbour began with."""
    blocks = call.own_blocks()
    sizes = blocks.sum() - np.roll(blocks, -1)
    out.add(call.positions, (call.positions + 1) % call.members, sizes, call.members - 1)


def allgather_neighbor(call: Call, out: Messages) -> None:
    """Allgather(v): neighbours exchange pairs of blocks, in turn left and right (even numbers)."""
    members, places = call.members, call.positions
    if members % 2:
        allgather_ring(call, out)
        return
    blocks = call.own_blocks()
    even = places % 2 == 0
    first = np.where(even, places + 1, places - 1)
    second = np.where(even, places - 1, places + 1) % members
    # After their own blocks, partners send pairs of blocks on, each time to the other side: the
    # first partner gets those of the pairs 1, 2, ... behind, the second those 0, 1, ... ahead.
    pairs = blocks[0::2] + blocks[1::2]
    steps_back, steps_on = (pairs.size - 1) // 2, pairs.size // 2
    ends = np.concatenate([[0], np.cumsum(np.tile(pairs, 3))])
    own = places // 2 + pairs.size  # in the middle one of three rounds
    after = own + 1

    def run(begin: Int64Array, end: Int64Array) -> Int64Array:
        return np.asarray(ends[end] - ends[begin], dtype=np.int64)

    behind = np.where(even, run(own - steps_back, own), run(after, after + steps_back))
    ahead = np.where(even, run(own, own + steps_on), run(after - steps_on, after))
    out.add(places, first, blocks + behind, 1 + steps_back)
    if steps_on:
        out.add(places, second, ahead, steps_on)


def alltoall_direct(call: Call, out: Messages) -> None:
    """Alltoall: one message per pair (linear, pairwise and their kin differ in order only)."""
    places = call.positions
    for distance in range(1, call.members):
        out.add(places, (places + distance) % call.members, call.size)


def alltoall_bruck(call: Call, out: Messages) -> None:
    """Alltoall: in step k all blocks whose distance has bit k go 2^k members on."""
    places = call.positions
    for distance in doublings(call.members):
        blocks = int(np.count_nonzero(places & distance))
        out.add(places, (places + distance) % call.members, blocks * call.size)


def barrier_dissemination(call: Call, out: Messages) -> None:
    """Barrier: empty messages over doubling distances (also called Bruck's)."""
    for distance in doublings(call.members):
        out.add(call.positions, (call.positions + distance) % call.members, 0)


def barrier_linear(call: Call, out: Messages) -> None:
    """Barrier: all report to the first, who answers."""
    out.add(call.positions[1:], 0, 0)
    out.add(0, call.positions[1:], 0)


def barrier_tree(call: Call, out: Messages) -> None:
    """Barrier: up a binomial tree and down again."""
    parents, children = binomial(call.members)
    out.add(children, parents, 0)
    out.add(parents, children, 0)


def barrier_recursive_doubling(call: Call, out: Messages) -> None:
    """Barrier: recursive doubling; those beyond the power of two report to one inside."""
    power = power_of_two_below(call.members)
    inside, extra = call.positions[:power], call.positions[power:]
    out.add(extra, extra - power, 0)
    for distance in doublings(power):
        out.add(inside, inside ^ distance, 0)
    out.add(extra - power, extra, 0)


def scan_chain(call: Call, out: Messages) -> None:
    """Scan, exscan: each to the next."""
    out.add(call.positions[:-1], call.positions[1:], call.size)


_FIRST_OF_SYNC, _FIRST_OF_LARGE_SYNC, _LARGE_SYNC = 1024, 32768, 92160


def down(tree: Callable[[int], Edges]) -> Algorithm:
    """Bcast: the whole vector from every parent to its children."""

    def algorithm(call: Call, out: Messages) -> None:
        parents, children = tree(call.members)
        out.add(call.at(parents), call.at(children), call.size)

    return algorithm


def up(tree: Callable[[int], Edges]) -> Algorithm:
    """Reduce: the whole vector from every child to its parent."""

    def algorithm(call: Call, out: Messages) -> None:
        parents, children = tree(call.members)
        out.add(call.at(children), call.at(parents), call.size)

    return algorithm


def down_knomial(radix: int) -> Algorithm:
    """Bcast down a tree of that radix."""
    return down(lambda members: knomial(members, radix))


def split_binary(call: Call, out: Messages) -> None:
    """Bcast: half of the vector down each half of a binary tree, then partners exchange."""
    first = -(-call.count // 2) * call.element
    halves = np.array([first, call.size - first])
    if halves.min() == 0:
        down(chain)(call, out)
        return
    parents, children = binary(call.members)
    out.add(call.at(parents), call.at(children), halves[(children + 1) % 2])
    places = call.positions[1:]
    partner = np.where(places % 2 == 1, places + 1, places - 1)
    both = partner < call.members
    out.add(call.at(places[both]), call.at(partner[both]), halves[(places[both] + 1) % 2])
    if call.members % 2 == 0:
        out.add(call.root, call.at(call.members - 1), halves[1])


def scatter_pieces(call: Call, out: Messages) -> np.ndarray:
    """The scatter of a bcast: down a binomial tree, pieces of one size; returns what each has."""
    piece = -(-call.count // call.members) * call.element
    places = call.positions
    pieces = np.clip(call.size - places * piece, 0, piece)
    parents, children = binomial(call.members)
    reach = subtree_sizes(call.members)[children]
    sizes = np.clip(call.size - children * piece, 0, reach * piece)
    sent = sizes > 0
    out.add(call.at(parents[sent]), call.at(children[sent]), sizes[sent])
    return pieces


def scatter_allgather(call: Call, out: Messages) -> None:
    """Bcast: pieces down a binomial tree, then allgather by recursive doubling."""
    if call.count < call.members:
        down(linear)(call, out)
        return
    pieces = scatter_pieces(call, out)
    for source, target, sizes in double_recursively(pieces):
        out.add(call.at(source), call.at(target), sizes)


def scatter_allgather_ring(call: Call, out: Messages) -> None:
    """Bcast: pieces down a binomial tree, then allgather around a ring."""
    if call.count < call.members:
        down(linear)(call, out)
        return
    pieces = scatter_pieces(call, out)
    places = call.positions
    sizes = pieces.sum() - np.roll(pieces, -1)
    out.add(call.at(places), call.at(places + 1), sizes, call.members - 1)


def reduce_in_order(call: Call, out: Messages) -> None:
    """Reduce up a binary tree in rank order; its root, the last rank, hands the result on."""
    parents, children = in_order_binary(call.members)
    out.add(children, parents, call.size)
    if call.root != call.members - 1:
        out.add(call.members - 1, call.root, call.size)


def reduce_rabenseifner(call: Call, out: Messages) -> None:
    """Reduce: recursive halving, then gather up a binomial tree."""
    if call.count < power_of_two_below(call.members) or call.members > 3:
        # Larger groups are never given to it by the rules modelled here.
        up(linear)(call, out)
        return
    left = call.count // 2 * call.element
    right = call.size - left
    if call.members == 3:
        out.add([0, 1, 1], [1, 0, 0], [right, left, right])
    # Two are left: they exchange halves, and hand what they reduced to the root.
    low, high = (0, 1) if call.members == 2 else (0, 2)
    out.add([low, high], [high, low], [right, left])
    for holder, part in ((low, left), (high, right)):
        if holder != call.root:
            out.add(holder, call.root, part)


def gather_linear(call: Call, out: Messages) -> None:
    """Gather(v): everybody to the root."""
    blocks = call.own_blocks()
    others = call.positions[call.positions != call.root]
    out.add(others, call.root, blocks[others])


def gatherv_linear(call: Call, out: Messages) -> None:
    """Gatherv: everybody who has something to the root."""
    blocks = call.own_blocks()
    others = call.positions[(call.positions != call.root) & (blocks > 0)]
    out.add(others, call.root, blocks[others])


def gather_linear_sync(call: Call, out: Messages) -> None:
    """Gather: the root asks each (empty message), who sends in two parts."""
    first = _FIRST_OF_LARGE_SYNC if call.size > _LARGE_SYNC else _FIRST_OF_SYNC
    others = call.positions[call.positions != call.root]
    out.add(call.root, others, 0)
    out.add(others, call.root, call.size, 2 if call.size > 0 and first > 0 else 0)


def gather_binomial(call: Call, out: Messages) -> None:
    """Gather up a binomial tree."""
    parents, children = binomial(call.members)
    blocks = subtree_sizes(call.members)[children] * call.size
    out.add(call.at(children), call.at(parents), blocks)


def scatter_linear(call: Call, out: Messages) -> None:
    """Scatter: the root to everybody."""
    out.add(call.root, call.positions[call.positions != call.root], call.size)


def scatter_binomial(call: Call, out: Messages) -> None:
    """Scatter down a binomial tree."""
    parents, children = binomial(call.members)
    blocks = subtree_sizes(call.members)[children] * call.size
    out.add(call.at(parents), call.at(children), blocks)
