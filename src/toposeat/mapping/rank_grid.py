"""The axes of a job, read from its groups and pairs: tensor x data x pipeline, experts, context.

Ranks are numbered along axes, the fastest first: rank = a + extent_a * (b + extent_b * (c + ...)).
A family of groups that all have the same strides shows some of them, and so does a family of pairs
that are equally far apart. Where they contradict each other the job has no axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from toposeat.evaluation.channels import tree_parts
from toposeat.evaluation.group_time import PhaseParts
from toposeat.model.traffic import Exchange, PairTable

Digit = tuple[int, int]  # stride, and how many


class Lines(Struct, frozen=True, kw_only=True):
    """Sets of ranks that differ along some axes only, and exchange the same amount each.

    Attributes:
        digits: the axes.
        cut_bytes: that a line sends and receives at least, both together, over any cut through it.
        on_two_bytes: the same where all of it is on two hosts.
        phase: number of the phase.
        is_ring: whether it is a group that its library orders, by rings.
        is_chain: whether each rank talks to the next ones of the line.
    """

    digits: tuple[Digit, ...]
    cut_bytes: float
    on_two_bytes: float
    phase: int
    is_ring: bool = False
    is_chain: bool = False

    @property
    def size(self) -> int:
        """How many ranks are on one."""
        return int(np.prod([count for _, count in self.digits]))


class RankGrid(Struct, frozen=True, kw_only=True):
    """Axes, the fastest first, as strides and extents, and the lines along them."""

    axes: tuple[Digit, ...]
    lines: tuple[Lines, ...]

    @property
    def factors(self) -> tuple[Digit, ...]:
        """The axes cut into prime extents."""
        return tuple(
            (stride * int(np.prod(own[:at])), own[at])
            for stride, extent in self.axes
            for own in [_primes(extent)]
            for at in range(len(own))
        )


def rank_grid(ranks: int, phases: Sequence[PhaseParts]) -> RankGrid | None:
    """The axes of a job; None where its groups and pairs show none."""
    lines = [each for at, phase in enumerate(phases) for each in _lines_of(ranks, at, phase)]
    marks = {1, ranks}
    for each in lines:
        for stride, count in each.digits:
            marks |= {stride, stride * count}
    chain = sorted(marks)
    if any(upper % lower for lower, upper in pairwise(chain)):
        return None
    axes = tuple((lower, upper // lower) for lower, upper in pairwise(chain))
    return RankGrid(axes=axes, lines=tuple(lines)) if lines and axes else None


def _lines_of(ranks: int, number: int, phase: PhaseParts) -> Iterator[Lines]:
    if phase.pairs is not None:
        found = _of_pairs(ranks, phase.pairs)
        if found is not None:
            digit, least = found
            yield Lines(
                digits=(digit,), cut_bytes=least, on_two_bytes=least, phase=number, is_chain=True
            )
        return
    families: dict[tuple[tuple[int, ...], Exchange], dict[int, float]] = {}
    for group in phase.groups:
        members = sorted(group.ranks)
        offsets = tuple(member - members[0] for member in members)
        size = len(members)
        # A ring goes out and comes back; of all pairs a cut before one member has the fewest.
        over = 2.0 * group.bytes * (1 if group.exchange.is_ring else size - 1)
        own = families.setdefault((offsets, group.exchange), {})
        own[members[0]] = own.get(members[0], 0.0) + over
    for (offsets, exchange), own in families.items():
        digits = _digits(offsets)
        if digits is not None and len(own) * len(offsets) == ranks:
            least, parts = min(own.values()), tree_parts(exchange, len(offsets), 2)
            yield Lines(
                digits=digits,
                cut_bytes=least,
                on_two_bytes=least if parts is None else least * parts[1],
                phase=number,
                is_ring=exchange.is_ring,
            )


def _digits(offsets: Sequence[int]) -> tuple[Digit, ...] | None:
    """Strides and extents whose sums are these offsets, which ascend from 0."""
    digits: list[Digit] = []
    known = np.zeros(1, np.int64)
    while len(known) < len(offsets):
        stride = offsets[len(known)]
        count = len(offsets) // len(known)
        for many in range(2, count + 1):  # as many as follow each other
            if many == count or offsets[many * len(known)] != many * stride:
                count = many
                break
        digits.append((stride, count))
        known = (stride * np.arange(count)[:, None] + known).ravel()
    return tuple(digits) if known.tolist() == list(offsets) else None


def _of_pairs(ranks: int, pairs: PairTable) -> tuple[Digit, float] | None:
    """Chains of ranks that are equally far apart, and the least bytes between two of them."""
    low, high = np.minimum(pairs.source, pairs.target), np.maximum(pairs.source, pairs.target)
    if not len(low):
        return None
    stride = int((high - low).min())
    near = high - low == stride
    over: NDArray[np.float64] = np.zeros(ranks)
    np.add.at(over, low[near], pairs.bytes[near].astype(np.float64))
    ends = np.flatnonzero(over[::stride] == 0) if stride else np.empty(0, np.int64)
    count = int(ends[0]) + 1 if len(ends) else 1
    if count < 2 or ranks % (stride * count):
        return None
    inner = np.arange(ranks) // stride % count < count - 1
    least = float(over[inner].min())
    return ((stride, count), least) if least > 0 else None


def _primes(number: int) -> list[int]:
    found, prime = [], 2
    while number > 1:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime += 1
    return found
