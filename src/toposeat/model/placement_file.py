"""The text form of a placement: `#` lines with metadata, then one tab-separated line per rank.

People read and edit these files and a C program parses them (`launcher/src/placement.c`), so the
grammar is small and both sides refuse the same things.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.files import read_text, write_atomically
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.topology import ANY_HOST, Vendor, canonical_pci

PLACEMENT_SCHEMA = "toposeat/placement/1"
COLUMNS = ("rank", "host", "local_rank", "pci", "uuid", "index", "cpus", "memnode", "nic")

MAX_CPUS = 8192  # the most a Linux kernel can be built for; the launcher's limit
MAX_NODES = 1024

_MISSING = "-"
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_HOST = re.compile(r"\*|[A-Za-z0-9_.-]{1,255}", re.ASCII)
_UUID = re.compile(r"[A-Za-z0-9_./-]{1,128}", re.ASCII)
_NIC = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
_KEY = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RESERVED_KEYS = frozenset({"vendor", "devices"})
_VENDOR_HINT = "expected " + ", ".join(vendor.value for vendor in Vendor)
_CPU_HINT = "expected a Linux list such as 0-3,8-11"


def load_placement(path: str | Path) -> Placement:
    """Read a placement file.

    Raises:
        InputError: with file and line, if it is missing, damaged, of another schema, or says
            something impossible.
    """
    return parse_placement(read_text(path), path=path)


def save_placement(placement: Placement, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a placement, whole or not at all.

    Raises:
        InputError: a name in it cannot be written down.
        UsageError: the file exists and `overwrite` is false.
    """
    write_atomically(path, format_placement(placement), overwrite=overwrite)


def format_placement(placement: Placement) -> str:
    """The text of a placement file.

    Raises:
        InputError: a name in it cannot be written down, e.g. because it holds a tab.
    """
    lines = [f"# {PLACEMENT_SCHEMA}", f"# vendor: {_vendor(placement.vendor)}"]
    for host, devices in placement.devices_of_host.items():
        entries = ",".join(_format_device(device) for device in devices)
        lines.append(f"# devices {_word(_HOST, host, 'host')}: {entries}".rstrip())
    for key, value in placement.metadata.items():
        lines.append(_format_metadata(key, value))
    lines.append("\t".join(COLUMNS))
    lines += ["\t".join(_format_seat(seat)) for seat in placement.seats]
    return "\n".join(lines) + "\n"


def parse_placement(text: str, *, path: str | Path = "placement") -> Placement:
    """The placement that `text` holds; `path` is for messages.

    Raises:
        InputError: with the line that is wrong.
    """
    return _Parser(path).parse(text)


def _vendor(name: str) -> str:
    if name not in {vendor.value for vendor in Vendor}:
        raise InputError(f"unknown vendor {name[:40]!r}", hint=_VENDOR_HINT)
    return name


def _word(pattern: re.Pattern[str], value: str | None, what: str) -> str:
    if value is None:
        return _MISSING
    if value == _MISSING or pattern.fullmatch(value) is None:
        raise InputError(
            f"{what} {value[:80]!r} cannot be written into a placement",
            hint="use letters, digits, '_', '.' and '-' only",
        )
    return value


def _format_pci(pci: str | None) -> str:
    if pci is None:
        return _MISSING
    try:
        return canonical_pci(pci)
    except ValueError as error:
        raise InputError(str(error), hint="expected dddd:bb:dd.f") from error


def _format_device(device: HostDevice) -> str:
    uuid = _word(_UUID, device.uuid, "uuid")
    return f"{device.index}={_format_pci(device.pci_bus_id)}={uuid}"


def _format_metadata(key: str, value: str) -> str:
    if _KEY.fullmatch(key) is None or key in _RESERVED_KEYS:
        raise InputError(
            f"metadata key {key[:40]!r} cannot be written into a placement",
            hint="use letters, digits, '_', '.' and '-'; vendor and devices are reserved",
        )
    if _CONTROL.search(value) or value != value.strip():
        raise InputError(
            f"metadata {key!r} cannot be written into a placement: {value[:80]!r}",
            hint="one line of text, without spaces around it",
        )
    return f"# {key}: {value}"


