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
from itertools import combinations

from toposeat.model.topology import Bond, Device, FactKind, LinkKind, PathClass, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology.readers.cells import check_symmetric, cpu_affinity, unknown_pairs, words_of
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import Row, Table, TableSpec, clean_lines, find_table
from toposeat.topology.relation import Relation
from toposeat.topology.told import told_machine

_LABEL = re.compile(r"GPU\s?(\d{1,4})/(\d{1,2})(?![\w/])", re.ASCII)
_LANES = re.compile(r"XL(\d{1,3})", re.ASCII)
_PCIE = {name: PathClass(name) for name in ("PIX", "PXB", "PHB", "NODE", "SYS")}
_FABRIC, _INDIRECT = "MDF", "XL*"
_FAILED = re.compile(r".*(Error:|command not found|No device discovered).*", re.IGNORECASE)


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
    """Direct bonds, since XL* is reached over them, and PCIe relations.

    Tiles of one GPU share its one PCIe link, as below a switch. Xe Link hides the others.
    """
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
    bonds: dict[tuple[int, int], Bond] = {}
    relations: dict[tuple[int, int], Relation] = {}
    for i, j in combinations(range(len(devices)), 2):
        cell = table.rows[i].cells[j]
        lanes = 1 if cell == _FABRIC else _lanes(cell)
        lane = k.MDF if cell == _FABRIC else k.XELINK
        if lanes:
            rate = lanes * lane.data_sheet
            bond = Bond(kind=LinkKind.XELINK, count=lanes, bytes_per_s=rate, name=lane.name)
            bonds[i, j] = bonds[j, i] = bond
        if cards[i] == cards[j] or cell in _PCIE:
            relations[i, j] = Relation(PathClass.PIX if cards[i] == cards[j] else _PCIE[cell])
    return told_machine(
        origin="xpu-smi topology -m",
        devices=devices,
        pcie_relations=relations,
        bonds=bonds,
        tells={FactKind.DEVICE_LINKS},
        report=(*report, *_report(table.rows, cpus)),
    )


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
