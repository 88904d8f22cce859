"""Open the files that a user names, with limits on their kind, size and time.

A regular file is read up to a limit. A pipe is read once, up to the same limit, and for a limited
time. Folders, devices and sockets are refused, and so are pipes where a file must be read twice.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from toposeat.errors import InputError

MAX_INPUT_BYTES = 1 << 30  # of what is read whole
MAX_SILENCE_S = 30.0  # of a pipe
MAX_PIPE_S = 600.0  # until a pipe ends
_PIECE = 1 << 20
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder, not a file"),
    (stat.S_ISCHR, "a device, not a file"),
    (stat.S_ISBLK, "a device, not a file"),
    (stat.S_ISSOCK, "a socket, not a file"),
    (stat.S_ISFIFO, "a pipe, and this must be a regular file"),
)


def open_input(path: str | Path, *, pipes: bool = False) -> BinaryIO:
    """Open a regular file, or with `pipes` a pipe, for reading without blocking.

    Raises:
        OSError: missing, unreadable, or of another kind; its `strerror` says so.
        ValueError: a name that no file can have.
    """
    _check_kind(os.stat(path).st_mode, pipes)  # opening a device may do something to it  # noqa: PTH116
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        _check_kind(os.fstat(handle).st_mode, pipes)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _check_kind(mode: int, pipes: bool) -> None:
    for is_kind, words in _KINDS:
        if is_kind(mode) and not (pipes and stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, words)


def read_input(path: str | Path, limit: int | None = None) -> bytes:
    """All bytes of a regular file or a pipe.

    Args:
        path: of the file, which is opened only once.
        limit: most bytes; None for `MAX_INPUT_BYTES`.

    Raises:
        InputError: see `open_input`; larger than the limit, or a pipe that is silent for
            `MAX_SILENCE_S` or does not end within `MAX_PIPE_S`.
    """
    limit = MAX_INPUT_BYTES if limit is None else limit
    try:
        with open_input(path, pipes=True) as file:
            status = os.fstat(file.fileno())
            if stat.S_ISFIFO(status.st_mode):
                data = _read_pipe(file.fileno(), limit)
            else:
                data = b"" if status.st_size > limit else file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if max(status.st_size, len(data)) > limit:
        raise InputError(
            f"larger than {max(limit >> 20, 1)} MiB: too large to be what it should be",
            path=path,
            hint="check that this is the right file",
        )
    return data


def beginning(path: str | Path, length: int) -> bytes:
    """The first bytes of a regular file; none of a pipe, which could not be read again."""
    try:
        with open_input(path) as file:
            return file.read(length)
    except (OSError, ValueError):
        return b""


def unreadable(path: str | Path, error: OSError | ValueError) -> InputError:
    """The error for a file that `open_input` or a read refused."""
    cause = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileNotFoundError):
        cause = "no such file"
    elif not (isinstance(error, OSError) and error.errno == errno.EINVAL):
        cause = f"cannot read: {cause}"
    return InputError(cause, path=path, hint="check the name and its permissions")


def _read_pipe(handle: int, limit: int) -> bytes:
    """All that a pipe gives until its writers close it; one byte more than the limit at most."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    pieces: list[bytes] = []
    size = 0
    end = time.monotonic() + MAX_PIPE_S
    while size <= limit:
        wait = min(MAX_SILENCE_S, end - time.monotonic())
        if wait <= 0 or not poll.poll(wait * 1000):
            what = "wrote nothing" if wait == MAX_SILENCE_S else "did not end"
            seconds = MAX_SILENCE_S if wait == MAX_SILENCE_S else MAX_PIPE_S
            raise OSError(errno.EINVAL, f"a pipe whose writer {what} for {seconds:g} s")
        piece = os.read(handle, min(_PIECE, limit + 1 - size))
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
