"""Traffic from the JSON files of the NCCL (or RCCL) Inspector, a profiler plugin.

One file per process, one object per finished collective or message, with the communicator's hash,
the member's rank in it, and the size of the call.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toposeat.errors import InputError
from toposeat.model.traffic import RankInfo, Traffic
from toposeat.profile.importers.nccl_world import Process, View, job_traffic
from toposeat.profile.importers.streams import objects_of
from toposeat.profile.nccl_job import MAX_RANKS, OPERATION_OF_CALL, ROOTED, Call

_HINT = (
    "record it with: NCCL_PROFILER_PLUGIN=libnccl-profiler-inspector.so NCCL_INSPECTOR_ENABLE=1"
    " NCCL_INSPECTOR_DUMP_DIR=DIR, then give DIR"
)
_MAX_BYTES = 1 << 60
_CAVEATS = (
    "the Inspector records how long an operation took, not how much of the run that is: the share"
    " of the run is not known",
    "by default it leaves out messages below 8192 bytes and calls that its kernels did not time",
)


def read_inspector(paths: Iterable[Path]) -> Traffic:
    """Read the Inspector's files of one job."""
    files = list(paths)
    dump = _Dump()
    for path in files:
        for line, record in objects_of(path):
            try:
                dump.read(record)
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(
                    f"damaged Inspector record: {_reason(error)}",
                    path=path,
                    line=line,
                    hint=_HINT,
                ) from error
    if not dump.views:
        raise InputError("no operation is recorded", path=files[0], hint=_HINT)
    plural = "" if len(files) == 1 else "s"
    return job_traffic(
        f"NCCL Inspector ({len(files)} file{plural})",
        dump.finished_views(),
        info=dump.info(),
        report=dump.caveats(),
    )


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)[:80]


@dataclass(slots=True)
class _Dump:
    """Records by communicator and member."""

    views: dict[tuple[str, str, int, int], View] = field(default_factory=dict)
    highest: dict[tuple[str, str, int, int], int] = field(default_factory=lambda: defaultdict(int))
    seen: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    rootless: int = 0
    _places: dict[tuple[str, str, int], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def read(self, record: Any) -> None:
        header, metadata = _mapping(record, "header"), _mapping(record, "metadata")
        if "coll_perf" not in record and "p2p_perf" not in record:
            return  # a record of another kind: of a communicator's start, for instance
        name, rank, ranks = header["id"], _whole(header, "rank"), _whole(header, "n_ranks")
        if not isinstance(name, str) or not rank < ranks <= MAX_RANKS:
            raise ValueError(f"rank {rank} of {ranks} in communicator {str(name)[:40]!r}")
        host, pid = str(metadata.get("hostname", ""))[:255], _whole(metadata, "pid", 0)
        key = name, host, pid, rank
        view = self.views.get(key)
        if view is None:
            self._places[name, host, pid].append(rank)
            view = self.views[key] = View(Process(host, 0, pid), rank, ranks, name)
        if "coll_perf" in record:
            self._collective(_mapping(record, "coll_perf"), key, view)
        else:
            self._message(_mapping(record, "p2p_perf"), view)

    def _collective(
        self, perf: Mapping[str, Any], key: tuple[str, str, int, int], view: View
    ) -> None:
        name = perf["coll"]
        operation = OPERATION_OF_CALL.get(str(name).lower())
        self.seen[key] += 1
        self.highest[key] = max(self.highest[key], _whole(perf, "coll_sn", 0))
        if operation is None:
            self.unknown[str(name)[:40]] += 1
            return
        size = _size(perf, "coll_msg_size_bytes")
        self.rootless += operation in ROOTED
        root = 0 if operation in ROOTED else -1
        view.calls[Call(operation, size, root)] += 1

    def _message(self, perf: Mapping[str, Any], view: View) -> None:
        name, peer, size = perf["p2p"], _whole(perf, "p2p_peer"), _size(perf, "p2p_msg_size_bytes")
        if not peer < view.ranks:
            raise ValueError(f"peer {peer} of {view.ranks}")
        if name == "Send":
            view.sends[peer, size] += 1
        elif name == "Recv":
            view.receives[peer, size] += 1
        else:
            self.unknown[str(name)[:40]] += 1

    def finished_views(self) -> list[View]:
        """The views; members that share a process are told apart by their order."""
        for (name, host, pid, rank), view in self.views.items():
            place = sorted(self._places[name, host, pid]).index(rank)
            view.process = Process(host, place, pid)
        return list(self.views.values())

    def info(self) -> dict[Process, RankInfo]:
        """Host and process id of every member."""
        processes = {view.process for view in self.views.values()}
        return {p: RankInfo(rank=0, host=p.host, pid=p.pid) for p in processes}

    def caveats(self) -> list[str]:
        """What the files do not say."""
        notes = list(_CAVEATS)
        lost = sum(max(self.highest[key] - count, 0) for key, count in self.seen.items())
        if lost:
            notes.append(f"by their sequence numbers, about {lost} collectives were not recorded")
        if self.rootless:
            notes.append("it does not record the root of a broadcast or reduce: rank 0 is assumed")
        if self.unknown:
            names = ", ".join(sorted(self.unknown)[:4])
            notes.append(f"{sum(self.unknown.values())} operations are not known: {names}")
        if any(len(places) > 1 for places in self._places.values()):
            notes.append(
                "processes drive several devices: these are told apart by their order in each"
                " communicator"
            )
        return notes


def _mapping(record: Any, name: str) -> Mapping[str, Any]:
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, dict):
        raise KeyError(name)
    return value


def _whole(values: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = values.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} is {str(value)[:40]!r}")
    return value


def _size(values: Mapping[str, Any], name: str) -> int:
    size = _whole(values, name)
    if size > _MAX_BYTES:
        raise ValueError(f"{name} is {str(size)[:20]}")
    return size
