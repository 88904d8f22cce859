"""Counts what a process sends with `torch.distributed`; runs inside the user's program.

Every collective and message of a process group, whether Python or C++ (the reducer of DDP) asks
for it, passes an operator of PyTorch's dispatcher, `c10d::allreduce_` and the like. A kernel is
added to each at the key `BackendSelect`, which none of them uses: it counts, and passes the call on
unchanged.

The record of a process is one file, laid out as `torch_job.py` reads it: a header, a table of
counts that is mapped into memory, so that what was counted survives a SIGKILL, and behind it lines
of JSON that say what the rows of the table count. Only the standard library and torch are used.
"""

from __future__ import annotations

import atexit
import functools
import json
import mmap
import os
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

MAGIC = b"toposeat torch record 1\n"
HEADER_BYTES = 4096
ROWS = 1 << 14  # of the table; row 0 counts calls that could not be told
TABLE_BYTES = 16 * ROWS  # a row: calls and bytes, 64 bits each
SIZED_ROWS = ROWS // 2  # beyond so many, calls of all sizes share a row

# Operation, bytes, root or peer (positions in the group, or -1). The bytes are this rank's own
# contribution; of reduce-scatter and scatter, the block that it gets.
Share = tuple[str, int, int]


class _Group:
    """A process group, and the rows of its calls."""

    def __init__(self, number: int, members: Sequence[int]) -> None:
        self.number = number
        self.members = members
        self.rows: dict[Any, int] = {}
        self.backends: dict[str, str] = {}


class _File:
    """The record on disk."""

    def __init__(self, folder: str, rank: int) -> None:
        path = os.path.join(folder, f"rank-{rank}-{os.getpid()}.tpstorch")  # noqa: PTH118
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._handle = os.open(path, flags, 0o600)
        # Room that is not there would be a SIGBUS later.
        os.posix_fallocate(self._handle, 0, HEADER_BYTES + TABLE_BYTES)
        self._memory = mmap.mmap(self._handle, HEADER_BYTES + TABLE_BYTES)
        self._memory[: len(MAGIC)] = MAGIC
        self.table = memoryview(self._memory)[HEADER_BYTES:].cast("Q")

    def line(self, **values: Any) -> None:
        os.write(self._handle, json.dumps(values, separators=(",", ":")).encode() + b"\n")


