"""Reader of `xpu-smi topology -m`: tiles of Intel's GPUs, Xe Link, MDF and PCIe relations.

             GPU 0/0  GPU 0/1  GPU 1/0  CPU Affinity       S    the tile itself
    GPU 0/0  S        MDF      XL24     0-51               XLn  n Xe Link lanes between two tiles
    GPU 0/1  MDF      S        XL*      0-51               XL*  Xe Link and MDF, not direct
    GPU 1/0  XL24     XL*      S        52-103             MDF  two tiles of one GPU

Below them PIX, PXB, PHB, NODE and SYS, as in nvidia-smi's tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from toposeat.model.topology import Bond, Device, FactKind, LinkKind, PathClass, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import (
    Row,
    Table,
    TableSpec,
    check_symmetric,
    clean_lines,
    cpu_affinity,
    find_table,
    unknown_pairs,
    words_of,
)
from toposeat.topology.relation import Relation
from toposeat.topology.told import told_machine

_LABEL = re.compile(r"GPU\s?(\d{1,4})/(\d{1,2})(?![\w/])", re.ASCII)
_LANES = re.compile(r"XL(\d{1,3})", re.ASCII)
_PCIE = {name: PathClass(name) for name in ("PIX", "PXB", "PHB", "NODE", "SYS")}
_SELF, _FABRIC, _INDIRECT = "S", "MDF", "XL*"
_FAILED = re.compile(r".*(Error:|command not found|No device discovered).*", re.IGNORECASE)


def looks_like(file: FileText) -> bool:
    """Whether this is, or was meant to be, the matrix of xpu-smi."""
    return re.search(r"^[\s|]*GPU\s?\d{1,4}/\d{1,2}\b", file.start, re.M | re.ASCII) is not None


def parse(file: FileText) -> Topology:
    """Read the matrix."""
    lines = clean_lines(file.text)
    table = find_table(lines, _TABLE, file)
    if table is None:
        bad = next((line for line in lines if _FAILED.fullmatch(line.text)), None)
        raise file.refusal("no matrix of xpu-smi topology -m found", bad.number if bad else None)
    cells = words_of(table, table.columns)
    report: list[str] = []
    name = table.columns.__getitem__
    unknown_pairs(cells, _is_cell, name, report, file)
    check_symmetric(cells, str, name, file)
    cards = [int(label.split()[1].split("/")[0]) for label in table.columns]
    for (i, j), at in cells.items():
        if at.word == _FABRIC and cards[i] != cards[j]:
            raise file.refusal(
                f"{name(i)} and {name(j)} are of different GPUs, but MDF joins tiles of one",
                at.line,
            )
    cpus = [cpu_affinity("".join(row.rest), row, file) for row in table.rows]
    return _facts(table, cards, cpus, report)


def _is_cell(cell: str) -> bool:
    return cell in (_FABRIC, _INDIRECT) or cell in _PCIE or _lanes(cell) > 0


def _lanes(cell: str) -> int:
    match = _LANES.fullmatch(cell)
    return int(match.group(1)) if match else 0


_TABLE = TableSpec(
    label=_LABEL,
    name=lambda match: f"GPU {int(match[1])}/{int(match[2])}",
    first="GPU",
    is_cell=_is_cell,
    cells=f"a relation (S, XLn, XL*, MDF, {', '.join(_PCIE)})",
    learns=True,
    mark="S",
    extras=((r"CPU\s*Affinity", "cpu"),),
)


def _facts(table: Table, cards: list[int], cpus: list[str | None], report: list[str]) -> Topology:
    tiles = Counter(cards)
    devices = tuple(
        Device(
            id=row.label,
            index=i,
            vendor=Vendor.INTEL,
            cpus=cpus[i],
            parent=f"GPU {cards[i]}" if tiles[cards[i]] > 1 else None,
            forwards=_INDIRECT in row.cells or None,
        )
        for i, row in enumerate(table.rows)
    )
    return told_machine(
        origin="xpu-smi topology -m",
        devices=devices,
        pcie_relations=_pcie(table.rows, cards),
        bonds=_links(table.rows),
        tells={FactKind.DEVICE_LINKS},
        report=(*report, *_report(table.rows, cpus)),
    )


def _links(rows: Sequence[Row]) -> dict[tuple[int, int], Bond]:
    """Direct bonds; XL* is reached over them and is none."""
    links: dict[tuple[int, int], Bond] = {}
    for i, row in enumerate(rows):
        for j in range(i + 1, len(rows)):
            lanes = _lanes(row.cells[j])
            if lanes:
                speed = lanes * k.XELINK.data_sheet
                links[i, j] = links[j, i] = _link(lanes, speed, k.XELINK.name)
            elif row.cells[j] == _FABRIC:
                links[i, j] = links[j, i] = _link(1, k.MDF.data_sheet, k.MDF.name)
    return links


def _link(count: int, bytes_per_s: float, name: str) -> Bond:
    return Bond(
        kind=LinkKind.XELINK,
        count=count,
        bytes_per_s=bytes_per_s,
        name=name,
    )


def _pcie(rows: Sequence[Row], cards: Sequence[int]) -> dict[tuple[int, int], Relation]:
    """PCIe relations as stated; tiles of one GPU share its one PCIe link, as below a switch.

    Nothing where Xe Link hides them all.
    """
    relations: dict[tuple[int, int], Relation] = {}
    for i, row in enumerate(rows):
        for j in range(i + 1, len(rows)):
            if cards[i] == cards[j]:
                relations[i, j] = Relation(PathClass.PIX)
            elif row.cells[j] in _PCIE:
                relations[i, j] = Relation(_PCIE[row.cells[j]])
    return relations


def _report(rows: Sequence[Row], cpus: Sequence[str | None]) -> list[str]:
    report = ["xpu-smi numbers tiles only: PCI bus ids are not known"]
    cells = [cell for i, row in enumerate(rows) for cell in row.cells[i + 1 :]]
    if any(_lanes(cell) for cell in cells):
        report.append(
            f"Xe Link speed is not stated: {k.XELINK.data_sheet / k.GB_PER_S:g} GB/s per lane and"
            " direction assumed"
        )
    if _INDIRECT in cells:
        report.append(
            f"{cells.count(_INDIRECT)} pairs of tiles are joined by Xe Link and MDF together: no"
            " link of their own, other tiles pass their traffic on"
        )
    if len(rows) > 2 and set(cells) == {"SYS"} and len(set(cpus)) > 1:
        report.append("every pair is SYS: this says nothing (a virtual machine?)")
    return report
