"""Read one rank's traffic record (`.tpsrec`), as laid out in interposer/include/toposeat_record.h.

Records come from other machines and from ranks that died at any moment, so nothing in them is
trusted: every offset, count and number is checked before it is used, and only the data parts of the
sparse file are read.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.traffic import HISTOGRAM_BUCKETS

SUFFIX = ".tpsrec"
MAX_RANKS = 1 << 24  # far beyond any machine; bounds what a damaged file can ask for
OUTSIDE = -1  # a peer or member that is not in the rank's MPI_COMM_WORLD
NO_COMMUNICATOR = -1

_MAGIC = b"TPSREC\r\n"
_VERSION = 1
_BYTE_ORDER = 0x01020304
_PEER_OUTSIDE = 0x7FFFFFFF
_NO_COMMUNICATOR = 0xFFFFFFFF
_CHUNK = 8 << 20

OPERATIONS = {
    1: "barrier",
    2: "bcast",
    3: "gather",
    4: "gatherv",
    5: "scatter",
    6: "scatterv",
    7: "allgather",
    8: "allgatherv",
    9: "alltoall",
    10: "alltoallv",
    11: "alltoallw",
    12: "reduce",
    13: "allreduce",
    14: "reduce_scatter",
    15: "reduce_scatter_block",
    16: "scan",
    17: "exscan",
    18: "neighbor_allgather",
    19: "neighbor_allgatherv",
    20: "neighbor_alltoall",
    21: "neighbor_alltoallv",
    22: "neighbor_alltoallw",
}


class State(IntEnum):
    """How far the rank came."""

    RUNNING = 0  # it died, or was killed
    FINALIZED = 1
    ABORTED = 2


class Flag(IntEnum):
    """Bits of `RankRecord.flags`."""

    SPAWNED = 1
    CONCURRENT = 2
    GPU_RUNTIME = 4
    SEVERAL_DEVICES = 8
    LEVEL_ZERO = 16
    INSIDE_RANK = 32


class Kind(IntEnum):
    """Kind of a pair's bytes; FROM means that the flow is from the peer to this rank."""

    POINT_TO_POINT = 0
    COLLECTIVE = 1
    ONE_SIDED = 2
    ONE_SIDED_FROM = 3


_HEADER = struct.Struct("<8s5I3i12Q2I9Q2i32s64s64s16s128s")
_SECTIONS = ("slots", "events", "communicators", "runs")
_FIELDS = (
    *("magic", "version", "byte_order", "header_bytes", "state", "flags"),
    *("rank", "world_size", "pid"),
    *(f"{section}_{part}" for section in _SECTIONS for part in ("offset", "capacity", "stride")),
    *("communicators_used", "runs_used"),
    *("start_ticks", "start_ns", "last_ticks", "last_ns", "mpi_ticks", "calls"),
    *("lost_messages", "lost_bytes", "lost_events"),
    *("device_ordinal", "visible_devices", "device_pci", "host", "world", "abi", "library"),
)

