"""Read one segment file: its header and its tables, not interpreted yet.

Segments come from other machines and from ranks that died at any moment, so nothing in them is
trusted: every offset and count is checked before it is used, and no counter can overflow a sum.
Only the data parts of the sparse file are read.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.files import open_input
from toposeat.profile.records.record_layout import (
    BYTE_ORDER,
    FIELDS,
    HEADER,
    MAGIC,
    MAX_RANKS,
    TABLES,
    VERSION,
)

_CHUNK = 8 << 20
_BEYOND = 1 << 56  # no counter of a sound record reaches this, no sum of them reaches 2^63


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Segment:
    """The contents of one file: header fields by name, and the entries in use of its tables."""

    path: Path
    header: dict[str, Any]
    slots: NDArray[Any]
    events: NDArray[Any]
    communicators: NDArray[Any]
    runs: NDArray[Any]
    worlds: NDArray[Any]
    devices: NDArray[Any]  # by number, used or not
    phases: NDArray[Any]  # by number, used or not

    def damaged(self, message: str) -> InputError:
        """The error to raise."""
        return _damaged(self.path, message)


def _damaged(path: Path, message: str) -> InputError:
    return InputError(
        f"damaged traffic record: {message}",
        hint="profile again; records are written by toposeat's interposer only",
        path=path,
    )


def read_segment(path: Path) -> Segment | None:
    """Parse one segment.

    Returns:
        The segment, or None if the rank died before it had written the header (empty or all zero).

    Raises:
        InputError: if the file cannot be read or is not a sound segment.
    """
    try:
        file = open_input(path)
    except OSError as error:
        raise InputError(
            f"cannot read the traffic record ({error.strerror})",
            hint="check the folder and its permissions",
            path=path,
        ) from error
    descriptor = file.fileno()
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
        file.close()


class _Reader:
    """One open record: its header fields, and its tables entry by entry."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        raw = os.pread(descriptor, HEADER.size, 0)
        if len(raw) < HEADER.size:
            raise self.damaged("the file is shorter than a record's header")
        self.header: dict[str, Any] = dict(zip(FIELDS, HEADER.unpack(raw), strict=True))

    def damaged(self, message: str) -> InputError:
        return _damaged(self.path, message)

    def check_header(self) -> None:
        """Refuse what is no record of this version."""
        head = self.header
        if head["magic"] != MAGIC:
            raise self.damaged("it does not start as one")
        if head["byte_order"] != BYTE_ORDER:
            raise self.damaged("it was written with another byte order")
        if head["version"] != VERSION:
            raise InputError(
                f"traffic record of version {head['version']}, this toposeat reads {VERSION}",
                hint="read it with the toposeat that wrote it",
                path=self.path,
            )
        if head["header_bytes"] != HEADER.size:
            raise self.damaged("its header has another size")
        if not 1 <= head["world_size"] <= MAX_RANKS or not 0 <= head["rank"] < head["world_size"]:
            raise self.damaged(f"rank {head['rank']} of {head['world_size']}")
        if head["last_ns"] < head["start_ns"] or head["last_ticks"] < head["start_ticks"]:
            raise self.damaged("its clock runs backwards")

    def entries(self, name: str, limit: int | None = None) -> NDArray[Any]:
        """The entries of a section that lie in the file's data parts (all others are zero)."""
        dtype = TABLES[name]
        offset, capacity, stride = (
            self.header[f"{name}_{part}"] for part in ("offset", "capacity", "stride")
        )
        if stride != dtype.itemsize:
            raise self.damaged(f"its {name} have {stride} bytes each instead of {dtype.itemsize}")
        if offset < HEADER.size or offset + capacity * stride > self.size:
            raise self.damaged(f"its {name} reach beyond the end of the file")
        count = capacity if limit is None else limit
        if count > capacity:
            raise self.damaged(f"it claims {count} {name}, but has room for {capacity}")
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
        worlds=reader.entries("worlds", head["worlds_used"]),
        devices=reader.entries("devices", head["devices_capacity"]),
        phases=reader.entries("phases", head["phases_capacity"]),
    )
    _check_counters(segment)
    return segment


def _check_counters(segment: Segment) -> None:
    counters = {
        "counter": (segment.slots["bytes"], segment.slots["messages"]),
        "histogram": (segment.slots["histogram"],),
        "collective": tuple(segment.events[name] for name in ("calls", "bytes", "bytes_total")),
        "device": (segment.devices["bytes"], segment.devices["uses"]),
        "phase": (segment.phases["time"]["ticks"], segment.phases["time"]["calls"]),
    }
    for name, arrays in counters.items():
        if any(array.size and array.max() >= _BEYOND for array in arrays):
            raise segment.damaged(f"a {name} is beyond any possible traffic")
