"""Reader of NVIDIA's `nvbandwidth`, text and `--json`.

Which way a copy went follows from the name of the test, as its source shows: a `write` test copies
from the row's device to the column's, a `read` test from the column's to the row's. The arrows
that it prints above the matrices are drawn by other rules and not used.

Not used: tests of one device with all others at once and bidirectional host tests (only one of the
two streams is counted), and latencies, which are of single loads and not of copies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.topology import Vendor, canonical_pci
from toposeat.topology.facts import BANDWIDTH, DeviceFact, HostNumbers, MachineFacts, PairNumbers
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.number_table import (
    MAX_COLUMNS,
    find_number_tables,
    report_asymmetry,
    report_cut,
    without_marks,
)
from toposeat.topology.readers.p2p_bandwidth_latency import NUMBERED_BY_CUDA
from toposeat.topology.readers.word_table import Line, clean_lines

GB_PER_S = 1e9  # nvbandwidth divides bytes by 1e9

_ORIGIN = "nvbandwidth output"
_HINT = "save the whole output again: nvbandwidth > FILE"
_RUNNING = re.compile(r"Running\s+(\w{1,80})\.?\s*$", re.ASCII)
_TEST = re.compile(r"(?:host|device|all|one)_(?:to_|device_|local_)\w+_(?:ce|sm)", re.ASCII)
_DEVICE = re.compile(
    r"(?:Device\s+)?(\d{1,3}):\s+(.{1,120}?)(?:\s+\((?:PCI:)?"
    r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.0)?\))?(?::?\s*\(.{0,80}\))?\s*",
    re.IGNORECASE | re.ASCII,
)
_PROCESS = re.compile(r"Process\s+\d+\s+\((.{1,80})\):\s+device\s+\d+", re.ASCII)
_SUM = re.compile(r"SUM\s+(\w{1,80})\s+([\d.]{1,20})\s*$", re.ASCII)
_PAIRS = re.compile(
    r"device_to_device_(?P<ways>bidirectional_)?memcpy_(?P<operation>read|write)_(?P<engine>ce|sm)"
)
_HOST = re.compile(r"(?P<way>host_to_device|device_to_host)_memcpy_(?P<engine>ce|sm)")
_PARTS = 3  # a bidirectional test prints the one direction, the other, and their sum


@dataclass(frozen=True)
class _Test:
    """One test and its matrices in the order of printing; `line` 0 in JSON, which has none."""

    name: str
    line: int
    matrices: tuple[NDArray[np.float64], ...]


def looks_like(file: FileText) -> bool:
    """Whether this begins as text or JSON of nvbandwidth."""
    if file.start.startswith("{"):
        return '"nvbandwidth"' in file.start[:2000]
    head = file.start[:20_000]
    if "nvbandwidth Version" in head:
        return True
    return any(_begins_test(line) for line in head.split("\n"))


def _begins_test(text: str) -> bool:
    match = _RUNNING.match(without_marks(text))
    return match is not None and _TEST.fullmatch(match[1]) is not None


def heading_of(text: str) -> bool:
    """Whether a line begins nvbandwidth's output, for files that hold several."""
    return "nvbandwidth Version" in text or _begins_test(text)


def parse(file: FileText) -> MachineFacts:
    """Read what nvbandwidth measured.

    Raises:
        InputError: with file and line: no matrix, truncated, sizes that contradict each other,
        several hosts.
    """
    report: list[str] = []
    if file.start.startswith("{"):
        tests, listed = _of_json(file)
    else:
        tests, listed = _of_text(file, report)
    count = _count(tests, listed, file)
    devices = _devices(listed, count, report)
    pairs, access = _pairs(tests, report)
    host = _host(tests, count)
    _report_unused(tests, report)
    if not pairs and not host:
        raise InputError(
            "no test of it says how fast single copies are",
            path=file.path,
            hint="run at least: nvbandwidth -t device_to_device_memcpy_write_ce",
        )
    return MachineFacts(
        origin=_ORIGIN,
        devices=devices,
        peer_access=access,
        pairs=pairs,
        host=host,
        report=tuple(report),
    )


def _of_text(file: FileText, report: list[str]) -> tuple[list[_Test], dict[int, str]]:
    lines = clean_lines(file.text)
    tables = find_number_tables(lines, file.path)
    report_cut(file.text, tables, report)
    starts: list[tuple[str, int]] = []
    listed: dict[int, str] = {}
    for line in lines:
        text = without_marks(line.text)
        if match := _RUNNING.match(text):
            starts.append((match[1], line.number))
        elif text.startswith("Device ") and (match := _DEVICE.fullmatch(text)):
            listed[int(match[1])] = text
        elif _PROCESS.match(text):
            _refuse_hosts(file, line.number)
    if not starts:
        raise InputError("no test of nvbandwidth found", path=file.path, hint=_HINT)
    ends = [*(line for _, line in starts), len(lines) + 2]
    tests = []
    for (name, _), (start, end) in zip(starts, pairwise(ends), strict=True):
        matrices = tuple(t.values for t in tables if start < t.line < end)
        _check_sum(name, matrices, lines[start - 1 : end - 1], file)
        tests.append(_Test(name, start, matrices))
    return tests, listed


def _refuse_hosts(file: FileText, line: int | None = None) -> NoReturn:
    raise InputError(
        "nvbandwidth ran on several hosts: its matrices are not of one machine",
        path=file.path,
        line=line,
        hint="run it on each node without mpirun",
    )


