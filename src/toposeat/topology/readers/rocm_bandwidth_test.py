"""Reader of `rocm-bandwidth-test`: measured copies between CPUs and GPUs, distances, access.

Devices 0 to k-1 are memory nodes of the host, the GPUs follow; every matrix has them all, row =
source. `N/A` on the diagonal and between GPUs without peer access are not known, never zero. The
program counts copies within a device twice (an MI50 would exceed its memory else): halved here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import nan

import numpy as np
from numpy.typing import NDArray

from toposeat.model.pair import BANDWIDTH
from toposeat.model.topology import (
    Bond,
    Device,
    FactKind,
    HostNumbers,
    LinkKind,
    PairNumbers,
    PathClass,
    Topology,
    Vendor,
    canonical_pci,
)
from toposeat.topology.readers.amd_smi import DIRECT_WEIGHT, SAME_NODE_WEIGHT
from toposeat.topology.readers.cells import (
    GB_PER_S,
    NUMBER_CELLS,
    counted_numbers,
    host_numbers,
    is_number,
    values_of,
)
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import (
    MAX_ENDPOINTS,
    Line,
    Table,
    clean_lines,
    find_tables,
    sections,
)
from toposeat.topology.relation import UNKNOWN, Relation
from toposeat.topology.told import Place, told_machine

_DEVICE = re.compile(r"\s*Device:\s*(\d{1,4}),(.*)", re.ASCII)
_BUS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", re.I | re.ASCII)
_UUID = re.compile(r"GPU-[0-9a-f]{16}", re.ASCII)
_TITLES = {
    "access": re.compile(r"inter-device access", re.IGNORECASE),
    "link": re.compile(r"inter-device link type", re.IGNORECASE),
    "distance": re.compile(r"inter-device numa distance", re.IGNORECASE),
    "uni": re.compile(r"unidirectional (copy peak )?(bandwidth|copy)", re.IGNORECASE),
    "both": re.compile(r"bidirectional (copy peak )?(bandwidth|copy)", re.IGNORECASE),
}
_UNIT = re.compile(r"[A-Za-z]+/s\b", re.ASCII)
_TABLE = replace(
    counted_numbers("D/D"),
    is_cell=lambda cell: cell in ("X", "P") or _is_number(cell),
    split=None,
)


@dataclass(kw_only=True)
class _Run:
    """One run of the program as read."""

    file: FileText
    cpus: int
    gpus: list[Device]
    matrices: dict[str, Table] = field(default_factory=dict)
    report: list[str] = field(default_factory=list)


def _is_number(cell: str) -> bool:
    """N/A is the one word that the program has for a copy that was not made."""
    return cell == "N/A" or (is_number(cell) and cell[0].isdigit())


def looks_like(file: FileText) -> bool:
    """Whether this is, or was meant to be, output of rocm-bandwidth-test."""
    return "RocmBandwidthTest" in file.start or (
        re.search(r"^\s*D/D\s+0", file.start, re.M) is not None
        and re.search(r"Inter-Device|directional copy", file.start) is not None
    )


def parse(file: FileText) -> Topology:
    """Read devices and all matrices."""
    lines = clean_lines(file.text)
    run = _devices(lines, file)
    for kind, line, below in sections(lines, _title):
        unit = _UNIT.search(line.text) if kind in ("uni", "both") else None
        if unit is not None and unit[0] != "GB/s":
            raise file.refusal(f"bandwidths in {unit[0]}: unknown unit", line.number)
        tables = find_tables(below, _TABLE, file)
        total = run.cpus + len(run.gpus)
        if not tables:
            if any(each.text.split()[:1] == ["D/D"] for each in below):
                raise file.refusal(f"no row of the {kind} matrix: it is truncated", line.number)
            continue
        table = tables[0]
        if len(table.columns) != total:
            raise file.refusal(
                f"a matrix of {len(table.columns)} devices, {total} are listed", table.line
            )
        if run.matrices.setdefault(kind, table) is not table:
            run.report.append(f"a second {kind} matrix at line {table.line} was not read")
    if not run.matrices:
        raise file.refusal("no matrix found")
    return _facts(run)


def _title(line: Line) -> str | None:
    text = line.text.strip()
    return next((kind for kind, title in _TITLES.items() if title.match(text)), None)


def _devices(lines: Sequence[Line], file: FileText) -> _Run:
    """CPUs have a name alone, GPUs an identifier and a PCI bus id behind it.

    Where all lines are bare (anonymised reports) the words CPU and GPU must tell.
    """
    rows: list[tuple[int, list[str], int]] = []
    for line in lines:
        match = _DEVICE.fullmatch(line.text)
        if match:
            parts = [part.strip() for part in match.group(2).split(",")]
            rows.append((int(match.group(1)), parts, line.number))
    if not rows or len(rows) > MAX_ENDPOINTS:
        raise file.refusal(f"{len(rows)} device lines")
    if [number for number, _, _ in rows] != list(range(len(rows))):
        raise file.refusal("devices are not numbered from 0 on", rows[0][2])
    is_gpu = [_is_gpu(parts) for _, parts, _ in rows]
    if True not in is_gpu:
        raise file.refusal("no GPU among the devices", rows[-1][2])
    cpus = is_gpu.index(True)
    if not all(is_gpu[cpus:]) or not cpus:
        raise file.refusal("the CPUs do not come first", rows[cpus][2])
    gpus = [_gpu(number - cpus, parts) for number, parts, _ in rows[cpus:]]
    return _Run(file=file, cpus=cpus, gpus=gpus)


def _is_gpu(parts: list[str]) -> bool:
    return len(parts) > 1 or re.fullmatch(r"GPU|.*(Radeon|Instinct|gfx\d).*", parts[0]) is not None


def _gpu(index: int, parts: list[str]) -> Device:
    bus = next((match for part in parts[1:] if (match := _BUS.fullmatch(part))), None)
    return Device(
        id=f"GPU{index}",
        index=index,
        vendor=Vendor.AMD,
        name=parts[0] if parts[0] != "GPU" else "",
        pci_bus_id=_canonical(bus) if bus else None,
        uuid=next((part for part in parts[1:] if _UUID.fullmatch(part)), None),
    )


def _canonical(match: re.Match[str]) -> str:
    """`83:0.0` as the bus id it stands for: numbers are hexadecimal, without leading zeros."""
    domain, bus, device, function = match.groups()
    return canonical_pci(f"{domain or '0000'}:{bus:0>2}:{device:0>2}.{function}")


def _facts(run: _Run) -> Topology:
    distance = _numbers(run, "distance")
    gpus = run.cpus + np.arange(len(run.gpus))
    if distance is not None:
        _place(run, distance)
    access = _access(run)
    if any(access[i, j] != access[j, i] for i, j in access):
        run.report.append("peer access differs by direction: each direction is kept as it is")
    copies = _numbers(run, "uni", BANDWIDTH)
    host: tuple[HostNumbers, ...] = ()
    if copies is not None:
        nodes = np.arange(run.cpus)
        to, back = copies[np.ix_(nodes, gpus)], copies[np.ix_(gpus, nodes)].T
        host = host_numbers(to, back, [gpu.id for gpu in run.gpus], range(run.cpus))
    links, paths = _connections(run, distance)
    return told_machine(
        origin="rocm-bandwidth-test",
        devices=run.gpus,
        pcie_relations=paths,
        peer_access=access,
        numbers=_pairs(run, gpus, access),
        host_copies=host,
        bonds=links,
        tells={FactKind.DEVICE_LINKS} if "link" in run.matrices else set(),
        report=run.report,
    )


def _place(run: _Run, distance: NDArray[np.float64]) -> None:
    """The memory node nearest to each GPU, where exactly one is."""
    for i, gpu in enumerate(run.gpus):
        row = run.cpus + i
        steps = [
            np.nanmin([to, back]) if not (np.isnan(to) and np.isnan(back)) else nan
            for to, back in zip(distance[row, : run.cpus], distance[: run.cpus, row], strict=True)
        ]
        if all(np.isnan(steps)):
            continue
        near = [node for node, step in enumerate(steps) if step == np.nanmin(steps)]
        if len(near) == 1:
            run.gpus[i] = replace(gpu, numa_node=near[0])
        else:
            run.report.append(f"{gpu.id} is as near to memory nodes {near}: none is taken")


def _access(run: _Run) -> dict[tuple[int, int], bool]:
    """Access of GPUs to GPUs: row reaches column."""
    if "access" not in run.matrices:
        return {}
    cells = _cells(run, "access", ("0", "1"))
    return {(i, j): cell == "1" for (i, j), cell in cells.items() if i != j}


def _cells(run: _Run, kind: str, words: tuple[str, ...]) -> dict[tuple[int, int], str]:
    """Words between GPUs."""
    found: dict[tuple[int, int], str] = {}
    for i, row in enumerate(run.matrices[kind].rows[run.cpus :]):
        for j, cell in enumerate(row.cells[run.cpus :]):
            if cell not in words:
                message = f"{cell!r:.40} where {' or '.join(words)} belongs"
                raise run.file.refusal(message, row.line)
            found[i, j] = cell
    return found


def _numbers(run: _Run, kind: str, what: str | None = None) -> NDArray[np.float64] | None:
    """A matrix of numbers, bandwidths in bytes/s; N/A is NaN."""
    table = run.matrices.get(kind)
    if table is None:
        return None
    for row in table.rows:
        if bad := [cell for cell in row.cells if not _is_number(cell)]:
            message = f"{bad[0]!r:.40} where {NUMBER_CELLS} belongs"
            raise run.file.refusal(message, row.line)
    unit = GB_PER_S if what else 1.0
    return values_of(table, run.file, what, unit)


def _pairs(
    run: _Run, gpus: NDArray[np.int64], access: dict[tuple[int, int], bool]
) -> list[PairNumbers]:
    """Between GPUs; the tool copies directly, and only where access is granted."""
    found: list[PairNumbers] = []
    for kind in ("uni", "both"):
        values = _numbers(run, kind, BANDWIDTH)
        if values is None:
            continue
        chosen = values[np.ix_(gpus, gpus)]
        chosen[np.diag_indices_from(chosen)] /= 2
        apart = chosen[~np.eye(len(gpus), dtype=bool)]
        if kind == "both":
            np.fill_diagonal(chosen, nan)
        if np.isnan(apart).all() and kind == "both":
            continue
        if len(gpus) > 1 and np.isnan(apart).all():
            run.report.append("no copy between GPUs was measured: they have no peer access")
        found.append(
            PairNumbers(
                what=BANDWIDTH,
                values=chosen,
                both_ways=kind == "both",
                engine="ce",
                peer=True if access and not np.isnan(apart).all() else None,
            )
        )
    return found


def _connections(
    run: _Run, distance: NDArray[np.float64] | None
) -> tuple[dict[Place, Bond], dict[Place, Relation]]:
    """XGMI links, and PCIe paths where xGMI does not hide them all.

    A link is where the link table says X and the distance is one hop, or where the distance is 15:
    PCIe between GPUs weighs 40 at least. Above 40 it crosses memory nodes; below nothing is known
    of switches.
    """
    types = _cells(run, "link", ("X", "P", "N/A")) if "link" in run.matrices else None
    links: dict[Place, Bond] = {}
    paths: dict[Place, Relation] = {}
    far = 0
    pairs = list(combinations(range(len(run.gpus)), 2))
    for i, j in pairs:
        step = nan if distance is None else distance[run.cpus + i, run.cpus + j]
        xgmi = types[i, j] == "X" if types is not None else step == DIRECT_WEIGHT
        if xgmi and (np.isnan(step) or step <= DIRECT_WEIGHT):
            links[i, j] = links[j, i] = Bond(kind=LinkKind.XGMI)
        far += xgmi and step > DIRECT_WEIGHT
        if step > SAME_NODE_WEIGHT:
            paths[i, j] = Relation(PathClass.SYS)
    if far:
        run.report.append(f"{far} xGMI pairs are more than one hop apart: they have no own link")
    return links, paths if paths or links else dict.fromkeys(pairs, UNKNOWN)
