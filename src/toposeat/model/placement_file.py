"""The text form of a placement: `#` lines with metadata, then one tab-separated line per rank.

People read and edit these files and a C program parses them (`launcher/src/placement.c`), so the
grammar is small and both sides refuse the same things.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from toposeat.errors import InputError
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.files import read_text, write_atomically
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.topology import ANY_HOST, Vendor, canonical_pci

PLACEMENT_SCHEMA = "toposeat/placement/1"
MAX_CPUS = 8192  # the most a Linux kernel can be built for; the launcher's limit
MAX_NODES = 1024

_MISSING = "-"
_KEY = re.compile(r"(?!(?:vendor|devices)$)[A-Za-z0-9_.-]+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _number(text: str, most: int = 999_999_999) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) > most:
        raise ValueError(text)
    return int(text)


def _name(pattern: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(text)
        return text

    return read


def _cpus(text: str) -> str:
    if parse_cpu_list(text)[-1] >= MAX_CPUS:
        raise ValueError(text)
    return text


# How a cell is read, and what it should be.
_CELLS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "rank": (_number, "a number"),
    "host": (_name(r"\*|[A-Za-z0-9_.-]{1,255}"), "a name of letters, digits, '_', '.' and '-'"),
    "local_rank": (_number, "a number"),
    "pci": (canonical_pci, "dddd:bb:dd.f, or '-'"),
    "uuid": (_name(r"[A-Za-z0-9_./-]{1,128}"), "letters, digits, '_', '.', '/' and '-'"),
    "index": (_number, "a number"),
    "cpus": (_cpus, "a Linux list such as 0-3,8-11, or '-'"),
    "memnode": (lambda text: _number(text, MAX_NODES - 1), f"0 to {MAX_NODES - 1}, or '-'"),
    "nic": (_name(r"[A-Za-z0-9_.:-]{1,64}"), "letters, digits, '_', '.', ':' and '-'"),
    "vendor": (Vendor, ", ".join(vendor.value for vendor in Vendor)),
}
COLUMNS = tuple(_CELLS)[:-1]
_ALWAYS_KNOWN = ("rank", "host", "local_rank", "index", "vendor")


def _value(what: str, text: str) -> Any:
    """What a cell says; None where it is `-`, which stands for "not known"."""
    read, expected = _CELLS[what]
    if text == _MISSING and what not in _ALWAYS_KNOWN:
        return None
    try:
        if text != _MISSING:
            return read(text)
    except ValueError:
        pass
    raise InputError(f"{what} cannot be {text[:60]!r} in a placement", hint=f"expected {expected}")


def load_placement(path: str | Path) -> Placement:
    """Read a placement file."""
    return parse_placement(read_text(path), path=path)


def save_placement(placement: Placement, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a placement, whole or not at all."""
    write_atomically(path, format_placement(placement), overwrite=overwrite)


def format_placement(placement: Placement) -> str:
    """The text of a placement file."""
    lines = [f"# {PLACEMENT_SCHEMA}", f"# vendor: {_cell('vendor', placement.vendor)}"]
    for host, devices in placement.devices_of_host.items():
        entries = ",".join(
            f"{each.index}={_cell('pci', each.pci_bus_id)}={_cell('uuid', each.uuid)}"
            for each in devices
        )
        lines.append(f"# devices {_cell('host', host)}: {entries}".rstrip())
    for key, value in placement.metadata.items():
        if not _KEY.fullmatch(key) or _CONTROL.search(value) or value != value.strip():
            raise InputError(
                f"metadata {key[:40]!r} cannot be {value[:80]!r} in a placement",
                hint="one line of text without blanks around it; vendor and devices are reserved",
            )
        lines.append(f"# {key}: {value}")
    lines.append("\t".join(COLUMNS))
    for seat in placement.seats:
        members = (
            *(seat.rank, seat.host, seat.local_rank, seat.pci_bus_id, seat.uuid),
            *(seat.index, seat.cpus, seat.memory_node, seat.nic),
        )
        lines.append("\t".join(map(_cell, COLUMNS, members)))
    return "\n".join(lines) + "\n"


def _cell(what: str, value: object) -> str:
    """A value as it stands in a placement."""
    found = None if value is None else _value(what, str(value))
    return _MISSING if found is None else str(found)


def parse_placement(text: str, *, path: str | Path = "placement") -> Placement:
    """The placement that `text` holds; `path` is for messages."""
    found, number = _Lines(), 0
    try:
        for number, line in enumerate(text.split("\n"), 1):
            found.read(number, line.removesuffix("\r"))
        if not found.seats:
            raise InputError(
                "no ranks: the file is truncated" if found.has_columns else "no table of ranks",
                hint="make it again with: toposeat map ... -o FILE",
            )
    except InputError as error:
        raise InputError(error.message, path=path, line=number, hint=error.hint) from None
    return Placement(
        seats=tuple(found.seats),
        devices_of_host=found.devices,
        vendor=found.vendor,
        metadata=found.metadata,
    )


