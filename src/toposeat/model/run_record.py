"""What was really run, and what each rank really got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """Outcome of comparing what a rank got with what it was promised."""

    AS_PLACED = "as placed"
    MISMATCH = "mismatch"
    NOT_CHECKED = "not checked"  # no evidence either way, e.g. no GPU driver to ask


@dataclass(frozen=True, kw_only=True, slots=True)
class RealisedSeat:
    """One rank as seen from inside it."""

    rank: int
    host: str = ""
    local_rank: int | None = None
    pid: int | None = None
    pci_bus_id: str | None = None
    visible_devices: str | None = None  # the visibility variable's value
    cpus: str | None = None
    memory_policy: str | None = None  # e.g. "bind:0", "default"
    nic: str | None = None
    verdict: Verdict = Verdict.NOT_CHECKED
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """One `toposeat run`: command, environment, realised placement, wall time, exit code."""

    command: tuple[str, ...]
    launched: tuple[str, ...]  # the exact line that was started
    placement: str  # path of the placement file; empty where the launcher alone placed ranks
    visibility: str
    host: str
    started_at: str  # ISO 8601, UTC
    wall_s: float
    exit_code: int
    environment: Mapping[str, str] = field(default_factory=dict)
    seats: tuple[RealisedSeat, ...] = ()
    repeats: int = 1
    notes: tuple[str, ...] = ()
    launch_files: Mapping[str, str] = field(default_factory=dict)  # that the line reads, by name
