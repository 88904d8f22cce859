"""Reads tar archives and folders from untrusted sources without harm.

An archive is never unpacked: its regular files are kept in memory, and its links, symbolic and
hard, are resolved over its own table of members. So nothing is written that an archive names, and
a link that leads out of it, or in circles, leads nowhere. Names that lead out and archives that
grow beyond reason are refused. A folder is read where it is, after a look that none of its links
leads out.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import total_ordering
from pathlib import Path
from typing import IO, cast

from toposeat.errors import InputError
from toposeat.model.input_file import beginning, open_input
from toposeat.topology.live.small_file import MAX_SMALL_BYTES, TreePath

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
MAX_ENTRIES = 200_000  # files, folders and links
MAX_DEPTH = 64  # folders inside folders; sysfs has about 20
MAX_LINKS = 40  # links that lead to links, as in Linux
MAX_LINK_CHARS = 4096  # of the target of a link, as in Linux
_HINT = "save it again: tar chf FILE.tar /sys/class/kfd/kfd/topology, or hwloc-gather-topology"
_MAGIC: tuple[tuple[bytes, Callable[[IO[bytes]], IO[bytes]]], ...] = (
    (b"\x1f\x8b", lambda raw: cast(IO[bytes], gzip.GzipFile(fileobj=raw))),
    (b"BZh", lambda raw: cast(IO[bytes], bz2.BZ2File(raw))),
    (b"\xfd7zXZ\x00", lambda raw: cast(IO[bytes], lzma.LZMAFile(raw))),  # noqa: SIM115
)
_DAMAGED = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError)

Parts = tuple[str, ...]


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


@dataclass(eq=False, slots=True)
class _Link:
    """A symbolic link; `way` is where it leads, once that is asked: an empty one leads nowhere."""

    target: str
    way: _Way | None = None


_Member = bytes | _Link | dict[str, "_Member"]  # a file, a link, a folder
_Way = tuple[tuple[str, _Member | None], ...]  # names from the top, and what bears each


@dataclass
class _Members:
    """The members of one archive as a tree of folders."""

    path: Path
    top: dict[str, _Member] = field(default_factory=dict)
    count: int = 0

    def add(self, parts: Parts, member: _Member) -> None:
        """Put a member into its folder, which is made; what is there already stays.

        Raises:
            InputError: too many members.
        """
        folder = self.top
        for part in parts[:-1]:
            below = self._put(folder, part, {})
            if not isinstance(below, dict):
                return
            folder = below
        if parts:
            self._put(folder, parts[-1], member)

    def _put(self, folder: dict[str, _Member], name: str, member: _Member) -> _Member:
        if name not in folder:
            self.count += 1
            if self.count > MAX_ENTRIES:
                raise InputError(f"more than {MAX_ENTRIES} files", path=self.path, hint=_HINT)
            folder[name] = member
        return folder[name]

    def resolved(self, parts: Parts) -> tuple[Parts, _Member | None]:
        """Where a path leads to once its links are followed, and what is there, None if nothing.

        As `realpath`: names that do not exist are taken as they stand.

        Raises:
            OSError: the path leads out of the archive, or in circles.
        """
        way = self._way((), parts, 0)
        return tuple(name for name, _ in way), way[-1][1] if way else self.top

    def _way(self, start: _Way, parts: Iterable[str], links: int) -> _Way:
        way = list(start)
        for part in parts:
            if part in ("", "."):
                continue
            if part == "..":
                if not way:
                    raise OSError(errno.EXDEV, "leads out of the archive")
                way.pop()
                continue
            folder = way[-1][1] if way else self.top
            member = folder.get(part) if isinstance(folder, dict) else None
            if isinstance(member, _Link):
                way = list(self._followed(tuple(way), member, links + 1))
            else:
                way.append((part, member))
        return tuple(way)

    def _followed(self, folder: _Way, link: _Link, links: int) -> _Way:
        if link.way is None and links <= MAX_LINKS:
            start = folder
            if link.target.startswith("/"):
                # Of the machine that was recorded: below where the link's own sys or proc is.
                names = [name for name, _ in folder]
                start = folder[: next((names.index(n) for n in ("sys", "proc") if n in names), 0)]
            link.way = ()
            link.way = self._way(start, link.target.split("/"), links)
        if not link.way:
            raise OSError(errno.ELOOP, "leads nowhere")
        return link.way


@total_ordering
@dataclass(frozen=True, eq=False, slots=True)
class _MemberPath:
    """A place in an archive, asked like a `Path`."""

    members: _Members
    parts: Parts = ()

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else ""

    @property
    def parent(self) -> _MemberPath:
        return _MemberPath(self.members, self.parts[:-1])

    @property
    def parents(self) -> tuple[_MemberPath, ...]:
        return tuple(
            _MemberPath(self.members, self.parts[:n]) for n in reversed(range(len(self.parts)))
        )

    def __truediv__(self, names: str) -> _MemberPath:
        return _MemberPath(self.members, (*self.parts, *names.split("/")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _MemberPath) and self.parts == other.parts

    def __lt__(self, other: _MemberPath) -> bool:
        return self.parts < other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def resolve(self) -> _MemberPath:
        return _MemberPath(self.members, self.members.resolved(self.parts)[0])

    def is_symlink(self) -> bool:
        try:
            folder = self.members.resolved(self.parts[:-1])[1]
        except OSError:
            return False
        return isinstance(folder, dict) and isinstance(folder.get(self.name), _Link)

    def is_dir(self) -> bool:
        return isinstance(self._member(), dict)

    def is_file(self) -> bool:
        return isinstance(self._member(), bytes)

    def exists(self) -> bool:
        return self._member() is not None

    def iterdir(self) -> Iterator[_MemberPath]:
        member = self._member()
        if not isinstance(member, dict):
            raise NotADirectoryError(errno.ENOTDIR, "no folder", "/".join(self.parts))
        return (_MemberPath(self.members, (*self.parts, name)) for name in member)

    def read_bytes(self) -> bytes:
        member = self._member()
        if not isinstance(member, bytes):
            raise FileNotFoundError(errno.ENOENT, "no regular file", "/".join(self.parts))
        return member

    def _member(self) -> _Member | None:
        try:
            return self.members.resolved(self.parts)[1]
        except OSError:
            return None


def looks_like_archive(path: Path) -> bool:
    """Whether a file is a tar archive, compressed or not."""
    head = beginning(path, 512)
    return head[257:262] == b"ustar" or any(head.startswith(magic) for magic, _ in _MAGIC)


def opened(path: Path) -> TreePath:
    """The top of a folder or an archive.

    Raises:
        InputError: damaged, too large, or with names that lead out of it.
    """
    if path.is_dir():
        _check_folder(path)
        return path
    return _MemberPath(_members(path))


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


def _members(path: Path) -> _Members:
    try:
        with open_input(path) as raw:
            head = raw.read(8)
            raw.seek(0)
            plain = next((way(raw) for magic, way in _MAGIC if head.startswith(magic)), raw)
            with tarfile.open(fileobj=cast(IO[bytes], _Bounded(plain)), mode="r|") as archive:
                return _members_of(archive, path)
    except _TooLargeError:
        raise InputError(
            f"unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB: not a snapshot of sysfs",
            path=path,
            hint=_HINT,
        ) from None
    except _DAMAGED as error:
        raise InputError(f"damaged archive: {error}"[:200], path=path, hint=_HINT) from None


def _members_of(archive: tarfile.TarFile, path: Path) -> _Members:
    """Files and folders first, then hard links to files, then symbolic ones.

    So no name is looked for through a link that the archive holds.
    """
    members = _Members(path)
    hard: list[tuple[Parts, str]] = []
    symbolic: list[tuple[Parts, _Link]] = []
    for number, entry in enumerate(archive):
        if number >= MAX_ENTRIES:
            raise InputError(f"more than {MAX_ENTRIES} files", path=path, hint=_HINT)
        parts = _parts(entry.name, path)
        if entry.isdir():
            members.add(parts, {})
        elif entry.isfile() and entry.size <= MAX_SMALL_BYTES:
            source = archive.extractfile(entry)
            members.add(parts, source.read() if source is not None else b"")
        elif entry.islnk():
            hard.append((parts, entry.linkname))
        elif entry.issym() and len(entry.linkname) <= MAX_LINK_CHARS:
            symbolic.append((parts, _Link(entry.linkname)))
    for parts, linkname in hard:
        content = members.resolved(_parts(linkname, path))[1]
        if isinstance(content, bytes):
            members.add(parts, content)
    for parts, link in symbolic:
        members.add(parts, link)
    return members


def _parts(name: str, path: Path) -> Parts:
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
