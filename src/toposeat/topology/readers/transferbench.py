r"""Reader of the p2p preset of TransferBench: measured copies, each direction, text and CSV.

    Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
     SRC+EXE\DST    CPU 00       GPU 00    GPU 01
      CPU 00  ->     103.69        44.91     44.88
      GPU 00  ->      55.25      2150.49     57.61

Of the bidirectional matrix the rows `<->` are taken, the sum of both directions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.number_checks import check_pair_number
from toposeat.model.topology import Vendor
from toposeat.topology.facts import (
    BANDWIDTH,
    DeviceFact,
    HostNumbers,
    MachineFacts,
    PairNumbers,
)
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.word_table import MAX_ENDPOINTS, Line, clean_lines

_SAVE = "save the whole output again: TransferBench p2p > FILE"
_GB = 1e9
_TITLE = re.compile(
    r"(Uni|Bi)directional copy peak bandwidth GB/s \[(Local|Remote) read / (?:Local|Remote) write\]"
    r"(?:\s*\(GPU-Executor:\s*(\w{1,12})\))?",
    re.IGNORECASE,
)
_HEADER = re.compile(r"SRC(?:\+EXE)?\\(?:EXE\+)?DST", re.IGNORECASE)
_ENDPOINT = re.compile(r"\b([CG]PU)\s+(\d{1,4})(?!\w)", re.ASCII)
_ROW = re.compile(r"\s*([CG]PU)\s+(\d{1,4})\s+(<->|->|<-|min|max|sd)[\s,]*(.*)", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_ENGINES = {"GFX": "sm", "DMA": "ce"}
_Endpoint = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Matrix:
    both_ways: bool
    operation: str
    engine: str
    endpoints: tuple[_Endpoint, ...]
    values: NDArray[np.float64]  # GB/s, row = source
    line: int


def looks_like(file: FileText) -> bool:
    """Whether this is, or was meant to be, output of `TransferBench p2p`."""
    return _TITLE.search(file.start) is not None or (
        "TransferBench" in file.start and "Bytes Per Direction" in file.start
    )


def heading_of(text: str) -> bool:
    """Whether a line begins a run, or a matrix of it."""
    return text.startswith(("TransferBench v", "Bytes Per Direction")) or bool(_TITLE.search(text))


def parse(file: FileText) -> MachineFacts:
    """Read all matrices.

    Raises:
        InputError: with file and line: no matrix, a matrix that is cut or of other devices.
    """
    lines = clean_lines(file.text)
    found: list[_Matrix] = []
    for position, line in enumerate(lines):
        title = _TITLE.search(line.text)
        if title:
            found.append(_read(lines, position, title, file))
    if not found:
        raise InputError("no matrix of the p2p preset found", path=file.path, hint=_SAVE)
    for matrix in found[1:]:
        if matrix.endpoints != found[0].endpoints:
            raise InputError(
                "a second matrix has other devices", path=file.path, line=matrix.line, hint=_SAVE
            )
    return _facts(found, file)


def _read(lines: Sequence[Line], position: int, title: re.Match[str], file: FileText) -> _Matrix:
    both = title.group(1).lower() == "bi"
    head = next(
        (
            i
            for i in range(position + 1, min(position + 6, len(lines)))
            if _HEADER.search(lines[i].text)
        ),
        None,
    )
    if head is None:
        raise InputError(
            "no header SRC\\DST below the title",
            path=file.path,
            line=lines[position].number,
            hint=_SAVE,
        )
    endpoints = tuple((kind, int(n)) for kind, n in _ENDPOINT.findall(lines[head].text))
    if not endpoints or len(endpoints) > MAX_ENDPOINTS or len(set(endpoints)) < len(endpoints):
        raise InputError(
            "the header names no devices, or one of them twice",
            path=file.path,
            line=lines[head].number,
            hint=_SAVE,
        )
    return _Matrix(
        both_ways=both,
        operation="read" if title.group(2).lower() == "remote" else "write",
        engine=_ENGINES.get((title.group(3) or "").upper(), ""),
        endpoints=endpoints,
        values=_values(lines, head + 1, endpoints, "<->" if both else "->", file),
        line=lines[head].number,
    )


def _values(
    lines: Sequence[Line],
    position: int,
    endpoints: tuple[_Endpoint, ...],
    arrow: str,
    file: FileText,
) -> NDArray[np.float64]:
    order = {endpoint: i for i, endpoint in enumerate(endpoints)}
    values = np.full((len(endpoints), len(endpoints)), nan)
    missing = set(endpoints)
    last = lines[position - 1].number
    for line in lines[position:]:
        if not line.text.strip():
            continue
        row = _ROW.fullmatch(line.text)
        if row is None:
            break
        last = line.number
        if row.group(3) != arrow:
            continue
        source = (row.group(1), int(row.group(2)))
        if source not in missing:
            raise InputError(
                f"the row of {source[0]} {source[1]:02} comes twice, or has no column",
                path=file.path,
                line=line.number,
                hint=_SAVE,
            )
        missing.discard(source)
        values[order[source]] = _cells(row.group(4), len(endpoints), line, file)
        if not missing:
            break
    if missing:
        kind, number = min(missing)
        raise InputError(
            f"the matrix has no row {arrow} of {kind} {number:02}: it is truncated",
            path=file.path,
            line=last,
            hint=_SAVE,
        )
    return values


def _cells(text: str, count: int, line: Line, file: FileText) -> list[float]:
    cells = text.replace(",", " ").split()
    if len(cells) != count:
        raise InputError(
            f"{len(cells)} cells in a row of {count}", path=file.path, line=line.number, hint=_SAVE
        )
    for cell in cells:
        if cell != "N/A" and not _NUMBER.fullmatch(cell):
            raise InputError(
                f"{cell!r:.40} where a number or N/A belongs",
                path=file.path,
                line=line.number,
                hint=_SAVE,
            )
    values = [nan if cell == "N/A" else float(cell) for cell in cells]
    for value in values:
        try:
            check_pair_number(BANDWIDTH, value * _GB)
        except ValueError as error:
            raise InputError(str(error), path=file.path, line=line.number, hint=_SAVE) from None
    return values


def _facts(found: Sequence[_Matrix], file: FileText) -> MachineFacts:
    endpoints = found[0].endpoints
    gpus = [i for i, (kind, _) in enumerate(endpoints) if kind == "GPU"]
    if not gpus:
        raise InputError("no GPU among the devices", path=file.path, line=found[0].line, hint=_SAVE)
    report = ["TransferBench names GPUs by number only: PCI bus ids are not known"]
    host: list[HostNumbers] = []
    for matrix in found:
        if not matrix.both_ways and not host:
            host = _host(matrix, gpus)
    return MachineFacts(
        origin="TransferBench p2p",
        devices=tuple(
            DeviceFact(label=f"GPU{endpoints[i][1]}", index=endpoints[i][1], vendor=Vendor.AMD)
            for i in gpus
        ),
        pairs=tuple(
            PairNumbers(
                what=BANDWIDTH,
                values=matrix.values[np.ix_(gpus, gpus)] * _GB,
                peer=True,
                both_ways=matrix.both_ways,
                engine=matrix.engine,
                operation=matrix.operation,
            )
            for matrix in found
        ),
        host=tuple(host),
        report=tuple(report),
    )


def _host(matrix: _Matrix, gpus: Sequence[int]) -> list[HostNumbers]:
    """Copies from and to each memory node ("CPU n"), where either was measured.

    A copy out of host memory is driven by the CPU, one out of a GPU by that GPU.
    """
    found: list[HostNumbers] = []
    for position, gpu in enumerate(gpus):
        for i, (kind, node) in enumerate(matrix.endpoints):
            to, back = matrix.values[i, gpu], matrix.values[gpu, i]
            if kind == "CPU" and not (np.isnan(to) and np.isnan(back)):
                found.append(
                    HostNumbers(
                        what=BANDWIDTH,
                        device=position,
                        numa_node=node,
                        to_device=None if np.isnan(to) else float(to) * _GB,
                        from_device=None if np.isnan(back) else float(back) * _GB,
                    )
                )
    return found
