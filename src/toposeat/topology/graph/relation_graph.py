r"""Builds a link graph from relations: shared PCIe links, NVLink, routes, nominal capacities.

                    numa0 ======== smp ======== numa1        SYS  crosses smp
                   /     \                        |          NODE crosses numa
              bridge0   bridge1                bridge2       PHB  crosses a host bridge
              /     \      |                      |          PXB  crosses several switches
         switch    GPU3   GPU4                   ...         PIX  crosses one switch
         /  |  \
     GPU0 GPU1 NIC0

No number is of this machine: a relation says what kind a link is, never how fast it is.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from toposeat.model.quantity import nominal
from toposeat.model.topology import ComponentKind, Device, Nic, Pair, PathClass, Topology
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.nvlink_fabric import add_nvlinks
from toposeat.topology.graph.pcie_levels import Level, PcieLevels, pcie_levels
from toposeat.topology.graph.rates import rate_of_own_link
from toposeat.topology.premises import scaled
from toposeat.topology.relation import WORDS, Relations


def draw_relations(
    builder: GraphBuilder, machine: Topology, *, pcie_generation: int | None = None
) -> None:
    """Draw the link graph of one node from the relations of its GPUs and NICs.

    The builder is empty; it receives the relations as pairs, too. Relations that carry no
    information become untold. `pcie_generation` is of all PCIe links, where it is known.
    """
    relations = Relations.of(machine)
    levels = pcie_levels(relations, builder.report)
    trusted = levels.affinity_is_trusted
    builder.devices += [d if trusted else replace(d, numa_node=None) for d in machine.devices]
    builder.nics += machine.nics
    lane = add_nvlinks(builder, relations)
    generation, known = _pcie_generation(relations, lane)
    if pcie_generation is not None:
        generation, known = pcie_generation, True
    if not known:
        builder.report.append(f"PCIe generation is not stated: gen {generation} x16 assumed")
    _TreeWriter(builder, relations, levels, generation, is_told=known).write()
    builder.pairs = [_judged(pair, machine, levels) for pair in machine.pairs]
    builder.metadata = {
        **{key: text for key, text in machine.metadata.items() if key != WORDS},
        "pcie_generation": f"{generation}" if known else f"{generation} (assumed)",
        **({"nvlink": lane.name} if relations.nvlink_lanes() else {}),
        **({"relations": "information-free"} if levels.relations_are_empty else {}),
    }


def _judged(pair: Pair, machine: Topology, levels: PcieLevels) -> Pair:
    """A pair with the path class that its route has; none where the relations are all alike.

    A relation that the source calls unknown stays unknown, however the pair is drawn.
    """
    path_class = pair.path_class
    if path_class is None and pair.pcie_class is not PathClass.UNKNOWN:
        path_class = pair.pcie_class
    gpus = {device.id for device in machine.devices}
    empty = levels.relations_are_empty and {pair.source, pair.target} <= gpus
    if empty and path_class is PathClass.SYS:
        return replace(pair, path_class=None, pcie_class=None)
    return replace(pair, path_class=path_class)


def _pcie_generation(relations: Relations, lane: k.DeviceLink) -> tuple[int, bool]:
    """The PCIe generation, and whether product names state it (all boards of a name share it)."""
    found = [products.pcie_generation_named(d.name) for d in relations.machine.devices]
    stated = [generation for generation in found if generation is not None]
    if stated:
        return min(stated), True
    lanes = relations.nvlink_lanes()
    if lane is k.NVLINK4:
        return 5, False
    if relations.old_words or (lanes and max(lanes.values()) < 4):
        return 3, False
    return k.DEFAULT_PCIE_GENERATION, False


class _TreeWriter:
    """Writes the PCIe tree of all endpoints into a builder, from the sockets down."""

    def __init__(
        self,
        builder: GraphBuilder,
        relations: Relations,
        levels: PcieLevels,
        generation: int,
        *,
        is_told: bool,
    ) -> None:
        self.builder = builder
        self.devices = relations.machine.devices
        self.levels = levels
        self.ids = relations.ids
        self.ends: list[Device | Nic] = [*relations.machine.devices, *relations.machine.nics]
        self.generation = generation
        rate = nominal(k.pcie_bytes_per_s(generation))
        self.bytes_per_s = rate if is_told else builder.untold_pcie(generation)
        self.bridges = 0
        self.switches = 0

    def write(self) -> None:
        everything = list(range(len(self.ids)))
        nodes = [
            self._numa(number, members)
            for number, members in enumerate(self.levels.clusters(everything, Level.NODE))
        ]
        for a, b in combinations(nodes, 2):
            self.builder.sockets(a, b)
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
            self.builder.fabric(bridge, id, bytes_per_s=scaled(self.bytes_per_s, uplinks))
        return id

    def _affinity(self, members: list[int]) -> tuple[int | None, str | None]:
        """The memory node and CPUs that all GPUs among the members agree on."""
        if not self.levels.affinity_is_trusted:
            return None, None
        gpus = [self.devices[i] for i in members if i < len(self.devices)]
        nodes = {device.numa_node for device in gpus}
        cpus = {device.cpus for device in gpus}
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
            rate = rate_of_own_link(self.ends[member], self.generation)
            self.builder.pcie(
                self.ids[member],
                parent,
                bytes_per_s=self.bytes_per_s if rate is None else rate,
                latency_s=k.LATENCY_PCIE_ENDPOINT,
            )
