"""PCIe nodes of AMD whose GPUs are bridged into hives of four: MI100 and Vega 20."""

from __future__ import annotations

from itertools import combinations, product

from toposeat.model.topology import Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology.catalogue.parts import (
    EDR,
    HDR,
    add_bridge,
    add_devices,
    add_nic,
    add_numa,
    add_switch,
    attach,
)
from toposeat.topology.graph.graph_builder import GraphBuilder

# MI100: a PCIe switch with two GPUs and an adapter at each NUMA node, two nodes to a socket.
_MI100_PCI = ("4a", "50", "0a", "0f", "cb", "d1", "8a", "90")
_MI100_NICS = (("mlx5_1", "45"), ("mlx5_3", "13"), ("mlx5_5", "c6"), ("mlx5_7", "85"))
_MI100_CPUS = tuple(f"{32 * n}-{32 * n + 31},{128 + 32 * n}-{159 + 32 * n}" for n in range(4))
# Vega 20: both hives at the same socket, each behind a PCIe switch.
_VEGA20_PCI = ("1d", "20", "23", "26", "3f", "43", "46", "49")
_VEGA20_NICS = (("mlx5_0", "1a"), ("mlx5_1", "4c"))
_VEGA20_CPUS = "0-13,28-41"
VEGA20_RING = ((0, 1), (0, 2), (1, 3), (2, 3))
_RCCL = "AMD: RCCL, tools/topo_expl/models, real system dump"


def build_mi100() -> Topology:
    """`mi100-8`: two hives of four MI100, each fully connected, one hive per socket."""
    builder = GraphBuilder()
    ids = add_devices(
        builder,
        "AMD Instinct MI100",
        pci=[f"0000:{bus}:00.0" for bus in _MI100_PCI],
        numa=[i // 2 for i in range(8)],
        cpus=[_MI100_CPUS[i // 2] for i in range(8)],
        memory_gib=32,
        vendor=Vendor.AMD,
    )
    for hive in (ids[:4], ids[4:]):
        for a, b in combinations(hive, 2):
            builder.device_link(a, b, k.XGMI_MI100, 1, port=False)
    nodes = [add_numa(builder, n, cpus=_MI100_CPUS[n]) for n in range(4)]
    for n, node in enumerate(nodes):
        switch = add_switch(
            builder, add_bridge(builder, node, n, generation=4, uplinks=1), n, generation=4
        )
        for gpu in ids[2 * n : 2 * n + 2]:
            attach(builder, gpu, switch, generation=4)
        name, bus = _MI100_NICS[n]
        attach(
            builder,
            add_nic(builder, name, f"0000:{bus}:00.0", n, gigabits_per_s=HDR),
            switch,
            generation=4,
        )
    for a, b in product(nodes[:2], nodes[2:]):
        builder.smp(a, b, bytes_per_s=k.SMP_OF_PCIE[4], name="socket xGMI")
    for a, b in (nodes[:2], nodes[2:]):
        builder.smp(a, b, bytes_per_s=2 * k.pcie_bytes_per_s(4), name="I/O die")
    return builder.build(
        name="mi100-8",
        origin="catalogue",
        sources=(
            "AMD: rocm.docs.amd.com, Instinct MI100 microarchitecture (up to four GPUs per EPYC on"
            " PCIe 4; hives of four fully connected by links of 23 GT/s: 46 GB/s per direction)",
            f"{_RCCL} of 8 gfx908 on Rome with 4 adapters (hives, switches, bus ids, CPUs)",
            "ROCm issue 2499 (two MI100 of a hive: about 70 GB/s both ways)",
        ),
        description="8 MI100 in two hives of four, each fully connected; two GPUs and an adapter"
        " behind each of four PCIe switches",
        metadata={
            "assumed": "as many GB/s between NUMA nodes of a socket as two x16 slots carry",
            "pcie_generation": "4",
        },
    )


def build_vega20() -> Topology:
    """`mi60-8`: two rings of four Vega 20."""
    builder = GraphBuilder()
    ids = add_devices(
        builder,
        "AMD Radeon Instinct MI60",
        pci=[f"0000:{bus}:00.0" for bus in _VEGA20_PCI],
        numa=[0] * 8,
        cpus=[_VEGA20_CPUS] * 8,
        memory_gib=32,
        vendor=Vendor.AMD,
    )
    node = add_numa(builder, 0, cpus=_VEGA20_CPUS)
    bridge = add_bridge(builder, node, 0, generation=3, uplinks=2)
    for first, (name, bus) in zip((0, 4), _VEGA20_NICS, strict=True):
        hive = ids[first : first + 4]
        for a, b in VEGA20_RING:
            builder.device_link(hive[a], hive[b], k.XGMI_VEGA20, 1, port=False)
        switch = add_switch(builder, bridge, 0, generation=3)
        for gpu in hive:
            attach(builder, gpu, switch, generation=3)
        attach(
            builder,
            add_nic(builder, name, f"0000:{bus}:00.0", 0, gigabits_per_s=EDR),
            switch,
            generation=3,
        )
    return builder.build(
        name="mi60-8",
        origin="catalogue",
        sources=(
            "AMD: announcement of Radeon Instinct MI60 and MI50, 2018 (two Infinity Fabric links,"
            " up to 200 GB/s both directions together; 32 GB)",
            f"{_RCCL} of 8 gfx906 in two hives with 2 adapters (rings of four, switches, bus ids,"
            " CPUs, PCIe 3)",
            "AMD: RCCL, src/graph/topo.h (24 GB/s per link)",
        ),
        description="8 Radeon Instinct MI60 (Vega 20) on one socket: two rings of four, each behind"
        " a PCIe switch",
        metadata={
            "assumed": "46 GB/s per link and direction, as of MI100; the other socket is left out",
            "pcie_generation": "3",
        },
    )