_SLOT = np.dtype(
    [
        ("key", "<u8"),
        ("messages", "<u8"),
        ("bytes", "<u8"),
        ("histogram", "<u8", (HISTOGRAM_BUCKETS,)),
        ("reserved", "<u8", (4,)),
    ]
)
_EVENT = np.dtype(
    [
        ("used", "<u4"),
        ("communicator", "<u4"),
        ("operation", "<u2"),
        ("space", "u1"),
        ("by_class", "u1"),
        ("root", "<i4"),
        ("bytes", "<u8"),
        ("calls", "<u8"),
        ("bytes_total", "<u8"),
        ("reserved", "<u8"),
    ]
)
_COMMUNICATOR = np.dtype(
    [
        ("size", "<u4"),
        ("inter", "<u4"),
        ("first_run", "<u4"),
        ("run_count", "<u4"),
        ("name", "S48"),
    ]
)
_RUN = np.dtype([("first", "<i4"), ("stride", "<i4"), ("count", "<i4"), ("reserved", "<i4")])


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Members:
    """A communicator as one rank saw it. `runs` are rows (first, stride, count) of world ranks."""

    inter: bool
    name: str
    size: int
    runs: NDArray[np.int64]

    @property
    def key(self) -> tuple[bool, bytes]:
        """Equal for communicators with the same members in the same order."""
        return self.inter, self.runs.tobytes()

    def ranks(self) -> tuple[int, ...]:
        """World ranks in communicator order; `OUTSIDE` for processes of another world."""
        parts = [first + stride * np.arange(count) for first, stride, count in self.runs]
        return tuple(np.concatenate(parts).tolist()) if parts else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedEvent:
    """All calls of one collective with one shape; `communicator` is an index of the record's."""

    communicator: int
    operation: str
    device: bool
    root: int
    bytes: int  # of one call
    calls: int
    bytes_total: int
    by_class: bool = False  # calls of one size class were merged; `bytes` is their mean


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class RankRecord:
    """One rank's record. The arrays `kind`, `device`, `peer`, `bytes`, `messages` are parallel."""

    path: Path
    rank: int
    world_size: int
    pid: int
    state: State
    flags: int
    kind: NDArray[np.int64]
    device: NDArray[np.bool_]
    peer: NDArray[np.int64]
    bytes: NDArray[np.int64]
    messages: NDArray[np.int64]
    histogram: NDArray[np.int64]  # (pairs, HISTOGRAM_BUCKETS)
    events: tuple[RecordedEvent, ...]
    communicators: tuple[Members, ...]
    wall_s: float
    mpi_s: float
    calls: int
    lost_messages: int
    lost_bytes: int
    lost_events: int
    device_ordinal: int | None
    visible_devices: int | None
    device_pci_bus_id: str | None
    host: str
    world: str
    abi: str
    library: str

    def has(self, flag: Flag) -> bool:
        """Whether the flag is set."""
        return bool(self.flags & flag)


