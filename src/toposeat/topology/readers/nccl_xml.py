"""Topology files of NCCL and RCCL: what NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE takes.

    <system> <cpu numaid affinity> <pci busid class link_speed link_width> ... <gpu dev> <nvlink
    target count>, <xgmi target count>, <c2c bw count>; <nic> <net name>

Where NVLink joins hosts, `<cpu host_hash>` of all of them are in one file (NCCL: ncclGetSystemId).
Files may be partial by design: NCCL fills in what is missing from the live system. GPUs are then
known by their PCI class alone, and device links not at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from toposeat.model.cpu_list import cpu_list_of_mask, parse_cpu_list
from toposeat.model.processor import CPU_KEY
from toposeat.model.topology import Device, FactKind, LinkKind, Topology, Vendor, canonical_pci
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.device_bonds import CountedLanes
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.pci_graph import (
    VENDOR_AMD,
    VENDOR_NVIDIA,
    Endpoint,
    Machine,
    NetworkAdapter,
    PciDevice,
    PciGraphWriter,
    add_nics,
    pcie_generation,
)
from toposeat.topology.readers.file_text import FileText, XmlElement

_SPEED = re.compile(r"(\d{1,4}(?:\.\d{1,4})?) *GT/s", re.ASCII)
_HIDDEN = re.compile(r"f{4,8}:f{2,4}:f{2}(\.f)?", re.IGNORECASE)  # a switch that a VM does not see
_MASK = re.compile(r"[0-9a-f]{1,8}(,[0-9a-f]{1,8})*", re.IGNORECASE | re.ASCII)

_PROCESSOR = re.compile(r"\w{1,20}( \w{1,20}( \d{1,5}( \d{1,5})?)?)?", re.ASCII)

_CLASS_NVSWITCH = 0x068000
_CLASS_CPU_BRIDGE = 0x068001  # POWER9: NVLinks that end at the CPU
_ACCELERATORS = (0x0302, 0x1200, 0x0380)  # PCI classes of GPUs without and with a display
_MAX_PORT_MEGABITS = 1_600_000
_NETWORK = (0x0200, 0x0207)  # Ethernet and InfiniBand controllers
_MAX_LANES = 64
_MAX_CHIP_LINK_MB_PER_S = 10_000_000
_MAX_DEVICES = 1024  # of one node


def looks_like(file: FileText) -> bool:
    """Whether the root element is that of NCCL's or RCCL's files."""
    root = file.xml
    return root is not None and root.tag == "system" and any(root.named("cpu"))


def parse(file: FileText) -> Topology:
    """Read a topology file of NCCL or RCCL."""
    root = file.xml
    assert root is not None  # by `looks_like`
    contents = _Contents(file)
    for cpu in _of_first_host(root, contents.report):
        _read_cpu(contents, cpu)
    if not contents.gpus:
        raise file.refusal(
            "no GPU in this file: it only gives NCCL hints on PCI bridges",
            root.line,
            hint="dump the whole topology on the node: NCCL_TOPO_DUMP_FILE=topology.xml",
        )
    if len(contents.gpus) > _MAX_DEVICES:
        raise file.refusal(f"{len(contents.gpus)} GPUs in one node", root.line)
    is_dump = all(gpu.element is not None for gpu in contents.gpus)  # NCCL asked NVML for them all
    builder = GraphBuilder(
        report=contents.report, tells={FactKind.DEVICE_LINKS} if is_dump else set()
    )
    adapters = [(each, contents.pci[each.pci_bus_id]) for each in _in_order(contents.adapters)]
    endpoints = _add_gpus(builder, contents) + add_nics(builder, adapters)
    machine = Machine(
        pci=contents.pci,
        cpus_of_node=contents.cpus_of_node,
        package_of_node={},
        functions_per_link=1,
    )
    numa_of = PciGraphWriter(builder, machine).write(endpoints)
    _add_device_links(builder, contents, numa_of)
    _add_chip_links(builder, contents, numa_of)
    _describe(builder, contents)
    amd = contents.gpus[0].vendor is Vendor.AMD
    return builder.facts(
        name=file.name,
        origin="RCCL topology XML" if amd else "NCCL topology XML",
        metadata=_processor(root),
    )


@dataclass
class _Gpu:
    """One GPU, with the element that describes it where there is one."""

    function: PciDevice
    line: int
    element: XmlElement | None
    id: str = ""

    @property
    def vendor(self) -> Vendor:
        names = {child.tag for child in self.element.children} if self.element else set()
        gcn = self.element is not None and self.element.get("gcn") not in ("", "0")
        is_amd = gcn or "xgmi" in names or self.function.vendor == VENDOR_AMD
        return Vendor.AMD if is_amd else Vendor.NVIDIA

    @property
    def name(self) -> str:
        """The product, else its instruction set, as far as the file tells."""
        product = products.name_of_pci(self.function.vendor, self.function.device)
        if product or self.element is None:
            return product
        gcn = self.element.get("gcn").removeprefix("gfx")
        if self.vendor is Vendor.AMD:
            return f"gfx{gcn}" if gcn else ""
        sm = _number(self.element, "sm", 0, 9999)
        return f"sm_{sm}" if sm else ""


@dataclass
class _Contents:
    """What one pass over the file collects."""

    file: FileText
    pci: dict[str, PciDevice] = field(default_factory=dict)
    cpus_of_node: dict[int, str] = field(default_factory=dict)
    gpus: list[_Gpu] = field(default_factory=list)
    adapters: list[tuple[int, NetworkAdapter]] = field(default_factory=list)  # with NCCL's number
    report: list[str] = field(default_factory=list)


def _of_first_host(root: XmlElement, report: list[str]) -> list[XmlElement]:
    """The `<cpu>` of one host: NCCL writes the hosts of an NVLink domain into one file.

    Bus ids and GPU numbers are those of each host, so only `host_hash` tells hosts apart.
    """
    cpus = list(root.named("cpu"))
    hosts = list(dict.fromkeys(cpu.get("host_hash") for cpu in cpus))
    if len(hosts) > 1:
        report.append(
            f"the file has {len(hosts)} hosts of an NVLink domain: the first is read;"
            f" ,domain={len(hosts)} behind a network joins so many"
        )
    return [cpu for cpu in cpus if cpu.get("host_hash") == hosts[0]]


def _processor(root: XmlElement) -> dict[str, str]:
    """What the file says of the processors, where it says the same of all that it names.

    NCCL's dumps leave a processor unnamed if no rank used a GPU of it.
    """
    told = {
        " ".join(filter(None, map(cpu.get, ("arch", "vendor", "familyid", "modelid"))))
        for cpu in root.named("cpu")
    } - {""}
    words = told.pop() if len(told) == 1 else ""
    return {CPU_KEY: words} if _PROCESSOR.fullmatch(words) else {}


# ---- one pass over the file


def _read_cpu(contents: _Contents, cpu: XmlElement) -> None:
    node = _number(cpu, "numaid", -1, 65535, contents.file)
    cpus = _cpus(cpu, contents)
    if node >= 0 and cpus:
        contents.cpus_of_node[node] = cpus
    chains: list[tuple[XmlElement, tuple[str, ...]]] = [(each, ()) for each in cpu.named("pci")]
    while chains:
        element, bridges = chains.pop(0)
        function = _function(contents, element, bridges, node if node >= 0 else None, cpus)
        _add_function(contents, element, function)
        below = (*bridges, function.pci_bus_id)
        chains.extend((each, below) for each in element.named("pci"))


def _add_function(contents: _Contents, element: XmlElement, function: PciDevice) -> None:
    bus = function.pci_bus_id
    before = contents.pci.setdefault(bus, function)
    if before is not function:
        if before.bridges != function.bridges or not any(element.named("pci")):
            raise contents.file.refusal(f"PCI bus id {bus} appears twice", element.line)
        contents.report.append(f"PCI bridge {bus} appears several times: taken as one switch")
    _read_endpoint(contents, element, before)


def _read_endpoint(contents: _Contents, element: XmlElement, function: PciDevice) -> None:
    """GPU and NIC of one PCI function, stated or by its class."""
    gpus = list(element.named("gpu"))
    nets = [net for nic in element.named("nic") for net in nic.named("net")]
    contents.gpus.extend(_Gpu(function, gpu.line, gpu) for gpu in gpus[:1])
    if len(gpus) > 1:
        contents.report.append(
            f"line {gpus[1].line}: {len(gpus)} parts or ranks of GPU {function.pci_bus_id} are"
            " taken as one device"
        )
    contents.adapters.extend(
        (_number(net, "dev", -1, 65535), _adapter(net, function.pci_bus_id)) for net in nets
    )
    if gpus or nets or any(element.named("pci")):
        return
    if function.class_code >> 8 in _ACCELERATORS:
        contents.gpus.append(_Gpu(function, element.line, None))
    elif function.class_code >> 8 in _NETWORK:
        contents.adapters.append((-1, NetworkAdapter(name="", pci_bus_id=function.pci_bus_id)))


def _in_order(adapters: list[tuple[int, NetworkAdapter]]) -> list[NetworkAdapter]:
    """In the order of NCCL's `dev` where all have one of their own, else that of the file."""
    numbers = [number for number, _ in adapters]
    if -1 not in numbers and len(set(numbers)) == len(numbers):
        adapters = sorted(adapters, key=lambda each: each[0])
    return [adapter for _, adapter in adapters]


