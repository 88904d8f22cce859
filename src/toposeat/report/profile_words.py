"""What a profile says of its run: share of time, phases, devices, other worlds, and the verdict.

Rows of words that the text and the page both show; times are measured, never predicted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from toposeat.model.rank_info import DeviceChoice
from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    CollectiveEvent,
    MemorySpace,
    RankInfo,
    TimeKind,
    Traffic,
    TrafficKind,
)
from toposeat.report.units import (
    clean,
    format_bytes,
    format_count,
    format_percent,
    format_power_of_two,
    format_seconds,
    plural,
    three_digits,
)

NOT_TIMED = "not timed"

_MOST_ROWS = 32
_LISTED = 8

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of the run's time, over all ranks."""

    name: str  # "collective, device memory", "outside MPI"
    space: MemorySpace | None  # None: not the application's own messages
    seconds: float
    share: float  # of the run
    calls: int | None


def _limited(rows: list[Row]) -> list[Row]:
    """At most `_MOST_ROWS`, the last of which says how many are left out."""
    if len(rows) <= _MOST_ROWS:
        return rows
    left = len(rows) - _MOST_ROWS + 1
    more: Row = ("...", f"{left} more", *[""] * (len(rows[0]) - 2))
    return [*rows[: _MOST_ROWS - 1], more]


def is_timed(traffic: Traffic) -> bool:
    """Whether times were measured at all."""
    return traffic.timed and any(info.wall_s > 0 for info in traffic.rank_info)


def time_parts(traffic: Traffic) -> list[TimePart]:
    """Time in MPI by kind and memory, other MPI calls, and the rest; [] when not timed.

    Shares are of the sum of all ranks' run times; they add up to 1.
    """
    if not is_timed(traffic):
        return []
    wall = sum(info.wall_s for info in traffic.rank_info)
    inside = min(sum(info.mpi_s for info in traffic.rank_info), wall)
    seconds: dict[tuple[TimeKind, MemorySpace], float] = defaultdict(float)
    calls: Counter[tuple[TimeKind, MemorySpace]] = Counter()
    for info in traffic.rank_info:
        for part in info.time:
            seconds[part.kind, part.space] += part.seconds
            calls[part.kind, part.space] += part.calls
    parts = []
    for (kind, space), spent in sorted(seconds.items(), key=lambda entry: -entry[1]):
        if kind is not TimeKind.OTHER and (spent > 0 or calls[kind, space]):
            name = f"{kind.value}, {space.value} memory"
            parts.append(TimePart(name, space, spent, spent / wall, calls[kind, space]))
    known = sum(part.seconds for part in parts)
    if inside > known:
        name = "other MPI calls" if parts else "in MPI calls"
        other = sum(n for (kind, _), n in calls.items() if kind is TimeKind.OTHER)
        rest = inside - known
        parts.append(TimePart(name, None, rest, rest / wall, other if parts else None))
    outside = max(wall - max(inside, known), 0.0)
    parts.append(TimePart("outside MPI", None, outside, outside / wall, None))
    return parts


def gain_share(traffic: Traffic) -> float | None:
    """Share of the run that placement could shorten at all; None when not timed.

    Placement serves device traffic where there is any (`Traffic.mapped_space`): then it is the time
    in MPI calls on device buffers, else that in all calls that move data. Without a split by kind,
    all time in MPI.
    """
    parts = time_parts(traffic)
    if not parts:
        return None
    if not any(info.time for info in traffic.rank_info):
        return min(1 - parts[-1].share, 1.0)
    mapped = traffic.mapped_space
    shares = [p.share for p in parts if p.space is not None and mapped in (None, p.space)]
    return min(sum(shares), 1.0)


def gain_place(traffic: Traffic) -> str:
    """Where the time of `gain_share` is spent."""
    if not any(info.time for info in traffic.rank_info):
        return "in MPI calls"
    on_device = traffic.mapped_space is MemorySpace.DEVICE
    return "in MPI calls on device buffers" if on_device else "in MPI calls that move data"


def gain_words(traffic: Traffic) -> str:
    """The verdict in one sentence: what share of the run could gain at all."""
    if not len(traffic.mapped_table()):
        return "Nothing to gain: no rank sent anything to another."
    share = gain_share(traffic)
    if share is None:
        return "What share of the run could gain is not known: the profile is not timed."
    limit = "" if share >= 1 else f", so never faster than {three_digits(1 / (1 - share))}x"
    return (
        f"At most {format_percent(share)} of the run could gain from placement: its ranks spend"
        f" that {gain_place(traffic)}, waiting included (measured){limit}."
    )


def time_rows(traffic: Traffic) -> list[Row]:
    """What, seconds of all ranks, share of the run, calls."""
    return [
        (
            part.name,
            format_seconds(part.seconds),
            format_percent(part.share),
            "" if part.calls is None else format_count(part.calls),
        )
        for part in time_parts(traffic)
    ]


def histogram_series(traffic: Traffic) -> list[tuple[TrafficKind, MemorySpace, list[int]]]:
    """Message counts per size bucket, by kind and memory; only what has messages."""
    return [
        (kind, space, [int(n) for n in counts])
        for (kind, space), counts in sorted(traffic.histograms.items())
        if counts.any()
    ]


