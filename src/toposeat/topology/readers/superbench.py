"""Reader of SuperBench's `gpu_copy` results: one line for each pair, direction and engine.

cpu_to_gpu0_by_dma_under_numa1 26.24        host memory of NUMA node 1 to GPU 0, GB/s
gpu0_to_gpu1_read_by_sm 261.856             from GPU 0 to GPU 1, GPU 1 pulls
gpu0_and_gpu1_write_by_dma 531.244          both directions at once, their sum
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from toposeat.errors import InputError
from toposeat.model.number_checks import check_pair_number
from toposeat.topology.facts import BANDWIDTH, DeviceFact, HostNumbers, MachineFacts, PairNumbers
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.number_table import MAX_COLUMNS, report_asymmetry

GB_PER_S = 1e9

_HINT = "save the results of SuperBench's gpu-copy-bw:perf again"
_END = r"cpu|gpu\d{1,3}|gpu_all"
_NAME = re.compile(
    rf"(?P<source>{_END})_(?P<how>to|and)_(?P<target>{_END})(?:_(?P<operation>read|write))?"
    r"_by_(?P<engine>sm|dma)(?:_under_numa(?P<numa>\d{1,3}))?",
    re.ASCII,
)
_LINE = re.compile(r"\s*([a-z_0-9]+)[\s:=,]+([\d.]+(?:e[+-]?\d+)?)\s*", re.ASCII | re.IGNORECASE)
_ENGINE = {"dma": "ce", "sm": "sm"}


@dataclass(frozen=True, slots=True)
class _Result:
    source: str
    target: str
    both_ways: bool
    operation: str
    engine: str
    numa: int | None
    bytes_per_s: float
    line: int

    @property
    def of_all(self) -> bool:
        return "gpu_all" in (self.source, self.target)

    @property
    def with_host(self) -> bool:
        return "cpu" in (self.source, self.target)

    @property
    def device(self) -> int:
        """The GPU of a copy from or to the host."""
        return int((self.target if self.source == "cpu" else self.source)[3:])


def looks_like(file: FileText) -> bool:
    """Whether one of the first lines is such a result."""
    lines = file.start[:5000].split("\n")[:30]
    return any((match := _LINE.fullmatch(x)) and _NAME.fullmatch(match[1]) for x in lines)


def parse(file: FileText) -> MachineFacts:
    """Read all results.

    Raises:
        InputError: with file and line: a number that is none, a result stated twice.
    """
    report: list[str] = []
    results = _results(file, report)
    usable = [r for r in results if not r.of_all]
    count = 1 + max(
        (int(end[3:]) for r in usable for end in (r.source, r.target) if end != "cpu"), default=-1
    )
    if not 0 < count <= MAX_COLUMNS:
        raise InputError("no results of single GPUs", path=file.path, hint=_HINT)
    named = {int(end[3:]) for r in usable for end in (r.source, r.target) if end != "cpu"}
    if len(named) < count:
        gap = next(i for i in range(count) if i not in named)
        beyond = next(r for r in usable if f"gpu{count - 1}" in (r.source, r.target))
        raise InputError(
            f"results of gpu{count - 1}, but none of gpu{gap}",
            path=file.path,
            line=beyond.line,
            hint=_HINT,
        )
    if len(usable) < len(results):
        report.append(f"{len(results) - len(usable)} results of all GPUs at once are not used")
    if any(r.with_host and r.both_ways for r in usable):
        report.append("host copies in both directions at once are not used")
    if not file.text.endswith(("\n", "\r")):
        report.append("the file ends without a newline: its last number may be cut")
    return MachineFacts(
        origin="SuperBench gpu-copy results",
        devices=tuple(DeviceFact(label=f"gpu{i}") for i in range(count)),
        pairs=_pairs(usable, count, report),
        host=_host(usable),
        report=tuple(report),
    )


def _results(file: FileText, report: list[str]) -> list[_Result]:
    foreign: list[int] = []
    results: dict[str, _Result] = {}
    for number, text in enumerate(file.lines, start=1):
        match = _LINE.fullmatch(text)
        name = _NAME.fullmatch(match[1]) if match else None
        if match is None or name is None:
            if text.strip():
                foreign.append(number)
            continue
        try:
            value = float(match[2]) * GB_PER_S
        except ValueError:
            value = -1.0
        if not 0 < value < float("inf"):
            raise InputError(
                f"a bandwidth of {match[2][:30]} GB/s", path=file.path, line=number, hint=_HINT
            )
        _check_range(value, file, number)
        result = _Result(
            source=name["source"],
            target=name["target"],
            both_ways=name["how"] == "and",
            operation=name["operation"] or "",
            engine=_ENGINE[name["engine"]],
            numa=int(name["numa"]) if name["numa"] else None,
            bytes_per_s=value,
            line=number,
        )
        if match[1] in results:
            raise InputError(
                f"{match[1]} is stated in line {results[match[1]].line} already",
                path=file.path,
                line=number,
                hint="one run per file",
            )
        if result.source == result.target == "cpu":
            continue
        results[match[1]] = result
    if foreign:
        report.append(f"{len(foreign)} other lines, first line {foreign[0]}, were not read")
    return list(results.values())


def _check_range(value: float, file: FileText, line: int) -> None:
    try:
        check_pair_number(BANDWIDTH, value)
    except ValueError as error:
        raise InputError(str(error), path=file.path, line=line, hint=_HINT) from None


def _pairs(results: list[_Result], count: int, report: list[str]) -> tuple[PairNumbers, ...]:
    between = [r for r in results if not r.with_host]
    local = [r for r in between if r.source == r.target and not r.both_ways]
    kinds = dict.fromkeys(
        (r.both_ways, r.engine, r.operation) for r in between if r.source != r.target
    )
    numbers = []
    for both_ways, engine, operation in kinds:
        values = np.full((count, count), np.nan)
        for r in between:
            if (r.both_ways, r.engine, r.operation) == (both_ways, engine, operation):
                values[int(r.source[3:]), int(r.target[3:])] = r.bytes_per_s
        if both_ways:  # a sum is the same in both orders; where both were run each is kept
            values = np.where(np.isnan(values), values.T, values)
        for r in local if not both_ways else ():
            if r.engine == engine:
                values[int(r.source[3:]), int(r.target[3:])] = r.bytes_per_s
        numbers.append(
            PairNumbers(
                what=BANDWIDTH,
                values=values,
                both_ways=both_ways,
                engine=engine,
                operation=operation,
            )
        )
        if not both_ways:
            report_asymmetry(values, f"{operation or 'copies'} by {engine}", report)
    return tuple(numbers)


def _host(results: list[_Result]) -> tuple[HostNumbers, ...]:
    """Host copies by DMA (kernels only where DMA was not run), for each NUMA node."""
    found: dict[tuple[int, int | None], dict[bool, float]] = {}
    for r in sorted(results, key=lambda r: r.engine == "sm"):
        if r.with_host and not r.both_ways:
            found.setdefault((r.device, r.numa), {}).setdefault(r.source == "cpu", r.bytes_per_s)
    return tuple(
        HostNumbers(
            what=BANDWIDTH,
            device=device,
            numa_node=numa,
            to_device=ways.get(True),
            from_device=ways.get(False),
        )
        for (device, numa), ways in sorted(found.items(), key=lambda x: (x[0][0], x[0][1] or 0))
    )
