"""Reader of `rocm-bandwidth-test`: measured copies between CPUs and GPUs, distances, access.

Devices 0 to k-1 are memory nodes of the host, the GPUs follow; every matrix has them all, row =
source. `N/A` on the diagonal and between GPUs without peer access are not known, never zero. The
program counts copies within a device twice (an MI50 would exceed its memory else): halved here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.number_checks import check_pair_number
from toposeat.model.topology import LinkKind, PathClass, Vendor, canonical_pci
from toposeat.topology.facts import (
    BANDWIDTH,
    DeviceFact,
    HostNumbers,
    LinkFact,
    MachineFacts,
    PairNumbers,
)
from toposeat.topology.graph.relation import Relation, RelationMatrix
from toposeat.topology.readers.amd_links import DIRECT_WEIGHT
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.word_table import MAX_ENDPOINTS, Line, clean_lines

_SAVE = "save the whole output again: rocm-bandwidth-test > FILE"
_GB = 1e9
_SAME_NODE_WEIGHT = 40
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
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Matrix:
    """Cells by row and column, and the line of each row."""

    cells: list[list[str]]
    lines: list[int]
    line: int


@dataclass(kw_only=True)
class _Run:
    """One run of the program as read."""

    file: FileText
    cpus: int
    gpus: list[DeviceFact]
    matrices: dict[str, _Matrix] = field(default_factory=dict)
    report: list[str] = field(default_factory=list)


def looks_like(file: FileText) -> bool:
    """Whether this is, or was meant to be, output of rocm-bandwidth-test."""
    return "RocmBandwidthTest" in file.start or (
        re.search(r"^\s*D/D\s+0", file.start, re.M) is not None
        and re.search(r"Inter-Device|directional copy", file.start) is not None
    )


def heading_of(text: str) -> bool:
    """Whether a line begins a run: the version, or the first device (NVIDIA's have `pciBusID`)."""
    first = text.lstrip().startswith("Device: 0,") and "pciBusID" not in text
    return first or "RocmBandwidthTest" in text


def parse(file: FileText) -> MachineFacts:
    """Read devices and all matrices.

    Raises:
        InputError: with file and line: no devices, a matrix that is cut or of other devices.
    """
    lines = clean_lines(file.text)
    run = _devices(lines, file)
    total = run.cpus + len(run.gpus)
    position = 0
    while position < len(lines):
        kind = _title(lines[position].text)
        position += 1
        if kind is not None:
            _check_unit(lines[position - 1], kind, file)
            matrix, position = _matrix(lines, position, total, file)
            if matrix is not None and run.matrices.setdefault(kind, matrix) is not matrix:
                run.report.append(f"a second {kind} matrix at line {matrix.line} was not read")
    if not run.matrices:
        raise InputError("no matrix found", path=file.path, hint=_SAVE)
    return _facts(run)


def _title(text: str) -> str | None:
    return next((kind for kind, title in _TITLES.items() if title.match(text.strip())), None)


def _check_unit(line: Line, kind: str, file: FileText) -> None:
    """Bandwidths are in GB/s, as the title says; any other unit would be read as that."""
    unit = _UNIT.search(line.text) if kind in ("uni", "both") else None
    if unit is not None and unit[0] != "GB/s":
        raise InputError(
            f"bandwidths in {unit[0]}: unknown unit",
            path=file.path,
            line=line.number,
            hint=f"known is GB/s; {_SAVE}",
        )


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
        raise InputError(f"{len(rows)} device lines", path=file.path, hint=_SAVE)
    if [number for number, _, _ in rows] != list(range(len(rows))):
        raise InputError(
            "devices are not numbered from 0 on", path=file.path, line=rows[0][2], hint=_SAVE
        )
    is_gpu = [_is_gpu(parts) for _, parts, _ in rows]
    if True not in is_gpu:
        raise InputError("no GPU among the devices", path=file.path, line=rows[-1][2], hint=_SAVE)
    cpus = is_gpu.index(True)
    if not all(is_gpu[cpus:]) or not cpus:
        raise InputError(
            "the CPUs do not come first", path=file.path, line=rows[cpus][2], hint=_SAVE
        )
    gpus = [_gpu(number - cpus, parts) for number, parts, _ in rows[cpus:]]
    return _Run(file=file, cpus=cpus, gpus=gpus)


def _is_gpu(parts: list[str]) -> bool:
    return len(parts) > 1 or re.fullmatch(r"GPU|.*(Radeon|Instinct|gfx\d).*", parts[0]) is not None


def _gpu(index: int, parts: list[str]) -> DeviceFact:
    bus = next((match for part in parts[1:] if (match := _BUS.fullmatch(part))), None)
    return DeviceFact(
        label=f"GPU{index}",
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


def _matrix(
    lines: Sequence[Line], position: int, total: int, file: FileText
) -> tuple[_Matrix | None, int]:
    """The matrix below a title and the position after it; None if the title stands alone."""
    header: Line | None = None
    cells: list[list[str]] = []
    numbers: list[int] = []
    while position < len(lines) and len(cells) < total:
        line = lines[position]
        tokens = line.text.split()
        if not tokens:
            position += 1
            continue
        if header is None:
            if tokens[0] != "D/D":
                return None, position
            if tokens[1:] != [str(i) for i in range(total)]:
                raise InputError(
                    f"a matrix of {len(tokens) - 1} devices, {total} are listed",
                    path=file.path,
                    line=line.number,
                    hint=_SAVE,
                )
            header = line
        elif tokens[0] == str(len(cells)) and len(tokens) == total + 1:
            cells.append(tokens[1:])
            numbers.append(line.number)
        else:
            raise InputError(
                f"row {len(cells)} of a matrix of {total} devices is missing or cut",
                path=file.path,
                line=line.number,
                hint=_SAVE,
            )
        position += 1
    if header is None:
        return None, position
    if len(cells) < total:
        raise InputError(
            f"the matrix has {len(cells)} of {total} rows: it is truncated",
            path=file.path,
            line=header.number,
            hint=_SAVE,
        )
    return _Matrix(cells, numbers, header.number), position


def _facts(run: _Run) -> MachineFacts:
    distance = _numbers(run, "distance")
    gpus = run.cpus + np.arange(len(run.gpus))
    if distance is not None:
        _place(run, distance)
    access = _access(run)
    if access and _is_partial(access):
        run.report.append("peer access differs by direction: each direction is kept as it is")
    return MachineFacts(
        origin="rocm-bandwidth-test",
        devices=tuple(run.gpus),
        pcie_relations=_pcie(run, distance),
        peer_access=access,
        pairs=tuple(_pairs(run, gpus, access)),
        host=tuple(_host(run)),
        links=tuple(_links(run, distance)),
        report=tuple(run.report),
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
            run.gpus[i] = _with_node(gpu, near[0])
        else:
            run.report.append(f"{gpu.label} is as near to memory nodes {near}: none is taken")


def _with_node(gpu: DeviceFact, node: int) -> DeviceFact:
    return DeviceFact(
        label=gpu.label,
        index=gpu.index,
        vendor=gpu.vendor,
        name=gpu.name,
        pci_bus_id=gpu.pci_bus_id,
        uuid=gpu.uuid,
        numa_node=node,
    )


def _access(run: _Run) -> dict[tuple[int, int], bool]:
    """Access of GPUs to GPUs: row reaches column."""
    matrix = run.matrices.get("access")
    if matrix is None:
        return {}
    found: dict[tuple[int, int], bool] = {}
    for i in range(len(run.gpus)):
        for j in range(len(run.gpus)):
            cell = matrix.cells[run.cpus + i][run.cpus + j]
            if cell not in ("0", "1"):
                raise _damaged(run, matrix, run.cpus + i, cell, "0 or 1")
            if i != j:
                found[i, j] = cell == "1"
    return found


def _is_partial(access: dict[tuple[int, int], bool]) -> bool:
    return any(access[i, j] != access[j, i] for i, j in access)


def _numbers(run: _Run, kind: str) -> NDArray[np.float64] | None:
    """A matrix of numbers; N/A is NaN."""
    matrix = run.matrices.get(kind)
    if matrix is None:
        return None
    values = np.full((len(matrix.cells), len(matrix.cells)), nan)
    for i, row in enumerate(matrix.cells):
        for j, cell in enumerate(row):
            if _NUMBER.fullmatch(cell):
                values[i, j] = float(cell)
                if kind in ("uni", "both"):
                    _check_range(run, float(cell), matrix.lines[i])
            elif cell != "N/A":
                raise _damaged(run, matrix, i, cell, "a number or N/A")
    return values


def _check_range(run: _Run, value: float, line: int) -> None:
    try:
        check_pair_number(BANDWIDTH, value * _GB)
    except ValueError as error:
        raise InputError(str(error), path=run.file.path, line=line, hint=_SAVE) from None


def _damaged(run: _Run, matrix: _Matrix, row: int, cell: str, wanted: str) -> InputError:
    return InputError(
        f"{cell!r:.40} where {wanted} belongs",
        path=run.file.path,
        line=matrix.lines[row],
        hint=_SAVE,
    )


def _pairs(
    run: _Run, gpus: NDArray[np.int64], access: dict[tuple[int, int], bool]
) -> list[PairNumbers]:
    """Between GPUs; the tool copies directly, and only where access is granted."""
    found: list[PairNumbers] = []
    for kind in ("uni", "both"):
        values = _numbers(run, kind)
        if values is None:
            continue
        chosen = values[np.ix_(gpus, gpus)] * _GB
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


def _host(run: _Run) -> list[HostNumbers]:
    """One direction at a time, for each memory node and GPU."""
    values = _numbers(run, "uni")
    if values is None:
        return []
    found: list[HostNumbers] = []
    for gpu in range(len(run.gpus)):
        for node in range(run.cpus):
            to, back = values[node, run.cpus + gpu], values[run.cpus + gpu, node]
            if _measured(to) or _measured(back):
                found.append(
                    HostNumbers(
                        what=BANDWIDTH,
                        device=gpu,
                        numa_node=node,
                        to_device=_measured(to),
                        from_device=_measured(back),
                    )
                )
    return found


def _measured(value: float) -> float | None:
    """Bytes/s; None for N/A and for 0, which no copy can have."""
    return float(value) * _GB if value > 0 else None


def _links(run: _Run, distance: NDArray[np.float64] | None) -> list[LinkFact]:
    """Links where the link table says X and the distance is one hop, or where the distance is 15.

    Nothing else has that distance: PCIe between GPUs weighs 40 at least.
    """
    types = run.matrices.get("link")
    links: list[LinkFact] = []
    far = 0
    for i in range(len(run.gpus)):
        for j in range(i + 1, len(run.gpus)):
            a, b = run.cpus + i, run.cpus + j
            step = nan if distance is None else distance[a, b]
            if types is not None and types.cells[a][b] not in ("X", "P", "N/A"):
                raise _damaged(run, types, a, types.cells[a][b], "X, P or N/A")
            xgmi = types.cells[a][b] == "X" if types is not None else step == DIRECT_WEIGHT
            if xgmi and (np.isnan(step) or step <= DIRECT_WEIGHT):
                links.append(LinkFact(kind=LinkKind.XGMI, i=i, j=j))
            far += xgmi and step > DIRECT_WEIGHT
    if far:
        run.report.append(f"{far} xGMI pairs are more than one hop apart: they have no own link")
    return links


def _pcie(run: _Run, distance: NDArray[np.float64] | None) -> RelationMatrix | None:
    """Distances above 40 between GPUs cross memory nodes; below nothing is known of switches.

    None where all pairs have xGMI.
    """
    relations: dict[tuple[int, int], Relation] = {}
    for i in range(len(run.gpus)):
        for j in range(i + 1, len(run.gpus)):
            if distance is not None and distance[run.cpus + i, run.cpus + j] > _SAME_NODE_WEIGHT:
                relations[i, j] = Relation(PathClass.SYS)
    if not relations and _links(run, distance):
        return None
    return RelationMatrix(
        gpus=tuple(gpu.label for gpu in run.gpus),
        relations=relations,
        gpu_names=tuple(gpu.name for gpu in run.gpus),
        gpu_uuids=tuple(gpu.uuid for gpu in run.gpus),
        gpu_pci=tuple(gpu.pci_bus_id for gpu in run.gpus),
        numa_affinity=tuple(gpu.numa_node for gpu in run.gpus),
    )
