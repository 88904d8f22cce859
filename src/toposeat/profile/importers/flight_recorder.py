"""Traffic from dumps of PyTorch's flight recorder, one file per rank.

PyTorch keeps the last calls of every process group (2 000 by default) and writes them to
`..._RANK` when a job hangs, or when it is asked to (TORCH_NCCL_DUMP_ON_TIMEOUT,
TORCH_NCCL_DEBUG_INFO_TEMP_FILE; torch/csrc/distributed/c10d/FlightRecorder.hpp). A dump is a pickle
of plain data, or the same as JSON. It does not tell roots, or sizes per member; of gloo it has no
messages and no members of groups.

A pickle is a program for a machine that can call anything. Each of its instructions is looked at
before it runs: those of plain data are let through, and any other refuses the file.
"""

from __future__ import annotations

import json
import pickle
import pickletools
import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, Never

from toposeat.errors import InputError
from toposeat.model.files import read_input
from toposeat.model.traffic import Traffic
from toposeat.profile.importers.pytorch_trace import (
    IGNORED,
    TraceCallError,
    bytes_of_type,
    listed_ranks,
    operation_of,
)
from toposeat.profile.importers.pytorch_trace import (
    MAX_BYTES as MAX_CALL,
)
from toposeat.profile.nccl_job import MAX_RANKS, ROOTED
from toposeat.profile.records.torch_job import (
    TorchCalls,
    TorchGroup,
    TorchProcess,
    TorchRecord,
    torch_traffic,
)

MAX_BYTES = 1 << 26
_MAX_MEMO = 1 << 22
_WORDS = """
PROTO FRAME STOP MARK EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST DICT APPEND
APPENDS SETITEM SETITEMS NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE
SHORT_BINUNICODE BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET
"""
_DATA = frozenset(_WORDS.split())


