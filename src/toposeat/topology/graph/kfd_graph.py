r"""Builds a link graph from the nodes and io_links of AMD's kernel driver, KFD.

numa0 ===== smp ===== numa1          whole GPUs: one xGMI link for each direct pair
|                                  partitions: ports of the fabric in their package; two
bridge                               packages are joined by the one xGMI link that all their
|                                  partitions share
package fabric ---- xGMI ---- package fabric
/    |    \
   part  part  part

A whole GPU has a bond with every direct peer. Partitions are ports of the fabric in their package;
two packages are joined by the one bond that all their partitions share. The driver's weights tell:
15 a hop, 13 the way through a package with partitions; 41 = 13 + 15 + 13 is between packages.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from msgspec.structs import replace

from toposeat.model.quantity import nominal
from toposeat.model.topology import (
    ComponentKind,
    Device,
    FactKind,
    LinkKind,
    Topology,
    Vendor,
    canonical_pci,
)
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.pci_graph import VENDOR_AMD

PCIE, XGMI = 2, 11  # types of links

# gfx_target_version: major, then two digits each of minor and stepping.
_FORWARDING_GFX = 90010  # MI200: its dies relay traffic of others
_PARTITIONED_GFX = frozenset({90400, 90401, 90402, 90500})  # MI300 and MI350


@dataclass(slots=True)
class KfdNode:
    """One node: CPUs of a memory node, or a GPU or partition.

    `links` are its io_links (xGMI and PCIe to neighbours), each a mapping of the kernel's numbers;
    `memory` likewise its memory banks.
    """

    number: int
    name: str = ""
    properties: dict[str, int] = field(default_factory=dict)
    links: list[dict[str, int]] = field(default_factory=list)
    memory: list[dict[str, int]] = field(default_factory=list)

    def told(self, name: str) -> int:
        """A property; 0 where it is not told."""
        return self.properties.get(name, 0)

    @property
    def is_gpu(self) -> bool:
        """Whether it has vector units."""
        return self.told("simd_count") > 0

    @property
    def is_shown(self) -> bool:
        """Whether the kernel showed its properties: it hides GPUs of other cgroups."""
        return bool(self.properties)

    @property
    def gfx(self) -> int:
        """Its instruction set, as a number."""
        return self.told("gfx_target_version")

    @property
    def bus(self) -> str:
        """The PCI bus id of a GPU.

        Partitions have the number of their part in the function digit (Linux 6.6), or in the upper
        half of the location (before).

        Raises:
            ValueError: the PCI domain is impossible.
        """
        return canonical_pci(f"{self._slot}.{self.told('location_id') & 7}")

    @property
    def board(self) -> str:
        """The PCI bus id of the GPU that the node is, or is a partition of."""
        return canonical_pci(f"{self._slot}.0") if self.gfx in _PARTITIONED_GFX else self.bus

    @property
    def _slot(self) -> str:
        location, domain = self.told("location_id") & 0xFFFF, self.told("domain")
        if domain > 0xFFFFFFFF:
            raise ValueError(f"node {self.number} is in PCI domain {domain}")
        return f"{domain:04x}:{location >> 8:02x}:{location >> 3 & 31:02x}"

    @property
    def uuid(self) -> str | None:
        """The UUID as ROCm writes it; partitions of one GPU share it."""
        unique = self.told("unique_id")
        return f"GPU-{unique:016x}" if unique else None

    @property
    def memory_bytes(self) -> int | None:
        """Bytes of the banks that are the device's own (heap types 1 and 2)."""
        own = sum(b.get("size_in_bytes", 0) for b in self.memory if b.get("heap_type") in (1, 2))
        return own or self.told("local_mem_size") or None

    @property
    def forwards(self) -> bool:
        """Whether it relays the traffic of others."""
        return self.gfx == _FORWARDING_GFX

    @property
    def lane(self) -> k.DeviceLink:
        """One of its xGMI links, by the data sheet of its product."""
        return products.lane_named(products.isa_of_gfx_version(self.gfx)) or k.XGMI_UNKNOWN

    @property
    def xgmi(self) -> dict[int, dict[str, int]]:
        """Its xGMI links as the driver states them, by the node at the other end."""
        return {
            link["node_to"]: link
            for link in self.links
            if link.get("type") == XGMI
            and "node_to" in link
            and link.get("node_from", self.number) == self.number
        }


# ---- xGMI


_HOP_WEIGHT, _PACKAGE_WEIGHT = 15, 13
_MOST_LANES = 16
_MB = 1e6


