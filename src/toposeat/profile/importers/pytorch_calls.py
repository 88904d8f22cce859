"""Calls of PyTorch process groups as the profiler describes them, in bytes.

The attributes are those of `record_param_comms` (torch/csrc/distributed/c10d/ParamCommsUtils.hpp):
element counts of the input and output tensors, the element type, the process group. Lists of more
than 30 entries are cut by the profiler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from toposeat.profile.nccl_job import ROOTED, Call

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
