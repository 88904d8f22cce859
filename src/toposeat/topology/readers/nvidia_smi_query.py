"""Readers of a node's inventory: `nvidia-smi`, `-q` as text and XML (`-x`), `--query-gpu` CSV.

`-q` prints one block for each GPU, in the order of nvidia-smi's index. All forms print the same
values under different names; a `_Gpu` has them under ours.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from toposeat.model.topology import (
    MAX_PCIE_NUMBER,
    Device,
    PcieState,
    Topology,
    Vendor,
    canonical_pci,
)
from toposeat.topology.fabric_domain import domain_named, domain_of_node
from toposeat.topology.readers.file_text import FileText, XmlElement
from toposeat.topology.readers.tables import clean_lines, without_marks
from toposeat.topology.told import told_machine

_LOG = re.compile(r"=+NVSMI LOG=+", re.IGNORECASE)
_BUS = r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_GPU = re.compile(rf"GPU {_BUS}\s*", re.I | re.ASCII)
_VALUE = re.compile(r"(\s*)(\S[^:]{0,80}?)\s+:(?: (.*))?")
_SECTION = re.compile(r"(\s*)(\S.{0,80}?)\s*")
_ATTACHED = re.compile(r"Attached GPUs\s*:\s*(\d{1,5})\s*", re.IGNORECASE)
_MAX_GPUS = 1024

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
    "cluster": ("Fabric/ClusterUUID", "fabric/clusterUuid"),
}
_OF_PATH = {paths[0]: name for name, paths in _NAMES.items()}
_MAX_MEMORY_BYTES = 1 << 60
_Meaning = TypeVar("_Meaning", int, str)

_NOT_KNOWN = re.compile(r"|N/A|None|Unknown( Error)?|Not (Supported|Available)|.*deprecated", re.I)
_AMOUNT = re.compile(r"(\d{1,12})\s*(KiB|MiB|GiB|KB|MB|GB|B)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1 << 20, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_UNITS |= {"kb": 10**3, "mb": 1 << 20, "gb": 10**9}  # old drivers write MB and mean MiB
_COUNT = re.compile(r"(\d{1,3})x?", re.ASCII)
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{8,80}", re.ASCII)
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
_NAME = re.compile(r"[a-z][a-z0-9_.]*", re.ASCII)
_PROMPT = re.compile(r"\s*(?:\(\S+\)\s+)?(?:\S*[@:~\]]\S*\s?)?[$#%>](?:\s|$)")
_UNMISTAKABLE = frozenset({"gpu_uuid", "pci.bus_id", "gpu_bus_id", "gpu_name"})
_TABLED = re.compile(rf"\|\s+(\d{{1,4}})\s+(\S.{{0,60}}?)\s+\S+\s*\|\s*{_BUS}\s", re.I | re.ASCII)
_TELLING = _UNMISTAKABLE | {"index", "uuid", "name"}


@dataclass
class _Gpu:
    """One GPU: the line where it starts, its texts by name, and its MIG slices."""

    line: int
    index: int | None = None
    texts: dict[str, str] = field(default_factory=dict)
    slices: list[dict[str, str]] = field(default_factory=list)

    def word(self, name: str) -> str:
        """What the source says; "" where it does not, or says N/A or its like."""
        return _word(self.texts.get(name, ""))

    @property
    def domain(self) -> str:
        """The NVLink domain, once the GPU is one of it."""
        is_up = self.word("fabric") == "Completed" and self.word("fabric_status") == "Success"
        return domain_named(self.word("cluster"), self.word("clique")) if is_up else ""


def _word(text: str) -> str:
    """A value without brackets and blanks."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1].strip()
    return "" if _NOT_KNOWN.fullmatch(text) else text


def _facts(gpus: Sequence[_Gpu], file: FileText) -> list[Device]:
    """One fact for each GPU; two with one name are refused."""
    if not 0 < len(gpus) <= _MAX_GPUS:
        raise file.refusal(f"{len(gpus)} GPUs are listed, 1 to {_MAX_GPUS} are expected")
    facts = [_fact(gpu, i, file) for i, gpu in enumerate(gpus)]
    for what in ("pci_bus_id", "uuid", "index", "id"):
        seen: dict[object, int] = {}
        for gpu, fact in zip(gpus, facts, strict=True):
            value = getattr(fact, what)
            if value is not None and value in seen:
                raise file.refusal(
                    f"{what.replace('_', ' ')} {value} is that of line {seen[value]} already",
                    gpu.line,
                    hint="one machine per file",
                )
            seen[value] = gpu.line
    return facts


def _fact(gpu: _Gpu, position: int, file: FileText) -> Device:
    def read(name: str, what: str, meaning: Callable[[str], _Meaning]) -> _Meaning | None:
        with file.at(gpu.line, f"damaged {what}: "):
            return meaning(word) if (word := gpu.word(name)) else None

    state = PcieState(
        generation=read("generation", "PCIe generation", _count),
        max_generation=read("max_generation", "PCIe generation", _count),
        width=read("width", "PCIe width", _count),
        max_width=read("max_width", "PCIe width", _count),
    )
    return Device(
        id=f"GPU{position if gpu.index is None else gpu.index}",
        index=gpu.index,
        vendor=Vendor.NVIDIA,
        name=gpu.word("name")[:120],
        pci_bus_id=read("pci_bus_id", "PCI bus id", canonical_pci),
        uuid=read("uuid", "UUID", _checked_uuid),
        memory_bytes=read("memory", "memory size", _bytes),
        pcie=None if state == PcieState() else state,
    )


