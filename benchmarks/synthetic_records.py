"""Record files of a job that never ran, laid out as the interposer lays them out: sparse."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toposeat.profile.records.segment import (
    BYTE_ORDER,
    COMMUNICATOR,
    DEVICE,
    EVENT,
    HEADER,
    MAGIC,
    MAIN_SEGMENT,
    PHASE,
    RUN,
    SECTIONS,
    SLOT,
    SUFFIX,
    VERSION,
    Flag,
)

_EVENTS, _COMMUNICATORS, _RUNS, _DEVICES = 8192, 256, 4096, 16
_OPERATIONS = ((13, 8), (13, 1 << 20), (2, 4096), (7, 64), (1, 0), (12, 512))  # operation, bytes
_HALO_BYTES = (4096, 512, 64)  # faces, edges, corners of a 27-point stencil


def grid_of(ranks: int) -> tuple[int, int, int]:
    """A 3-D grid of that many ranks (a power of two), as even as can be."""
    power = ranks.bit_length() - 1
    low, more = divmod(power, 3)
    sides = [1 << (low + (k < more)) for k in range(3)]
    return sides[0], sides[1], sides[2]


def peers_of(rank: int, ranks: int, wanted: int) -> np.ndarray:
    """Up to 26 neighbours in a periodic 3-D grid; beyond, ranks at growing distances."""
    sides = grid_of(ranks)
    x, y, z = np.unravel_index(rank, sides)
    steps = np.array(np.meshgrid([-1, 0, 1], [-1, 0, 1], [-1, 0, 1])).reshape(3, -1).T
    around = (np.array([x, y, z]) + steps) % np.array(sides)
    peers = np.unique(np.ravel_multi_index(tuple(around.T), sides))
    far = (rank + np.arange(wanted) ** 2 + 2) % ranks
    peers = peers if wanted <= 26 else np.unique(np.concatenate([peers, far]))
    return peers[peers != rank][:wanted]


@dataclass(frozen=True)
class _Segment:
    """One file to write, and where its sections begin: (offset, capacity, bytes per entry)."""

    rank: int
    ranks: int
    thread: int
    flags: int

    @property
    def main(self) -> bool:
        return self.thread == MAIN_SEGMENT

    @property
    def name(self) -> str:
        suffix = "" if self.main else f"-t{self.thread}"
        return f"rank-{self.rank}-{1000 + self.rank}{suffix}{SUFFIX}"

    def layout(self) -> tuple[dict[str, tuple[int, int, int]], int]:
        """The sections, and the file's length."""
        slots = max(256, 1 << ((self.ranks + 1) * 8 - 1).bit_length())
        sections, end = {}, 1024
        for name, capacity, dtype in (
            ("devices", _DEVICES, DEVICE),
            ("phases", 1, PHASE),
            ("slots", slots, SLOT),
            ("events", _EVENTS, EVENT),
            ("communicators", _COMMUNICATORS if self.main else 0, COMMUNICATOR),
            ("runs", _RUNS if self.main else 0, RUN),
        ):
            if name not in ("devices", "phases"):
                end = -(-end // 4096) * 4096
            sections[name] = (end, capacity, dtype.itemsize)
            end += capacity * dtype.itemsize
        return sections, end


def write_job(folder: Path, ranks: int) -> None:
    """One main segment per rank, and for every eighth rank one of a second thread.

    Three quarters of the ranks talk to 26 others, one quarter to about 100.
    """
    for rank in range(ranks):
        peers = peers_of(rank, ranks, 100 if rank % 4 == 0 else 26)
        threads = rank % 8 == 0
        flags = int(Flag.CONCURRENT) if threads else 0
        _write(folder, _Segment(rank, ranks, MAIN_SEGMENT, flags), peers)
        if threads:
            _write(folder, _Segment(rank, ranks, 0, flags), peers[:8])


def _write(folder: Path, segment: _Segment, peers: np.ndarray) -> None:
    sections, length = segment.layout()
    file = os.open(folder / segment.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(file, length)
        _put_header(file, segment)
        _put_slots(file, sections["slots"], peers)
        if segment.main:
            _put_collectives(file, segment.rank, segment.ranks, sections)
    finally:
        os.close(file)


def _put_header(file: int, segment: _Segment) -> None:
    sections, _ = segment.layout()
    rank = segment.rank
    fields = [
        *(MAGIC, VERSION, BYTE_ORDER, HEADER.size, 1, segment.flags),
        *(rank, segment.ranks, 1000 + rank, segment.thread, rank % 8),
        *(number for name in SECTIONS for number in sections[name]),
        *((3, 3) if segment.main else (0, 0)),
        *(0, 0, 0, 0, 1000, 10**9, 1000 + 10**9, 2 * 10**9, 0, 0, 0),
        *(8, 0, b"node%d" % (rank // 8), b"job", b"ompi", b"Open MPI v5.0.11, synthetic"),
        *(0, 10**9, (1 << rank % 8).to_bytes(256, "little")),
    ]
    os.pwrite(file, HEADER.pack(*fields), 0)
    phase = np.zeros(1, PHASE)
    phase["used"], phase["begin_ticks"], phase["end_ticks"] = 1, 1000, 1000 + 10**9
    phase["time"]["ticks"], phase["time"]["calls"] = 10**7, 1000
    os.pwrite(file, phase.tobytes(), sections["phases"][0])


def _put_slots(file: int, section: tuple[int, int, int], peers: np.ndarray) -> None:
    start, slots, stride = section
    for place, peer in enumerate(peers.tolist()):
        slot = np.zeros(1, SLOT)
        size = _HALO_BYTES[place % 3]
        slot["key"] = 1 << 63 | peer
        slot["messages"], slot["bytes"] = 1000, 1000 * size
        slot["histogram"][0, size.bit_length()] = 1000
        os.pwrite(file, slot.tobytes(), start + (peer * 8 % slots) * stride)


def _put_collectives(
    file: int, rank: int, ranks: int, sections: dict[str, tuple[int, int, int]]
) -> None:
    side = 1 << (ranks.bit_length() - 1) // 2
    runs = np.zeros(3, RUN)  # everybody, the own row, the own column
    runs["first"] = (0, rank // side * side, rank % side)
    runs["stride"] = (1, 1, side)
    runs["count"] = (ranks, side, ranks // side)
    groups = np.zeros(3, COMMUNICATOR)
    groups["size"], groups["run_count"], groups["first_run"] = runs["count"], 1, range(3)
    groups["name"] = (b"MPI_COMM_WORLD", b"row", b"column")
    events = np.zeros(len(_OPERATIONS), EVENT)
    for place, (operation, size) in enumerate(_OPERATIONS):
        root = 0 if operation in (2, 12) else -1
        group = 0 if root == 0 else place % 3
        events[place] = (1, group, operation, 0, 0, root, size, 50, 50 * size, 0, 0)
    for name, entries in (("runs", runs), ("communicators", groups), ("events", events)):
        os.pwrite(file, entries.tobytes(), sections[name][0])
