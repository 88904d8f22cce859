"""One rank's traffic record: the segment files that it left, summed, in ranks, seconds and devices.

segments (bytes of the C layout) --> RankRecord --> WorldSum (world_sum.py) --> Traffic
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toposeat.model.cpu_list import cpu_list_of_mask
from toposeat.model.rank_info import DeviceUse, RankInfo, TimeShare
from toposeat.model.record import Record
from toposeat.model.topology import canonical_pci
from toposeat.model.traffic import Int64Array, MemorySpace
from toposeat.profile.records.segment import (
    MAIN_SEGMENT,
    MAX_RANKS,
    MAX_THREADS,
    NO_COMMUNICATOR_CODE,
    OPERATIONS,
    PEER_OUTSIDE,
    SUFFIX,
    TIME_KINDS,
    Flag,
    PhaseMode,
    Segment,
    State,
    damaged,
    read_segment,
)

OUTSIDE = -1  # a peer or member that is not in the rank's MPI_COMM_WORLD
NO_COMMUNICATOR = -1
_MOST_CPU_NS = 1 << 60
_OF_THREAD = re.compile(rf"-t\d+{re.escape(SUFFIX)}$")


class Members(Record, frozen=True, kw_only=True, eq=False):
    """A communicator as one rank saw it. `runs` are rows (first, stride, count) of world ranks."""

    inter: bool
    name: str
    size: int
    runs: Int64Array

    @property
    def key(self) -> tuple[bool, bytes]:
        """Equal for communicators with the same members in the same order."""
        return self.inter, self.runs.tobytes()

    def ranks(self) -> tuple[int, ...]:
        """World ranks in communicator order; `OUTSIDE` for all other processes."""
        parts = [first + stride * np.arange(count) for first, stride, count in self.runs]
        return tuple(np.concatenate(parts).tolist()) if parts else ()


class RecordedEvent(Record, frozen=True, kw_only=True):
    """All calls of one collective with one shape."""

    communicator: int  # an index of the record's
    operation: str
    space: MemorySpace
    root: int
    bytes: int  # of one call
    calls: int
    bytes_total: int  # of all calls
    by_class: bool  # calls of one size class were merged; `bytes` is their mean
    phase: int  # an index of the record's phases
    element: int  # bytes of one element of a vector that may be cut; 0: none, or not known


class RecordedPhase(Record, frozen=True, kw_only=True):
    """A part of the run, in seconds since MPI_Init.

    `label` is the level given to MPI_Pcontrol, or the number of the time window. A phase that was
    left and entered again has one begin, one end, and an `active_s` without what lay between.
    """

    label: int
    begin_s: float
    end_s: float
    active_s: float
    mpi_s: float  # inside MPI calls


class RankRecord(Record, frozen=True, kw_only=True, eq=False):
    """One rank's record, summed over its threads.

    The arrays `kind`, `device`, `peer`, `phase`, `bytes`, `messages` are parallel; with phases, a
    peer has a row for each. All processes outside MPI_COMM_WORLD are one peer.
    """

    path: Path
    info: RankInfo
    state: State
    flags: int
    world: str  # the launcher's name of the job
    world_size: int
    kind: Int64Array
    device: NDArray[np.bool_]
    peer: Int64Array  # a rank, or OUTSIDE
    phase: Int64Array  # an index of `phases`
    bytes: Int64Array
    messages: Int64Array
    histogram: Int64Array  # (rows, HISTOGRAM_BUCKETS)
    events: tuple[RecordedEvent, ...]
    communicators: tuple[Members, ...]
    phases: tuple[RecordedPhase, ...]
    phase_mode: PhaseMode
    segments: int  # files that the rank left
    lost_messages: int
    lost_bytes: int
    lost_events: int
    abi: str
    library: str
    span_ns: tuple[int, int] = (0, 0)  # from its start to its last mark, by the clock of its host

    def has(self, flag: Flag) -> bool:
        """Whether the flag is set."""
        return bool(self.flags & flag)

    @property
    def rank(self) -> int:
        """In its MPI_COMM_WORLD."""
        return self.info.rank

    @property
    def timed(self) -> bool:
        """Whether clocks were read around MPI calls."""
        return not self.has(Flag.UNTIMED)

    @property
    def calls(self) -> int:
        """Recorded MPI calls."""
        return sum(share.calls for share in self.info.time)


def record_paths(folder: Path) -> list[Path]:
    """The records of a folder: one path per rank, that of its main segment."""
    return sorted(p for p in folder.glob(f"*{SUFFIX}") if not _OF_THREAD.search(p.name))


def space_of(device: bool) -> MemorySpace:
    """The memory space that a record's flag means."""
    return MemorySpace.DEVICE if device else MemorySpace.HOST


