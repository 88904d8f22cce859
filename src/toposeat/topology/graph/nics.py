"""NICs into a graph: one vertex for each adapter, at the PCI function that it is a port of."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from toposeat.model.quantity import nominal
from toposeat.model.topology import Nic, PcieState
from toposeat.topology import constants as k
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.machine import NetworkAdapter, PciDevice
from toposeat.topology.graph.pci_graph import Endpoint

PcieStateOf = Callable[[PciDevice], PcieState | None]


def add_nics(
    builder: GraphBuilder,
    adapters: Iterable[tuple[NetworkAdapter, PciDevice]],
    pcie_state: PcieStateOf | None = None,
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
