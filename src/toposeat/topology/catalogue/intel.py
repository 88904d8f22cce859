"""Intel Data Center GPU Max: Aurora's node of twelve tiles, and a bridged pair of cards."""

from __future__ import annotations

from itertools import combinations, permutations

from toposeat.model.quantity import nominal
from toposeat.model.topology import Device, LinkKind, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology.catalogue.parts import (
    GIB,
    SLINGSHOT_11,
    add_bridge,
    add_devices,
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
# Between tiles of two GPUs: one copy, and two opposite ones together.
XELINK_FLOW = 15e9
XELINK_BOTH = 23e9
MAX1100_LANES = 24  # of the bridge: six ports of four


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
        attach(
            builder,
            add_nic(builder, f"cxi{number}", None, number // 4, gigabits_per_s=SLINGSHOT_11),
            bridge,
            generation=4,
        )
    builder.smp(*nodes, bytes_per_s=k.SMP_OF_PCIE[5], name="UPI")
    return builder.build(
        name="aurora-12",
        origin="catalogue",
        both_ways={
            (a.id, b.id): nominal(XELINK_BOTH)
            for a, b in permutations(builder.devices, 2)
            if a.index // 2 != b.index // 2
        },
        sources=(
            "Argonne Leadership Computing Facility: user guides, Aurora machine overview (six Max"
            " 1550 of two tiles, Xe Link each to each, two Xeon Max 9470C of 52 cores, eight"
            " Slingshot 11 adapters)",
            "Argonne Leadership Computing Facility: user guides, Aurora, single node GPU-Peak"
            " benchmarks (between the tiles of a GPU 196 GB/s one way and 287 both ways, between"
            " tiles of two GPUs 15 and 23; PCIe 54 to the device, 55 from it)",
            "Intel: Data Center GPU Max Series technical overview (eight Xe Links per tile)",
        ),
        description="Aurora node: 6 Max 1550 = 12 tiles in two all-to-all Xe Link planes; the tiles"
        " of a GPU are in different planes and pass traffic on",
        metadata={
            "assumed": "PCI bus ids; which tiles share a plane; two Xe Link lanes between two"
            " tiles; tiles that are not joined reach what joined ones do; PCIe at the first tile",
            "pcie_generation": "5",
        },
    )


def build_max1100() -> Topology:
    """`max1100-2`: two cards of one stack each, and a bridge between them."""
    builder = GraphBuilder()
    cpus = "0-143"
    ids = add_devices(
        builder,
        "Intel Data Center GPU Max 1100",
        pci=["0000:29:00.0", "0000:3a:00.0"],
        numa=[0, 0],
        cpus=[cpus, cpus],
        memory_gib=48,
        vendor=Vendor.INTEL,
    )
    builder.device_link(ids[0], ids[1], k.XELINK, MAX1100_LANES, port=False)
    node = add_numa(builder, 0, cpus=cpus)
    for gpu in ids:
        attach(builder, gpu, add_bridge(builder, node, 0, generation=5, uplinks=1), generation=5)
    return builder.build(
        name="max1100-2",
        origin="catalogue",
        sources=(
            "Intel: Data Center GPU Max Series technical overview (Max 1100: one stack, 48 GB, PCIe"
            " 5 x16, six Xe Link ports)",
            "A published xpu-smi topology -m of two Max 1100 (XL24 between them, CPUs 0-143) and"
            " its text: 318 GB/s per direction",
        ),
        description="2 Max 1100 on PCIe 5, joined by an Xe Link bridge of 24 lanes",
        metadata={
            "assumed": "PCI bus ids; a host bridge for each card; one copy reaches the data sheet's"
            " rate",
            "pcie_generation": "5",
        },
    )
