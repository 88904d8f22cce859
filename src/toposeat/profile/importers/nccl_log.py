"""Traffic from NCCL's and RCCL's debug log (`NCCL_DEBUG=INFO`, subsystems INIT and COLL).

The log may be one file of the whole job, its ranks interleaved, or one file per process. A
communicator is known from the INIT lines of its members, a collective or message from a COLL line.
Addresses of communicators mean something only within their process. NVIDIA does not promise a
stable format, so every attribute is looked for by its name, and lines that look like one of these
but cannot be read are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.topology import canonical_pci
from toposeat.model.traffic import RankInfo, Traffic
from toposeat.profile.importers.nccl_world import Process, View, job_traffic
from toposeat.profile.importers.streams import lines_of
from toposeat.profile.nccl_job import MAX_RANKS, OPERATION_OF_CALL, ROOTED, Call

_MAX_DISTINCT = 1 << 22  # communicators, and different calls of one
_MAX_CALL_BYTES = 1 << 60

_HINT = (
    "log it with: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL NCCL_DEBUG_FILE=nccl.%h.%p;"
    " older NCCL, 2.13 for one, names no commId: profile the PyTorch program instead"
)
_PREFIX = re.compile(
    r"([^\s:]{1,255}):(\d{1,10}):(\d{1,10}) \[-?\d{1,4}\] (?:[^\s:]{1,99}:\d{1,6} )?NCCL INFO ",
    re.ASCII,
)
_INIT = re.compile(r"\bcomm (0x[0-9a-f]{1,16}) rank (\d{1,7}) n[rR]anks (\d{1,7})\b", re.ASCII)
_CALL = re.compile(r"(\w{2,20}): opCount ", re.ASCII)
_ATTRIBUTE = re.compile(
    r"\b(count|datatype|root|peer|comm|cudaDev|busId|commId|parent|splitCount|color|localRank)"
    r" (0x[0-9a-f]{1,16}|[0-9a-f]{1,20})\b",
    re.ASCII,
)
_VERSION = re.compile(r"\b([NR]CCL version) (\S{1,60})", re.ASCII)

# ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, fp8 x 2.
_SIZE_OF_TYPE = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
_CAVEATS = (
    "an NCCL log has no times: the share of the run that its traffic takes is not known",
    "calls that were captured in a CUDA graph are logged once, however often the graph ran",
)

_Thread = tuple[str, str, str]  # host, process id, thread id


def read_nccl_logs(paths: Iterable[Path]) -> Traffic:
    """Read the log files of one job."""
    log = _Log()
    files = list(paths)
    for path in files:
        for number, line in lines_of(path):
            if "NCCL" in line:
                log.read(line, path, number)
    if not any(view.calls or view.sends or view.receives for view in log.views):
        what = (
            "has no collective and no message" if log.views else "names no communicator by commId"
        )
        raise InputError(f"the NCCL log {what}", path=files[0], hint=_HINT)
    return job_traffic(
        "NCCL debug log" if len(files) == 1 else f"NCCL debug logs ({len(files)} files)",
        log.views,
        info=log.info,
        report=log.caveats(),
        metadata=log.metadata,
    )


@dataclass(slots=True)
class _Log:
    """What is known so far, over all lines and files."""

    views: list[View] = field(default_factory=list)
    info: dict[Process, RankInfo] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    not_understood: int = 0
    first_not_understood: str = ""
    unknown_communicator: int = 0  # calls on communicators without an INIT line
    _at: dict[tuple[str, str, str], View] = field(default_factory=dict)  # host, pid, address
    _distinct: int = 0

    def read(self, line: str, path: Path, number: int) -> None:
        """One line of any kind; several records on it when writes of two ranks ran together."""
        if (version := _VERSION.search(line)) is not None:
            self.metadata.setdefault(version[1], version[2])
        found = list(_PREFIX.finditer(line))
        for match, after in zip_longest(found, found[1:]):
            text = line[match.end() : after.start() if after else len(line)]
            try:
                understood = self._record(text, (match[1], match[2], match[3]))
            except (ValueError, OverflowError):
                understood = False
            if not understood:
                self.not_understood += 1
                self.first_not_understood = self.first_not_understood or f"{path.name}:{number}"
        if self._distinct > _MAX_DISTINCT:
            raise InputError("too many different calls", path=path, line=number, hint=_HINT)

    def _record(self, text: str, thread: _Thread) -> bool:
        """Whether the text was understood, or says nothing of interest."""
        if (call := _CALL.match(text)) is not None:
            return self._call(call[1], dict(_ATTRIBUTE.findall(text)), thread)
        if (init := _INIT.search(text)) is not None:
            return self._init(init, text, thread)
        return "opCount" not in text and " nranks " not in text

    def _init(self, init: re.Match[str], text: str, thread: _Thread) -> bool:
        address, rank, ranks = init[1], int(init[2]), int(init[3])
        known = dict(_ATTRIBUTE.findall(text))
        where = (*thread[:2], address)
        if not rank < ranks <= MAX_RANKS:
            return False
        if "Destroy" in text or "Abort" in text:
            self._at.pop(where, None)
            return True
        if "cudaDev" not in known:  # a line between START and COMPLETE, or one of another kind
            if where in self._at and "localRank" in known:
                self._local(self._at[where].process, int(known["localRank"]))
            return True
        view = self._at.get(where)
        name = _common_name(known, self._at.get((*thread[:2], known.get("parent", ""))))
        if not name and view is None:
            return False
        if view is None or (view.rank, view.ranks) != (rank, ranks) or view.id != name != "":
            view = View(self._process(thread, known), rank, ranks, name)
            self._at[where] = view
            self.views.append(view)
            self._distinct += 1
        return True

    def _process(self, thread: _Thread, known: dict[str, str]) -> Process:
        pci = _pci_bus_id(known.get("busId", ""))
        device = int(known["busId"], 16) if pci else int(known["cudaDev"])
        process = Process(thread[0], device, int(thread[1]))
        if process not in self.info:
            self.info[process] = RankInfo(
                rank=0,
                host=process.host,
                pid=process.pid,
                device_pci_bus_id=pci,
                device_ordinal=int(known["cudaDev"]),
            )
        return process

    def _local(self, process: Process, local_rank: int) -> None:
        """Of several communicators the first, that of the world as a rule, is believed."""
        info = self.info[process]
        if info.local_rank is None:
            self.info[process] = replace(info, local_rank=local_rank)

    def _call(self, name: str, known: dict[str, str], thread: _Thread) -> bool:
        size = _call_bytes(known)
        if size is None or "comm" not in known:
            return False
        view = self._at.get((*thread[:2], known["comm"]))
        if view is None:
            self.unknown_communicator += 1
            return True
        root = int(known.get("root", known.get("peer", "-1")))
        operation = OPERATION_OF_CALL.get(name.lower())
        is_message = name in ("Send", "Recv")
        rooted = is_message or operation in ROOTED
        if not (is_message or operation) or (rooted and not 0 <= root < view.ranks):
            return False
        before = len(view.sends) + len(view.receives) + len(view.calls)
        if is_message:
            (view.sends if name == "Send" else view.receives)[root, size] += 1
        elif operation:
            view.calls[Call(operation, size, root if rooted else -1)] += 1
        self._distinct += len(view.sends) + len(view.receives) + len(view.calls) - before
        return True

    def caveats(self) -> list[str]:
        """What this log does not say, and what in it was not understood."""
        notes = list(_CAVEATS)
        if self.unknown_communicator:
            notes.append(
                f"{self.unknown_communicator} calls are on communicators whose INIT line is not in"
                " the log; they are left out"
            )
        if self.not_understood:
            notes.append(
                f"{self.not_understood} lines could not be understood, such as"
                f" {self.first_not_understood}; NCCL's log format is not stable"
            )
        return notes


def _call_bytes(known: dict[str, str]) -> int | None:
    """`count` times the size of the type; None if either is missing or impossible."""
    kind = int(known.get("datatype", "99"))
    if "count" not in known or kind >= len(_SIZE_OF_TYPE):
        return None
    size = int(known["count"]) * _SIZE_OF_TYPE[kind]
    return size if size <= _MAX_CALL_BYTES else None


def _common_name(known: dict[str, str], parent: View | None) -> str:
    """What all members call the communicator, or ""; one that was split off by its parent."""
    if "commId" in known:
        return known["commId"]
    if parent is not None and parent.id and "splitCount" in known and "color" in known:
        return f"{parent.id}/{known['splitCount']}/{known['color']}"
    return ""


def _pci_bus_id(packed: str) -> str | None:
    """`1a000` as the log prints it: the digits of a PCI bus id, leading zeros left out."""
    if not 1 <= len(packed) <= 13 or packed.startswith("0x"):
        return None
    digits = packed.zfill(9)
    domain, bus, device, function = digits[:-5], digits[-5:-3], digits[-3:-1], digits[-1]
    try:
        return canonical_pci(f"{domain}:{bus}:{device}.{function}")
    except ValueError:
        return None