def _format_seat(seat: Seat) -> list[str]:
    if seat.cpus is not None and not _is_cpu_list(seat.cpus):
        raise InputError(f"rank {seat.rank}: not a CPU list: {seat.cpus[:80]!r}", hint=_CPU_HINT)
    return [
        str(seat.rank),
        _word(_HOST, seat.host, "host"),
        str(seat.local_rank),
        _format_pci(seat.pci_bus_id),
        _word(_UUID, seat.uuid, "uuid"),
        str(seat.index),
        _MISSING if seat.cpus is None else seat.cpus,
        _MISSING if seat.memory_node is None else str(seat.memory_node),
        _word(_NIC, seat.nic, "nic"),
    ]


def _is_cpu_list(text: str) -> bool:
    try:
        return parse_cpu_list(text)[-1] < MAX_CPUS
    except ValueError:
        return False


@dataclass
class _Parser:
    """One pass over the lines; `line` is where messages point."""

    path: str | Path
    line: int = 0
    vendor: str = "unknown"
    devices: dict[str, tuple[HostDevice, ...]] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    seats: list[Seat] = field(default_factory=list)
    has_columns: bool = False
    line_of_local_rank: dict[tuple[str, int], int] = field(default_factory=dict)

    def parse(self, text: str) -> Placement:
        for line in text.split("\n"):
            self.line += 1
            self._read_line(line.removesuffix("\r"))
        if not self.seats:
            raise self._error(
                "no ranks: the file is truncated" if self.has_columns else "no table of ranks",
                "make it again with: toposeat map ... -o FILE",
            )
        try:
            return Placement(
                seats=tuple(self.seats),
                devices_of_host=self.devices,
                vendor=self.vendor,
                metadata=self.metadata,
            )
        except ValueError as error:
            raise InputError(str(error), path=self.path, hint="correct that line") from error

    def _error(self, message: str, hint: str) -> InputError:
        return InputError(message, hint=hint, path=self.path, line=self.line)

    def _read_line(self, line: str) -> None:
        if self.line == 1:
            self._check_schema(line)
        elif not line.strip():
            return
        elif line.startswith("#"):
            self._read_metadata(line)
        elif not self.has_columns:
            self._check_columns(line)
        else:
            self._read_seat(line)

    def _check_schema(self, line: str) -> None:
        if line.rstrip() != f"# {PLACEMENT_SCHEMA}":
            raise self._error(
                f"expected '# {PLACEMENT_SCHEMA}', found {line[:60]!r}",
                "this is no placement file, or one of another version of toposeat",
            )

    def _check_columns(self, line: str) -> None:
        if tuple(line.split("\t")) != COLUMNS:
            raise self._error(
                f"expected the column names, found {line[:60]!r}",
                "tab-separated: " + " ".join(COLUMNS),
            )
        self.has_columns = True

    def _read_metadata(self, line: str) -> None:
        key, colon, value = line[1:].partition(":")
        key, value = key.strip(), value.strip()
        if _CONTROL.search(line):
            raise self._error("control character in a '#' line", "remove it")
        if not colon:
            return  # a comment
        if key == "vendor":
            self.vendor = self._one_of(value)
        elif key.startswith("devices "):
            self._read_devices(key.removeprefix("devices ").strip(), value)
        elif _KEY.fullmatch(key) and key not in _RESERVED_KEYS:
            self.metadata[key] = value

    def _one_of(self, value: str) -> str:
        try:
            return _vendor(value)
        except InputError as error:
            raise self._error(error.message, error.hint) from error

    def _read_devices(self, host: str, value: str) -> None:
        if _HOST.fullmatch(host) is None or host == _MISSING:
            raise self._error(f"not a host name: {host[:60]!r}", "expected '# devices HOST: ...'")
        if host in self.devices:
            raise self._error(f"the devices of host {host} are listed twice", "remove one line")
        devices = tuple(self._device(entry) for entry in value.split(",")) if value else ()
        indices = [device.index for device in devices]
        if len(set(indices)) != len(indices):
            raise self._error(f"a device index of host {host} appears twice", "correct that line")
        self.devices[host] = devices

    def _device(self, entry: str) -> HostDevice:
        parts = entry.strip().split("=")
        if len(parts) != 3:
            raise self._error(
                f"not a device: {entry[:60]!r}", "expected INDEX=PCI=UUID, '-' where not known"
            )
        return HostDevice(
            index=self._number(parts[0], "device index"),
            pci_bus_id=self._pci(parts[1]),
            uuid=self._optional(_UUID, parts[2], "uuid"),
        )

    def _read_seat(self, line: str) -> None:
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise self._error(
                f"expected {len(COLUMNS)} tab-separated columns, found {len(cells)}",
                "the columns are: " + " ".join(COLUMNS),
            )
        cells = [cell.strip() for cell in cells]
        rank = self._number(cells[0], "rank")
        if rank != len(self.seats):
            raise self._error(
                f"expected the line of rank {len(self.seats)}, found rank {rank}",
                "one line per rank, in rank order",
            )
        seat = Seat(
            rank=rank,
            host=self._required(_HOST, cells[1], "host"),
            local_rank=self._number(cells[2], "local_rank"),
            pci_bus_id=self._pci(cells[3]),
            uuid=self._optional(_UUID, cells[4], "uuid"),
            index=self._number(cells[5], "index"),
            cpus=self._cpus(cells[6]),
            memory_node=self._memory_node(cells[7]),
            nic=self._optional(_NIC, cells[8], "nic"),
        )
        self._check_seat(seat)
        self.seats.append(seat)

    def _check_seat(self, seat: Seat) -> None:
        local = (seat.host, seat.local_rank)
        if local in self.line_of_local_rank:
            raise self._error(
                f"local rank {seat.local_rank} appears twice on host {seat.host}, first in line"
                f" {self.line_of_local_rank[local]}",
                "number the ranks of a host from 0",
            )
        self.line_of_local_rank[local] = self.line
        self._check_listed(seat)

    def _check_listed(self, seat: Seat) -> None:
        """The seat's device against the host's `# devices` line, where there is one."""
        listed = self.devices.get(seat.host, self.devices.get(ANY_HOST))
        if listed is None:
            return
        device = next((each for each in listed if each.index == seat.index), None)
        if device is None:
            raise self._error(
                f"device {seat.index} is not in the '# devices' line of host {seat.host}",
                "correct the index or the list",
            )
        pairs = ((seat.pci_bus_id, device.pci_bus_id), (seat.uuid, device.uuid))
        for own, other in pairs:
            if own is not None and other is not None and own != other:
                raise self._error(
                    f"device {seat.index} is {own} here and {other} in the '# devices' line",
                    "correct one of them",
                )

    def _number(self, text: str, what: str) -> int:
        if _NUMBER.fullmatch(text) is None:
            raise self._error(f"{what} must be a number, not {text[:40]!r}", "correct that value")
        return int(text)

    def _memory_node(self, text: str) -> int | None:
        if text == _MISSING:
            return None
        node = self._number(text, "memnode")
        if node >= MAX_NODES:
            raise self._error(f"memnode {node} is out of range", f"0 to {MAX_NODES - 1}, or '-'")
        return node

    def _cpus(self, text: str) -> str | None:
        if text == _MISSING:
            return None
        if not _is_cpu_list(text):
            raise self._error(f"not a CPU list: {text[:60]!r}", _CPU_HINT)
        return text

    def _pci(self, text: str) -> str | None:
        if text == _MISSING:
            return None
        try:
            return canonical_pci(text)
        except ValueError as error:
            raise self._error(str(error)[:120], "expected dddd:bb:dd.f, or '-'") from error

    def _required(self, pattern: re.Pattern[str], text: str, what: str) -> str:
        if text == _MISSING or pattern.fullmatch(text) is None:
            raise self._error(f"{what} is missing or wrong: {text[:60]!r}", "correct that value")
        return text

    def _optional(self, pattern: re.Pattern[str], text: str, what: str) -> str | None:
        return None if text == _MISSING else self._required(pattern, text, what)
