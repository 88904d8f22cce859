"""Messages gathered one kind at a time, then summed into a `Traffic`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np
from msgspec import Struct, field

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


class _Columns(Struct):
    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    histogram: Int64Array = field(default_factory=lambda: np.zeros(HISTOGRAM_BUCKETS, np.int64))


class MessageList:
    """Messages between buffers of `ranks` ranks; those of a rank to itself are left out."""

    def __init__(self, ranks: int, space: MemorySpace = MemorySpace.DEVICE) -> None:
        self.ranks = ranks
        self.space = space
        self.total = 0  # all bytes and messages added up, exact
        self.communicators: list[Communicator] = []
        self.collectives: list[CollectiveEvent] = []
        self._columns: dict[TrafficKind, _Columns] = {}

    def add(self, kind: TrafficKind, source: int, target: int, size: int, count: int) -> None:
        """`count` messages of `size` bytes each."""
        if source != target and count > 0:
            self.add_sum(kind, source, target, size * count, count)
            self._of(kind).histogram[size.bit_length()] += count

    def add_sum(self, kind: TrafficKind, source: int, target: int, total: int, count: int) -> None:
        """`count` messages of `total` bytes altogether, whose sizes are not known."""
        if source != target and count > 0:
            columns = self._of(kind)
            columns.source.append(source)
            columns.target.append(target)
            columns.bytes.append(total)
            columns.messages.append(count)
            self.total += total + count

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
        self.total += pairs * (size * count + count)
        columns.bytes.extend(repeat(size * count, pairs))
        columns.messages.extend(repeat(count, pairs))
        columns.histogram[size.bit_length()] += count * pairs

    def _of(self, kind: TrafficKind) -> _Columns:
        columns = self._columns.get(kind)
        if columns is None:
            columns = self._columns[kind] = _Columns()
        return columns

    def __len__(self) -> int:
        return sum(len(columns.source) for columns in self._columns.values())

    def traffic(
        self, origin: str, *, collective_model: str = "", metadata: Mapping[str, str]
    ) -> Traffic:
        """All messages so far. `total` must be below 2^62."""
        return Traffic(
            ranks=self.ranks,
            origin=origin,
            tables={
                (kind, self.space): PairTable.from_pairs(c.source, c.target, c.bytes, c.messages)
                for kind, c in self._columns.items()
            },
            histograms={
                (kind, self.space): c.histogram
                for kind, c in self._columns.items()
                if c.histogram.any()
            },
            communicators=tuple(self.communicators),
            collectives=tuple(self.collectives),
            collective_model=collective_model,
            metadata=metadata,
        )


def table_traffic(
    what: str,
    path: str | Path,
    ranks: int,
    table: PairTable,
    *,
    one_per: str | None = "pair of ranks",
    notes: Sequence[str] = (),
) -> Traffic:
    """The traffic of a file that holds one table: point-to-point, between device buffers.

    Args:
        what: kind of file, for the origin and the report: "CSV matrix".
        path: of the file.
        ranks: how many there are.
        table: bytes and messages.
        one_per: what one message is assumed for; None where the file has message counts.
        notes: more lines of the report.
    """
    said = [f"a {what} does not say where the buffers were: device memory is assumed"]
    if one_per is not None:
        said.insert(0, f"this {what} has no message counts: one message per {one_per} is assumed")
    return Traffic(
        ranks=ranks,
        origin=f"{what} {Path(path).name}",
        tables={(TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE): table},
        report=(*said, *notes),
        timed=False,
    )