class _NoNames(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Never:
        raise ValueError(f"it names {module}.{name}")


def load_data(data: bytes) -> Any:
    """The object of a pickle.

    Raises:
        ValueError: an instruction that is not plain data, damage, or what follows its end.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    end = -1
    for instruction, argument, position in pickletools.genops(data):
        if instruction.name not in _DATA:
            raise ValueError(f"a pickle with more than data ({instruction.name})")
        if instruction.name == "LONG_BINPUT" and int(argument or 0) > _MAX_MEMO:
            raise ValueError("a pickle with a memo too large")
        end = -1 if position is None else position
    if end + 1 != len(data):
        raise ValueError("something follows the pickle")
    try:
        return _NoNames(BytesIO(data)).load()
    except (pickle.UnpicklingError, AttributeError, TypeError, LookupError, EOFError) as error:
        raise ValueError(f"a damaged pickle: {error}") from error


_HINT = "give the files that PyTorch wrote, ..._RANK for each rank"
_RANK = re.compile(r"(\d{1,7})(?:\.\w+)?$", re.ASCII)
_MESSAGE = re.compile(r"(send|recv) (\d{1,7})(?:->|<-)(\d{1,7})", re.ASCII)
_DEFAULT = "default_pg"


def read_flight_records(paths: Iterable[Path]) -> Traffic:
    """Read the dumps of one job."""
    dumps = [_Dump(path) for path in paths]
    world = max(max(dump.highest, dump.rank) for dump in dumps) + 1
    members = _members(dumps, world)
    records = [dump.record(world, members) for dump in dumps]
    if not any(record.calls for record in records):
        raise InputError("no call of it says what it sends", path=dumps[0].path, hint=_HINT)
    return torch_traffic(
        records,
        origin=f"PyTorch flight recorder of {len(dumps)} of {world} ranks",
        notes=_notes(dumps, {calls.operation for record in records for calls in record.calls}),
    )


def _notes(dumps: Sequence[_Dump], operations: Set[str]) -> list[str]:
    """What dumps do not tell."""
    unknown = sum((dump.unknown for dump in dumps), Counter[str]())
    words = "; ".join(f"{what} ({count})" for what, count in unknown.most_common(4))
    notes = (
        ("the last calls that PyTorch kept of each rank, not the whole run", True),
        ("roots are not stated: the first member of a group is taken", operations & ROOTED),
        (
            "sizes per member are not stated: all-to-alls are taken as even",
            "alltoall" in operations,
        ),
        (
            "messages of gloo are not in it, members of a group are those that call it, and"
            " reduce-scatter is shown as all-reduce",
            any(dump.is_gloo for dump in dumps),
        ),
        (f"{unknown.total()} calls were not understood: {words}", unknown),
    )
    return [text for text, holds in notes if holds]


class _Dump:
    """What one file says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unknown: Counter[str] = Counter()
        self.is_gloo = False
        named = _RANK.search(path.name)
        if named is None or int(named[1]) >= MAX_RANKS:
            raise InputError("its name does not end with a rank", path=path, hint=_HINT)
        self.rank = int(named[1])
        data = read_input(path, MAX_BYTES)
        try:
            dump = load_data(data) if data[:1] == b"\x80" else json.loads(data)
            self.entries = _list_of_dicts(dump, "entries")
            config = dump.get("pg_config")
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"no flight recorder dump: {str(error)[:100]}", path=path, hint=_HINT
            ) from error
        self.told: dict[str, tuple[int, ...]] = {}
        for name, group in config.items() if isinstance(config, dict) else ():
            ranks = listed_ranks(str(group.get("ranks"))) if isinstance(group, dict) else None
            if ranks and len(set(ranks)) == len(ranks) and max(ranks) < MAX_RANKS:
                self.told[str(name)] = ranks
        self.highest = max((max(ranks) for ranks in self.told.values()), default=0)

    @property
    def groups(self) -> dict[str, str]:
        """Names of the groups that are called, with what they are for."""
        found = {}
        for entry in self.entries:
            group = entry.get("process_group")
            if isinstance(group, (list, tuple)) and len(group) == 2:
                found[str(group[0])] = str(group[1])
        return found

    def record(self, world: int, members: dict[str, tuple[int, ...]]) -> TorchRecord:
        """The calls, as the recorder of `profile` has them."""
        counts: Counter[tuple[str, str, str, int, int]] = Counter()
        for entry in self.entries:
            try:
                counts[self._call(entry, members)] += 1
            except TraceCallError as error:
                if str(error):
                    self.unknown[str(error)] += 1
        names = self.groups
        record = TorchRecord(self.path, TorchProcess(world=world, rank=self.rank), ended=True)
        number_of = {
            name: number for number, name in enumerate(dict.fromkeys(c[0] for c in counts))
        }
        for name, number in number_of.items():
            label = names[name] if names[name] not in ("", "undefined") else name
            record.groups.append(TorchGroup(number, label[:80], members[name]))
        for (group, backend, operation, other, size), calls in counts.items():
            record.calls.append(
                TorchCalls(
                    group=number_of[group],
                    operation=operation,
                    other=other,
                    device="cuda" if backend == "nccl" else "cpu",
                    backend=backend,
                    calls=calls,
                    bytes=size * calls,
                    # The sizes of other members may differ.
                    size=-1 if operation == "alltoall" else size,
                )
            )
        return record

    def _call(
        self, entry: dict[str, Any], members: dict[str, tuple[int, ...]]
    ) -> tuple[str, str, str, int, int]:
        """Group, backend, operation, root or peer, and bytes of one entry."""
        backend, _, name = str(entry.get("profiling_name")).partition(":")
        self.is_gloo |= backend == "gloo"
        pair = entry.get("process_group")
        group = str(pair[0]) if isinstance(pair, (list, tuple)) and pair else ""
        ranks = members.get(group, ())
        if self.rank not in ranks:
            raise TraceCallError("calls of a group without known members")
        message = _MESSAGE.fullmatch(name)
        if message is not None:
            peer = int(message[3])
            if peer >= len(ranks):
                raise TraceCallError(f"{message[1]} to a member that is not there")
            return group, backend, message[1], peer, _bytes(entry, "input")
        if name.replace("_", "").lower() in IGNORED:
            raise TraceCallError("")
        operation = operation_of(name)
        gets = operation in ("reduce_scatter_block", "scatter")
        size = _bytes(entry, "output" if gets else "input")
        return group, backend, operation, 0 if operation in ROOTED else -1, size


def _members(dumps: Sequence[_Dump], world: int) -> dict[str, tuple[int, ...]]:
    """World ranks of every group: those told, else all for the default one, else who calls it."""
    told: dict[str, tuple[int, ...]] = {}
    callers: dict[str, list[int]] = {}
    for dump in sorted(dumps, key=lambda dump: dump.rank):
        told |= dump.told
        for name, purpose in dump.groups.items():
            callers.setdefault(name, []).append(dump.rank)
            if purpose == _DEFAULT:
                told.setdefault(name, tuple(range(world)))
    return {**{name: tuple(dict.fromkeys(ranks)) for name, ranks in callers.items()}, **told}


def _list_of_dicts(dump: Any, name: str) -> list[dict[str, Any]]:
    found = dump.get(name) if isinstance(dump, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError(f"it has no {name}")
    return found


def _bytes(entry: dict[str, Any], side: str) -> int:
    """Bytes of the tensors of one side, from their sizes and types."""
    sizes, types = entry.get(f"{side}_sizes"), entry.get(f"{side}_dtypes")
    if not isinstance(sizes, list) or not isinstance(types, list) or len(sizes) != len(types):
        raise TraceCallError("calls without sizes")
    total = 0
    for size, kind in zip(sizes, types, strict=True):
        counts = size if isinstance(size, list) and len(size) <= 64 else [-1]
        if not all(isinstance(each, int) and 0 <= each < MAX_CALL for each in counts):
            raise TraceCallError("calls without sizes")
        total += prod(counts) * bytes_of_type(str(kind))
    if total > MAX_CALL:
        raise TraceCallError("calls larger than there can be")
    return total
