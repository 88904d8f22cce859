r"""Reader of lspci: trees (-t, -tv), capabilities (-v to -vvv, with -nn or not), and plain lists.

    -+-[0000:00]-+-00.0  Intel Corporation Device 09a2       a host bridge, and functions below it
     |           \-01.0-[01-03]----00.0-[02-03]--+-00.0-[03]----00.0  NVIDIA Corporation ...
     |                                           \-01.0-[04]----00.0  NVIDIA Corporation ...

Bridges of a list name the bus below them. Without root it has no capabilities: speeds and widths
are untold. A list without bridges tells devices and no tree. Nothing tells device links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from msgspec import Struct, field

from toposeat.model.few import few
from toposeat.model.topology import Device, PcieState, Topology, Vendor, canonical_pci
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph import pci_graph
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import clean_lines
from toposeat.topology.told import told_machine

_MAKERS = {
    "NVIDIA": pci_graph.VENDOR_NVIDIA,
    "AMD": pci_graph.VENDOR_AMD,
    "Intel": pci_graph.VENDOR_INTEL,
    "": 0,
}
_MAKER = re.compile(r"(NVIDIA) Corporation|\[(AMD)/ATI\]|(Intel) Corporation")
_GRAPHICS = re.compile(r"(?:VGA compatible|3D |Display |Processing accel)[^:]*: ")
_NO_GPU = re.compile(  # by its name, where a tree tells no class; and graphics in a processor
    r"Audio|USB|UCSI|Bridge|Switch|Serial|SMBus|\bPort\b|Host|IOMMU|Root|Dummy|SATA|Encrypt|PSP"
    r"|Raphael|Granite Ridge|Cezanne|Renoir|Rembrandt|Phoenix|Picasso|Raven"
)
_INTEL_GPU = re.compile(r"\bArc\b|Data Center GPU|Ponte Vecchio|\bDG[12]\b|\bFlex\b")
_HEADER = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?=\S)(.+)")
_TREE = re.compile(r"\s*[-+\\|][-+ |\\]*(?:\[[0-9a-f]{2,8}[:\]-]|[0-9a-f]{2}\.[0-7])")
_TOKEN = re.compile(
    r"[+\\]|\[(?:([0-9a-f]{4,8}):)?([0-9a-f]{2})(?:-[0-9a-f]{2})?\]"
    r"|([0-9a-f]{2}\.[0-7])(?: +(\S.*))?"
)
_LINK = re.compile(r"Lnk(Cap|Sta):.*?Speed (\d+(?:\.\d)?)GT/s.*?Width x([1-9]\d?)")
_BELOW = re.compile(r"secondary=([0-9a-f]{2})")
_NODE = re.compile(r"NUMA node: (\d{1,4})", re.ASCII)
_REDIRECTS = re.compile(r"ACSCtl:.*(?:ReqRedir|CmpltRedir)\+")
_CODES = re.compile(r"\[[0-9a-f]{4}(?::[0-9a-f]{4})?\]|\[AMD/ATI\]")
_NUMBER = re.compile(r"Device ([0-9a-f]{4})\b|\[[0-9a-f]{4}:([0-9a-f]{4})\]")


class _Function(Struct):
    """One PCI function; `text` is what stands behind its address, class and name."""

    bus_id: str
    text: str = ""
    below: str = ""  # the bus below a bridge, with its domain
    node: int | None = None
    link: dict[str, int | None] = field(default_factory=dict)  # members of `PcieState`
    redirects: bool = False

    @property
    def maker(self) -> str:
        found = _MAKER.search(self.text)
        return (found[1] or found[2] or found[3]) if found else ""

    def is_gpu(self, *, below_bridge: bool) -> bool:
        """Whether it is a GPU one computes on: no board's display, no sound of a card."""
        is_intel = self.maker == "Intel"
        if not self.maker or _NO_GPU.search(self.text) or (is_intel and not below_bridge):
            return False
        if ": " in self.text:
            return _GRAPHICS.match(self.text) is not None
        return not is_intel or _INTEL_GPU.search(self.text) is not None

    @property
    def name(self) -> str:
        """The product in the last bracket, as its maker's tool calls it, or by its number."""
        brackets = re.findall(r"\[([^\]]+)\]", _CODES.sub("", self.text))
        if brackets:
            return f"{self.maker} {brackets[-1]}"
        number = _NUMBER.search(self.text)
        id = int(number[1] or number[2], 16) if number else 0
        return products.name_of_pci(_MAKERS[self.maker], id)


