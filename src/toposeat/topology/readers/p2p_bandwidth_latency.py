"""Reader of `p2pBandwidthLatencyTest`, the CUDA sample that measures all pairs of GPUs.

Which way the numbers go depends on the sample's age, seen in its source: since it prints
"(P2P Writes)", the row's device writes to the column's (row -> column), and "(P2P Reads)" and all
older versions copy from the column's device to the row's (column -> row). The new versions count
each byte of a copy within one device twice (read and write); here it counts once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.topology import Vendor, canonical_pci
from toposeat.topology.facts import BANDWIDTH, LATENCY, DeviceFact, MachineFacts, PairNumbers
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.number_table import (
    NumberTable,
    check_numbers,
    check_square,
    find_number_tables,
    report_asymmetry,
    report_cut,
    without_marks,
)
from toposeat.topology.readers.word_table import Line, clean_lines

GB_PER_S = 1e9  # the sample divides bytes by 1e9
MICROSECOND = 1e-6

NUMBERED_BY_CUDA = (
    "GPUs have CUDA's numbers only, whose order is taken to be that of nvidia-smi (so it is with"
    " CUDA_DEVICE_ORDER=PCI_BUS_ID)"
)
_ORIGIN = "p2pBandwidthLatencyTest output"
_HINT = "save the whole output again: p2pBandwidthLatencyTest > FILE"
_TITLE = re.compile(
    r"(?:(?P<ways>Uni|Bi)directional\s+)?P2P=(?P<peer>Enabled|Disabled)\s+"
    r"(?P<what>Bandwidth|Latency)\s*(?:\(P2P\s+(?P<operation>Writes|Reads)\)\s*)?Matrix\s*"
    r"\((?P<unit>[A-Za-z/]{1,6})\)",
    re.IGNORECASE,
)
_ACCESS = re.compile(r"P2P Connectivity Matrix", re.IGNORECASE)
_DEVICE = re.compile(
    r"Device:\s*(\d{1,3}),\s*(.{1,120}?),\s*pciBusID:\s*([0-9a-f]{1,2}),\s*"
    r"pciDeviceID:\s*([0-9a-f]{1,2}),\s*pciDomainID:\s*([0-9a-f]{1,8})\b",
    re.IGNORECASE | re.ASCII,
)
_CAN = re.compile(r"Device=(\d{1,3}) (CAN|CANNOT) Access Peer Device=(\d{1,3})\b", re.ASCII)
_UNITS = {"gb/s": (BANDWIDTH, GB_PER_S), "us": (LATENCY, MICROSECOND)}


@dataclass(frozen=True, slots=True)
class _Title:
    """What a heading says of the matrix below it."""

    line: int
    what: str
    unit: float
    peer: bool
    both_ways: bool
    operation: str

    @property
    def key(self) -> tuple[str, bool, bool, str]:
        return self.what, self.peer, self.both_ways, self.operation


def looks_like(file: FileText) -> bool:
    """Whether a heading of the sample is among the first lines."""
    return _TITLE.search(file.start) is not None or "P2P (Peer-to-Peer) GPU" in file.start[:2000]


def parse(file: FileText) -> MachineFacts:
    """Read what the sample measured: every matrix, with peer access on and off.

    Raises:
        InputError: with file and line: no matrix, truncated, or of different sizes.
    """
    lines = clean_lines(file.text)
    tables = find_number_tables(lines, file.path)
    titles = _titles(lines, file)
    access_line = next((x.number for x in lines if _ACCESS.search(x.text)), None)
    matched = _matched(titles, tables, access_line, file)
    for title, table in matched:
        check_numbers(table, title.what, title.unit, file.path)
    count = _count(tables, file)
    report: list[str] = []
    devices = _devices(lines, count, report, file)
    if access_line is None:
        access = _stated_access(lines, count, file)
    else:
        end = min((t.line for t in titles if t.line > access_line), default=len(lines) + 1)
        below = next((t for t in tables if access_line < t.line < end), None)
        access = _connectivity(below, access_line, file)
    if any(title.peer for title, _ in matched) and not access:
        report.append(
            "which pairs can reach each other is not stated: all are taken to have had peer access"
            " where it was enabled"
        )
    pairs = _all_numbers(matched, access, report)
    report_cut(file.text, tables, report)
    if any(table.corner.upper() == "CPU" for table in tables):
        report.append("CPU latencies (the time to queue a copy) are not used")
    return MachineFacts(
        origin=_ORIGIN, devices=devices, peer_access=access, pairs=pairs, report=tuple(report)
    )


def _titles(lines: Sequence[Line], file: FileText) -> list[_Title]:
    titles = []
    for line in lines:
        match = _TITLE.search(line.text)
        if match is None:
            continue
        what, unit = _UNITS.get(match["unit"].lower(), ("", 0.0))
        if what != match["what"].lower():
            raise InputError(
                f"{match['what'].lower()} in {match['unit']}: unknown unit",
                path=file.path,
                line=line.number,
                hint="known are GB/s for bandwidth and us for latency",
            )
        titles.append(
            _Title(
                line=line.number,
                what=what,
                unit=unit,
                peer=match["peer"].lower() == "enabled",
                both_ways=(match["ways"] or "").lower() == "bi",
                operation={"w": "write", "r": "read"}.get(
                    (match["operation"] or " ")[0].lower(), ""
                ),
            )
        )
    return titles


def _matched(
    titles: list[_Title], tables: list[NumberTable], access_line: int | None, file: FileText
) -> list[tuple[_Title, NumberTable]]:
    """Each heading with the matrix below it (for latencies the GPU's, not the CPU's)."""
    if not titles and access_line is None:
        raise InputError("no matrix of p2pBandwidthLatencyTest found", path=file.path, hint=_HINT)
    matched = []
    starts = [*(t.line for t in titles), *([access_line] if access_line else [])]
    for title in titles:
        end = min((x for x in starts if x > title.line), default=len(file.lines) + 1)
        below = [t for t in tables if title.line < t.line < end and t.corner.upper() != "CPU"]
        if not below:
            raise InputError(
                "the heading has no matrix below it: the output is truncated",
                path=file.path,
                line=title.line,
                hint=_HINT,
            )
        matched.append((title, below[0]))
    return matched


def _count(tables: list[NumberTable], file: FileText) -> int:
    """The number of GPUs, which all matrices agree on."""
    if not tables:
        raise InputError("no matrix below its heading", path=file.path, hint=_HINT)
    for table in tables:
        check_square(table, file.path)
        if len(table.values) != len(tables[0].values):
            raise InputError(
                f"this matrix is of {len(table.values)} GPUs, that of line {tables[0].line} of"
                f" {len(tables[0].values)}",
                path=file.path,
                line=table.line,
                hint="one run of the sample per file",
            )
    return len(tables[0].values)


def _devices(
    lines: Sequence[Line], count: int, report: list[str], file: FileText
) -> tuple[DeviceFact, ...]:
    """GPUs by CUDA's number; names and bus ids where the sample listed them.

    CUDA's order need not be that of nvidia-smi, so bus ids are the better name.
    """
    found: dict[int, DeviceFact] = {}
    for line in lines:
        match = _DEVICE.search(line.text)
        if match is None:
            continue
        number = int(match[1])
        if number >= count:
            raise InputError(
                f"device {number} is listed, but the matrices are of {count} GPUs",
                path=file.path,
                line=line.number,
                hint=_HINT,
            )
        bus = f"{int(match[5], 16):x}".zfill(4)
        found[number] = DeviceFact(
            label=f"CUDA {number}",
            vendor=Vendor.NVIDIA,
            name=match[2].strip(),
            pci_bus_id=canonical_pci(f"{bus}:{match[3].zfill(2)}:{match[4].zfill(2)}.0"),
        )
    if len(found) == count:
        return tuple(found[i] for i in range(count))
    report.append(NUMBERED_BY_CUDA)
    return tuple(DeviceFact(label=f"CUDA {i}", vendor=Vendor.NVIDIA) for i in range(count))


def _stated_access(
    lines: Sequence[Line], count: int, file: FileText
) -> dict[tuple[int, int], bool]:
    """Which device can reach which, from the sentences that all versions print."""
    access: dict[tuple[int, int], bool] = {}
    for line in lines:
        match = _CAN.search(line.text)
        if match is None:
            continue
        pair = int(match[1]), int(match[3])
        if max(pair) >= count or pair[0] == pair[1]:
            raise InputError(
                f"peer access from device {pair[0]} to {pair[1]}, but the matrices are of {count}"
                " GPUs",
                path=file.path,
                line=line.number,
                hint=_HINT,
            )
        access[pair] = match[2] == "CAN"
    return access


def _connectivity(
    table: NumberTable | None, line: int, file: FileText
) -> dict[tuple[int, int], bool]:
    """The same from the matrix that newer versions print as well."""
    if table is None or not np.isin(table.values, (0.0, 1.0)).all():
        raise InputError(
            "the connectivity matrix is damaged: no matrix of 0 and 1",
            path=file.path,
            line=line,
            hint=_HINT,
        )
    return {(i, j): bool(can) for (i, j), can in np.ndenumerate(table.values) if i != j}


def _all_numbers(
    matched: list[tuple[_Title, NumberTable]],
    access: dict[tuple[int, int], bool],
    report: list[str],
) -> tuple[PairNumbers, ...]:
    """The matrices in SI units, source device first, and in `PairNumbers`' terms."""
    new = any(title.operation for title, _ in matched)
    old = not new and any(title.peer for title, _ in matched)
    if not new and not old and matched:
        report.append(
            "the sample's version is not known, so neither is which way its numbers go: row to"
            " column is assumed, as new versions measure"
        )
    numbers: dict[tuple[str, bool, bool, str], PairNumbers] = {}
    for title, table in matched:
        values = table.values * title.unit
        if title.what == BANDWIDTH:
            np.fill_diagonal(values, np.nan if old else np.diag(values) / 2)
        if old or title.operation == "read":
            values = values.T.copy()
        if title.key in numbers:
            report.append(f"line {title.line} repeats a matrix: the first is used")
            continue
        numbers[title.key] = PairNumbers(
            what=title.what,
            values=values,
            peer=title.peer,
            both_ways=title.both_ways,
            operation=title.operation,
        )
        if not title.both_ways:
            report_asymmetry(values, _name_of(title), report)
    return _without_fallbacks(numbers, access, report)


