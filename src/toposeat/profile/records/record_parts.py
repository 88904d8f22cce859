"""From segments to a `RankRecord`: sums over threads, keys taken apart, ticks as seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toposeat.profile.records.rank_record import (
    NO_COMMUNICATOR,
    OUTSIDE,
    Members,
    RankRecord,
    RecordedDevice,
    RecordedEvent,
    RecordedPhase,
    RecordedTime,
    RecordedWorld,
)
from toposeat.profile.records.record_layout import (
    MAX_RANKS,
    MAX_THREADS,
    NO_COMMUNICATOR_CODE,
    OPERATIONS,
    PEER_OUTSIDE,
    PhaseMode,
    RecordedTimeKind,
    State,
    WorldOrigin,
)
from toposeat.profile.records.record_segment import Segment

# kind, device, peer, other_world, phase
_Columns = tuple[
    NDArray[np.int64],
    NDArray[np.bool_],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
]


def build_record(segments: Sequence[Segment]) -> RankRecord:
    """The record that a rank's segments make together; the main one comes first."""
    main = segments[0]
    head = main.header
    second = _seconds_per_tick(head)
    phases, number_of = _read_phases(segments, second)
    keys, counters, histogram = _sum_slots(segments)
    kind, device, peer, other_world, phase = _decode_keys(main, keys, number_of)
    communicators = _read_communicators(main)
    time = _shares(np.sum([_time_table(s).sum(axis=0) for s in segments], axis=0), second)
    visible, local = head["visible_devices"], head["local_rank"]
    return RankRecord(
        path=main.path,
        rank=head["rank"],
        world_size=head["world_size"],
        pid=head["pid"],
        state=State(head["state"]),
        flags=head["flags"],
        kind=kind,
        device=device,
        peer=peer,
        other_world=other_world,
        phase=phase,
        bytes=counters[:, 0],
        messages=counters[:, 1],
        histogram=histogram,
        events=_read_events(segments, len(communicators), number_of),
        communicators=communicators,
        worlds=_read_worlds(main),
        wall_s=(head["last_ns"] - head["start_ns"]) * 1e-9 if second else 0.0,
        mpi_s=sum(t.seconds for t in time),
        time=time,
        phases=phases,
        phase_mode=PhaseMode(head["phase_mode"]),
        calls=sum(t.calls for t in time),
        segments=len(segments),
        lost_messages=sum(s.header["lost_messages"] for s in segments),
        lost_bytes=sum(s.header["lost_bytes"] for s in segments),
        lost_events=sum(s.header["lost_events"] for s in segments),
        devices=_read_devices(segments),
        visible_devices=visible if visible >= 0 else None,
        local_rank=local if local >= 0 else None,
        host=_text(head["host"]),
        world=_text(head["world"]),
        abi=_text(head["abi"]),
        library=_text(head["library"]),
    )


def _text(raw: bytes) -> str:
    text = raw.split(b"\0", 1)[0].decode("utf-8", errors="replace")
    return " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())


def _seconds_per_tick(head: Mapping[str, Any]) -> float:
    """0 if the rank died before it could be told."""
    wall_ns = head["last_ns"] - head["start_ns"]
    ticks = head["last_ticks"] - head["start_ticks"]
    return wall_ns / ticks * 1e-9 if wall_ns > 0 and ticks > 0 else 0.0


def _time_table(segment: Segment) -> NDArray[np.int64]:
    """Ticks and calls as (phase, kind, space, 2)."""
    time = segment.phases["time"]
    return np.stack([time["ticks"], time["calls"]], axis=-1).astype(np.int64)


def _shares(table: NDArray[np.int64], second: float) -> tuple[RecordedTime, ...]:
    """The shares that a (kind, space, 2) table of ticks and calls holds."""
    return tuple(
        RecordedTime(kind=kind, device=bool(space), seconds=float(ticks) * second, calls=int(calls))
        for kind in RecordedTimeKind
        for space, (ticks, calls) in enumerate(table[kind])
        if ticks or calls
    )


