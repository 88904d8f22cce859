r"""Reader of `p2pBandwidthLatencyTest`, the CUDA sample that measures all pairs of GPUs.

    Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
       D\D     0      1
         0 752.60  68.46
         1  68.51 735.64

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

from toposeat.model.pair import BANDWIDTH, LATENCY
from toposeat.model.topology import Device, PairNumbers, Topology, Vendor, canonical_pci
from toposeat.topology.readers.cells import (
    GB_PER_S,
    MICROSECOND,
    counted_numbers,
    report_asymmetry,
    report_cut,
    values_of,
)
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import Line, Table, clean_lines, find_tables, sections
from toposeat.topology.told import told_machine

NUMBERED_BY_CUDA = (
    "GPUs have CUDA's numbers only, whose order is taken to be that of nvidia-smi (so it is with"
    " CUDA_DEVICE_ORDER=PCI_BUS_ID)"
)
_TABLE = counted_numbers(r"[A-Za-z][\w\\/]{0,11}\s")
_TITLE = re.compile(
    r"(?:(?P<ways>Uni|Bi)directional\s+)?P2P=(?P<peer>Enabled|Disabled)\s+"
    r"(?P<what>Bandwidth|Latency)\s*(?:\(P2P\s+(?P<operation>Writes|Reads)\)\s*)?Matrix\s*"
    r"\((?P<unit>[A-Za-z/]{1,6})\)|(?P<access>P2P Connectivity Matrix)",
    re.IGNORECASE,
)
_DEVICE = re.compile(
    r"Device:\s*(\d{1,3}),\s*(.{1,120}?),\s*pciBusID:\s*([0-9a-f]{1,2}),\s*"
    r"pciDeviceID:\s*([0-9a-f]{1,2}),\s*pciDomainID:\s*([0-9a-f]{1,8})\b",
    re.IGNORECASE | re.ASCII,
)
_CAN = re.compile(r"Device=(\d{1,3}) (CAN|CANNOT) Access Peer Device=(\d{1,3})\b", re.ASCII)
_UNITS = {
    ("bandwidth", "gb/s"): (BANDWIDTH, GB_PER_S),
    ("latency", "us"): (LATENCY, MICROSECOND),
}


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A table of the GPUs and what its title says of it; `what` is "" for peer access."""

    what: str
    unit: float
    peer: bool
    both_ways: bool
    operation: str
    table: Table

    @property
    def key(self) -> tuple[str, bool, bool, str]:
        return self.what, self.peer, self.both_ways, self.operation


def parse(file: FileText) -> Topology:
    """Read what the sample measured: every matrix, with peer access on and off."""
    lines = clean_lines(file.text)
    report: list[str] = []
    matrices, tables = _matrices(lines, file)
    count = len(tables[0].columns)
    for table in tables:
        if len(table.columns) != count:
            raise file.refusal(
                f"this matrix is of {len(table.columns)} GPUs, that of line {tables[0].line} of"
                f" {count}",
                table.line,
                hint="one run of the sample per file",
            )
    devices = _devices(lines, count, report, file)
    access = _access(lines, matrices, count, file)
    if any(matrix.what and matrix.peer for matrix in matrices) and not access:
        report.append(
            "which pairs can reach each other is not stated: all are taken to have had peer access"
            " where it was enabled"
        )
    rates = [matrix for matrix in matrices if matrix.what == BANDWIDTH]
    if rates and all(matrix.both_ways for matrix in rates):
        report.append(
            "the table of one direction (Unidirectional P2P=Enabled Bandwidth) is missing: sums of"
            " both directions tell no rate of one, and are not used for it"
        )
    pairs = _numbers([matrix for matrix in matrices if matrix.what], access, report, file)
    report_cut(file.text, tables, report)
    if any(table.corner.strip().upper() == "CPU" for table in tables):
        report.append("CPU latencies (the time to queue a copy) are not used")
    return told_machine(
        origin="p2pBandwidthLatencyTest output",
        devices=devices,
        peer_access=access,
        numbers=pairs,
        report=report,
    )


def _matrices(lines: Sequence[Line], file: FileText) -> tuple[list[_Matrix], list[Table]]:
    """Each title with the GPUs' table below it, and all tables, those of CPU latencies too."""
    found: list[_Matrix] = []
    tables: list[Table] = []
    for title, line, below in sections(lines, lambda each: _TITLE.search(each.text)):
        here = find_tables(below, _TABLE, file)
        own = [table for table in here if table.corner.strip().upper() != "CPU"]
        if not own:
            raise file.refusal("no matrix below its heading: the output is truncated", line.number)
        tables += here
        what, unit = "", 1.0
        if title["what"]:
            stated = title["what"].lower(), title["unit"].lower()
            if stated not in _UNITS:
                raise file.refusal(f"{stated[0]} in {title['unit']}: unknown unit", line.number)
            what, unit = _UNITS[stated]
        found.append(
            _Matrix(
                what=what,
                unit=unit,
                peer=(title["peer"] or "").lower() == "enabled",
                both_ways=(title["ways"] or "").lower() == "bi",
                operation=(title["operation"] or "").lower().removesuffix("s"),
                table=own[0],
            )
        )
    if not tables:
        raise file.refusal("no matrix below its heading")
    return found, tables


