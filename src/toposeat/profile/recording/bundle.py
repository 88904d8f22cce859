"""The records of one node, as they come home in one file (layout: `launcher/src/carry.h`)."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import IO

from toposeat.errors import InputError
from toposeat.model.job_folder import TORCH_SUFFIX
from toposeat.profile.records.record_layout import CAUSE_SUFFIX, HOST_SUFFIX, SUFFIX

BUNDLE_SUFFIX = ".tpsnode"

_ENTRY = struct.Struct(">64sQQ")
_EXTENT = struct.Struct(">QQ")
_NAME = re.compile(
    rf"rank-\d{{1,9}}-\d{{1,9}}"
    rf"((-t\d{{1,3}})?{re.escape(SUFFIX)}|{re.escape(TORCH_SUFFIX)}|{re.escape(HOST_SUFFIX)}"
    rf"|{re.escape(CAUSE_SUFFIX)}\d{{1,4}})",
    re.ASCII,
)
_MAX_SIZE = 1 << 40  # files are sparse: the record of one of 2^21 ranks has 600 MiB
_COPIED = 1 << 20


def unpack_bundles(folder: Path, senders: dict[str, str]) -> None:
    """Replace every bundle in `folder` by the files in it.

    A later bundle of a node replaces what an earlier one of it brought, and nothing else.

    Args:
        folder: of this process's own.
        senders: who has brought which file so far; bundles are named `SENDER-...`.
    """
    bundles = sorted(folder.glob(f"*{BUNDLE_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
    for bundle in bundles:
        try:
            with bundle.open("rb") as source:
                while head := source.read(_ENTRY.size):
                    _unpack_file(source, head, bundle, senders)
        except OSError as error:
            raise InputError(
                f"the records in it cannot be written: {error.strerror or error}",
                hint="make room there, or name a folder elsewhere: --keep-records DIR",
                path=bundle,
            ) from error
        bundle.unlink()


def _unpack_file(source: IO[bytes], head: bytes, bundle: Path, senders: dict[str, str]) -> None:
    if len(head) != _ENTRY.size:
        raise _damaged(bundle, "it is cut off")
    padded, size, extents = _ENTRY.unpack(head)
    name = padded.rstrip(b"\0").decode("ascii", "replace")
    if not _NAME.fullmatch(name) or size > _MAX_SIZE:
        raise _damaged(bundle, f"it holds a file {name!r} of {size} bytes")
    with _target(bundle, name, senders) as target:
        if target.name != os.devnull:
            target.truncate(size)
        for _ in range(extents):
            _unpack_extent(source, target, size, bundle)


def _target(bundle: Path, name: str, senders: dict[str, str]) -> IO[bytes]:
    """Where a file goes: nowhere, if somebody else has brought one of this name."""
    path, sender = bundle.parent / name, bundle.name.partition("-")[0]
    if senders.get(name) == sender:
        return path.open("wb")
    try:
        new = path.open("xb")
    except FileExistsError:
        return Path(os.devnull).open("wb")
    senders[name] = sender
    return new


def _unpack_extent(source: IO[bytes], target: IO[bytes], size: int, bundle: Path) -> None:
    head = source.read(_EXTENT.size)
    if len(head) != _EXTENT.size:
        raise _damaged(bundle, "it is cut off")
    offset, length = _EXTENT.unpack(head)
    if offset + length > size:
        raise _damaged(bundle, "a part is beyond the end of its file")
    target.seek(offset)
    while length > 0:
        data = source.read(min(length, _COPIED))
        if not data:
            raise _damaged(bundle, "it is cut off")
        target.write(data)
        length -= len(data)


def _damaged(bundle: Path, why: str) -> InputError:
    return InputError(f"damaged bundle of records: {why}", hint="profile again", path=bundle)
