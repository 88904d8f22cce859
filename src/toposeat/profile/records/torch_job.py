"""One `Traffic` from the records of the `torch.distributed` calls of a job.

`python_hook.recorder` leaves a record per process: a header, a table of two 64-bit numbers per row
(calls, bytes), and lines of JSON: first one on the process, then one for each process group, device
and row when it is met first, and one at the end of a process that was not killed. Whoever can write
a record decides what is in it: every value is checked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from toposeat.errors import InputError
from toposeat.launch.python_hook.recorder import HEADER_BYTES, MAGIC, ROWS, TABLE_BYTES
from toposeat.model.input_file import read_input
from toposeat.model.job_folder import TORCH_SUFFIX
from toposeat.model.traffic import (
    DeviceUse,
    GroupLoad,
    Int64Array,
    MemorySpace,
    PairTable,
    RankInfo,
    TableKey,
    Traffic,
    TrafficKind,
)
from toposeat.profile.nccl_job import MAX_MEMBERS, MAX_RANKS, Call, Group, NcclJob

SUFFIX = TORCH_SUFFIX
_MAX_BYTES = 1 << 28
_MAX_TOTAL = 1 << 62
_HINT = "leave it out, or record the run again"
_OPERATIONS = frozenset(
    {
        *("allreduce", "bcast", "reduce", "allgather", "reduce_scatter_block", "alltoall"),
        *("alltoallv", "gather", "scatter", "send", "recv", "barrier"),
    }
)
_WITH_OTHER = frozenset({"bcast", "reduce", "gather", "scatter", "send", "recv", "alltoallv"})


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchGroup:
    """A process group: world ranks by position."""

    name: str
    members: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchCalls:
    """All calls of one kind by one process.

    `other` is the root or the peer, a position in the group, -1 where there is none. `bytes` is the
    sum over the calls of the process's own contribution; of reduce-scatter and scatter, of what it
    gets. `summed`: calls of several sizes, of which only the sum is known.
    """

    group: TorchGroup
    operation: str
    other: int
    device: str  # "cpu", "cuda", ...
    index: int | None
    backend: str
    calls: int
    bytes: int
    summed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchDevice:
    """A device that a process used."""

    ordinal: int
    visible: int
    pci_bus_id: str | None


@dataclass(slots=True)
class TorchRecord:
    """What one process recorded."""

    path: Path
    rank: int = 0
    world: int = 0
    pid: int = 0
    host: str = ""
    library: str = "nccl"
    local_rank: int | None = None
    restart: int = 0
    ended: bool = False
    lost: int = 0  # calls that could not be identified
    calls: list[TorchCalls] = field(default_factory=list)
    devices: list[TorchDevice] = field(default_factory=list)


def read_torch_record(path: Path) -> TorchRecord:
    """Read one record; what a killed process was writing at that moment is left out."""
    data = read_input(path, _MAX_BYTES)
    begin = HEADER_BYTES + TABLE_BYTES
    if not data.startswith(MAGIC) or len(data) < begin:
        raise InputError("no record of torch.distributed calls", path=path, hint=_HINT)
    table = np.frombuffer(data, np.uint64, 2 * ROWS, HEADER_BYTES).reshape(ROWS, 2)
    lines = data[begin:].split(b"\n")[:-1]  # what has no end is not whole
    reader = _Reader(TorchRecord(path, lost=_count(int(table[0, 0]))), table)
    for number, text in enumerate(lines, 1):
        try:
            values = json.loads(text)
            if not isinstance(values, dict):
                raise ValueError("no object")
            reader.take(values, first=number == 1)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"damaged record of torch.distributed calls: {str(error)[:80]}",
                path=path,
                line=number,
                hint=_HINT,
            ) from error
    if not lines:
        raise InputError("the process was killed before its first line", path=path, hint=_HINT)
    return reader.record


def _count(value: int) -> int:
    return min(value, _MAX_TOTAL)


class _Reader:
    """Takes the lines of one record; a ValueError says what is wrong with one."""

    def __init__(self, record: TorchRecord, table: np.ndarray[Any, np.dtype[np.uint64]]) -> None:
        self.record = record
        self._table = table
        self._groups: list[TorchGroup] = []
        self._rows: set[int] = set()

    def take(self, values: dict[str, Any], *, first: bool) -> None:
        """One line."""
        if first:
            self._process(values)
        elif "row" in values:
            self._row(values)
        elif "group" in values:
            self._group(values)
        elif "device" in values:
            self._device(values)
        elif "end" in values:
            self.record.ended = True

    def _process(self, values: dict[str, Any]) -> None:
        record = self.record
        record.world = _whole(values, "world", 1, MAX_RANKS)
        record.rank = _whole(values, "rank", 0, record.world - 1)
        record.pid = _whole(values, "pid", 0, 2**31)
        record.host = _text(values, "host")
        record.library = "rccl" if values.get("library") == "rccl" else "nccl"
        record.restart = _whole(values, "restart", 0, 2**31) if values.get("restart") else 0
        if values.get("local_rank") is not None:
            record.local_rank = _whole(values, "local_rank", 0, MAX_RANKS)

    def _group(self, values: dict[str, Any]) -> None:
        members = values.get("members")
        world, rank = self.record.world, self.record.rank
        if not isinstance(members, list) or not 0 < len(members) <= world:
            raise ValueError("a group without members")
        ranks = [_whole({"member": each}, "member", 0, world - 1) for each in members]
        if len(set(ranks)) < len(ranks) or rank not in ranks:
            raise ValueError("a group that has a rank twice, or not its own")
        if _whole(values, "group", 0, 1 << 30) != len(self._groups):
            raise ValueError("groups out of order")
        self._groups.append(TorchGroup(name=_text(values, "name"), members=tuple(ranks)))

    def _device(self, values: dict[str, Any]) -> None:
        pci = values.get("pci")
        self.record.devices.append(
            TorchDevice(
                ordinal=_whole(values, "device", 0, 1 << 16),
                visible=_whole(values, "visible", 0, 1 << 16),
                pci_bus_id=None if pci is None else _text(values, "pci"),
            )
        )

    def _row(self, values: dict[str, Any]) -> None:
        row = _whole(values, "row", 1, ROWS - 1)
        if row in self._rows:
            raise ValueError(f"row {row} twice")
        self._rows.add(row)
        number = _whole(values, "group", 0, len(self._groups) - 1)
        group = self._groups[number]
        operation = values.get("operation")
        if operation not in _OPERATIONS:
            raise ValueError(f"unknown operation {str(operation)[:20]!r}")
        least = 0 if operation in _WITH_OTHER else -1
        most = len(group.members) - 1 if operation in _WITH_OTHER else -1
        calls, size = (int(value) for value in self._table[row])
        if calls > _MAX_TOTAL or size > _MAX_TOTAL:
            raise ValueError(f"row {row} counts more than there can be")
        if calls == 0:
            return
        self.record.calls.append(
            TorchCalls(
                group=group,
                operation=operation,
                other=_whole(values, "other", least, most),
                device=_text(values, "device"),
                index=None if values.get("index") is None else _whole(values, "index", 0, 1 << 16),
                backend=_text(values, "backend"),
                calls=calls,
                bytes=size,
                summed=values.get("size") == -1,
            )
        )


def _whole(values: dict[str, Any], name: str, least: int, most: int) -> int:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is {str(value)[:20]}")
    return value


def _text(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str) or len(value) > 256 or not value.isprintable():
        raise ValueError(f"{name} is no name")
    return value


def read_torch_records(*folders: Path) -> Traffic:
    """The traffic of a job whose records lie in folders, those of the last restart."""
    paths = [path for folder in folders for path in sorted(folder.glob(f"*{SUFFIX}"))]
    if not paths:
        raise InputError("no record of torch.distributed calls", path=folders[0])
    records = [read_torch_record(path) for path in paths]
    last = max(record.restart for record in records)
    records = [record for record in records if record.restart == last]
    world = records[0].world
    return torch_traffic(
        records, origin=f"PyTorch calls of {len(records)} of {world} ranks", notes=_notes(records)
    )


def torch_traffic(records: Sequence[TorchRecord], *, origin: str, notes: Sequence[str]) -> Traffic:
    """The traffic of one job.

    Args:
        records: one of each rank.
        origin: what they are.
        notes: for the report.
    """
    _check_one_job(records)
    world, library = records[0].world, records[0].library
    spaces = [
        _Space(NcclJob(ranks=world, library=library)),
        _Space(NcclJob(ranks=world, library="", space=MemorySpace.HOST)),
    ]
    ordered = sorted(records, key=lambda record: record.rank)
    for record in ordered:
        for calls in record.calls:
            spaces[calls.device == "cpu"].add(record.rank, calls)
    about = [_rank_info(record) for record in ordered]
    device, host = (space.traffic(origin, about) for space in spaces)
    both = joined(device, host)
    return replace(both, report=(*both.report, *notes), metadata={"recorder": "torch.distributed"})


def _check_one_job(records: Sequence[TorchRecord]) -> None:
    seen: dict[int, TorchRecord] = {}
    for record in records:
        other = seen.setdefault(record.rank, record)
        if other is not record or record.world != records[0].world:
            raise InputError(
                f"records of several jobs: {other.path.name} is of rank {other.rank} of"
                f" {records[0].world}, this one of rank {record.rank} of {record.world}",
                path=record.path,
                hint="profile one job at a time; keep the records of one in a folder of its own",
            )


@dataclass(slots=True)
class _Space:
    """The calls whose buffers are in one memory space."""

    job: NcclJob
    _number_of: dict[tuple[int, ...], int] = field(default_factory=dict)
    _exchanges: dict[tuple[int, int], _Sums] = field(default_factory=dict)
    _summed: set[tuple[int, str, int]] = field(default_factory=set)
    _members: int = 0

    def add(self, rank: int, calls: TorchCalls) -> None:
        """Calls of one kind by one rank."""
        members, job = calls.group.members, self.job
        job.reporting.add(rank)
        if "nccl" not in calls.backend.lower():
            job.library = ""  # its rings follow the order of the ranks
        if calls.operation in ("send", "recv"):
            peer = members[calls.other]
            for size, count in _equal_parts(calls.bytes, calls.calls):
                if calls.operation == "send":
                    job.sends[rank, peer, size] += count
                else:
                    job.receives[peer, rank, size] += count
            return
        number = self._number(calls.group)
        group, position = job.groups[number], members.index(rank)
        if calls.operation == "alltoallv":
            for size, count in _equal_parts(calls.bytes, calls.calls):
                job.exchanged[rank, members[calls.other], size] += count
            sums = self._exchanges.setdefault((number, position), _Sums())
            sums.bytes += calls.bytes
            sums.calls = max(sums.calls, calls.calls)
            return
        size = calls.bytes
        if calls.operation == "alltoall":
            size //= len(members)  # one block for each member
        if calls.summed:
            self._summed.add((number, calls.operation, calls.other))
        for each, count in _equal_parts(size, calls.calls):
            group.calls[position][Call(calls.operation, each, calls.other)] += count

    def _number(self, group: TorchGroup) -> int:
        """The place of a group in the job."""
        found = self._number_of.get(group.members)
        if found is None:
            self._members += len(group.members)
            if self._members > MAX_MEMBERS:
                raise InputError("too many members of process groups")
            found = self._number_of[group.members] = len(self.job.groups)
            self.job.groups.append(Group(group.members, name=group.name))
        return found

    def traffic(self, origin: str, rank_info: Sequence[RankInfo]) -> Traffic:
        """All calls; those of an all-to-all with a size per member become one."""
        for (number, position), sums in self._exchanges.items():
            for size, count in _equal_parts(sums.bytes, sums.calls):
                self.job.groups[number].calls[position][Call("alltoallv", size)] += count
        for number, operation, root in self._summed:
            _by_one_member(self.job.groups[number], operation, root)
        self.job.split_equal_exchanges()
        return self.job.traffic(origin, rank_info=rank_info)


@dataclass(slots=True)
class _Sums:
    """Calls of one member that are known by their sum."""

    bytes: int = 0
    calls: int = 0


def _by_one_member(group: Group, operation: str, root: int) -> None:
    """Keep the calls of the member that reports most bytes: what others sum up has other sizes."""
    own = {
        position: [call for call in calls if (call.operation, call.root) == (operation, root)]
        for position, calls in group.calls.items()
    }
    sums = {
        position: sum(call.size * group.calls[position][call] for call in calls)
        for position, calls in own.items()
    }
    most = max(sums, key=lambda position: (sums[position], -position))
    for position in own.keys() - {most}:
        for call in own[position]:
            del group.calls[position][call]


def _equal_parts(total: int, calls: int) -> Iterator[tuple[int, int]]:
    """Sizes and counts of calls that move so much together, as equal as whole bytes allow."""
    size, rest = divmod(total, calls)
    yield size, calls - rest
    if rest:
        yield size + 1, rest


def _rank_info(record: TorchRecord) -> RankInfo:
    sent: Counter[int | None] = Counter()
    for calls in record.calls:
        if calls.device != "cpu":
            sent[calls.index] += calls.bytes
    told = {device.ordinal: device for device in record.devices}
    uses = tuple(
        DeviceUse(
            pci_bus_id=told[ordinal].pci_bus_id if ordinal in told else None,
            ordinal=ordinal,
            bytes=size,
        )
        for ordinal, size in sent.most_common()
    )
    return RankInfo(
        rank=record.rank,
        host=record.host,
        pid=record.pid,
        finalized=record.ended,
        device_pci_bus_id=uses[0].pci_bus_id if uses else None,
        device_ordinal=uses[0].ordinal if uses else None,
        visible_devices=record.devices[0].visible if record.devices else None,
        local_rank=record.local_rank,
        devices=uses,
    )


def _notes(records: Sequence[TorchRecord]) -> list[str]:
    """What the records do not hold."""
    notes = ["of PyTorch: no share of the run, because communication overlaps computation"]
    lost = sum(record.lost for record in records)
    if lost:
        notes.append(f"left out: {lost} calls of torch.distributed that could not be read")
    if records[0].restart:
        notes.append(f"torchrun restarted the job {records[0].restart} times: the last run alone")
    return notes


def joined(first: Traffic, second: Traffic) -> Traffic:
    """The sum of two traffics of the same ranks; all else is the first's.

    Groups stay sets only if no pairs of ranks lie in the table that shows them (`Traffic.groups`);
    phases stay only if they are still all there is.
    """
    if first.ranks != second.ranks:
        raise ValueError(f"traffics of {first.ranks} and of {second.ranks} ranks")
    shift = max((each.id for each in first.communicators), default=-1) + 1
    models = (first.collective_model, second.collective_model)
    return replace(
        first,
        tables=_sum_of_tables(first.tables, second.tables),
        histograms=_sum_of_histograms(first.histograms, second.histograms),
        communicators=(
            *first.communicators,
            *(replace(each, id=each.id + shift) for each in second.communicators),
        ),
        collectives=(
            *first.collectives,
            *(replace(each, communicator=each.communicator + shift) for each in second.collectives),
        ),
        groups=_sum_of_groups(first, second, shift),
        phases=() if second.tables else first.phases,
        collective_model="; ".join(dict.fromkeys(filter(None, models))),
        rank_info=first.rank_info or second.rank_info,
        report=(*first.report, *second.report),
    )


def _sum_of_groups(first: Traffic, second: Traffic, shift: int) -> tuple[GroupLoad, ...]:
    shown = (TrafficKind.COLLECTIVE, MemorySpace.DEVICE)
    for one, other in ((first, second), (second, first)):
        if one.groups and not other.groups and shown in other.tables:
            return ()
    return (
        *first.groups,
        *(replace(each, communicator=each.communicator + shift) for each in second.groups),
    )


def _sum_of_tables(
    first: Mapping[TableKey, PairTable], second: Mapping[TableKey, PairTable]
) -> dict[TableKey, PairTable]:
    return {
        key: PairTable.total(each[key] for each in (first, second) if key in each)
        for key in {**first, **second}
    }


def _sum_of_histograms(
    first: Mapping[TableKey, Int64Array], second: Mapping[TableKey, Int64Array]
) -> dict[TableKey, Int64Array]:
    return {
        key: np.sum([each[key] for each in (first, second) if key in each], axis=0)
        for key in {**first, **second}
    }
