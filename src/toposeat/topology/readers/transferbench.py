r"""Reader of the p2p preset of TransferBench: measured copies, each direction, text and CSV.

    Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
     SRC+EXE\DST    CPU 00       GPU 00    GPU 01
      CPU 00  ->     103.69        44.91     44.88
      GPU 00  ->      55.25      2150.49     57.61

Of the bidirectional matrix the rows `<->` are taken, the sum of both directions.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from toposeat.model.pair import BANDWIDTH
from toposeat.model.topology import Device, PairNumbers, Topology, Vendor
from toposeat.topology.readers.cells import (
    GB_PER_S,
    NUMBER_CELLS,
    host_numbers,
    is_number,
    values_of,
)
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import TableSpec, clean_lines, find_tables, sections
from toposeat.topology.told import told_machine

_TITLE = re.compile(
    r"(Uni|Bi)directional copy peak bandwidth GB/s \[(Local|Remote) read / (?:Local|Remote) write\]"
    r"(?:\s*\(GPU-Executor:\s*(\w{1,12})\))?",
    re.IGNORECASE,
)
_ONE_WAY = TableSpec(
    label=re.compile(r"\b[CG]PU\s+\d{1,4}(?!\w)", re.ASCII),
    first=r"[CG]PU",
    corner=r"SRC(?:\+EXE)?\\(?:EXE\+)?DST",
    is_cell=is_number,
    cells=NUMBER_CELLS,
    arrow="->",
    commas=True,
)
_SPECS = {"uni": _ONE_WAY, "bi": replace(_ONE_WAY, arrow="<->")}
_ENGINES = {"GFX": "sm", "DMA": "ce"}


def parse(file: FileText) -> Topology:
    """Read all matrices.

    A copy out of host memory ("CPU n") is driven by the CPU, one out of a GPU by that GPU.
    """
    columns: tuple[str, ...] = ()
    pairs: list[PairNumbers] = []
    host = None
    gpus: list[int] = []
    for title, line, below in sections(
        clean_lines(file.text), lambda each: _TITLE.search(each.text)
    ):
        ways = title[1].lower()
        table = next(iter(find_tables(below, _SPECS[ways], file)), None)
        if table is None or table.columns != (columns or table.columns):
            what = "a second matrix has other devices" if table else "no matrix below the title"
            raise file.refusal(what, line.number)
        columns = table.columns
        gpus = [i for i, name in enumerate(columns) if name.startswith("GPU")]
        cpus = [i for i, name in enumerate(columns) if name.startswith("CPU")]
        if not gpus:
            raise file.refusal("no GPU among the devices", table.line)
        values = values_of(table, file, BANDWIDTH, GB_PER_S)
        pairs.append(
            PairNumbers(
                what=BANDWIDTH,
                values=values[np.ix_(gpus, gpus)],
                peer=True,
                both_ways=ways == "bi",
                engine=_ENGINES.get((title[3] or "").upper(), ""),
                operation="read" if title[2].lower() == "remote" else "write",
            )
        )
        if host is None and ways == "uni":
            host = host_numbers(
                values[np.ix_(cpus, gpus)],
                values[np.ix_(gpus, cpus)].T,
                [f"GPU{int(columns[i].split()[1])}" for i in gpus],
                [int(columns[i].split()[1]) for i in cpus],
            )
    if not pairs:
        raise file.refusal("no matrix of the p2p preset found")
    numbers = [int(columns[i].split()[1]) for i in gpus]
    return told_machine(
        origin="TransferBench p2p",
        devices=tuple(
            Device(id=f"GPU{number}", index=number, vendor=Vendor.AMD) for number in numbers
        ),
        numbers=pairs,
        host_copies=host or (),
        report=("TransferBench names GPUs by number only: PCI bus ids are not known",),
    )
