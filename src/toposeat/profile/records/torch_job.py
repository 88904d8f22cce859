"""One `Traffic` from the records of the `torch.distributed` calls of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.traffic import (
    DeviceUse,
    MemorySpace,
    RankInfo,
    Traffic,
)
from toposeat.profile.nccl_job import MAX_MEMBERS, Call, Group, NcclJob
from toposeat.profile.records.joined import joined
from toposeat.profile.records.torch_record import (
    SUFFIX,
    TorchCalls,
    TorchGroup,
    TorchRecord,
    read_torch_record,
)


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
