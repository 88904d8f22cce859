"""Reader of `nvidia-smi --query-gpu=... --format=csv`."""

from __future__ import annotations

import csv

from toposeat.model.topology import Topology
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.nvidia_smi_fields import (
    Fields,
    describe_fabric,
    describe_links,
    device_facts,
    word,
)
from toposeat.topology.told import told_machine

_MAX_ROWS = 1024
_COLUMNS = {
    "index": "index",
    "name": "name",
    "gpu_name": "name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "pci_bus_id",
    "gpu_bus_id": "pci_bus_id",
    "memory.total": "memory",
    "pcie.link.gen.current": "generation",
    "pcie.link.gen.gpucurrent": "generation",
    "pcie.link.gen.max": "max_generation",
    "pcie.link.width.current": "width",
    "pcie.link.width.max": "max_width",
    "mig.mode.current": "mig",
    "fabric.state": "fabric",
    "fabric.status": "fabric_status",
}
_UNMISTAKABLE = frozenset({"gpu_uuid", "pci.bus_id", "gpu_bus_id", "gpu_name"})
_TELLING = _UNMISTAKABLE | {"index", "uuid", "name"}


def looks_like(file: FileText) -> bool:
    """Whether one of the first lines holds names of such a query, one of them an identity."""
    return any(heading_of(line) for line in file.start[:5000].split("\n")[:20])


def heading_of(text: str) -> bool:
    """Whether a line begins this output, for files that hold several."""
    names = _names(text)
    known = [name for name in names if name in _COLUMNS]
    if len(known) == 1:
        return len(names) == 1 and known[0] in _UNMISTAKABLE
    return bool(_TELLING & set(known))


def _names(line: str) -> list[str]:
    """Column names without their units: `memory.total [MiB]`."""
    return [cell.split("[")[0].strip().lower() for cell in line.split(",")]


def parse(file: FileText) -> Topology:
    """Read the inventory.

    Raises:
        InputError: with file and line: no row, a short or long row, a damaged value.
    """
    header = next((i for i, line in enumerate(file.lines) if heading_of(line)), None)
    if header is None:
        raise file.refusal("the heading of the table is missing")
    names = _names(file.lines[header])
    gpus = []
    for number, line in enumerate(file.lines[header + 1 :], start=header + 2):
        if not line.strip():
            continue
        gpus.append(_fields(_cells(line, number, file), names, number, file))
        if len(gpus) > _MAX_ROWS:
            raise file.refusal(f"more than {_MAX_ROWS} GPUs", number)
    if not gpus:
        raise file.refusal("the table has no rows", header + 1)
    facts = device_facts(gpus, file)
    report = describe_links(facts) + describe_fabric(gpus)
    if all(fact.pci_bus_id is None and fact.uuid is None for fact in facts):
        report.append("neither PCI bus ids nor UUIDs are given: GPUs are known by number only")
    if not file.text.endswith(("\n", "\r")):
        report.append("the file ends without a newline: its end may be cut")
    return told_machine(
        origin="nvidia-smi --query-gpu CSV", devices=tuple(facts), report=tuple(report)
    )


def _cells(line: str, number: int, file: FileText) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]
    except csv.Error as error:
        raise file.refusal(f"bad CSV: {error}", number) from None


def _fields(cells: list[str], names: list[str], number: int, file: FileText) -> Fields:
    if len(cells) != len(names):
        raise file.refusal(
            f"the row has {len(cells)} of {len(names)} cells",
            number,
        )
    values = {
        _COLUMNS[name]: cell for name, cell in zip(names, cells, strict=True) if name in _COLUMNS
    }
    index = word(values.pop("index", ""))
    if index and not (index.isascii() and index.isdigit() and len(index) < 5):
        raise file.refusal(f"{index[:30]!r} is no index of a GPU", number)
    return Fields(line=number, index=int(index) if index else None, **values)
