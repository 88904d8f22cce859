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
from dataclasses import dataclass, replace
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.topology import LinkKind, PathClass, Vendor
from toposeat.topology import constants as k
from toposeat.topology.facts import DeviceFact, LinkFact, MachineFacts
from toposeat.topology.graph.relation import Relation, RelationMatrix
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.unknown_words import (
    Strange,
    WordAt,
    could_be_a_word,
    unknown_pairs,
)
from toposeat.topology.readers.word_table import MAX_ENDPOINTS, Line, clean_lines

_SAVE = "save the whole output again: xpu-smi topology -m > FILE"
_LABEL = re.compile(r"GPU\s?(\d{1,4})/(\d{1,2})(?![\w/])", re.ASCII)
_LANES = re.compile(r"XL(\d{1,3})", re.ASCII)
_PCIE = {name: PathClass(name) for name in ("PIX", "PXB", "PHB", "NODE", "SYS")}
_SELF, _FABRIC, _INDIRECT = "S", "MDF", "XL*"
_FAILED = re.compile(r".*(Error:|command not found|No device discovered).*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Tile:
    card: int
    tile: int

    @property
    def label(self) -> str:
        return f"GPU {self.card}/{self.tile}"


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[str, ...]
    cpus: str | None
    line: int


def looks_like(file: FileText) -> bool:
    """Whether this is, or was meant to be, the matrix of xpu-smi."""
    return re.search(r"^[\s|]*GPU\s?\d{1,4}/\d{1,2}\b", file.start, re.M | re.ASCII) is not None


def heading_of(text: str) -> bool:
    """Whether a line is the header of the matrix."""
    return _header([Line(1, text)]) is not None


def parse(file: FileText) -> MachineFacts:
    """Read the matrix.

    Raises:
        InputError: with file and line: no matrix, truncated, unknown words, asymmetric.
    """
    lines = clean_lines(file.text)
    found = _header(lines)
    if found is None:
        bad = next((line for line in lines if _FAILED.fullmatch(line.text)), None)
        raise InputError(
            "no matrix of xpu-smi topology -m found",
            path=file.path,
            line=bad.number if bad else None,
            hint=_SAVE,
        )
    position, tiles = found
    if len(set(tiles)) < len(tiles) or len(tiles) > MAX_ENDPOINTS:
        raise InputError(
            "the header names a tile twice, or too many",
            path=file.path,
            line=lines[position].number,
            hint=_SAVE,
        )
    rows = _rows(lines[position + 1 :], tiles, file.path)
    report: list[str] = []
    _check_words(tiles, rows, file.path, report)
    _check_symmetry(tiles, rows, file.path)
    facts = _facts(tiles, rows)
    return replace(facts, report=(*report, *facts.report))


def _header(lines: Sequence[Line]) -> tuple[int, list[_Tile]] | None:
    """The first line that starts with two labels, or with one and then nothing but words."""
    for position, line in enumerate(lines):
        text = line.text.replace("|", " ").strip()
        labels = list(_LABEL.finditer(text))
        between = _LABEL.sub(" ", re.sub(r"CPU\s*Affinity.*", "", text, flags=re.I))
        if labels and labels[0].start() == 0 and not between.strip():
            return position, [_Tile(int(m.group(1)), int(m.group(2))) for m in labels]
    return None


def _rows(lines: Sequence[Line], tiles: Sequence[_Tile], path: Path) -> list[_Row]:
    rows: dict[_Tile, _Row] = {}
    last = lines[0].number if lines else 1
    for line in lines:
        text = line.text.replace("|", " ").strip()
        match = _LABEL.match(text)
        if match is None:
            if len(rows) == len(tiles):
                break
            continue
        tile = _Tile(int(match.group(1)), int(match.group(2)))
        if tile not in tiles or tile in rows:
            raise InputError(
                f"row {tile.label} comes twice, or has no column",
                path=path,
                line=line.number,
                hint=_SAVE,
            )
        rows[tile] = _row(tile, tiles, text[match.end() :].split(), line.number, path)
        last = line.number
        if len(rows) == len(tiles):
            break
    missing = [tile.label for tile in tiles if tile not in rows]
    if missing:
        raise InputError(
            f"no row for {', '.join(missing[:8])}: the matrix is truncated",
            path=path,
            line=last,
            hint=_SAVE,
        )
    return [rows[tile] for tile in tiles]


def _row(tile: _Tile, tiles: Sequence[_Tile], tokens: list[str], line: int, path: Path) -> _Row:
    cells = [token.upper() for token in tokens[: len(tiles)]]
    for cell in cells:
        if not _is_cell(cell) and not could_be_a_word(cell):
            raise InputError(
                f"unknown relation {cell!r:.40} in row {tile.label}",
                path=path,
                line=line,
                hint=f"known are S, XLn, XL*, MDF, {', '.join(_PCIE)}; {_SAVE}",
            )
    rest = tokens[len(tiles) :]
    if len(cells) < len(tiles) or len(rest) > 1:
        raise InputError(
            f"row {tile.label} has {len(tokens)} cells for {len(tiles)} columns and an affinity",
            path=path,
            line=line,
            hint=_SAVE,
        )
    if [column for column, cell in zip(tiles, cells, strict=True) if cell == _SELF] != [tile]:
        raise InputError(
            f"row {tile.label} has its S elsewhere: columns are shifted",
            path=path,
            line=line,
            hint=_SAVE,
        )
    return _Row(tuple(cells), _affinity(rest, tile, line, path), line)


def _is_cell(cell: str) -> bool:
    return cell in (_SELF, _FABRIC, _INDIRECT) or cell in _PCIE or _lanes(cell) > 0


def _lanes(cell: str) -> int:
    match = _LANES.fullmatch(cell)
    return int(match.group(1)) if match else 0


def _affinity(rest: list[str], tile: _Tile, line: int, path: Path) -> str | None:
    if not rest or rest[0] == "N/A":
        return None
    try:
        parse_cpu_list(rest[0])
    except ValueError:
        raise InputError(
            f"the CPU affinity of {tile.label} is damaged: {rest[0]!r:.40}",
            path=path,
            line=line,
            hint=_SAVE,
        ) from None
    return rest[0]


def _check_words(
    tiles: Sequence[_Tile], rows: Sequence[_Row], path: Path, report: list[str]
) -> None:
    """Report words that are not known: what joins those tiles stays not known."""
    cells = {
        (i, j): WordAt(cell, row.line)
        for i, row in enumerate(rows)
        for j, cell in enumerate(row.cells)
        if i != j
    }
    unknown = unknown_pairs(cells, _is_cell, lambda i: tiles[i].label, report)
    if isinstance(unknown, Strange):
        raise InputError(
            unknown.cause,
            path=path,
            line=unknown.line,
            hint=f"known are S, XLn, XL*, MDF, {', '.join(_PCIE)}; {_SAVE}",
        )


def _check_symmetry(tiles: Sequence[_Tile], rows: Sequence[_Row], path: Path) -> None:
    for i, row in enumerate(rows):
        for j in range(i):
            if row.cells[j] != rows[j].cells[i]:
                raise InputError(
                    f"the matrix is asymmetric: {tiles[j].label} -> {tiles[i].label} is"
                    f" {rows[j].cells[i]}, the other way it is {row.cells[j]}",
                    path=path,
                    line=row.line,
                    hint=_SAVE,
                )
            if row.cells[j] == _FABRIC and tiles[i].card != tiles[j].card:
                raise InputError(
                    f"{tiles[i].label} and {tiles[j].label} are of different GPUs, but MDF joins"
                    " tiles of one",
                    path=path,
                    line=row.line,
                    hint=_SAVE,
                )


def _facts(tiles: Sequence[_Tile], rows: Sequence[_Row]) -> MachineFacts:
    cards = Counter(tile.card for tile in tiles)
    devices = tuple(
        DeviceFact(
            label=tile.label,
            index=i,
            vendor=Vendor.INTEL,
            cpus=row.cpus,
            parent=f"GPU {tile.card}" if cards[tile.card] > 1 else None,
            forwards=_INDIRECT in row.cells or None,
        )
        for i, (tile, row) in enumerate(zip(tiles, rows, strict=True))
    )
    return MachineFacts(
        origin="xpu-smi topology -m",
        devices=devices,
        pcie_relations=_pcie(tiles, rows, devices),
        links=tuple(_links(rows)),
        report=tuple(_report(tiles, rows)),
    )


def _links(rows: Sequence[_Row]) -> list[LinkFact]:
    """Direct bonds; XL* is reached over them and is none."""
    links: list[LinkFact] = []
    for i, row in enumerate(rows):
        for j in range(i + 1, len(rows)):
            lanes = _lanes(row.cells[j])
            if lanes:
                speed = lanes * k.XELINK.data_sheet
                links.append(_link(i, j, lanes, speed, k.XELINK.name))
            elif row.cells[j] == _FABRIC:
                links.append(_link(i, j, 1, k.MDF.data_sheet, k.MDF.name))
    return links


def _link(i: int, j: int, count: int, bytes_per_s: float, name: str) -> LinkFact:
    return LinkFact(
        kind=LinkKind.XELINK,
        i=i,
        j=j,
        count=count,
        forward_bytes_per_s=bytes_per_s,
        backward_bytes_per_s=bytes_per_s,
        name=name,
    )


def _pcie(
    tiles: Sequence[_Tile], rows: Sequence[_Row], devices: Sequence[DeviceFact]
) -> RelationMatrix | None:
    """PCIe relations as stated; tiles of one GPU share its one PCIe link, as below a switch.

    None where Xe Link hides them all.
    """
    relations: dict[tuple[int, int], Relation] = {}
    for i, row in enumerate(rows):
        for j in range(i + 1, len(rows)):
            if tiles[i].card == tiles[j].card:
                relations[i, j] = Relation(PathClass.PIX)
            elif row.cells[j] in _PCIE:
                relations[i, j] = Relation(_PCIE[row.cells[j]])
    if not relations:
        return None
    return RelationMatrix(
        gpus=tuple(device.label for device in devices),
        relations=relations,
        cpu_affinity=tuple(device.cpus for device in devices),
    )


def _report(tiles: Sequence[_Tile], rows: Sequence[_Row]) -> list[str]:
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
    if len(tiles) > 2 and set(cells) == {"SYS"} and len({row.cpus for row in rows}) > 1:
        report.append("every pair is SYS: this says nothing (a virtual machine?)")
    return report
