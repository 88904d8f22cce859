"""Pieces that several catalogue machines share."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.quantity import nominal
from toposeat.model.topology import ComponentKind, Device, Nic, Vendor
from toposeat.topology import constants as k
from toposeat.topology.graph.graph_builder import GraphBuilder

GIB = 1 << 30


def add_devices(
    builder: GraphBuilder,
    name: str,
    *,
    pci: Sequence[str],
    numa: Sequence[int],
    cpus: Sequence[str],
    memory_gib: int,
    vendor: Vendor = Vendor.NVIDIA,
    forwards: bool = False,
) -> list[str]:
    """Devices gpu0, gpu1, ... of one kind; `numa` and `cpus` per device."""
    for i, (bus, node, near) in enumerate(zip(pci, numa, cpus, strict=True)):
        builder.devices.append(
            Device(
                id=f"gpu{i}",
                index=i,
                vendor=vendor,
                name=name,
                pci_bus_id=bus,
                numa_node=node,
                cpus=near,
                memory_bytes=memory_gib * GIB,
                forwards=forwards,
            )
        )
    return [d.id for d in builder.devices]


# Gb/s of one port, per direction.
EDR, HDR, NDR, XDR, SLINGSHOT_11 = 100.0, 200.0, 400.0, 800.0, 200.0


def add_nic(
    builder: GraphBuilder,
    name: str,
    pci: str | None,
    numa: int,
    *,
    gigabits_per_s: float | None = None,
) -> str:
    """One NIC, numbered in the order of calls; the rate of its port where the machine has one."""
    index = len(builder.nics)
    builder.nics.append(
        Nic(
            id=f"nic{index}",
            index=index,
            host=builder.host,
            name=name,
            pci_bus_id=pci,
            numa_node=numa,
            bytes_per_s=None if gigabits_per_s is None else nominal(gigabits_per_s * 1e9 / 8),
        )
    )
    return f"nic{index}"


def add_numa(builder: GraphBuilder, number: int, *, cpus: str, name: str = "") -> str:
    """A NUMA node with its CPUs."""
    return builder.component(
        ComponentKind.NUMA,
        f"numa{number}",
        name=name or f"NUMA node {number}",
        numa_node=number,
        cpus=cpus,
    )


def add_bridge(
    builder: GraphBuilder, numa: str, node: int, *, generation: int, uplinks: int
) -> str:
    """A host bridge with `uplinks` x16 root ports below it."""
    number = sum(c.kind is ComponentKind.HOST_BRIDGE for c in builder.components)
    bridge = builder.component(ComponentKind.HOST_BRIDGE, f"bridge{number}", numa_node=node)
    builder.fabric(bridge, numa, bytes_per_s=uplinks * k.pcie_bytes_per_s(generation))
    return bridge


def add_switch(builder: GraphBuilder, parent: str, node: int, *, generation: int) -> str:
    """A PCIe switch with an x16 uplink to `parent`."""
    number = sum(c.kind is ComponentKind.SWITCH for c in builder.components)
    switch = builder.component(ComponentKind.SWITCH, f"switch{number}", numa_node=node)
    builder.pcie(switch, parent, bytes_per_s=k.pcie_bytes_per_s(generation))
    return switch


def attach(
    builder: GraphBuilder, endpoint: str, parent: str, *, generation: int, width: int = 16
) -> None:
    """The PCIe link of a device or NIC."""
    builder.pcie(
        endpoint,
        parent,
        bytes_per_s=k.pcie_bytes_per_s(generation, width),
        latency_s=k.LATENCY_PCIE_ENDPOINT,
    )
