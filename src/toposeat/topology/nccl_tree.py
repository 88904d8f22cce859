"""A topology's PCIe trees as functions below the processors, as NCCL's files nest them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    LinkKind,
    LinkLayer,
    Nic,
    PathClass,
    Topology,
    Vendor,
)
from toposeat.model.topology import Link as TopologyLink
from toposeat.topology import constants as k
from toposeat.topology import products

_BRIDGE, _GPU, _AMD_GPU, _ETHERNET, _INFINIBAND = 0x060400, 0x030200, 0x038000, 0x020000, 0x020700
_NVSWITCH, _CPU_BRIDGE = "0x068000", "0x068001"
_HIDDEN_SWITCH = "fffffff:ffff:ff"  # NCCL's own words for an NVSwitch that a guest does not see
_VENDOR_ID = {Vendor.NVIDIA: 0x10DE, Vendor.AMD: 0x1002}
_SPEED = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}  # GT/s by generation
_WIDTHS = (16, 8, 4, 2, 1)
# Instruction sets as NCCL's `sm` and RCCL's `gcn` spell them; the first that fits a product counts.
_SM = ("60", "61", "70", "75", "80", "86", "89", "90", "100", "103", "120")
_GCN = ("900", "906", "908", "910", "942", "950")


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a GPU: its element and attributes."""

    tag: str
    words: dict[str, str]


