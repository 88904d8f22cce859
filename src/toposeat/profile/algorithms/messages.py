"""One call of a collective, and the list of messages that an algorithm makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from toposeat.model.traffic import Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
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


class Messages:
    """Messages between positions, as they are added; equal pairs are not yet summed."""

    def __init__(self) -> None:
        self._parts: list[Int64Array] = []

    def add(
        self, source: ArrayLike, target: ArrayLike, size: ArrayLike, count: ArrayLike = 1
    ) -> None:
        """`count` messages from each source to each target, of `size` bytes **altogether**."""
        columns = np.broadcast_arrays(*np.atleast_1d(source, target, size, count))
        self._parts.append(np.stack(columns).astype(np.int64))

    def rounds(self) -> list[Int64Array]:
        """What was added at a time, in order: arrays (4, messages) like `rows`."""
        return self._parts

    def rows(self) -> Int64Array:
        """Array (4, messages): source, target, bytes, messages."""
        if not self._parts:
            return np.empty((4, 0), dtype=np.int64)
        return np.concatenate(self._parts, axis=1)


Algorithm = Callable[[Call, Messages], None]


def power_of_two_below(members: int) -> int:
    """The largest power of two that is not above `members`."""
    return 1 << (members.bit_length() - 1)


def doublings(limit: int) -> list[int]:
    """1, 2, 4, ... below `limit`."""
    return [1 << k for k in range(max(limit - 1, 0).bit_length())]
