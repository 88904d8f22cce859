"""Records written byte by byte, as the interposer lays them out, for tests without MPI."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

HEADER = struct.Struct("<8s5I3i12Q2I9Q2i32s64s64s16s128s")
SLOTS, EVENTS, COMMUNICATORS, RUNS = 256, 64, 16, 64
SIZES = {"slots": 576, "events": 48, "communicators": 64, "runs": 16}

Pair = tuple[int, int, int, int, int]  # kind, space, peer, bytes per message, messages
Event = tuple[int, int, int, int, int, int]  # communicator, operation, space, root, bytes, calls


def write_record(
    folder: Path,
    rank: int,
    size: int,
    *,
    pairs: Sequence[Pair] = (),
    events: Sequence[Event] = (),
    communicators: Sequence[tuple[int, Sequence[tuple[int, int, int]]]] = (),
    state: int = 1,
    flags: int = 0,
    pid: int = 1000,
    world: bytes = b"job",
    header: Mapping[int, object] | None = None,
) -> Path:
    """Write one record; `header` overrides header fields by position."""
    offsets, end = {}, 4096
    for name, capacity in zip(SIZES, (SLOTS, EVENTS, COMMUNICATORS, RUNS), strict=True):
        offsets[name] = (end, capacity, SIZES[name])
        end += -(-capacity * SIZES[name] // 4096) * 4096
    runs = [run for _, members in communicators for run in members]
    fields: list[object] = [
        *(b"TPSREC\r\n", 1, 0x01020304, HEADER.size, state, flags, rank, size, pid),
        *(value for name in SIZES for value in offsets[name]),
        *(len(communicators), len(runs)),
        *(1000, 10_000, 4000, 3_010_000, 1500, 42, 0, 0, 0),
        *(-1, -1, b"", b"node1", world, b"ompi", b"Test MPI 1.0"),
    ]
    for position, value in (header or {}).items():
        fields[position] = value
    image = bytearray(end)
    image[: HEADER.size] = HEADER.pack(*fields)
    for kind, space, peer, length, messages in pairs:
        place = (peer * 8 + kind * 2 + space) % SLOTS
        histogram = np.zeros(65, dtype="<u8")
        histogram[length.bit_length()] = messages
        key = 1 << 63 | kind << 40 | space << 32 | peer
        entry = struct.pack("<3Q", key, messages, length * messages) + histogram.tobytes()
        at = offsets["slots"][0] + place * SIZES["slots"]
        image[at : at + len(entry)] = entry
    for place, (communicator, operation, space, root, length, calls) in enumerate(events):
        at = offsets["events"][0] + place * SIZES["events"]
        image[at : at + 48] = struct.pack(
            "<2IH2Bi4Q",
            1,
            communicator,
            operation,
            space,
            0,
            root,
            length,
            calls,
            length * calls,
            0,
        )
    first = 0
    for place, (inter, members) in enumerate(communicators):
        count = sum(run[2] for run in members)
        at = offsets["communicators"][0] + place * SIZES["communicators"]
        image[at : at + 64] = struct.pack(
            "<4I48s", count & 0xFFFFFFFF, inter, first, len(members), b"comm"
        )
        first += len(members)
    for place, run in enumerate(runs):
        at = offsets["runs"][0] + place * SIZES["runs"]
        image[at : at + 16] = struct.pack("<4i", *run, 0)
    path = folder / f"rank-{rank}-{pid}.tpsrec"
    path.write_bytes(bytes(image))
    return path