def _bytes(text: str) -> int:
    match = _AMOUNT.fullmatch(text)
    amount = int(match[1]) * _UNITS[(match[2] or "").lower()] if match else -1
    if not 0 <= amount <= _MAX_MEMORY_BYTES:
        raise ValueError(f"{text!r} is no size of memory")
    return amount


def _count(text: str) -> int:
    match = _COUNT.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= MAX_PCIE_NUMBER:
        raise ValueError(f"{text!r} is no number of lanes or generation")
    return int(match[1])


def _checked_uuid(text: str) -> str:
    if _UUID.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no UUID")
    return text


def _links_below(devices: Sequence[Device]) -> list[str]:
    """Sentences on PCIe links that run below their possible width or generation.

    A generation below the possible one is normal for an idle GPU; a width is not.
    """
    states = [(each.id, each.pcie) for each in devices if each.pcie is not None]
    narrow = [(id, p) for id, p in states if p.width and p.width < (p.max_width or 0)]
    slow = [(id, p) for id, p in states if p.generation and p.generation < (p.max_generation or 0)]
    sentences = [
        f"{id} has a PCIe link of x{p.width}, x{p.max_width} is possible" for id, p in narrow
    ]
    if slow:
        sentences.append(
            f"{len(slow)} GPUs run their PCIe link below its generation, as idle ones do:"
            f" {slow[0][0]} at gen {slow[0][1].generation} of {slow[0][1].max_generation}"
        )
    return sentences


def _fabric(gpus: Sequence[_Gpu]) -> list[str]:
    """What the state of the NVSwitch fabric and of MIG means, in sentences."""
    sentences = []
    states = [(gpu.word("fabric"), gpu.word("fabric_status")) for gpu in gpus]
    down = [x for x in states if x[0] and (x[0] != "Completed" or x[1] not in ("", "Success"))]
    if down:
        sentences.append(
            f"the NVLink fabric of {len(down)} GPUs is not up ({' '.join(filter(None, down[0]))}):"
            " NVLink may not work"
        )
    members = [gpu for gpu in gpus if gpu.word("fabric") == "Completed"]
    cliques = {(gpu.texts.get("cluster"), gpu.word("clique")) for gpu in members}
    if len(cliques) > 1:
        sentences.append(f"the GPUs are in {len(cliques)} NVLink cliques")
    partitioned = sum(gpu.word("mig") == "Enabled" for gpu in gpus)
    if partitioned:
        sentences.append(f"MIG is on for {partitioned} of {len(gpus)} GPUs: they have no peers")
    return sentences


# ---- nvidia-smi -q


def looks_like(file: FileText) -> bool:
    """Whether this is the XML, or the text with its heading."""
    if file.xml is not None:
        return file.xml.tag == "nvidia_smi_log"
    return _LOG.search(file.start[:20_000]) is not None


def parse(file: FileText) -> Topology:
    """The inventory of `nvidia-smi -q`."""
    if file.xml is not None:
        origin = "nvidia-smi -q -x XML"
        gpus, attached = list(_xml_gpus(file.xml)), _attached_xml(file.xml)
    else:
        origin = "nvidia-smi -q text"
        gpus, attached = _text_gpus(file)
    whole = attached is None or attached == len(gpus)
    for i, gpu in enumerate(gpus):
        gpu.index = i if whole else None
    facts = _facts(gpus, file)
    report = _links_below(facts) + _fabric(gpus)
    if not whole:
        report.append(
            f"{attached} GPUs are attached, {len(gpus)} are listed: their numbers are not known"
        )
    if not any(fact.name or fact.uuid for fact in facts):
        report.append("only part of the inventory was printed (-d): PCI bus ids and no names")
    return told_machine(
        origin=origin,
        devices=(*facts, *_slices(facts, gpus)),
        metadata=domain_of_node(gpu.domain for gpu in gpus),
        report=tuple(report),
    )


def _attached_xml(root: XmlElement) -> int | None:
    texts = [child.text.strip() for child in root.named("attached_gpus")]
    return int(texts[0]) if texts and re.fullmatch(r"\d{1,5}", texts[0], re.ASCII) else None


def _xml_gpus(root: XmlElement) -> Iterator[_Gpu]:
    for element in root.named("gpu"):
        gpu = _Gpu(line=element.line, texts={"pci_bus_id": element.get("id")})
        gpu.texts |= {name: _text_at(element, paths[1]) for name, paths in _NAMES.items()}
        for devices in element.named("mig_devices"):
            for device in devices.named("mig_device"):
                gpu.slices.append({child.tag: child.text.strip() for child in device.children})
        yield gpu


def _text_at(element: XmlElement, path: str) -> str:
    for tag in path.split("/"):
        found = next(element.named(tag), None)
        if found is None:
            return ""
        element = found
    return element.text.strip()


