"""Tar archives and folders of somebody else, opened so that they can do no harm.

An archive is unpacked to a temporary folder as plain files and links that stay inside of it;
names that lead out, and archives that grow beyond reason, are refused. A folder is used where it
is, after a look that none of its links leads out.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

from toposeat.errors import InputError

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
MAX_ENTRIES = 200_000
MAX_FILE_BYTES = 1024 * 1024  # no file that describes a machine is larger
_HINT = "save it again: tar chf FILE.tar /sys/class/kfd/kfd/topology, or hwloc-gather-topology"
_MAGIC: tuple[tuple[bytes, Callable[[IO[bytes]], IO[bytes]]], ...] = (
    (b"\x1f\x8b", lambda raw: cast(IO[bytes], gzip.GzipFile(fileobj=raw))),
    (b"BZh", lambda raw: cast(IO[bytes], bz2.BZ2File(raw))),
    (b"\xfd7zXZ\x00", lambda raw: cast(IO[bytes], lzma.LZMAFile(raw))),  # noqa: SIM115
)
_DAMAGED = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError)


class _TooLargeError(Exception):
    """The archive unpacks to more than it may."""


class _Bounded(io.RawIOBase):
    """Reads no more than a limit from a decompressor."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._left = MAX_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(min(size if size >= 0 else self._left + 1, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise _TooLargeError
        return data


def looks_like_archive(path: Path) -> bool:
    """Whether a file is a tar archive, compressed or not."""
    try:
        with path.open("rb") as handle:
            head = handle.read(512)
    except (OSError, ValueError):
        return False
    return head[257:262] == b"ustar" or any(head.startswith(magic) for magic, _ in _MAGIC)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Path]:
    """The folder itself, or a temporary one with what the archive holds.

    Raises:
        InputError: damaged, too large, or with names or links that lead out of it.
    """
    if path.is_dir():
        _check_folder(path)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="toposeat-") as folder:
        _unpack(path, Path(folder))
        yield Path(folder)


def _check_folder(path: Path) -> None:
    inside = path.resolve()
    entries = 0
    for parent, folders, files in os.walk(path):
        for name in (*folders, *files):
            entries += 1
            if entries > MAX_ENTRIES:
                raise InputError(f"more than {MAX_ENTRIES} files", path=path, hint=_HINT)
            entry = Path(parent, name)
            if entry.is_symlink() and not _resolved(entry).is_relative_to(inside):
                raise InputError(
                    f"the link {str(entry.relative_to(path))!r:.80} leads out of the folder",
                    path=path,
                    hint=_HINT,
                )


def _resolved(entry: Path) -> Path:
    try:
        return entry.resolve()
    except (OSError, RuntimeError):  # a circle of links leads nowhere
        return entry.parent.resolve()


def _unpack(path: Path, folder: Path) -> None:
    try:
        with path.open("rb") as raw:
            head = raw.read(8)
            raw.seek(0)
            plain = next((way(raw) for magic, way in _MAGIC if head.startswith(magic)), raw)
            with tarfile.open(fileobj=cast(IO[bytes], _Bounded(plain)), mode="r|") as archive:
                _unpack_entries(archive, path, folder)
    except _TooLargeError:
        raise InputError(
            f"unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB: not a snapshot of sysfs",
            path=path,
            hint=_HINT,
        ) from None
    except _DAMAGED as error:
        raise InputError(f"damaged archive: {error}"[:200], path=path, hint=_HINT) from None


def _unpack_entries(archive: tarfile.TarFile, path: Path, folder: Path) -> None:
    links: list[tuple[PurePosixPath, str]] = []
    made: set[Path] = set()  # folders
    for number, entry in enumerate(archive):
        if number >= MAX_ENTRIES:
            raise InputError(f"more than {MAX_ENTRIES} files", path=path, hint=_HINT)
        name = _inner(entry.name, path)
        target = folder / name
        if entry.isdir():
            _make_folder(target, made)
        elif entry.isfile() and entry.size <= MAX_FILE_BYTES:
            source = archive.extractfile(entry)
            _make_folder(target.parent, made)
            _write(target, source.read() if source is not None else b"")
        elif entry.issym():
            links.append((name, entry.linkname))
    for name, linkname in links:
        _make_folder((folder / name).parent, made)
        _link(folder, name, linkname, path)


def _inner(name: str, path: Path) -> PurePosixPath:
    """A name below the folder; absolute names are taken as relative, as tar does."""
    inner = PurePosixPath(name.lstrip("/"))
    if ".." in inner.parts or "\0" in name:
        raise InputError(
            f"the archive holds {name!r:.80}, which leads out of it", path=path, hint=_HINT
        )
    return inner


def _make_folder(folder: Path, made: set[Path]) -> None:
    """Files lie many to a folder: it is asked for once."""
    if folder not in made:
        folder.mkdir(parents=True, exist_ok=True)
        made.add(folder)


def _write(target: Path, data: bytes) -> None:
    if not target.exists() and not target.is_symlink():
        target.write_bytes(data)


def _link(folder: Path, name: PurePosixPath, linkname: str, path: Path) -> None:
    """A link, made after all files so that none is written through it.

    Absolute targets are those of the machine that was recorded: below the part of the tree where
    the link's own `sys` or `proc` is.
    """
    if linkname.startswith("/"):
        top = next((i for i, part in enumerate(name.parts) if part in ("sys", "proc")), 0)
        inner = PurePosixPath(*name.parts[:top], linkname.lstrip("/"))
    else:
        inner = name.parent / linkname
    clean = os.path.normpath(inner)
    if clean.startswith("..") or "\0" in linkname:
        raise InputError(
            f"the link {str(name)!r:.80} leads out of the archive", path=path, hint=_HINT
        )
    target = folder / name
    if not target.exists() and not target.is_symlink():
        target.symlink_to(os.path.relpath(folder / clean, target.parent))
