"""Reads small files of a live or saved sysfs; only regular ones, so that no read blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from toposeat.model.input_file import open_input

MAX_SMALL_BYTES = 1024 * 1024  # no file that describes a machine is larger


class TreePath(Protocol):
    """A place in a tree of small files: a `Path`, or one in an archive that is not unpacked.

    Methods do and raise what those of `Path` do.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def parts(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def parent(self) -> Self: ...  # noqa: D102
    @property
    def parents(self) -> Sequence[Self]: ...  # noqa: D102
    def __truediv__(self, name: str, /) -> Self: ...
    def __lt__(self, other: Any, /) -> bool: ...
    def resolve(self) -> Self: ...  # noqa: D102
    def is_symlink(self) -> bool: ...  # noqa: D102
    def is_dir(self) -> bool: ...  # noqa: D102
    def is_file(self) -> bool: ...  # noqa: D102
    def exists(self) -> bool: ...  # noqa: D102
    def iterdir(self) -> Iterator[Self]: ...  # noqa: D102
    def read_bytes(self) -> bytes: ...  # noqa: D102


def entries_of(folder: TreePath) -> list[TreePath]:
    """The entries of a folder by name; none if it is not a folder or cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def read_small(path: TreePath, limit: int = MAX_SMALL_BYTES) -> bytes:
    """The beginning of a file.

    A saved tree may hold anything under the names of sysfs: pipes, which would be waited for, and
    files without end.

    Raises:
        OSError: missing, unreadable, or no regular file.
    """
    if not isinstance(path, Path):  # it is in memory, and its size was limited when it was read
        return path.read_bytes()[:limit]
    with open_input(path) as file:
        return os.read(file.fileno(), limit)
