r"""From a relation matrix to a link graph: shared PCIe links, NVLink, routes, nominal capacities.

                    numa0 ======== smp ======== numa1        SYS  crosses smp
                   /     \                        |          NODE crosses numa
              bridge0   bridge1                bridge2       PHB  crosses a host bridge
              /     \      |                      |          PXB  crosses several switches
         switch    GPU3   GPU4                   ...         PIX  crosses one switch
         /  |  \
     GPU0 GPU1 NIC0

All numbers are `nominal`: a relation says what kind a link is, never how fast it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from toposeat.model.topology import (
    ComponentKind,
    Device,
    Nic,
    PathClass,
    Topology,
    Vendor,
)
from toposeat.topology import constants as k
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.nvlink_fabric import add_nvlinks, nvlink_lanes
from toposeat.topology.graph.pcie_levels import Level, PcieLevels, pcie_levels
from toposeat.topology.graph.relation import RelationMatrix

_PCIE_CLASSES = frozenset(
    {PathClass.PIX, PathClass.PXB, PathClass.PHB, PathClass.NODE, PathClass.SYS}
)


def topology_of_relations(
    matrix: RelationMatrix,
    *,
    name: str,
    origin: str,
    devices: Sequence[Device] | None = None,
    pcie: RelationMatrix | None = None,
    pcie_generation: int | None = None,
) -> Topology:
    """Build the link graph of one node from the relations of its GPUs and NICs.

    Args:
        matrix: what the source states: the best link of each pair.
        name: of the machine.
        origin: what was read.
        devices: the GPUs of the matrix, in order; by default NVIDIA's, as the matrix names them.
        pcie: the PCIe path of each pair, which NVLinks hide in `matrix`; of the same endpoints.
        pcie_generation: of all PCIe links, where it is known.
    """
    builder = GraphBuilder(report=list(matrix.report))
    levels = pcie_levels(matrix if pcie is None else _with_pcie_paths(matrix, pcie, builder.report))
    builder.report.extend(levels.report)
    ids = _add_endpoints(builder, matrix, levels, devices)
    lane = add_nvlinks(builder, matrix, ids)
    generation, known = _pcie_generation(matrix, lane)
    if pcie_generation is not None:
        generation, known = pcie_generation, True
    if not known:
        builder.report.append(f"PCIe generation is not stated: gen {generation} x16 assumed")
    _TreeWriter(builder, matrix, levels, ids, generation).write()
    return builder.build(
        name=name,
        origin=origin,
        classes=_stated_classes(matrix, levels, ids),
        metadata={
            "pcie_generation": f"{generation}" if known else f"{generation} (assumed)",
            **({"nvlink": lane.name} if nvlink_lanes(matrix) else {}),
            **({"relations": "information-free"} if levels.relations_are_empty else {}),
        },
    )


def _with_pcie_paths(
    matrix: RelationMatrix, pcie: RelationMatrix, report: list[str]
) -> RelationMatrix:
    """The matrix with PCIe paths where it names NVLinks; where both name a path, its own."""
    relations = dict(matrix.relations)
    apart = 0
    for (i, j), path in pcie.relations.items():
        if path.path_class not in _PCIE_CLASSES:
            continue
        own = relations.get((i, j))
        if own is None or own.path_class not in _PCIE_CLASSES:
            relations[i, j] = path
        apart += own is not None and own.path_class in _PCIE_CLASSES and own != path
    if apart:
        report.append(
            f"best links and PCIe paths disagree on {apart} pairs: the former are believed"
        )
    return replace(matrix, relations=relations)


def _add_endpoints(
    builder: GraphBuilder,
    matrix: RelationMatrix,
    levels: PcieLevels,
    devices: Sequence[Device] | None,
) -> list[str]:
    if devices is not None:
        trusted = levels.affinity_is_trusted
        builder.devices.extend(d if trusted else replace(d, numa_node=None) for d in devices)
    for i, label in enumerate(matrix.gpus if devices is None else ()):
        builder.devices.append(
            Device(
                id=label.lower(),
                index=int(label[3:]),
                vendor=Vendor.NVIDIA,
                name=matrix.gpu_names[i],
                pci_bus_id=matrix.gpu_pci[i],
                uuid=matrix.gpu_uuids[i],
                numa_node=matrix.numa_affinity[i] if levels.affinity_is_trusted else None,
                cpus=matrix.cpu_affinity[i],
            )
        )
    for i, label in enumerate(matrix.nics):
        builder.nics.append(
            Nic(
                id=f"nic{i}",
                index=i,
                name=matrix.nic_names[i] or label,
                pci_bus_id=matrix.nic_pci[i],
            )
        )
    return [d.id for d in builder.devices] + [n.id for n in builder.nics]


def _pcie_generation(matrix: RelationMatrix, lane: k.DeviceLink) -> tuple[int, bool]:
    """The PCIe generation, and whether product names state it (all boards of a name share it)."""
    found = [k.pcie_generation_of_device(name) for name in matrix.gpu_names]
    stated = [generation for generation in found if generation is not None]
    if stated:
        return min(stated), True
    lanes = nvlink_lanes(matrix)
    if lane is k.NVLINK4:
        return 5, False
    if matrix.old_words or (lanes and max(lanes.values()) < 4):
        return 3, False
    return k.DEFAULT_PCIE_GENERATION, False


def _stated_classes(
    matrix: RelationMatrix, levels: PcieLevels, ids: list[str]
) -> dict[tuple[str, str], PathClass]:
    """The classes that the source states, except where they carry no information.

    What it states not to know is not known, however the pair is drawn.
    """
    classes: dict[tuple[str, str], PathClass] = {}
    for (i, j), relation in matrix.relations.items():
        between_gpus = j < len(matrix.gpus)
        if levels.relations_are_empty and between_gpus and relation.path_class is PathClass.SYS:
            continue
        classes[ids[i], ids[j]] = classes[ids[j], ids[i]] = relation.path_class
    return classes


class _TreeWriter:
    """Writes the PCIe tree of all endpoints into a builder, from the sockets down."""

    def __init__(
        self,
        builder: GraphBuilder,
        matrix: RelationMatrix,
        levels: PcieLevels,
        ids: list[str],
        generation: int,
    ) -> None:
        self.builder = builder
        self.matrix = matrix
        self.levels = levels
        self.ids = ids
        self.generation = generation
        self.bytes_per_s = k.pcie_bytes_per_s(generation)
        self.bridges = 0
        self.switches = 0

    def write(self) -> None:
        everything = list(range(len(self.ids)))
        nodes = [
            self._numa(number, members)
            for number, members in enumerate(self.levels.clusters(everything, Level.NODE))
        ]
        for a, b in combinations(nodes, 2):
            self.builder.smp(a, b, bytes_per_s=k.SMP_OF_PCIE[self.generation])
        if len(nodes) > 2:
            self.builder.report.append(
                f"how {len(nodes)} NUMA nodes are joined is not stated: one smp link between each"
                " two assumed"
            )

    def _numa(self, number: int, members: list[int]) -> str:
        node, cpus = self._affinity(members)
        id = self.builder.component(
            ComponentKind.NUMA,
            f"numa{number}",
            name=f"NUMA node {node}" if node is not None else "",
            numa_node=node,
            cpus=cpus,
        )
        for below in self.levels.clusters(members, Level.PHB):
            bridge, uplinks = self._host_bridge(below, node)
            self.builder.fabric(bridge, id, bytes_per_s=uplinks * self.bytes_per_s)
        return id

    def _affinity(self, members: list[int]) -> tuple[int | None, str | None]:
        """The memory node and CPUs that all GPUs among the members agree on."""
        if not self.levels.affinity_is_trusted:
            return None, None
        gpus = [i for i in members if i < len(self.matrix.gpus)]
        nodes = {self.matrix.numa_affinity[i] for i in gpus}
        cpus = {self.matrix.cpu_affinity[i] for i in gpus}
        return (nodes.pop() if len(nodes) == 1 else None), (cpus.pop() if len(cpus) == 1 else None)

    def _host_bridge(self, members: list[int], node: int | None) -> tuple[str, int]:
        id = self.builder.component(
            ComponentKind.HOST_BRIDGE, f"bridge{self.bridges}", numa_node=node
        )
        self.bridges += 1
        groups = self.levels.clusters(members, Level.PXB)
        uplinks = 0
        for group in groups:
            below = self.levels.clusters(group, Level.PIX)
            if len(below) > 1:  # PXB: switches below a switch, which share its uplink
                upper = self._switch(id, node)
                uplinks += 1
                for part in below:
                    self._attach(part, self._switch(upper, node))
            elif len(group) > 1:
                self._attach(group, self._switch(id, node))
                uplinks += 1
            else:
                self._attach(group, id)
                uplinks += 1
        return id, uplinks

    def _switch(self, parent: str, node: int | None) -> str:
        id = self.builder.component(ComponentKind.SWITCH, f"switch{self.switches}", numa_node=node)
        self.switches += 1
        self.builder.pcie(id, parent, bytes_per_s=self.bytes_per_s)
        return id

    def _attach(self, members: list[int], parent: str) -> None:
        for member in members:
            self.builder.pcie(
                self.ids[member],
                parent,
                bytes_per_s=self.bytes_per_s,
                latency_s=k.LATENCY_PCIE_ENDPOINT,
            )
