"""Folders for the files of one job, and the removal of those that killed jobs left.

The process that makes a folder holds a lock on it, which the kernel drops however the process ends.
The next one to make a folder removes those that nobody locks, but keeps records for a week.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RECORD_SUFFIX = ".tpsrec"
TORCH_SUFFIX = ".tpstorch"
KEPT_S = 7 * 86400.0
MEMORY_FOLDER = Path("/dev/shm")
_PREFIX = "toposeat-"


@contextmanager
def job_folder(what: str, *, memory: bool = False, parent: Path | None = None) -> Iterator[Path]:
    """Make a folder for this user only, and remove it when the block ends.

    Args:
        what: a word for its name.
        memory: in memory (`/dev/shm`), if that can be written.
        parent: a folder that other nodes see; the new one is hidden there and no other process
            removes it. Default: memory or the temporary folder of this node.
    """
    left_records()
    if parent is None:
        use_memory = memory and os.access(MEMORY_FOLDER, os.W_OK | os.X_OK)
        parent, begin = MEMORY_FOLDER if use_memory else Path(tempfile.gettempdir()), _PREFIX
    else:
        begin = f".{_PREFIX}"
    new = Path(
        tempfile.mkdtemp(prefix=f".{what}-", dir=parent)
    )  # a name that no sweep matches before it is locked
    lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    folder = parent / f"{begin}{what}-{_boot()}{new.name.removeprefix(f'.{what}')}"
    try:
        _try_lock(lock)
        new.rename(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def keep_records(folder: Path) -> Path:
    """Take a job's folder away from the block that made it: it stays as one that was left.

    Returns:
        Its new path.
    """
    kept = folder.with_name(f"{_PREFIX}kept-{_boot()}-{folder.name.rpartition('-')[2]}")
    return folder.rename(kept)


def left_records() -> list[Path]:
    """Remove what killed jobs of this user left on this node; return folders with records."""
    found = []
    for place in {MEMORY_FOLDER, Path(tempfile.gettempdir())}:
        for folder in sorted(place.glob(f"{_PREFIX}*-{_boot()}-*")):
            with suppress(OSError):  # another process was faster
                if _is_abandoned(folder):
                    suffixes = (RECORD_SUFFIX, TORCH_SUFFIX)
                    records = [path for each in suffixes for path in folder.glob(f"*{each}")]
                    last = max((path.stat().st_mtime for path in records), default=0.0)
                    if last < time.time() - KEPT_S:
                        shutil.rmtree(folder)
                    else:
                        found.append(folder)
    return found


def _is_abandoned(folder: Path) -> bool:
    """Whether the process that made a folder has ended, and no rank writes into it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            return False
        pids = [path.stem.split("-")[2:3] for path in folder.glob("rank-*")]
        alive = any(pid and pid[0].isdigit() and Path("/proc", pid[0]).exists() for pid in pids)
        return not alive and _try_lock(handle)
    finally:
        os.close(handle)


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
