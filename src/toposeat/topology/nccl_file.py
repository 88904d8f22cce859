"""A topology as the file that NCCL_TOPO_FILE names: the writer to `readers.nccl_xml`.

    <system> <cpu numaid affinity> <pci busid class link_speed link_width> ... <gpu dev>
    <nvlink target count tclass>, <xgmi ...>, <c2c bw count>; <nic> <net name speed>

NCCL fills in what an element does not state (ncclTopoGetXmlFromSys, FromGpu and FromCpu set an
attribute only where it is missing), finds GPUs by bus id and NICs by name, and takes a GPU's links
from the file where it holds any. Its rates of links follow from PCIe generation and width, the
GPU's generation, and the processor's model. Of a processor it fills in nothing unless the rank uses
a GPU below it, and stops (ncclTopoAddCpu) at one that a NIC keeps in use and that names no `arch`,
x86 without `vendor`, Intel or AMD without `familyid` and `modelid`: all are always written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from toposeat.errors import UsageError
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.graph import neighbours, shortest
from toposeat.model.processor import CPU_NAME, Processor, processor_of
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    FactKind,
    Link,
    LinkKind,
    LinkLayer,
    Nic,
    PathClass,
    Topology,
    Vendor,
)
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.processors import family_of

_VERSION = {Vendor.AMD: "2"}  # RCCL refuses another than its own; NCCL's is 1
_LOST = "rates, latencies and sizes of memory are not in such files: the library has its own"
_BRIDGE, _GPU, _AMD_GPU, _ETHERNET, _INFINIBAND = 0x060400, 0x030200, 0x038000, 0x020000, 0x020700
_NVSWITCH, _CPU_BRIDGE = "0x068000", "0x068001"
_HIDDEN_SWITCH = "fffffff:ffff:ff"  # NCCL's own words for an NVSwitch that a guest does not see
_VENDOR_ID = {Vendor.NVIDIA: 0x10DE, Vendor.AMD: 0x1002}
_SPEED = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}  # GT/s by generation
_WIDTHS = (16, 8, 4, 2, 1)
_ORDER = {"pci": 0, "gpu": 1, "nic": 2}
# Instruction sets as NCCL's `sm` and RCCL's `gcn` spell them; the first that fits a product counts.
_SM = ("60", "61", "70", "75", "80", "86", "89", "90", "100", "103", "120")
_GCN = ("900", "906", "908", "910", "942", "950")
# Family and model of the most usual processor of a vendor, by the PCIe generation of its GPUs.
_INTEL_FAMILY = 6
_USUAL = {
    "GenuineIntel": {3: (6, 85), 4: (6, 106), 5: (6, 143)},
    "AuthenticAMD": {3: (23, 1), 4: (25, 1), 5: (25, 17)},
}


def nccl_xml(topology: Topology) -> tuple[str, tuple[str, ...]]:
    """The file of one node, and what of the topology it does not hold, one sentence each."""
    _refuse(topology)
    notes = list[str]()
    tells = FactKind.DEVICE_LINKS in topology.tells or any(
        link.kind.value in ("nvlink", "xgmi", "c2c") for link in topology.links
    )
    if not tells:
        notes.append("links between GPUs are not known: none are written, and NCCL asks NVML")
    writer = _Writer(topology, notes, with_gpus=tells)
    writer.write()
    processor = _processor(topology, notes)
    notes.append(_LOST)
    system = Element("system", version=_VERSION.get(topology.devices[0].vendor, "1"))
    for numa, cpu in sorted(writer.cpu_of_node.items()):
        if len(cpu):
            listed = [c.cpus for c in topology.components if c.cpus and c.numa_node == numa]
            if cpus := next(iter(listed), cpu.get("affinity")):
                cpu.set("affinity", _mask(cpus))
            cpu.attrib.update(processor.attributes)
            system.append(cpu)
    for element in system.iter():
        known = {name: value for name, value in element.items() if value}
        element.attrib.clear()
        element.attrib.update(known)
    indent(system)
    return tostring(system, encoding="unicode").replace(" />", "/>") + "\n", tuple(notes)


def _refuse(topology: Topology) -> None:
    if len(topology.hosts) > 1:
        raise UsageError(
            f"{topology.name} has {len(topology.hosts)} hosts, and a file of NCCL is of one",
            hint="give the topology of one node",
        )
    for device in topology.devices:
        if device.vendor not in (Vendor.NVIDIA, Vendor.AMD):
            raise UsageError(
                f"{device.id} is neither of NVIDIA nor of AMD: no library that reads such files"
                " uses it",
                hint="--format json writes every topology",
            )
        if device.pci_bus_id is None or device.index is None:
            raise UsageError(
                f"the PCI bus id or number of {device.id} is not known, by which NCCL finds it",
                hint="add a source that states it: -t topo.txt -t nvidia-smi-query.csv",
            )


def _processor(topology: Topology, notes: list[str]) -> Processor:
    """What is told of the processor, and the most usual one's words for what is not."""
    found = processor_of(topology) or Processor((), is_inferred=True)
    words = list(found.told)
    built = [each for device in topology.devices for each in products.products_of(device)]
    if not words:
        is_arm = any(link.kind is LinkKind.C2C for link in topology.links)
        words.append("arm64" if is_arm else "x86_64")
    if words[0] == "x86_64":
        generation = max((each.pcie or 0 for each in built), default=0)
        family = family_of(words, topology.metadata.get(CPU_NAME, ""))
        models = sorted(family.models)
        if len(words) == 1:
            nvidia = all(device.vendor is Vendor.NVIDIA for device in topology.devices)
            is_intel = models[0][0] == _INTEL_FAMILY if models else nvidia
            words.append("GenuineIntel" if is_intel else "AuthenticAMD")
        usual = _USUAL.get(words[1], {}).get(min(max(generation, 3), 5))
        numbers = models[0] if models else usual
        if len(words) < 4 and numbers:
            words[2:] = map(str, numbers)
    made = Processor(tuple(words), is_inferred=True)
    if found.is_inferred and found.told:
        notes.append(f"the processor, {made}, is inferred from its socket link")
    elif len(words) > len(found.told):
        notes.append(
            f"the processor's model is not known: {made} is written, since NCCL stops at one"
            " without a model; give lscpu's output as well (-t lscpu.txt) to have the real one"
        )
    return made


