"""Seats and asks a rank that has no LOCAL_RANK when its Python starts; runs inside the program.

Processes of `torch.multiprocessing.spawn`, forks, Ray's workers and the script that is rank 0 of
Lightning itself learn their rank from `init_process_group`. There toposeat-exec seats a child of
the process, as it would any rank, and what that child has is taken over: the CPUs, for all
threads, the memory policy, and the variables of NICs. The list of devices is not: the program may
have begun with it. What the rank has in the end is told by the rank probe, loaded here.

Only the standard library and torch are used.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

# Its environment, status and memory policy, once it has its seat, and no report of its own end.
_SHOW = ("env", "-u", "LD_PRELOAD", "cat")
_FILES = ("/proc/self/environ", "/proc/self/status", "/proc/self/numa_maps")
_KEPT = re.compile(
    r"TOPOSEAT_.*|LD_PRELOAD|(LOCAL_)?RANK|WORLD_SIZE|CUDA_.*|ROCR_.*|HIP_.*|GPU_.*|ZE_.*"
)
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_POLICIES = {"prefer": 1, "bind": 2}
_MAX_NODES = 1024


def watch(module: Any) -> None:
    """Seat this process, and each fork of it, when it joins a group of torch's `module`."""
    own, end = module.init_process_group, module.destroy_process_group
    ranks: dict[int, _OwnRank] = {}  # by process: forks are ranks of their own

    def this() -> _OwnRank:
        return ranks.setdefault(os.getpid(), _OwnRank())

    @functools.wraps(own)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        _safely(this().take_seat, *_known(args, kwargs))
        made = own(*args, **kwargs)
        _safely(this().take_seat, module.get_rank(), module.get_world_size())
        _safely(this().tell, "init_process_group")
        return made

    @functools.wraps(end)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        _safely(this().tell, "destroy_process_group")
        return end(*args, **kwargs)

    module.init_process_group = init_process_group
    module.destroy_process_group = destroy_process_group


def _safely(do: Callable[..., None], *args: Any) -> None:
    try:
        do(*args)
    except Exception as error:
        sys.stderr.write(f"toposeat: this rank is not seated: {error!r}\n")


def _known(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[int, int]:
    """Rank and size before the processes have met; -1 for what is not told yet."""
    told = []
    for name, at, variable in (("rank", 4, "RANK"), ("world_size", 3, "WORLD_SIZE")):
        value = kwargs.get(name, args[at] if len(args) > at else -1)
        text = os.environ.get(variable, "")
        told.append(int(text) if value == -1 and text.isdecimal() else int(value))
    return told[0], told[1]


class _OwnRank:
    """This process as a rank of the placement."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._tell: Callable[[bytes], None] | None = None

    def take_seat(self, rank: int, size: int) -> None:
        """Become the rank, once, if it is one of the placement's."""
        if rank < 0 or size < 0 or "TOPOSEAT_SEAT" not in os.environ:
            return
        words = json.loads(os.environ["TOPOSEAT_SEAT"])
        local_ranks = _local_ranks(words[words.index("-m") + 1])
        if len(local_ranks) != size or rank not in local_ranks:
            return  # of another group, whose ranks are not those of the placement
        del os.environ["TOPOSEAT_SEAT"]  # what it starts is no rank
        own = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local_ranks[rank]}
        environment = {**os.environ, **{name: str(value) for name, value in own.items()}}
        environment.pop("LOCAL_WORLD_SIZE", None)
        start = [word for word in words if word != "--strict"]  # others wait for it already
        done = subprocess.run(
            [*start, "--", *_SHOW, *_FILES],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL
            if "--report" in words
            else None,  # `run` says it once for all
            check=False,
        )
        variables, _, rest = done.stdout.rpartition(b"\0")
        _take_cpus(rest)
        _take_memory(rest)
        _take_variables(variables)
        if "--report" in words and "--probe" in words:
            folder = words[words.index("--report") + 1]
            _claim(os.path.join(folder, f"rank-{rank}.seat"))  # noqa: PTH118
            os.environ["TOPOSEAT_REPORT_DIR"] = folder
            os.environ["TOPOSEAT_RANK"] = str(rank)
            os.environ["TOPOSEAT_PID"] = str(self._process)
            self._load(words[words.index("--probe") + 1])

    def _load(self, library: str) -> None:
        from multiprocessing import util  # noqa: PLC0415 - torch has imported it

        self._tell = ctypes.CDLL(library).toposeat_probe_tell
        # At the end of a main process and of one of multiprocessing, which runs no atexit.
        util.Finalize(None, self.tell, args=("exit",), exitpriority=0)

    def tell(self, when: str) -> None:
        """Leave word of what the rank has now, in place of what it left before."""
        if self._tell is not None and os.getpid() == self._process:
            self._tell(when.encode())


def _local_ranks(placement: str) -> dict[int, int]:
    """Local rank by rank, of a placement file (`toposeat.model.placement_file`)."""
    found = {}
    with open(placement, encoding="utf-8") as file:  # noqa: PTH123
        for line in file:
            cells = line.split("\t")
            if cells[0].strip().isdecimal():
                found[int(cells[0])] = int(cells[2])
    return found


def _claim(report: str) -> None:
    """Make the report of the child's seat that of this process."""
    own = {"pid": str(os.getpid())}
    lines = []
    with open(report, encoding="utf-8") as file:  # noqa: PTH123
        for line in file.read().splitlines():
            key, tab, value = line.partition("\t")
            if key == "visible_variable":
                own["visible_devices"] = os.environ.get(value, "")
            lines.append(f"{key}{tab}{own.get(key, value)}\n")
    made = f"{report}.{os.getpid()}"
    with open(made, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.writelines(lines)
    os.replace(made, report)  # noqa: PTH105


def _take_cpus(status: bytes) -> None:
    found = re.search(rb"^Cpus_allowed_list:\t(.*)$", status, re.MULTILINE)
    if found is None:
        return
    cpus: set[int] = set()
    for part in found[1].decode().split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208
        with suppress(OSError):  # it has ended, or may use none of them
            os.sched_setaffinity(int(thread), os.sched_getaffinity(int(thread)) & cpus)


def _take_memory(maps: bytes) -> None:
    """That of this thread, and of those that it starts."""
    found = re.search(rb"^[0-9a-f]+ (prefer|bind):(\d+)[ \n]", maps, re.MULTILINE)
    number = _SET_MEMPOLICY.get(platform.machine())
    if found is None or number is None or int(found[2]) >= _MAX_NODES:
        return
    nodes = (ctypes.c_ulong * (_MAX_NODES // 64))()
    nodes[int(found[2]) // 64] = 1 << int(found[2]) % 64
    ctypes.CDLL(None).syscall(
        ctypes.c_long(number),
        ctypes.c_long(_POLICIES[found[1].decode()]),
        ctypes.byref(nodes),
        ctypes.c_ulong(_MAX_NODES),
    )


def _take_variables(variables: bytes) -> None:
    for each in variables.split(b"\0"):
        name, equals, value = os.fsdecode(each).partition("=")
        if equals and not _KEPT.fullmatch(name) and os.environ.get(name) != value:
            os.environ[name] = value
