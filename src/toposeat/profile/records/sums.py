"""Sums over the records of many ranks, in memory that grows with what differs, not with ranks."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from toposeat.model.traffic import CollectiveEvent, Int64Array, MemorySpace, PairTable
from toposeat.profile.records.record import RecordedEvent

MAX_EVENTS = 1 << 20  # of one job; beyond, sizes are merged by class
_MAX_WAITING = 1 << 19  # rows that wait before they are summed

# phase, communicator, operation, root, space, element, bytes
_Shape = tuple[int, int, str, int, MemorySpace, int, int]


class PairSum:
    """Rows (source, target, bytes, messages) that are summed per pair now and then.

    Memory: a few times the distinct pairs, not the rows that were added.
    """

    def __init__(self) -> None:
        self._table = PairTable.empty()
        self._waiting: list[Int64Array] = []
        self._rows = 0

    def add(self, rows: Int64Array) -> None:
        """Add an array (4, rows)."""
        if rows.shape[1] == 0:
            return
        self._waiting.append(rows)
        self._rows += rows.shape[1]
        if self._rows >= max(_MAX_WAITING, len(self._table) // 2):
            self._sum()

    def table(self) -> PairTable:
        """Everything so far."""
        self._sum()
        return self._table

    def _sum(self) -> None:
        if self._waiting:
            old = self._table
            have = np.stack([old.source, old.target, old.bytes, old.messages])
            rows = np.concatenate([have, *self._waiting], axis=1)
            self._waiting, self._rows = [], 0
            self._table = PairTable.from_pairs(*rows)


class EventSum:
    """Calls by shape and rank."""

    def __init__(self) -> None:
        self._calls: dict[_Shape, array[int]] = defaultdict(lambda: array("q"))
        self._count = 0
        self.merged_by_class = False

    def add(self, *, rank: int, communicator: int, event: RecordedEvent, phase: int) -> None:
        """Add what one rank recorded of one shape."""
        operation, root = event.operation, event.root
        shape = (phase, communicator, operation, root, event.space, event.element, event.bytes)
        self._calls[shape].extend((rank, event.calls))
        self._count += 1

    def phases(self) -> list[int]:
        """The phases that have events."""
        return sorted({shape[0] for shape in self._calls})

    def events(self, phase: int | None = None) -> Iterator[CollectiveEvent]:
        """The events of one phase or of all, calls of one shape and rank summed; any order."""
        if self._count > MAX_EVENTS and not self.merged_by_class:
            self._merge_by_class()
        rows: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
        for (own_phase, *shape), calls in self._calls.items():
            if phase in (None, own_phase):
                by_rank = rows[tuple(shape)]
                for rank, number in zip(calls[0::2], calls[1::2], strict=True):
                    by_rank[rank] = by_rank.get(rank, 0) + number
        for (communicator, operation, root, space, element, size), by_rank in rows.items():
            for rank, number in by_rank.items():
                yield CollectiveEvent(
                    communicator=communicator,
                    operation=operation,
                    rank=rank,
                    root=root,
                    space=space,
                    bytes=size,
                    calls=number,
                    element=element,
                )

    def _merge_by_class(self) -> None:
        """Sizes of one bit length become one, their mean over all calls."""
        classes: dict[tuple[object, ...], list[_Shape]] = defaultdict(list)
        for shape in self._calls:
            classes[(*shape[:6], shape[6].bit_length())].append(shape)
        merged: dict[_Shape, array[int]] = {}
        for shapes in classes.values():
            calls = [sum(self._calls[shape][1::2]) for shape in shapes]
            total = sum(n * shape[6] for n, shape in zip(calls, shapes, strict=True))
            mean = total // max(sum(calls), 1)
            together: dict[int, int] = defaultdict(int)
            for shape in shapes:
                for rank, number in zip(*[iter(self._calls[shape])] * 2, strict=True):
                    together[rank] += number
            flat = array("q", [n for item in together.items() for n in item])
            merged[(*shapes[0][:6], mean)] = flat
        self._calls, self.merged_by_class = defaultdict(lambda: array("q"), merged), True
