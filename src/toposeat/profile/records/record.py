"""One rank's traffic record: the sum of the segment files that it left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from toposeat.profile.records.rank_record import (
    NO_COMMUNICATOR,
    OUTSIDE,
    Members,
    RankRecord,
    RecordedDevice,
    RecordedEvent,
    RecordedPhase,
    RecordedTime,
)
from toposeat.profile.records.record_layout import (
    MAIN_SEGMENT,
    MAX_RANKS,
    MAX_THREADS,
    OPERATIONS,
    SUFFIX,
    Flag,
    Kind,
    PhaseMode,
    RecordedTimeKind,
    State,
)
from toposeat.profile.records.record_parts import build_record
from toposeat.profile.records.record_segment import Segment, read_segment

__all__ = [
    "MAX_RANKS",
    "NO_COMMUNICATOR",
    "OPERATIONS",
    "OUTSIDE",
    "SUFFIX",
    "Flag",
    "Kind",
    "Members",
    "PhaseMode",
    "RankRecord",
    "RecordedDevice",
    "RecordedEvent",
    "RecordedPhase",
    "RecordedTime",
    "RecordedTimeKind",
    "State",
    "read_record",
    "record_paths",
]

_OF_THREAD = re.compile(rf"-t\d+{re.escape(SUFFIX)}$")


def record_paths(folder: Path) -> list[Path]:
    """The records of a folder: one path per rank, that of its main segment."""
    return sorted(p for p in folder.glob(f"*{SUFFIX}") if not _OF_THREAD.search(p.name))


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
        raise main.damaged("it is only one thread's part of one")
    segments = [main]
    if main.header["flags"] & Flag.CONCURRENT:
        segments += _thread_segments(main)
    return build_record(segments)


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
            raise segment.damaged("it does not belong to the record beside it")
        yield segment
