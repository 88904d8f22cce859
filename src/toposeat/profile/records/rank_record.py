"""What one rank recorded, in terms of ranks, seconds and devices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toposeat.profile.records.record_layout import (
    Flag,
    PhaseMode,
    RecordedTimeKind,
    State,
    WorldOrigin,
)

OUTSIDE = -1  # a peer or member that is not in the rank's MPI_COMM_WORLD
NO_COMMUNICATOR = -1


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Members:
    """A communicator as one rank saw it. `runs` are rows (first, stride, count) of world ranks."""

    inter: bool
    name: str
    size: int
    runs: NDArray[np.int64]

    @property
    def key(self) -> tuple[bool, bytes]:
        """Equal for communicators with the same members in the same order."""
        return self.inter, self.runs.tobytes()

    def ranks(self) -> tuple[int, ...]:
        """World ranks in communicator order; `OUTSIDE` for processes of another world."""
        parts = [first + stride * np.arange(count) for first, stride, count in self.runs]
        return tuple(np.maximum(np.concatenate(parts), OUTSIDE).tolist()) if parts else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedEvent:
    """All calls of one collective with one shape; `communicator` is an index of the record's."""

    communicator: int
    operation: str
    device: bool
    root: int
    bytes: int  # of one call
    calls: int
    bytes_total: int
    by_class: bool = False  # calls of one size class were merged; `bytes` is their mean
    phase: int = 0  # an index of the record's phases
    element: int = 0  # bytes of one element of a vector that may be cut; 0: none, or not known


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedTime:
    """Time inside MPI calls of one kind; 0 s when the record is untimed."""

    kind: RecordedTimeKind
    device: bool
    seconds: float
    calls: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedDevice:
    """A device whose buffers the rank handed to MPI: `bytes` in counted operations."""

    ordinal: int | None
    pci_bus_id: str | None
    bytes: int
    uses: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedPhase:
    """A stretch of the run, in seconds since MPI_Init.

    `label` is the level given to MPI_Pcontrol, or the number of the time window. A phase that was
    left and entered again has one begin, one end, and an `active_s` without what lay between.
    """

    label: int
    begin_s: float
    end_s: float
    active_s: float
    time: tuple[RecordedTime, ...]

    @property
    def mpi_s(self) -> float:
        """Time inside MPI calls."""
        return sum(t.seconds for t in self.time)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedWorld:
    """Processes outside MPI_COMM_WORLD. Ranks that connected to them together have one `key`."""

    key: int  # 0: other ranks cannot be asked for the same world
    origin: WorldOrigin
    size: int  # how many of its processes are known
    name: str  # the command that was spawned, at the rank that gave it


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class RankRecord:
    """One rank's record, summed over its threads.

    The arrays `kind`, `device`, `peer`, `other_world`, `phase`, `bytes`, `messages` are parallel;
    with phases, a peer has a row for each. All processes of another world are one peer.
    """

    path: Path
    rank: int
    world_size: int
    pid: int
    state: State
    flags: int
    kind: NDArray[np.int64]
    device: NDArray[np.bool_]
    peer: NDArray[np.int64]  # a rank, or OUTSIDE
    other_world: NDArray[np.int64]  # of a peer OUTSIDE: 1 + index of `worlds`, or 0: not known
    phase: NDArray[np.int64]  # an index of `phases`
    bytes: NDArray[np.int64]
    messages: NDArray[np.int64]
    histogram: NDArray[np.int64]  # (pairs, HISTOGRAM_BUCKETS)
    events: tuple[RecordedEvent, ...]
    communicators: tuple[Members, ...]
    worlds: tuple[RecordedWorld, ...]
    wall_s: float
    mpi_s: float
    time: tuple[RecordedTime, ...]  # over all phases
    phases: tuple[RecordedPhase, ...]
    phase_mode: PhaseMode
    calls: int
    segments: int  # files that the rank left
    lost_messages: int
    lost_bytes: int
    lost_events: int
    devices: tuple[RecordedDevice, ...]  # in the order of first use
    visible_devices: int | None
    local_rank: int | None
    host: str
    world: str
    abi: str
    library: str

    def has(self, flag: Flag) -> bool:
        """Whether the flag is set."""
        return bool(self.flags & flag)

    @property
    def timed(self) -> bool:
        """Whether clocks were read around MPI calls."""
        return not self.has(Flag.UNTIMED)

    @property
    def device_ordinal(self) -> int | None:
        """The number of the device used first, as the application numbers devices."""
        return self.devices[0].ordinal if self.devices else None

    @property
    def device_pci_bus_id(self) -> str | None:
        """The PCI bus id of the device used first."""
        return self.devices[0].pci_bus_id if self.devices else None
