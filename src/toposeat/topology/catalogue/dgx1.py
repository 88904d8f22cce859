"""NVIDIA DGX-1: 8 GPUs in a hybrid cube mesh, four PCIe switches with two GPUs and one NIC each."""

from __future__ import annotations

from toposeat.model.topology import Topology
from toposeat.topology import constants as k
from toposeat.topology.catalogue.parts import (
    EDR,
    add_bridge,
    add_devices,
    add_nic,
    add_numa,
    add_switch,
    attach,
)
from toposeat.topology.graph.graph_builder import GraphBuilder

CPUS = ("0-19,40-59", "20-39,60-79")
# Two QPI links. One copy between sockets reaches 9.2 to 10.8 GB/s (Tartan), several at once more.
QPI_BYTES_PER_S = 16e9
_PCI = ("06", "07", "0a", "0b", "85", "86", "89", "8a")
_NIC_PCI = ("05", "0c", "84", "8b")

# V100: each GPU has six NVLinks, two pairs of them doubled.
TWO_LANES = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
ONE_LANE = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))
# P100: each GPU has four NVLinks: its quad, and its counterpart in the other quad.
P100_LANES = (
    *((a + q, b + q) for q in (0, 4) for a in range(4) for b in range(a + 1, 4)),
    *((a, a + 4) for a in range(4)),
)
_BOARD = (
    "NVIDIA: NVIDIA DGX-1 With Tesla V100 System Architecture, white paper WP-08437-002 (hybrid"
    " cube mesh, PCIe and InfiniBand layout, dual Xeon E5-2698 v4)"
)


def build_p100() -> Topology:
    """`dgx-1p`."""
    builder = _pcie("Tesla P100-SXM2-16GB")
    for a, b in P100_LANES:
        builder.device_link(f"gpu{a}", f"gpu{b}", k.NVLINK1, 1, port=False)
    return builder.build(
        name="dgx-1p",
        origin="catalogue",
        sources=(
            "NVIDIA: NVIDIA DGX-1 With the Tesla P100, system architecture white paper",
            "A. Li et al.: Tartan: evaluating modern GPU interconnect via a multi-GPU benchmark"
            " suite. IISWC 2018 (18.4 GB/s per NVLink, shared PCIe uplinks)",
        ),
        description="NVIDIA DGX-1 with 8 Tesla P100: NVLink 1 hybrid cube mesh, one link per edge",
        metadata=_METADATA,
    )


def build_v100() -> Topology:
    """`dgx-1v`."""
    builder = _pcie("Tesla V100-SXM2-16GB")
    for lanes, pairs in ((2, TWO_LANES), (1, ONE_LANE)):
        for a, b in pairs:
            builder.device_link(f"gpu{a}", f"gpu{b}", k.NVLINK2, lanes, port=False)
    return builder.build(
        name="dgx-1v",
        origin="catalogue",
        sources=(
            _BOARD,
            "Several published outputs of nvidia-smi topo -m on this machine, all alike",
            "Dell: Deep learning performance on V100, C4130 (47.9 GB/s over two NVLinks)",
        ),
        description="NVIDIA DGX-1 with 8 Tesla V100: NVLink 2 hybrid cube mesh, half of the edges"
        " doubled",
        metadata=_METADATA,
    )


_METADATA = {
    "pci_bus_ids": "as published for this machine",
    "pcie_generation": "3",
    "assumed": "16 GB/s per direction between the sockets",
}


def _pcie(gpu: str) -> GraphBuilder:
    builder = GraphBuilder()
    ids = add_devices(
        builder,
        gpu,
        pci=[f"0000:{bus}:00.0" for bus in _PCI],
        numa=[i // 4 for i in range(8)],
        cpus=[CPUS[i // 4] for i in range(8)],
        memory_gib=16,
    )
    nodes = [add_numa(builder, socket, cpus=CPUS[socket]) for socket in (0, 1)]
    for socket, node in enumerate(nodes):
        bridge = add_bridge(builder, node, socket, generation=3, uplinks=2)
        for number in (2 * socket, 2 * socket + 1):
            switch = add_switch(builder, bridge, socket, generation=3)
            for gpu_id in ids[2 * number : 2 * number + 2]:
                attach(builder, gpu_id, switch, generation=3)
            nic = add_nic(
                builder,
                f"mlx5_{number}",
                f"0000:{_NIC_PCI[number]}:00.0",
                socket,
                gigabits_per_s=EDR,
            )
            attach(builder, nic, switch, generation=3)
    builder.smp(*nodes, bytes_per_s=QPI_BYTES_PER_S, name="QPI")
    return builder
