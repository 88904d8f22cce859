"""PCIe machines whose GPUs are joined in pairs by NVLink bridges."""

from __future__ import annotations

from toposeat.model.topology import Topology
from toposeat.topology import constants as k
from toposeat.topology.catalogue.parts import (
    add_bridge,
    add_devices,
    add_nic,
    add_numa,
    add_switch,
    attach,
)
from toposeat.topology.graph.graph_builder import GraphBuilder

A100_CPUS = ("0-31,64-95", "32-63,96-127")
A100_PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
RTX_PAIRS = ((0, 2), (1, 3))


def build_a100() -> Topology:
    """`a100-pcie-8-bridged`."""
    builder = GraphBuilder()
    buses = ("17", "31", "4b", "65", "98", "b1", "ca", "e3")
    ids = add_devices(
        builder,
        "NVIDIA A100-PCIE-40GB",
        pci=[f"0000:{bus}:00.0" for bus in buses],
        numa=[i // 4 for i in range(8)],
        cpus=[A100_CPUS[i // 4] for i in range(8)],
        memory_gib=40,
    )
    for a, b in A100_PAIRS:
        builder.device_link(ids[a], ids[b], k.NVLINK3, 12, port=False)
    nodes = [add_numa(builder, socket, cpus=A100_CPUS[socket]) for socket in (0, 1)]
    for socket, node in enumerate(nodes):
        bridge = add_bridge(builder, node, socket, generation=4, uplinks=1)
        switch = add_switch(builder, bridge, socket, generation=4)
        for gpu in ids[4 * socket : 4 * socket + 4]:
            attach(builder, gpu, switch, generation=4)
        nic = add_nic(builder, f"mlx5_{socket}", None, socket)
        attach(builder, nic, switch, generation=4)
    builder.smp(*nodes, bytes_per_s=k.SMP_OF_PCIE[4], name="UPI")
    return builder.build(
        name="a100-pcie-8-bridged",
        origin="catalogue",
        sources=(
            "NVIDIA: A100 40GB PCIe GPU accelerator, product brief PB-10137-001 (three NVLink"
            " bridges join two boards: 12 links, 600 GB/s both directions)",
            "NVIDIA: NCCL, src/graph/topo.h (PCIe and socket links)",
        ),
        description="8 A100 PCIe in four bridged pairs, one PCIe switch with four GPUs per socket",
        metadata={
            "invented": "a class of servers, not one product: PCI bus ids, CPU lists and NIC"
            " positions",
            "pcie_generation": "4",
        },
    )


def build_rtx() -> Topology:
    """`rtx-4-crossed-bridges`: the bridges join boards that are not PCIe neighbours."""
    builder = GraphBuilder()
    ids = add_devices(
        builder,
        "NVIDIA GeForce RTX 3090",
        pci=[f"0000:{bus}:00.0" for bus in ("01", "21", "41", "61")],
        numa=[0] * 4,
        cpus=["0-23"] * 4,
        memory_gib=24,
    )
    for a, b in RTX_PAIRS:
        builder.device_link(ids[a], ids[b], k.NVLINK3_BRIDGE, 4, port=False)
    node = add_numa(builder, 0, cpus="0-23")
    for pair in (0, 1):
        bridge = add_bridge(builder, node, 0, generation=4, uplinks=2)
        for gpu in ids[2 * pair : 2 * pair + 2]:
            attach(builder, gpu, bridge, generation=4)
    return builder.build(
        name="rtx-4-crossed-bridges",
        origin="catalogue",
        sources=(
            "A published nvidia-smi topo -m of four RTX 3090 (open-gpu-kernel-modules fork of"
            " aikitoria, issue 18): NV4 0-2 and 1-3, PHB 0-1 and 2-3, else NODE",
            "NVIDIA: Ampere GA102 GPU architecture white paper (four NVLink 3 lanes of 14.06 GB/s)",
        ),
        description="4 RTX 3090 on one socket; NVLink bridges 0-2 and 1-3 cross the PCIe pairs",
        metadata={"invented": "PCI bus ids", "pcie_generation": "4"},
    )
