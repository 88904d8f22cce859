"""Files that the nodes of a job send home: expected names, each once, bounded, whole or not at all.

Nothing that is there is ever replaced.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAX_NAME_BYTES = 128
_LEAST_FREE = 1 << 26  # of the file system, for everybody else


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What a job may send home.

    Attributes:
        name: what the names match; a group `rank` is the rank that a file speaks for.
        ranks: of the job; names with another rank are refused. None where they are not known.
        max_bytes: of one file.
        max_all_bytes: of all together.
        max_files: of one sender.
        by_sender: files are kept as `N-NAME`, where N counts senders: two nodes may send one name.
    """

    name: re.Pattern[str]
    ranks: int | None = None
    max_bytes: int = 1 << 18
    max_all_bytes: int = 1 << 30
    max_files: int = 1 << 16
    by_sender: bool = False


@dataclass
class Arriving:
    """A file that is being received; without `file` it is read and dropped."""

    remaining: int
    name: str
    file: BinaryIO | None = None


class HomeFiles:
    """The folder where files arrive, and what it still takes.

    Args:
        folder: this process's own.
        expected: None takes nothing.
    """

    def __init__(self, folder: Path, expected: Expected | None) -> None:
        self._folder, self._expected = folder, expected
        self._bytes_left = 0 if expected is None else expected.max_all_bytes
        self._count = 0
        self._senders: dict[str, int] = {}
        self._files_of: dict[str, int] = {}

    @property
    def most_bytes(self) -> int:
        """More than this no file has."""
        return 0 if self._expected is None else self._expected.max_bytes

    def rank_of(self, name: bytes) -> int | None:
        """The rank that a file of this name speaks for, None where it speaks for none."""
        match = self._match(name)
        return int(match["rank"]) if match and "rank" in match.groupdict() else None

    def begin(self, name: bytes, length: int, sender: str) -> Arriving:
        """A file of `length` bytes; one that cannot be kept is read to its end, then denied."""
        arriving = Arriving(length, name.decode("ascii", "replace"))
        count = self._files_of.get(sender, 0)
        expected = self._expected
        if expected is None or not self._match(name) or count >= expected.max_files:
            return arriving
        if length > min(self._bytes_left, expected.max_bytes) or not self._has_room(length):
            return arriving
        if expected.by_sender:
            number = self._senders.setdefault(sender, len(self._senders))
            arriving.name = f"{number}-{arriving.name}"
        self._files_of[sender] = count + 1
        self._bytes_left -= length
        self._count += 1
        with suppress(OSError):
            arriving.file = (self._folder / f".bundle-{self._count}").open("xb")
        return arriving

    def _match(self, name: bytes) -> re.Match[str] | None:
        if self._expected is None:
            return None
        match = self._expected.name.fullmatch(name.decode("ascii", "replace"))
        ranks = self._expected.ranks
        if match and ranks is not None and "rank" in match.groupdict():
            return match if int(match["rank"]) < ranks else None
        return match

    def _has_room(self, length: int) -> bool:
        try:
            free = os.statvfs(self._folder)
        except OSError:
            return False
        return length + _LEAST_FREE <= free.f_bavail * free.f_frsize

    def add(self, arriving: Arriving, part: bytes | bytearray) -> None:
        """Write what has come."""
        arriving.remaining -= len(part)
        if arriving.file is not None:
            try:
                arriving.file.write(part)
            except OSError:  # the disk is full
                self.abandon(arriving)

    def finish(self, arriving: Arriving) -> bool:
        """Give a file that is whole its name, if nothing has it; whether it is kept."""
        if arriving.file is None:
            return False
        try:
            arriving.file.close()
            _name(Path(arriving.file.name), self._folder / arriving.name)
        except OSError:
            return False
        finally:
            self.abandon(arriving)
        return True

    @staticmethod
    def abandon(arriving: Arriving) -> None:
        """Remove a file that does not become whole."""
        if arriving.file is not None:
            with suppress(OSError):
                arriving.file.close()
            Path(arriving.file.name).unlink(missing_ok=True)
            arriving.file = None


def _name(file: Path, name: Path) -> None:
    """Give a file a name that nothing else has.

    Raises:
        OSError: something has it.
    """
    try:
        os.link(file, name, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS) or name.exists():
            raise
        file.rename(name)  # a file system without such links