def _adapter(net: XmlElement, bus: str) -> NetworkAdapter:
    """Plugins may write any speed: one that no port has is taken as not stated."""
    megabits = _number(net, "speed", 0, _MAX_PORT_MEGABITS)
    rate = megabits * 1e6 / 8 if megabits else None
    return NetworkAdapter(name=net.get("name"), pci_bus_id=bus, bytes_per_s=rate)


def _function(
    contents: _Contents,
    element: XmlElement,
    bridges: tuple[str, ...],
    node: int | None,
    cpus: str | None,
) -> PciDevice:
    speed = _SPEED.search(element.get("link_speed"))
    width = _number(element, "link_width", 0, 32, contents.file)
    return PciDevice(
        pci_bus_id=_bus(element, "busid", contents.file),
        root=f"cpu{node}" if node is not None else "",
        bridges=bridges,
        vendor=_hexadecimal(element, "vendor", contents.file),
        device=_hexadecimal(element, "device", contents.file),
        class_code=_hexadecimal(element, "class", contents.file),
        numa_node=node,
        cpus=cpus,
        generation=pcie_generation(float(speed[1])) if speed else None,
        width=width or None,
        max_width=width or None,
    )


def _bus(element: XmlElement, name: str, file: FileText) -> str:
    with file.at(element.line, f"<{element.tag} {name}>: "):
        return canonical_pci(element.get(name))