def read_record(path: Path) -> RankRecord | None:
    """Read a rank's main segment and those of its threads beside it.

    Returns:
        The record, or None if the rank died before it had written the header (empty or all zero).

    Raises:
        InputError: if a file cannot be read or is not a sound segment.
    """
    main = read_segment(path)
    if main is None:
        return None
    if main.header["thread"] != MAIN_SEGMENT:
        raise damaged(main.path, "it is only one thread's part of a record")
    segments = [main]
    if main.header["flags"] & Flag.CONCURRENT:
        segments += _thread_segments(main)
    try:
        return _build(segments)
    except (ValueError, KeyError) as error:  # a number that stands for nothing
        raise damaged(main.path, str(error)) from error


def _thread_segments(main: Segment) -> Iterator[Segment]:
    for number in range(MAX_THREADS):
        path = main.path.with_name(f"{main.path.name.removesuffix(SUFFIX)}-t{number}{SUFFIX}")
        if not path.exists():  # they are numbered without gaps
            return
        segment = read_segment(path)
        if segment is None:
            continue
        own = (segment.header[name] for name in ("rank", "world_size", "pid", "thread"))
        expected = (*(main.header[name] for name in ("rank", "world_size", "pid")), number)
        if tuple(own) != expected or len(segment.phases) != len(main.phases):
            raise damaged(segment.path, "it does not belong to the record beside it")
        yield segment


def _build(segments: Sequence[Segment]) -> RankRecord:
    """The record that a rank's segments make together; the main one comes first."""
    main = segments[0]
    head = main.header
    phases, place_of = _phases(segments)
    keys, counters, histogram = _sum_slots(segments)
    kind, device, peer, phase = _decode_keys(main, keys, place_of)
    communicators = _communicators(main)
    return RankRecord(
        path=main.path,
        info=_rank_info(segments),
        state=State(head["state"]),
        flags=head["flags"],
        world=_text(head["world"]),
        world_size=head["world_size"],
        kind=kind,
        device=device,
        peer=peer,
        phase=phase,
        bytes=counters[:, 0],
        messages=counters[:, 1],
        histogram=histogram,
        events=tuple(
            _event(segment, entry, len(communicators), place_of)
            for segment in segments
            for entry in segment.events
        ),
        communicators=communicators,
        phases=phases,
        phase_mode=PhaseMode(head["phase_mode"]),
        segments=len(segments),
        lost_messages=sum(s.header["lost_messages"] for s in segments),
        lost_bytes=sum(s.header["lost_bytes"] for s in segments),
        lost_events=sum(s.header["lost_events"] for s in segments),
        abi=_text(head["abi"]),
        library=_text(head["library"]),
        span_ns=(head["start_ns"], head["last_ns"]),
    )


def _rank_info(segments: Sequence[Segment]) -> RankInfo:
    head = segments[0].header
    second = _seconds_per_tick(head)
    table = np.sum([_time_table(s).sum(axis=0) for s in segments], axis=0)
    time = tuple(
        TimeShare(
            kind=kind, space=space_of(space == 1), seconds=float(ticks) * second, calls=int(calls)
        )
        for kind, by_space in zip(TIME_KINDS, table, strict=True)
        for space, (ticks, calls) in enumerate(by_space)
        if ticks or calls
    )
    devices = _devices(segments)  # in the order of first use
    return RankInfo(
        rank=head["rank"],
        host=_text(head["host"]),
        pid=head["pid"],
        finalized=head["state"] == State.FINALIZED,
        wall_s=(head["last_ns"] - head["start_ns"]) * 1e-9 if second else 0.0,
        mpi_s=sum(share.seconds for share in time),
        device_pci_bus_id=devices[0].pci_bus_id if devices else None,
        device_ordinal=devices[0].ordinal if devices else None,
        visible_devices=_known(head["visible_devices"]),
        local_rank=_known(head["local_rank"]),
        time=time,
        devices=tuple(sorted(devices, key=lambda use: -use.bytes)),
        cpus=_cpus(head["cpus"]),
        cpu_s=_cpu_seconds(head),
    )


