"""NVIDIA DGX-2: 16 GPUs on two boards, each with six NVSwitches, every GPU at full rate to all."""

from __future__ import annotations

from toposeat.model.topology import ComponentKind, LinkKind, Topology
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

CPUS = ("0-23,48-71", "24-47,72-95")
_PCI = (
    *("34", "36", "39", "3b", "57", "59", "5c", "5e"),
    *("b7", "b9", "bc", "be", "e0", "e2", "e5", "e7"),
)
# mlx5_4 and mlx5_5 are the Ethernet ports for storage. Of the bus ids only the first is published.
_NICS = (
    *(("mlx5_0", "35"), ("mlx5_1", None), ("mlx5_2", None), ("mlx5_3", None)),
    *(("mlx5_6", None), ("mlx5_7", None), ("mlx5_8", None), ("mlx5_9", None)),
)
PLANES = 6  # NVSwitches of a board, and NVLinks of a GPU
PLANE_LANES = 8  # NVLinks from an NVSwitch to its partner on the other board


def build() -> Topology:
    """`dgx-2`. The six switches of a board are one crossbar: each GPU spreads over all of them."""
    builder = GraphBuilder()
    ids = add_devices(
        builder,
        "Tesla V100-SXM3-32GB",
        pci=[f"0000:{bus}:00.0" for bus in _PCI],
        numa=[i // 8 for i in range(16)],
        cpus=[CPUS[i // 8] for i in range(16)],
        memory_gib=32,
    )
    _nvlink(builder, ids)
    nodes = [add_numa(builder, socket, cpus=CPUS[socket]) for socket in (0, 1)]
    for quad in range(4):
        _pcie_quad(builder, nodes[quad // 2], quad, ids[4 * quad : 4 * quad + 4])
    builder.smp(*nodes, bytes_per_s=k.SMP_OF_PCIE[3], name="UPI")
    return builder.build(
        name="dgx-2",
        origin="catalogue",
        sources=(
            "NVIDIA: NVSwitch technical overview and DGX-2 datasheet (16 V100, 12 NVSwitches,"
            " 2.4 TB/s bisection, two Xeon Platinum 8168, 8 InfiniBand adapters)",
            "A. Ishii et al.: NVSwitch and DGX-2: NVLink-switching chip and scale-up compute"
            " server. Hot Chips 30 (2018): six planes, eight links from switch to switch",
            "NVIDIA: GPUDirect Storage benchmarking and configuration guide (nvidia-smi topo -mp of"
            " a DGX-2; which adapter is beside which GPUs)",
            "nccl-tests issue 78 (nvidia-smi topo -m of a DGX-2: CPU lists, relations to NICs)",
        ),
        description="NVIDIA DGX-2: 16 Tesla V100 on two NVSwitch boards, full bisection",
        metadata={
            "pcie": "two levels of switches: pairs PIX, quads PXB, the two quads of a socket NODE",
            "pci_bus_ids": "GPUs and first NIC as published for this machine, other NICs not known",
            "nics": "compute adapters only",
            "pcie_generation": "3",
        },
    )


def _nvlink(builder: GraphBuilder, ids: list[str]) -> None:
    boards = [
        builder.component(ComponentKind.NVSWITCH, f"nvswitch{b}", name=f"NVSwitch board {b}")
        for b in (0, 1)
    ]
    for i, gpu in enumerate(ids):
        builder.device_link(gpu, boards[i // 8], k.NVLINK2, PLANES, port=True)
    lanes = PLANES * PLANE_LANES
    builder.link(
        LinkKind.NVLINK,
        *boards,
        bytes_per_s=k.NVLINK2.data_sheet * lanes,
        flow_bytes_per_s=k.NVLINK2.achievable * lanes,
        latency_s=0.3e-6,
        count=lanes,
        name="board to board",
    )


def _pcie_quad(builder: GraphBuilder, node: str, quad: int, gpus: list[str]) -> None:
    socket = quad // 2
    bridge = add_bridge(builder, node, socket, generation=3, uplinks=1)
    upper = add_switch(builder, bridge, socket, generation=3)
    for half in (0, 1):
        switch = add_switch(builder, upper, socket, generation=3)
        for gpu in gpus[2 * half : 2 * half + 2]:
            attach(builder, gpu, switch, generation=3)
        name, bus = _NICS[2 * quad + half]
        nic = add_nic(builder, name, bus and f"0000:{bus}:00.0", socket, gigabits_per_s=EDR)
        attach(builder, nic, switch, generation=3)
