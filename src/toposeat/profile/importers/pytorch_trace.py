"""Traffic from traces of the PyTorch profiler (Chrome trace format), one file per rank.

A trace has its rank, the size of the world and the process groups in `distributedInfo`; every call
of a process group is an event with the attributes of `record_param_comms`
(torch/csrc/distributed/c10d/ParamCommsUtils.hpp): element counts of the input and output tensors,
the element type, the process group. Lists of more than 30 entries are cut by the profiler. Of
hundreds of megabytes of events only those of process groups are looked into.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from toposeat.errors import InputError
from toposeat.model.plural import nouns
from toposeat.model.traffic import RankInfo, Traffic
from toposeat.profile.importers.streams import content_of
from toposeat.profile.nccl_job import MAX_RANKS, ROOTED, Call, NcclJob

MAX_BYTES = 1 << 60

IGNORED = frozenset(
    {
        *("", "wait", "init", "barrier", "allreducebarrier", "n/a"),
        *("coalesced", "startcoalescing", "endcoalescing"),
    }
)

_BYTES_OF_TYPE: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("byte", "char", "bool", "uint8", "int8"), 1),
        **dict.fromkeys(("short", "half", "bfloat16", "float16", "int16", "uint16"), 2),
        **dict.fromkeys(("int", "float", "float32", "int32", "uint32", "complexhalf"), 4),
        **dict.fromkeys(("long", "double", "float64", "int64", "uint64", "complexfloat"), 8),
        "complexdouble": 16,
    }
)
_OPERATION = MappingProxyType(
    {
        "allreduce": "allreduce",
        "allreducesparse": "allreduce",
        "broadcast": "bcast",
        "reduce": "reduce",
        "allgather": "allgather",
        "allgatherintotensor": "allgather",
        "reducescatter": "reduce_scatter_block",
        "reducescattertensor": "reduce_scatter_block",
        "alltoall": "alltoall",
        "alltoallv": "alltoall",
        "alltoallsingle": "alltoall",
        "gather": "gather",
        "scatter": "scatter",
    }
)
_SUFFIXES = re.compile(r"(?:base|coalesced|oop)$")
_LIST = re.compile(r"\[\s*(\d{1,18}(?:\s*,\s*\d{1,18})*)?\s*\]", re.ASCII)


class TraceCallError(ValueError):
    """A call whose bytes are not known; the text says why in a few words."""


class TraceCall(NamedTuple):
    """One event's attributes; numbers that are missing are -1."""

    name: str
    group: str
    description: str
    ranks: str
    members: int
    start: int
    stride: int
    element_type: str
    given: int
    got: int
    splits: str
    rank: int
    peer: int


def trace_call(args: Mapping[str, Any]) -> TraceCall:
    """The attributes of an event that its traffic follows from."""
    name = _text(args, "Collective name").lower()
    return TraceCall(
        name=name,
        group=_text(args, "Process Group Name"),
        description=_text(args, "Process Group Description")[:80],
        ranks=_text(args, "Process Group Ranks"),
        members=_number(args, "Group size"),
        start=_number(args, "Global rank start"),
        stride=_number(args, "Global rank stride"),
        element_type=_text(args, "dtype"),
        given=_number(args, "In msg nelems"),
        got=_number(args, "Out msg nelems"),
        splits=_text(args, "In split size"),
        rank=_number(args, "Rank"),
        peer=_number(args, "Dst Rank" if name == "send" else "Src Rank"),
    )


def _text(args: Mapping[str, Any], name: str) -> str:
    value = args.get(name, "")
    return value if isinstance(value, str) else str(value) if isinstance(value, list) else ""


def _number(args: Mapping[str, Any], name: str) -> int:
    value = args.get(name, -1)
    return value if isinstance(value, int) and 0 <= value < 2**62 else -1


def message_of(call: TraceCall, members: Sequence[int] | None) -> tuple[int, int] | None:
    """Peer (world rank) and bytes of a send or receive; None for a collective.

    Older profilers give the peer only as `Rank`, a position in the group.
    """
    if call.name not in ("send", "recv"):
        return None
    peer = call.peer
    if peer < 0 and members is not None and 0 <= call.rank < len(members):
        peer = members[call.rank]
    if peer < 0:
        raise TraceCallError(f"{call.name} without a peer")
    return peer, _in_bytes(call, call.given)