def _number(
    element: XmlElement, name: str, low: int, high: int, file: FileText | None = None
) -> int:
    """A decimal attribute; `low` if it is missing. Refused only where `file` is given."""
    text = element.get(name) or str(low)
    value = int(text) if re.fullmatch(r"-?\d{1,9}", text, re.ASCII) else high + 1
    if low <= value <= high:
        return value
    if file is None:
        return low
    raise file.refusal(
        f"<{element.tag} {name}>: expected {low} to {high}, got {text[:30]!r}", element.line
    )


def _hexadecimal(element: XmlElement, name: str, file: FileText) -> int:
    text = element.get(name) or "0"
    with file.at(element.line, f"<{element.tag} {name}>: "):
        if not re.fullmatch(r"(0x)?[0-9a-f]{1,8}", text, re.IGNORECASE | re.ASCII):
            raise ValueError(f"expected a hexadecimal number, got {text[:30]!r}")
    return int(text, 16)


def _cpus(cpu: XmlElement, contents: _Contents) -> str | None:
    """The CPU list of the affinity mask; None if it is missing or not understood."""
    text = cpu.get("affinity")
    if not text:
        return None
    words = [int(word, 16) for word in text.split(",")] if _MASK.fullmatch(text) else []
    cpus = cpu_list_of_mask(words[::-1], bits=32) if len(words) <= 256 else ""
    try:
        parse_cpu_list(cpus)
    except ValueError:
        contents.report.append(f"the affinity mask in line {cpu.line} is not understood: ignored")
        return None
    return cpus


# ---- the graph


def _add_gpus(builder: GraphBuilder, contents: _Contents) -> list[Endpoint]:
    """Devices in the order of NCCL's `dev`, else of their PCI bus ids."""
    numbers = [_number(g.element, "dev", -1, 65535) if g.element else -1 for g in contents.gpus]
    if min(numbers) >= 0 and len(set(numbers)) == len(numbers):
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
    else:
        builder.report.append("GPU numbers are missing or double: numbered by PCI bus id")
        order = sorted(range(len(numbers)), key=lambda i: contents.gpus[i].function.pci_bus_id)
        numbers = [order.index(i) for i in range(len(numbers))]
    endpoints = []
    for i in order:
        gpu = contents.gpus[i]
        gpu.id = f"gpu{numbers[i]}"
        builder.devices.append(
            Device(
                id=gpu.id,
                index=numbers[i],
                vendor=gpu.vendor,
                name=gpu.name,
                pci_bus_id=gpu.function.pci_bus_id,
                numa_node=gpu.function.numa_node,
                cpus=gpu.function.cpus,
                forwards=products.forwards(gpu.name),
            )
        )
        endpoints.append(Endpoint(gpu.id, gpu.function, k.DEFAULT_PCIE_GENERATION))
    return endpoints


