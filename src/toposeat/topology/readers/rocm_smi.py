"""Reader of `rocm-smi --showtopo` and its parts (--showtopoaccess, ...)."""

from __future__ import annotations

import re
from dataclasses import replace

from toposeat.model.topology import Device, Topology, Vendor
from toposeat.topology.readers.amd_facts import AmdPairs, read_tables
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import Line, clean_lines

_ORIGIN = "rocm-smi --showtopo"
_TITLES = {
    r"link accessibility between two gpus": "access",
    r"weight between two gpus": "weight",
    r"hops between two gpus": "hops",
    r"link type between two gpus": "type",
    r"(numa )?bandwidth( between two gpus)?": "bandwidth",
}
_TITLE = re.compile(r"(weight|hops|link type|link accessibility) between two gpus", re.IGNORECASE)
_NUMA = re.compile(
    r"\s*GPU\s?\[?(\d{1,4})\]?\s*:\s*\(Topology\) Numa (Node|Affinity):\s*(-?\d{1,6})\s*",
    re.IGNORECASE | re.ASCII,
)
_FAILED = re.compile(r"^\s*(ERROR|Traceback|rocm-smi: command not found).*", re.IGNORECASE)


def looks_like(file: FileText) -> bool:
    """Whether this is, or was meant to be, the topology that rocm-smi prints."""
    return _TITLE.search(file.start) is not None


def parse(file: FileText) -> Topology:
    """Read the tables.

    Raises:
        InputError: with file and line: no table, rows missing or cut, halves that disagree.
    """
    lines = clean_lines(file.text)
    tables = read_tables(lines, _TITLES, file)
    if not tables:
        raise file.refusal(
            "no table of rocm-smi --showtopo found",
            next((line.number for line in lines if _FAILED.match(line.text)), None),
        )
    devices = [_device(int(label[3:])) for label in _plain_labels(tables[0][1].columns, file)]
    pairs = AmdPairs(origin=_ORIGIN, file=file, devices=devices)
    for kind, table in tables:
        pairs.add(kind, table)
    _add_numa(pairs, lines, file)
    if any("low-power state" in line.text for line in lines):
        pairs.report.append(
            "rocm-smi warned that devices are in a low-power state; tables are not affected"
        )
    return pairs.facts()


def _plain_labels(labels: tuple[str, ...], file: FileText) -> tuple[str, ...]:
    if any(not label.startswith("GPU") for label in labels):
        raise file.refusal("rows are named by PCI bus ids, which rocm-smi does not do")
    return labels


def _device(index: int) -> Device:
    return Device(id=f"GPU{index}", index=index, vendor=Vendor.AMD)


def _add_numa(pairs: AmdPairs, lines: list[Line], file: FileText) -> None:
    """The memory node of each GPU; -1 is not known."""
    nodes: dict[str, dict[int, int]] = {"node": {}, "affinity": {}}
    for line in lines:
        match = _NUMA.fullmatch(line.text)
        if match is None:
            continue
        index, what, node = int(match.group(1)), match.group(2).lower(), int(match.group(3))
        if nodes[what].setdefault(index, node) != node:
            raise file.refusal(f"GPU{index} has two memory nodes", line.number)
    _set_numa(pairs, nodes["affinity"] or nodes["node"])
    if nodes["node"] and nodes["affinity"] and nodes["node"] != nodes["affinity"]:
        pairs.report.append("Numa Node and Numa Affinity differ: the affinity is taken")


def _set_numa(pairs: AmdPairs, node_of: dict[int, int]) -> None:
    unknown = []
    for i, device in enumerate(pairs.devices):
        node = node_of.get(device.index if device.index is not None else -1, -1)
        if node < 0:
            unknown.append(device.id)
        else:
            pairs.devices[i] = replace(device, numa_node=node)
    if unknown:
        pairs.report.append(f"the memory node of {', '.join(unknown[:8])} is not stated")
