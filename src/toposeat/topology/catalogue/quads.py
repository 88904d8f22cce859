"""Nodes whose four accelerators are joined each to each: Perlmutter, Polaris, Alps, MI300A."""

from __future__ import annotations

from itertools import combinations

from toposeat.model.topology import ComponentKind, LinkKind, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology.catalogue.parts import (
    SLINGSHOT_11,
    add_bridge,
    add_devices,
    add_nic,
    add_numa,
    attach,
)
from toposeat.topology.graph.graph_builder import GraphBuilder

A100_LINKS = 4  # NVLinks between each two of four A100
GH200_LINKS = 6  # NVLinks between each two of four Hopper GPUs
MI300A_LINKS = 2  # xGMI links between each two of four APUs
C2C_BYTES_PER_S = 450e9  # Grace to Hopper, one direction
GRACE_BYTES_PER_S = 100e9  # Grace to Grace of the quad node, one direction (JUPITER's hardware)
_MI300A_PCI = tuple(f"{domain:04x}:02:00.0" for domain in range(4))
_MI300A_NIC_PCI = tuple(f"{domain:04x}:01:00.0" for domain in range(4))


def build_perlmutter() -> Topology:
    """`perlmutter-4`: GPU i and NIC i are at NUMA node 3 - i."""
    builder = _four_a100(("03", "41", "82", "c1"), cores=16)
    for node in range(4):
        attach(
            builder,
            add_nic(builder, f"cxi{node}", None, 3 - node, gigabits_per_s=SLINGSHOT_11),
            f"bridge{node}",
            generation=4,
        )
    return builder.build(
        name="perlmutter-4",
        origin="catalogue",
        sources=(
            "NERSC: docs.nersc.gov/systems/perlmutter/architecture (4 A100, four NVLink 3 of 25"
            " GB/s per direction between each pair, PCIe 4 to GPUs and NICs, 4 Slingshot NICs, one"
            " EPYC 7763)",
            "NVIDIA: A100 architecture white paper (NVLink 3); NCCL, src/graph/topo.h (PCIe)",
        ),
        description="Perlmutter GPU node: 4 A100, NV4 between each two, one Slingshot NIC per NUMA"
        " node",
        metadata={
            "assumed": "PCI bus ids; adapter i is at the NUMA node of GPU i",
            "pcie_generation": "4",
        },
    )


def build_polaris() -> Topology:
    """`polaris-4`: two adapters, the first beside GPU 3, the second beside GPU 1."""
    builder = _four_a100(("07", "46", "85", "c7"), cores=8)
    for number, gpu in enumerate((3, 1)):
        nic = add_nic(builder, f"mlx5_{number}", None, 3 - gpu, gigabits_per_s=SLINGSHOT_11)
        attach(builder, nic, f"bridge{gpu}", generation=4)
    return builder.build(
        name="polaris-4",
        origin="catalogue",
        sources=(
            "Argonne Leadership Computing Facility: user guides, Polaris machine overview (4 A100"
            " of 40 GB, one EPYC 7543P, two Slingshot 11 adapters; device affinity table: NV4"
            " between each two, CPUs and NUMA node of each GPU, mlx5_0 PHB to GPU 3, mlx5_1 PHB to"
            " GPU 1)",
            "NVIDIA: A100 architecture white paper (NVLink 3 of 25 GB/s per direction); NCCL,"
            " src/graph/topo.h (PCIe)",
        ),
        description="Polaris node: 4 A100, NV4 between each two, adapters near GPU 3 and GPU 1",
        metadata={
            "assumed": "PCI bus ids; adapters are named as in the guide's table, which is older"
            " than Slingshot 11",
            "pcie_generation": "4",
        },
    )


def _four_a100(buses: tuple[str, ...], *, cores: int) -> GraphBuilder:
    """Four A100 on one EPYC in NPS4: GPU i is at NUMA node 3 - i."""
    builder = GraphBuilder()
    threads = 4 * cores
    cpus = [
        ",".join(f"{first}-{first + cores - 1}" for first in (cores * n, threads + cores * n))
        for n in range(4)
    ]
    ids = add_devices(
        builder,
        "NVIDIA A100-SXM4-40GB",
        pci=[f"0000:{bus}:00.0" for bus in buses],
        numa=[3, 2, 1, 0],
        cpus=cpus[::-1],
        memory_gib=40,
    )
    for a, b in combinations(ids, 2):
        builder.device_link(a, b, k.NVLINK3, A100_LINKS, port=False)
    die = builder.component(ComponentKind.PACKAGE, "package0", name="EPYC I/O die")
    for i, gpu in enumerate(ids):
        numa = add_numa(builder, 3 - i, cpus=cpus[3 - i])
        builder.smp(numa, die, bytes_per_s=2 * k.pcie_bytes_per_s(4), name="I/O die")
        attach(
            builder, gpu, add_bridge(builder, numa, 3 - i, generation=4, uplinks=2), generation=4
        )
    return builder