class _Lines:
    """What the lines so far say."""

    def __init__(self) -> None:
        self.vendor = "unknown"
        self.devices: dict[str, tuple[HostDevice, ...]] = {}
        self.metadata: dict[str, str] = {}
        self.seats: list[Seat] = []
        self.has_columns = False
        self._line_of_local_rank: dict[tuple[str, int], int] = {}

    def read(self, number: int, line: str) -> None:
        """Take the next line."""
        if number == 1:
            if line.rstrip() != f"# {PLACEMENT_SCHEMA}":
                raise InputError(
                    f"expected '# {PLACEMENT_SCHEMA}', found {line[:60]!r}",
                    hint="this is no placement file, or one of another version of toposeat",
                )
        elif line.startswith("#"):
            self._read_metadata(line)
        elif line.strip() and not self.has_columns:
            if tuple(line.split("\t")) != COLUMNS:
                raise InputError(
                    f"expected the column names, found {line[:60]!r}",
                    hint="tab-separated: " + " ".join(COLUMNS),
                )
            self.has_columns = True
        elif line.strip():
            self._read_seat(number, line)

    def _read_metadata(self, line: str) -> None:
        key, colon, value = line[1:].partition(":")
        key, value = key.strip(), value.strip()
        if _CONTROL.search(line):
            raise InputError("control character in a '#' line", hint="remove it")
        if colon and key == "vendor":
            self.vendor = _value("vendor", value).value
        elif colon and key.startswith("devices "):
            self._read_devices(_value("host", key.removeprefix("devices ").strip()), value)
        elif colon and _KEY.fullmatch(key):  # others are comments
            self.metadata[key] = value

    def _read_devices(self, host: str, value: str) -> None:
        devices = tuple(map(_device, value.split(","))) if value else ()
        if host in self.devices or len({each.index for each in devices}) < len(devices):
            raise InputError(
                f"host {host} or one of its devices appears twice", hint="remove one of them"
            )
        self.devices[host] = devices

    def _read_seat(self, number: int, line: str) -> None:
        texts = [text.strip() for text in line.split("\t")]
        if len(texts) != len(COLUMNS):
            raise InputError(
                f"expected {len(COLUMNS)} tab-separated columns, found {len(texts)}",
                hint="the columns are: " + " ".join(COLUMNS),
            )
        rank, host, local_rank, pci, uuid, index, cpus, memory_node, nic = map(
            _value, COLUMNS, texts
        )
        if rank != len(self.seats):
            raise InputError(
                f"expected the line of rank {len(self.seats)}, found rank {rank}",
                hint="one line per rank, in rank order",
            )
        first = self._line_of_local_rank.setdefault((host, local_rank), number)
        if first != number:
            raise InputError(
                f"local rank {local_rank} appears twice on host {host}, first in line {first}",
                hint="number the ranks of a host from 0",
            )
        seat = Seat(
            rank=rank,
            host=host,
            local_rank=local_rank,
            pci_bus_id=pci,
            uuid=uuid,
            index=index,
            cpus=cpus,
            memory_node=memory_node,
            nic=nic,
        )
        self._check_listed(seat)
        self.seats.append(seat)

    def _check_listed(self, seat: Seat) -> None:
        """The seat's device against the host's `# devices` line, where there is one."""
        listed = self.devices.get(seat.host, self.devices.get(ANY_HOST))
        if listed is None:
            return
        device = next((each for each in listed if each.index == seat.index), None)
        if device is None:
            raise InputError(
                f"device {seat.index} is not in the '# devices' line of host {seat.host}",
                hint="correct the index or the list",
            )
        pairs = ((seat.pci_bus_id, device.pci_bus_id), (seat.uuid, device.uuid))
        for own, other in pairs:
            if own is not None and other is not None and own != other:
                raise InputError(
                    f"device {seat.index} is {own} here and {other} in the '# devices' line",
                    hint="correct one of them",
                )


def _device(entry: str) -> HostDevice:
    parts = entry.strip().split("=")
    if len(parts) != 3:
        raise InputError(
            f"not a device: {entry[:60]!r}", hint="expected INDEX=PCI=UUID, '-' where not known"
        )
    index, pci, uuid = map(_value, ("index", "pci", "uuid"), parts)
    return HostDevice(index=index, pci_bus_id=pci, uuid=uuid)
