"""Algorithms of allgather(v), alltoall, barrier and scan."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from toposeat.model.traffic import Int64Array
from toposeat.profile.algorithms import trees
from toposeat.profile.algorithms.messages import Call, Messages, doublings, power_of_two_below

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
    parents, children = trees.binomial(call.members)
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
