"""Messages gathered one kind at a time, then summed into a `Traffic`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    CollectiveEvent,
    Communicator,
    Int64Array,
    MemorySpace,
    PairTable,
    Traffic,
    TrafficKind,
)


@dataclass(slots=True)
class _Columns:
    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    histogram: Int64Array = field(default_factory=lambda: np.zeros(HISTOGRAM_BUCKETS, np.int64))


class MessageList:
    """Messages between device buffers of `ranks` ranks; those of a rank to itself are left out."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.communicators: list[Communicator] = []
        self.collectives: list[CollectiveEvent] = []
        self._columns: dict[TrafficKind, _Columns] = {}

    def add(self, kind: TrafficKind, source: int, target: int, size: int, count: int) -> None:
        """`count` messages of `size` bytes each."""
        if source == target or count == 0:
            return
        columns = self._of(kind)
        columns.source.append(source)
        columns.target.append(target)
        columns.bytes.append(size * count)
        columns.messages.append(count)
        columns.histogram[size.bit_length()] += count

    def add_all_to_all(
        self, kind: TrafficKind, members: Sequence[int], size: int, count: int
    ) -> None:
        """The same between each two of `members`; as many calls of `add` would take seconds."""
        if count == 0 or len(members) < 2:
            return
        columns = self._of(kind)
        others = len(members) - 1
        for place, source in enumerate(members):
            columns.source.extend(repeat(source, others))
            columns.target.extend(members[:place])
            columns.target.extend(members[place + 1 :])
        pairs = len(members) * others
        columns.bytes.extend(repeat(size * count, pairs))
        columns.messages.extend(repeat(count, pairs))
        columns.histogram[size.bit_length()] += count * pairs

    def _of(self, kind: TrafficKind) -> _Columns:
        columns = self._columns.get(kind)
        if columns is None:
            columns = self._columns[kind] = _Columns()
        return columns

    def total_bytes(self) -> int:
        """The sum of everything added, exact."""
        return sum(sum(columns.bytes) for columns in self._columns.values())

    def traffic(
        self, origin: str, *, collective_model: str = "", metadata: Mapping[str, str]
    ) -> Traffic:
        """All messages so far. `total_bytes` must be below 2^62."""
        return Traffic(
            ranks=self.ranks,
            origin=origin,
            tables={
                (kind, MemorySpace.DEVICE): PairTable.from_pairs(
                    c.source, c.target, c.bytes, c.messages
                )
                for kind, c in self._columns.items()
            },
            histograms={
                (kind, MemorySpace.DEVICE): c.histogram for kind, c in self._columns.items()
            },
            communicators=tuple(self.communicators),
            collectives=tuple(self.collectives),
            collective_model=collective_model,
            metadata=metadata,
        )
