"""What AMD's tables of weights, link types and bandwidths mean.

The driver's `weight` adds 15 for an xGMI hop, 13 for the fabric inside a package, 20 for a PCIe
segment, and 12 or 32 between memory nodes. So 15 is a link of its own, 30 goes over another GPU,
41 = 13 + 15 + 13 joins partitions of two packages, 40 is PCIe below one memory node, 52 and 72
cross memory nodes. `hops` is 1 for whatever xGMI reaches (ROCm/rocm-systems#5763) and rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from toposeat.errors import InputError
from toposeat.model.pair import BANDWIDTH
from toposeat.model.quantity import check_pair_number
from toposeat.model.topology import Bond, Device, FactKind, PathClass, Topology, canonical_pci
from toposeat.topology.readers.amd_links import DIRECT_WEIGHT, Pair, packages, xgmi_links
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import WORD, Line, Table, TableSpec, find_table, sections
from toposeat.topology.readers.words import WordAt, unknown_pairs, words_of
from toposeat.topology.relation import UNKNOWN, Relation
from toposeat.topology.told import told_machine

_RELAYED_WEIGHTS = (30, 45, 60)  # several xGMI hops, over other GPUs
_SAME_NODE_WEIGHT = 40
_MB = 1e6
_RANGE = re.compile(r"(\d{1,9})\s*-\s*(\d{1,9})", re.ASCII)
_ACCESS = {"TRUE": True, "ENABLED": True, "1": True, "FALSE": False, "DISABLED": False, "0": False}
_LABEL = re.compile(
    r"GPU\[(\d{1,4})\]|GPU\s?(\d{1,4})(?![\w.])"
    r"|((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?![\w.])",
    re.ASCII,
)
_Value = TypeVar("_Value")
_TYPES = frozenset({"XGMI", "PCIE"})
_UNKNOWN_TYPES = frozenset({"N/A", "UNKNOWN", "XXXX", "INTERNAL", "NOT_APPLICABLE"})


def _is_type(word: str) -> bool:
    return word in _TYPES or word in _UNKNOWN_TYPES or word.startswith("AMDSMI_")


def read_tables(
    lines: Sequence[Line], titles: Mapping[str, str], file: FileText
) -> list[tuple[str, Table]]:
    """The tables below known titles, with the kind of each.

    Args:
        lines: of the file, cleaned.
        titles: patterns of titles (lower case) -> kinds.
        file: for messages.

    Raises:
        InputError: a table without rows, with rows missing, twice or cut.
    """

    def kind_of(line: Line) -> str | None:
        bare = line.text.strip(" =:*#|\t").lower()[:80]
        return next((kind for title, kind in titles.items() if re.fullmatch(title, bare)), None)

    spec = TableSpec(
        label=_LABEL,
        name=_name,
        first=r"GPU\d|[0-9a-f]{4}",
        is_cell=lambda word: re.fullmatch(r"[\w/.?*+-]{1,80}", word, re.ASCII) is not None,
        cells="a word or a number",
    )
    found = []
    for kind, _, below in sections(lines, kind_of):
        table = find_table(below, spec, file)
        if table is not None:
            found.append((kind, table))
    return found


def _name(match: re.Match[str]) -> str:
    bracketed, plain, bus = match.groups()
    return f"GPU{int(bracketed or plain)}" if bus is None else canonical_pci(bus)


@dataclass(kw_only=True)
class AmdPairs:
    """All that a tool printed of pairs, kind by kind, and of single devices.

    Kinds are access, weight, hops, type and bandwidth. Pairs are ordered (source, target).
    """

    origin: str
    file: FileText
    devices: list[Device]
    tables: dict[str, dict[Pair, WordAt]] = field(default_factory=dict)
    report: list[str] = field(default_factory=list)
    types: dict[Pair, str] = field(default_factory=dict)  # these are told by `facts`
    weights: dict[Pair, int] = field(default_factory=dict)
    ranges: dict[Pair, tuple[float, float]] = field(default_factory=dict)
    xgmi: set[Pair] = field(default_factory=set)  # smaller number first

    def add(self, kind: str, table: Table) -> None:
        """Take in a table; its labels must be those of the devices, in any order."""
        labels = [device.id for device in self.devices]
        if sorted(table.columns) != sorted(labels):
            raise self.file.refusal(
                f"the {kind} table has other devices than the table before", table.line
            )
        if kind in self.tables:
            self.report.append(f"a second {kind} table at line {table.line} was not read")
            return
        self.tables[kind] = words_of(table, labels)

    def facts(self) -> Topology:
        """What the tables state together.

        Raises:
            InputError: contradictory or impossible cells, with their line.
        """
        self.types = self._types()
        self.weights = self._symmetric("weight", self._number)
        self.ranges = self._pairs("bandwidth", self._range)
        if not self.types and not self.weights:
            raise self.file.refusal("no table of link types or weights found")
        self.xgmi = {(i, j) for (i, j), kind in self.types.items() if kind == "XGMI" and i < j}
        self._check_weights()
        links = self._links()
        self._report_gaps()
        return told_machine(
            origin=self.origin,
            devices=self.devices,
            pcie_relations=self._pcie(),
            peer_access=self._pairs("access", self._access),
            bonds=links,
            tells={FactKind.DEVICE_LINKS} if self.types else set(),
            report=self.report,
        )

    def _types(self) -> dict[Pair, str]:
        """XGMI, PCIE, or "" where the word says nothing or is not known."""
        cells = self.tables.get("type", {})
        words = {pair: WordAt(cell.word.upper(), cell.place) for pair, cell in cells.items()}
        unknown_pairs(
            words,
            _is_type,
            lambda i: self.devices[i].id,
            self.report,
            self.file,
        )
        return self._symmetric("type", self._type)

    def _links(self) -> dict[Pair, Bond]:
        """Direct xGMI bonds; also tells partitions of one package, and who relays for others."""
        package = packages(len(self.devices), self.weights, [d.parent for d in self.devices])
        links, far = xgmi_links(sorted(self.xgmi), self.weights, self.ranges, package)
        parts = [i for i, first in enumerate(package) if package.count(first) > 1]
        for i in parts:
            parent = self.devices[i].parent or f"package of {self.devices[package[i]].id}"
            self.devices[i] = replace(self.devices[i], parent=parent, forwards=True)
        if parts:
            self.report.append(
                f"{len(parts)} devices are partitions of {len({package[i] for i in parts})} GPUs;"
                " the link between two GPUs is shared by all their partitions"
            )
        if any(self.weights.get(pair, 0) in _RELAYED_WEIGHTS for pair in self.xgmi):
            self.devices = [replace(device, forwards=True) for device in self.devices]
        if far:
            self.report.append(
                f"{len(far)} xGMI pairs weigh more than {DIRECT_WEIGHT}: they have no link of their"
                f" own ({self._name(far[0])} and others)"
            )
        return links

    def _check_weights(self) -> None:
        """PCIe needs two segments of 20; less contradicts the link type."""
        for pair, kind in self.types.items():
            weight = self.weights.get(pair)
            if kind == "PCIE" and weight is not None and 0 < weight <= DIRECT_WEIGHT:
                self.report.append(
                    f"{self._name(pair)} is PCIe, but weighs {weight} like a direct xGMI link: the"
                    " link type is trusted"
                )
                return

    def _pcie(self) -> dict[Pair, Relation]:
        """PCIe distances: beyond 40 the way crosses memory nodes; what is below is not shown.

        Nothing where xGMI hides them all.
        """
        relations = {
            pair: Relation(PathClass.SYS)
            for pair, weight in self.weights.items()
            if pair[0] < pair[1] and self.types.get(pair) == "PCIE" and weight > _SAME_NODE_WEIGHT
        }
        if not relations and not self.xgmi and not self.types:
            count = len(self.devices)
            return {(i, j): UNKNOWN for j in range(count) for i in range(j)}
        return relations

    def _report_gaps(self) -> None:
        if "hops" in self.tables and self.xgmi:
            self.report.append(
                "the table of hops is not used: it says 1 for every xGMI pair, direct or not"
            )
        if not self.types:
            self.report.append("no table of link types: which pairs have xGMI is not known")
        if self.xgmi and not self.weights:
            self.report.append(
                "no table of weights: xGMI pairs without a link of their own cannot be told apart;"
                " every pair is taken to have one"
            )
        stated = [pair for pair in self.xgmi if self.ranges.get(pair, (0.0, 0.0))[1]]
        if self.xgmi and not stated:
            self.report.append(
                "bandwidths of xGMI links are not stated: each pair counts as one link (the two"
                " dies of an MI250X package have four: KFD's io_links or a measurement would tell)"
            )
        unknown = [p for p, kind in self.types.items() if kind == "" and p[0] < p[1]]
        if unknown:
            self.report.append(
                f"the link type of {len(unknown)} pairs is not known, e.g. {self._name(unknown[0])}"
            )
        if any(kind == "PCIE" for kind in self.types.values()):
            self.report.append(
                "PCIe switches are not shown by this tool: what PCIe pairs share is not known"
            )

    def _symmetric(self, kind: str, read: Callable[[WordAt], _Value | None]) -> dict[Pair, _Value]:
        """A kind whose halves must agree; where one half is missing, the other serves for both."""
        found = self._pairs(kind, read)
        for (i, j), value in list(found.items()):
            back = found.setdefault((j, i), value)
            if back != value:
                cell = self.tables[kind][j, i]
                raise self._refusal(
                    f"the {kind} table is asymmetric: {self._name((i, j))} is {value}, the other"
                    f" way it is {back}",
                    cell,
                )
        return found

    def _pairs(self, kind: str, read: Callable[[WordAt], _Value | None]) -> dict[Pair, _Value]:
        return {
            pair: value
            for pair, cell in self.tables.get(kind, {}).items()
            if (value := read(cell)) is not None
        }

    def _type(self, cell: WordAt) -> str | None:
        text = cell.word.upper()
        if text in _TYPES:
            return text
        if _is_type(text) or WORD.fullmatch(text):
            return ""
        raise self._refusal(f"unknown link type {cell.word!r:.40}", cell)

    def _number(self, cell: WordAt) -> int | None:
        if re.fullmatch(r"\d{1,9}", cell.word, re.ASCII):
            return int(cell.word)
        if cell.word.upper() in _UNKNOWN_TYPES:
            return None
        raise self._refusal(f"a weight must be a number, not {cell.word!r:.40}", cell)

    def _range(self, cell: WordAt) -> tuple[float, float] | None:
        match = _RANGE.fullmatch(cell.word)
        if match:
            least, most = sorted(int(n) * _MB for n in match.groups())
            try:
                check_pair_number(BANDWIDTH, most)
            except ValueError as error:
                raise self._refusal(str(error), cell) from None
            return (least, most) if most else None
        if cell.word.upper() in _UNKNOWN_TYPES or cell.word.startswith("AMDSMI_"):
            return None
        raise self._refusal(f"a bandwidth must be MIN-MAX or N/A, not {cell.word!r:.40}", cell)

    def _access(self, cell: WordAt) -> bool | None:
        text = cell.word.upper()
        if text in _ACCESS:
            return _ACCESS[text]
        if text in _UNKNOWN_TYPES:
            return None
        raise self._refusal(f"access must be True or False, not {cell.word!r:.40}", cell)

    def _refusal(self, message: str, cell: WordAt) -> InputError:
        return self.file.refusal(message, cell.line)

    def _name(self, pair: Pair) -> str:
        return f"{self.devices[pair[0]].id} to {self.devices[pair[1]].id}"
