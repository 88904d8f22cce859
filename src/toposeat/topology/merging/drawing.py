"""The graph of a merged machine: that of the base, or drawn from what tables tell.

The graph holds only what is told: relations give the PCIe tree; links at driver level give the
bonds, and each device a PCIe port of its own at its NUMA node; measured pairs alone give no link
yet, because what pairs share is not in a pair matrix: `overlay` gives each device a port.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toposeat.model.quantity import nominal
from toposeat.model.topology import ComponentKind, Device, FactKind, Nic, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.relation_graph import draw_relations
from toposeat.topology.told import is_whole, tells_bonds, tells_paths


def draw(base: Topology, known: Topology) -> GraphBuilder:
    """The machine's devices, the adapters of the base, and what joins them; nominal numbers only.

    `base` is the source whose tree it is, `known` all that any source tells, with the same ids.
    """
    own = {device.id for device in base.devices}
    nics = {nic.id for nic in base.nics}
    ends = own | nics
    machine = replace(
        known,
        devices=tuple(each for each in known.devices if each.id in own),
        nics=tuple(each for each in known.nics if each.id in nics),
        pairs=tuple(each for each in known.pairs if {each.source, each.target} <= ends),
        metadata=base.metadata,
    )
    builder = GraphBuilder(host=base.devices[0].host, report=list(base.report))
    if is_whole(base):
        builder = _of_graph(base, machine)
    elif tells_paths(base):
        _draw_tree(builder, base, machine)
    else:
        builder.devices += machine.devices
        builder.metadata = dict(base.metadata)
        _draw_ports(builder, base)
    builder.tells = set(known.tells)
    return builder


def _of_graph(base: Topology, machine: Topology) -> GraphBuilder:
    return GraphBuilder(
        host=base.devices[0].host,
        flows_fill_links=base.flows_fill_links,
        devices=list(machine.devices),
        nics=list(machine.nics),
        components=list(base.components),
        links=list(base.links),
        metadata=dict(base.metadata),
        report=list(base.report),
        premises=list(base.premises),
    )


def _draw_tree(builder: GraphBuilder, base: Topology, machine: Topology) -> None:
    # AMD's and Intel's tables say of every pair whether it has such links; `topo -mp` hides them.
    hidden = any(d.vendor in (Vendor.NVIDIA, Vendor.UNKNOWN) for d in base.devices)
    if hidden and not tells_bonds(base) and FactKind.DEVICE_LINKS not in base.tells:
        builder.report.append(
            "only PCIe paths are stated: device links, if there are any, are not known"
        )
    draw_relations(builder, machine)


def _draw_ports(builder: GraphBuilder, base: Topology) -> None:
    if tells_bonds(base):
        place_at_nodes(builder, builder.devices)
        builder.report.append(
            "the PCIe tree is not known: each device has a link of its own to its NUMA node"
        )
    else:
        builder.report.append(
            "only numbers of pairs are known, not what pairs share: each device has a port of its"
            " own, and transfers that meet elsewhere are predicted too fast"
        )


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
                    builder.sockets(id, other)
            nodes[node] = id
        generation = products.pcie_generation_of(endpoint)
        width = products.pcie_width_of(endpoint)
        builder.pcie(
            endpoint.id,
            nodes[node],
            bytes_per_s=(
                nominal(k.pcie_bytes_per_s(generation, width))
                if generation
                else builder.untold_pcie(k.DEFAULT_PCIE_GENERATION, width)
            ),
            latency_s=k.LATENCY_PCIE_ENDPOINT,
        )
