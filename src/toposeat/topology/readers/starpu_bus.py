"""Reader of StarPU's measured bus: NAME.bandwidth, NAME.latency, NAME.affinity, NAME.config.

Row 0 of a matrix is host memory (or one row per memory node), then come CUDA, HIP and OpenCL
devices; values go from row to column, MB/s or microseconds, 0 on the diagonal and NaN beyond the
devices. OpenCL rows are the same GPUs again and left out. Where StarPU could not copy between two
devices directly it wrote what two copies over host memory would take: those are estimates, found
by their value and left out too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import inf, isfinite, isnan, nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.cpu_list import MAX_CPU, format_cpu_list
from toposeat.model.number_checks import check_pair_number
from toposeat.model.topology import Vendor
from toposeat.topology.facts import (
    BANDWIDTH,
    LATENCY,
    DeviceFact,
    HostNumbers,
    MachineFacts,
    PairNumbers,
)
from toposeat.topology.readers.file_text import FileText, read_file
from toposeat.topology.readers.word_table import MAX_ENDPOINTS

SUFFIXES = (".bandwidth", ".latency", ".affinity", ".config", ".platform.xml")
_UNIT = {BANDWIDTH: 1e6, LATENCY: 1e-6}
_SAVE = "StarPU writes these files anew with: starpu_calibrate_bus -f"
_MATRIX = re.compile(r"#\s*to 0\s+to 1\b")
_AFFINITY = re.compile(r"#\s*GPU\s+CPU0\b")
_CONFIG = re.compile(r"(\d{1,6}) # Number of (.{1,40})", re.ASCII)
_LARGEST = 1e12  # MB/s or microseconds
_SAME = 1e-5  # relative: values are printed with 7 digits


@dataclass(frozen=True, slots=True)
class BusConfig:
    """How many rows of each kind the matrices have; OpenCL rows come last."""

    memory_nodes: int
    cuda: int
    hip: int

    @property
    def devices(self) -> int:
        """GPUs."""
        return self.cuda + self.hip

    def facts(self) -> tuple[DeviceFact, ...]:
        """The GPUs as StarPU names them."""
        cuda = [("CUDA", i, Vendor.NVIDIA) for i in range(self.cuda)]
        hip = [("HIP", i, Vendor.AMD) for i in range(self.hip)]
        return tuple(
            DeviceFact(label=f"{kind}{i}", index=position, vendor=vendor)
            for position, (kind, i, vendor) in enumerate(cuda + hip)
        )


def looks_like(file: FileText) -> bool:
    """Whether this is one of StarPU's bus files, but its platform.xml."""
    head = file.start[:2000]
    return (
        _MATRIX.match(head) is not None
        or _AFFINITY.match(head) is not None
        or (head.startswith("# Current configuration") and "# Number of CPUs" in head)
    )


def parse(file: FileText) -> MachineFacts:
    """Read one file; the counts of devices are taken from the .config file beside it.

    Raises:
        InputError: with file and line: no .config, not square, rows or values that are damaged.
    """
    if file.start.startswith("# Current configuration"):
        config = parse_config(file)
        raise InputError(
            f"counts devices ({config.devices} GPUs) and tells nothing else",
            path=file.path,
            hint="name the machine by the common part of its files, without their suffix",
        )
    base = file.path.with_suffix("")
    config = parse_config(_beside(base, file))
    if _AFFINITY.match(file.start):
        return parse_affinity(file, config)
    what = {".bandwidth": BANDWIDTH, ".latency": LATENCY}.get(file.path.suffix)
    if what is None:
        raise InputError(
            "bandwidths and latencies of StarPU look alike: the name must end in .bandwidth or"
            " .latency",
            path=file.path,
            hint="rename the file as StarPU does",
        )
    return parse_matrix(file, what, config)