def vector_call(call: TraceCall, members: int) -> list[int] | None:
    """Bytes to each member of an all-to-all with split sizes; None for all other calls."""
    if operation_of(call.name) != "alltoall" or not call.splits:
        return None
    parts = _LIST.fullmatch(call.splits)
    if parts is None or not parts[1]:
        return None  # no splits: equal blocks; or cut by the profiler
    splits = [int(part) for part in parts[1].split(",")]
    if len(splits) != members or not sum(splits):
        return None
    total = _in_bytes(call, call.given)
    return [total * part // sum(splits) for part in splits]


def group_call(call: TraceCall, members: int) -> Call:
    """A collective with one rank's contribution in bytes."""
    operation = operation_of(call.name)
    if operation == "reduce_scatter_block":
        size = (
            _in_bytes(call, call.got) if call.got >= 0 else _in_bytes(call, call.given) // members
        )
    elif operation == "alltoall":
        size = _in_bytes(call, call.given) // members
    elif operation == "scatter":
        size = _in_bytes(call, call.got)
    elif operation == "bcast":
        size = _in_bytes(call, max(call.given, call.got))
    else:
        size = _in_bytes(call, call.given)
    if operation not in ROOTED:
        return Call(operation, size)
    # For these, `Rank` is the root's position in the group.
    return Call(operation, size, call.rank if 0 <= call.rank < members else 0)


def operation_of(called: str) -> str:
    """The MPI operation of a call of a process group.

    Raises:
        TraceCallError: it is not known.
    """
    name = called.replace("_", "")
    while (shorter := _SUFFIXES.sub("", name)) != name:
        name = shorter
    operation = _OPERATION.get(name)
    if operation is None:
        raise TraceCallError(f"operation {called[:40]!r}")
    return operation


def bytes_of_type(name: str) -> int:
    """Bytes of one element."""
    kind = name.lower()
    width = 1 if kind.startswith("float8") else _BYTES_OF_TYPE.get(kind, 0)
    if not width:
        raise TraceCallError(f"type {name[:40]!r}")
    return width


def _in_bytes(call: TraceCall, elements: int) -> int:
    width = bytes_of_type(call.element_type)
    if elements < 0 or elements * width > MAX_BYTES:
        raise TraceCallError(f"{call.name[:40]} without a count")
    return elements * width


_HINT = (
    "record it with torch.profiler.profile(...).export_chrome_trace(F) in every rank; with process"
    " groups of the nccl backend"
)
_GLOO_HINT = "record it with: toposeat profile -- torchrun ..."
_RANKS = re.compile(r"\[\s*(\d{1,7}(?:\s*,\s*\d{1,7})*)\s*\]", re.ASCII)
_CAVEATS = (
    "a PyTorch trace covers the steps that were profiled, not the whole run",
    "it gives no share of the run: communication that overlaps computation is not known",
)


def read_pytorch_traces(paths: Iterable[Path]) -> Traffic:
    """Read the traces of one job."""
    files = list(paths)
    traces = [_Trace.read(path) for path in files]
    world = max((trace.world or 0 for trace in traces), default=0)
    if any(trace.world not in (None, world) for trace in traces):
        sizes = sorted({trace.world for trace in traces if trace.world is not None})
        raise InputError(
            f"traces of different jobs: worlds of {sizes[0]} and {sizes[-1]} ranks", path=files[0],
            hint="put the traces of one job into a folder of their own",
        )  # fmt: skip
    job = _Job(NcclJob(ranks=max(world, 1)))
    for trace in traces:
        job.add(trace)
    job.job.split_equal_exchanges()
    if not job.understood:
        raise InputError(
            f"none of its {job.calls} calls of process groups says what it sends to whom",
            path=files[0],
            hint=_HINT,
        )
    return job.job.traffic(
        f"PyTorch {nouns(len(files), 'trace')} of"
        f" {len(job.job.reporting)} of {job.job.ranks} ranks",
        rank_info=[RankInfo(rank=rank) for rank in sorted(job.job.reporting)],
        report=job.caveats(),
    )


MAX_TRACE_BYTES = 1 << 31  # of a file when unpacked, which is in memory as a whole
_BYTE = re.compile(r"\(byte (\d+)\)")


class _File(msgspec.Struct):
    info: Any = msgspec.field(default=None, name="distributedInfo")
    events: list[msgspec.Raw] = msgspec.field(default_factory=list, name="traceEvents")


@dataclass(slots=True)
class _Trace:
    """What one file says."""

    path: Path
    rank: int | None = None
    world: int | None = None
    ranks_of_group: dict[str, tuple[int, ...]] = field(default_factory=dict)
    from_host: Counter[TraceCall] = field(default_factory=Counter)
    from_device: Counter[TraceCall] = field(default_factory=Counter)

    @staticmethod
    def read(path: Path) -> _Trace:
        trace = _Trace(path)
        data = content_of(path, MAX_TRACE_BYTES)
        try:
            if data[:64].lstrip()[:1] == b"[":
                file = _File(events=msgspec.json.decode(data, type=list[msgspec.Raw]))
            else:
                file = msgspec.json.decode(data, type=_File)
            told = (bytes(event) for event in file.events)
            events = [msgspec.json.decode(each) for each in told if b'"Collective name"' in each]
        except (ValueError, RecursionError) as error:
            at = _BYTE.search(str(error))
            line = None if at is None else data.count(b"\n", 0, int(at[1])) + 1
            cause = f"damaged JSON: {str(error)[:80]}"
            raise InputError(cause, path=path, line=line, hint="is the file complete?") from error
        trace._distributed(file.info)
        for event in events:
            args = event.get("args") if isinstance(event, dict) else None
            if isinstance(args, dict) and "Collective name" in args:
                seen = trace.from_device if event.get("cat") == "kernel" else trace.from_host
                seen[trace_call(args)] += 1
        if trace.rank is None:
            raise InputError("the trace does not state its rank", path=path, hint=_HINT)
        return trace

    def _distributed(self, info: Any) -> None:
        """The rank, the world and its process groups; an empty list of ranks means all."""
        if not isinstance(info, dict):
            return
        rank, world = _count(info.get("rank")), _count(info.get("world_size"))
        if rank is None or world is None or not rank < world <= MAX_RANKS:
            raise InputError(
                f"impossible distributedInfo: rank {rank} of {world}",
                path=self.path,
                hint=_HINT,
            )
        backend = str(info.get("backend", ""))
        if "gloo" in backend and "nccl" not in backend:
            raise InputError(
                "a trace of gloo, whose calls do not say what they send to whom: not read",
                path=self.path, hint=_GLOO_HINT,
            )  # fmt: skip
        self.rank, self.world = rank, world
        groups = info.get("pg_config")
        for group in groups if isinstance(groups, list) else []:
            listed = group.get("ranks") if isinstance(group, dict) else None
            if isinstance(listed, str):  # as other dumps of PyTorch write it
                listed = listed_ranks(listed)
            if isinstance(listed, (list, tuple)):
                members = listed or list(range(world))
                if all((rank := _count(m)) is not None and rank < world for m in members):
                    self.ranks_of_group[str(group.get("pg_name"))] = tuple(members)

    def members(self, call: TraceCall) -> tuple[int, ...] | None:
        """World ranks of the call's process group, in its order; None if they are not known."""
        listed = self.ranks_of_group.get(call.group)
        if listed is None:
            listed = listed_ranks(call.ranks)
        if listed is None and call.start >= 0 < call.stride and 0 < call.members <= MAX_RANKS:
            listed = tuple(range(call.start, call.start + call.stride * call.members, call.stride))
        if listed is None or len(set(listed)) < len(listed) or max(listed) >= (self.world or 0):
            return None
        return listed


def listed_ranks(text: str) -> tuple[int, ...] | None:
    """The ranks of `[0, 1]`; None for anything else."""
    found = _RANKS.fullmatch(text)
    return tuple(map(int, found[1].split(","))) if found else None


def _count(value: Any) -> int | None:
    """The value if it is a whole number that is not negative."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and value >= 0 else None


@dataclass(slots=True)
class _Job:
    """The job put together from the traces, and what could not be used."""

    job: NcclJob
    calls: int = 0
    understood: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    without_group: int = 0

    def add(self, trace: _Trace) -> None:
        """One rank's calls; those of the host, which has them all, if it recorded any."""
        assert trace.rank is not None
        self.job.reporting.add(trace.rank)
        for call, count in (trace.from_host or trace.from_device).items():
            if call.name in IGNORED:
                continue
            self.calls += count
            try:
                self._one(trace, trace.rank, call, count)
            except TraceCallError as error:
                self.unknown[str(error)] += count

    def _one(self, trace: _Trace, rank: int, call: TraceCall, count: int) -> None:
        members = trace.members(call)
        message = message_of(call, members)
        if message is not None:
            peer, size = message
            if not 0 <= peer < self.job.ranks:
                raise TraceCallError(f"{call.name} to rank {peer}")
            self.job.add_message(call.name, rank, peer, size, count)
            self.understood += count
            return
        if members is None or rank not in members:
            self.without_group += count
            return
        group = self.job.group_of(members, call.description or call.group)
        vector = vector_call(call, len(members))
        if vector is not None:
            for target, size in zip(members, vector, strict=True):
                self.job.exchanged[rank, target, size] += count
            made = Call("alltoallv", sum(vector))
        else:
            made = group_call(call, len(members))
        group.calls[members.index(rank)][made] += count
        self.understood += count

    def caveats(self) -> list[str]:
        """What the traces do not say."""
        notes = list(_CAVEATS)
        missing = self.job.ranks - len(self.job.reporting)
        if missing:
            notes.append(
                f"{missing} of {self.job.ranks} ranks have no trace: only groups of the others are"
                " known, and messages between ranks without a trace are missing"
            )
        if self.without_group:
            notes.append(f"{self.without_group} calls do not say which ranks take part; left out")
        if self.unknown:
            words = "; ".join(f"{what} ({n})" for what, n in self.unknown.most_common(4))
            notes.append(f"{sum(self.unknown.values())} calls were not understood: {words}")
        return notes
