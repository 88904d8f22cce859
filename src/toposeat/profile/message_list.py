"""Messages gathered one kind, or one part of a step, at a time, then summed into a `Traffic`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    CollectiveEvent,
    Communicator,
    Exchange,
    GroupLoad,
    Int64Array,
    MemorySpace,
    PairTable,
    Phase,
    TableKey,
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
        self._columns: dict[TrafficKind, _Columns] = defaultdict(_Columns)

    def add(self, kind: TrafficKind, source: int, target: int, size: int, count: int) -> None:
        """`count` messages of `size` bytes each."""
        if source != target and count > 0:
            self.add_sum(kind, source, target, size * count, count)
            self._columns[kind].histogram[size.bit_length()] += count

    def add_sum(self, kind: TrafficKind, source: int, target: int, total: int, count: int) -> None:
        """`count` messages of `total` bytes altogether, whose sizes are not known."""
        if source != target and count > 0:
            columns = self._columns[kind]
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
        columns = self._columns[kind]
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


_LIBRARY = "nccl"


class StepMessages:
    """Messages between device buffers of `ranks` ranks; each belongs to a named part of the step.

    Groups of one name and the same ranks are one communicator, whatever parts use it.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.total = 0  # all bytes and messages added up, exact
        self._phases: dict[str, dict[TableKey, list[PairTable]]] = {}
        self._histograms: dict[TableKey, Int64Array] = {}
        self._communicators: dict[tuple[str, tuple[int, ...]], Communicator] = {}
        self._loads: list[tuple[str, GroupLoad]] = []

    def add_pairs(
        self, phase: str, source: Int64Array, target: Int64Array, size: int, count: int
    ) -> None:
        """`count` point-to-point messages of `size` bytes from each source to its target."""
        self._add(phase, TrafficKind.POINT_TO_POINT, (source, target), size, count)

    def add_communicators(self, name: str, members: Int64Array) -> list[Communicator]:
        """Make groups known: `name 0`, `name 1`, ...; those of one rank are left out.

        `members` are groups x members, world ranks, sorted in each group.
        """
        if members.shape[1] < 2:
            return []
        found = []
        for number, ranks in enumerate(map(tuple, members.tolist())):
            identity = len(self._communicators)
            new = Communicator(id=identity, ranks=ranks, name=f"{name} {number}")
            found.append(self._communicators.setdefault((name, ranks), new))
        return found

    def add_groups(
        self,
        phase: str,
        name: str,
        members: Int64Array,
        exchange: Exchange,
        *,
        size: int,
        count: int,
    ) -> None:
        """Collectives of alike groups, which the library orders itself.

        `count` messages of `size` bytes go over each edge of the ring over the members, or each
        ordered pair of them.
        """
        number = members.shape[1]
        communicators = self.add_communicators(name, members)
        if number < 2 or count == 0:
            return
        for communicator in communicators:
            load = GroupLoad(
                communicator=communicator.id,
                library=_LIBRARY,
                exchange=exchange,
                bytes=size * count,
                messages=count,
            )
            self._loads.append((phase, load))
        for shift in range(1, 2 if exchange is Exchange.RING else number):
            target = np.roll(members, -shift, axis=1)
            pairs = (members.ravel(), target.ravel())
            self._add(phase, TrafficKind.COLLECTIVE, pairs, size, count)

    def traffic(
        self, origin: str, *, collective_model: str = "", metadata: Mapping[str, str]
    ) -> Traffic:
        """All messages so far. `total` must be below 2^62."""
        phases = tuple(
            Phase(
                index=index,
                label=label,
                begin_s=0,
                end_s=0,
                tables={key: PairTable.total(tables) for key, tables in parts.items()},
            )
            for index, (label, parts) in enumerate(self._phases.items())
        )
        sums: dict[TableKey, list[PairTable]] = defaultdict(list)
        for phase in phases:
            for key, table in phase.tables.items():
                sums[key].append(table)
        return Traffic(
            ranks=self.ranks,
            origin=origin,
            tables={key: PairTable.total(tables) for key, tables in sums.items()},
            histograms=self._histograms,
            communicators=tuple(self._communicators.values()),
            groups=self._grouped(),
            phases=phases,
            collective_model=collective_model,
            metadata=metadata,
        )

    def _grouped(self) -> tuple[GroupLoad, ...]:
        """The loads, one for each communicator, way of exchange and part of the step."""
        index = {label: number for number, label in enumerate(self._phases)}
        sums: dict[tuple[int, Exchange, int], list[int]] = defaultdict(lambda: [0, 0])
        for label, load in self._loads:
            entry = sums[load.communicator, load.exchange, index[label]]
            entry[0] += load.bytes
            entry[1] += load.messages
        return tuple(
            GroupLoad(
                communicator=communicator,
                library=_LIBRARY,
                exchange=exchange,
                bytes=size,
                messages=count,
                phase=phase,
            )
            for (communicator, exchange, phase), (size, count) in sums.items()
        )

    def _add(
        self,
        phase: str,
        kind: TrafficKind,
        ends: tuple[Int64Array, Int64Array],
        size: int,
        count: int,
    ) -> None:
        pairs = len(ends[0])
        if pairs == 0 or count == 0:
            return
        total = pairs * (size * count + count)
        self.total += total
        if self.total >= 2**62:
            return  # refused by whoever asked, in one line
        key = (kind, MemorySpace.DEVICE)
        table = PairTable.from_pairs(*ends, np.full(pairs, size * count), np.full(pairs, count))
        self._phases.setdefault(phase, {}).setdefault(key, []).append(table)
        empty = np.zeros(HISTOGRAM_BUCKETS, np.int64)
        self._histograms.setdefault(key, empty)[size.bit_length()] += pairs * count
