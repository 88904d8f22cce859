"""Readers of `amd-smi topology`, text and JSON, and of `rocm-smi --showtopo` and its parts.

Both print a table of all pairs each for access, weight, hops, link type and bandwidth.

The driver's `weight` adds 15 for an xGMI hop, 13 for the fabric inside a package, 20 for a PCIe
segment, and 12 or 32 between memory nodes. So 15 is a link of its own, 30 goes over another GPU,
41 = 13 + 15 + 13 joins partitions of two packages, 40 is PCIe below one memory node, 52 and 72
cross memory nodes. `hops` is 1 for whatever xGMI reaches (ROCm/rocm-systems#5763) and rejected.

Partitions of one GPU (DPX, TPX, CPX) are functions of one PCI device: 0000:05:00.0 to .7. They talk
over the fabric of their package, two packages over the one link that all their partitions share.
Facts hold links between devices only: that link is drawn between the first partitions, which relay
for the others inside.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Required, TypedDict, TypeVar, cast

from toposeat.model.pair import BANDWIDTH
from toposeat.model.quantity import check_pair_number
from toposeat.model.topology import (
    Bond,
    Device,
    FactKind,
    LinkKind,
    PathClass,
    Topology,
    Vendor,
    canonical_pci,
)
from toposeat.topology import constants as k
from toposeat.topology.readers.cells import Pair, WordAt, unknown_pairs, words_of
from toposeat.topology.readers.file_text import FileText, json_of
from toposeat.topology.readers.tables import (
    MAX_ENDPOINTS,
    WORD,
    Line,
    Table,
    TableSpec,
    clean_lines,
    find_table,
    sections,
)
from toposeat.topology.relation import UNKNOWN, Relation
from toposeat.topology.told import told_machine

DIRECT_WEIGHT = 15
PACKAGE_WEIGHT = 13
BETWEEN_PACKAGES_WEIGHT = DIRECT_WEIGHT + 2 * PACKAGE_WEIGHT
_RELAYED_WEIGHTS = (30, 45, 60)  # several xGMI hops, over other GPUs
SAME_NODE_WEIGHT = 40
_MOST_LANES = 16
_MB = 1e6
_AMD_TITLES = {
    r"access table": "access",
    r"weight table": "weight",
    r"hops table": "hops",
    r"link type table": "type",
    r"numa bw table": "bandwidth",
}
_ROCM_TITLES = {
    r"link accessibility between two gpus": "access",
    r"weight between two gpus": "weight",
    r"hops between two gpus": "hops",
    r"link type between two gpus": "type",
    r"(numa )?bandwidth( between two gpus)?": "bandwidth",
}
_MEMBERS = {  # of a link in JSON
    "link_status": "access",
    "weight": "weight",
    "num_hops": "hops",
    "link_type": "type",
    "bandwidth": "bandwidth",
}
_TITLE = re.compile(r"^\W*(access|weight|hops|link type|numa bw) table\b", re.I | re.M)
_NUMA = re.compile(
    r"\s*GPU\s?\[?(\d{1,4})\]?\s*:\s*\(Topology\) Numa (Node|Affinity):\s*(-?\d{1,6})\s*",
    re.IGNORECASE | re.ASCII,
)
_FAILED = re.compile(r"^\s*(ERROR|Traceback|rocm-smi: command not found).*", re.IGNORECASE)
_RANGE = re.compile(r"(\d{1,9})\s*-\s*(\d{1,9})", re.ASCII)
_ACCESS = {"TRUE": True, "ENABLED": True, "1": True, "FALSE": False, "DISABLED": False, "0": False}
_LABEL = re.compile(
    r"GPU\[(\d{1,4})\]|GPU\s?(\d{1,4})(?![\w.])"
    r"|((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?![\w.])",
    re.ASCII,
)
_Value = TypeVar("_Value")


class _Link(TypedDict, total=False):
    """One link in JSON; what its members hold is read as the cell of a table is."""

    bdf: Required[str]
    link_status: Any
    weight: Any
    num_hops: Any
    link_type: Any
    bandwidth: Any


class _Row(TypedDict):
    gpu: int
    bdf: str
    links: list[_Link]


class _Document(TypedDict):
    """Newer versions put the list into an object."""

    topology: list[_Row]


_Ranges = Mapping[Pair, tuple[float, float]]  # least and most bytes/s
_TYPES = frozenset({"XGMI", "PCIE"})
_UNKNOWN_TYPES = frozenset({"N/A", "UNKNOWN", "XXXX", "INTERNAL", "NOT_APPLICABLE"})


def looks_like(file: FileText) -> bool:
    """Whether this is, or was meant to be, output of `amd-smi topology`."""
    return _TITLE.search(file.start) is not None or _is_json(file)


def parse(file: FileText) -> Topology:
    """What `amd-smi topology` states."""
    pairs = _json_pairs(file) if _is_json(file) else _text_pairs(file)
    shared = Counter(map(_package, pairs.devices))
    for i, device in enumerate(pairs.devices):
        if shared[_package(device)] > 1:
            pairs.devices[i] = replace(device, parent=_package(device))
    return pairs.facts()


def parse_rocm(file: FileText) -> Topology:
    """What `rocm-smi --showtopo` states."""
    lines = clean_lines(file.text)
    tables = _read_tables(lines, _ROCM_TITLES, file)
    if not tables:
        raise file.refusal(
            "no table of rocm-smi --showtopo found",
            next((line.number for line in lines if _FAILED.match(line.text)), None),
        )
    labels = tables[0][1].columns
    if any(not label.startswith("GPU") for label in labels):
        raise file.refusal("rows are named by PCI bus ids, which rocm-smi does not do")
    pairs = _Pairs(origin="rocm-smi --showtopo", file=file, devices=[*map(_numbered, labels)])
    for kind, table in tables:
        pairs.add(kind, table)
    _add_numa(pairs, lines, file)
    if any("low-power state" in line.text for line in lines):
        pairs.report.append(
            "rocm-smi warned that devices are in a low-power state; tables are not affected"
        )
    return pairs.facts()


# ---- text


def _text_pairs(file: FileText) -> _Pairs:
    tables = _read_tables(clean_lines(file.text), _AMD_TITLES, file)
    if not tables:
        raise file.refusal("no table of amd-smi topology found")
    devices = [
        # amd-smi numbers devices in the order in which it prints them
        _numbered(label)
        if label.startswith("GPU")
        else Device(id=label, index=i, vendor=Vendor.AMD, pci_bus_id=label)
        for i, label in enumerate(tables[0][1].columns)
    ]
    pairs = _Pairs(origin="amd-smi topology", file=file, devices=devices)
    for kind, table in tables:
        pairs.add(kind, table)
    return pairs


def _numbered(label: str) -> Device:
    return Device(id=label, index=int(label[3:]), vendor=Vendor.AMD)


def _package(device: Device) -> str:
    return (device.pci_bus_id or device.id).rpartition(".")[0] or device.id


def _read_tables(
    lines: Sequence[Line], titles: Mapping[str, str], file: FileText
) -> list[tuple[str, Table]]:
    """The tables below known titles (patterns, lower case), with the kind of each."""

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
    found = ((kind, find_table(below, spec, file)) for kind, _, below in sections(lines, kind_of))
    return [(kind, table) for kind, table in found if table is not None]


def _name(match: re.Match[str]) -> str:
    bracketed, plain, bus = match.groups()
    return f"GPU{int(bracketed or plain)}" if bus is None else canonical_pci(bus)


def _add_numa(pairs: _Pairs, lines: Iterable[Line], file: FileText) -> None:
    """The memory node of each GPU as rocm-smi tells it; -1 is not known."""
    nodes: dict[str, dict[int, int]] = {"node": {}, "affinity": {}}
    for line in lines:
        match = _NUMA.fullmatch(line.text)
        if match is None:
            continue
        index, what, node = int(match.group(1)), match.group(2).lower(), int(match.group(3))
        if nodes[what].setdefault(index, node) != node:
            raise file.refusal(f"GPU{index} has two memory nodes", line.number)
    told, unknown = nodes["affinity"] or nodes["node"], []
    for i, device in enumerate(pairs.devices):
        near = told.get(-1 if device.index is None else device.index, -1)
        if near < 0:
            unknown.append(device.id)
        else:
            pairs.devices[i] = replace(device, numa_node=near)
    if unknown:
        pairs.report.append(f"the memory node of {', '.join(unknown[:8])} is not stated")
    if nodes["node"] and nodes["affinity"] and nodes["node"] != nodes["affinity"]:
        pairs.report.append("Numa Node and Numa Affinity differ: the affinity is taken")


# ---- JSON


def _is_json(file: FileText) -> bool:
    head = file.start[:20_000]
    return re.search(r'"links"\s*:', head) is not None and re.search(r'"bdf"\s*:', head) is not None


def _json_pairs(file: FileText) -> _Pairs:
    """`[{"gpu": 0, "bdf": "0000:0c:00.0", "links": [{"gpu": 1, "bdf": ..., "weight": 15}]}]`."""
    root: list[_Row] | _Document = json_of(file, cast(Any, list[_Row] | _Document))
    rows = root if isinstance(root, list) else root["topology"]
    if not 0 < len(rows) <= MAX_ENDPOINTS:
        raise file.refusal(f"a list of {len(rows)} GPUs")
    devices: list[Device] = []
    for row in rows:
        bus = canonical_pci(row["bdf"])
        if row["gpu"] < 0 or any(bus == d.id or row["gpu"] == d.index for d in devices):
            raise file.refusal(f"GPU {row['gpu']} ({bus}) is listed twice, or has no number")
        devices.append(Device(id=bus, index=row["gpu"], vendor=Vendor.AMD, pci_bus_id=bus))
    position = {device.id: i for i, device in enumerate(devices)}
    pairs = _Pairs(origin="amd-smi topology --json", file=file, devices=devices)
    for i, row in enumerate(rows):
        links = {position.get(canonical_pci(link["bdf"])): link for link in row["links"]}
        if links.keys() | {i} != set(range(len(devices))):
            raise file.refusal(f"{devices[i].id} does not have a link to each of the other GPUs")
        for j, link in links.items():
            for member, kind in _MEMBERS.items():
                if j is not None and i != j and member in link:
                    cell = WordAt(str(link[member])[:80])  # type: ignore[literal-required]
                    pairs.tables.setdefault(kind, {})[i, j] = cell
    return pairs


@dataclass(kw_only=True)
class _Pairs:
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
        """What the tables state together."""
        self.types = self._types()
        self.weights = self._symmetric("weight", _weight)
        self.ranges = self._pairs("bandwidth", _range)
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
            peer_access=self._pairs("access", _access),
            bonds=links,
            tells={FactKind.DEVICE_LINKS} if self.types else set(),
            report=self.report,
        )

    def _types(self) -> dict[Pair, str]:
        """XGMI, PCIE, or "" where the word says nothing or is not known."""
        cells = self.tables.get("type", {})
        words = {pair: WordAt(cell.word.upper(), cell.line) for pair, cell in cells.items()}
        unknown_pairs(words, _is_type, lambda i: self.devices[i].id, self.report, self.file)
        return self._symmetric("type", _type)

    def _links(self) -> dict[Pair, Bond]:
        """Direct xGMI bonds; also tells partitions of one package, and who relays for others."""
        package = _packages(len(self.devices), self.weights, [d.parent for d in self.devices])
        links, far = _xgmi_links(sorted(self.xgmi), self.weights, self.ranges, package)
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
            if pair[0] < pair[1] and self.types.get(pair) == "PCIE" and weight > SAME_NODE_WEIGHT
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

    def _symmetric(self, kind: str, read: Callable[[str], _Value | None]) -> dict[Pair, _Value]:
        """A kind whose halves must agree; where one half is missing, the other serves for both."""
        found = self._pairs(kind, read)
        for (i, j), value in list(found.items()):
            back = found.setdefault((j, i), value)
            if back != value:
                raise self.file.refusal(
                    f"the {kind} table is asymmetric: {self._name((i, j))} is {value}, the other"
                    f" way it is {back}",
                    self.tables[kind][j, i].line,
                )
        return found

    def _pairs(self, kind: str, read: Callable[[str], _Value | None]) -> dict[Pair, _Value]:
        """What the cells of a kind say, read in upper case; those that say nothing are left out."""
        found: dict[Pair, _Value] = {}
        for pair, cell in self.tables.get(kind, {}).items():
            with self.file.at(cell.line, f"{kind} of {self._name(pair)}: "):
                value = read(cell.word.upper())
            if value is not None:
                found[pair] = value
        return found

    def _name(self, pair: Pair) -> str:
        return f"{self.devices[pair[0]].id} to {self.devices[pair[1]].id}"


def _is_type(word: str) -> bool:
    return word in _TYPES or word in _UNKNOWN_TYPES or word.startswith("AMDSMI_")


def _type(word: str) -> str | None:
    if word not in _TYPES and not _is_type(word) and WORD.fullmatch(word) is None:
        raise ValueError(f"unknown link type {word!r:.40}")
    return word if word in _TYPES else ""


def _weight(word: str) -> int | None:
    if re.fullmatch(r"\d{1,9}", word, re.ASCII):
        return int(word)
    if word not in _UNKNOWN_TYPES:
        raise ValueError(f"expected a number, found {word!r:.40}")
    return None


def _range(word: str) -> tuple[float, float] | None:
    match = _RANGE.fullmatch(word)
    if match:
        least, most = sorted(int(n) * _MB for n in match.groups())
        check_pair_number(BANDWIDTH, most)
        return (least, most) if most else None
    if word not in _UNKNOWN_TYPES and not word.startswith("AMDSMI_"):
        raise ValueError(f"expected MIN-MAX or N/A, found {word!r:.40}")
    return None


def _access(word: str) -> bool | None:
    if word not in _ACCESS and word not in _UNKNOWN_TYPES:
        raise ValueError(f"expected True or False, found {word!r:.40}")
    return _ACCESS.get(word)


# ---- xGMI


def _packages(count: int, weights: Mapping[Pair, int], stated: Sequence[str | None]) -> list[int]:
    """For each device the first device of its package; most are packages of their own.

    `stated` is what the PCI bus id says of a device's package; equal texts are one package.
    """
    first = list(range(count))
    for j in range(count):
        for i in range(j):
            together = stated[i] is not None and stated[i] == stated[j]
            if first[j] == j and (together or weights.get((i, j)) == PACKAGE_WEIGHT):
                first[j] = first[i]
    return first


def _xgmi_links(
    pairs: Sequence[Pair], weights: Mapping[Pair, int], ranges: _Ranges, package: Sequence[int]
) -> tuple[dict[Pair, Bond], list[Pair]]:
    """Direct bonds, and the pairs (i, j), i < j, that xGMI reaches without one.

    A pair without a weight is taken to have a link.
    """
    links: dict[Pair, Bond] = {}
    far: list[Pair] = []
    joined: set[Pair] = set()
    for pair in pairs:
        ends = package[pair[0]], package[pair[1]]
        weight = weights.get(pair, DIRECT_WEIGHT)
        parted = ends[0] != ends[1] and all(package.count(end) > 1 for end in ends)
        if weight == BETWEEN_PACKAGES_WEIGHT and parted:
            if ends not in joined:
                joined.add(ends)
                links |= _link(ends, ranges, pair, k.XGMI_MI300.data_sheet)
        elif weight > DIRECT_WEIGHT:
            far.append(pair)
        else:
            inside = ends[0] == ends[1]
            links |= _link(pair, ranges, pair, k.XGMI_IN_PACKAGE if inside else None)
    return links, far


def _link(ends: Pair, ranges: _Ranges, pair: Pair, default: float | None) -> dict[Pair, Bond]:
    least, most = ranges.get(pair, (0.0, 0.0))
    back = ranges.get((pair[1], pair[0]), (0.0, 0.0))[1]
    count = max(1, min(_MOST_LANES, round(most / least))) if least else 1
    return {
        ends: Bond(kind=LinkKind.XGMI, count=count, bytes_per_s=most or default),
        (ends[1], ends[0]): Bond(kind=LinkKind.XGMI, count=count, bytes_per_s=back or default),
    }
