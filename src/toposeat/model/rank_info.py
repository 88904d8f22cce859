"""What is known of the ranks of a profiled run: their nodes, devices and time in MPI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from toposeat.model.cpu_list import cpus_of, format_cpu_list
from toposeat.model.few import first_few
from toposeat.model.plural import nouns, plural
from toposeat.model.record import Record

if TYPE_CHECKING:  # it brings numpy, which `run` does without
    from toposeat.model.pair_table import MemorySpace

# Of the metadata of a profile and of a placement: ranks that need no device, as a Linux list.
CPU_RANKS = "cpu_ranks"


class TimeKind(StrEnum):
    """The kinds of MPI calls whose time is told apart."""

    POINT_TO_POINT = "point-to-point"
    COLLECTIVE = "collective"
    ONE_SIDED = "one-sided"
    COMPLETION = "completion"  # the Wait, Test and Probe families
    OTHER = "other"
    FILE = "MPI-IO"  # of no memory: all of it is in that of the host


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
    cpus: str = ""  # those it was allowed at MPI_Init, as a Linux list; "": not known
    cpu_s: float | None = None  # of all its threads in `wall_s`; None: not known

    @property
    def main_ordinal(self) -> int | None:
        """The number of the device that it sent most bytes from."""
        for use in self.devices:
            if use.ordinal is not None:
                return use.ordinal
        return self.device_ordinal

    @property
    def file_s(self) -> float:
        """Inside MPI-IO."""
        return sum(share.seconds for share in self.time if share.kind is TimeKind.FILE)


_LEAST_ON_CPU = 0.8  # share of a rank's time outside files; below, it waited for a CPU
_LEAST_S = 0.1  # a turn of another process is milliseconds: shorter runs say nothing
_MOST_IN_FILES = 0.1  # share of the run


def cpu_doubt(ranks: Iterable[RankInfo]) -> str:
    """Why time in MPI may be waiting for a CPU, in one sentence; "" where nothing says so.

    Some set of allowed CPUs holds more ranks than CPUs, or ranks were on a CPU for too little of
    their time outside of files: a quota, other jobs. Hardware threads of a core are CPUs.
    """
    everybody = list(ranks)
    crowded = _crowded(everybody)
    if crowded:
        number, cpus, host = max(crowded, key=lambda each: each[0] / len(each[1]))
        where = f" on {host}" if host and len({info.host for info in everybody}) > 1 else ""
        more = f", the worst of {len(crowded)} such hosts" if len(crowded) > 1 else ""
        had = f"{number} ranks{where} had {plural(len(cpus), 'CPU')}"
        return f"{had} ({format_cpu_list(cpus)}){more}: waiting for a CPU counts as time in MPI"
    low = {}
    for info in everybody:
        outside = info.wall_s - info.file_s
        if info.cpu_s is not None and outside >= _LEAST_S:
            share = info.cpu_s / outside
            low.update({info.rank: share} if share < _LEAST_ON_CPU else {})
    if not low:
        return ""
    ends = dict.fromkeys(f"{100 * share:.0f} %" for share in (min(low.values()), max(low.values())))
    names = first_few(format_cpu_list(low).split(","), 8)
    return (
        f"{nouns(len(low), 'rank')} {names} had a CPU for {' to '.join(ends)} of the time outside"
        " files: waiting for one may count as time in MPI"
    )


def _crowded(ranks: Iterable[RankInfo]) -> list[tuple[int, frozenset[int], str]]:
    """Of each host where one does, the set of CPUs that holds most ranks for each, and how many."""
    lists: dict[str, Counter[str]] = {}
    for info in ranks:
        if info.cpus:
            lists.setdefault(info.host, Counter())[info.cpus] += 1
    fullest = ((*_fullest(frozenset(each.items())), host) for host, each in lists.items())
    return [found for found in fullest if found[0] > len(found[1])]


@lru_cache(maxsize=64)  # the hosts of a job are bound alike
def _fullest(lists: frozenset[tuple[str, int]]) -> tuple[int, frozenset[int]]:
    """Of CPU lists, each with a number of ranks, the set that holds most for each of its CPUs."""
    sets = {cpus_of(text): number for text, number in lists}
    together = frozenset[int]().union(*sets)
    if sum(map(len, sets)) > len(together):  # one is part of another
        sets = {
            cpus: sum(number for own, number in sets.items() if own <= cpus)
            for cpus in {*sets, together}
        }
    cpus, number = max(sets.items(), key=lambda each: each[1] / len(each[0]))
    return number, cpus


def file_doubt(ranks: Iterable[RankInfo]) -> str:
    """That a verdict leaves MPI-IO out, where that is much of the run; "" where it is not."""
    timed = [info for info in ranks if info.wall_s > 0]
    share = sum(i.file_s for i in timed) / sum(i.wall_s for i in timed) if timed else 0.0
    said = f"MPI-IO takes {100 * share:.0f} % of the run: its messages are not recorded"
    return said if share > _MOST_IN_FILES else ""


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
