"""Which ranks of a run have no record, on which hosts, and why."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from toposeat.model.files import beginning
from toposeat.model.job_folder import TORCH_SUFFIX
from toposeat.model.traffic import Traffic
from toposeat.profile.records.record_layout import CAUSE_SUFFIX, HOST_SUFFIX, SUFFIX

LEFT_NO_RECORD = "left no record"
_LISTED = 4  # groups that a sentence names
_NAME = re.compile(r"rank-(\d{1,9})-\d{1,19}(.*)", re.ASCII | re.DOTALL)
_MAX_HOST_NAME = 256


def missing_ranks(traffic: Traffic, folders: Sequence[Path], why: str = "") -> str:
    """The ranks without a record, grouped by host and cause; empty if there are none.

    Args:
        traffic: the merged records.
        folders: where these lie, with what the ranks without one left.
        why: what is known of ranks that left nothing at all.
    """
    missing = set(range(traffic.ranks)).difference(info.rank for info in traffic.rank_info)
    if not missing:
        return ""
    host_of = {} if _others_start_ranks(folders) else noted_hosts(folders)
    cause_of: dict[int, str] = {}
    for folder in folders:
        for path in folder.glob("rank-*"):
            match = _NAME.fullmatch(path.name)
            if match is None or int(match[1]) not in missing:
                continue
            rank, rest = int(match[1]), match[2]
            if rest == SUFFIX:
                cause_of[rank] = "its record cannot be used"
            elif rest.startswith(CAUSE_SUFFIX) and rest[len(CAUSE_SUFFIX) :][:9].isdecimal():
                cause_of[rank] = os.strerror(int(rest[len(CAUSE_SUFFIX) :][:9]))
    groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for rank in sorted(missing):
        host = host_of.get(rank, "")
        unknown = (
            "it made no MPI call, or its record was removed"
            if host
            else "nothing came from its node"
        )
        groups[host, cause_of.get(rank, why or unknown)].append(rank)
    parts = [_group(ranks, host, cause) for (host, cause), ranks in groups.items()]
    more = f"; ... ({len(parts)} such groups)" if len(parts) > _LISTED else ""
    listed = "; ".join(parts[:_LISTED])
    return f"{len(missing)} of {traffic.ranks} ranks have no record: {listed}{more}"


def noted_hosts(folders: Sequence[Path]) -> dict[int, str]:
    """By rank: the host that started it, where toposeat-exec left word of that."""
    hosts = {}
    for folder in folders:
        for path in folder.glob(f"rank-*{HOST_SUFFIX}"):
            match = _NAME.fullmatch(path.name)
            name = beginning(path, _MAX_HOST_NAME).decode("ascii", "replace")
            if match is not None and name.isprintable():
                hosts[int(match[1])] = name
    return hosts


def _others_start_ranks(folders: Sequence[Path]) -> bool:
    """Whether what a launcher started, torchrun for example, has other numbers than the ranks."""
    started: defaultdict[str, set[str]] = defaultdict(set)
    recorded: defaultdict[str, set[str]] = defaultdict(set)
    for suffix, processes in ((HOST_SUFFIX, started), (TORCH_SUFFIX, recorded)):
        for folder in folders:
            for path in folder.glob(f"rank-*{suffix}"):
                rank, _, process = path.name.removesuffix(suffix)[5:].partition("-")
                processes[rank].add(process)
    return any(rank in started and not started[rank] & recorded[rank] for rank in recorded)


def _group(ranks: Sequence[int], host: str, cause: str) -> str:
    return f"{_ranges(ranks)}{f' on {host}' if host else ''} ({cause})"


def _ranges(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0-3, 8`."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    shown = ", ".join(words[:8]) + (", ..." if len(words) > 8 else "")
    return f"rank {shown}" if len(runs) == 1 and runs[0][0] == runs[0][1] else f"ranks {shown}"
