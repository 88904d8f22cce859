"""Files of sysfs, of this machine or saved by somebody: small, regular, and never waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MAX_SMALL_BYTES = 1024 * 1024  # no file that describes a machine is larger


def read_small(path: Path, limit: int = MAX_SMALL_BYTES) -> bytes:
    """The beginning of a file.

    A saved tree may hold anything under the names of sysfs: pipes, which would be waited for, and
    files without end.

    Raises:
        OSError: missing, unreadable, or no regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        return os.read(handle, limit)
    finally:
        os.close(handle)
