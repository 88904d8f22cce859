"""Aurora's node of twelve tiles, and the rack of 72 GPUs."""

from __future__ import annotations

from itertools import combinations

from toposeat.model.topology import ComponentKind, Device, LinkKind, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology.catalogue.parts import (
    GIB,
    add_bridge,
    add_nic,
    add_numa,
    attach,
)
from toposeat.topology.graph.graph_builder import GraphBuilder

# Tiles (GPU, tile) that Xe Link joins each to each; a GPU's two tiles are in different planes.
AURORA_PLANES = (
    ((0, 0), (1, 1), (2, 0), (3, 0), (4, 0), (5, 1)),
    ((0, 1), (1, 0), (2, 1), (3, 1), (4, 1), (5, 0)),
)
AURORA_CPUS = ("0-51,104-155", "52-103,156-207")
XELINK_LANES = 2  # between two tiles
XELINK_FLOW = 15e9  # one copy between tiles of two GPUs
TRAYS, PER_TRAY = 18, 4


def build_aurora() -> Topology:
    """`aurora-12`: tile t of GPU g is device 2 g + t; tiles pass on what is not for them."""
    builder = GraphBuilder()
    sockets = [gpu // 3 for gpu in range(6)]
    for gpu in range(6):
        for tile in (0, 1):
            builder.devices.append(
                Device(
                    id=f"gpu{2 * gpu + tile}",
                    index=2 * gpu + tile,
                    vendor=Vendor.INTEL,
                    name="Intel Data Center GPU Max 1550 (tile)",
                    pci_bus_id=f"0000:{(0x18, 0x42, 0x6C, 0x96, 0xBE, 0xE7)[gpu]:02x}:0{tile}.0",
                    numa_node=sockets[gpu],
                    cpus=AURORA_CPUS[sockets[gpu]],
                    memory_bytes=64 * GIB,
                    forwards=True,
                )
            )
    for plane in AURORA_PLANES:
        for (a, x), (b, y) in combinations(plane, 2):
            builder.link(
                LinkKind.XELINK,
                f"gpu{2 * a + x}",
                f"gpu{2 * b + y}",
                bytes_per_s=XELINK_LANES * k.XELINK.data_sheet,
                flow_bytes_per_s=XELINK_FLOW,
                latency_s=k.LATENCY_XGMI,
                count=XELINK_LANES,
                name=k.XELINK.name,
            )
    nodes = [add_numa(builder, s, cpus=AURORA_CPUS[s]) for s in (0, 1)]
    for gpu in range(6):
        builder.device_link(f"gpu{2 * gpu}", f"gpu{2 * gpu + 1}", k.MDF, 1, port=False)
        bridge = add_bridge(builder, nodes[sockets[gpu]], sockets[gpu], generation=5, uplinks=1)
        attach(builder, f"gpu{2 * gpu}", bridge, generation=5)
    for number in range(8):
        bridge = add_bridge(builder, nodes[number // 4], number // 4, generation=4, uplinks=1)
        attach(builder, add_nic(builder, f"cxi{number}", None, number // 4), bridge, generation=4)
    builder.smp(*nodes, bytes_per_s=k.SMP_OF_PCIE[5], name="UPI")
    return builder.build(
        name="aurora-12",
        origin="catalogue",
        sources=(
            "Argonne Leadership Computing Facility: Aurora node documentation (six Max 1550 of two"
            " tiles, the two Xe Link planes of tiles, two Xeon Max, eight Slingshot endpoints)",
            "ALCF user guide of Aurora, Single node GPU-Peak benchmarks: 196 GB/s between the tiles"
            " of a GPU, 15 GB/s between tiles of two GPUs",
        ),
        description="Aurora node: 6 Max 1550 = 12 tiles in two all-to-all Xe Link planes; the tiles"
        " of a GPU are in different planes and pass traffic on",
        metadata={
            "assumed": "PCI bus ids; two Xe Link lanes between two tiles; PCIe at the first tile",
            "unverified": "the ALCF guide's numbers were not found again in November 2026",
            "pcie_generation": "5",
        },
    )


def build_nvl72() -> Topology:
    """`gb200-nvl72`: 18 hosts of four GPUs and two Graces on one NVLink switch fabric."""
    builder = GraphBuilder()
    fabric = builder.component(
        ComponentKind.NVSWITCH, "nvswitch0", name="NVLink switch trays of the rack"
    )
    for tray in range(TRAYS):
        builder.host = f"tray{tray:02d}"
        _tray(builder, tray, fabric)
    return builder.build(
        name="gb200-nvl72",
        origin="catalogue",
        sources=(
            "NVIDIA: GB200 NVL72 data sheet (72 GPUs and 36 Graces in 18 compute trays, NVLink 5"
            " at 1.8 TB/s both directions per GPU, one NVLink domain)",
            "NVIDIA: GB200 superchip (two GPUs and one Grace of 72 cores, NVLink-C2C of 900 GB/s"
            " both directions)",
            "NVIDIA: NCCL, src/graph/topo.h (40.1 GB/s per NVLink 5)",
            "MLCommons inference v6.1, system description of a GB200 NVL72 (4 GPUs of 186 GB per"
            " node, NV18 by NVSwitch, host by NVLink-C2C)",
        ),
        description="GB200 NVL72: 18 trays of 4 GPUs, all 72 on one NVLink switch fabric",
        metadata={
            "assumed": "PCI bus ids and CPU numbers; a C2C of 225 GB/s per direction for each of"
            " the two GPUs of a superchip; 100 GB/s per direction between two Graces",
            "nics": "left out: between trays NVLink is the shorter way",
            "pcie_generation": "5",
        },
    )


def _tray(builder: GraphBuilder, tray: int, fabric: str) -> None:
    for local in range(PER_TRAY):
        grace = local // 2
        builder.devices.append(
            Device(
                id=f"gpu{PER_TRAY * tray + local}",
                index=local,
                host=builder.host,
                name="NVIDIA GB200",
                pci_bus_id=f"{(0x8, 0x9, 0x18, 0x19)[local]:04x}:01:00.0",
                numa_node=grace,
                cpus=f"{72 * grace}-{72 * grace + 71}",
                memory_bytes=186 * GIB,
            )
        )
        builder.device_link(f"gpu{PER_TRAY * tray + local}", fabric, k.NVLINK5, 18, port=True)
    graces = [
        builder.component(
            ComponentKind.NUMA,
            f"{builder.host}/numa{grace}",
            name=f"Grace {grace}",
            numa_node=grace,
            cpus=f"{72 * grace}-{72 * grace + 71}",
        )
        for grace in (0, 1)
    ]
    for local in range(PER_TRAY):
        builder.link(
            LinkKind.C2C,
            f"gpu{PER_TRAY * tray + local}",
            graces[local // 2],
            bytes_per_s=225e9,
            latency_s=1e-6,
            name="NVLink-C2C",
        )
    # As between two Graces of a node of four GH200 (JSC: JUPITER configuration, cNVLink).
    builder.smp(*graces, bytes_per_s=100e9, name="Grace to Grace")