@dataclass(slots=True)
class XgmiGpu:
    """One GPU or partition, and what KFD tells of it.

    `links` are the driver's xGMI links by their far node, `numa` is the memory node. `vertex` is
    where its links end, set by `add_xgmi`: itself, or the fabric of its package.
    """

    id: str
    node: KfdNode
    part: bool
    links: Mapping[int, Mapping[str, int]] = field(init=False)
    vertex: str = ""
    numa: int | None = None

    def __post_init__(self) -> None:
        self.links = self.node.xgmi


def add_xgmi(builder: GraphBuilder, gpus: Sequence[XgmiGpu]) -> None:
    """Add the fabrics of packages and the bonds between them, and report what is not stated."""
    _Fabric(builder, gpus).write()


def add_package(builder: GraphBuilder, board: str, ports: Mapping[str, float]) -> str:
    """The fabric inside a package, with what the port of each of its parts carries, bytes/s."""
    fabric = builder.component(ComponentKind.NVSWITCH, f"package-{board}", name=f"package {board}")
    for part, bytes_per_s in ports.items():
        builder.link(
            LinkKind.XGMI,
            part,
            fabric,
            bytes_per_s=bytes_per_s,
            latency_s=k.LATENCY_NVSWITCH_PORT,
            name="in the package",
        )
    return fabric


class _Fabric:
    def __init__(self, builder: GraphBuilder, gpus: Sequence[XgmiGpu]) -> None:
        self.builder = builder
        self.gpus = gpus
        self.of_node = {gpu.node.number: gpu for gpu in gpus}
        self.unstated: Counter[str] = Counter()

    def write(self) -> None:
        packages: dict[str, list[XgmiGpu]] = defaultdict(list)
        for gpu in self.gpus:
            gpu.vertex = gpu.id
            if gpu.part:
                packages[gpu.node.board].append(gpu)
        for board, members in packages.items():
            self._package(board, members)
        self._join()
        for what, count in self.unstated.items():
            self.builder.report.append(f"KFD does not state the bandwidth of {count} {what}")

    def _package(self, board: str, members: Sequence[XgmiGpu]) -> None:
        ports: dict[str, float] = {}
        for gpu in members:
            inside = [
                link.get("max_bandwidth", 0)
                for node, link in gpu.links.items()
                if node in self.of_node and self.of_node[node].node.board == board
            ]
            ports[gpu.id] = max(inside, default=0) * _MB or k.XGMI_IN_PACKAGE
            if not max(inside, default=0):
                self.unstated[f"ports in packages: {_gb(k.XGMI_IN_PACKAGE)} assumed"] += 1
        fabric = add_package(self.builder, board, ports)
        for gpu in members:
            gpu.vertex = fabric

    def _join(self) -> None:
        """One bond for each pair of vertices that a direct link joins."""
        joined: set[frozenset[str]] = set()
        far = 0
        for gpu in self.gpus:
            for number, link in sorted(gpu.links.items()):
                peer = self.of_node.get(number)
                if peer is None:
                    continue
                ends = frozenset((gpu.vertex, peer.vertex))
                if len(ends) < 2 or ends in joined:
                    continue
                if _own_weight(link, gpu, peer) > _HOP_WEIGHT:
                    far += gpu.node.number < number
                    continue
                joined.add(ends)
                self._bond(gpu, peer, link, peer.links.get(gpu.node.number, link))
        if far:
            self.builder.report.append(
                f"KFD names {far} more xGMI pairs without a link of their own: they are routed over"
                " what lies between"
            )

    def _bond(
        self, gpu: XgmiGpu, peer: XgmiGpu, link: Mapping[str, int], back: Mapping[str, int]
    ) -> None:
        forward = link.get("max_bandwidth", 0) * _MB
        backward = back.get("max_bandwidth", 0) * _MB
        least = link.get("min_bandwidth", 0) * _MB
        lane = gpu.node.lane
        unit = least if 0 < least < forward else lane.data_sheet
        if lane is k.XGMI_UNKNOWN and forward:  # what is stated is all that is known
            unit = least if 0 < least < forward else forward
            lane = replace(lane, achievable=lane.achievable / lane.data_sheet * unit)
        count = max(1, min(_MOST_LANES, round((forward or unit) / unit)))
        if not forward:
            self.unstated[f"xGMI links: {_gb(lane.data_sheet)} assumed ({lane.name})"] += 1
        self.builder.link(
            LinkKind.XGMI,
            gpu.vertex,
            peer.vertex,
            bytes_per_s=forward or lane.data_sheet,
            backward_bytes_per_s=backward or forward or lane.data_sheet,
            flow_bytes_per_s=min(forward or lane.data_sheet, lane.achievable * count),
            latency_s=k.LATENCY_XGMI,
            count=count,
            name=lane.name,
        )


