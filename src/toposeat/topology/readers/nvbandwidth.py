"""Reader of NVIDIA's `nvbandwidth`, text and `--json`.

Which way a copy went follows from the name of the test, as its source shows: a `write` test copies
from the row's device to the column's, a `read` test from the column's to the row's. The arrows
that it prints above the matrices are drawn by other rules and not used.

Not used: tests of one device with all others at once and bidirectional host tests (only one of the
two streams is counted), and latencies, which are of single loads and not of copies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn, Required, TypedDict

import numpy as np
from numpy.typing import NDArray

from toposeat.model.pair import BANDWIDTH
from toposeat.model.plural import plural
from toposeat.model.quantity import check_pair_number
from toposeat.model.topology import (
    Device,
    HostNumbers,
    PairNumbers,
    Topology,
    Vendor,
    canonical_pci,
)
from toposeat.topology.readers.cells import (
    GB_PER_S,
    counted_numbers,
    host_numbers,
    report_asymmetry,
    report_cut,
    values_of,
)
from toposeat.topology.readers.file_text import FileText, json_of
from toposeat.topology.readers.p2p_bandwidth_latency import NUMBERED_BY_CUDA
from toposeat.topology.readers.tables import (
    MAX_ENDPOINTS,
    Line,
    Table,
    clean_lines,
    find_tables,
    sections,
    without_marks,
)
from toposeat.topology.told import told_machine

_PARTS = 3  # a bidirectional test prints the one direction, the other, and their sum
_TABLE = counted_numbers("", square=False)
_RUNNING = re.compile(r"Running\s+(\w{1,80})\.?\s*$", re.ASCII)
_PAIRS = re.compile(
    r"device_to_device_(?P<ways>bidirectional_)?memcpy_(?P<operation>read|write)_(?P<engine>ce|sm)"
)
_HOST = re.compile(r"(?P<way>host_to_device|device_to_host)_memcpy_(?P<engine>ce|sm)")
_DEVICE = re.compile(
    r"(?:Device\s+)?(\d{1,3}):\s+(.{1,120}?)(?:\s+\((?:PCI:)?"
    r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.0)?\))?(?::?\s*\(.{0,80}\))?\s*",
    re.IGNORECASE | re.ASCII,
)
_UNIT = re.compile(r"bandwidth\s+\(([A-Za-z]+/s)\)", re.ASCII)
_CELL = re.compile(r"\d{1,9}(?:\.\d{1,18})?(?:e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_PROCESS = re.compile(r"Process\s+\d+\s+\((.{1,80})\):\s+device\s+\d+", re.ASCII)
_SUM = re.compile(r"SUM\s+(\w{1,80})\s+([\d.]{1,20})\s*$", re.ASCII)


@dataclass(frozen=True)
class _Test:
    """One test and its matrices, GB/s, in the order of printing; `line` is where it begins."""

    name: str
    line: int | None  # None in JSON
    matrices: tuple[NDArray[np.float64], ...]


class _Case(TypedDict, total=False):
    name: Required[str]
    bandwidth_description: str
    bandwidth_matrix: list[list[str | float | None]]
    sum: float


_Results = TypedDict(
    "_Results",
    {
        "GPU Device list": list[str],
        "GPU Device info": list[str],
        "Hostname": Any,
        "error": Any,
        "testcases": list[_Case],
    },
    total=False,
)


class _Document(TypedDict):
    nvbandwidth: _Results


def parse(file: FileText) -> Topology:
    """Read what nvbandwidth measured."""
    report: list[str] = []
    tests, listed = _of_json(file) if file.start.startswith("{") else _of_text(file, report)
    count = _count(tests, listed, file)
    devices = _devices(listed, count, report)
    pairs, access = _pairs(tests, report)
    host = _host(tests, [device.id for device in devices])
    _report_unused(tests, report)
    if not pairs and not host:
        raise file.refusal(
            "no test of it says how fast single copies are",
            hint="run at least: nvbandwidth -t device_to_device_memcpy_write_ce",
        )
    return told_machine(
        origin="nvbandwidth output",
        devices=devices,
        peer_access=access,
        numbers=pairs,
        host_copies=host,
        report=report,
    )


def _count(tests: list[_Test], listed: dict[int, str], file: FileText) -> int:
    """The number of GPUs, which the list of devices and all matrices must agree on."""
    count, origin = (len(listed), "the list of devices") if listed else (0, "")
    for test in tests:
        for values in test.matrices:
            if not count:
                count, origin = values.shape[1], f"the matrix of {test.name}"
            rows = count if _PAIRS.match(test.name) or "device_to_device" in test.name else 1
            if values.shape != (rows, count):
                raise file.refusal(
                    f"the matrix of {test.name} has {values.shape[0]} rows and"
                    f" {values.shape[1]} columns, but {origin} has"
                    f" {plural(count, 'GPU')}",
                    test.line,
                )
    if not count:
        raise file.refusal("no test printed a matrix", tests[-1].line if tests else None)
    if listed and sorted(listed) != list(range(count)):
        places = (n for n, x in enumerate(file.lines, 1) if any(y in x for y in listed.values()))
        raise file.refusal("the list of devices has gaps", next(places, None))
    return count


def _devices(listed: dict[int, str], count: int, report: list[str]) -> tuple[Device, ...]:
    devices = []
    for i in range(count):
        match = _DEVICE.fullmatch(without_marks(listed[i])) if listed else None
        pci = match and match[3] and f"{int(match[3], 16):04x}:{match[4]}:{match[5]}.0"
        devices.append(
            Device(
                id=f"CUDA {i}",
                vendor=Vendor.NVIDIA,
                name=match[2].strip() if match else "",
                pci_bus_id=canonical_pci(pci) if pci else None,
            )
        )
    if any(device.pci_bus_id is None for device in devices):
        report.append(NUMBERED_BY_CUDA)
    return tuple(devices)


def _pairs(
    tests: list[_Test], report: list[str]
) -> tuple[tuple[PairNumbers, ...], dict[tuple[int, int], bool]]:
    """Copies between devices, and which pairs had peer access: the others were left out."""
    numbers: list[PairNumbers] = []
    access: dict[tuple[int, int], bool] = {}
    seen = set()
    for test in tests:
        match = _PAIRS.fullmatch(test.name)
        if match is None or not test.matrices:
            continue
        if test.name in seen:
            where = f"line {test.line}" if test.line else "the file"
            report.append(f"{where} has {test.name} again: the first is used")
            continue
        both_ways = match["ways"] is not None
        if both_ways and len(test.matrices) != _PARTS:
            report.append(f"{test.name} has no sum of the two directions: not used")
            continue
        seen.add(test.name)
        values = test.matrices[-1] * GB_PER_S
        np.fill_diagonal(values, np.nan)
        values[values == 0] = np.nan  # old versions print 0.00 where nothing was measured
        if match["operation"] == "read":
            values = values.T.copy()
        for i, j in np.ndindex(values.shape):
            if i != j:
                access[i, j] = access.get((i, j), False) or bool(np.isfinite(values[i, j]))
        numbers.append(
            PairNumbers(
                what=BANDWIDTH,
                values=values,
                peer=True,
                both_ways=both_ways,
                engine=match["engine"],
                operation=match["operation"],
            )
        )
        if not both_ways:
            report_asymmetry(values, test.name, report)
    if any(not can for can in access.values()):
        report.append(
            f"{sum(not can for can in access.values())} ordered pairs were not measured: they have"
            " no peer access"
        )
    return tuple(numbers), access


def _host(tests: list[_Test], devices: list[str]) -> tuple[HostNumbers, ...]:
    """Copies to and from host memory near the device, by copy engine where both were run."""
    found: dict[str, NDArray[np.float64]] = {}
    for test in sorted(tests, key=lambda t: t.name.endswith("_sm")):
        match = _HOST.fullmatch(test.name)
        if match and test.matrices:
            found.setdefault(match["way"], test.matrices[0][0] * GB_PER_S)
    none = np.full(len(devices), np.nan)
    to, back = (found.get(way, none) for way in ("host_to_device", "device_to_host"))
    return host_numbers(to[None], back[None], devices)


def _report_unused(tests: list[_Test], report: list[str]) -> None:
    unused = [
        test.name
        for test in tests
        if test.matrices and not _PAIRS.fullmatch(test.name) and not _HOST.fullmatch(test.name)
    ]
    if unused:
        report.append(
            f"{len(unused)} tests are not used, {unused[0]} and the like: they are of several"
            " copies at once or of single loads"
        )
    silent = [t.name for t in tests if not t.matrices]
    if silent:
        report.append(f"{len(silent)} tests were waived or printed nothing: {silent[0]} first")


def _of_text(file: FileText, report: list[str]) -> tuple[list[_Test], dict[int, str]]:
    """All tests, and the lines of the list of devices by CUDA's number."""
    lines = clean_lines(file.text)
    listed: dict[int, str] = {}
    for line in lines:
        text = without_marks(line.text)
        if text.startswith("Device ") and (match := _DEVICE.fullmatch(text)):
            listed[int(match[1])] = text
        elif _PROCESS.match(text):
            _refuse_hosts(file, line.number)
    tests = []
    tables: list[Table] = []
    for name, line, below in _tests(lines):
        for each in below:
            if unit := _UNIT.search(each.text):
                _check_unit(unit[1], each.number, file)
        tables = find_tables(below, _TABLE, file)
        for table in tables:
            values_of(table, file, BANDWIDTH if "_memcpy_" in name else None, GB_PER_S)
        test = _Test(name, line.number, tuple(values_of(table, file) for table in tables))
        for each in below:
            total = _SUM.match(without_marks(each.text))
            if total and total[1] == name and len(tables) == 1:
                _check_sum(test, total[2], each.number, file)
        tests.append(test)
    if not tests:
        raise file.refusal("no test of nvbandwidth found")
    report_cut(file.text, tables, report)
    return tests, listed


