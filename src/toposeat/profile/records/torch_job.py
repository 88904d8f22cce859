"""One `Traffic` from the records of the `torch.distributed` calls of a job.

`python_hook.recorder` leaves a record per process: a header, a table of two 64-bit numbers per row
(calls, bytes), and lines of JSON: first one on the process, then one for each process group, device
and row when it is met first, and one at the end of a process that was not killed. Whoever can write
a record decides what is in it: every value is checked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct, convert
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.launch.python_hook.recorder import HEADER_BYTES, MAGIC, ROWS, TABLE_BYTES
from toposeat.model.files import read_input
from toposeat.model.job_folder import TORCH_SUFFIX
from toposeat.model.traffic import (
    DeviceUse,
    GroupLoad,
    MemorySpace,
    PairTable,
    RankInfo,
    Traffic,
    TrafficKind,
)
from toposeat.profile.nccl_job import MAX_RANKS, Call, Group, NcclJob

SUFFIX = TORCH_SUFFIX
_MAX_BYTES = 1 << 28
_MAX_TOTAL = 1 << 62
_HINT = "leave it out, or record the run again"
_WITH_OTHER = frozenset({"bcast", "reduce", "gather", "scatter", "send", "recv", "alltoallv"})
_WITHOUT_OTHER = frozenset(
    {"allreduce", "allgather", "reduce_scatter_block", "alltoall", "barrier"}
)

_Small = Annotated[int, Meta(ge=0, le=1 << 16)]
_Name = Annotated[str, Meta(max_length=256)]


class TorchProcess(Struct):
    """The first line of a record."""

    world: Annotated[int, Meta(ge=1, le=MAX_RANKS)]
    rank: Annotated[int, Meta(ge=0, lt=MAX_RANKS)]
    pid: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    host: _Name = ""
    library: str = "nccl"
    restart: Annotated[int, Meta(ge=0, le=1 << 31)] | None = None
    local_rank: Annotated[int, Meta(ge=0, le=MAX_RANKS)] | None = None


class TorchGroup(Struct):
    """A process group: its number in the record, and world ranks by position."""

    group: int
    name: _Name
    members: Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(min_length=1)]


class TorchDevice(Struct):
    """A device that a process used."""

    device: _Small
    visible: _Small
    pci: _Name | None = None


class TorchCalls(Struct, kw_only=True):
    """All calls of one kind by one process.

    `other` is the root or the peer, a position in the group, -1 where there is none. `bytes` is the
    sum over the calls of the process's own contribution; of reduce-scatter and scatter, of what it
    gets. `size` is -1 for calls of several sizes, of which only the sum is known.
    """

    row: Annotated[int, Meta(ge=1, lt=ROWS)]
    group: Annotated[int, Meta(ge=0)]  # its number in the record
    operation: str
    other: Annotated[int, Meta(ge=-1, lt=MAX_RANKS)]
    device: _Name  # "cpu", "cuda", ...
    backend: _Name
    index: _Small | None = None
    size: int | None = None
    calls: int = 0  # this and `bytes` are in the table
    bytes: int = 0


@dataclass(slots=True)
class TorchRecord:
    """What one process recorded."""

    path: Path
    process: TorchProcess
    ended: bool = False
    lost: int = 0  # calls that could not be identified
    groups: list[TorchGroup] = field(default_factory=list)
    calls: list[TorchCalls] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)  # of the table, that have a line
    devices: list[TorchDevice] = field(default_factory=list)


def read_torch_record(path: Path) -> TorchRecord:
    """Read one record; what a killed process was writing at that moment is left out."""
    data = read_input(path, _MAX_BYTES)
    begin = HEADER_BYTES + TABLE_BYTES
    if not data.startswith(MAGIC) or len(data) < begin:
        raise InputError("no record of torch.distributed calls", path=path, hint=_HINT)
    table = np.frombuffer(data, np.uint64, 2 * ROWS, HEADER_BYTES).reshape(ROWS, 2)
    lines = data[begin:].split(b"\n")[:-1]  # what has no end is not whole
    if not lines:
        raise InputError("the process was killed before its first line", path=path, hint=_HINT)
    record = None
    for number, text in enumerate(lines, 1):
        try:
            values = json.loads(text)
            if not isinstance(values, dict):
                raise ValueError("no object")
            if not all(each.isprintable() for each in values.values() if isinstance(each, str)):
                raise ValueError("a text that is not printable")
            if record is None:
                process = convert(values, TorchProcess)
                if process.rank >= process.world:
                    raise ValueError(f"rank {process.rank} of {process.world}")
                record = TorchRecord(path, process, lost=min(int(table[0, 0]), _MAX_TOTAL))
            else:
                _take(record, values, table)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"damaged record of torch.distributed calls: {str(error)[:80]}",
                path=path,
                line=number,
                hint=_HINT,
            ) from error
    assert record is not None
    return record


def _take(record: TorchRecord, values: dict[str, Any], table: NDArray[np.uint64]) -> None:
    """One line behind the first; a ValueError says what is wrong with it."""
    if "row" in values:
        calls = convert(values, TorchCalls)
        calls.calls, calls.bytes = (int(value) for value in table[calls.row])
        if calls.group >= len(record.groups) or max(calls.calls, calls.bytes) > _MAX_TOTAL:
            raise ValueError(f"row {calls.row} is of an unknown group, or counts too much")
        others: Container[int] = (-1,) if calls.operation in _WITHOUT_OTHER else ()
        if calls.operation in _WITH_OTHER:
            others = range(len(record.groups[calls.group].members))
        if calls.other not in others or calls.row in record.rows:
            raise ValueError(f"row {calls.row} twice, or of no known operation and member")
        record.rows.add(calls.row)
        if calls.calls:
            record.calls.append(calls)
    elif "group" in values:
        group = convert(values, TorchGroup)
        members = set(group.members)
        if len(members) < len(group.members) or record.process.rank not in members:
            raise ValueError("a group that has a rank twice, or not its own")
        if max(members) >= record.process.world or group.group != len(record.groups):
            raise ValueError("a group out of order, or with a rank beyond the world")
        record.groups.append(group)
    elif "device" in values:
        record.devices.append(convert(values, TorchDevice))
    elif "end" in values:
        record.ended = True


def read_torch_records(*folders: Path) -> Traffic:
    """The traffic of a job whose records lie in folders, those of the last restart."""
    paths = [path for folder in folders for path in sorted(folder.glob(f"*{SUFFIX}"))]
    if not paths:
        raise InputError("no record of torch.distributed calls", path=folders[0])
    records = [read_torch_record(path) for path in paths]
    last = max(record.process.restart or 0 for record in records)
    records = [record for record in records if (record.process.restart or 0) == last]
    _check_one_job(records)
    world = records[0].process.world
    origin = f"PyTorch calls of {len(records)} of {world} ranks"
    library = "rccl" if records[0].process.library == "rccl" else "nccl"
    spaces = [
        _Space(NcclJob(ranks=world, library=library)),
        _Space(NcclJob(ranks=world, library="", space=MemorySpace.HOST)),
    ]
    ordered = sorted(records, key=lambda record: record.process.rank)
    for record in ordered:
        for calls in record.calls:
            group = record.groups[calls.group]
            spaces[calls.device == "cpu"].add(record.process.rank, calls, group)
    about = [_rank_info(record) for record in ordered]
    device, host = (space.traffic(origin, about) for space in spaces)
    both = joined(device, host)
    report = (*both.report, *_notes(records))
    return replace(both, report=report, metadata={"recorder": "torch.distributed"})


def _check_one_job(records: Sequence[TorchRecord]) -> None:
    """Refuse several worlds: of records alone nobody can tell whose ranks are whose."""
    worlds = Counter((record.process.rank, record.process.world) for record in records)
    sizes = sorted({world for _, world in worlds})
    same = max(worlds.values())
    if len(sizes) > 1 or same > 1:
        what = f"{same} worlds of {sizes[0]} ranks each"
        if len(sizes) > 1:
            what = f"worlds of {' and '.join(map(str, sizes))} ranks"
        raise InputError(
            f"the job has {what}, and a plan is for one world",
            path=records[0].path,
            hint="start and profile one of them alone, such as a server with -dp 1",
        )


@dataclass(slots=True)
class _Space:
    """The calls whose buffers are in one memory space."""

    job: NcclJob
    _exchanges: dict[tuple[Group, int], tuple[int, int]] = field(
        default_factory=dict
    )  # bytes, calls
    _summed: set[tuple[Group, str, int]] = field(default_factory=set)

    def add(self, rank: int, calls: TorchCalls, torch_group: TorchGroup) -> None:
        """Calls of one kind by one rank."""
        members, job = torch_group.members, self.job
        job.reporting.add(rank)
        if "nccl" not in calls.backend.lower():
            job.library = ""  # its rings follow the order of the ranks
        if calls.operation in ("send", "recv"):
            peer = members[calls.other]
            for size, count in _equal_parts(calls.bytes, calls.calls):
                job.add_message(calls.operation, rank, peer, size, count)
            return
        group, position = job.group_of(members, torch_group.name), members.index(rank)
        if calls.operation == "alltoallv":
            for size, count in _equal_parts(calls.bytes, calls.calls):
                job.exchanged[rank, members[calls.other], size] += count
            total, most = self._exchanges.get((group, position), (0, 0))
            self._exchanges[group, position] = total + calls.bytes, max(most, calls.calls)
            return
        size = calls.bytes
        if calls.operation == "alltoall":
            size //= len(members)  # one block for each member
        if calls.size == -1:
            self._summed.add((group, calls.operation, calls.other))
        for each, count in _equal_parts(size, calls.calls):
            group.calls[position][Call(calls.operation, each, calls.other)] += count

    def traffic(self, origin: str, rank_info: Sequence[RankInfo]) -> Traffic:
        """All calls; those of an all-to-all with a size per member become one."""
        for (group, position), sums in self._exchanges.items():
            for size, count in _equal_parts(*sums):
                group.calls[position][Call("alltoallv", size)] += count
        for group, operation, root in self._summed:
            _by_one_member(group, operation, root)
        self.job.split_equal_exchanges()
        return self.job.traffic(origin, rank_info=rank_info)


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
    process = record.process
    pci = {device.device: device.pci for device in record.devices}
    uses = tuple(
        DeviceUse(
            pci_bus_id=pci.get(ordinal) if ordinal is not None else None,
            ordinal=ordinal,
            bytes=size,
        )
        for ordinal, size in sent.most_common()
    )
    return RankInfo(
        rank=process.rank,
        host=process.host,
        pid=process.pid,
        finalized=record.ended,
        device_pci_bus_id=uses[0].pci_bus_id if uses else None,
        device_ordinal=uses[0].ordinal if uses else None,
        visible_devices=record.devices[0].visible if record.devices else None,
        local_rank=process.local_rank,
        devices=uses,
    )


def _notes(records: Sequence[TorchRecord]) -> list[str]:
    """What the records do not hold."""
    notes = ["of PyTorch: no share of the run, because communication overlaps computation"]
    lost = sum(record.lost for record in records)
    if lost:
        notes.append(f"left out: {lost} calls of torch.distributed that could not be read")
    if restart := records[0].process.restart:
        notes.append(f"torchrun restarted the job {restart} times: the last run alone")
    return notes


def joined(first: Traffic, second: Traffic) -> Traffic:
    """The sum of two traffics of the same ranks; all else is the first's.

    Groups stay sets only if no pairs of ranks lie in the table that shows them (`Traffic.groups`);
    phases stay only if they are still all there is.
    """
    both, shift = (first, second), max((each.id for each in first.communicators), default=-1) + 1
    models = (first.collective_model, second.collective_model)
    return replace(
        first,
        tables={
            key: PairTable.total(each.tables[key] for each in both if key in each.tables)
            for key in {**first.tables, **second.tables}
        },
        histograms={
            key: np.sum([each.histograms[key] for each in both if key in each.histograms], axis=0)
            for key in {**first.histograms, **second.histograms}
        },
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
