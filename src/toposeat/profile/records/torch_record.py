"""One process's record of its `torch.distributed` calls, as `python_hook.recorder` leaves it.

A header, a table of two 64-bit numbers per row (calls, bytes), and lines of JSON: first one on the
process, then one for each process group, device and row when it is met first, and one at the end of
a process that was not killed. Whoever can write a record decides what is in it: every value is
checked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from toposeat.errors import InputError
from toposeat.launch.python_hook.recorder import HEADER_BYTES, MAGIC, ROWS, TABLE_BYTES
from toposeat.model.files import read_input
from toposeat.model.job_folder import TORCH_SUFFIX
from toposeat.profile.nccl_job import MAX_RANKS

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
    """Read one record; what a killed process was writing at that moment is left out.

    Raises:
        InputError: damaged, with what is wrong and the line behind the table.
    """
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
