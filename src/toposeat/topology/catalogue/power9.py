"""IBM AC922 with four V100: NVLink between the GPUs of a socket, and from each GPU to its CPU."""

from __future__ import annotations

from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import ComponentKind, PathClass, Topology
from toposeat.topology import constants as k
from toposeat.topology.catalogue.parts import EDR, add_devices, add_nic, add_numa, attach
from toposeat.topology.graph.graph_builder import GraphBuilder

CPUS = ("0-87", "88-175")
NODES = (0, 8)  # memory nodes 252 to 255 are the GPUs' own memory
LANES = 3
# p2pBandwidthLatencyTest on this machine class: between sockets 29 GB/s alone, 34 both ways
# together.
CROSS_SOCKET = Quantity(29e9, Source.MEASURED)
CROSS_SOCKET_BOTH = Quantity(34e9, Source.MEASURED)
NVLINK_PAIR = Quantity(68.5e9, Source.MEASURED)


def build() -> Topology:
    """`power9-4`."""
    builder = GraphBuilder()
    ids = add_devices(
        builder,
        "Tesla V100-SXM2-16GB",
        pci=["0004:04:00.0", "0004:05:00.0", "0035:03:00.0", "0035:04:00.0"],
        numa=[NODES[i // 2] for i in range(4)],
        cpus=[CPUS[i // 2] for i in range(4)],
        memory_gib=16,
    )
    nodes = [add_numa(builder, NODES[s], cpus=CPUS[s], name=f"POWER9 socket {s}") for s in (0, 1)]
    for socket, node in enumerate(nodes):
        pair = ids[2 * socket : 2 * socket + 2]
        builder.device_link(pair[0], pair[1], k.NVLINK2, LANES, port=False)
        for gpu in pair:
            builder.device_link(gpu, node, k.NVLINK2, LANES, port=False)
        _adapter(builder, node, socket)
    builder.smp(*nodes, bytes_per_s=64e9, combined_bytes_per_s=CROSS_SOCKET_BOTH, name="X-bus")
    caps = {
        (a, b): NVLINK_PAIR if i // 2 == j // 2 else CROSS_SOCKET
        for i, a in enumerate(ids)
        for j, b in enumerate(ids)
        if i != j
    }
    # The GPUs' PCIe is behind another host bridge than the adapter, though data takes NVLink.
    classes = {
        (gpu, nic.id): PathClass.NODE
        for i, gpu in enumerate(ids)
        for nic in builder.nics
        if nic.numa_node == NODES[i // 2]
    }
    return builder.build(
        name="power9-4",
        origin="catalogue",
        caps=caps,
        classes=classes,
        sources=(
            "A. Caldeira: IBM Power System AC922 introduction and technical overview, REDP-5472,"
            " 2018 (8335-GTG: three NVLink 2 between the GPUs of a socket and from each to its"
            " POWER9, X-bus 64 GB/s)",
            "IBM: Cluster Administration and Storage Tools, hcdiag p2pBandwidthLatencyTest (68.5"
            " GB/s in a pair, 29 GB/s across, 34 GB/s both ways)",
        ),
        description="IBM AC922, 4 Tesla V100: NV3 pairs, three NVLinks from each GPU to its POWER9",
        metadata={
            "pci_bus_ids": "as on Lassen",
            "x_bus": "combined capacity is the measured limit of GPU traffic, not the bus's own",
            "pcie_generation": "4",
        },
    )


def _adapter(builder: GraphBuilder, node: str, socket: int) -> None:
    """A dual-port EDR adapter on the socket's own x8 PCIe 4 link: both ports share it."""
    bridge = builder.component(
        ComponentKind.HOST_BRIDGE, f"bridge{socket}", numa_node=NODES[socket]
    )
    builder.fabric(bridge, node, bytes_per_s=k.pcie_bytes_per_s(4, 8))
    for port in (0, 1):
        nic = add_nic(
            builder,
            f"mlx5_{2 * socket + port}",
            f"00{'0' if socket == 0 else '3'}3:01:00.{port}",
            NODES[socket],
            gigabits_per_s=EDR,
        )
        attach(builder, nic, bridge, generation=4, width=8)
