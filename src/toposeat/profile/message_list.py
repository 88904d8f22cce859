"""Messages by kind, and by part of a step, then summed into a `Traffic`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from toposeat.model.pair_table import PairSum
from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    MAX_TOTAL,
    CollectiveEvent,
    Communicator,
    Exchange,
    GroupLoad,
    Int64Array,
    MemorySpace,
    PairTable,
    Phase,
    Traffic,
    TrafficKind,
)

_POWERS = 1 << np.arange(63)


class MessageList:
    """Messages between buffers of `ranks` ranks; those of a rank to itself are left out.

    A `phase` is the name of a part of a step, "" where there are none.
    """

    def __init__(self, ranks: int, space: MemorySpace = MemorySpace.DEVICE) -> None:
        self.ranks = ranks
        self.space = space
        self.grid = ""  # of ranks that exchange with their neighbours: "4x2"
        self.total = 0.0  # all bytes and messages added up; from `MAX_TOTAL` on nothing is added
        self.communicators: list[Communicator] = []
        self.collectives: list[CollectiveEvent] = []
        self._pairs: dict[tuple[str, TrafficKind], PairSum] = defaultdict(PairSum)
        self._histograms: dict[TrafficKind, Int64Array] = {}
        self._loads: dict[tuple[int, str, Exchange, str], list[int]] = defaultdict(lambda: [0, 0])

    def add(
        self,
        kind: TrafficKind,
        source: ArrayLike,
        target: ArrayLike,
        size: ArrayLike,
        count: ArrayLike,
        *,
        phase: str = "",
    ) -> None:
        """`count` messages of `size` bytes each from every source to its target."""
        total = np.multiply(size, count, dtype=object)
        rows = self._add(phase, kind, source, target, total, count, size)
        if rows.shape[1]:
            sizes = self._histograms.setdefault(kind, np.zeros(HISTOGRAM_BUCKETS, np.int64))
            np.add.at(sizes, np.searchsorted(_POWERS, rows[4], side="right"), rows[3])

    def add_sum(
        self,
        kind: TrafficKind,
        source: ArrayLike,
        target: ArrayLike,
        total: ArrayLike,
        count: ArrayLike,
    ) -> None:
        """`count` messages of `total` bytes altogether, whose sizes are not known."""
        self._add("", kind, source, target, total, count)

    def _add(self, phase: str, kind: TrafficKind, *columns: ArrayLike) -> Int64Array:
        """Columns are source, target, bytes, messages and more; returns the rows that count."""
        if np.max(columns[2], initial=0) >= MAX_TOTAL:
            self.total = math.inf
            return np.empty((len(columns), 0), np.int64)
        arrays = [np.atleast_1d(np.asarray(column, np.int64)) for column in columns]
        rows = np.stack(np.broadcast_arrays(*arrays))
        rows = rows[:, (rows[0] != rows[1]) & (rows[3] > 0)]
        self.total += float(rows[2:4].sum(dtype=np.float64))
        if rows.shape[1] and self.total < MAX_TOTAL:
            self._pairs[phase, kind].add(*rows[:4])
        return rows

    def add_load(
        self,
        communicator: int,
        library: str,
        exchange: Exchange,
        size: int,
        count: int,
        *,
        phase: str = "",
    ) -> None:
        """What a communicator moves whose members the library orders itself; see `GroupLoad`."""
        load = self._loads[communicator, library, exchange, phase]
        load[0] += size
        load[1] += count

    def __len__(self) -> int:
        return sum(map(len, self._pairs.values()))

    def traffic(self, origin: str, **more: Any) -> Traffic:
        """All messages so far, with `more` members of the traffic. `total` is below `MAX_TOTAL`."""
        parts = {key: pairs.table() for key, pairs in self._pairs.items()}
        index = {label: n for n, label in enumerate(dict.fromkeys(p for p, _ in parts if p))}
        return Traffic(
            ranks=self.ranks,
            origin=origin,
            tables={
                (kind, self.space): PairTable.total(t for (_, k), t in parts.items() if k is kind)
                for kind in dict.fromkeys(kind for _, kind in parts)
            },
            histograms={(kind, self.space): sizes for kind, sizes in self._histograms.items()},
            communicators=tuple(self.communicators),
            collectives=tuple(self.collectives),
            groups=tuple(
                GroupLoad(
                    communicator=communicator,
                    library=library,
                    exchange=exchange,
                    bytes=size,
                    messages=count,
                    phase=index.get(phase),
                )
                for (communicator, library, exchange, phase), (size, count) in self._loads.items()
            ),
            phases=tuple(
                Phase(
                    index=n,
                    label=label,
                    begin_s=0,
                    end_s=0,
                    tables={(k, self.space): t for (p, k), t in parts.items() if p == label},
                )
                for label, n in index.items()
            ),
            **more,
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

    `what` is the kind of file ("CSV matrix"), `one_per` what one message is assumed for; None where
    the file has message counts.
    """
    said = [f"a {what} does not say where the buffers were: device memory is assumed"]
    if one_per is not None:
        said.insert(0, f"this {what} has no message counts: one message per {one_per} is assumed")
    return Traffic(
        ranks=ranks,
        origin=f"{what} {Path(path).name}".rstrip(),
        tables={(TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE): table},
        report=(*said, *notes),
        timed=False,
    )