def collective_size_counts(traffic: Traffic) -> list[int]:
    """Collective calls per size bucket, all ranks: what one rank gives to one call."""
    counts = np.zeros(HISTOGRAM_BUCKETS, dtype=np.int64)
    for event in traffic.collectives:
        counts[event.bytes.bit_length()] += event.calls
    return [int(n) for n in counts]


def bucket_words(bucket: int) -> str:
    """The sizes in a histogram bucket: `empty`, `64 KiB ..` (up to the next power of two)."""
    return "empty" if bucket == 0 else f"{format_power_of_two(bucket - 1)} .."


def collective_rows(traffic: Traffic) -> list[Row]:
    """Operation, memory, calls and bytes given over all ranks, sizes of one call."""
    calls: dict[tuple[str, str], list[CollectiveEvent]] = {}
    for event in traffic.collectives:
        calls.setdefault((event.operation, event.space.value), []).append(event)
    rows: list[Row] = []
    for (operation, space), events in calls.items():
        sizes = [event.bytes for event in events]
        low, high = format_bytes(min(sizes)), format_bytes(max(sizes))
        rows.append(
            (
                operation,
                space,
                format_count(sum(e.calls for e in events)),
                format_bytes(sum(e.calls * e.bytes for e in events)),
                low if low == high else f"{low} to {high}",
                ", ".join(sorted({e.algorithm for e in events if e.algorithm})),
            )
        )
    return rows


COLLECTIVE_HEADER = ("collective", "memory", "calls", "bytes given", "a call", "algorithm")


def phase_rows(traffic: Traffic) -> list[Row]:
    """Phase, begin, duration, bytes, share of all bytes, share of its time in MPI."""
    total = sum(int(table.bytes.sum()) for table in traffic.tables.values())
    ranks = len(traffic.rank_info) or traffic.ranks
    rows: list[Row] = []
    for phase in traffic.phases:
        size = sum(int(table.bytes.sum()) for table in phase.tables.values())
        lasted = phase.end_s - phase.begin_s
        inside = min(phase.mpi_s / (lasted * ranks), 1.0) if lasted > 0 else 0.0
        rows.append(
            (
                clean(phase.label) or str(phase.index),
                format_seconds(phase.begin_s),
                format_seconds(lasted),
                format_bytes(size),
                format_percent(size / total) if total else "-",
                format_percent(inside) if traffic.timed else NOT_TIMED,
            )
        )
    return _limited(rows)


PHASE_HEADER = ("phase", "begins", "lasts", "bytes", "of all", "in MPI")


def device_rows(traffic: Traffic) -> list[Row]:
    """Rank, host, local rank, device, its number in the application, bytes from it."""
    rows: list[Row] = []
    for info in traffic.rank_info:
        for pci, ordinal, size in _devices(info):
            seen = "" if info.visible_devices is None else f" of {info.visible_devices}"
            rows.append(
                (
                    str(info.rank),
                    clean(info.host) or "-",
                    "-" if info.local_rank is None else str(info.local_rank),
                    clean(pci or "") or "-",
                    "-" if ordinal is None else f"{ordinal}{seen}",
                    "-" if size is None else format_bytes(size),
                )
            )
    return _limited(rows)


DEVICE_HEADER = ("rank", "host", "local rank", "device", "its number", "bytes from it")


def _devices(info: RankInfo) -> list[tuple[str | None, int | None, int | None]]:
    if info.devices:
        return [(use.pci_bus_id, use.ordinal, use.bytes) for use in info.devices]
    if info.device_pci_bus_id is not None or info.device_ordinal is not None:
        return [(info.device_pci_bus_id, info.device_ordinal, None)]
    return []


def choice_words(traffic: Traffic) -> str:
    """How the application picks its device, and what that means for `run`; "" if not known."""
    several = sum(len(info.devices) > 1 for info in traffic.rank_info)
    more = f" {plural(several, 'rank')} used several devices." if several else ""
    return {
        DeviceChoice.LOCAL_RANK: "The application takes the device numbered like its local rank."
        + more,
        DeviceChoice.DEVICE_0: "The application always takes device 0, though it sees several."
        + more,
        DeviceChoice.OWN: "The application picks devices by a rule of its own." + more,
        DeviceChoice.UNKNOWN: more.strip(),
    }[traffic.device_choice]


def world_rows(traffic: Traffic) -> list[Row]:
    """World, ranks, parent, bytes inside it, bytes to it from the job, bytes from it."""
    rows: list[Row] = [
        (
            f"{world.id}" + (f" {clean(world.name)}" if world.name else ""),
            str(world.ranks or "?"),
            "-" if world.parent is None else str(world.parent),
            format_bytes(sum(int(table.bytes.sum()) for table in world.tables.values())),
            format_bytes(sum(flow.bytes for flow in world.flows if not flow.inbound)),
            format_bytes(sum(flow.bytes for flow in world.flows if flow.inbound)),
        )
        for world in traffic.worlds
    ]
    return _limited(rows)


WORLD_HEADER = ("world", "ranks", "started by", "bytes within", "from this job", "to this job")


def unfinished_words(traffic: Traffic) -> str:
    """Ranks that did not reach MPI_Finalize; "" if all did."""
    died = [info.rank for info in traffic.rank_info if not info.finalized]
    if not died:
        return ""
    names = ", ".join(str(rank) for rank in died[: 2 * _LISTED])
    more = " ..." if len(died) > 2 * _LISTED else ""
    return f"{plural(len(died), 'rank')} did not reach MPI_Finalize: {names}{more}"
