"""AMD Instinct nodes: MI250X as in Frontier, MI300X as on the universal base board."""

from __future__ import annotations

from itertools import combinations

from toposeat.model.quantity import nominal
from toposeat.model.topology import ComponentKind, LinkKind, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology.catalogue.parts import (
    SLINGSHOT_11,
    add_bridge,
    add_devices,
    add_nic,
    add_numa,
    add_switch,
    attach,
)
from toposeat.topology.graph.graph_builder import GraphBuilder

# xGMI links between GCDs, by how many are bonded.
MI250X_FOUR = ((0, 1), (2, 3), (4, 5), (6, 7))  # the two GCDs of one package
MI250X_TWO = ((0, 6), (2, 4))
MI250X_ONE = ((0, 2), (1, 3), (1, 5), (3, 7), (4, 6), (5, 7))
# One flow by bonded links: MI250 measured 65 in the package, 47 over two links, 36-40 over one.
_FLOW = {4: 65e9, 2: 47e9, 1: 36e9}
RELAYED_FLOW = 30e9  # 27-32 measured between GCDs without a direct link
_FRONTIER_PCI = ("c1", "c6", "c9", "ce", "d1", "d6", "d9", "de")
_FRONTIER_CORES = (48, 56, 16, 24, 0, 8, 32, 40)  # first core of the L3 region beside each GCD
MI300X_CPUS = ("0-47,96-143", "48-95,144-191")