def _text_gpus(file: FileText) -> tuple[list[_Gpu], int | None]:
    """The blocks of the text: nested by indentation, `Name : value` or `Section`."""
    gpus: list[_Gpu] = []
    attached: int | None = None
    sections: list[tuple[int, str]] = []
    for line in clean_lines(file.text):
        if match := _GPU.fullmatch(line.text):
            gpus.append(_Gpu(line=line.number, texts={"pci_bus_id": match[1]}))
            sections = []
        elif match := _ATTACHED.fullmatch(line.text):
            attached = int(match[1])
        elif gpus and line.text.startswith(" "):
            _take_line(gpus[-1], line.text, sections)
    return gpus, attached


def _take_line(gpu: _Gpu, text: str, sections: list[tuple[int, str]]) -> None:
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
            gpu.slices.append({})
        return
    path = "/".join([*(name for _, name in sections), match[2]])
    if path in _OF_PATH:
        gpu.texts.setdefault(_OF_PATH[path], match[3] or "")


def _slices(facts: Sequence[Device], gpus: Sequence[_Gpu]) -> Iterator[Device]:
    """MIG slices: neither form names their profile, only some drivers their UUID."""
    for parent, gpu in zip(facts, gpus, strict=True):
        for number, values in enumerate(gpu.slices):
            uuid = _word(values.get("uuid", ""))
            yield Device(
                id=f"{parent.id}/{number}",
                vendor=Vendor.NVIDIA,
                name=f"{parent.name} MIG",
                uuid=uuid if uuid.startswith("MIG-") else None,
                parent=parent.id,
            )


# ---- nvidia-smi


def parse_table(file: FileText) -> Topology:
    """The names and PCI bus ids in the table of `nvidia-smi`, which may be there several times."""
    gpus = {
        m.groups(): _Gpu(line.number, int(m[1]), {"name": m[2], "pci_bus_id": m[3]})
        for line in clean_lines(file.text)
        if (m := _TABLED.search(line.text))
    }
    return told_machine(origin="nvidia-smi table", devices=_facts([*gpus.values()], file))


# ---- nvidia-smi --query-gpu


def looks_like_csv(file: FileText) -> bool:
    """Whether one of the first lines holds names of such a query, one of them an identity."""
    return any(_is_heading(line.text) for line in clean_lines(file.start[:20_000]))


def _is_heading(text: str) -> bool:
    """Whether a line begins this output; the command that asks for it does not."""
    names = _names(text)
    if not all(map(_NAME.fullmatch, names)):
        return False
    known = [name for name in names if name in _COLUMNS]
    if len(known) == 1:
        return len(names) == 1 and known[0] in _UNMISTAKABLE
    return bool(_TELLING & set(known))


def _names(line: str) -> list[str]:
    """Column names without their units: `memory.total [MiB]`."""
    return [cell.split("[")[0].strip().lower() for cell in without_marks(line).split(",")]


def parse_csv(file: FileText) -> Topology:
    """The inventory of `nvidia-smi --query-gpu`."""
    lines = clean_lines(file.text)
    header = next((i for i, line in enumerate(lines) if _is_heading(line.text)), None)
    if header is None:
        raise file.refusal("the heading of the table is missing")
    names = _names(lines[header].text)
    gpus: list[_Gpu] = []
    above = ""
    for line in lines[header + 1 :]:
        text = without_marks(line.text).strip()
        if gpus and text.count(",") < len(names) - 1 and _is_other(line.text, above):
            break  # what was pasted behind the table
        if text:
            gpus.append(_row(text, names, line.number, file))
        above = text
    facts = _facts(gpus, file)
    report = _links_below(facts) + _fabric(gpus)
    if all(fact.pci_bus_id is None and fact.uuid is None for fact in facts):
        report.append("neither PCI bus ids nor UUIDs are given: GPUs are known by number only")
    if not file.text.endswith(("\n", "\r")):
        report.append("the file ends without a newline: its end may be cut")
    return told_machine(
        origin="nvidia-smi --query-gpu CSV", devices=tuple(facts), report=tuple(report)
    )


def _is_other(text: str, above: str) -> bool:
    """Whether a line of too few cells is no row that was cut, by the row above it."""
    starts = [each.lstrip()[:1].isdigit() for each in (text, above)]
    return not above or starts[0] is not starts[1] or _PROMPT.match(text) is not None


def _row(line: str, names: list[str], number: int, file: FileText) -> _Gpu:
    with file.at(number):
        try:
            cells = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]
        except csv.Error as error:
            raise ValueError(f"bad CSV: {error}") from None
        if len(cells) != len(names):
            raise ValueError(f"the row has {len(cells)} of {len(names)} cells")
        values = {_COLUMNS[n]: cell for n, cell in zip(names, cells, strict=True) if n in _COLUMNS}
        index = _word(values.pop("index", ""))
        if index and not (index.isascii() and index.isdigit() and len(index) < 5):
            raise ValueError(f"{index[:30]!r} is no index of a GPU")
    return _Gpu(line=number, index=int(index) if index else None, texts=values)
