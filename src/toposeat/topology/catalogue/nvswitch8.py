"""8-GPU NVSwitch machines: DGX A100, HGX H100, H200, B200 and B300."""

from __future__ import annotations

from typing import TypedDict

from toposeat.model.quantity import Quantity, nominal
from toposeat.model.topology import ComponentKind, PathClass, Topology
from toposeat.topology import constants as k
from toposeat.topology.catalogue.parts import (
    HDR,
    NDR,
    XDR,
    add_bridge,
    add_devices,
    add_nic,
    add_numa,
    add_switch,
    attach,
)
from toposeat.topology.graph.graph_builder import GraphBuilder

# DGX A100: two EPYC 7742, four NUMA nodes each; GPUs sit at the odd nodes.
A100_CPUS = {
    node: f"{16 * node}-{16 * node + 15},{128 + 16 * node}-{143 + 16 * node}" for node in range(8)
}
A100_NODE_OF_PAIR = (3, 1, 7, 5)
_A100_PCI = ("07", "0f", "47", "4e", "87", "90", "b7", "bd")
_A100_NICS = (
    (("mlx5_0", "0c"), ("mlx5_1", "12")),
    (("mlx5_2", "4b"), ("mlx5_3", "54")),
    (("mlx5_6", "8d"), ("mlx5_7", "94")),
    (("mlx5_8", "ba"), ("mlx5_9", "cc")),
)

H100_CPUS = ("0-55,112-167", "56-111,168-223")
_H100_PCI = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
_H100_NICS = (
    *(("mlx5_0", "18"), ("mlx5_3", "40"), ("mlx5_4", "4f"), ("mlx5_5", "5e")),
    *(("mlx5_6", "9a"), ("mlx5_9", "c0"), ("mlx5_10", "ce"), ("mlx5_11", "dc")),
)