def _read_phases(
    segments: Sequence[Segment], second: float
) -> tuple[tuple[RecordedPhase, ...], dict[int, int]]:
    """The phases that were entered, by label; and their place in that order by their number."""
    main = segments[0]
    used = [n for n, entry in enumerate(main.phases) if entry["used"]]
    used.sort(key=lambda n: int(main.phases["label"][n]))
    if len({int(main.phases["label"][n]) for n in used}) != len(used):
        raise main.damaged("a phase appears twice")
    tables = np.sum([_time_table(s) for s in segments], axis=0)
    phases = []
    for number in used:
        begin, end, active = _stretch(main, number, second)
        phases.append(
            RecordedPhase(
                label=int(main.phases["label"][number]),
                begin_s=begin,
                end_s=end,
                active_s=active,
                time=_shares(tables[number], second),
            )
        )
    return tuple(phases), {number: place for place, number in enumerate(used)}


def _stretch(main: Segment, number: int, second: float) -> tuple[float, float, float]:
    """Begin and end of a phase and the time within, in seconds; a window has those of the clock."""
    head, entry = main.header, main.phases[number]
    wall = (head["last_ns"] - head["start_ns"]) * 1e-9
    begin, end, active = (int(entry[f"{name}_ticks"]) for name in ("begin", "end", "active"))
    if head["current_phase"] == number:
        end = max(end, begin, head["last_ticks"])
        active += max(0, head["last_ticks"] - head["entered_ticks"])
    if not head["start_ticks"] <= begin <= end:
        raise main.damaged("a phase ends before it begins")
    active = min(active, end - begin)  # a rank may die while it notes them
    if head["phase_mode"] == PhaseMode.WINDOWS and head["window_ns"] > 0:
        label, window = int(entry["label"]), head["window_ns"] * 1e-9
        first = min(label * window, wall)
        last = wall if number == len(main.phases) - 1 else min(first + window, wall)
        return first, last, last - first
    offset = head["start_ticks"]
    return (begin - offset) * second, (end - offset) * second, active * second


def _read_devices(segments: Sequence[Segment]) -> tuple[RecordedDevice, ...]:
    main = segments[0]
    made = []
    for number in np.flatnonzero(main.devices["used"]):
        entry = main.devices[number]
        own = [s.devices[number] for s in segments if number < len(s.devices)]
        made.append(
            RecordedDevice(
                ordinal=int(entry["ordinal"]) if entry["ordinal"] >= 0 else None,
                pci_bus_id=_text(bytes(entry["pci"])).lower() or None,
                bytes=sum(int(d["bytes"]) for d in own),
                uses=sum(int(d["uses"]) for d in own),
            )
        )
    return tuple(made)