def _devices(
    lines: Sequence[Line], count: int, report: list[str], file: FileText
) -> tuple[Device, ...]:
    """GPUs by CUDA's number; names and bus ids where the sample listed them.

    CUDA's order need not be that of nvidia-smi, so bus ids are the better name.
    """
    found: dict[int, Device] = {}
    for line in lines:
        match = _DEVICE.search(line.text)
        if match is None:
            continue
        number = int(match[1])
        if number >= count:
            raise file.refusal(
                f"device {number} is listed, but the matrices are of {count} GPUs", line.number
            )
        bus = f"{int(match[5], 16):x}".zfill(4)
        found[number] = Device(
            id=f"CUDA {number}",
            vendor=Vendor.NVIDIA,
            name=match[2].strip(),
            pci_bus_id=canonical_pci(f"{bus}:{match[3].zfill(2)}:{match[4].zfill(2)}.0"),
        )
    if len(found) == count:
        return tuple(found[i] for i in range(count))
    report.append(NUMBERED_BY_CUDA)
    return tuple(Device(id=f"CUDA {i}", vendor=Vendor.NVIDIA) for i in range(count))


def _access(
    lines: Sequence[Line], matrices: Sequence[_Matrix], count: int, file: FileText
) -> dict[tuple[int, int], bool]:
    """Which device can reach which: from a matrix, or from the sentences of all versions."""
    table = next((matrix.table for matrix in matrices if not matrix.what), None)
    if table is not None:
        values = values_of(table, file)
        if not np.isin(values, (0.0, 1.0)).all():
            raise file.refusal(
                "the connectivity matrix is damaged: no matrix of 0 and 1", table.line
            )
        return {(i, j): bool(can) for (i, j), can in np.ndenumerate(values) if i != j}
    access: dict[tuple[int, int], bool] = {}
    for line in lines:
        match = _CAN.search(line.text)
        if match is None:
            continue
        pair = int(match[1]), int(match[3])
        if max(pair) >= count or pair[0] == pair[1]:
            raise file.refusal(
                f"peer access from device {pair[0]} to {pair[1]}, but the matrices are of {count}"
                " GPUs",
                line.number,
            )
        access[pair] = match[2] == "CAN"
    return access


def _numbers(
    matrices: Sequence[_Matrix],
    access: dict[tuple[int, int], bool],
    report: list[str],
    file: FileText,
) -> tuple[PairNumbers, ...]:
    """The matrices in SI units, source device first, and in `PairNumbers`' terms."""
    new = any(matrix.operation for matrix in matrices)
    old = not new and any(matrix.peer for matrix in matrices)
    if not new and not old and matrices:
        report.append(
            "the sample's version is not known, so neither is which way its numbers go: row to"
            " column is assumed, as new versions measure"
        )
    numbers: dict[tuple[str, bool, bool, str], PairNumbers] = {}
    for each in matrices:
        values = values_of(each.table, file, each.what, each.unit)
        if each.what == BANDWIDTH:
            np.fill_diagonal(values, np.nan if old else np.diag(values) / 2)
        if old or each.operation == "read":
            values = values.T.copy()
        if each.key in numbers:
            report.append(f"line {each.table.line} repeats a matrix: the first is used")
            continue
        numbers[each.key] = PairNumbers(
            what=each.what,
            values=values,
            peer=each.peer,
            both_ways=each.both_ways,
            operation=each.operation,
        )
        if not each.both_ways:
            peer = "on" if each.peer else "off"
            report_asymmetry(values, f"{each.what} with peer access {peer}", report)
    return _without_fallbacks(numbers, access, report)


def _without_fallbacks(
    numbers: dict[tuple[str, bool, bool, str], PairNumbers],
    access: dict[tuple[int, int], bool],
    report: list[str],
) -> tuple[PairNumbers, ...]:
    """The matrices; numbers of pairs without peer access count as measured without it.

    With peer access enabled, the sample silently copies through the host where a pair has none.
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
        if np.isfinite(reached[~np.eye(len(reached), dtype=bool)]).any():
            result.append(replace(each, values=reached))
        if (each.what, False, each.both_ways, "") not in numbers:
            result.append(replace(each, values=staged, peer=False, operation=""))
    if unreachable:
        report.append(
            f"no peer access between {len(unreachable)} ordered pairs: what was measured there"
            " with peer access enabled went through the host"
        )
    return tuple(result)