@dataclass(slots=True)
class Function:
    """One PCI function with what is below it; its speed and width are those of the link above."""

    bus: str
    class_code: int
    speed: str
    width: int
    vendor: int = 0
    device: int = 0
    below: list[Function] = field(default_factory=list)
    gpu: dict[str, str] | None = None
    links: list[Link] = field(default_factory=list)
    nets: list[dict[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Cpu:
    """A NUMA node (-1 if it is not known), its CPUs if they are told, and its functions."""

    numa: int
    cpus: str | None = None
    functions: list[Function] = field(default_factory=list)


def functions_of(topology: Topology, notes: list[str], *, with_gpus: bool) -> list[Cpu]:
    """All processors, by number.

    Args:
        topology: of one host.
        notes: takes what cannot be written.
        with_gpus: whether GPUs get an element, which says that their links are known.
    """
    return _Writer(topology, notes, with_gpus=with_gpus).cpus()


class _Writer:
    def __init__(self, topology: Topology, notes: list[str], *, with_gpus: bool) -> None:
        self.topology = topology
        self.notes = notes
        self.with_gpus = with_gpus
        self.devices = {device.id: device for device in topology.devices}
        self.nics = {nic.id: nic for nic in topology.nics}
        self.ends: list[Device | Nic] = [*topology.devices, *topology.nics]
        self.components = {part.id: part for part in topology.components}
        self.pcie: dict[str, list[TopologyLink]] = {}
        for link in topology.links:
            if link.kind is LinkKind.PCIE:
                for end in link.ends:
                    self.pcie.setdefault(end, []).append(link)
        self.seen: set[str] = set()
        self.invented = 0
        self.found: dict[int, Cpu] = {}
        self.bus_of_function: dict[str, Function] = {}

    def cpus(self) -> list[Cpu]:
        for part in self.topology.components:  # from the processors down
            if part.kind is ComponentKind.NUMA:
                self._hang(part.id, self._cpu(part.numa_node, part.cpus).functions)
        for part in self.topology.components:  # host bridges that no NUMA node is told of
            if part.kind is ComponentKind.HOST_BRIDGE and part.id not in self.seen:
                node = part.numa_node if part.numa_node is not None else self._numa_below(part.id)
                self._hang(part.id, self._cpu(node, part.cpus).functions)
        for end in self.ends:
            if end.id not in self.seen:  # at the processor by another link than PCIe
                self.seen.add(end.id)
                cpus = end.cpus if isinstance(end, Device) else None
                self._endpoint(end.id, None, self._cpu(end.numa_node, cpus).functions)
        self._say_what_is_lost()
        return [self.found[numa] for numa in sorted(self.found) if self.found[numa].functions]

    def _cpu(self, numa: int | None, cpus: str | None) -> Cpu:
        number = -1 if numa is None else numa
        cpu = self.found.setdefault(number, Cpu(number))
        cpu.cpus = cpu.cpus or cpus
        return cpu

    def _numa_below(self, id: str) -> int | None:
        """The NUMA node of an endpoint below, where the bridge does not say its own."""
        found, pending = {id}, [id]
        while pending:
            for link in self.pcie.get(pending.pop(), []):
                for end in set(link.ends) - found:
                    found.add(end)
                    pending.append(end)
                    if end in self.devices:
                        return self.devices[end].numa_node
        return None

    def _hang(self, id: str, into: list[Function]) -> None:
        """What is below a vertex into the list of its functions, by bus id as NCCL has them."""
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
        into.sort(key=lambda function: function.bus)

    def _switch(self, part: Component, link: TopologyLink, into: list[Function]) -> None:
        """A board whose parts share its function is no bridge: they are written side by side."""
        speed, width = _speed_of(link)
        function = Function(part.pci_bus_id or self._invent(), _BRIDGE, speed, width)
        own = [end for end in self.ends if end.pci_bus_id == function.bus]
        if own:
            self.bus_of_function[function.bus] = function
            function.class_code = 0
            into.append(function)
            for end in own:
                self.seen.add(end.id)
                self._into_function(end, function)
            self.seen.add(part.id)
            return
        into.append(function)
        self._hang(part.id, function.below)

    def _endpoint(self, id: str, link: TopologyLink | None, into: list[Function]) -> None:
        end: Device | Nic = self.devices[id] if id in self.devices else self.nics[id]
        bus = end.pci_bus_id or self._invent()
        function = self.bus_of_function.get(bus)
        if function is None:
            speed, width = _speed_of(link) if link else _own_speed(end)
            function = self.bus_of_function[bus] = Function(bus, 0, speed, width)
            into.append(function)
        self._into_function(end, function)

    def _into_function(self, end: Device | Nic, function: Function) -> None:
        if isinstance(end, Nic):
            is_infiniband = end.link_layer is LinkLayer.INFINIBAND
            function.class_code = _INFINIBAND if is_infiniband else _ETHERNET
            if end.name:
                rate = end.bytes_per_s.value if end.bytes_per_s else 0
                speed = str(round(rate * 8 / 1e6)) if rate else ""
                function.nets.append({"name": end.name, "dev": str(end.number), "speed": speed})
            return
        function.class_code = _AMD_GPU if end.vendor is Vendor.AMD else _GPU
        function.vendor, function.device = _VENDOR_ID[end.vendor], _device_id(end)
        if function.gpu is not None:
            self.notes.append(f"{end.id} is a part of GPU {function.bus}, which is written as one")
        elif self.with_gpus:
            function.gpu = {"dev": str(end.number), **_instruction_set(end)}
            function.links = list(self._links(end))

    def _links(self, device: Device) -> Iterator[Link]:
        for link in self.topology.links:
            if device.id not in link.ends:
                continue
            other = link.ends[1] if link.ends[0] == device.id else link.ends[0]
            tag = link.kind.value
            if link.kind is LinkKind.C2C and other in self.components:
                megabytes = round(link.forward_bytes_per_s.value / link.count / 1e6)
                yield Link(tag, {"bw": str(megabytes), "count": str(link.count)})
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
            yield Link(tag, words)

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

    def _below_gpus(self) -> Iterator[TopologyLink]:
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


def _speed_of(link: TopologyLink) -> tuple[str, int]:
    """The generation and width whose rate is nearest to the link's, as NCCL's files spell them."""
    rate = link.forward_bytes_per_s.value

    def distance(choice: tuple[int, int]) -> float:
        return abs(math.log(k.pcie_bytes_per_s(*choice) / rate))

    generation, width = min(((g, w) for w in _WIDTHS for g in _SPEED), key=distance)
    return f"{_SPEED[generation]} GT/s PCIe", width


def _own_speed(end: Device | Nic) -> tuple[str, int]:
    state = end.pcie
    generation = (state and (state.max_generation or state.generation)) or None
    if generation is None and isinstance(end, Device):
        generation = products.pcie_generation_named(end.name)
    width = (state and (state.max_width or state.width)) or 16
    return f"{_SPEED[min(generation or k.DEFAULT_PCIE_GENERATION, 6)]} GT/s PCIe", width


def _device_id(device: Device) -> int:
    """The PCI device id of a product that was named by its id, or has one; 0 for others."""
    found = products.products_named(device.name)
    if len(found) != 1 or device.name.startswith(("gfx", "sm_")):
        return next((p.ids[0] for p in found if p.ids and device.name == p.name), 0)
    ids = found[0].ids
    return ids[0] if len(ids) == 1 or (ids and device.name == found[0].name) else 0


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
