"""A machine from facts alone: of relations, of links, or of measured pairs.

Each is as much of a graph as the facts allow: relations give the PCIe tree; links at driver level
give the bonds, and each device a PCIe port of its own at its NUMA node; measured pairs alone give
each device a port of its own, because what pairs share is not in a pair matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toposeat.errors import InputError
from toposeat.model.topology import ComponentKind, Device, Nic, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology.facts import BANDWIDTH, DeviceFact, MachineFacts
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.relation import RelationMatrix
from toposeat.topology.graph.relation_graph import topology_of_relations
from toposeat.topology.merging.device_fields import device_of_fact

_HINT = "give what lists the machine's links as well: nvidia-smi topo -m, hwloc or NCCL XML"


def makes_machine(facts: MachineFacts) -> bool:
    """Whether these facts alone say how devices are connected."""
    return bool(
        facts.relations is not None
        or facts.pcie_relations is not None
        or facts.links
        or _measures_pairs(facts)
    )


def _measures_pairs(facts: MachineFacts) -> bool:
    return any(
        each.what == BANDWIDTH and not each.both_ways and (each.values > 0).any()
        for each in facts.pairs
    )


def graph_of_facts(
    facts: MachineFacts, devices: Sequence[DeviceFact], pcie: RelationMatrix | None, name: str
) -> Topology:
    """The graph, with nominal numbers only; numbers of pairs are laid over it later.

    Args:
        facts: of the source whose graph it is.
        devices: the same devices with all that any source knows of them.
        pcie: PCIe paths between the same devices, where a source states them.
        name: of the machine.

    Raises:
        InputError: the facts say nothing of how devices are connected.
    """
    if facts.relations is not None or facts.pcie_relations is not None:
        return _graph_of_relations(facts, devices, pcie, name)
    if facts.links:
        return _graph_of_nodes(facts, devices, name)
    if _measures_pairs(facts):
        return _bare(facts, devices, name)
    raise InputError(f"{facts.origin}: tells too little to be a machine by itself", hint=_HINT)


def _graph_of_relations(
    facts: MachineFacts, devices: Sequence[DeviceFact], pcie: RelationMatrix | None, name: str
) -> Topology:
    matrix = facts.relations or facts.pcie_relations
    assert matrix is not None
    report = facts.report
    # AMD's and Intel's tables say of every pair whether it has such links; `topo -mp` hides them.
    hidden = any(d.vendor in (Vendor.NVIDIA, Vendor.UNKNOWN) for d in facts.devices)
    if facts.relations is None and not facts.links and hidden:
        report = (
            *report,
            "only PCIe paths are stated: device links, if there are any, are not known",
        )
    matrix = replace(
        matrix,
        gpu_names=tuple(d.name for d in devices),
        numa_affinity=tuple(d.numa_node for d in devices),
        cpu_affinity=tuple(d.cpus for d in devices),
        report=report,
    )
    generations = {d.pcie_max_generation for d in devices} - {None}
    return topology_of_relations(
        matrix,
        name=name,
        origin=facts.origin,
        devices=_devices(devices),
        pcie=pcie,
        pcie_generation=generations.pop() if len(generations) == 1 else None,
    )


def _devices(facts: Sequence[DeviceFact]) -> tuple[Device, ...]:
    """Devices of the topology, by the index of the vendor's tools where all have one."""
    indices = [fact.index for fact in facts]
    stated = None not in indices and len(set(indices)) == len(indices)
    return tuple(
        device_of_fact(fact, index=(fact.index or 0) if stated else i, host="*")
        for i, fact in enumerate(facts)
    )


def _graph_of_nodes(facts: MachineFacts, devices: Sequence[DeviceFact], name: str) -> Topology:
    """Devices with a PCIe port each at their NUMA node; the bonds are drawn like all bonds."""
    builder = GraphBuilder(report=list(facts.report))
    builder.devices = list(_devices(devices))
    place_at_nodes(builder, builder.devices)
    builder.report.append(
        "the PCIe tree is not known: each device has a link of its own to its NUMA node"
    )
    return builder.build(name=name, origin=facts.origin)


def place_at_nodes(builder: GraphBuilder, endpoints: Sequence[Device | Nic]) -> None:
    """Give endpoints of unknown place a PCIe link of their own to their NUMA node.

    Nodes that the builder does not hold are made, and joined to all others.
    """
    nodes = {c.numa_node: c.id for c in builder.components if c.kind is ComponentKind.NUMA}
    for endpoint in endpoints:
        node = endpoint.numa_node
        if node not in nodes:
            id = "numa-unknown" if node is None else f"numa-{node}"
            if node is None and len(nodes) == 1:
                id = next(iter(nodes.values()))  # the only node there is
            else:
                builder.component(ComponentKind.NUMA, id, numa_node=node)
                for other in nodes.values():
                    builder.smp(id, other, bytes_per_s=k.SMP_OF_PCIE[k.DEFAULT_PCIE_GENERATION])
            nodes[node] = id
        generation = _generation(endpoint)
        width = endpoint.pcie.width if endpoint.pcie and endpoint.pcie.width else 16
        builder.pcie(
            endpoint.id,
            nodes[node],
            bytes_per_s=k.pcie_bytes_per_s(generation, width),
            latency_s=k.LATENCY_PCIE_ENDPOINT,
        )


def _generation(endpoint: Device | Nic) -> int:
    state = endpoint.pcie
    stated = (state.max_generation or state.generation) if state else None
    return stated or k.pcie_generation_of_device(endpoint.name) or k.DEFAULT_PCIE_GENERATION


def _bare(facts: MachineFacts, devices: Sequence[DeviceFact], name: str) -> Topology:
    """Devices without any link: `measured_ports` gives them what was measured."""
    return Topology(
        name=name,
        origin=facts.origin,
        devices=_devices(devices),
        report=(
            *facts.report,
            "only numbers of pairs are known, not what pairs share: each device has a port of its"
            " own, and transfers that meet elsewhere are predicted too fast",
        ),
    )