@lru_cache(maxsize=1024)
def _cpus(mask: bytes) -> str:
    return cpu_list_of_mask(np.frombuffer(mask, "<u8").tolist())


def _cpu_seconds(head: Mapping[str, Any]) -> float | None:
    used: int = head["last_cpu_ns"] - head["start_cpu_ns"]
    return used * 1e-9 if 0 < used < _MOST_CPU_NS else None


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _text(raw: bytes) -> str:
    text = raw.split(b"\0", 1)[0].decode("utf-8", errors="replace")
    return " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())


def _devices(segments: Sequence[Segment]) -> list[DeviceUse]:
    entries = segments[0].devices
    return [
        DeviceUse(
            pci_bus_id=_pci(_text(bytes(entries[number]["pci"]))),
            ordinal=_known(int(entries[number]["ordinal"])),
            bytes=sum(int(s.devices[number]["bytes"]) for s in segments if number < len(s.devices)),
        )
        for number in np.flatnonzero(entries["used"])
    ]


def _pci(text: str) -> str | None:
    try:
        return canonical_pci(text) if text else None
    except ValueError:
        return None


def _seconds_per_tick(head: Mapping[str, Any]) -> float:
    """0 if the rank died before it could be told."""
    wall_ns = head["last_ns"] - head["start_ns"]
    ticks = head["last_ticks"] - head["start_ticks"]
    return wall_ns / ticks * 1e-9 if wall_ns > 0 and ticks > 0 else 0.0


def _time_table(segment: Segment) -> Int64Array:
    """Ticks and calls as (phase, kind, space, 2)."""
    time = segment.phases["time"]
    return np.stack([time["ticks"], time["calls"]], axis=-1).astype(np.int64)


def _phases(segments: Sequence[Segment]) -> tuple[tuple[RecordedPhase, ...], dict[int, int]]:
    """The phases that were entered, by label; and the place of each number in that order."""
    main = segments[0]
    second = _seconds_per_tick(main.header)
    entered = [n for n, entry in enumerate(main.phases) if entry["used"]]
    entered.sort(key=lambda n: int(main.phases["label"][n]))
    ticks = np.sum([_time_table(s)[..., 0] for s in segments], axis=0).sum(axis=(1, 2))
    phases = []
    for number in entered:
        begin, end, active = _stretch(main, number, second)
        phases.append(
            RecordedPhase(
                label=int(main.phases["label"][number]),
                begin_s=begin,
                end_s=end,
                active_s=active,
                mpi_s=float(ticks[number]) * second,
            )
        )
    return tuple(phases), {number: place for place, number in enumerate(entered)}


def _stretch(main: Segment, number: int, second: float) -> tuple[float, float, float]:
    """Begin and end of a phase and the time within, in seconds; a window has those of the clock."""
    head, entry = main.header, main.phases[number]
    wall = (head["last_ns"] - head["start_ns"]) * 1e-9
    begin, end, active = (int(entry[f"{name}_ticks"]) for name in ("begin", "end", "active"))
    if head["current_phase"] == number:
        end = max(end, begin, head["last_ticks"])
        active += max(0, head["last_ticks"] - head["entered_ticks"])
    if not head["start_ticks"] <= begin <= end:
        raise damaged(main.path, "a phase ends before it begins")
    active = min(active, end - begin)  # a rank may die while it notes them
    if head["phase_mode"] == PhaseMode.WINDOWS and head["window_ns"] > 0:
        label, window = int(entry["label"]), head["window_ns"] * 1e-9
        first = min(label * window, wall)
        last = wall if number == len(main.phases) - 1 else min(first + window, wall)
        return first, last, last - first
    offset = head["start_ticks"]
    return (begin - offset) * second, (end - offset) * second, active * second


