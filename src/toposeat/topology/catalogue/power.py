"""POWER nodes by kind: Summit (six V100) and the Minsky (four P100)."""

from __future__ import annotations

from itertools import combinations

from toposeat.model.quantity import Quantity, Source, nominal
from toposeat.model.topology import ComponentKind, PathClass, Topology
from toposeat.topology import constants as k
from toposeat.topology.catalogue.parts import EDR, add_devices, add_nic, add_numa, attach
from toposeat.topology.graph.graph_builder import GraphBuilder

NODES = (0, 8)
# p2pBandwidthLatencyTest on the class: AC922 29 GB/s alone and 34 both ways; Minsky 20.3 from the
# first socket to the second and 24.5 back, 30 both ways.
AC922_CROSS, AC922_BOTH = 29e9, 34e9
MINSKY_CROSS, MINSKY_BOTH = (20.3e9, 24.5e9), 30e9


def build_summit() -> Topology:
    """`summit-6`: three GPUs per socket, two NVLinks between neighbours and to the socket."""
    cpus = ("0-87", "88-175")
    builder, ids = _sockets(
        "Tesla V100-SXM2-16GB",
        cpus,
        each=3,
        lane=k.NVLINK2,
        both_ways=nominal(AC922_BOTH),
        bus=64e9,
    )
    for socket in (0, 1):
        bridge = builder.component(
            ComponentKind.HOST_BRIDGE, f"bridge{socket}", numa_node=NODES[socket]
        )
        builder.fabric(bridge, f"numa{NODES[socket]}", bytes_per_s=k.pcie_bytes_per_s(4, 8))
        for port in (0, 1):
            nic = add_nic(
                builder, f"mlx5_{2 * socket + port}", None, NODES[socket], gigabits_per_s=EDR
            )
            attach(builder, nic, bridge, generation=4, width=8)
    return builder.build(
        name="summit-6",
        origin="catalogue",
        caps=_cross(ids, 3, (AC922_CROSS, AC922_CROSS), Source.NOMINAL),
        classes=_adapters(builder, ids, 3),
        sources=(
            "Oak Ridge Leadership Computing Facility: Summit user guide (two POWER9 of 22 cores"
            " with three V100 each; two NVLinks, 50 GB/s per direction, between neighbours and from"
            " each GPU to its POWER9; dual-rail EDR, 23 GB/s injection)",
            "A. Caldeira: IBM Power System AC922 introduction and technical overview, REDP-5472,"
            " 2018 (8335-GTW: six GPUs, X-bus 64 GB/s, the adapter's PCIe 4 x8 to both sockets)",
            "IBM: Cluster Administration and Storage Tools, hcdiag p2pBandwidthLatencyTest on an"
            " AC922 of four GPUs (29 GB/s across, 34 GB/s both ways)",
        ),
        description="Summit node (IBM AC922): 6 Tesla V100, NV2 within each three, two NVLinks from"
        " each GPU to its POWER9",
        metadata={
            "pci_bus_ids": "continued from the four GPUs of Sierra",
            "x_bus": "combined capacity is the measured limit of GPU traffic on the four-GPU node",
            "pcie_generation": "4",
        },
    )


def build_minsky() -> Topology:
    """`minsky-4`: two P100 per POWER8, two NVLinks each way."""
    builder, ids = _sockets(
        "Tesla P100-SXM2-16GB",
        ("0-79", "80-159"),
        each=2,
        lane=k.NVLINK1,
        both_ways=Quantity(MINSKY_BOTH, Source.MEASURED),
        bus=38.4e9,
    )
    return builder.build(
        name="minsky-4",
        origin="catalogue",
        caps=_cross(ids, 2, MINSKY_CROSS, Source.MEASURED),
        sources=(
            "A. Caldeira et al.: IBM Power System S822LC for High Performance Computing, REDP-5405,"
            " 2016 (NVLink 1 of 20 GB/s per direction; two between the GPUs of a socket and two"
            " from each to its POWER8; X-bus 38.4 GB/s)",
            "Published p2pBandwidthLatencyTest on this class (35.3 GB/s in a pair, 20.3 and 24.5"
            " across, 30 both ways)",
        ),
        description="IBM Power S822LC (Minsky): 4 Tesla P100, NV2 pairs, two NVLinks from each GPU"
        " to its POWER8",
        metadata={
            "assumed": "PCI bus ids; adapters vary and are left out",
            "x_bus": "combined capacity is the measured limit of GPU traffic, not the bus's own",
            "pcie_generation": "3",
        },
    )


def _sockets(
    name: str,
    cpus: tuple[str, str],
    *,
    each: int,
    lane: k.DeviceLink,
    both_ways: Quantity,
    bus: float,
) -> tuple[GraphBuilder, list[str]]:
    builder = GraphBuilder()
    buses = [f"0004:{4 + i:02x}:00.0" for i in range(each)]
    buses += [f"0035:{3 + i:02x}:00.0" for i in range(each)]
    ids = add_devices(
        builder,
        name,
        pci=buses,
        numa=[NODES[i // each] for i in range(2 * each)],
        cpus=[cpus[i // each] for i in range(2 * each)],
        memory_gib=16,
    )
    nodes = [add_numa(builder, NODES[s], cpus=cpus[s], name=f"socket {s}") for s in (0, 1)]
    for socket, node in enumerate(nodes):
        mine = ids[each * socket : each * socket + each]
        for a, b in combinations(mine, 2):
            builder.device_link(a, b, lane, 2, port=False)
        for gpu in mine:
            builder.device_link(gpu, node, lane, 2, port=False)
    builder.smp(*nodes, bytes_per_s=bus, combined_bytes_per_s=both_ways, name="X-bus")
    return builder, ids


def _cross(
    ids: list[str], each: int, rates: tuple[float, float], source: Source
) -> dict[tuple[str, str], Quantity]:
    """Caps of flows between the sockets, by the socket that they come from."""
    return {
        (a, b): Quantity(rates[i // each], source)
        for i, a in enumerate(ids)
        for j, b in enumerate(ids)
        if i // each != j // each
    }


def _adapters(builder: GraphBuilder, ids: list[str], each: int) -> dict[tuple[str, str], PathClass]:
    """The GPUs' PCIe is behind another host bridge than the adapter, though data takes NVLink."""
    return {
        (gpu, nic.id): PathClass.NODE
        for i, gpu in enumerate(ids)
        for nic in builder.nics
        if nic.numa_node == NODES[i // each]
    }