def _beside(base: Path, file: FileText) -> FileText:
    path = base.with_name(base.name + ".config")
    try:
        return read_file(path)
    except InputError as error:
        raise InputError(
            "which rows are GPUs, and which the same GPUs again for OpenCL, is told only by"
            f" {path.name}, which cannot be read",
            path=file.path,
            hint="put StarPU's .config file beside it",
        ) from error


def parse_config(file: FileText) -> BusConfig:
    """Read NAME.config.

    Raises:
        InputError: no count of CUDA or HIP devices, or absurd ones.
    """
    counts: dict[str, int] = {}
    for number, line in enumerate(file.lines, start=1):
        match = _CONFIG.match(line.strip())
        if match is None:
            continue
        what, count = match.group(2).strip().lower(), int(match.group(1))
        if count > MAX_ENDPOINTS * 16 or counts.setdefault(what, count) != count:
            raise InputError(
                f"{count} {what}: absurd, or stated twice",
                path=file.path,
                line=number,
                hint=_SAVE,
            )
    config = BusConfig(
        memory_nodes=max(1, counts.get("numa nodes", 1)),
        cuda=counts.get("cuda devices", 0),
        hip=counts.get("hip devices", 0),
    )
    if not 0 < config.devices <= MAX_ENDPOINTS:
        raise InputError(
            f"the configuration has {config.devices} CUDA and HIP devices",
            path=file.path,
            hint="toposeat places ranks on GPUs; a machine without them has nothing to choose",
        )
    return config


def parse_matrix(file: FileText, what: str, config: BusConfig) -> MachineFacts:
    """Read NAME.bandwidth or NAME.latency.

    Raises:
        InputError: not square, fewer rows than devices, values that are no numbers.
    """
    table = _square(file, what)
    first, count = config.memory_nodes, config.devices
    if len(table) < first + count:
        raise InputError(
            f"{len(table)} rows for {first} memory nodes and {count} GPUs",
            path=file.path,
            line=len(file.lines),
            hint=_SAVE,
        )
    values = table[first : first + count, first : first + count] * _UNIT[what]
    np.fill_diagonal(values, nan)
    to_device = table[:first, first : first + count] * _UNIT[what]
    from_device = table[first : first + count, :first] * _UNIT[what]
    report: list[str] = []
    guesses = _estimates(values, to_device[0], from_device[:, 0], what)
    if guesses.any():
        values[guesses] = nan
        report.append(
            f"{int(guesses.sum())} {what} numbers of pairs are StarPU's estimates for copies over"
            " host memory, not measured: they are left out"
        )
    return MachineFacts(
        origin=f"StarPU bus {what}",
        devices=config.facts(),
        pairs=() if np.isnan(values).all() else (PairNumbers(what=what, values=values),),
        host=tuple(_host(what, to_device, from_device)),
        report=tuple(report),
    )


