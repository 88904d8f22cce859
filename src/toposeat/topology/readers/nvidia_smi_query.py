"""Reader of `nvidia-smi -q`, text and XML (`-q -x`): the inventory of a node.

Both print one block for each GPU, in the order of nvidia-smi's index, with the same values under
different names; `_Block` hides the difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from toposeat.model.topology import Device, Topology, Vendor
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.nvidia_smi_fields import (
    Fields,
    describe_fabric,
    describe_links,
    device_facts,
    word,
)
from toposeat.topology.readers.tables import clean_lines
from toposeat.topology.readers.xml_tree import XmlElement
from toposeat.topology.told import told_machine

_LOG = re.compile(r"=+NVSMI LOG=+", re.IGNORECASE)
_GPU = re.compile(r"GPU ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s*", re.I | re.ASCII)
_VALUE = re.compile(r"(\s*)(\S[^:]{0,80}?)\s+:(?: (.*))?")
_SECTION = re.compile(r"(\s*)(\S.{0,80}?)\s*")
_ATTACHED = re.compile(r"Attached GPUs\s*:\s*(\d{1,5})\s*", re.IGNORECASE)
_MAX_BLOCKS = 1024

_NAMES = {  # field: path in the text, path in XML
    "name": ("Product Name", "product_name"),
    "uuid": ("GPU UUID", "uuid"),
    "memory": ("FB Memory Usage/Total", "fb_memory_usage/total"),
    "generation": (
        "PCI/GPU Link Info/PCIe Generation/Current",
        "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    ),
    "max_generation": (
        "PCI/GPU Link Info/PCIe Generation/Max",
        "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    ),
    "width": (
        "PCI/GPU Link Info/Link Width/Current",
        "pci/pci_gpu_link_info/link_widths/current_link_width",
    ),
    "max_width": (
        "PCI/GPU Link Info/Link Width/Max",
        "pci/pci_gpu_link_info/link_widths/max_link_width",
    ),
    "mig": ("MIG Mode/Current", "mig_mode/current_mig"),
    "fabric": ("Fabric/State", "fabric/state"),
    "fabric_status": ("Fabric/Status", "fabric/status"),
    "clique": ("Fabric/CliqueId", "fabric/cliqueId"),
}


@dataclass
class _Block:
    """One GPU: its bus id from the heading, its values by path, its MIG slices."""

    line: int
    pci_bus_id: str
    values: dict[str, str] = field(default_factory=dict)
    slices: list[dict[str, str]] = field(default_factory=list)


def looks_like(file: FileText) -> bool:
    """Whether this is the XML, or the text with its heading."""
    if file.xml is not None:
        return file.xml.tag == "nvidia_smi_log"
    return _LOG.search(file.start[:20_000]) is not None


def parse(file: FileText) -> Topology:
    """Read the inventory.

    Raises:
        InputError: with file and line: no GPU, a damaged value, a GPU twice.
    """
    if file.xml is not None:
        origin, column = "nvidia-smi -q -x XML", 1
        blocks, attached = list(_xml_blocks(file.xml, file)), _attached_xml(file.xml)
    else:
        origin, column = "nvidia-smi -q text", 0
        blocks, attached = _text_blocks(file)
    if not blocks:
        raise file.refusal("no GPU in it")
    whole = attached is None or attached == len(blocks)
    gpus = [
        Fields(
            line=block.line,
            index=i if whole else None,
            pci_bus_id=block.pci_bus_id,
            **{name: block.values.get(paths[column], "") for name, paths in _NAMES.items()},
        )
        for i, block in enumerate(blocks)
    ]
    facts = device_facts(gpus, file)
    report = describe_links(facts) + describe_fabric(gpus)
    if not whole:
        report.append(
            f"{attached} GPUs are attached, {len(blocks)} are listed: their numbers are not known"
        )
    if not any(fact.name or fact.uuid for fact in facts):
        report.append("only part of the inventory was printed (-d): PCI bus ids and no names")
    return told_machine(
        origin=origin, devices=(*facts, *_slices(facts, blocks)), report=tuple(report)
    )


def _attached_xml(root: XmlElement) -> int | None:
    texts = [child.text.strip() for child in root.named("attached_gpus")]
    return int(texts[0]) if texts and re.fullmatch(r"\d{1,5}", texts[0], re.ASCII) else None


def _xml_blocks(root: XmlElement, file: FileText) -> Iterator[_Block]:
    for number, element in enumerate(root.named("gpu")):
        if number >= _MAX_BLOCKS:
            raise file.refusal(f"more than {_MAX_BLOCKS} GPUs", element.line)
        block = _Block(element.line, element.get("id"))
        for name in (paths[1] for paths in _NAMES.values()):
            text = _text_at(element, name)
            if text:
                block.values[name] = text
        for devices in element.named("mig_devices"):
            for device in devices.named("mig_device"):
                block.slices.append({child.tag: child.text.strip() for child in device.children})
                block.slices[-1]["memory"] = _text_at(device, "fb_memory_usage/total")
        yield block


def _text_at(element: XmlElement, path: str) -> str:
    for tag in path.split("/"):
        found = next(element.named(tag), None)
        if found is None:
            return ""
        element = found
    return element.text.strip()


def _text_blocks(file: FileText) -> tuple[list[_Block], int | None]:
    """The blocks of the text: nested by indentation, `Name : value` or `Section`."""
    blocks: list[_Block] = []
    attached: int | None = None
    sections: list[tuple[int, str]] = []
    for line in clean_lines(file.text):
        if match := _GPU.fullmatch(line.text):
            if len(blocks) >= _MAX_BLOCKS:
                raise file.refusal(f"more than {_MAX_BLOCKS} GPUs", line.number)
            blocks.append(_Block(line.number, match[1]))
            sections = []
        elif match := _ATTACHED.fullmatch(line.text):
            attached = int(match[1])
        elif blocks and line.text.startswith(" "):
            _take_line(blocks[-1], line.text, sections)
    return blocks, attached


def _take_line(block: _Block, text: str, sections: list[tuple[int, str]]) -> None:
    value = _VALUE.fullmatch(text)
    match = value or _SECTION.fullmatch(text)
    if match is None:
        return
    depth = len(match[1])
    while sections and sections[-1][0] >= depth:
        sections.pop()
    if value is None:
        sections.append((depth, match[2]))
        if match[2] == "MIG Device":
            block.slices.append({})
        return
    path = "/".join([*(name for _, name in sections), match[2]])
    if any(name == "MIG Device" for _, name in sections):
        if block.slices and match[2] == "Index":
            block.slices[-1]["index"] = match[3] or ""
    else:
        block.values.setdefault(path, (match[3] or "").strip())


def _slices(facts: Sequence[Device], blocks: Sequence[_Block]) -> Iterator[Device]:
    """MIG slices: neither form names their profile, only some drivers their UUID."""
    for parent, block in zip(facts, blocks, strict=True):
        for number, values in enumerate(block.slices):
            uuid = word(values.get("uuid", ""))
            yield Device(
                id=f"{parent.id}/{number}",
                vendor=Vendor.NVIDIA,
                name=f"{parent.name} MIG",
                uuid=uuid if uuid.startswith("MIG-") else None,
                parent=parent.id,
            )
