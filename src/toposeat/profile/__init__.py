"""Who talks to whom: real runs, other tools' files and named patterns -> Traffic."""

from __future__ import annotations

from toposeat.profile.pattern.exchange_pattern import EXCHANGE_FORMS, grid_exchange
from toposeat.profile.pattern.patterns import pattern_traffic
from toposeat.profile.recording.library import choose_abi, choose_library
from toposeat.profile.recording.run import (
    MIN_WINDOW_S,
    PHASES_BY_MARK,
    NothingRecordedError,
    Recording,
    merge_records,
    profile_line,
    profile_run,
)
from toposeat.profile.records.merge import read_records
from toposeat.profile.schedules import (
    ALGORITHMS,
    collective_schedule,
    default_algorithm,
    exchange_schedule,
    schedule_traffic,
)
from toposeat.profile.sources import holds_traffic, read_traffic

__all__ = [
    "ALGORITHMS",
    "EXCHANGE_FORMS",
    "MIN_WINDOW_S",
    "PHASES_BY_MARK",
    "NothingRecordedError",
    "Recording",
    "choose_abi",
    "choose_library",
    "collective_schedule",
    "default_algorithm",
    "exchange_schedule",
    "grid_exchange",
    "holds_traffic",
    "merge_records",
    "pattern_traffic",
    "profile_line",
    "profile_run",
    "read_records",
    "read_traffic",
    "schedule_traffic",
]
