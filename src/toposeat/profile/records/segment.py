"""One segment file of a record: its layout (interposer/include/toposeat_record.h) and its reader.

Segments come from other machines and from ranks that died at any moment, so nothing in them is
trusted: every offset and count is checked before it is used, and no counter can overflow a sum.
Only the data parts of the sparse file are read.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.files import open_input
from toposeat.model.job_folder import RECORD_SUFFIX
from toposeat.model.record import Record
from toposeat.model.traffic import HISTOGRAM_BUCKETS, TimeKind, TrafficKind

SUFFIX = RECORD_SUFFIX
HOST_SUFFIX = ".host"  # `rank-R-PID.host` holds the name of the host that started rank R
CAUSE_SUFFIX = ".errno-"  # and its number: an empty file of a rank that has no record
MAX_RANKS = 1 << 21  # beyond any machine with GPUs; bounds what a damaged file can ask for
MAX_THREADS = 64

MAGIC = b"TPSREC\r\n"
VERSION = 5
BYTE_ORDER = 0x01020304
PEER_OUTSIDE = 0x7FFFFFFF
NO_COMMUNICATOR_CODE = 0xFFFFFFFF
MAIN_SEGMENT = -1

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

    CONCURRENT = 2
    GPU_RUNTIME = 4
    SEVERAL_DEVICES = 8
    LEVEL_ZERO = 16
    INSIDE_RANK = 32
    UNTIMED = 64
    PHASES_MERGED = 128
    NOT_GPU_AWARE = 256
    SPAWNS = 512


class Kind(IntEnum):
    """Kind of a pair's bytes; FROM means that the flow is from the peer to this rank."""

    POINT_TO_POINT = 0
    COLLECTIVE = 1
    ONE_SIDED = 2
    ONE_SIDED_FROM = 3


# By their numbers: what the bytes of a pair, and the time inside MPI calls, were spent on. Of
# collectives the interposer counts only the messages that are known.
TRAFFIC_KINDS = (
    TrafficKind.POINT_TO_POINT,
    TrafficKind.EXACT_COLLECTIVE,
    TrafficKind.ONE_SIDED,
    TrafficKind.ONE_SIDED,
)
TIME_KINDS = tuple(TimeKind)


class PhaseMode(IntEnum):
    """Who tells the phases apart."""

    OFF = 0
    PCONTROL = 1
    WINDOWS = 2


SECTIONS = ("slots", "events", "communicators", "runs", "devices", "phases")
_CPU_WORDS = 32
HEADER = struct.Struct(f"<8s5I5i18Q4I9QiI64s64s16s128s2Q{8 * _CPU_WORDS}s")
FIELDS = (
    *("magic", "version", "byte_order", "header_bytes", "state", "flags"),
    *("rank", "world_size", "pid", "thread", "local_rank"),
    *(f"{section}_{part}" for section in SECTIONS for part in ("offset", "capacity", "stride")),
    *("communicators_used", "runs_used", "phase_mode", "current_phase"),
    *("entered_ticks", "window_ns", "start_ticks", "start_ns", "last_ticks", "last_ns"),
    *("lost_messages", "lost_bytes", "lost_events"),
    *("visible_devices", "reserved", "host", "world", "abi", "library"),
    *("start_cpu_ns", "last_cpu_ns", "cpus"),
)

SLOT = np.dtype(
    [
        ("key", "<u8"),
        ("messages", "<u8"),
        ("bytes", "<u8"),
        ("histogram", "<u8", (HISTOGRAM_BUCKETS,)),
        ("reserved", "<u8", (4,)),
    ]
)
EVENT = np.dtype(
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
        ("phase", "<u4"),
        ("element", "<u4"),
    ]
)
COMMUNICATOR = np.dtype(
    [
        ("size", "<u4"),
        ("inter", "<u4"),
        ("first_run", "<u4"),
        ("run_count", "<u4"),
        ("name", "S48"),
    ]
)
RUN = np.dtype([("first", "<i4"), ("stride", "<i4"), ("count", "<i4"), ("reserved", "<i4")])
DEVICE = np.dtype(
    [("uses", "<u8"), ("bytes", "<u8"), ("ordinal", "<i4"), ("used", "<u4"), ("pci", "S32")]
)
TIME = np.dtype([("ticks", "<u8"), ("calls", "<u8")])
PHASE = np.dtype(
    [
        ("label", "<i8"),
        ("begin_ticks", "<u8"),
        ("end_ticks", "<u8"),
        ("active_ticks", "<u8"),
        ("time", TIME, (len(TIME_KINDS), 2)),
        ("used", "<u4"),
        ("reserved", "<u4"),
    ]
)
TABLES = dict(zip(SECTIONS, (SLOT, EVENT, COMMUNICATOR, RUN, DEVICE, PHASE), strict=True))