def build_mi250x() -> Topology:
    """`mi250x-8`: four packages of two GCDs; GCDs forward what passes through."""
    builder = GraphBuilder()
    ids = add_devices(
        builder,
        "AMD Instinct MI250X (GCD)",
        pci=[f"0000:{bus}:00.0" for bus in _FRONTIER_PCI],
        numa=[core // 16 for core in _FRONTIER_CORES],
        cpus=[f"{c}-{c + 7},{c + 64}-{c + 71}" for c in _FRONTIER_CORES],
        memory_gib=64,
        vendor=Vendor.AMD,
        forwards=True,
    )
    for count, pairs in ((4, MI250X_FOUR), (2, MI250X_TWO), (1, MI250X_ONE)):
        for a, b in pairs:
            builder.link(
                LinkKind.XGMI,
                ids[a],
                ids[b],
                bytes_per_s=k.XGMI_MI200.data_sheet * count,
                flow_bytes_per_s=_FLOW[count],
                latency_s=k.LATENCY_XGMI,
                count=count,
                name="Infinity Fabric",
            )
    _frontier_cpu(builder, ids)
    for package in range(4):
        nic = add_nic(
            builder,
            f"cxi{package}",
            None,
            _FRONTIER_CORES[2 * package] // 16,
            gigabits_per_s=SLINGSHOT_11,
        )
        attach(builder, nic, ids[2 * package], generation=4)
    direct = {frozenset((ids[a], ids[b])) for a, b in MI250X_FOUR + MI250X_TWO + MI250X_ONE}
    return builder.build(
        name="mi250x-8",
        origin="catalogue",
        caps={
            (a, b): nominal(RELAYED_FLOW)
            for a in ids
            for b in ids
            if a != b and frozenset((a, b)) not in direct
        },
        sources=(
            "Oak Ridge Leadership Computing Facility: docs.olcf.ornl.gov, Frontier user guide (200"
            " GB/s in a package, 50-100 between, 36+36 GB/s to the CPU, NUMA and L3 regions of each"
            " GCD, NIC on each package)",
            "C. Pearson: Interconnect bandwidth heterogeneity on AMD MI250x and Infinity Fabric"
            " (2023): which GCDs have four, two and one links",
            "AMD: rocm.docs.amd.com, Instinct MI250 microarchitecture (25 GT/s by 16 lanes: 50 GB/s"
            " per link)",
            "AMD: RCCL topology models of gfx90a nodes (the same twelve pairs)",
        ),
        description="Frontier node: 4 MI250X = 8 GCDs in an Infinity Fabric mesh of 4, 2 and 1"
        " links; GCDs forward",
        metadata={
            "nics": "each NIC is attached to the first GCD of its package",
            "assumed": "GCDs without a direct link talk over the least number of GCDs between",
        },
    )


def _frontier_cpu(builder: GraphBuilder, ids: list[str]) -> None:
    nodes = [
        add_numa(builder, n, cpus=f"{16 * n}-{16 * n + 15},{16 * n + 64}-{16 * n + 79}")
        for n in range(4)
    ]
    builder.component(ComponentKind.PACKAGE, "package0", name="EPYC I/O die")
    for node in nodes:
        builder.smp(node, "package0", bytes_per_s=72e9, name="I/O die")
    for gpu, core in zip(ids, _FRONTIER_CORES, strict=True):
        builder.link(
            LinkKind.XGMI,
            gpu,
            nodes[core // 16],
            bytes_per_s=36e9,
            latency_s=k.LATENCY_XGMI,
            name="Infinity Fabric to CPU",
        )


def build_mi300x() -> Topology:
    """`mi300x-8`: every GPU has one xGMI link to each of the other seven."""
    builder = _mesh("AMD Instinct MI300X", 192, k.XGMI_MI300)
    return builder.build(
        name="mi300x-8",
        origin="catalogue",
        sources=(
            "AMD: Instinct MI300X platform data sheet (8 OAM, seven Infinity Fabric links of"
            " 128 GB/s both directions per GPU, fully connected)",
            "AMD: Instinct MI300 series cluster reference architecture guide 63916 (one NIC beside"
            " each GPU behind a PCIe 5 switch)",
            "AMD: RCCL, src/graph/topo.h, and RCCL issue 1210 (of 64 GB/s per link and direction"
            " 48 are left by protocol and error correction)",
        ),
        description="8 MI300X, fully connected by Infinity Fabric, one NIC beside each GPU",
        metadata={
            "invented": "CPU lists (two 48-core sockets) and NIC names",
            "pci_bus_ids": "as in a published KFD tree of MI300X; they vary by vendor",
            "pcie_generation": "5",
        },
    )


def build_mi325x() -> Topology:
    """`mi325x-8`: the mesh of MI300X."""
    return _mesh("AMD Instinct MI325X", 256, k.XGMI_MI300).build(
        name="mi325x-8",
        origin="catalogue",
        sources=(
            "AMD: Instinct MI325X data sheet (256 GB, eight Infinity Fabric links of 128 GB/s both"
            " directions)",
            "AMD: RCCL, src/graph/topo.h, and RCCL issue 1210 (48 GB/s per link of gfx94x)",
        ),
        description="8 MI325X, fully connected by Infinity Fabric, one NIC beside each GPU",
        metadata={
            "assumed": "PCI bus ids, CPU lists and NICs as for mi300x-8",
            "pcie_generation": "5",
        },
    )


def build_mi355x() -> Topology:
    """`mi355x-8`: the same mesh, links a fifth faster."""
    return _mesh("AMD Instinct MI355X", 288, k.XGMI_MI350).build(
        name="mi355x-8",
        origin="catalogue",
        sources=(
            "AMD: Instinct MI355X data sheet (288 GB, seven Infinity Fabric links of 153.6 GB/s"
            " both directions)",
            "AMD: CDNA 4 at Hot Chips 2025 (seven links per GPU, up to eight GPUs fully connected)",
        ),
        description="8 MI355X, fully connected by Infinity Fabric, one NIC beside each GPU",
        metadata={
            "assumed": "PCI bus ids, CPU lists and NICs as for mi300x-8; one copy reaches the share"
            " of a link that it does on MI300X",
            "pcie_generation": "5",
        },
    )


def _mesh(name: str, memory_gib: int, lane: k.DeviceLink) -> GraphBuilder:
    """Eight GPUs joined each to each, with an adapter beside each."""
    builder = GraphBuilder()
    ids = add_devices(
        builder,
        name,
        pci=[f"0000:{bus}:00.0" for bus in ("05", "27", "47", "65", "85", "a7", "c7", "e5")],
        numa=[i // 4 for i in range(8)],
        cpus=[MI300X_CPUS[i // 4] for i in range(8)],
        memory_gib=memory_gib,
        vendor=Vendor.AMD,
    )
    for a, b in combinations(ids, 2):
        builder.device_link(a, b, lane, 1, port=False)
    nodes = [add_numa(builder, socket, cpus=MI300X_CPUS[socket]) for socket in (0, 1)]
    for i, gpu in enumerate(ids):
        socket = i // 4
        bridge = add_bridge(builder, nodes[socket], socket, generation=5, uplinks=1)
        switch = add_switch(builder, bridge, socket, generation=5)
        attach(builder, gpu, switch, generation=5)
        attach(builder, add_nic(builder, f"mlx5_{i}", None, socket), switch, generation=5)
    builder.smp(*nodes, bytes_per_s=k.SMP_OF_PCIE[5], name="socket link")
    return builder
