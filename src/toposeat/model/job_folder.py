"""Folders for the files of one job, and the removal of those that killed jobs left.

The process that makes a folder holds a lock on it, which the kernel drops however the process ends.
The next one to make a folder removes those that nobody locks, but keeps records for a week. The
week begins when the folder is first found, and is told by the clock of the boot that the folder's
name has: no clock that somebody sets makes records old.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toposeat.model.trust import make_mark, own_folder

RECORD_SUFFIX = ".tpsrec"
TORCH_SUFFIX = ".tpstorch"
KEPT_S = 7 * 86400.0
MEMORY_FOLDER = Path("/dev/shm")
_PREFIX = "toposeat-"
_FOUND = re.compile(r"\.found-(\d+)")  # seconds of the boot


@contextmanager
def job_folder(what: str, *, memory: bool = False, parent: Path | None = None) -> Iterator[Path]:
    """Make a folder for this user only, and remove it when the block ends.

    Args:
        what: a word for its name.
        memory: in memory (`/dev/shm`), if that can be written.
        parent: a folder that other nodes see; the new one is hidden there and no other process
            removes it. Default: memory or the temporary folder of this node.
    """
    sweep()
    if parent is None:
        use_memory = memory and os.access(MEMORY_FOLDER, os.W_OK | os.X_OK)
        parent, begin = MEMORY_FOLDER if use_memory else Path(tempfile.gettempdir()), _PREFIX
    else:
        begin = f".{_PREFIX}"
    new = Path(
        tempfile.mkdtemp(prefix=f".{what}-", dir=parent)
    )  # a name that no sweep matches before it is locked
    lock = own_folder(new)
    folder = parent / f"{begin}{what}-{_boot()}{new.name.removeprefix(f'.{what}')}"
    try:
        _try_lock(lock)
        new.rename(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def live_folders(what: str, parent: Path) -> list[Path]:
    """The folders of jobs that still run, by what `job_folder` was told; others are removed."""
    live = []
    for folder in parent.glob(f".{_PREFIX}{what}-*"):
        with suppress(OSError):  # another process was faster
            handle = own_folder(folder)
            try:
                if _try_lock(handle):
                    shutil.rmtree(folder)
                else:
                    live.append(folder)
            finally:
                os.close(handle)
    return live


def keep_records(folder: Path) -> Path:
    """Take a job's folder away from the block that made it: it stays as one that was left.

    Returns:
        Its new path.
    """
    kept = folder.with_name(f"{_PREFIX}kept-{_boot()}-{folder.name.rpartition('-')[2]}")
    return folder.rename(kept)


def sweep() -> None:
    """Remove what killed jobs of this user left on this node, records after a week."""
    for place in {MEMORY_FOLDER, Path(tempfile.gettempdir())}:
        for folder in place.glob(f"{_PREFIX}*-{_boot()}-*"):
            with suppress(OSError):  # somebody else's, or another process was faster
                handle = own_folder(folder)
                try:
                    if _is_of_no_use(handle):
                        shutil.rmtree(folder)
                finally:
                    os.close(handle)


def _is_of_no_use(handle: int) -> bool:
    """Whether an own folder is abandoned, and has no records that are to be kept."""
    names = os.listdir(handle)
    has_records = any(name.endswith((RECORD_SUFFIX, TORCH_SUFFIX)) for name in names)
    return _is_abandoned(names, handle) and not (has_records and _age_s(names, handle) < KEPT_S)


def _is_abandoned(names: list[str], handle: int) -> bool:
    """Whether the process that made a folder has ended, and no rank writes into it."""
    pids = [Path(name).stem.split("-")[2:3] for name in names if name.startswith("rank-")]
    alive = any(pid and pid[0].isdigit() and Path("/proc", pid[0]).exists() for pid in pids)
    return not alive and _try_lock(handle)


def _age_s(names: list[str], handle: int) -> float:
    """Seconds since the folder was found for the first time; a mark in it tells."""
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME))
    marks = [int(mark[1]) for mark in map(_FOUND.fullmatch, names) if mark]
    if not marks:
        with suppress(OSError):  # a full disk: the next one to look makes it
            os.close(make_mark(handle, f".found-{now}"))
    return now - min(marks, default=now)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked by a process, or a file system without locks
        return False
    return True


def _boot() -> str:
    """Eight digits of the boot id, which tell folders of an earlier boot apart."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
    except OSError:
        return "00000000"