def _tests(lines: list[Line]) -> list[tuple[str, Line, list[Line]]]:
    """The name of each test, where it begins, and its lines.

    Where the paste lacks the line above a matrix, as at its beginning, the sum below it names it.
    """
    running = sections(lines, lambda x: _RUNNING.match(without_marks(x.text)))
    found: list[tuple[str, Line, list[Line]]] = []
    start = 0
    for place, line in enumerate(lines[: running[0][1].number - 1 if running else None]):
        if match := _SUM.match(without_marks(line.text)):
            found.append((match[1], line, lines[start : place + 1]))
            start = place + 1
    return found + [(match[1], line, below) for match, line, below in running]


def _refuse_hosts(file: FileText, line: int | None = None) -> NoReturn:
    raise file.refusal(
        "nvbandwidth ran on several hosts: its matrices are not of one machine",
        line,
        hint="run it on each node without mpirun",
    )


def _check_unit(unit: str, line: int | None, file: FileText) -> None:
    if unit != "GB/s":
        raise file.refusal(f"bandwidths in {unit}: unknown unit, known is GB/s", line)


def _check_sum(test: _Test, stated: str | float, line: int | None, file: FileText) -> None:
    """Refuse a matrix whose cells do not add up to its stated sum."""
    values = test.matrices[0]
    found = float(np.nansum(values))
    near = 0.0051 * (values.size + 1) + 1e-5 * found
    with file.at(line):
        if not abs(found - float(stated)) <= near:
            raise ValueError(
                f"the cells of {test.name} add up to {found:.2f}, not to the {str(stated)[:20]}"
                " stated"
            )


