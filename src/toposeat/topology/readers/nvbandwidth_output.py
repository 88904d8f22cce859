"""Finding the tests and matrices in nvbandwidth's output, text or `--json`.

What the tests mean is the subject of `nvbandwidth`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.json_text import parse_json
from toposeat.model.pair_numbers import BANDWIDTH
from toposeat.topology.readers.file_text import FileText, Place, line_at
from toposeat.topology.readers.json_text import line_of, place_of
from toposeat.topology.readers.numbers import (
    GB_PER_S,
    check_range,
    counted_numbers,
    report_cut,
    values_of,
)
from toposeat.topology.readers.tables import (
    MAX_ENDPOINTS,
    Line,
    Table,
    clean_lines,
    find_tables,
    sections,
    without_marks,
)

HINT = "save the whole output again: nvbandwidth > FILE"
PARTS = 3  # a bidirectional test prints the one direction, the other, and their sum

_TABLE = counted_numbers(HINT, "", square=False)
_RUNNING = re.compile(r"Running\s+(\w{1,80})\.?\s*$", re.ASCII)
_TEST = re.compile(r"(?:host|device|all|one)_(?:to_|device_|local_)\w+_(?:ce|sm)", re.ASCII)
DEVICE = re.compile(
    r"(?:Device\s+)?(\d{1,3}):\s+(.{1,120}?)(?:\s+\((?:PCI:)?"
    r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.0)?\))?(?::?\s*\(.{0,80}\))?\s*",
    re.IGNORECASE | re.ASCII,
)
_UNIT = re.compile(r"bandwidth\s+\(([A-Za-z]+/s)\)", re.ASCII)
_MAX_SUM = 1e15  # what a float holds exactly; JSON has whole numbers of any length
_CELL = re.compile(r"\d{1,9}(?:\.\d{1,18})?(?:e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_PROCESS = re.compile(r"Process\s+\d+\s+\((.{1,80})\):\s+device\s+\d+", re.ASCII)
_SUM = re.compile(r"SUM\s+(\w{1,80})\s+([\d.]{1,20})\s*$", re.ASCII)


@dataclass(frozen=True)
class BandwidthTest:
    """One test and its matrices in the order of printing."""

    name: str
    place: Place
    matrices: tuple[NDArray[np.float64], ...]

    @property
    def line(self) -> int | None:
        """Where it begins."""
        return line_at(self.place)


def tests_of(file: FileText, report: list[str]) -> tuple[list[BandwidthTest], dict[int, str]]:
    """All tests, and the lines of the list of devices by CUDA's number.

    Raises:
        InputError: with file and line where there are any: no test, damaged, several hosts.
    """
    return _of_json(file) if file.start.startswith("{") else _of_text(file, report)


def begins_test(text: str) -> bool:
    """Whether a line says that a test of nvbandwidth runs."""
    match = _RUNNING.match(without_marks(text))
    return match is not None and _TEST.fullmatch(match[1]) is not None


def _of_text(file: FileText, report: list[str]) -> tuple[list[BandwidthTest], dict[int, str]]:
    lines = clean_lines(file.text)
    listed: dict[int, str] = {}
    for line in lines:
        text = without_marks(line.text)
        if text.startswith("Device ") and (match := DEVICE.fullmatch(text)):
            listed[int(match[1])] = text
        elif _PROCESS.match(text):
            _refuse_hosts(file, line.number)
    tests = []
    tables: list[Table] = []
    for running, line, below in sections(lines, lambda x: _RUNNING.match(without_marks(x.text))):
        _check_unit(below, file)
        tables = find_tables(below, _TABLE, file.path)
        what = BANDWIDTH if "_memcpy_" in running[1] else None
        for table in tables:  # in GB/s, as those of JSON; only the range is asked for in bytes/s
            values_of(table, what, GB_PER_S, path=file.path, save=HINT)
        matrices = tuple(values_of(table) for table in tables)
        _check_sum(running[1], matrices, below, file)
        tests.append(BandwidthTest(running[1], line.number, matrices))
    if not tests:
        raise InputError("no test of nvbandwidth found", path=file.path, hint=HINT)
    report_cut(file.text, tables, report)
    return tests, listed


def _refuse_hosts(file: FileText, line: int | None = None) -> NoReturn:
    raise InputError(
        "nvbandwidth ran on several hosts: its matrices are not of one machine",
        path=file.path,
        line=line,
        hint="run it on each node without mpirun",
    )


def _check_unit(lines: Sequence[Line], file: FileText) -> None:
    """Bandwidths are in GB/s, as the line above each matrix says."""
    for line in lines:
        unit = _UNIT.search(line.text)
        if unit is not None and unit[1] != "GB/s":
            raise InputError(
                f"bandwidths in {unit[1]}: unknown unit",
                path=file.path,
                line=line.number,
                hint=f"known is GB/s; {HINT}",
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
                hint=f"the file was edited or damaged; {HINT}",
            )


def _of_json(file: FileText) -> tuple[list[BandwidthTest], dict[int, str]]:
    document = parse_json(file.text.removeprefix("\ufeff"), file.path, hint=HINT)
    root = document.get("nvbandwidth") if isinstance(document, dict) else None
    if not isinstance(root, dict):
        raise InputError("JSON without nvbandwidth's results", path=file.path, hint=HINT)
    names = root.get("GPU Device list")
    if "GPU Device info" in root or isinstance(root.get("Hostname"), list):
        names = names or root.get("GPU Device info")
    listed = {}
    for text in names if isinstance(names, list) else ():
        match = DEVICE.fullmatch(text) if isinstance(text, str) else None
        if match:
            listed[int(match[1])] = text
    cases = root.get("testcases")
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        reason = root.get("error")
        raise InputError(
            f"nvbandwidth failed: {str(reason)[:160]!r}" if reason else "no tests in it",
            path=file.path,
            line=line_of(file, "nvbandwidth", "error" if reason else "testcases"),
            hint=HINT,
        )
    return [_json_test(case, number, file) for number, case in enumerate(cases)], listed


def _json_test(case: dict[str, object], number: int, file: FileText) -> BandwidthTest:
    name = str(case.get("name", ""))[:80]
    place = place_of(file, "nvbandwidth", "testcases", number)
    if name.startswith("multinode"):
        _refuse_hosts(file, place())
    rows = case.get("bandwidth_matrix")
    if rows is None:
        return BandwidthTest(name, place, ())
    try:
        values = np.array([[_json_cell(cell) for cell in row] for row in rows])  # type: ignore[attr-defined]
    except (TypeError, ValueError, AttributeError):
        values = np.empty(0)
    if values.ndim != 2 or not values.size or values.shape[1] > MAX_ENDPOINTS:
        raise InputError(
            f"the matrix of {name} is no matrix of numbers",
            path=file.path,
            line=place(),
            hint=HINT,
        )
    described = _UNIT.search(str(case.get("bandwidth_description", ""))[:400])
    if described is not None and described[1] != "GB/s":
        raise InputError(
            f"{name}: bandwidths in {described[1]}: unknown unit",
            path=file.path,
            line=place(),
            hint=HINT,
        )
    _check_json_sum(name, values, case.get("sum"), place, file)
    if "_memcpy_" in name:
        _check_range(values, place, file)
    count = values.shape[1]
    if "bidirectional" in name and len(values) == PARTS * count:  # one below the other
        return BandwidthTest(name, place, tuple(np.split(values, PARTS)))
    return BandwidthTest(name, place, (values,))


def _check_range(values: NDArray[np.float64], place: Place, file: FileText) -> None:
    for value in values[np.isfinite(values)].tolist():
        check_range(BANDWIDTH, value * GB_PER_S, line=line_at(place), path=file.path, save=HINT)


def _check_json_sum(
    name: str, values: NDArray[np.float64], stated: object, place: Place, file: FileText
) -> None:
    """As `_check_sum`; of a test in both directions the file does not say what was added up."""
    if isinstance(stated, bool) or not isinstance(stated, (int, float)) or "bidirec" in name:
        return
    found = float(np.nansum(values))
    near = 0.0051 * (values.size + 1) + 1e-5 * found
    if not abs(stated) < _MAX_SUM or not abs(found - stated) <= near:
        raise InputError(
            f"the cells of {name} add up to {found:.2f}, not to the {str(stated)[:20]} stated",
            path=file.path,
            line=line_at(place),
            hint=f"the file was edited or damaged; {HINT}",
        )


def _json_cell(cell: object) -> float:
    if cell == "N/A" or cell is None:
        return np.nan
    good = isinstance(cell, (str, int, float)) and not isinstance(cell, bool)
    value = float(str(cell)) if good and _CELL.fullmatch(str(cell).strip()) else np.nan
    if not 0 <= value < np.inf:
        raise ValueError(f"a bandwidth of {value}")
    return value