def parse(file: FileText) -> Topology:
    """The tree of bridges above the GPUs, or the GPUs of a list without one."""
    found: dict[str, _Function] = {}
    buses: dict[str, str] = {}  # by bus the bridge above it, "" for a host bridge's
    _read_tree(file, found, buses)
    _read_list(file, found)
    buses |= {each.below: each.bus_id for each in found.values() if each.below}
    above = {bus_id: tuple(_bridges(bus_id, buses))[::-1] for bus_id in found}
    gpus = [f for f in found.values() if f.is_gpu(below_bridge=bool(above[f.bus_id]) or not buses)]
    report = []
    if buses and not any(each.text for each in found.values()):
        gpus = [f for f in found.values() if above[f.bus_id] and _is_alone(f, found, buses)]
        report.append(
            "lspci -t names no device: functions alone below a port, or with the sound of a card"
            f" beside them, are taken for GPUs ({few(f.bus_id for f in gpus)}); -tv names them"
        )
    if not gpus:
        raise file.refusal(f"no GPU among {len(found)} PCI functions", file.first_line)
    gpus.sort(key=lambda each: each.bus_id)
    if not any(each.link for each in gpus):
        report.append("lspci tells speeds and widths of links to root alone, with -vv")
    ports = [found[bus] for bus in dict.fromkeys(b for g in gpus for b in above[g.bus_id])]
    if redirecting := [port.bus_id for port in ports if port.redirects]:
        report.append(
            f"PCIe access control (ACSCtl ReqRedir+) of {few(redirecting)} sends copies between"
            " GPUs up to the processor"
        )
    devices = [_device(each, at) for at, each in enumerate(gpus)]
    if not buses and len(gpus) > 1:
        listed = [replace(device, index=None) for device in devices]
        return told_machine(origin="lspci", devices=listed, report=report)
    pci = {each.bus_id: _pci_device(each, above[each.bus_id]) for each in (*gpus, *ports)}
    ends = []
    for device, gpu in zip(devices, gpus, strict=True):
        built = products.pcie_generation_of(device) or k.DEFAULT_PCIE_GENERATION
        ends.append(pci_graph.Endpoint(device.id, pci[gpu.bus_id], built))
    builder = GraphBuilder(report=report, devices=devices)
    machine = pci_graph.Machine(pci=pci, cpus_of_node={}, package_of_node={})
    pci_graph.PciGraphWriter(builder, machine).write(ends)
    return builder.facts(name=file.name, origin="lspci")


def _read_tree(file: FileText, found: dict[str, _Function], buses: dict[str, str]) -> None:
    """Functions and buses of a tree: all branches of a bus begin in one column."""
    branches: dict[int, str] = {}
    for line in filter(_TREE.match, (each.text for each in clean_lines(file.text))):
        bus = last = ""
        opens = False
        for token in _TOKEN.finditer(line):
            domain, number, function, name = token.groups()
            if number:
                bus = f"{domain or bus.partition(':')[0]}:{number}"
                buses[bus] = "" if domain else last
            elif function and len(bus) == len("0000:00"):
                last = f"{bus}:{function}"
                found[last] = _Function(last, name or "")
            elif not function and opens:
                branches[token.start()] = bus
            elif not function:
                bus = branches.get(token.start(), "")
            opens = bool(number)


def _read_list(file: FileText, found: dict[str, _Function]) -> None:
    """Functions with what stands in the lines below each."""
    here = _Function("")
    for line in clean_lines(file.text):
        if header := _HEADER.match(line.text):
            with file.at(line.number):
                bus_id = canonical_pci(f"{header[1] or '0000'}:{header[2]}")
            here = found[bus_id] = _Function(bus_id, header[3])
        elif link := _LINK.search(line.text):
            most = "max_" if link[1] == "Cap" else ""
            here.link[f"{most}generation"] = pci_graph.pcie_generation(float(link[2]))
            here.link[f"{most}width"] = int(link[3])
        elif below := _BELOW.search(line.text):
            here.below = f"{here.bus_id[:4]}:{below[1]}"
        elif node := _NODE.search(line.text):
            here.node = int(node[1])
        here.redirects |= _REDIRECTS.search(line.text) is not None


def _bridges(bus_id: str, buses: dict[str, str]) -> Iterator[str]:
    """The bridges above a function, from its own bus up."""
    seen = {""}
    while (bus_id := buses.get(bus_id[:7], "")) not in seen:
        seen.add(bus_id)
        yield bus_id


def _is_alone(one: _Function, found: dict[str, _Function], buses: dict[str, str]) -> bool:
    """Whether a function that no name describes is no bridge, and has at most one beside it."""
    beside = [bus_id[-1] for bus_id in found if bus_id[:7] == one.bus_id[:7]]
    is_bridge = one.bus_id in buses.values()
    return one.bus_id.endswith(":00.0") and beside in (["0"], ["0", "1"]) and not is_bridge


def _device(function: _Function, at: int) -> Device:
    return Device(
        id=f"gpu{at}",
        index=at,
        vendor=products.VENDORS.get(_MAKERS[function.maker], Vendor.UNKNOWN),
        name=function.name if function.maker else "",
        pci_bus_id=function.bus_id,
        numa_node=function.node,
        pcie=PcieState(**function.link) if function.link else None,
    )


def _pci_device(function: _Function, bridges: tuple[str, ...]) -> pci_graph.PciDevice:
    return pci_graph.PciDevice(
        pci_bus_id=function.bus_id,
        root=f"pci{(bridges[0] if bridges else function.bus_id)[:7]}",
        bridges=bridges,
        vendor=_MAKERS[function.maker],
        device=0,
        class_code=0x030000 if _GRAPHICS.match(function.text) else 0,
        numa_node=function.node,
        cpus=None,
        generation=function.link.get("max_generation"),
        width=function.link.get("width"),
        max_width=function.link.get("max_width"),
        current_generation=function.link.get("generation"),
    )