def _of_json(file: FileText) -> tuple[list[_Test], dict[int, str]]:
    root = json_of(file, _Document)["nvbandwidth"]
    names = root.get("GPU Device list")
    if "GPU Device info" in root or isinstance(root.get("Hostname"), list):
        names = names or root.get("GPU Device info")
    matches = ((text, _DEVICE.fullmatch(text)) for text in names or ())
    listed = {int(match[1]): text for text, match in matches if match}
    if "testcases" not in root:
        reason = root.get("error")
        raise file.refusal(
            f"nvbandwidth failed: {str(reason)[:160]!r}" if reason else "no tests in it"
        )
    return [_json_test(case, file) for case in root["testcases"]], listed


def _json_test(case: _Case, file: FileText) -> _Test:
    name = case["name"][:80]
    if name.startswith("multinode"):
        _refuse_hosts(file)
    rows = case.get("bandwidth_matrix")
    if rows is None:
        return _Test(name, None, ())
    with file.at(None, f"the matrix of {name}: "):
        if len({len(row) for row in rows}) != 1 or not 0 < len(rows[0]) <= MAX_ENDPOINTS:
            raise ValueError("rows of different lengths, or of none")
        values = np.array([[_json_cell(cell) for cell in row] for row in rows])
        for value in values[np.isfinite(values)].tolist() if "_memcpy_" in name else ():
            check_pair_number(BANDWIDTH, value * GB_PER_S)
    unit = _UNIT.search(case.get("bandwidth_description", "")[:400])
    if unit is not None:
        _check_unit(unit[1], None, file)
    test, stated = _Test(name, None, (values,)), case.get("sum")
    # Of a test in both directions the file does not say what was added up.
    if stated is not None and "bidirec" not in name:
        _check_sum(test, stated, None, file)
    if "bidirectional" in name and len(values) == _PARTS * values.shape[1]:  # one below the other
        return _Test(name, None, tuple(np.split(values, _PARTS)))
    return test


def _json_cell(cell: str | float | None) -> float:
    if cell == "N/A" or cell is None:
        return np.nan
    value = float(str(cell)) if _CELL.fullmatch(str(cell).strip()) else np.nan
    if not 0 <= value < np.inf:
        raise ValueError(f"expected a number or N/A, found {str(cell)[:40]!r}")
    return value
