"""Unpacks tar archives from untrusted sources, and looks at folders of theirs, without harm.

Files are written first, into a folder of this user alone, and symbolic links made last, so that
nothing is written through a link. A link that leads out of the tree is left out of an archive and
refused in a folder. Names that lead out and archives that grow beyond reason are refused.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from toposeat.errors import InputError
from toposeat.model.files import beginning, open_input
from toposeat.model.job_folder import job_folder
from toposeat.topology.live.sysfs import MAX_SMALL_BYTES

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
MAX_ENTRIES = 200_000  # files, folders and links
MAX_DEPTH = 64  # folders inside folders; sysfs has about 20
_HINT = "save it again: tar chf FILE.tar /sys/class/kfd/kfd/topology, or hwloc-gather-topology"
_MAGIC: tuple[tuple[bytes, Callable[[IO[bytes]], IO[bytes]]], ...] = (
    (b"\x1f\x8b", lambda raw: cast(IO[bytes], gzip.GzipFile(fileobj=raw))),
    (b"BZh", lambda raw: cast(IO[bytes], bz2.BZ2File(raw))),
    (b"\xfd7zXZ\x00", lambda raw: cast(IO[bytes], lzma.LZMAFile(raw))),  # noqa: SIM115
)
_DAMAGED = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError)
_TAKEN = (FileExistsError, NotADirectoryError, IsADirectoryError)


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
    head = beginning(path, 512)
    return head[257:262] == b"ustar" or any(head.startswith(magic) for magic, _ in _MAGIC)


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """A folder as it is, or an archive as a folder, which is removed when the block ends."""
    if path.is_dir():
        for link in _leading_out(path):
            raise InputError(
                f"the link {str(link.relative_to(path))!r:.80} leads out of the folder",
                path=path,
                hint=_HINT,
            )
        yield path
        return
    with job_folder("tree") as folder:
        top = folder.resolve() / "top"
        top.mkdir()
        _unpack(path, top)
        for link in list(_leading_out(top)):
            link.unlink()
        yield top


def _leading_out(path: Path) -> Iterator[Path]:
    inside = path.resolve()
    entries = 0
    for parent, folders, files in os.walk(path):
        for name in (*folders, *files):
            entries += 1
            if entries > MAX_ENTRIES:
                raise InputError(f"more than {MAX_ENTRIES} files", path=path, hint=_HINT)
            entry = Path(parent, name)
            if entry.is_symlink() and not _resolved(entry).is_relative_to(inside):
                yield entry


def _resolved(entry: Path) -> Path:
    try:
        return entry.resolve()
    except (OSError, RuntimeError):  # a circle of links leads nowhere
        return entry.parent.resolve()


def _unpack(path: Path, top: Path) -> None:
    try:
        with open_input(path) as raw:
            head = raw.read(8)
            raw.seek(0)
            plain = next((way(raw) for magic, way in _MAGIC if head.startswith(magic)), raw)
            with tarfile.open(fileobj=cast(IO[bytes], _Bounded(plain)), mode="r|") as archive:
                links = _write_files(archive, path, top)
        for place, target in links:
            if place.parent.resolve() == place.parent:  # no link is on the way
                with suppress(*_TAKEN):
                    place.symlink_to(target)
    except _TooLargeError:
        raise InputError(
            f"unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB: not a snapshot of sysfs",
            path=path,
            hint=_HINT,
        ) from None
    except _DAMAGED as error:
        raise InputError(f"damaged archive: {error}"[:200], path=path, hint=_HINT) from None


def _write_files(archive: tarfile.TarFile, path: Path, top: Path) -> list[tuple[Path, str]]:
    """Make folders and small files, and return the symbolic links; what is there already stays."""
    links: list[tuple[Path, str]] = []
    made: set[tuple[str, ...]] = set()
    for entry in archive:
        parts = _parts(entry.name, path)
        made.update(parts[:depth] for depth in range(1, len(parts) + 1))
        if len(made) > MAX_ENTRIES:
            raise InputError(f"more than {MAX_ENTRIES} files", path=path, hint=_HINT)
        place = top.joinpath(*parts)
        with suppress(*_TAKEN):
            if entry.isdir():
                place.mkdir(parents=True, exist_ok=True)
            elif entry.isfile() and entry.size <= MAX_SMALL_BYTES:
                source = archive.extractfile(entry)
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("xb") as file:
                    file.write(source.read() if source is not None else b"")
            elif entry.issym():
                place.parent.mkdir(parents=True, exist_ok=True)
                links.append((place, entry.linkname))
    return links


def _parts(name: str, path: Path) -> tuple[str, ...]:
    """A name as parts below the top; absolute names are taken as relative, as tar does."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts or "\0" in name:
        raise InputError(
            f"the archive holds {name!r:.80}, which leads out of it", path=path, hint=_HINT
        )
    if len(parts) > MAX_DEPTH:
        raise InputError(
            f"the archive holds more than {MAX_DEPTH} folders inside each other",
            path=path,
            hint=_HINT,
        )
    return parts
