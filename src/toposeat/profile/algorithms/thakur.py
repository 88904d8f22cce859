"""Rabenseifner's reductions and scans in the forms that MPICH has.

Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations
in MPICH", IJHPCA 19 (2005).
"""

from __future__ import annotations

import numpy as np

from toposeat.model.traffic import Int64Array
from toposeat.profile.algorithms.messages import Call, Messages, doublings, power_of_two_below


def scan_recursive_doubling(call: Call, out: Messages) -> None:
    """Scan, exscan: whole vectors between members whose numbers differ in one bit."""
    for distance in doublings(call.members):
        partner = call.positions ^ distance
        inside = partner < call.members
        out.add(call.positions[inside], partner[inside], call.size)


def allreduce_halving_doubling(call: Call, out: Messages) -> None:
    """Allreduce: of the first pairs the even one leaves; reduce-scatter, then allgather."""
    power = power_of_two_below(call.members)
    rest = call.members - power
    numbers = np.arange(power, dtype=np.int64)
    stays = np.where(numbers < rest, 2 * numbers + 1, numbers + rest)
    leaves = 2 * np.arange(rest)
    out.add(leaves, leaves + 1, call.size)
    ends = _ends(call, power)
    start = np.zeros_like(numbers)
    length = power
    for distance in doublings(power):
        length //= 2
        partner = numbers ^ distance
        upper = numbers & distance != 0
        sent = start + np.where(upper, 0, length)
        kept = start + np.where(upper, length, 0)
        out.add(stays, stays[partner], ends[sent + length] - ends[sent])
        out.add(stays, stays[partner], ends[kept + length] - ends[kept])  # on the way back
        start = kept
    out.add(leaves + 1, leaves, call.size)


def reduce_halving_gather(call: Call, out: Messages) -> None:
    """Reduce: of the first pairs the odd one leaves; reduce-scatter, then gather to the root."""
    power = power_of_two_below(call.members)
    rest = call.members - power
    numbers = np.arange(power, dtype=np.int64)
    stays = np.where(numbers < rest, 2 * numbers, numbers + rest)
    leaves = 2 * np.arange(rest) + 1
    out.add(leaves, leaves - 1, call.size)
    ends = _ends(call, power)
    start, length = np.zeros_like(numbers), power
    for distance in doublings(power):
        length //= 2
        upper = numbers & distance != 0
        sent = start + np.where(upper, 0, length)
        out.add(stays, stays[numbers ^ distance], ends[sent + length] - ends[sent])
        start = start + np.where(upper, length, 0)
    root = _take_part(call, stays, rest, ends, out)
    _gather(stays, start, ends, root, out)


def _take_part(call: Call, stays: Int64Array, rest: int, ends: Int64Array, out: Messages) -> int:
    """The root's number among those who stay; one that left takes the place of number 0."""
    if call.root >= 2 * rest:
        return call.root - rest
    if call.root % 2 == 0:
        return call.root // 2
    out.add(stays[0], call.root, ends[1])
    stays[0] = call.root
    return 0


def _gather(
    stays: Int64Array, start: Int64Array, ends: Int64Array, root: int, out: Messages
) -> None:
    """Up a binomial tree: those whose highest bit is not the root's send first."""
    numbers = np.arange(stays.size, dtype=np.int64)
    active = np.ones(stays.size, dtype=bool)
    first, length = start.copy(), 1
    for distance in doublings(stays.size)[::-1]:
        other_side = (numbers ^ root) & distance != 0
        senders = numbers[active & other_side]
        begin = first[senders]
        out.add(stays[senders], stays[senders ^ distance], ends[begin + length] - ends[begin])
        active &= ~other_side
        first, length = np.minimum(first, first[numbers ^ distance]), 2 * length


def _ends(call: Call, power: int) -> Int64Array:
    """Where the pieces end that a vector is cut into; the last one takes what is left over."""
    pieces = np.full(power, call.count // power, dtype=np.int64)
    pieces[-1] += call.count % power
    return np.concatenate([[0], np.cumsum(pieces)]) * call.element