def _check_sum(
    name: str, matrices: Sequence[NDArray[np.float64]], lines: Sequence[Line], file: FileText
) -> None:
    """Compare the sum that is printed below a matrix: damage shows."""
    for line in lines:
        match = _SUM.match(without_marks(line.text))
        if match is None or match[1] != name or len(matrices) != 1:
            continue
        found = float(np.nansum(matrices[0]))
        try:
            stated = float(match[2])
        except ValueError:
            stated = -1.0
        if abs(found - stated) > 0.0051 * (matrices[0].size + 1):
            raise InputError(
                f"the cells of {name} add up to {found:.2f}, not to the {match[2]} stated",
                path=file.path,
                line=line.number,
                hint=f"the file was edited or damaged; {_HINT}",
            )


def _of_json(file: FileText) -> tuple[list[_Test], dict[int, str]]:
    try:
        root = json.loads(file.text.removeprefix("\ufeff"))["nvbandwidth"]
    except json.JSONDecodeError as error:
        raise InputError(
            f"bad JSON: {error.msg}", path=file.path, line=error.lineno, hint=_HINT
        ) from None
    except (RecursionError, KeyError, TypeError, ValueError):
        raise InputError("JSON without nvbandwidth's results", path=file.path, hint=_HINT) from None
    if not isinstance(root, dict):
        raise InputError("JSON without nvbandwidth's results", path=file.path, hint=_HINT)
    names = root.get("GPU Device list")
    if "GPU Device info" in root or isinstance(root.get("Hostname"), list):
        names = names or root.get("GPU Device info")
    listed = {}
    for text in names if isinstance(names, list) else ():
        match = _DEVICE.fullmatch(text) if isinstance(text, str) else None
        if match:
            listed[int(match[1])] = text
    cases = root.get("testcases")
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        reason = root.get("error")
        raise InputError(
            f"nvbandwidth failed: {str(reason)[:160]!r}" if reason else "no tests in it",
            path=file.path,
            hint=_HINT,
        )
    return [_json_test(case, file) for case in cases], listed


def _json_test(case: dict[str, object], file: FileText) -> _Test:
    name = str(case.get("name", ""))[:80]
    if name.startswith("multinode"):
        _refuse_hosts(file)
    rows = case.get("bandwidth_matrix")
    if rows is None:
        return _Test(name, 0, ())
    try:
        values = np.array([[_json_cell(cell) for cell in row] for row in rows])  # type: ignore[attr-defined]
    except (TypeError, ValueError, AttributeError):
        values = np.empty(0)
    if values.ndim != 2 or not values.size or values.shape[1] > MAX_COLUMNS:
        raise InputError(
            f"the matrix of {name} is no matrix of numbers", path=file.path, hint=_HINT
        )
    count = values.shape[1]
    if "bidirectional" in name and len(values) == _PARTS * count:  # one below the other
        return _Test(name, 0, tuple(np.split(values, _PARTS)))
    return _Test(name, 0, (values,))


def _json_cell(cell: object) -> float:
    if cell == "N/A" or cell is None:
        return np.nan
    value = float(cell) if isinstance(cell, (str, int, float)) else np.nan
    if not 0 <= value < np.inf:
        raise ValueError(f"a bandwidth of {value}")
    return value


def _count(tests: list[_Test], listed: dict[int, str], file: FileText) -> int:
    """The number of GPUs, which the list of devices and all matrices must agree on."""
    count, origin = (len(listed), "the list of devices") if listed else (0, "")
    for test in tests:
        for values in test.matrices:
            if not count:
                count, origin = values.shape[1], f"the matrix of {test.name}"
            rows = count if _PAIRS.match(test.name) or "device_to_device" in test.name else 1
            if values.shape != (rows, count):
                raise InputError(
                    f"the matrix of {test.name} has {values.shape[0]} rows and"
                    f" {values.shape[1]} columns, but {origin} has {count}"
                    f" GPU{'s' if count > 1 else ''}",
                    path=file.path,
                    line=test.line or None,
                    hint=f"the file was edited, truncated or damaged; {_HINT}",
                )
    if not count:
        raise InputError("no test printed a matrix", path=file.path, hint=_HINT)
    if listed and sorted(listed) != list(range(count)):
        raise InputError("the list of devices has gaps", path=file.path, hint=_HINT)
    return count


def _devices(listed: dict[int, str], count: int, report: list[str]) -> tuple[DeviceFact, ...]:
    devices = []
    for i in range(count):
        match = _DEVICE.fullmatch(without_marks(listed[i])) if listed else None
        pci = match and match[3] and f"{int(match[3], 16):04x}:{match[4]}:{match[5]}.0"
        devices.append(
            DeviceFact(
                label=f"CUDA {i}",
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
        if match is None or not test.matrices or test.name in seen:
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


def _host(tests: list[_Test], count: int) -> tuple[HostNumbers, ...]:
    """Copies to and from host memory near the device, by copy engine where both were run."""
    found: dict[str, NDArray[np.float64]] = {}
    for test in sorted(tests, key=lambda t: t.name.endswith("_sm")):
        match = _HOST.fullmatch(test.name)
        if match and test.matrices:
            found.setdefault(match["way"], test.matrices[0][0] * GB_PER_S)
    number: Callable[[str, int], float | None] = lambda way, i: (  # noqa: E731
        float(found[way][i]) if way in found and found[way][i] > 0 else None
    )
    return tuple(
        HostNumbers(
            what=BANDWIDTH,
            device=i,
            to_device=number("host_to_device", i),
            from_device=number("device_to_host", i),
        )
        for i in range(count)
        if number("host_to_device", i) or number("device_to_host", i)
    )


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
