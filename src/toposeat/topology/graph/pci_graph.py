"""PCI functions, NUMA nodes and NICs from any source, and their tree as links.

Bridges without a branch are contracted:

    pci0000:16 (host bridge) - root port - switch upstream port +- downstream port - GPU
                                                                +- downstream port - NIC
becomes  bridge - switch - GPU, NIC: two links below the switch and its uplink, which they share.
Endpoints of one PCI function (partitions of a GPU, ports of an adapter) share its link: their board
stands in the tree as a switch of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from toposeat.model.cpu_list import cpus_of, format_cpu_list
from toposeat.model.quantity import Quantity, nominal
from toposeat.model.topology import ComponentKind, LinkLayer, Nic, PcieState
from toposeat.topology import constants as k
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.premises import scaled
from toposeat.topology.products import awake

VENDOR_NVIDIA = 0x10DE
VENDOR_AMD = 0x1002
VENDOR_INTEL = 0x8086

_MANAGEMENT = {(VENDOR_AMD, 0x515E), (VENDOR_AMD, 0x5969)}  # ES1000: on server boards

_COMPUTES = (0x03, 0x12)  # displays and processing accelerators, of any maker

# Least GT/s per lane of a generation.
_GENERATION = ((60.0, 6), (30.0, 5), (15.0, 4), (7.0, 3), (4.0, 2), (2.0, 1))


def pcie_generation(gigatransfers_per_s: float | None) -> int | None:
    """The PCIe generation that signals this fast per lane; None if that is not known."""
    speed = gigatransfers_per_s
    return next((g for least, g in _GENERATION if speed and speed >= least), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class PciDevice:
    """One PCI function. `bridges` are those above it, from the host bridge's root port down."""

    pci_bus_id: str
    root: str  # the host bridge's bus, "pci0000:16"; "" if the tree does not show it
    bridges: tuple[str, ...]
    vendor: int
    device: int
    class_code: int  # 24 bits
    numa_node: int | None
    cpus: str | None
    generation: int | None  # the fastest its link can be; idle devices slow their links down
    width: int | None
    max_width: int | None
    current_generation: int | None = None

    @property
    def is_management(self) -> bool:
        """Whether it is a server board's management controller that calls itself a GPU."""
        return (self.vendor, self.device) in _MANAGEMENT

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU: a display or processing accelerator of a GPU maker.

        Management controllers do not count, nor do Intel's graphics without a bridge above them,
        which are part of the CPU.
        """
        if self.is_management:
            return False
        graphics = self.class_code >> 16 == 0x03 or self.class_code >> 8 == 0x1200
        if self.vendor == VENDOR_INTEL:
            return graphics and bool(self.bridges)
        return graphics and self.vendor in (VENDOR_NVIDIA, VENDOR_AMD)


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkAdapter:
    """One adapter as UCX and libfabric name it.

    `bytes_per_s` is what its active ports carry per direction; `active` says whether one is,
    `link_layer` what they speak. A bond is one adapter, at its first interface's function.
    """

    name: str
    pci_bus_id: str
    bytes_per_s: float | None = None
    active: bool | None = None
    link_layer: LinkLayer | None = None


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine as sysfs or a file shows it. Keys of `pci` are canonical bus ids.

    `functions_per_link` says what the chains of bridges hold: sysfs lists the port above and the
    function below of every link (2), NCCL's files one element a link (1).
    """

    pci: dict[str, PciDevice]
    cpus_of_node: dict[int, str]
    package_of_node: dict[int, int]
    adapters: tuple[NetworkAdapter, ...] = ()
    report: tuple[str, ...] = ()
    functions_per_link: int = 2
    cores: tuple[frozenset[int], ...] = ()  # the CPUs of each
    caches: tuple[frozenset[int], ...] = ()  # the CPUs of each last-level one

    def gpus(self, vendor: int) -> list[PciDevice]:
        """The GPUs of one vendor in PCI bus order."""
        return [d for _, d in sorted(self.pci.items()) if d.is_gpu and d.vendor == vendor]


