"""Reader of `amd-smi topology`, text and JSON: like rocm-smi's tables, with PCI bus ids.

Partitions of one GPU (DPX, TPX, CPX) are functions of one PCI device: 0000:05:00.0 to .7.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

from toposeat.errors import InputError
from toposeat.model.topology import Device, Topology, Vendor, canonical_pci
from toposeat.topology.readers.amd_facts import AmdPairs, read_tables
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.json_text import line_of, parse_json_after_words, place_of
from toposeat.topology.readers.tables import MAX_ENDPOINTS, clean_lines
from toposeat.topology.readers.words import WordAt

_Steps = tuple[str | int, ...]  # to a value of JSON
_TITLES = {
    r"access table": "access",
    r"weight table": "weight",
    r"hops table": "hops",
    r"link type table": "type",
    r"numa bw table": "bandwidth",
}
_MEMBERS = {  # of a link in JSON
    "link_status": "access",
    "weight": "weight",
    "num_hops": "hops",
    "link_type": "type",
    "bandwidth": "bandwidth",
}
_TITLE = re.compile(r"^\W*(access|weight|hops|link type|numa bw) table\b", re.I | re.M)


def looks_like(file: FileText) -> bool:
    """Whether this is, or was meant to be, output of `amd-smi topology`."""
    return _TITLE.search(file.start) is not None or _is_json(file)


def parse(file: FileText) -> Topology:
    """Read the tables.

    Raises:
        InputError: with file and line: no table, rows missing or cut, halves that disagree.
    """
    return _parse_json(file) if _is_json(file) else _parse_text(file)


def _is_json(file: FileText) -> bool:
    head = file.start[:20_000]
    return re.search(r'"links"\s*:', head) is not None and re.search(r'"bdf"\s*:', head) is not None


def _parse_text(file: FileText) -> Topology:
    tables = read_tables(clean_lines(file.text), _TITLES, file)
    if not tables:
        raise file.refusal("no table of amd-smi topology found")
    devices = [_device(i, label) for i, label in enumerate(tables[0][1].columns)]
    pairs = AmdPairs(origin="amd-smi topology", file=file, devices=devices)
    for kind, table in tables:
        pairs.add(kind, table)
    return _finish(pairs)


def _device(index: int, label: str) -> Device:
    """A row; `amd-smi` numbers devices in the order in which it prints them."""
    if label.startswith("GPU"):
        return Device(id=label, index=int(label[3:]), vendor=Vendor.AMD)
    return Device(id=label, index=index, vendor=Vendor.AMD, pci_bus_id=label)


def _finish(pairs: AmdPairs) -> Topology:
    shared = Counter(_package(device) for device in pairs.devices)
    for i, device in enumerate(pairs.devices):
        if shared[_package(device)] > 1:
            pairs.devices[i] = replace(device, parent=_package(device))
    return pairs.facts()


def _package(device: Device) -> str:
    return (device.pci_bus_id or device.id).rpartition(".")[0] or device.id


def _parse_json(file: FileText) -> Topology:
    """`[{"gpu": 0, "bdf": "0000:0c:00.0", "links": [{"gpu": 1, "bdf": ..., "weight": 15}]}]`."""
    root = parse_json_after_words(file)
    steps: _Steps = ()
    rows = root
    if isinstance(root, dict):
        rows, steps = root.get("topology"), ("topology",)
    if not isinstance(rows, list) or not rows or len(rows) > MAX_ENDPOINTS:
        raise _refusal("the JSON is no list of GPUs with links", file, steps)
    devices: list[Device] = []
    position: dict[str, int] = {}
    for i, row in enumerate(rows):
        devices.append(_json_device(row, file, (*steps, i)))
        if position.setdefault(devices[i].id, i) != i:
            raise _refusal("a GPU is listed twice", file, (*steps, i))
        if any(devices[i].index == other.index for other in devices[:i]):
            raise _refusal(f"index {devices[i].index} appears twice", file, (*steps, i, "gpu"))
    pairs = AmdPairs(origin="amd-smi topology --json", file=file, devices=devices)
    for i, row in enumerate(rows):
        links, at = row.get("links"), (*steps, i, "links")
        if not isinstance(links, list):
            raise _refusal(f"{devices[i].id} has no list of links", file, at)
        seen = [
            _json_link(pairs, i, link, position, file, steps=(*at, number))
            for number, link in enumerate(links)
        ]
        if sorted(set(seen) | {i}) != list(range(len(devices))):
            raise _refusal(
                f"{devices[i].id} has links to {len(set(seen))} of {len(devices)} GPUs", file, at
            )
    return _finish(pairs)


def _json_device(row: Any, file: FileText, steps: _Steps) -> Device:
    bus, number = _bus(row, file, steps), row.get("gpu")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 100_000:
        raise _refusal(f"the number of {bus} is {number!r:.40}", file, (*steps, "gpu"))
    return Device(id=bus, index=number, vendor=Vendor.AMD, pci_bus_id=bus)


def _json_link(
    pairs: AmdPairs,
    i: int,
    link: Any,
    position: dict[str, int],
    file: FileText,
    *,
    steps: _Steps,
) -> int:
    j = position.get(_bus(link, file, steps))
    if j is None:
        raise _refusal(
            f"{pairs.devices[i].id} has a link to a GPU that is not listed",
            file,
            (*steps, "bdf"),
        )
    for member, kind in _MEMBERS.items():
        if member in link and i != j:
            cell = WordAt(str(link[member])[:80], place_of(file, *steps, member))
            pairs.tables.setdefault(kind, {})[i, j] = cell
    return j


def _bus(item: Any, file: FileText, steps: _Steps) -> str:
    try:
        return canonical_pci(item["bdf"])
    except (TypeError, KeyError, ValueError, AttributeError):
        raise _refusal("an entry without a PCI bus id (bdf)", file, (*steps, "bdf")) from None


def _refusal(message: str, file: FileText, steps: _Steps) -> InputError:
    return file.refusal(message, line_of(file, *steps))