_CHUNK = 8 << 20
_BEYOND = 1 << 56  # no counter of a sound record reaches this, no sum of them reaches 2^63


class Segment(Record, frozen=True, kw_only=True, eq=False):
    """The contents of one file: header fields by name, and the entries in use of its tables."""

    path: Path
    header: dict[str, Any]
    slots: NDArray[Any]
    events: NDArray[Any]
    communicators: NDArray[Any]
    runs: NDArray[Any]
    devices: NDArray[Any]  # by number, used or not
    phases: NDArray[Any]  # by number, used or not


def damaged(path: Path, message: str) -> InputError:
    """The error to raise."""
    return InputError(
        f"damaged traffic record: {message}",
        hint="profile again; records are written by toposeat's interposer only",
        path=path,
    )


def read_segment(path: Path) -> Segment | None:
    """Parse one segment; None if the rank died before it had written the header."""
    try:
        with open_input(path) as file:
            if os.fstat(file.fileno()).st_size == 0:
                return None
            reader = _Reader(path, file.fileno())
            if reader.header["magic"] == bytes(8):
                return None
            reader.check_header()
            return _build(reader)
    except OSError as error:
        raise InputError(
            f"cannot read the traffic record ({error.strerror})",
            hint="check the folder and its permissions",
            path=path,
        ) from error


class _Reader:
    """One open record: its header fields, and its tables entry by entry."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        raw = os.pread(descriptor, HEADER.size, 0)
        if len(raw) < HEADER.size:
            raise damaged(self.path, "the file is shorter than a record's header")
        self.header: dict[str, Any] = dict(zip(FIELDS, HEADER.unpack(raw), strict=True))

    def check_header(self) -> None:
        """Refuse what is no record of this version."""
        head = self.header
        if head["magic"] != MAGIC or head["byte_order"] != BYTE_ORDER:
            raise damaged(self.path, "it does not start as one of this byte order")
        if head["version"] != VERSION:
            raise InputError(
                f"traffic record of version {head['version']}, this toposeat reads {VERSION}",
                hint="read it with the toposeat that wrote it",
                path=self.path,
            )
        if not 1 <= head["world_size"] <= MAX_RANKS or not 0 <= head["rank"] < head["world_size"]:
            raise damaged(self.path, f"rank {head['rank']} of {head['world_size']}")
        backwards = head["last_ns"] < head["start_ns"] or head["last_ticks"] < head["start_ticks"]
        if head["header_bytes"] != HEADER.size or backwards:
            raise damaged(self.path, "its header has another size, or its clock runs backwards")

    def entries(self, name: str, limit: int | None = None) -> NDArray[Any]:
        """The entries of a section that lie in the file's data parts (all others are zero)."""
        dtype = TABLES[name]
        offset, capacity, stride = (
            self.header[f"{name}_{part}"] for part in ("offset", "capacity", "stride")
        )
        count = capacity if limit is None else limit
        inside = HEADER.size <= offset <= self.size - capacity * stride
        if stride != dtype.itemsize or not inside or count > capacity:
            raise damaged(
                self.path, f"{count} of {capacity} {name} of {stride} bytes at {offset} do not fit"
            )
        if limit is not None:  # a short prefix, holes included
            return np.frombuffer(self._read(offset, count * stride), dtype)
        parts = (
            self._read(offset + low * stride, (high - low) * stride)
            for low, high in self._data_parts(offset, count, stride)
        )
        return np.frombuffer(b"".join(parts), dtype)

    def _read(self, offset: int, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            piece = os.pread(self._descriptor, min(_CHUNK, length - len(data)), offset + len(data))
            if not piece:
                raise damaged(self.path, "the file became shorter while it was read")
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


def _build(reader: _Reader) -> Segment:
    head = reader.header
    slots, events = reader.entries("slots"), reader.entries("events")
    segment = Segment(
        path=reader.path,
        header=head,
        slots=slots[slots["key"] != 0],
        events=events[events["used"] != 0],
        communicators=reader.entries("communicators", head["communicators_used"]),
        runs=reader.entries("runs", head["runs_used"]),
        devices=reader.entries("devices", head["devices_capacity"]),
        phases=reader.entries("phases", head["phases_capacity"]),
    )
    _check_counters(segment)
    return segment


def _check_counters(segment: Segment) -> None:
    counters = (
        *(segment.slots[name] for name in ("bytes", "messages", "histogram")),
        *(segment.events[name] for name in ("calls", "bytes", "bytes_total")),
        *(segment.devices[name] for name in ("bytes", "uses")),
        *(segment.phases["time"][name] for name in ("ticks", "calls")),
    )
    if any(array.size and array.max() >= _BEYOND for array in counters):
        raise damaged(segment.path, "a counter is beyond any possible traffic")
