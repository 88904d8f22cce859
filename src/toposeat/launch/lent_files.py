"""What this user has lent and borrowed: folders that last as long as the process that made them.

Each `lend` has a folder with `lent.json`: the key that its proxies ask for, and what they said when
they were ready. Each `borrow` has one with `borrowed.json`: the devices that are its own. They lie
in the user's cache, so that all nodes that share it see them; nobody else may enter it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins

from toposeat.errors import InputError, ToposeatError
from toposeat.model.files import beginning, write_atomically
from toposeat.model.hostlist import short_name
from toposeat.model.job_folder import job_folder, live_folders
from toposeat.model.lent import LentDevice
from toposeat.model.private_cache import cache_root, private_folder

KEY_VARIABLE = "TOPOSEAT_CL_KEY"
_LEND, _BORROW = "lend", "borrow"
_LENT_FILE, _BORROWED_FILE = "lent.json", "borrowed.json"
_MAX_BYTES = 1 << 24
_ASKED_AT_ONCE, _ANSWER_S = 32, 1.0
_SAFE = re.compile(r"[^\s,|;=+]+", re.ASCII)  # in TOPOSEAT_BORROW (launcher/src/borrow.h)


class ToldDevice(Struct, frozen=True):
    """A device as its proxy tells it."""

    index: int
    name: str
    type: str = ""
    memory: int | None = None
    pci: str | None = None


class Told(Struct, frozen=True):
    """The line with which a proxy says that it is ready, or why it cannot be."""

    host: str
    unix: str = ""
    tcp: str | None = None
    pid: int = 0
    version: str = ""
    devices: tuple[ToldDevice, ...] = ()
    error: str = ""
    hint: str = ""


def told_by(line: bytes) -> Told | None:
    """What a proxy says in a line of its launcher's output; None for a line of anything else.

    Launchers put labels such as `0: ` in front.

    Raises:
        InputError: it is a proxy's, and damaged, or of another version of this program.
    """
    begin = line.find(b'{"toposeat_clproxy"')
    if begin < 0:
        return None
    try:
        told = convert(json.loads(line[begin:]), Told)
        words = (told.host, told.unix or "-", told.tcp or "-")
        if not all(map(_SAFE.fullmatch, words)):
            raise ValueError
    except (ValueError, ValidationError):
        raise InputError(
            "a proxy said what cannot be understood",
            path="what the launcher wrote",
            hint="install the same version of toposeat on all nodes",
        ) from None
    return told


def lent_folder(environment: Mapping[str, str]) -> Path:
    """Where the folders of this user's `lend` and `borrow` are; made where it is missing."""
    return private_folder(cache_root(environment) / "lent", "what is lent")


@contextmanager
def lending(root: Path) -> Iterator[Path]:
    """The folder of one `lend`."""
    with job_folder(_LEND, parent=root) as folder:
        yield folder


def write_lent(
    folder: Path,
    key: str,
    started: float,
    proxies: Iterable[Told],
    *,
    share: int = 1,
    is_leaving: bool = False,
) -> None:
    """Tell `borrow` what is lent, to how many jobs each, since when, in seconds of the clock.

    To nobody new if leaving.
    """
    told = [to_builtins(each) for each in proxies]
    document = {"key": key, "started": started, "leaving": is_leaving, "share": share}
    _write(folder / _LENT_FILE, {**document, "proxies": told})


def lent_devices(root: Path) -> tuple[list[LentDevice], str]:
    """All that is lent, in the order in which it was, and the key; [] and "" for nothing.

    A device of a node that several of its proxies tell of, by its PCI bus id, is there once. Of a
    `lend` that leaves there is only what is borrowed.
    """
    borrowers = _borrowers(root)
    devices: list[LentDevice] = []
    count: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    documents = _documents(root, _LEND, _LENT_FILE)
    documents.sort(key=lambda each: float(each.get("started", 0)))
    key = str(documents[0].get("key", "")) if documents else ""
    for document in documents:
        with suppress(ValidationError):
            for told in convert(document.get("proxies", []), tuple[Told, ...]):
                for device in told.devices:
                    where = told.host, device.pci or f"{told.unix}#{device.index}"
                    if where in seen:
                        continue
                    seen.add(where)
                    share = 0 if document.get("leaving") else int(document.get("share", 1))
                    own = _device(told, device, count[told.host], borrowers, share)
                    if own.borrowed_by or share:
                        devices.append(own)
                    count[told.host] += 1
    return devices, key


