"""What is known of the ranks of a profiled run: their nodes, devices and time in MPI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from toposeat.model.record import Record

if TYPE_CHECKING:  # it brings numpy, which `run` does without
    from toposeat.model.pair_table import MemorySpace


class TimeKind(StrEnum):
    """The kinds of MPI calls whose time is told apart."""

    POINT_TO_POINT = "point-to-point"
    COLLECTIVE = "collective"
    ONE_SIDED = "one-sided"
    COMPLETION = "completion"  # the Wait, Test and Probe families
    OTHER = "other"


class TimeShare(Record, frozen=True, kw_only=True):
    """Time of one rank inside the MPI calls of one kind.

    A completion call counts for the memory of the nonblocking operations that its thread started
    since the last completion: device, if any of their buffers was a device buffer.
    """

    kind: TimeKind
    space: MemorySpace
    seconds: float
    calls: int


class DeviceUse(Record, frozen=True, kw_only=True):
    """One device from whose memory a rank sent."""

    pci_bus_id: str | None  # None: the runtime did not tell
    ordinal: int | None  # the device's number as the application saw it
    bytes: int


class DeviceChoice(StrEnum):
    """How an application picks its device."""

    LOCAL_RANK = "local rank"  # the device numbered like the rank within its node
    DEVICE_0 = "device 0"  # always the first of several visible ones
    OWN = "own choice"
    UNKNOWN = "unknown"


class RankInfo(Record, frozen=True, kw_only=True):
    """What is known of one rank of the profiled run."""

    rank: int
    host: str = ""
    pid: int = 0
    finalized: bool = True  # False: the rank died or was killed; its counts reach to that moment
    wall_s: float = 0.0  # from MPI_Init to MPI_Finalize, or to the last record
    mpi_s: float = 0.0  # inside recorded MPI calls; 0 in an untimed profile (`Traffic.timed`)
    device_pci_bus_id: str | None = None  # device that owned its buffers, when known
    device_ordinal: int | None = None  # that device's number as the application saw it
    visible_devices: int | None = None
    local_rank: int | None = None  # number within its node
    time: tuple[TimeShare, ...] = ()  # adds up to `mpi_s`; () when not known
    devices: tuple[DeviceUse, ...] = ()  # every device it sent from, most bytes first

    @property
    def main_ordinal(self) -> int | None:
        """The number of the device that it sent most bytes from."""
        for use in self.devices:
            if use.ordinal is not None:
                return use.ordinal
        return self.device_ordinal


def device_choice(ranks: Iterable[RankInfo]) -> DeviceChoice:
    """How the application picks its device, judged by the ranks that saw several.

    Ranks that see only one device, or sent from none, are left out. Device i for local rank i, or i
    modulo the number of visible devices, is the choice by local rank. The local rank is that of the
    launcher, or the rank's place among those of its node, as a split by shared memory numbers them;
    the two can differ, because Open MPI 5 numbers by core. If only the first rank of each node can
    be judged, device 0 fits both rules, and the answer is unknown.
    """
    everybody = list(ranks)
    chosen = [r for r in everybody if r.main_ordinal is not None and r.visible_devices != 1]
    places = _places_on_hosts(everybody)
    always_0 = all(info.main_ordinal == 0 for info in chosen)
    by_rank = any(
        all(info.main_ordinal == _ordinal_of(number(info), info) for info in chosen)
        for number in (lambda info: info.local_rank, lambda info: places[info.rank])
    )
    if not chosen or (always_0 and by_rank):
        return DeviceChoice.UNKNOWN
    if by_rank:
        return DeviceChoice.LOCAL_RANK
    if always_0:
        several_seen = all(info.visible_devices is not None for info in chosen)
        share_a_node = len({info.host for info in chosen}) < len(chosen)
        return DeviceChoice.DEVICE_0 if several_seen and share_a_node else DeviceChoice.UNKNOWN
    unsure = any(info.local_rank is None for info in chosen)
    return DeviceChoice.UNKNOWN if unsure else DeviceChoice.OWN


def _places_on_hosts(ranks: Iterable[RankInfo]) -> dict[int, int]:
    """For each rank how many ranks of its host come before it."""
    before: Counter[str] = Counter()
    places = {}
    for info in sorted(ranks, key=lambda info: info.rank):
        places[info.rank] = before[info.host]
        before[info.host] += 1
    return places


def _ordinal_of(number: int | None, info: RankInfo) -> int | None:
    """The ordinal that a rank takes if it goes by this number within its node."""
    if number is None or not info.visible_devices:
        return number
    return number % info.visible_devices
