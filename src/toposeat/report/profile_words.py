"""What a profile says of its run, as rows of words that the text and the page both show.

Sizes, collectives, phases, devices, other worlds; the time is in `time_words`.
"""

from __future__ import annotations

import numpy as np

from toposeat.model.rank_info import DeviceChoice
from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    CollectiveEvent,
    MemorySpace,
    RankInfo,
    Traffic,
    TrafficKind,
)
from toposeat.report.time_words import NOT_TIMED
from toposeat.report.units import (
    clean,
    format_bytes,
    format_count,
    format_percent,
    format_power_of_two,
    format_seconds,
    plural,
)

_MOST_ROWS = 32
_LISTED = 8

Row = tuple[str, ...]


def _limited(rows: list[Row]) -> list[Row]:
    """At most `_MOST_ROWS`, the last of which says how many are left out."""
    if len(rows) <= _MOST_ROWS:
        return rows
    left = len(rows) - _MOST_ROWS + 1
    more: Row = ("...", f"{left} more", *[""] * (len(rows[0]) - 2))
    return [*rows[: _MOST_ROWS - 1], more]


def total_rows(traffic: Traffic) -> list[Row]:
    """Kind, memory, bytes, messages, pairs; only what has pairs."""
    return [
        (
            kind.value,
            space.value,
            format_bytes(int(table.bytes.sum())),
            format_count(int(table.messages.sum())),
            format_count(len(table)),
        )
        for (kind, space), table in sorted(traffic.tables.items())
        if len(table)
    ]


TOTAL_HEADER = ("kind", "memory", "bytes", "messages", "pairs")


def pair_rows(traffic: Traffic, limit: int) -> list[Row]:
    """The heaviest directed pairs of all traffic: ranks, bytes, messages, share of all bytes."""
    table = traffic.table()
    total = int(table.bytes.sum())
    columns = (table.source, table.target, table.bytes, table.messages)
    order = np.argsort(-table.bytes, kind="stable")[:limit]
    return [
        (f"{a} -> {b}", format_bytes(size), format_count(count), format_percent(size / total))
        for a, b, size, count in zip(*(each[order].tolist() for each in columns), strict=True)
        if size > 0
    ]


PAIR_HEADER = ("pair", "bytes", "messages", "of all")


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
    """Phase, begin, mean duration over ranks, bytes, their share of all, share of time in MPI.

    The parts of a pattern have no times.
    """
    total = sum(int(table.bytes.sum()) for table in traffic.tables.values())
    ranks = len(traffic.rank_info) or traffic.ranks
    rows: list[Row] = []
    for phase in traffic.phases:
        size = sum(int(table.bytes.sum()) for table in phase.tables.values())
        inside = min(phase.mpi_s / phase.active_s, 1.0) if phase.active_s > 0 else 0.0
        ran = phase.end_s > 0
        rows.append(
            (
                clean(phase.label) or str(phase.index),
                format_seconds(phase.begin_s) if ran else "-",
                format_seconds(phase.active_s / ranks) if ran else "-",
                format_bytes(size),
                format_percent(size / total) if total else "-",
                (format_percent(inside) if traffic.timed else NOT_TIMED) if ran else "-",
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
    """Ranks that did not reach MPI_Finalize, or were killed; "" if all ended by themselves."""
    died = [info.rank for info in traffic.rank_info if not info.finalized]
    if not died:
        return ""
    names = ", ".join(str(rank) for rank in died[: 2 * _LISTED])
    more = " ..." if len(died) > 2 * _LISTED else ""
    by_mpi = "recorder" not in traffic.metadata
    fate = "did not reach MPI_Finalize" if by_mpi else "did not end by themselves"
    return f"{plural(len(died), 'rank')} {fate}: {names}{more}"