def _sum_slots(
    segments: Sequence[Segment],
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """Distinct keys; bytes and messages as (keys, 2); histograms."""
    for segment in segments:
        if len(set(segment.slots["key"].tolist())) != segment.slots.size:
            raise segment.damaged("a peer appears twice")
    slots = np.concatenate([s.slots for s in segments])
    keys, place = np.unique(slots["key"], return_inverse=True)
    counters = np.zeros((keys.size, 2), dtype=np.int64)
    np.add.at(
        counters, place, np.stack([slots["bytes"], slots["messages"]], axis=1).astype(np.int64)
    )
    histogram = np.zeros((keys.size, slots["histogram"].shape[1]), dtype=np.int64)
    np.add.at(histogram, place, slots["histogram"].astype(np.int64))
    return keys, counters, histogram


def _decode_keys(main: Segment, keys: NDArray[np.uint64], number_of: Mapping[int, int]) -> _Columns:
    """Kind, space, peer, world, phase: used bit, phase << 48, kind << 40, space << 32, peer."""
    high = (keys >> np.uint64(32)).astype(np.int64)
    peer = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    phase, kind, space = (high >> 16) & 0xFF, (high >> 8) & 0x3, high & 0x1
    if np.any(high != ((1 << 31) | phase << 16 | kind << 8 | space)):
        raise main.damaged("a slot has an unknown kind")
    outside = (peer <= PEER_OUTSIDE) & (peer >= PEER_OUTSIDE - len(main.worlds))
    if np.any(peer[~outside] >= main.header["world_size"]):
        raise main.damaged("a slot names a rank beyond the world")
    if not set(phase.tolist()) <= set(number_of):
        raise main.damaged("a slot names an unknown phase")
    numbers = np.array([number_of[p] for p in phase.tolist()], dtype=np.int64)
    world = np.where(outside, PEER_OUTSIDE - peer, 0)
    return kind, space.astype(bool), np.where(outside, OUTSIDE, peer), world, numbers


def _read_worlds(main: Segment) -> tuple[RecordedWorld, ...]:
    for entry in main.worlds:
        if int(entry["origin"]) not in tuple(WorldOrigin) or not 1 <= entry["size"] <= MAX_RANKS:
            raise main.damaged("a world beside its own makes no sense")
    return tuple(
        RecordedWorld(
            key=int(entry["key"]),
            origin=WorldOrigin(int(entry["origin"])),
            size=int(entry["size"]),
            name=_text(bytes(entry["name"])),
        )
        for entry in main.worlds
    )


def _read_communicators(main: Segment) -> tuple[Members, ...]:
    table = np.stack(
        [main.runs[name].astype(np.int64) for name in ("first", "stride", "count")], axis=1
    )
    _check_runs(main, table)
    made = []
    for entry in main.communicators:
        first, count, size = (int(entry[name]) for name in ("first_run", "run_count", "size"))
        own = table[first : first + count]
        if len(own) != count or int(own[:, 2].sum()) != size or size > MAX_RANKS:
            raise main.damaged("the members of a communicator do not add up")
        name = _text(bytes(entry["name"]))
        made.append(Members(inter=bool(entry["inter"]), name=name, size=size, runs=own))
    return tuple(made)


def _check_runs(main: Segment, table: NDArray[np.int64]) -> None:
    first, stride, count = table.T
    last = first + stride * (count - 1)
    world = main.header["world_size"]
    inside = (first >= 0) & (first < world) & (last >= 0) & (last < world)
    outside = (first < 0) & (first >= OUTSIDE - len(main.worlds)) & (stride == 0)
    if np.any(count < 1) or not np.all(inside | outside):
        raise main.damaged("a communicator names a rank beyond the world")


def _read_events(
    segments: Sequence[Segment], communicators: int, number_of: Mapping[int, int]
) -> tuple[RecordedEvent, ...]:
    return tuple(
        _event(segment, entry, communicators, number_of)
        for segment in segments
        for entry in segment.events
    )


def _event(
    segment: Segment, entry: Any, communicators: int, number_of: Mapping[int, int]
) -> RecordedEvent:
    operation = OPERATIONS.get(int(entry["operation"]))
    communicator = int(entry["communicator"])
    root, calls, total = int(entry["root"]), int(entry["calls"]), int(entry["bytes_total"])
    if operation is None:
        raise segment.damaged(f"unknown collective {int(entry['operation'])}")
    if communicator == NO_COMMUNICATOR_CODE:
        communicator = NO_COMMUNICATOR
    elif communicator >= communicators:
        raise segment.damaged("a collective names an unknown communicator")
    if not -1 <= root < segment.header["world_size"]:
        raise segment.damaged("a collective has a root beyond the world")
    phase = number_of.get(int(entry["phase"]))
    if phase is None:
        raise segment.damaged("a collective names an unknown phase")
    by_class = bool(entry["by_class"])
    size = int(entry["bytes"])
    if not by_class and abs(size * calls - total) > size * MAX_THREADS:
        # Threads that were killed between two stores can leave the counters that far apart.
        raise segment.damaged("a collective's calls and bytes contradict each other")
    return RecordedEvent(
        communicator=communicator,
        operation=operation,
        device=bool(entry["space"]),
        root=root,
        bytes=(total // calls if calls else 0) if by_class else size,
        calls=calls,
        bytes_total=total,
        by_class=by_class,
        phase=phase,
        element=int(entry["element"]),
    )