def _estimates(
    values: NDArray[np.float64],
    to_device: NDArray[np.float64],
    from_device: NDArray[np.float64],
    what: str,
) -> NDArray[np.bool_]:
    """Pairs whose number is that of two copies one after the other."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if what == BANDWIDTH:
            staged = 1 / (1 / from_device[:, None] + 1 / to_device[None, :])
        else:
            staged = from_device[:, None] + to_device[None, :]
        found: NDArray[np.bool_] = np.abs(values - staged) <= _SAME * staged
    return found


def _host(
    what: str, to_device: NDArray[np.float64], from_device: NDArray[np.float64]
) -> list[HostNumbers]:
    """One entry per memory node and GPU; with one row for all memory, the node is not known."""
    nodes, count = to_device.shape
    return [
        HostNumbers(
            what=what,
            device=device,
            numa_node=node if nodes > 1 else None,
            to_device=_known(to_device[node, device]),
            from_device=_known(from_device[device, node]),
        )
        for device in range(count)
        for node in range(nodes)
    ]


def _known(value: float) -> float | None:
    return None if isnan(value) else float(value)


def _square(file: FileText, what: str) -> NDArray[np.float64]:
    """All numbers of a matrix file, in its units."""
    width: int | None = None
    rows: list[list[float]] = []
    for number, line in enumerate(file.lines, start=1):
        if line.startswith("#"):
            width = len(re.findall(r"\bto \d+", line)) if width is None else width
            continue
        if not line.strip():
            continue
        rows.append([_number(cell, what, number, file) for cell in line.split()])
        if width is None or len(rows[-1]) != width or len(rows) > width:
            raise InputError(
                f"row {len(rows) - 1} has {len(rows[-1])} numbers, the header {width} columns",
                path=file.path,
                line=number,
                hint=_SAVE,
            )
    if not rows or len(rows) != width or width > 4 * MAX_ENDPOINTS:
        raise InputError(
            f"{len(rows)} rows for {width} columns: the matrix is truncated",
            path=file.path,
            line=len(file.lines),
            hint=_SAVE,
        )
    return np.array(rows)


def _number(cell: str, what: str, line: int, file: FileText) -> float:
    if cell in ("nan", "-nan"):
        return nan
    try:
        value = float(cell) if re.fullmatch(r"[\d.]{1,40}(e[+-]?\d{1,3})?", cell, re.A) else inf
    except ValueError:
        value = inf
    if not isfinite(value) or value > _LARGEST:
        raise InputError(
            f"{cell!r:.40} where a number or nan belongs", path=file.path, line=line, hint=_SAVE
        )
    try:
        check_pair_number(what, value * _UNIT[what])
    except ValueError as error:
        raise InputError(str(error), path=file.path, line=line, hint=_SAVE) from None
    return value


def parse_affinity(file: FileText, config: BusConfig) -> MachineFacts:
    """Read NAME.affinity: for each GPU the CPUs, best first.

    The near CPUs of a GPU are the first of its row up to the first CPU at which any row jumps: rows
    are made of whole memory nodes. If no row ever jumps, they say nothing.

    Raises:
        InputError: missing rows, or CPUs that are no numbers.
    """
    orders = _orders(file)
    if len(orders) < config.devices:
        raise InputError(
            f"{len(orders)} rows for {config.devices} GPUs",
            path=file.path,
            line=len(file.lines),
            hint=_SAVE,
        )
    starts = {
        cpu
        for order in orders
        for before, cpu in zip([None, *order], order, strict=False)
        if before is None or cpu != before + 1
    }
    devices = list(config.facts())
    report: list[str] = []
    if len(starts) > 1:
        for i, order in enumerate(orders[: config.devices]):
            devices[i] = replace(devices[i], cpus=format_cpu_list(_near(order, starts)))
    else:
        report.append("all GPUs have the same order of CPUs: which are near is not known")
    return MachineFacts(origin="StarPU bus affinity", devices=tuple(devices), report=tuple(report))


def _near(order: list[int], starts: set[int]) -> list[int]:
    block = [order[0]]
    for cpu in order[1:]:
        if cpu in starts or cpu != block[-1] + 1:
            break
        block.append(cpu)
    return block


def _orders(file: FileText) -> list[list[int]]:
    orders: list[list[int]] = []
    for number, line in enumerate(file.lines, start=1):
        cells = line.split()
        if not cells or line.startswith("#"):
            continue
        if len(cells) < 2 or not all(re.fullmatch(r"\d{1,5}", c, re.ASCII) for c in cells):
            raise InputError(
                "a row must be a GPU and CPUs", path=file.path, line=number, hint=_SAVE
            )
        order = [int(cell) for cell in cells[1:]]
        if len(set(order)) < len(order) or max(order) > MAX_CPU:
            raise InputError(
                "a CPU stands twice in a row, or beyond all CPUs",
                path=file.path,
                line=number,
                hint=_SAVE,
            )
        if orders and sorted(order) != sorted(orders[0]):
            raise InputError(
                "rows list different CPUs: the file is cut", path=file.path, line=number, hint=_SAVE
            )
        orders.append(order)
    return orders
