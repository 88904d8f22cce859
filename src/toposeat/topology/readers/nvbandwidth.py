"""Reader of NVIDIA's `nvbandwidth`, text and `--json`.

Which way a copy went follows from the name of the test, as its source shows: a `write` test copies
from the row's device to the column's, a `read` test from the column's to the row's. The arrows
that it prints above the matrices are drawn by other rules and not used.

Not used: tests of one device with all others at once and bidirectional host tests (only one of the
two streams is counted), and latencies, which are of single loads and not of copies.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.pair_numbers import BANDWIDTH
from toposeat.model.topology import (
    Device,
    HostNumbers,
    PairNumbers,
    Topology,
    Vendor,
    canonical_pci,
)
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.numbers import GB_PER_S, host_numbers, report_asymmetry
from toposeat.topology.readers.nvbandwidth_output import (
    DEVICE,
    HINT,
    PARTS,
    BandwidthTest,
    begins_test,
    tests_of,
)
from toposeat.topology.readers.p2p_bandwidth_latency import NUMBERED_BY_CUDA
from toposeat.topology.readers.tables import without_marks
from toposeat.topology.told import told_machine

_ORIGIN = "nvbandwidth output"
_PAIRS = re.compile(
    r"device_to_device_(?P<ways>bidirectional_)?memcpy_(?P<operation>read|write)_(?P<engine>ce|sm)"
)
_HOST = re.compile(r"(?P<way>host_to_device|device_to_host)_memcpy_(?P<engine>ce|sm)")


def looks_like(file: FileText) -> bool:
    """Whether this begins as text or JSON of nvbandwidth."""
    if file.start.startswith("{"):
        return '"nvbandwidth"' in file.start[:2000]
    head = file.start[:20_000]
    if "nvbandwidth Version" in head:
        return True
    return any(begins_test(line) for line in head.split("\n"))


def heading_of(text: str) -> bool:
    """Whether a line begins nvbandwidth's output, for files that hold several."""
    return "nvbandwidth Version" in text or begins_test(text)


def parse(file: FileText) -> Topology:
    """Read what nvbandwidth measured.

    Raises:
        InputError: with file and line: no matrix, truncated, sizes that contradict each other,
        several hosts.
    """
    report: list[str] = []
    tests, listed = tests_of(file, report)
    count = _count(tests, listed, file)
    devices = _devices(listed, count, report)
    pairs, access = _pairs(tests, report)
    host = _host(tests, [device.id for device in devices])
    _report_unused(tests, report)
    if not pairs and not host:
        raise InputError(
            "no test of it says how fast single copies are",
            path=file.path,
            hint="run at least: nvbandwidth -t device_to_device_memcpy_write_ce",
        )
    return told_machine(
        origin=_ORIGIN,
        devices=devices,
        peer_access=access,
        numbers=pairs,
        host_copies=host,
        report=report,
    )


def _count(tests: list[BandwidthTest], listed: dict[int, str], file: FileText) -> int:
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
                    line=test.line,
                    hint=f"the file was edited, truncated or damaged; {HINT}",
                )
    if not count:
        raise InputError(
            "no test printed a matrix",
            path=file.path,
            line=tests[-1].line if tests else None,
            hint=HINT,
        )
    if listed and sorted(listed) != list(range(count)):
        places = (n for n, x in enumerate(file.lines, 1) if any(y in x for y in listed.values()))
        raise InputError(
            "the list of devices has gaps", path=file.path, line=next(places, None), hint=HINT
        )
    return count


def _devices(listed: dict[int, str], count: int, report: list[str]) -> tuple[Device, ...]:
    devices = []
    for i in range(count):
        match = DEVICE.fullmatch(without_marks(listed[i])) if listed else None
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
    tests: list[BandwidthTest], report: list[str]
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
        if both_ways and len(test.matrices) != PARTS:
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


def _host(tests: list[BandwidthTest], devices: list[str]) -> tuple[HostNumbers, ...]:
    """Copies to and from host memory near the device, by copy engine where both were run."""
    found: dict[str, NDArray[np.float64]] = {}
    for test in sorted(tests, key=lambda t: t.name.endswith("_sm")):
        match = _HOST.fullmatch(test.name)
        if match and test.matrices:
            found.setdefault(match["way"], test.matrices[0][0] * GB_PER_S)
    none = np.full(len(devices), np.nan)
    to, back = (found.get(way, none) for way in ("host_to_device", "device_to_host"))
    return host_numbers(to[None], back[None], devices)


def _report_unused(tests: list[BandwidthTest], report: list[str]) -> None:
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