def _own_weight(link: Mapping[str, int], gpu: XgmiGpu, peer: XgmiGpu) -> int:
    """The weight of the way between two packages, without the ways through them."""
    return link.get("weight", 0) - (gpu.part + peer.part) * _PACKAGE_WEIGHT


# ---- the whole machine


def topology_of_kfd(nodes: Sequence[KfdNode], *, name: str, origin: str) -> Topology:
    """What KFD's nodes, at least one of them a GPU, tell of one machine.

    Raises:
        ValueError: a node states numbers that no machine has.
    """
    return _Writer(nodes).write(name, origin)


class _Writer:
    """Draws one machine into a builder."""

    def __init__(self, nodes: Sequence[KfdNode]) -> None:
        self.builder = GraphBuilder(tells={FactKind.DEVICE_LINKS})
        self.report = self.builder.report
        self.nodes = {node.number: node for node in nodes if node.is_shown}
        self.cpus = [node for node in nodes if node.is_shown and not node.is_gpu]
        gpus = [node for node in nodes if node.is_gpu]
        self.gpus = [
            XgmiGpu(f"gpu{i}", node, len({n.bus for n in gpus if n.board == node.board}) > 1)
            for i, node in enumerate(gpus)
        ]
        self.numa_ids: dict[int | None, str] = {}
        self.unstated: Counter[str] = Counter()
        self.members: dict[str, list[XgmiGpu]] = defaultdict(list)
        for gpu in self.gpus:
            self.members[gpu.node.board].append(gpu)
        self._doubt_nodes(nodes)

    def write(self, name: str, origin: str) -> Topology:
        for gpu in self.gpus:
            self._read_links(gpu)
        self._add_devices()
        for node in self.cpus:
            self._numa(node.number)
        self._fabric()
        self._sockets()
        for what, count in self.unstated.items():
            self.report.append(f"KFD does not state the bandwidth of {count} {what}")
        return self.builder.facts(name=name, origin=origin)

    def _doubt_nodes(self, nodes: Sequence[KfdNode]) -> None:
        """Report missing and contradictory nodes, as far as the list itself shows them."""
        sizes = {board: len(m) for board, m in self.members.items()}
        most = max(sizes.values())
        for board, count in sizes.items():
            if most > 1 and count < most:
                self.report.append(
                    f"{board} shows {count} partitions where others show {most}: the rest is hidden"
                    " from the process that saved this, or was not saved"
                )
        shown = set(self.nodes)
        named = {link["node_to"] for node in nodes for link in node.links if "node_to" in link} | {
            node.number for node in nodes
        }
        if named - shown:
            missing = ", ".join(str(n) for n in sorted(named - shown)[:8])
            self.report.append(
                f"{len(named - shown)} nodes are named but not shown ({missing}): GPUs of another"
                " job or container?"
            )

    def _read_links(self, gpu: XgmiGpu) -> None:
        near: list[tuple[int, int]] = []
        for link in gpu.node.links:
            start, end = link.get("node_from", gpu.node.number), link.get("node_to")
            if start != gpu.node.number:
                self.report.append(
                    f"a link listed under node {gpu.node.number} says it starts at node {start}:"
                    " it is not used"
                )
            elif end is not None and end in self.nodes and not self.nodes[end].is_gpu:
                near.append((link.get("weight", 0), end))
        if near:
            least = min(near)[0]
            nearest = [end for weight, end in near if weight == least]
            gpu.numa = nearest[0] if len(nearest) == 1 else None
        elif len(self.cpus) == 1:
            gpu.numa = self.cpus[0].number

    def _add_devices(self) -> None:
        shared = Counter(gpu.node.bus for gpu in self.gpus)
        doubled = sorted(bus for bus, count in shared.items() if count > 1)
        if doubled:
            self.report.append(
                f"several GPUs claim the PCI bus id {', '.join(doubled[:8])}: theirs are left out"
            )
        placeless = [gpu.id for gpu in self.gpus if gpu.numa is None]
        if placeless:
            self.report.append(f"the memory node of {', '.join(placeless[:8])} is not known")
        for index, gpu in enumerate(self.gpus):
            self.builder.devices.append(
                Device(
                    id=gpu.id,
                    index=index,
                    vendor=Vendor.AMD,
                    name=_name(gpu.node),
                    pci_bus_id=gpu.node.bus if shared[gpu.node.bus] == 1 else None,
                    uuid=None if gpu.part else gpu.node.uuid,
                    numa_node=gpu.numa,
                    memory_bytes=gpu.node.memory_bytes,
                    forwards=gpu.node.forwards,
                    parent=gpu.node.board if gpu.part else "",
                )
            )

    def _numa(self, node: int | None) -> str:
        if node not in self.numa_ids:
            known = node is not None
            self.numa_ids[node] = self.builder.component(
                ComponentKind.NUMA,
                f"numa{node}" if known else "numa-unknown",
                name=f"NUMA node {node}" if known else "",
                numa_node=node,
            )
        return self.numa_ids[node]

    def _fabric(self) -> None:
        """xGMI, and the way from each package to its CPU."""
        add_xgmi(self.builder, self.gpus)
        for members in self.members.values():
            for gpu in members[:1] if members[0].part else members:
                self._host(gpu, members if gpu.part else [gpu])

    def _host(self, first: XgmiGpu, members: Sequence[XgmiGpu]) -> None:
        """The one link of a package to its CPU: PCIe through a host bridge, or xGMI."""
        kind, stated = _host_link(members, self.nodes)
        numa = self._numa(first.numa)
        if kind == XGMI:
            if not stated:
                self.unstated[f"xGMI links to CPUs: {_gb(k.XGMI_CPU)} assumed"] += 1
            self.builder.link(
                LinkKind.XGMI,
                first.vertex,
                numa,
                bytes_per_s=stated or k.XGMI_CPU,
                latency_s=k.LATENCY_XGMI,
                name="xGMI to CPU",
            )
            return
        speed = nominal(stated * k.PCIE_ACHIEVABLE)
        if not stated:
            speed = self.builder.untold_pcie(k.DEFAULT_PCIE_GENERATION)
            self.unstated[f"PCIe links: gen {k.DEFAULT_PCIE_GENERATION} x16 assumed"] += 1
        bridge = self.builder.component(
            ComponentKind.HOST_BRIDGE, f"bridge-{first.id}", numa_node=first.numa
        )
        self.builder.pcie(
            first.vertex, bridge, bytes_per_s=speed, latency_s=k.LATENCY_PCIE_ENDPOINT
        )
        self.builder.fabric(bridge, numa, bytes_per_s=speed)

    def _sockets(self) -> None:
        """Links between CPUs as the driver lists them; without any, one between each two."""
        listed: dict[frozenset[int], int] = {}
        for node in self.cpus:
            for link in node.links:
                end = link.get("node_to")
                if end in self.nodes and end != node.number and not self.nodes[end].is_gpu:
                    pair = frozenset((node.number, end))
                    listed[pair] = max(listed.get(pair, 0), link.get("max_bandwidth", 0))
        pairs = [(a, b) for a, b in combinations(self.numa_ids, 2)]
        for a, b in pairs:
            stated = listed.get(frozenset((a, b)), 0) if a is not None and b is not None else 0
            if stated:
                self.builder.smp(self.numa_ids[a], self.numa_ids[b], bytes_per_s=stated * _MB)
            else:
                self.builder.sockets(self.numa_ids[a], self.numa_ids[b])
                self.unstated["links between memory nodes: what processors have is assumed"] += 1


def _name(node: KfdNode) -> str:
    """The product, else its instruction set; the driver's own name for it where neither is told."""
    properties = node.properties
    product = products.name_of_pci(
        properties.get("vendor_id", VENDOR_AMD), properties.get("device_id", 0)
    )
    gfx = properties.get("gfx_target_version")
    return product or (products.isa_of_gfx_version(gfx) if gfx else node.name)


def _host_link(members: Sequence[XgmiGpu], nodes: dict[int, KfdNode]) -> tuple[int, float]:
    """Type and bytes/s of the link from a package to the CPU node it is nearest to.

    The kernel lists it for every partition, but some drivers give a number to the CPU's end only.
    """
    kind, stated = PCIE, 0.0
    for gpu in members:
        ends = [(gpu.node, gpu.numa)]
        if gpu.numa is not None:
            ends.append((nodes[gpu.numa], gpu.node.number))
        for node, target in ends:
            for link in node.links:
                if link.get("node_to") == target and link.get("node_from") == node.number:
                    kind = link.get("type", PCIE)
                    stated = max(stated, link.get("max_bandwidth", 0) * _MB)
    return kind, stated


def _gb(bytes_per_s: float) -> str:
    return f"{bytes_per_s / k.GB_PER_S:g} GB/s"