def _mask(cpus: str) -> str:
    """A CPU list as words of 32 bits, the highest first, as in `cpumap`."""
    bits = sum(1 << cpu for cpu in parse_cpu_list(cpus))
    count = max(1, -(-bits.bit_length() // 32))
    return ",".join(f"{bits >> 32 * at & 0xFFFFFFFF:08x}" for at in reversed(range(count)))


class _Writer:
    """PCIe trees as elements below the processors; `notes` takes what cannot be written.

    GPUs get an element of their own only where their links are known.
    """

    def __init__(self, topology: Topology, notes: list[str], *, with_gpus: bool) -> None:
        self.topology = topology
        self.notes = notes
        self.with_gpus = with_gpus
        self.devices = {device.id: device for device in topology.devices}
        self.nics = {nic.id: nic for nic in topology.nics}
        self.ends: list[Device | Nic] = [*topology.devices, *topology.nics]
        self.components = {part.id: part for part in topology.components}
        self.pcie: dict[str, list[Link]] = {}
        for link in topology.links:
            if link.kind is LinkKind.PCIE:
                for end in link.ends:
                    self.pcie.setdefault(end, []).append(link)
        self.seen: set[str] = set()
        self.invented = 0
        self.cpu_of_node: dict[int, Element] = {}
        self.of_bus: dict[str, Element] = {}

    def write(self) -> None:
        for part in self.topology.components:  # from the processors down
            if part.kind is ComponentKind.NUMA:
                self._hang(part.id, self._cpu(part.numa_node, part.cpus))
        for part in self.topology.components:  # host bridges that no NUMA node is told of
            if part.kind is ComponentKind.HOST_BRIDGE and part.id not in self.seen:
                node = part.numa_node if part.numa_node is not None else self._numa_below(part.id)
                self._hang(part.id, self._cpu(node, part.cpus))
        for end in self.ends:
            if end.id not in self.seen:  # at the processor by another link than PCIe
                self.seen.add(end.id)
                cpus = end.cpus if isinstance(end, Device) else None
                self._endpoint(end.id, None, self._cpu(end.numa_node, cpus))
        self._say_what_is_lost()

    def _cpu(self, numa: int | None, cpus: str | None) -> Element:
        """The element of a processor, with its list of CPUs in place of their mask."""
        number = -1 if numa is None else numa
        new = Element("cpu", numaid=str(number), affinity="")
        cpu = self.cpu_of_node.setdefault(number, new)
        cpu.set("affinity", cpu.get("affinity") or cpus or "")
        return cpu

    def _numa_below(self, id: str) -> int | None:
        """The NUMA node of an endpoint below, where the bridge does not say its own."""
        near = neighbours(link.ends for links in self.pcie.values() for link in links)
        below = (self.devices[end].numa_node for end in shortest([id], near) if end in self.devices)
        return next(below, None)

    def _hang(self, id: str, into: Element) -> None:
        """What is below a vertex into its element, by bus id as NCCL has them."""
        self.seen.add(id)
        for link in self.pcie.get(id, []):
            other = link.ends[1] if link.ends[0] == id else link.ends[0]
            if other in self.seen:
                continue
            part = self.components.get(other)
            if part is None:
                self.seen.add(other)
                self._endpoint(other, link, into)
                self._hang(other, into)  # a NIC behind a GPU's own ports
            elif part.kind is ComponentKind.HOST_BRIDGE:
                self._hang(other, into)
            elif part.kind is ComponentKind.SWITCH:
                self._switch(part, link, into)
        into[:] = sorted(into, key=lambda each: (_ORDER[each.tag], each.get("busid", "")))

    def _switch(self, part: Component, link: Link, into: Element) -> None:
        """A board whose parts share its function is no bridge: they are written side by side."""
        function = _function(part.pci_bus_id or self._invent(), *_speed_of(link))
        into.append(function)
        own = [end for end in self.ends if end.pci_bus_id == function.get("busid")]
        if not own:
            function.set("class", f"0x{_BRIDGE:06x}")
            self._hang(part.id, function)
            return
        self.of_bus[function.get("busid", "")] = function
        for end in own:
            self.seen.add(end.id)
            self._into_function(end, function)
        self.seen.add(part.id)

    def _endpoint(self, id: str, link: Link | None, into: Element) -> None:
        end: Device | Nic = self.devices[id] if id in self.devices else self.nics[id]
        bus = end.pci_bus_id or self._invent()
        function = self.of_bus.get(bus)
        if function is None:
            speed, width = _speed_of(link) if link else _own_speed(end)
            function = self.of_bus[bus] = _function(bus, speed, width)
            into.append(function)
        self._into_function(end, function)

    def _into_function(self, end: Device | Nic, function: Element) -> None:
        if isinstance(end, Nic):
            is_infiniband = end.link_layer is LinkLayer.INFINIBAND
            function.set("class", f"0x{_INFINIBAND if is_infiniband else _ETHERNET:06x}")
            if end.name:
                nic = function.find("nic")
                rate = end.bytes_per_s.value if end.bytes_per_s else 0
                SubElement(
                    SubElement(function, "nic") if nic is None else nic,
                    "net",
                    {
                        "name": end.name,
                        "dev": str(end.number),
                        "speed": str(round(rate * 8 / 1e6)) if rate else "",
                    },
                )
            return
        function.set("class", f"0x{_AMD_GPU if end.vendor is Vendor.AMD else _GPU:06x}")
        function.set("vendor", f"0x{_VENDOR_ID[end.vendor]:04x}")
        if device := _device_id(end):
            function.set("device", f"0x{device:04x}")
        if function.find("gpu") is not None:
            bus = function.get("busid")
            self.notes.append(f"{end.id} is a part of GPU {bus}, which is written as one")
        elif self.with_gpus:
            gpu = SubElement(function, "gpu", {"dev": str(end.number), **_instruction_set(end)})
            gpu.extend(self._links(end))

    def _links(self, device: Device) -> Iterator[Element]:
        for link in self.topology.links:
            if device.id not in link.ends:
                continue
            other = link.ends[1] if link.ends[0] == device.id else link.ends[0]
            tag = link.kind.value
            if link.kind is LinkKind.C2C and other in self.components:
                megabytes = round(link.forward_bytes_per_s.value / link.count / 1e6)
                yield Element(tag, {"bw": str(megabytes), "count": str(link.count)})
            if link.kind not in (LinkKind.NVLINK, LinkKind.XGMI):
                continue
            words = {"target": "", "count": str(link.count), "tclass": ""}
            peer, part = self.devices.get(other), self.components.get(other)
            if peer is not None:
                peer_class = _AMD_GPU if peer.vendor is Vendor.AMD else _GPU
                words |= {"target": peer.pci_bus_id or "", "tclass": f"0x{peer_class:06x}"}
            elif part is not None and part.kind is ComponentKind.NVSWITCH:
                words |= {"target": self._switch_target(part), "tclass": _NVSWITCH}
            elif link.kind is LinkKind.NVLINK:
                words |= {"target": "ffff:fd:00.0", "tclass": _CPU_BRIDGE}
            else:
                continue  # Infinity Fabric to the processor: RCCL takes it for PCIe
            yield Element(tag, words)

    def _switch_target(self, part: Component) -> str:
        """Its bus id; NCCL joins all switches to one, and several are told apart by made-up ids."""
        fabrics = [p.id for p in self.topology.components if p.kind is ComponentKind.NVSWITCH]
        if part.pci_bus_id:
            return part.pci_bus_id
        return _HIDDEN_SWITCH if len(fabrics) == 1 else f"ffff:fe:{fabrics.index(part.id):02x}.0"

    def _invent(self) -> str:
        """A bus id that no machine has, for a switch or NIC whose own is not known."""
        self.invented += 1
        return f"ffff:ff:{self.invented:02x}.0"

    def _say_what_is_lost(self) -> None:
        if self.invented:
            self.notes.append(
                f"{self.invented} switches or NICs have no PCI bus id and got ones that no machine"
                " has (ffff:ff:...)"
            )
        bridges = [p.numa_node for p in self.topology.components
                   if p.kind is ComponentKind.HOST_BRIDGE]  # fmt: skip
        if self._has_switches_in_a_row():
            self.notes.append(
                "PCIe switches in a row that are drawn as one are written as one (PIX)"
            )
        if set(self.nics) & {end for link in self._below_gpus() for end in link.ends}:
            self.notes.append("NICs behind a GPU's own port are written beside it")
        if len(set(bridges)) < len(bridges):
            self.notes.append(
                "host bridges are not in such files: those of one NUMA node count as one (NODE"
                " becomes PHB)"
            )
        if any(p.kind is ComponentKind.PACKAGE for p in self.topology.components):
            self.notes.append("which NUMA nodes share a socket is not in such files")
        if any(
            link.kind is LinkKind.XGMI and set(link.ends) & set(self.components)
            for link in self.topology.links
        ):
            self.notes.append("Infinity Fabric between GPU and processor is written as PCIe")

    def _below_gpus(self) -> Iterator[Link]:
        """PCIe links with a GPU at one end and a device or NIC at the other."""
        for link in self.topology.links:
            if link.kind is LinkKind.PCIE and not set(link.ends) & set(self.components):
                yield link

    def _has_switches_in_a_row(self) -> bool:
        """Whether the source states a path over several switches of which one is drawn."""
        links = self.topology.link_of_id
        switches = {p.id for p in self.topology.components if p.kind is ComponentKind.SWITCH}
        return any(
            len(switches & {end for id in route.links for end in links[id].ends}) < 2
            for route in self.topology.routes
            if route.path_class is PathClass.PXB
        )


def _function(bus: str, speed: str, width: int) -> Element:
    """One PCI function; its speed and width are those of the link above."""
    told = {"busid": bus, "class": "0x000000", "vendor": "", "device": ""}
    return Element("pci", {**told, "link_speed": speed, "link_width": str(width)})


def _speed_of(link: Link) -> tuple[str, int]:
    """The generation and width whose rate is nearest to the link's, as NCCL's files spell them."""
    rate = link.forward_bytes_per_s.value

    def distance(choice: tuple[int, int]) -> float:
        return abs(math.log(k.pcie_bytes_per_s(*choice) / rate))

    generation, width = min(((g, w) for w in _WIDTHS for g in _SPEED), key=distance)
    return f"{_SPEED[generation]} GT/s PCIe", width


def _own_speed(end: Device | Nic) -> tuple[str, int]:
    generation = products.pcie_generation_of(end)
    width = (end.pcie and (end.pcie.max_width or end.pcie.width)) or 16
    return f"{_SPEED[min(generation or k.DEFAULT_PCIE_GENERATION, 6)]} GT/s PCIe", width


def _device_id(device: Device) -> int:
    """The PCI device id of a product that was named by its id, or has one; 0 for others."""
    found = products.products_named(device.name)
    if len(found) != 1 or device.name.startswith(("gfx", "sm_")):
        return next((int(p.ids[0], 16) for p in found if p.ids and device.name == p.name), 0)
    ids = found[0].ids
    return int(ids[0], 16) if len(ids) == 1 or (ids and device.name == found[0].name) else 0


def _instruction_set(device: Device) -> dict[str, str]:
    """`sm` or `gcn` of a product that has one."""
    amd = device.vendor is Vendor.AMD
    name, prefix = ("gcn", "gfx") if amd else ("sm", "sm_")
    if device.name.startswith(prefix):
        return {name: device.name.removeprefix(prefix)}
    for product in products.products_named(device.name)[:1]:
        for each in _GCN if amd else _SM:
            if re.fullmatch(product.isa, prefix + each):
                return {name: each}
    return {}
