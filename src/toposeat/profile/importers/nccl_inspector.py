"""Traffic from the JSON files of the NCCL (or RCCL) Inspector, a profiler plugin.

One file per process, one object per finished collective or message, with the communicator's hash,
the member's rank in it, and the size of the call.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, convert

from toposeat.errors import InputError
from toposeat.model.traffic import RankInfo, Traffic
from toposeat.profile.importers.nccl_world import Process, View, job_traffic
from toposeat.profile.importers.streams import objects_of
from toposeat.profile.nccl_job import MAX_RANKS, OPERATION_OF_CALL, ROOTED, Call

_HINT = (
    "record it with: NCCL_PROFILER_PLUGIN=libnccl-profiler-inspector.so NCCL_INSPECTOR_ENABLE=1"
    " NCCL_INSPECTOR_DUMP_DIR=DIR, then give DIR"
)
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
            except ValueError as error:
                raise InputError(
                    f"damaged Inspector record: {str(error)[:100]}",
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


_Whole = Annotated[int, Meta(ge=0)]
_Bytes = Annotated[int, Meta(ge=0, le=1 << 60)]


class _Header(Struct):
    id: str
    rank: _Whole
    n_ranks: Annotated[int, Meta(le=MAX_RANKS)]


class _Metadata(Struct):
    hostname: str = ""
    pid: _Whole = 0


class _Collective(Struct):
    coll: str
    coll_msg_size_bytes: _Bytes
    coll_sn: _Whole = 0


class _Message(Struct):
    p2p: str
    p2p_peer: _Whole
    p2p_msg_size_bytes: _Bytes


class _Record(Struct):
    header: _Header | None = None
    metadata: _Metadata | None = None
    coll_perf: _Collective | None = None
    p2p_perf: _Message | None = None


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

    def read(self, line: Any) -> None:
        record = convert(line, _Record)
        if record.coll_perf is None and record.p2p_perf is None:
            return  # a record of another kind: of a communicator's start, for instance
        if record.header is None or record.metadata is None:
            raise ValueError("no header, or no metadata")
        name, rank, ranks = record.header.id, record.header.rank, record.header.n_ranks
        if not rank < ranks:
            raise ValueError(f"rank {rank} of {ranks} in communicator {name[:40]!r}")
        host, pid = record.metadata.hostname[:255], record.metadata.pid
        key = name, host, pid, rank
        view = self.views.get(key)
        if view is None:
            self._places[name, host, pid].append(rank)
            view = self.views[key] = View(Process(host, 0, pid), rank, ranks, name)
        if record.coll_perf is not None:
            self._collective(record.coll_perf, key, view)
        elif record.p2p_perf is not None:
            self._message(record.p2p_perf, view)

    def _collective(self, perf: _Collective, key: tuple[str, str, int, int], view: View) -> None:
        operation = OPERATION_OF_CALL.get(perf.coll.lower())
        self.seen[key] += 1
        self.highest[key] = max(self.highest[key], perf.coll_sn)
        if operation is None:
            self.unknown[perf.coll[:40]] += 1
            return
        self.rootless += operation in ROOTED
        root = 0 if operation in ROOTED else -1
        view.calls[Call(operation, perf.coll_msg_size_bytes, root)] += 1

    def _message(self, perf: _Message, view: View) -> None:
        if not perf.p2p_peer < view.ranks:
            raise ValueError(f"peer {perf.p2p_peer} of {view.ranks}")
        if perf.p2p == "Send":
            view.sends[perf.p2p_peer, perf.p2p_msg_size_bytes] += 1
        elif perf.p2p == "Recv":
            view.receives[perf.p2p_peer, perf.p2p_msg_size_bytes] += 1
        else:
            self.unknown[perf.p2p[:40]] += 1

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