def _device_links(gpu: _Gpu, file: FileText) -> Iterator[tuple[XmlElement, str, int, int]]:
    """The element, target bus id, target class and lanes of each bond a GPU names.

    The bus id of a switch that is hidden from a virtual machine is "".
    """
    for element in gpu.element.children if gpu.element else ():
        if element.tag in ("nvlink", "xgmi"):
            hidden = _HIDDEN.fullmatch(element.get("target"))
            target = "" if hidden else _bus(element, "target", file)
            tclass = _CLASS_NVSWITCH if hidden else _hexadecimal(element, "tclass", file)
            yield element, target, tclass, _number(element, "count", 0, _MAX_LANES, file)


def _add_device_links(builder: GraphBuilder, contents: _Contents, numa_of: dict[str, str]) -> None:
    id_of_bus = {gpu.function.pci_bus_id: gpu.id for gpu in contents.gpus}
    lanes = CountedLanes(builder, {each.id: products.lane_of(each) for each in builder.devices})
    away: Counter[str] = Counter()
    for gpu in contents.gpus:
        for element, target, tclass, count in _device_links(gpu, contents.file):
            peer = id_of_bus.get(target)
            if count == 0 or peer == gpu.id:
                continue
            if peer is not None:
                lanes.to_device(gpu.id, peer, count)
            elif tclass == _CLASS_CPU_BRIDGE and gpu.id in numa_of:
                lanes.to_cpu(gpu.id, numa_of[gpu.id], count)
            elif tclass == _CLASS_NVSWITCH or (element.tag == "nvlink" and not tclass):
                lanes.to_switch(gpu.id, target, count)
            else:
                away[element.tag] += 1
    builder.report.extend(
        f"{n} {tag} bonds lead to devices that are not in the file: left out"
        for tag, n in away.items()
    )
    lanes.draw()


def _add_chip_links(builder: GraphBuilder, contents: _Contents, numa_of: dict[str, str]) -> None:
    """`<c2c bw count>`: so many links of so many MB/s each way to the processor (Grace)."""
    for gpu in contents.gpus:
        for element in gpu.element.named("c2c") if gpu.element else ():
            count = _number(element, "count", 0, _MAX_LANES, contents.file)
            megabytes = _number(element, "bw", 0, _MAX_CHIP_LINK_MB_PER_S, contents.file)
            if count and megabytes and gpu.id in numa_of:
                builder.link(
                    LinkKind.C2C,
                    gpu.id,
                    numa_of[gpu.id],
                    bytes_per_s=count * megabytes * 1e6,
                    latency_s=k.LATENCY_C2C,
                    name="NVLink-C2C",
                    count=count,
                )


def _describe(builder: GraphBuilder, contents: _Contents) -> None:
    """What a file of this kind cannot tell, and what this one leaves out."""
    say = builder.report.append
    say("host bridges are not in the file: GPUs of one NUMA node are taken to share one")
    silent = [gpu for gpu in contents.gpus if gpu.element is None]
    if silent:
        say(
            f"{len(silent)} GPUs are known by PCI class alone: their links to each other (NVLink,"
            " xGMI) are not in the file, NVIDIA assumed where no vendor is stated"
        )
    if not contents.adapters:
        say("no NIC in the file")
    unnamed = sum(not each.name for _, each in contents.adapters)
    if unnamed:
        say(f"{unnamed} NICs are known by PCI class alone: they have no name")
    nodes = {gpu.function.numa_node for gpu in contents.gpus}
    if len(nodes) > 2:
        say(
            f"how {len(nodes)} NUMA nodes are joined is not in the file: one smp link between each"
            " two assumed"
        )
    vendors = {gpu.function.vendor for gpu in contents.gpus} - {0, VENDOR_AMD, VENDOR_NVIDIA}
    if vendors:
        say(f"GPUs of an unknown PCI vendor ({', '.join(f'{v:#06x}' for v in sorted(vendors))})")
    if any(link.kind is LinkKind.XGMI for link in builder.links):
        say("RCCL counts every xGMI peer, direct or not: bonds are taken as written")