def _device(
    told: Told,
    device: ToldDevice,
    number: int,
    borrowers: Mapping[str, Mapping[str, bool]],
    share: int,
) -> LentDevice:
    users = borrowers.get(_mark(told.host, told.unix, device.index), {})
    return LentDevice(
        id=f"{short_name(told.host)}/{number}",
        host=told.host,
        index=device.index,
        name=device.name,
        kind=device.type,
        socket=told.unix,
        address=told.tcp or "",
        memory_bytes=device.memory,
        pci_bus_id=device.pci,
        borrowed_by=", ".join(users),
        share=share,
        jobs=len(users),
        room=max(0, share - len(users)) if all(users.values()) else 0,
    )


def asked(devices: Sequence[LentDevice]) -> list[LentDevice]:
    """The devices, marked where their proxy refuses a connection. None is waited for long."""
    proxies = list(dict.fromkeys((x.host, x.socket, x.address) for x in devices))
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        silent = dict(zip(proxies, pool.map(_is_silent, proxies), strict=True))
    return [replace(x, is_silent=silent[x.host, x.socket, x.address]) for x in devices]


def _is_silent(proxy: tuple[str, str, str]) -> bool:
    """No answer in time is none: that node may be out of reach from here, and not from others."""
    host, path, address = proxy
    is_here = short_name(host) == short_name(socket.gethostname())
    try:
        if is_here and Path(path).exists():
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_ANSWER_S)
                probe.connect(path)
        elif address:
            name, _, port = address.rpartition(":")
            socket.create_connection((name.strip("[]"), int(port)), _ANSWER_S).close()
        else:
            return is_here
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def choosing(root: Path) -> Iterator[None]:
    """One at a time chooses devices."""
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def borrowing(root: Path) -> Iterator[Path]:
    """The folder of one `borrow`."""
    with job_folder(_BORROW, parent=root) as folder:
        yield folder


def write_borrowed(folder: Path, devices: Sequence[LentDevice], *, shares: bool = False) -> None:
    """Take devices until the folder is gone: nobody else gets them, or who shares them, too."""
    marks = [_mark_of(device) for device in devices]
    document = {"process": _process(), "devices": marks, "shares": shares}
    _write(folder / _BORROWED_FILE, document)


def mark_moving(root: Path, old: LentDevice, new: LentDevice) -> None:
    """Who has borrowed `old` has `new` as well, until one of them is left."""
    before, after = _mark_of(old), _mark_of(new)
    for folder, document in _files(root, _BORROW, _BORROWED_FILE):
        if before in document["devices"]:
            _mark_again(folder, document, [*document["devices"], after])


def mark_left(root: Path, left: LentDevice, kept: LentDevice) -> None:
    """Who has both devices has only the one that is kept."""
    for folder, document in _files(root, _BORROW, _BORROWED_FILE):
        if {_mark_of(left), _mark_of(kept)} <= {*document["devices"]}:
            marks = [mark for mark in document["devices"] if mark != _mark_of(left)]
            _mark_again(folder, document, marks)


def _mark_again(folder: Path, document: Mapping[str, object], marks: Sequence[str]) -> None:
    """Of a job that has ended meanwhile there is nothing to mark."""
    try:
        _write(folder / _BORROWED_FILE, {**document, "devices": marks})
    except ToposeatError:
        if folder.exists():
            raise


def _borrowers(root: Path) -> dict[str, dict[str, bool]]:
    """Of each device the jobs that have it, and whether they share it."""
    found: dict[str, dict[str, bool]] = {}
    for document in _documents(root, _BORROW, _BORROWED_FILE):
        for mark in document.get("devices", ()):
            own = found.setdefault(str(mark), {})
            own[str(document.get("process", ""))] = bool(document.get("shares"))
    return found


def _mark(host: str, socket_: str, index: int) -> str:
    return f"{short_name(host)} {socket_} {index}"


def _mark_of(device: LentDevice) -> str:
    return _mark(device.host, device.socket, device.index)


def _process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _write(path: Path, document: Mapping[str, object]) -> None:
    write_atomically(path, json.dumps(document), overwrite=True, mode=0o600)


def _documents(root: Path, what: str, name: str) -> list[dict[str, Any]]:
    return [document for _, document in _files(root, what, name)]


def _files(root: Path, what: str, name: str) -> list[tuple[Path, dict[str, Any]]]:
    """The files of all that live; one that is not written yet is not there."""
    found: list[tuple[Path, dict[str, Any]]] = []
    for folder in live_folders(what, root):
        with suppress(ValueError):
            document = json.loads(beginning(folder / name, _MAX_BYTES))
            if isinstance(document, dict):
                found.append((folder, document))
    return found
