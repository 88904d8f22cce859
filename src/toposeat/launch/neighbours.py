"""How many ranks of its node the MPI library of each rank takes for neighbours, as far as it shows.

MPICH makes one segment of shared memory for the ranks of a node. Where its launcher told it a wrong
map of the job, every rank has its own, or none. Other MPI libraries show nothing of the kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from toposeat.launch.rank_report import RankReports, ReportFolder, first_value
from toposeat.model.placement import Placement

_MPICH = "MPICH Version:"


def count_neighbours(placement: Placement, reports: ReportFolder) -> dict[int, tuple[int, int]]:
    """By rank: how many other ranks share a segment with it, and how many others its host has.

    Only ranks of hosts with several ranks are in it, all of which told their segments.
    """
    ranks_of_host: dict[str, list[int]] = defaultdict(list)
    for seat in placement.seats:
        ranks_of_host[seat.host].append(seat.rank)
    counts: dict[int, tuple[int, int]] = {}
    for ranks in ranks_of_host.values():
        told = {rank: _segments(reports.ranks.get(rank)) for rank in ranks}
        known = {rank: own for rank, own in told.items() if own is not None}
        if len(ranks) > 1 and len(known) == len(ranks):
            counts |= _sharing(known)
    return counts


def _sharing(segments: Mapping[int, frozenset[str]]) -> dict[int, tuple[int, int]]:
    ranks_with = Counter(segment for own in segments.values() for segment in own)
    others = len(segments) - 1
    return {
        rank: (max((ranks_with[segment] - 1 for segment in own), default=0), others)
        for rank, own in segments.items()
    }


def _segments(own: RankReports | None) -> frozenset[str] | None:
    """What a rank had before MPI_Finalize; None where that is not known."""
    for probe in own.probes if own is not None else ():
        mpi = first_value(probe, "mpi") or ""
        if first_value(probe, "when") == "MPI_Finalize" and mpi.startswith(_MPICH):
            return frozenset(probe.get("mpich_segment", ()))
    return None
