"""Algorithms of allreduce and reduce_scatter(_block).

Sources: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations
in MPICH", IJHPCA 19 (2005); J. L. Traff, "An improved algorithm for (non-commutative)
reduce-scatter with an application", EuroPVM/MPI 2005, for the butterfly.

Algorithms of reduce_scatter take the shares of the members: `Call.shares` cuts one vector,
`Call.own_blocks` are the equal blocks of reduce_scatter_block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from toposeat.model.pair_table import Int64Array, Messages
from toposeat.profile.algorithms.messages import (
    Algorithm,
    Call,
    doublings,
    down,
    linear,
    power_of_two_below,
    up,
)

Shares = Callable[[Call], Int64Array]


def _stays(members: int, *, odd: bool = True) -> tuple[int, int, Int64Array]:
    """Power of two, how many are beyond it, and who stays of the first pairs."""
    power = power_of_two_below(members)
    rest = members - power
    numbers = np.arange(power, dtype=np.int64)
    return power, rest, np.where(numbers < rest, 2 * numbers + odd, numbers + rest)


def _halvings(
    power: int, distances: Iterable[int]
) -> Iterator[tuple[Int64Array, Int64Array, Int64Array, int]]:
    """Steps in which each of `power` members sends half of its run of shares to a partner.

    Yields the partner of every member, the first shares of the run it sends and of the run it
    keeps, and their length.
    """
    numbers = np.arange(power, dtype=np.int64)
    start, length = np.zeros_like(numbers), power
    for distance in distances:
        length //= 2
        upper = numbers & distance != 0
        kept = start + np.where(upper, length, 0)
        yield numbers ^ distance, start + np.where(upper, 0, length), kept, length
        start = kept


def allreduce_recursive_doubling(call: Call, out: Messages) -> None:
    """Allreduce: whole vectors between members whose numbers differ in one bit."""
    power, rest, stays = _stays(call.members)
    leaves = 2 * np.arange(rest)
    out.add(leaves, leaves + 1, call.size)
    for distance in doublings(power):
        out.add(stays, stays[np.arange(power) ^ distance], call.size)
    out.add(leaves + 1, leaves, call.size)


def allreduce_ring(call: Call, out: Messages) -> None:
    """Allreduce: a ring for reduce-scatter and allgather; not for very short vectors."""
    if call.count < call.members:
        allreduce_recursive_doubling(call, out)
    else:
        allreduce_ring_always(call, out)


def allreduce_ring_always(call: Call, out: Messages) -> None:
    """Allreduce: the ring also for vectors that are shorter than the group."""
    shares = call.shares()
    # Reduce-scatter leaves out the share that the right neighbour ends up with, allgather the next.
    sizes = 2 * call.size - np.roll(shares, -1) - np.roll(shares, -2)
    out.add(call.positions, (call.positions + 1) % call.members, sizes, 2 * (call.members - 1))


def allreduce_linear(call: Call, out: Messages) -> None:
    """Allreduce: all to the first, who sends the result to all."""
    first = Call(members=call.members, size=call.size, element=call.element)
    up(linear)(first, out)
    down(linear)(first, out)


def allreduce_rabenseifner(call: Call, out: Messages) -> None:
    """Allreduce: recursive halving, then recursive doubling of what each reduced."""
    power, rest, stays = _stays(call.members, odd=False)
    if call.count < power:
        allreduce_linear(call, out)
        return
    leaves = 2 * np.arange(rest) + 1
    left = call.count // 2 * call.element
    out.add(leaves, leaves - 1, left)
    out.add(leaves - 1, leaves, call.size - left)
    out.add(leaves, leaves - 1, call.size - left)
    numbers = np.arange(power)
    window = np.full(power, call.count, dtype=np.int64)
    for distance in doublings(power):
        partner = numbers ^ distance
        lower = window // 2
        kept = np.where(numbers < partner, lower, window - lower)
        # Halving sends what is not kept, and doubling sends back what was kept.
        out.add(stays, stays[partner], (window - kept) * call.element)
        out.add(stays, stays[partner], kept * call.element)
        window = kept
    out.add(leaves - 1, leaves, call.size)


def reduce_scatter_ring(call: Call, out: Messages) -> None:
    """Reduce_scatter: everybody passes on every share but its own."""
    sizes = call.size - call.shares()
    out.add(call.positions, (call.positions + 1) % call.members, sizes, call.members - 1)


def block_ring(call: Call, out: Messages) -> None:
    """Reduce_scatter_block: everybody passes on every block but its own."""
    sizes = call.size * (call.members - 1)
    out.add(call.positions, (call.positions + 1) % call.members, sizes, call.members - 1)


def reduce_scatter_halving(shares: Shares) -> Algorithm:
    """Reduce_scatter: recursive halving; those beyond the power of two by their neighbours."""

    def algorithm(call: Call, out: Messages) -> None:
        power, rest, stays = _stays(call.members)
        own = shares(call)
        leaves = 2 * np.arange(rest)
        if not own.any():
            return
        out.add(leaves, leaves + 1, own.sum())
        ends = _ends(own, rest)
        for partner, sent, _, length in _halvings(power, doublings(power)[::-1]):
            _add_sent(out, stays, stays[partner], ends[sent + length] - ends[sent])
        _add_sent(out, leaves + 1, leaves, own[leaves])

    return algorithm


def _ends(shares: Int64Array, rest: int) -> Int64Array:
    """Running sums of the shares of those who stay, joined with those they stand in for."""
    pairs = shares[0 : 2 * rest : 2] + shares[1 : 2 * rest : 2]
    return np.concatenate([[0], np.cumsum(np.concatenate([pairs, shares[2 * rest :]]))])


def _add_sent(out: Messages, source: Int64Array, target: Int64Array, sizes: Int64Array) -> None:
    """Only what is not empty is sent."""
    some = sizes > 0
    out.add(source[some], target[some], sizes[some])


def reduce_scatter_butterfly(call: Call, out: Messages) -> None:
    """Reduce_scatter: halving over growing distances, then a mirror permutation."""
    _butterfly(call, call.shares(), out)


def block_butterfly(call: Call, out: Messages) -> None:
    """Reduce_scatter_block: halving over growing distances, then a mirror permutation."""
    # A power of two permutes its blocks in memory first, and needs no permutation by messages.
    alone = power_of_two_below(call.members) == call.members
    _butterfly(call, call.own_blocks(), out, mirrored_before=alone)


def _butterfly(
    call: Call, shares: Int64Array, out: Messages, *, mirrored_before: bool = False
) -> None:
    power, rest, stays = _stays(call.members)
    leaves = 2 * np.arange(rest)
    out.add(leaves, leaves + 1, shares.sum())
    ends = _ends(shares, rest)
    mirror = np.zeros(power, dtype=np.int64)
    for partner, sent, kept, length in _halvings(power, doublings(power)):
        out.add(stays, stays[partner], ends[sent + length] - ends[sent])
        mirror = kept  # the run that is left in the end is the mirrored number
    if mirrored_before:
        return
    holds_two = mirror < rest
    out.add(stays[holds_two], 2 * mirror[holds_two], shares[2 * mirror[holds_two]])
    moves = mirror != np.arange(power)
    target = stays[mirror[moves]]
    out.add(stays[moves], target, shares[target])


def block_doubling(call: Call, out: Messages) -> None:
    """Reduce_scatter_block: in step k members exchange all but the run of 2^k blocks they keep."""
    members, places = call.members, call.positions
    for mask in doublings(members):
        partner = places ^ mask
        own = places // mask * mask
        sent = own + np.maximum(members - own - mask, 0)  # blocks before and behind the run
        inside = partner < members
        out.add(places[inside], partner[inside], sent[inside] * call.size)
        there = partner // mask * mask
        got = there + np.maximum(members - there - mask, 0)
        have = members - own - mask
        for half in doublings(mask)[::-1]:
            helper = places ^ half
            base = places // (2 * half) * (2 * half)
            sends = (there + mask > members) & (helper > places) & (helper < members)
            sends &= (places < base + have) & (helper >= base + have)
            out.add(places[sends], helper[sends], got[sends] * call.size)
