"""Folders of one job's files, in memory or in the temporary folder, and those of killed jobs.

Each is locked as long as its tool lives; the kernel unlocks it however that ends. Whoever makes the
next one sweeps what is no longer locked: records are kept for a week, all else is removed.
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
KEPT_S = 7 * 86400.0
MEMORY_FOLDER = Path("/dev/shm")
_PREFIX = "toposeat-"


@contextmanager
def job_folder(what: str, *, memory: bool = False, parent: Path | None = None) -> Iterator[Path]:
    """A new folder that exists as long as the block, readable by this user only.

    Args:
        what: a word for its name.
        memory: in memory, where that can be written.
        parent: where other nodes see it, hidden and never swept; default this node's own.
    """
    left_records()
    if parent is None:
        use_memory = memory and os.access(MEMORY_FOLDER, os.W_OK | os.X_OK)
        parent, begin = MEMORY_FOLDER if use_memory else Path(tempfile.gettempdir()), _PREFIX
    else:
        begin = f".{_PREFIX}"
    new = Path(tempfile.mkdtemp(prefix=f".{what}-", dir=parent))  # not swept before it is locked
    lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    folder = parent / f"{begin}{what}-{_boot()}{new.name.removeprefix(f'.{what}')}"
    try:
        _try_lock(lock)
        new.rename(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def left_records() -> list[Path]:
    """Sweep after killed jobs of this user on this node; the folders that hold records."""
    found = []
    for place in {MEMORY_FOLDER, Path(tempfile.gettempdir())}:
        for folder in sorted(place.glob(f"{_PREFIX}*-{_boot()}-*")):
            with suppress(OSError):  # another process was faster
                if _is_abandoned(folder):
                    records = list(folder.glob(f"*{RECORD_SUFFIX}"))
                    last = max((path.stat().st_mtime for path in records), default=0.0)
                    if last < time.time() - KEPT_S:
                        shutil.rmtree(folder)
                    else:
                        found.append(folder)
    return found


def _is_abandoned(folder: Path) -> bool:
    """Whether the tool that made it is dead, and no rank writes into it any more."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            return False
        pids = [path.stem.split("-")[2:3] for path in folder.glob(f"rank-*{RECORD_SUFFIX}")]
        alive = any(pid and pid[0].isdigit() and Path("/proc", pid[0]).exists() for pid in pids)
        return not alive and _try_lock(handle)
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody's, or a file system without locks
        return False
    return True


def _boot() -> str:
    """Eight digits of this start of the machine: after the next one, its locks mean nothing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
    except OSError:
        return "00000000"