class Recorder:
    """The calls of this process."""

    def __init__(self, module: Any) -> None:
        self._module = module  # torch.distributed.distributed_c10d
        self._lock = threading.RLock()  # a signal's handler may call, too
        self._file: _File | None = None
        self._dead = False
        self._rows = 1
        self._group_of: dict[int, _Group] = {}  # by the identity of a process group that lives
        self._watched: dict[int, Any] = {}
        self._groups: dict[tuple[str, tuple[int, ...]], _Group] = {}
        self._devices: set[Any] = set()
        self._library: Any = None

    def install(self) -> None:
        """Add the kernels; torch must have been imported to its end."""
        import torch  # noqa: PLC0415

        if self._library is not None or self._dead:
            return
        self._unbox = self._module.ProcessGroup.unbox
        self._library = torch.library.Library("c10d", "IMPL")
        for name, (place, shares) in _OPERATORS.items():
            operator = getattr(torch.ops.c10d, name, None)
            if operator is not None:
                kernel = self._kernel(torch, operator.default, place, shares)
                self._library.impl(name, kernel, "BackendSelect", with_keyset=True)
        os.register_at_fork(after_in_child=self._end)
        atexit.register(self._say_end)

    def open(self) -> None:
        """Start the record, as soon as the rank is known."""
        with self._lock:
            if self._file is None and not self._dead:
                self._open()

    def _open(self) -> None:
        import torch  # noqa: PLC0415

        rank, world = self._module.get_rank(), self._module.get_world_size()
        self._file = _File(os.environ["TOPOSEAT_PROFILE_DIR"], rank)
        self._table = self._file.table
        self._file.line(
            rank=rank,
            world=world,
            pid=os.getpid(),
            host=socket.gethostname(),
            library="nccl" if getattr(torch.version, "hip", None) is None else "rccl",
            local_rank=_number("LOCAL_RANK"),
            restart=_number("TORCHELASTIC_RESTART_COUNT"),
        )

    def _kernel(
        self, torch: Any, operator: Any, place: int, shares: Callable[..., Any]
    ) -> Callable[..., Any]:
        key = torch._C.DispatchKey.BackendSelect
        after = torch._C._dispatch_keyset_full_after(key)
        # What `redispatch` itself calls, where it does.
        handle = getattr(operator, "_handle", None)
        redispatch = getattr(handle, "redispatch_boxed", operator.redispatch)
        count = self._counter(place, shares)

        def kernel(keys: Any, *args: Any) -> Any:
            if not self._dead:
                try:
                    count(args)
                except Exception as error:
                    self._lose(error)
            return redispatch(keys & after, *args)

        return kernel

    def _counter(self, place: int, shares: Callable[..., Any]) -> Callable[[Any], None]:
        """What counts a call; most are like an earlier one, and are counted with few steps."""
        unbox, groups = self._unbox, self._group_of
        simple = shares if isinstance(shares, _Simple) else None

        def count(args: Any) -> None:
            if simple is None:
                return self._note(args[place], shares(*args))
            tensors = args[simple.sent]
            tensor = tensors
            if isinstance(tensors, list):
                if len(tensors) != 1 or isinstance(tensors[0], list):
                    return self._note(args[place], simple(*args))
                tensor = tensors[0]
            group = groups.get(id(unbox(args[place])))
            if group is None:
                return self._note(args[place], simple(*args))
            size, other = tensor.nbytes, args[simple.root] if simple.root >= 0 else -1
            row = group.rows.get((simple.operation, size, other, tensor.dtype, tensor.device))
            if row is None:
                return self._note(args[place], simple(*args))
            self._add(row, size)
            return None

        return count

    def _note(self, boxed: Any, called: tuple[Any, Sequence[Share]]) -> None:
        process_group = self._unbox(boxed)
        with self._lock:
            if self._file is None:
                self._open()
            group = self._group(process_group)
            tensor, shares = called
            dtype, device = tensor.dtype, tensor.device
            for operation, size, other in shares:
                shown = size if operation != "alltoallv" else -1
                key = (operation, shown, other, dtype, device)
                row = group.rows.get(key)
                if row is None:
                    row = self._row(process_group, group, key)
                self._add(row, size)

    def _add(self, row: int, size: int) -> None:
        """One more call."""
        with self._lock:
            self._table[2 * row] += 1
            self._table[2 * row + 1] += size

    def _group(self, process_group: Any) -> _Group:
        key = id(process_group)
        found = self._group_of.get(key)
        if found is None:
            members = tuple(self._module.get_process_group_ranks(process_group))
            name = process_group.group_name
            found = self._groups.get((name, members))
            if found is None:
                found = _Group(len(self._groups), members)
                self._groups[name, members] = found
                self._file.line(  # type: ignore[union-attr]
                    group=found.number,
                    name=getattr(process_group, "group_desc", "") or name,
                    members=members,
                )
            # Another one may get the identity of one that has gone.
            forget = functools.partial(self._forget, key)
            self._watched[key] = weakref.ref(process_group, forget)
            self._group_of[key] = found
        return found

    def _forget(self, key: int, _gone: Any) -> None:
        self._group_of.pop(key, None)

    def _row(self, process_group: Any, group: _Group, key: tuple[Any, ...]) -> int:
        """The row of calls of a new kind."""
        operation, size, other, dtype, device = key
        if self._rows >= SIZED_ROWS:
            size = -1
            found = group.rows.get((operation, size, other, dtype, device))
            if found is not None:
                return found
        if self._rows >= ROWS:
            return 0
        row = self._rows
        self._rows += 1
        self._say_device(device)
        self._file.line(  # type: ignore[union-attr]
            row=row,
            group=group.number,
            operation=operation,
            size=size,
            other=other,
            type=str(dtype).rpartition(".")[2],
            device=device.type,
            index=device.index,
            backend=self._backend(process_group, group, device),
        )
        group.rows[operation, size, other, dtype, device] = row
        return row

    def _backend(self, process_group: Any, group: _Group, device: Any) -> str:
        name = group.backends.get(device.type)
        if name is None:
            try:
                name = str(process_group._get_backend(device).name())
            except Exception:  # a backend written in Python
                name = str(self._module.get_backend(process_group))
            group.backends[device.type] = name
        return name

    def _say_device(self, device: Any) -> None:
        """What is known of a device when it is met first."""
        if device.type != "cuda" or device in self._devices:
            return
        import torch  # noqa: PLC0415

        self._devices.add(device)
        about = torch.cuda.get_device_properties(device)
        numbers = [getattr(about, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
        known = all(isinstance(number, int) for number in numbers)
        pci = "{:04x}:{:02x}:{:02x}.0".format(*numbers) if known else None  # type: ignore[str-format]
        self._file.line(  # type: ignore[union-attr]
            device=device.index,
            visible=torch.cuda.device_count(),
            pci=pci,
        )

    def _lose(self, error: Exception) -> None:
        """Count a call that cannot be told; without a file there is nothing more to do."""
        with self._lock:
            if self._file is not None:
                self._table[0] += 1
            else:
                self._dead = True
                tell(error)

    def _end(self) -> None:
        self._dead = True

    def _say_end(self) -> None:
        if self._file is not None and not self._dead:
            self._file.line(end=True)


def tell(error: Exception) -> None:
    """Why nothing is recorded; the program goes on."""
    words = f"toposeat: torch.distributed is not recorded here: {error!r}\n"
    sys.stderr.write(words)


def watch(module: Any) -> None:
    """Record from the first `init_process_group` of a program on."""
    recorder = Recorder(module)
    own = module.init_process_group

    @functools.wraps(own)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        try:
            recorder.install()
        except Exception as error:
            recorder._dead = True
            tell(error)
        made = own(*args, **kwargs)
        try:
            recorder.open()
        except Exception as error:
            recorder._dead = True
            tell(error)
        return made

    module.init_process_group = init_process_group


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else None


def _bytes(tensors: Any) -> int:
    """Bytes of tensors in lists, or in lists of lists."""
    if isinstance(tensors, (list, tuple)):
        return sum(map(_bytes, tensors))
    return int(tensors.nbytes)


def _first(tensors: Any) -> Any:
    while isinstance(tensors, (list, tuple)):
        tensors = tensors[0]
    return tensors


class _Simple:
    """A call whose size is that of one argument; `root` is the place of its root or peer."""

    def __init__(self, operation: str, sent: int, root: int = -1) -> None:
        self.operation = operation
        self.sent = sent
        self.root = root

    def __call__(self, *args: Any) -> tuple[Any, Sequence[Share]]:
        tensors = args[self.sent]
        other = args[self.root] if self.root >= 0 else -1
        return _first(tensors), ((self.operation, _bytes(tensors), other),)


def _of_lists(operation: str, uneven: str, own: int, parts: int) -> Callable[..., Any]:
    """An all-gather or reduce-scatter with a list of parts.

    Parts of several sizes are moved by one rooted operation per member, as ProcessGroupNCCL does.
    """

    def shares(*args: Any) -> tuple[Any, Sequence[Share]]:
        tensors = args[own]
        sizes = [part.nbytes for part in args[parts][0]] if len(args[parts]) == 1 else []
        if len(set(sizes)) > 1:
            return _first(tensors), [(uneven, size, at) for at, size in enumerate(sizes)]
        return _first(tensors), ((operation, _bytes(tensors), -1),)

    return shares


def _exchange(sizes: Sequence[int]) -> Sequence[Share]:
    """An all-to-all by its bytes to each member."""
    if len(set(sizes)) == 1:
        return (("alltoall", sum(sizes), -1),)
    return [("alltoallv", size, at) for at, size in enumerate(sizes)]


def _alltoall(*args: Any) -> tuple[Any, Sequence[Share]]:
    return _first(args[1]), _exchange([part.nbytes for part in args[1]])


def _alltoall_base(*args: Any) -> tuple[Any, Sequence[Share]]:
    given, splits = args[1], args[4]
    if splits:
        rows = given.shape[0]
        return given, _exchange([given.nbytes * part // rows if rows else 0 for part in splits])
    return given, (("alltoall", given.nbytes, -1),)


def _barrier(*args: Any) -> tuple[Any, Sequence[Share]]:
    return args[0], (("barrier", 0, -1),)


# Operator: the place of its process group, and what it moves.
_OPERATORS: dict[str, tuple[int, Callable[..., Any]]] = {
    "allreduce_": (1, _Simple("allreduce", 0)),
    "allreduce_coalesced_": (1, _Simple("allreduce", 0)),
    "broadcast_": (1, _Simple("bcast", 0, 2)),
    "reduce_": (1, _Simple("reduce", 0, 3)),
    "allgather_": (2, _of_lists("allgather", "bcast", 1, 0)),
    "_allgather_base_": (2, _Simple("allgather", 1)),
    "allgather_coalesced_": (2, _Simple("allgather", 1)),
    "allgather_into_tensor_coalesced_": (2, _Simple("allgather", 1)),
    "reduce_scatter_": (2, _of_lists("reduce_scatter_block", "reduce", 0, 1)),
    "_reduce_scatter_base_": (2, _Simple("reduce_scatter_block", 0)),
    "reduce_scatter_tensor_coalesced_": (2, _Simple("reduce_scatter_block", 0)),
    "alltoall_": (2, _alltoall),
    "alltoall_base_": (2, _alltoall_base),
    "gather_": (2, _Simple("gather", 1, 3)),
    "scatter_": (2, _Simple("scatter", 0, 3)),
    "send": (1, _Simple("send", 0, 2)),
    "recv_": (1, _Simple("recv", 0, 2)),
    "barrier": (1, _barrier),
    "monitored_barrier_": (1, _barrier),
}