def build_alps() -> Topology:
    """`alps-gh200-4`: four Grace-Hopper superchips; adapters are at the Graces."""
    builder = GraphBuilder()
    cpus = [f"{72 * i}-{72 * i + 71}" for i in range(4)]
    ids = add_devices(
        builder,
        "NVIDIA GH200 120GB",
        pci=[f"000{domain}:01:00.0" for domain in (9, 4, 2, 1)],
        numa=list(range(4)),
        cpus=cpus,
        memory_gib=96,
    )
    for a, b in combinations(ids, 2):
        builder.device_link(a, b, k.NVLINK4, GH200_LINKS, port=False)
    nodes = [add_numa(builder, i, cpus=cpus[i], name=f"Grace {i}") for i in range(4)]
    for i, (gpu, node) in enumerate(zip(ids, nodes, strict=True)):
        builder.link(
            LinkKind.C2C, gpu, node, bytes_per_s=C2C_BYTES_PER_S, latency_s=1e-6, name="NVLink-C2C"
        )
        bridge = add_bridge(builder, node, i, generation=5, uplinks=1)
        attach(
            builder,
            add_nic(builder, f"cxi{i}", None, i, gigabits_per_s=SLINGSHOT_11),
            bridge,
            generation=5,
        )
    for a, b in combinations(nodes, 2):
        builder.smp(a, b, bytes_per_s=GRACE_BYTES_PER_S, name="Grace to Grace")
    return builder.build(
        name="alps-gh200-4",
        origin="catalogue",
        sources=(
            "L. Fusco et al.: Understanding data movement in tightly coupled heterogeneous systems:"
            " a case study with the Grace Hopper superchip. arXiv 2408.11556 (quad node of Alps:"
            " six NVLinks, 150 GB/s per direction, between each two GPUs)",
            "NVIDIA: GH200 Grace Hopper superchip architecture white paper (NVLink-C2C, 900 GB/s"
            " both directions; 72 cores)",
            "CSCS: Alps hardware documentation, docs.cscs.ch/alps/hardware (four GH200 per node)",
            "JSC: JUPITER configuration, the same node of four GH200 (NVLink 4 of 150 GB/s and"
            " cNVLink of 100 GB/s per direction between each two)",
        ),
        description="Alps node: 4 GH200, NV6 between each two, NVLink-C2C from each GPU to its"
        " Grace, one Slingshot NIC per superchip",
        metadata={
            "assumed": "PCI bus ids; one adapter at each Grace",
            "pcie_generation": "5",
        },
    )


def build_mi300a() -> Topology:
    """`mi300a-4`: GPU, cores and memory in one package, so that each APU is a NUMA node."""
    builder = GraphBuilder()
    cpus = [f"{24 * i}-{24 * i + 23},{96 + 24 * i}-{119 + 24 * i}" for i in range(4)]
    ids = add_devices(
        builder,
        "AMD Instinct MI300A",
        pci=list(_MI300A_PCI),
        numa=list(range(4)),
        cpus=cpus,
        memory_gib=128,
        vendor=Vendor.AMD,
        forwards=True,  # the fabric of an APU carries what others send to its adapter
    )
    for a, b in combinations(ids, 2):
        builder.device_link(a, b, k.XGMI_MI300, MI300A_LINKS, port=False)
    for i, gpu in enumerate(ids):
        node = add_numa(builder, i, cpus=cpus[i], name=f"APU {i}")
        builder.link(
            LinkKind.XGMI,
            gpu,
            node,
            bytes_per_s=k.XGMI_IN_PACKAGE,
            latency_s=1e-6,
            name="in package",
        )
        bridge = add_bridge(builder, node, i, generation=4, uplinks=1)
        nic = add_nic(builder, f"hsi{i}", _MI300A_NIC_PCI[i], i, gigabits_per_s=SLINGSHOT_11)
        attach(builder, nic, bridge, generation=4)
    return builder.build(
        name="mi300a-4",
        origin="catalogue",
        sources=(
            "G. Schieffer et al.: Inter-APU communication on AMD MI300A systems via Infinity"
            " Fabric: a deep dive. arXiv 2508.11298 (two xGMI links, 128 GB/s per direction,"
            " between each two of four APUs)",
            "AMD: Instinct MI300A data sheet (24 cores, 128 GB HBM3); CDNA 3 white paper",
            "AMD: RCCL, src/graph/topo.h, and RCCL issue 1210 (of 64 GB/s per link and direction"
            " 48 are left by protocol and error correction)",
            "A published hwloc recording of Tuolumne (flux-core: bus ids, CPUs, adapters, PCIe 4)",
        ),
        description="El Capitan and Tuolumne node: 4 MI300A, two xGMI links between each two, one"
        " Slingshot NIC per APU",
        metadata={
            "assumed": "bandwidth inside a package as KFD states it for MI300X",
            "pci_bus_ids": "as on Tuolumne",
            "pcie_generation": "4",
        },
    )
