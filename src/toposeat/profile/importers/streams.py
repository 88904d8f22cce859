"""Other tools' files, plain or gzip: by line, or whole where they are not too large."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from toposeat.errors import InputError
from toposeat.model.files import open_input, unreadable

GZIP_MAGIC = b"\x1f\x8b"
MAX_STREAM_BYTES = 8 * 2**30  # of a file when unpacked
MAX_LINE_BYTES = 1 << 16
_PIECE = 1 << 20


@contextmanager
def open_stream(path: Path) -> Iterator[IO[bytes]]:
    """The content of a file, unpacked if it is gzip."""
    try:
        with open_input(path) as raw:
            packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            if packed:
                with gzip.open(raw) as unpacked:
                    yield cast("IO[bytes]", unpacked)
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"damaged gzip data: {error}", path=path, hint="copy it again") from error
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def beginning(path: Path, length: int) -> bytes:
    """The first bytes of a file, unpacked if it is gzip; b"" if it cannot be read."""
    try:
        with open_stream(path) as stream:
            return stream.read(length)
    except InputError:
        return b""


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines; long ones (`MAX_LINE_BYTES`) are cut, bytes that are no text replaced."""
    total = 0
    with open_stream(path) as stream:
        number, begun = 0, False
        while line := stream.readline(MAX_LINE_BYTES):
            total += len(line)
            check_size(total, path)
            if not begun:
                number += 1
                yield number, line.decode("utf-8", "replace").rstrip("\r\n")
            begun = not line.endswith(b"\n")  # the rest of a long line follows: leave it out


def check_size(total: int, path: Path, most: int = MAX_STREAM_BYTES) -> None:
    """Refuse what unpacks to more than anybody waits for."""
    if total > most:
        raise InputError(
            f"more than {most // 2**30} GiB of text",
            path=path,
            hint="record fewer steps, or cut the file",
        )


def content_of(path: Path, most: int) -> bytearray:
    """All of a file, unpacked, if it is no longer than `most` bytes."""
    data = bytearray()
    with open_stream(path) as stream:
        while piece := stream.read(_PIECE):
            data += piece
            check_size(len(data), path, most)
    return data