def build_a100() -> Topology:
    """`dgx-a100`."""
    builder = GraphBuilder()
    nodes = [A100_NODE_OF_PAIR[i // 2] for i in range(8)]
    ids = add_devices(
        builder,
        "NVIDIA A100-SXM4-40GB",
        pci=[f"0000:{bus}:00.0" for bus in _A100_PCI],
        numa=nodes,
        cpus=[A100_CPUS[node] for node in nodes],
        memory_gib=40,
    )
    _crossbar(builder, ids, k.NVLINK3, 12)
    for pair, nics in enumerate(_A100_NICS):
        node = A100_NODE_OF_PAIR[pair]
        numa = add_numa(builder, node, cpus=A100_CPUS[node])
        bridge = add_bridge(builder, numa, node, generation=4, uplinks=1)
        switch = add_switch(builder, bridge, node, generation=4)
        for gpu in ids[2 * pair : 2 * pair + 2]:
            attach(builder, gpu, switch, generation=4)
        for name, bus in nics:
            nic = add_nic(builder, name, f"0000:{bus}:00.0", node, gigabits_per_s=HDR)
            attach(builder, nic, switch, generation=4)
    _epyc_sockets(builder)
    return builder.build(
        name="dgx-a100",
        origin="catalogue",
        **_inside_one_switch(builder, 4),
        sources=(
            "NVIDIA: DGX A100 user guide and system architecture white paper WP-10083-001 (six"
            " NVSwitches, 12 NVLinks per GPU, two EPYC 7742, eight compute HDR adapters)",
            "Published run of p2pBandwidthLatencyTest on 8 A100 with NVSwitch (270-276 GB/s, 3.4"
            " us)",
            "NCCL issue 1505 (nvidia-smi topo -m and NCCL's topology of a DGX A100: NUMA nodes,"
            " PXB from each GPU to two adapters)",
            "NVIDIA: NCCL, src/graph/topo.h (socket link of EPYC)",
        ),
        description="NVIDIA DGX A100: 8 GPUs, NV12 to one NVSwitch fabric, four PCIe switches with"
        " two GPUs and two NICs each",
        metadata={
            "pci_bus_ids": "as published for this machine",
            "pcie_generation": "4",
            "nics": "the two storage adapters are left out",
        },
    )


def _epyc_sockets(builder: GraphBuilder) -> None:
    """Two I/O dies: NUMA nodes of a socket meet on its die, the dies are joined by xGMI."""
    dies = [
        builder.component(ComponentKind.PACKAGE, f"package{p}", name=f"EPYC socket {p}")
        for p in (0, 1)
    ]
    for node in sorted(A100_NODE_OF_PAIR):
        builder.smp(
            f"numa{node}",
            dies[node // 4],
            bytes_per_s=2 * k.pcie_bytes_per_s(4),
            name="I/O die",
        )
    builder.smp(*dies, bytes_per_s=k.SMP_OF_PCIE[4], name="socket xGMI")


def build_h100() -> Topology:
    """`hgx-h100`."""
    builder = _hopper("NVIDIA H100 80GB HBM3", 80, k.NVLINK4)
    return builder.build(
        name="hgx-h100",
        origin="catalogue",
        **_inside_one_switch(builder, 5),
        sources=(
            "NVIDIA: H100 Tensor Core GPU architecture white paper; DGX H100 user guide (four"
            " NVSwitches, 18 NVLinks per GPU, two Xeon Platinum 8480C, eight compute NDR adapters)",
            "Published outputs of nvidia-smi topo -m on DGX H100 (PXB from each GPU to adapters"
            " 0, 3, 4, 5, 6, 9, 10, 11)",
            "NCCL issue 1264 (376 GB/s between two H100 over NV18)",
            "NVIDIA: NCCL, src/graph/topo.h (socket link of Sapphire Rapids)",
        ),
        description="HGX H100 as in DGX H100: 8 GPUs, NV18 to one NVSwitch fabric, one NIC beside"
        " each GPU",
        metadata={
            "pci_bus_ids": "those published for DGX H100",
            "pcie_generation": "5",
            "nics": "compute adapters only",
        },
    )


def build_h200() -> Topology:
    """`hgx-h200`: the board of HGX H100 with more memory."""
    builder = _hopper("NVIDIA H200", 141, k.NVLINK4)
    return builder.build(
        name="hgx-h200",
        origin="catalogue",
        **_inside_one_switch(builder, 5),
        sources=(
            "NVIDIA: H200 data sheet (141 GB, NVLink 900 GB/s both directions); DGX H200 user guide"
            " (the board and adapters of DGX H100)",
            "NCCL issue 1264 (376 GB/s between two H100 over NV18)",
        ),
        description="HGX H200 as in DGX H200: 8 GPUs, NV18 to one NVSwitch fabric, one NIC beside"
        " each GPU",
        metadata={
            "pci_bus_ids": "those published for DGX H100",
            "pcie_generation": "5",
            "nics": "compute adapters only",
        },
    )


def build_b200() -> Topology:
    """`hgx-b200`."""
    builder = _hopper("NVIDIA B200", 180, k.NVLINK5)
    return builder.build(
        name="hgx-b200",
        origin="catalogue",
        **_inside_one_switch(builder, 5),
        sources=(
            "NVIDIA: DGX B200 data sheet and user guide (8 GPUs of 180 GB, NVLink 5 at 1.8 TB/s"
            " both directions per GPU, eight compute adapters)",
            "NVIDIA: NCCL, src/graph/topo.h (40.1 GB/s per NVLink 5)",
        ),
        description="HGX B200 as in DGX B200: 8 GPUs, NV18 of NVLink 5 to one NVSwitch fabric, one"
        " NIC beside each GPU",
        metadata={
            "assumed": "PCI bus ids, CPU lists and adapters as on DGX H100",
            "pcie_generation": "5",
            "nics": "compute adapters only",
        },
    )


def build_b300() -> Topology:
    """`hgx-b300`: each adapter's own PCIe 6 switch joins it to a GPU."""
    builder = _hopper("NVIDIA B300", 270, k.NVLINK5, generation=6)
    return builder.build(
        name="hgx-b300",
        origin="catalogue",
        **_inside_one_switch(builder, 6),
        sources=(
            "NVIDIA: HGX B300 and DGX B300 data sheets (8 GPUs, 270 GB of each in use, NVLink 5 at"
            " 1.8 TB/s both directions per GPU, eight ConnectX-8 of 800 Gb/s)",
            "NVIDIA: ConnectX-8 SuperNIC data sheet (PCIe 6 and a PCIe switch in the adapter)",
            "NVIDIA: NCCL, src/graph/topo.h (40.1 GB/s per NVLink 5, 96 GB/s per PCIe 6 x16)",
        ),
        description="HGX B300 as in DGX B300: 8 GPUs, NV18 of NVLink 5 to one NVSwitch fabric, each"
        " GPU on the PCIe 6 switch of its ConnectX-8",
        metadata={
            "assumed": "PCI bus ids, CPU lists and adapters' names as on DGX H100; PCIe 5 x16 from"
            " each adapter to the CPU",
            "pcie_generation": "6",
            "nics": "compute adapters only",
        },
    )


def _hopper(name: str, memory_gib: int, lane: k.DeviceLink, *, generation: int = 5) -> GraphBuilder:
    """Eight GPUs on one fabric, each with an adapter behind a PCIe switch on a PCIe 5 slot."""
    builder = GraphBuilder()
    ids = add_devices(
        builder,
        name,
        pci=[f"0000:{bus}:00.0" for bus in _H100_PCI],
        numa=[i // 4 for i in range(8)],
        cpus=[H100_CPUS[i // 4] for i in range(8)],
        memory_gib=memory_gib,
    )
    _crossbar(builder, ids, lane, 18)
    nodes = [add_numa(builder, socket, cpus=H100_CPUS[socket]) for socket in (0, 1)]
    for i, (gpu, (adapter, bus)) in enumerate(zip(ids, _H100_NICS, strict=True)):
        socket = i // 4
        bridge = add_bridge(builder, nodes[socket], socket, generation=5, uplinks=1)
        switch = add_switch(builder, bridge, socket, generation=5)
        attach(builder, gpu, switch, generation=generation)
        nic = add_nic(
            builder,
            adapter,
            f"0000:{bus}:00.0",
            socket,
            gigabits_per_s=XDR if generation > 5 else NDR,
        )
        attach(builder, nic, switch, generation=generation)
    builder.smp(*nodes, bytes_per_s=k.SMP_OF_PCIE[5], name="UPI")
    return builder


class _Published(TypedDict):
    classes: dict[tuple[str, str], PathClass]
    caps: dict[tuple[str, str], Quantity]


def _inside_one_switch(builder: GraphBuilder, generation: int) -> _Published:
    """GPU to NIC of one switch is PXB, not PIX: the chip shows itself as bridges below bridges.

    It is one chip all the same, drawn as one switch, and a flow inside it gets the full rate.
    """
    above = {
        link.ends[0]: link.ends[1] for link in builder.links if link.ends[1].startswith("switch")
    }
    pairs = [
        (gpu.id, nic.id)
        for gpu in builder.devices
        for nic in builder.nics
        if above[gpu.id] == above[nic.id]
    ]
    return {
        "classes": dict.fromkeys(pairs, PathClass.PXB),
        "caps": dict.fromkeys(pairs, nominal(k.pcie_bytes_per_s(generation))),
    }


def _crossbar(builder: GraphBuilder, ids: list[str], lane: k.DeviceLink, lanes: int) -> None:
    builder.component(ComponentKind.NVSWITCH, "nvswitch0", name="NVSwitch fabric")
    for gpu in ids:
        builder.device_link(gpu, "nvswitch0", lane, lanes, port=True)