def _sum_slots(segments: Sequence[Segment]) -> tuple[NDArray[np.uint64], Int64Array, Int64Array]:
    """Distinct keys; bytes and messages as (keys, 2); histograms."""
    slots = np.concatenate([s.slots for s in segments])
    keys, place = np.unique(slots["key"], return_inverse=True)
    counters = np.zeros((keys.size, 2), dtype=np.int64)
    added = np.stack([slots["bytes"], slots["messages"]], axis=1).astype(np.int64)
    np.add.at(counters, place, added)
    histogram = np.zeros((keys.size, slots["histogram"].shape[1]), dtype=np.int64)
    np.add.at(histogram, place, slots["histogram"].astype(np.int64))
    return keys, counters, histogram


def _decode_keys(
    main: Segment, keys: NDArray[np.uint64], place_of: Mapping[int, int]
) -> tuple[Int64Array, NDArray[np.bool_], Int64Array, Int64Array]:
    """Kind, device, peer, phase: used bit, phase << 48, kind << 40, space << 32, peer."""
    high = (keys >> np.uint64(32)).astype(np.int64)
    peer = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    number, kind, space = (high >> 16) & 0xFF, (high >> 8) & 0x3, high & 0x1
    outside = peer == PEER_OUTSIDE
    if (
        np.any(high != ((1 << 31) | number << 16 | kind << 8 | space))
        or np.any(peer[~outside] >= main.header["world_size"])
        or not set(number.tolist()) <= set(place_of)
    ):
        raise damaged(main.path, "a slot has an unknown kind, rank or phase")
    phase = np.array([place_of[n] for n in number.tolist()], dtype=np.int64)
    return kind, space.astype(bool), np.where(outside, OUTSIDE, peer), phase


def _communicators(main: Segment) -> tuple[Members, ...]:
    columns = [main.runs[name].astype(np.int64) for name in ("first", "stride", "count")]
    _check_runs(main, *columns)
    runs = np.stack(columns, axis=1)
    made = []
    for entry in main.communicators:
        first, count, size = (int(entry[name]) for name in ("first_run", "run_count", "size"))
        own = runs[first : first + count]
        if len(own) != count or int(own[:, 2].sum()) != size or size > MAX_RANKS:
            raise damaged(main.path, "the members of a communicator do not add up")
        name = _text(bytes(entry["name"]))
        made.append(Members(inter=bool(entry["inter"]), name=name, size=size, runs=own))
    return tuple(made)


def _check_runs(main: Segment, first: Int64Array, stride: Int64Array, count: Int64Array) -> None:
    last = first + stride * (count - 1)
    world = main.header["world_size"]
    inside = (first >= 0) & (first < world) & (last >= 0) & (last < world)
    outside = (first == OUTSIDE) & (stride == 0)
    if np.any(count < 1) or not np.all(inside | outside):
        raise damaged(main.path, "a communicator names a rank beyond the world")


def _event(
    segment: Segment, entry: Any, communicators: int, place_of: Mapping[int, int]
) -> RecordedEvent:
    communicator = int(entry["communicator"])
    root, size = int(entry["root"]), int(entry["bytes"])
    calls, total = int(entry["calls"]), int(entry["bytes_total"])
    by_class = bool(entry["by_class"])
    if communicator == NO_COMMUNICATOR_CODE:
        communicator = NO_COMMUNICATOR
    if (
        communicator >= communicators
        or int(entry["operation"]) not in OPERATIONS
        or entry["space"] > 1
        or int(entry["phase"]) not in place_of
        or not -1 <= root < segment.header["world_size"]
        # Threads that were killed between two stores can leave the counters that far apart.
        or (not by_class and abs(size * calls - total) > size * MAX_THREADS)
    ):
        raise damaged(segment.path, f"a collective that cannot be: {entry}")
    return RecordedEvent(
        communicator=communicator,
        operation=OPERATIONS[int(entry["operation"])],
        space=space_of(entry["space"] == 1),
        root=root,
        bytes=(total // calls if calls else 0) if by_class else size,
        calls=calls,
        bytes_total=total,
        by_class=by_class,
        phase=place_of[int(entry["phase"])],
        element=int(entry["element"]),
    )
