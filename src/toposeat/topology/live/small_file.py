"""Reads small files of a live or saved sysfs; only regular ones, so that no read blocks."""

from __future__ import annotations

import os
from pathlib import Path

from toposeat.model.files import open_input

MAX_SMALL_BYTES = 1024 * 1024  # no file that describes a machine is larger


def entries_of(folder: Path) -> list[Path]:
    """The entries of a folder by name; none if it is not a folder or cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def read_small(path: Path, limit: int = MAX_SMALL_BYTES) -> bytes:
    """The beginning of a file.

    A saved tree may hold anything under the names of sysfs: pipes, which would be waited for, and
    files without end.

    Raises:
        OSError: missing, unreadable, or no regular file.
    """
    with open_input(path) as file:
        return os.read(file.fileno(), limit)
