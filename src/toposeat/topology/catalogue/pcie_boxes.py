"""Machines whose GPUs talk over PCIe alone, or over bridges: from PCIe 2 to PCIe 5."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.model.quantity import Quantity, Source
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

CPUS_24 = ("0-11,24-35", "12-23,36-47")
H100_CPUS = ("0-31,64-95", "32-63,96-127")
# Measured class means of two machines of StarPU's: below one switch, between switches of a socket,
# from the first socket to the second, and back.
IDGRAF = (6.63e9, 5.29e9, 3.08e9, 3.80e9)
SIROCCO = (10.2e9, 10.2e9, 8.05e9, 8.5e9)


def build_idgraf() -> Topology:
    """`c2050-8`: PCIe 2, two switches with two GPUs per socket."""
    builder, ids = _switched("Tesla C2050", 8, 2, generation=2, cpus=("0-5", "6-11"), memory_gib=3)
    return builder.build(
        name="c2050-8",
        origin="catalogue",
        caps=_caps(ids, 2, IDGRAF),
        sources=(
            "StarPU: performance models of the machine idgraf (8 Tesla C2050, two Xeon X5650): mean"
            " bandwidth by class of pair",
        ),
        description="8 Tesla C2050 on PCIe 2 (idgraf): two switches with two GPUs on each of two"
        " sockets",
        metadata={"assumed": "PCI bus ids; latencies of newer machines", "pcie_generation": "2"},
    )


def build_sirocco() -> Topology:
    """`k40-4`: PCIe 3, a switch with two GPUs per socket."""
    builder, ids = _switched(
        "Tesla K40m", 4, 2, generation=3, cpus=("0-11", "12-23"), memory_gib=12
    )
    return builder.build(
        name="k40-4",
        origin="catalogue",
        caps=_caps(ids, 2, SIROCCO),
        sources=(
            "StarPU: performance models of the machine sirocco (4 Tesla K40m in two pairs, two Xeon"
            " E5-2680): mean bandwidth by class of pair",
        ),
        description="4 Tesla K40m on PCIe 3 (sirocco): a switch with two GPUs on each of two"
        " sockets",
        metadata={"assumed": "PCI bus ids", "pcie_generation": "3"},
    )


def build_k40_8() -> Topology:
    """`k40-8`: PCIe 3, a switch with four GPUs per socket."""
    builder, _ = _switched("Tesla K40m", 8, 4, generation=3, cpus=CPUS_24, memory_gib=12)
    return builder.build(
        name="k40-8",
        origin="catalogue",
        sources=(
            "NVIDIA: Tesla K40 board specification (PCIe 3 x16, 12 GB)",
            "NVIDIA: NCCL, src/graph/topo.h (PCIe and socket links)",
        ),
        description="8 Tesla K40 on PCIe 3, one switch with four GPUs per socket",
        metadata={"invented": "a class of servers, not one product", "pcie_generation": "3"},
    )


def build_l40s() -> Topology:
    """`l40s-8`: PCIe 4, no NVLink, a switch with four GPUs and an adapter per socket."""
    builder, _ = _switched("NVIDIA L40S", 8, 4, generation=4, cpus=H100_CPUS, memory_gib=48)
    _adapters(builder, 4)
    return builder.build(
        name="l40s-8",
        origin="catalogue",
        sources=(
            "NVIDIA: L40S data sheet (PCIe 4 x16, 48 GB, no NVLink)",
            "NVIDIA: NCCL, src/graph/topo.h (PCIe and socket links)",
        ),
        description="8 L40S on PCIe 4 without NVLink, one switch with four GPUs and a NIC per"
        " socket",
        metadata={"invented": "a class of servers, not one product", "pcie_generation": "4"},
    )


def build_h100_pcie() -> Topology:
    """`h100-pcie-8-bridged`: NVLink 4 bridges join neighbours."""
    builder, ids = _switched("NVIDIA H100 PCIe", 8, 4, generation=5, cpus=H100_CPUS, memory_gib=80)
    for a, b in zip(ids[::2], ids[1::2], strict=True):
        builder.device_link(a, b, k.NVLINK4, 12, port=False)
    _adapters(builder, 5)
    return builder.build(
        name="h100-pcie-8-bridged",
        origin="catalogue",
        sources=(
            "NVIDIA: H100 PCIe GPU product brief PB-11133-001 (three NVLink bridges join two"
            " boards, 600 GB/s both directions)",
            "NVIDIA: NCCL, src/graph/topo.h (PCIe and socket links)",
        ),
        description="8 H100 PCIe in four bridged pairs, a PCIe 5 switch with four GPUs per socket",
        metadata={"invented": "a class of servers, not one product", "pcie_generation": "5"},
    )


def _switched(
    name: str, count: int, per_switch: int, *, generation: int, cpus: Sequence[str], memory_gib: int
) -> tuple[GraphBuilder, list[str]]:
    """GPUs on switches, half of them on each of two sockets, a host bridge per socket."""
    builder = GraphBuilder()
    half = count // 2
    ids = add_devices(
        builder,
        name,
        pci=[f"0000:{(0x04, 0x84)[i // half] + i % half:02x}:00.0" for i in range(count)],
        numa=[i // half for i in range(count)],
        cpus=[cpus[i // half] for i in range(count)],
        memory_gib=memory_gib,
    )
    nodes = [add_numa(builder, socket, cpus=cpus[socket]) for socket in (0, 1)]
    for socket, node in enumerate(nodes):
        switches = half // per_switch
        bridge = add_bridge(builder, node, socket, generation=generation, uplinks=switches)
        for number in range(switches):
            switch = add_switch(builder, bridge, socket, generation=generation)
            first = half * socket + per_switch * number
            for gpu in ids[first : first + per_switch]:
                attach(builder, gpu, switch, generation=generation)
    builder.smp(*nodes, bytes_per_s=k.SMP_OF_PCIE[generation], name="socket link")
    return builder, ids


def _adapters(builder: GraphBuilder, generation: int) -> None:
    for socket in (0, 1):
        nic = add_nic(builder, f"mlx5_{socket}", None, socket)
        attach(builder, nic, f"switch{socket}", generation=generation)


def _caps(
    ids: Sequence[str], per_switch: int, rates: tuple[float, float, float, float]
) -> dict[tuple[str, str], Quantity]:
    half = len(ids) // 2

    def rate(i: int, j: int) -> float:
        if i // half != j // half:
            return rates[2 + i // half]
        return rates[0] if i // per_switch == j // per_switch else rates[1]

    return {
        (a, b): Quantity(rate(i, j), Source.MEASURED)
        for i, a in enumerate(ids)
        for j, b in enumerate(ids)
        if i != j
    }
