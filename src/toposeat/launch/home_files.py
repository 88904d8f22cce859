"""Files that the nodes of a job send home: bounded, with plain names, whole or not at all."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAX_FILES_BYTES = 1 << 36
MAX_NAME_BYTES = 128
_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass
class Arriving:
    """A file that is being received; without `file` it is read and dropped."""

    remaining: int
    name: bytes
    file: BinaryIO | None = None


class HomeFiles:
    """The folder where files arrive, and how many bytes it still takes."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._bytes_left, self._count = folder, max_bytes, 0

    def begin(self, name: bytes, length: int) -> Arriving:
        """A file of `length` bytes; one that cannot be kept is read to its end, then denied."""
        arriving = Arriving(length, name)
        if _NAME.fullmatch(name) and length <= self._bytes_left:
            self._bytes_left -= length
            self._count += 1
            with suppress(OSError):
                arriving.file = (self._folder / f".bundle-{self._count}").open("xb")
        return arriving

    def add(self, arriving: Arriving, part: bytes | bytearray) -> None:
        """Write what has come."""
        arriving.remaining -= len(part)
        if arriving.file is not None:
            try:
                arriving.file.write(part)
            except OSError:  # the disk is full
                self.abandon(arriving)

    def finish(self, arriving: Arriving) -> bool:
        """Give a file that is whole its name; whether it is kept."""
        if arriving.file is None:
            return False
        try:
            arriving.file.close()
            Path(arriving.file.name).rename(self._folder / arriving.name.decode("ascii"))
        except OSError:
            self.abandon(arriving)
            return False
        return True

    @staticmethod
    def abandon(arriving: Arriving) -> None:
        """Remove a file that does not become whole."""
        if arriving.file is not None:
            with suppress(OSError):
                arriving.file.close()
            Path(arriving.file.name).unlink(missing_ok=True)
            arriving.file = None

    def write(self, name: str, data: bytes) -> None:
        """A small file of this process's own name."""
        with suppress(OSError):  # the disk is full: verification says that the report is missing
            temporary = self._folder / f".{name}"
            temporary.write_bytes(data)
            temporary.rename(self._folder / name)
