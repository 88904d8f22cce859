r"""Builds a link graph from KFD's nodes and io_links.

numa0 ===== smp ===== numa1          whole GPUs: one xGMI link for each direct pair
|                                  partitions: ports of the fabric in their package; two
bridge                               packages are joined by the one xGMI link that all their
|                                  partitions share
package fabric ---- xGMI ---- package fabric
/    |    \
   part  part  part
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations

from toposeat.model.quantity import nominal
from toposeat.model.topology import (
    ComponentKind,
    Device,
    FactKind,
    LinkKind,
    Topology,
    Vendor,
)
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.kfd_node import PCIE, XGMI, KfdNode
from toposeat.topology.graph.machine import VENDOR_AMD
from toposeat.topology.graph.xgmi_fabric import XgmiGpu, add_xgmi

_MB = 1e6


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