def _name_of(title: _Title) -> str:
    return f"{title.what} with peer access {'on' if title.peer else 'off'}"


def _without_fallbacks(
    numbers: dict[tuple[str, bool, bool, str], PairNumbers],
    access: dict[tuple[int, int], bool],
    report: list[str],
) -> tuple[PairNumbers, ...]:
    """Numbers of pairs that have no peer access are no numbers of peer access.

    With peer access enabled, the sample silently copies through the host where it cannot be had.
    """
    unreachable = [pair for pair, can in access.items() if not can]
    result: list[PairNumbers] = []
    for each in numbers.values():
        if not each.peer or not unreachable:
            result.append(each)
            continue
        reached, staged = each.values.copy(), np.full_like(each.values, np.nan)
        for i, j in unreachable:
            for pair in ((i, j), (j, i)):  # the sample enables both directions or none
                if not np.isnan(reached[pair]):
                    staged[pair] = reached[pair]
                reached[pair] = np.nan
        if _says_something(reached):
            result.append(replace(each, values=reached))
        if (each.what, False, each.both_ways, "") not in numbers:
            result.append(replace(each, values=staged, peer=False, operation=""))
    if unreachable:
        report.append(
            f"no peer access between {len(unreachable)} ordered pairs: what was measured there"
            " with peer access enabled went through the host"
        )
    return tuple(result)


def _says_something(values: NDArray[np.float64]) -> bool:
    return bool(np.isfinite(values[~np.eye(len(values), dtype=bool)]).any())


def heading_of(text: str) -> bool:
    """Whether a line begins this sample's output, for files that hold several."""
    text = without_marks(text)
    return text.startswith("[P2P (Peer-to-Peer) GPU") or bool(
        _TITLE.match(text) or _ACCESS.match(text)
    )
