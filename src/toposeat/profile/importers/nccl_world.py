"""Joins views of one communicator, and finds the rank of each process in the job.

NCCL names a communicator by a hash that all its members share, and knows ranks only within one. The
rank of the job is taken from the largest communicator if that has all processes, else processes are
numbered by host and device.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from toposeat.errors import InputError
from toposeat.model.few import first_few
from toposeat.model.traffic import RankInfo, Traffic
from toposeat.profile.nccl_job import MAX_RANKS, Call, NcclJob

_LISTED = 4


@dataclass(frozen=True, order=True, slots=True)
class Process:
    """One member of communicators: a process, or one of the devices that it drives."""

    host: str
    device: int
    pid: int


@dataclass(slots=True)
class View:
    """One communicator as one of its members sees it.

    Attributes:
        process: the member.
        rank: its rank in the communicator.
        ranks: how many there are.
        id: what all members call it.
        calls: collectives.
        sends: messages to a peer's position: (peer, bytes) -> count.
        receives: messages from one.
    """

    process: Process
    rank: int
    ranks: int
    id: str
    calls: Counter[Call] = field(default_factory=Counter)
    sends: Counter[tuple[int, int]] = field(default_factory=Counter)
    receives: Counter[tuple[int, int]] = field(default_factory=Counter)


def job_traffic(
    origin: str,
    views: Sequence[View],
    *,
    info: dict[Process, RankInfo],
    report: Sequence[str],
    metadata: dict[str, str] | None = None,
) -> Traffic:
    """The traffic of all views of one job, at least one.

    `info` is what is known of the processes; their `rank` is filled in here.
    """
    notes = list(report)
    communicators = _join_views(views)
    rank_of, ranks = _number_processes(communicators, notes)
    job = NcclJob(ranks=ranks)
    by_rank = {rank: process for process, rank in rank_of.items()}
    job.reporting = set(by_rank)
    for communicator in communicators:
        _add(job, communicator, rank_of, world=communicator is communicators[0])
    missing = [rank for rank in range(ranks) if rank not in by_rank]
    if missing:
        notes.append(
            f"{len(missing)} of {ranks} ranks left no record, such as rank {missing[0]}: their"
            " part in collectives is inferred from the others, their own messages are missing"
        )
    known = [
        replace(info.get(by_rank[rank], RankInfo(rank=rank)), rank=rank) for rank in sorted(by_rank)
    ]
    return job.traffic(origin, rank_info=known, metadata=metadata, report=notes)


def _join_views(views: Sequence[View]) -> list[list[View]]:
    """Views by communicator, the largest communicator first."""
    named: dict[tuple[str, int], list[View]] = defaultdict(list)
    for view in views:
        named[view.id, view.ranks].append(view)
    found = [_one_per_rank(group) for group in named.values()]
    return sorted(found, key=lambda group: (-group[0].ranks, -len(group), group[0].id))


def _one_per_rank(views: list[View]) -> list[View]:
    """Views of one communicator; a rank that is there twice (made again) is summed."""
    by_rank: dict[int, View] = {}
    for view in views:
        first = by_rank.setdefault(view.rank, view)
        if first is not view:
            first.calls += view.calls
            first.sends += view.sends
            first.receives += view.receives
    return [by_rank[rank] for rank in sorted(by_rank)]


def _number_processes(
    communicators: Sequence[Sequence[View]], notes: list[str]
) -> tuple[dict[Process, int], int]:
    largest = communicators[0]
    everyone = {view.process for group in communicators for view in group}
    in_largest = {view.process: view.rank for view in largest}
    if set(in_largest) == everyone and len(set(in_largest.values())) == len(in_largest):
        return in_largest, _checked(largest[0].ranks)
    hosts = sorted({process.host for process in everyone})
    listed = first_few(hosts, _LISTED)
    notes.append(
        f"no communicator has all {len(everyone)} processes: ranks are numbered by host ({listed}),"
        " device and process id"
    )
    return {process: rank for rank, process in enumerate(sorted(everyone))}, len(everyone)


def _checked(ranks: int) -> int:
    if ranks > MAX_RANKS:
        raise InputError(
            f"a communicator of {ranks} ranks, at most {MAX_RANKS} are read",
            hint="is the source damaged?",
        )
    return ranks


def _add(job: NcclJob, views: Sequence[View], rank_of: dict[Process, int], *, world: bool) -> None:
    """One communicator's calls; positions of the world's own communicator are its ranks."""
    ranks = _checked(views[0].ranks)
    members: list[int | None] = [None] * ranks
    if world and ranks == job.ranks and all(rank_of[v.process] == v.rank for v in views):
        members = list(range(ranks))
    for view in views:
        members[view.rank] = rank_of[view.process]
    group = job.add_group(members, views[0].id)
    for view in views:
        if view.calls:
            group.calls[view.rank] = view.calls
        for called, counts in (("send", view.sends), ("recv", view.receives)):
            for (position, size), count in counts.items():
                if (peer := members[position]) is not None:
                    job.add_message(called, rank_of[view.process], peer, size, count)
                else:
                    job.unplaced += count