class _Reader:
    """One open record: its header fields, and its tables entry by entry."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        raw = os.pread(descriptor, _HEADER.size, 0)
        if len(raw) < _HEADER.size:
            raise self.damaged("the file is shorter than a record's header")
        self.header: dict[str, Any] = dict(zip(_FIELDS, _HEADER.unpack(raw), strict=True))

    def damaged(self, message: str) -> InputError:
        """The error to raise."""
        return InputError(
            f"damaged traffic record: {message}",
            hint="profile again; records are written by toposeat's interposer only",
            path=self.path,
        )

    def check_header(self) -> None:
        """Refuse what is not a record of this version, or says something impossible."""
        head = self.header
        if head["magic"] != _MAGIC:
            raise self.damaged("it does not start as one")
        if head["byte_order"] != _BYTE_ORDER:
            raise self.damaged("it was written with another byte order")
        if head["version"] != _VERSION:
            raise InputError(
                f"traffic record of version {head['version']}, this toposeat reads {_VERSION}",
                hint="read it with the toposeat that wrote it",
                path=self.path,
            )
        if head["header_bytes"] != _HEADER.size:
            raise self.damaged("its header has another size")
        if not 1 <= head["world_size"] <= MAX_RANKS or not 0 <= head["rank"] < head["world_size"]:
            raise self.damaged(f"rank {head['rank']} of {head['world_size']}")
        if head["state"] not in tuple(State):
            raise self.damaged(f"unknown state {head['state']}")
        if head["last_ns"] < head["start_ns"] or head["last_ticks"] < head["start_ticks"]:
            raise self.damaged("its clock runs backwards")

    def entries(self, name: str, dtype: np.dtype[Any], limit: int | None = None) -> NDArray[Any]:
        """The entries of a section that lie in the file's data parts (all others are zero)."""
        offset, capacity, stride = (
            self.header[f"{name}_{part}"] for part in ("offset", "capacity", "stride")
        )
        if stride != dtype.itemsize:
            raise self.damaged(f"its {name} have {stride} bytes each instead of {dtype.itemsize}")
        if offset < _HEADER.size or offset + capacity * stride > self.size:
            raise self.damaged(f"its {name} reach beyond the end of the file")
        count = capacity if limit is None else limit
        if count > capacity:
            raise self.damaged(f"it claims {count} {name}, but has room for {capacity}")
        if limit is not None:  # a short prefix, holes included
            return np.frombuffer(self._read(offset, count * stride), dtype)
        parts = [
            np.frombuffer(self._read(offset + low * stride, (high - low) * stride), dtype)
            for low, high in self._data_parts(offset, count, stride)
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype)

    def _read(self, offset: int, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            piece = os.pread(self._descriptor, min(_CHUNK, length - len(data)), offset + len(data))
            if not piece:
                raise self.damaged("the file became shorter while it was read")
            data += piece
        return bytes(data)

    def _data_parts(self, offset: int, count: int, stride: int) -> Iterator[tuple[int, int]]:
        """Entry ranges [low, high) of a section that are not holes of the sparse file."""
        end = offset + count * stride
        position = offset
        while position < end:
            try:
                data = os.lseek(self._descriptor, position, os.SEEK_DATA)
                hole = os.lseek(self._descriptor, data, os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                    return
                data, hole = position, end  # a file system that does not tell
            if data >= end:
                return
            low = (data - offset) // stride
            high = min(count, -(-(min(hole, end) - offset) // stride))
            yield low, high
            position = offset + high * stride


def read_record(path: Path) -> RankRecord | None:
    """Parse one record.

    Returns:
        The record, or None if the rank died before it had written the header (empty or all zero).

    Raises:
        InputError: if the file cannot be read or is not a sound record.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(
            f"cannot read the traffic record ({error.strerror})",
            hint="check the folder and its permissions",
            path=path,
        ) from error
    try:
        if os.fstat(descriptor).st_size == 0:
            return None
        reader = _Reader(path, descriptor)
        if reader.header["magic"] == bytes(8):
            return None
        reader.check_header()
        return _build(reader)
    except OSError as error:
        raise InputError(
            f"cannot read the traffic record ({error.strerror})", hint="is it a file?", path=path
        ) from error
    finally:
        os.close(descriptor)


def _build(reader: _Reader) -> RankRecord:
    head = reader.header
    slots = reader.entries("slots", _SLOT)
    slots = slots[slots["key"] != 0]
    kind, device, peer = _decode_keys(reader, slots["key"])
    if slots.size and max(slots["bytes"].max(), slots["messages"].max()) >= 1 << 62:
        raise reader.damaged("a counter is beyond any possible traffic")
    if slots.size and slots["histogram"].max() >= 1 << 62:
        raise reader.damaged("a histogram is beyond any possible traffic")
    communicators = _read_communicators(reader)
    wall_s, mpi_s = _times(head)
    ordinal, visible = head["device_ordinal"], head["visible_devices"]
    return RankRecord(
        path=reader.path,
        rank=head["rank"],
        world_size=head["world_size"],
        pid=head["pid"],
        state=State(head["state"]),
        flags=head["flags"],
        kind=kind,
        device=device,
        peer=peer,
        bytes=slots["bytes"].astype(np.int64),
        messages=slots["messages"].astype(np.int64),
        histogram=slots["histogram"].astype(np.int64),
        events=_read_events(reader, len(communicators)),
        communicators=communicators,
        wall_s=wall_s,
        mpi_s=mpi_s,
        calls=head["calls"],
        lost_messages=head["lost_messages"],
        lost_bytes=head["lost_bytes"],
        lost_events=head["lost_events"],
        device_ordinal=ordinal if ordinal >= 0 else None,
        visible_devices=visible if visible >= 0 else None,
        device_pci_bus_id=_text(head["device_pci"]).lower() or None,
        host=_text(head["host"]),
        world=_text(head["world"]),
        abi=_text(head["abi"]),
        library=_text(head["library"]),
    )


def _text(raw: bytes) -> str:
    text = raw.split(b"\0", 1)[0].decode("utf-8", errors="replace")
    return " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())


def _times(head: dict[str, Any]) -> tuple[float, float]:
    wall_ns = head["last_ns"] - head["start_ns"]
    ticks = head["last_ticks"] - head["start_ticks"]
    if wall_ns <= 0 or ticks <= 0:
        return 0.0, 0.0
    return wall_ns * 1e-9, head["mpi_ticks"] * (wall_ns / ticks) * 1e-9


def _decode_keys(
    reader: _Reader, keys: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Kind, space and peer of slot keys: used bit, kind << 40, space << 32, peer."""
    high = (keys >> np.uint64(32)).astype(np.int64)
    peer = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    kind, space = (high >> 8) & 0x3, high & 0x1
    if np.any(high != ((1 << 31) | kind << 8 | space)):
        raise reader.damaged("a slot has an unknown kind")
    outside = peer == _PEER_OUTSIDE
    if np.any(peer[~outside] >= reader.header["world_size"]):
        raise reader.damaged("a slot names a rank beyond the world")
    if np.unique(keys).size != keys.size:
        raise reader.damaged("a peer appears twice")
    return kind, space.astype(bool), np.where(outside, OUTSIDE, peer)


def _read_communicators(reader: _Reader) -> tuple[Members, ...]:
    entries = reader.entries("communicators", _COMMUNICATOR, reader.header["communicators_used"])
    runs = reader.entries("runs", _RUN, reader.header["runs_used"])
    table = np.stack([runs[name].astype(np.int64) for name in ("first", "stride", "count")], axis=1)
    _check_runs(reader, table)
    made = []
    for entry in entries:
        first, count, size = (int(entry[name]) for name in ("first_run", "run_count", "size"))
        own = table[first : first + count]
        if len(own) != count or int(own[:, 2].sum()) != size or size > MAX_RANKS:
            raise reader.damaged("the members of a communicator do not add up")
        name = _text(bytes(entry["name"]))
        made.append(Members(inter=bool(entry["inter"]), name=name, size=size, runs=own))
    return tuple(made)


def _check_runs(reader: _Reader, table: NDArray[np.int64]) -> None:
    first, stride, count = table.T
    last = first + stride * (count - 1)
    world = reader.header["world_size"]
    inside = (first >= 0) & (first < world) & (last >= 0) & (last < world)
    outside = (first == OUTSIDE) & (stride == 0)
    if np.any(count < 1) or not np.all(inside | outside):
        raise reader.damaged("a communicator names a rank beyond the world")


def _read_events(reader: _Reader, communicators: int) -> tuple[RecordedEvent, ...]:
    entries = reader.entries("events", _EVENT)
    return tuple(_event(reader, e, communicators) for e in entries[entries["used"] != 0])


def _event(reader: _Reader, entry: Any, communicators: int) -> RecordedEvent:
    operation = OPERATIONS.get(int(entry["operation"]))
    communicator = int(entry["communicator"])
    root, calls, total = int(entry["root"]), int(entry["calls"]), int(entry["bytes_total"])
    if operation is None:
        raise reader.damaged(f"unknown collective {int(entry['operation'])}")
    if communicator == _NO_COMMUNICATOR:
        communicator = NO_COMMUNICATOR
    elif communicator >= communicators:
        raise reader.damaged("a collective names an unknown communicator")
    if not -1 <= root < reader.header["world_size"]:
        raise reader.damaged("a collective has a root beyond the world")
    if max(calls, total) >= 1 << 62 or int(entry["bytes"]) >= 1 << 62 or int(entry["space"]) > 1:
        raise reader.damaged("a collective is beyond any possible traffic")
    by_class = bool(entry["by_class"])
    return RecordedEvent(
        communicator=communicator,
        operation=operation,
        device=bool(entry["space"]),
        root=root,
        bytes=(total // calls if calls else 0) if by_class else int(entry["bytes"]),
        calls=calls,
        bytes_total=total,
        by_class=by_class,
    )