def cpu_groups(listed: str | None, machine: Machine) -> dict[str, tuple[str, ...]]:
    """Cores, and caches where there are several, of a memory node with these CPUs."""
    near = cpus_of(listed)
    cores, caches = (
        tuple(format_cpu_list(part) for each in groups if (part := each & near))
        for groups in (machine.cores, machine.caches)
    )
    return {"cores": cores, "caches": caches if len(caches) > 1 else ()}


# ---- the graph


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A device or NIC of the topology and the PCI function behind it."""

    id: str
    function: PciDevice
    default_generation: int


class PciGraphWriter:
    """Writes host bridges, switches, NUMA nodes, sockets and their links."""

    def __init__(self, builder: GraphBuilder, machine: Machine) -> None:
        self.builder = builder
        self.machine = machine
        self.generations: list[int] = []
        self.unknown_links: list[str] = []

    def write(self, endpoints: Sequence[Endpoint]) -> dict[str, str]:
        """Add all links above `endpoints`; return the NUMA vertex of each, by id."""
        by_root: dict[str, list[Endpoint]] = {}
        for endpoint in endpoints:
            by_root.setdefault(endpoint.function.root, []).append(endpoint)
        numa_of: dict[str, str] = {}
        nodes: dict[int | None, str] = {}
        for root, members in sorted(by_root.items()):
            node = self._node(members)
            if node not in nodes:
                nodes[node] = self._numa(node)
            self._host_bridge(root, members, nodes[node], node)
            numa_of.update({e.id: nodes[node] for e in members})
        self._sockets(nodes)
        if self.unknown_links:
            names = ", ".join(dict.fromkeys(self.unknown_links))
            self.builder.report.append(
                f"the PCIe link speed of {names} is not stated, or that of an idle link: the"
                " generation is assumed"
            )
        return numa_of

    def _node(self, members: Sequence[Endpoint]) -> int | None:
        nodes = {e.function.numa_node for e in members} - {None}
        if len(nodes) == 1:
            return nodes.pop()
        if len(self.machine.cpus_of_node) == 1:
            return next(iter(self.machine.cpus_of_node))
        names = ", ".join(e.id for e in members)
        self.builder.report.append(f"the NUMA node of {names} is not known")
        return None

    def _numa(self, node: int | None) -> str:
        if node is None:
            return self.builder.component(ComponentKind.NUMA, "numa-unknown")
        return self.builder.component(
            ComponentKind.NUMA,
            f"numa{node}",
            name=f"NUMA node {node}",
            numa_node=node,
            cpus=self.machine.cpus_of_node.get(node),
            **cpu_groups(self.machine.cpus_of_node.get(node), self.machine),
        )

    def _host_bridge(
        self, root: str, members: Sequence[Endpoint], numa: str, node: int | None
    ) -> None:
        bridge = self.builder.component(
            ComponentKind.HOST_BRIDGE, f"bridge-{root or 'unknown'}", name=root, numa_node=node
        )
        children: dict[str, set[str]] = {}
        for endpoint in members:
            chain = [root, *endpoint.function.bridges, endpoint.function.pci_bus_id]
            for above, below in pairwise(chain):
                children.setdefault(above, set()).add(below)
        shared = Counter(e.function.pci_bus_id for e in members if e.function.pci_bus_id)
        for endpoint in members:
            if shared[endpoint.function.pci_bus_id] > 1:
                children.setdefault(endpoint.function.pci_bus_id, set()).add(endpoint.id)
        switches: dict[str, str] = {}
        uplinks: list[Quantity] = []
        for endpoint in members:
            uplinks += self._path(endpoint, bridge, children, switches, node)
        total = sum(each.value for each in uplinks)
        widest = max(uplinks, key=lambda each: each.value)
        self.builder.fabric(bridge, numa, bytes_per_s=scaled(widest, total / widest.value))

    def _path(
        self,
        endpoint: Endpoint,
        bridge: str,
        children: Mapping[str, set[str]],
        switches: dict[str, str],
        node: int | None,
    ) -> list[Quantity]:
        """Links from the host bridge to one endpoint; bytes/s of those added to the bridge."""
        above, pending = bridge, []
        added: list[Quantity] = []
        own = endpoint.function.pci_bus_id
        for bus in (*endpoint.function.bridges, own):
            pending.append(bus)
            if len(children.get(bus, ())) < 2:
                continue
            if bus not in switches:
                switches[bus] = self.builder.component(
                    ComponentKind.SWITCH,
                    f"switch-{bus}",
                    name=_board_name(endpoint.function) if bus == own else "",
                    pci_bus_id=bus,
                    numa_node=node,
                )
                speed = self._bytes_per_s(pending, endpoint)
                self.builder.pcie(switches[bus], above, bytes_per_s=speed)
                added += [speed] if above == bridge else []
            above, pending = switches[bus], []
        speed = self._bytes_per_s(pending or [own], endpoint)
        self.builder.pcie(
            endpoint.id,
            above,
            bytes_per_s=speed,
            latency_s=k.LATENCY_PCIE_ENDPOINT,
            name="" if pending else "on-die fabric",
        )
        return added + ([speed] if above == bridge else [])

    def _bytes_per_s(self, chain: Sequence[str], endpoint: Endpoint) -> Quantity:
        """The narrowest link of a contracted chain.

        In sysfs a link has two ends, the port above and the function below it: of a whole chain,
        the first and second, third and fourth function and so on. It runs at the speed and width of
        its slower, narrower end. Where no end tells its speed, it is assumed.
        """
        whole = (*endpoint.function.bridges, endpoint.function.pci_bus_id)
        ends: dict[int, list[PciDevice]] = {}
        for bus in chain:
            function = self.machine.pci.get(bus)
            if function is not None and (function.generation or function.width):
                link = whole.index(bus) // self.machine.functions_per_link
                ends.setdefault(link, []).append(function)
        speeds: list[Quantity] = []
        built = endpoint.default_generation
        for functions in ends.values() or ([],):
            able = [(f.generation, f.class_code >> 16 in _COMPUTES and built) for f in functions]
            told = [g for each in able if (g := awake(*each))]
            self.generations.append(min(told, default=built))
            width = min((f.width or f.max_width or 16 for f in functions), default=16)
            if told:
                speeds.append(nominal(k.pcie_bytes_per_s(min(told), width)))
            else:  # products settle it, once all are known
                speeds.append(self.builder.untold_pcie(k.DEFAULT_PCIE_GENERATION, width))
                self.unknown_links.append(endpoint.id)
        return min(speeds, key=lambda each: each.value)

    def _sockets(self, nodes: Mapping[int | None, str]) -> None:
        """Join NUMA nodes by their sockets, as far as those are told."""
        generation = max(self.generations, default=k.DEFAULT_PCIE_GENERATION)
        packages: dict[int | str, list[str]] = {}
        for node, id in nodes.items():
            package = self.machine.package_of_node.get(node, id) if node is not None else id
            packages.setdefault(package, []).append(id)
        self.builder.join_nodes(packages, die_bytes_per_s=2 * k.pcie_bytes_per_s(generation))


def _board_name(function: PciDevice) -> str:
    return f"{'GPU' if function.is_gpu else 'adapter'} {function.pci_bus_id}"


def add_nics(
    builder: GraphBuilder,
    adapters: Iterable[tuple[NetworkAdapter, PciDevice]],
    pcie_state: Callable[[PciDevice], PcieState | None] | None = None,
) -> list[Endpoint]:
    """Add adapters, numbered in their order, and return them as endpoints of the PCI tree.

    `pcie_state` is None where the source shows the speed of an idle link, which says nothing.
    """
    endpoints = []
    for index, (adapter, function) in enumerate(adapters, start=len(builder.nics)):
        rate = adapter.bytes_per_s
        nic = Nic(
            id=f"nic{index}",
            index=index,
            host=builder.host,
            name=adapter.name,
            pci_bus_id=adapter.pci_bus_id,
            numa_node=function.numa_node,
            pcie=pcie_state(function) if pcie_state else None,
            bytes_per_s=nominal(rate) if rate else None,
            active=adapter.active,
            link_layer=adapter.link_layer,
        )
        builder.nics.append(nic)
        endpoints.append(Endpoint(nic.id, function, k.DEFAULT_PCIE_GENERATION))
    return endpoints
