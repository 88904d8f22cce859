r"""The 16-GPU K80 node of Faraji, Mirsadeghi and Afsahi: 8 dual-GPU boards below one QPI link.

    root complex ========= L3: QPI ========= root complex
      |        |                               |        |
    PCIe sw  PCIe sw   L2: 4 uplinks         PCIe sw  PCIe sw
     |   |    |   |    L1: 8 board uplinks    |   |    |   |
     b   b    b   b                           b   b    b   b     board switch
    / \ / \  / \ / \   L0: 16 device links   / \ / \  / \ / \
    0 1 2 3  4 5 6 7                         8 9 ...      15

The paper publishes ratios between levels, no absolute values. `k80-16` carries the model that
reproduces its time gains: shared capacities and a cap for each flow, full duplex, with 10 GB/s and
20 us assumed for level 0. `k80-16-faraji` carries the graph of its congestion figures: one
capacity for both directions of a link, 1 GB/s for the QPI link.
"""

from __future__ import annotations

from toposeat.model.quantity import Quantity, nominal
from toposeat.model.topology import ComponentKind, LinkKind, Topology
from toposeat.topology.catalogue.parts import add_devices
from toposeat.topology.graph.graph_builder import GraphBuilder

SOURCES = (
    "I. Faraji, S. H. Mirsadeghi, A. Afsahi: Exploiting heterogeneity of communication channels for"
    " efficient GPU selection on multi-GPU nodes. Parallel Computing 68 (2017): node, levels,"
    " ratios",
    "NVIDIA: Tesla K80 GPU accelerator, board specification (two GPUs behind one switch, 12 GB"
    " each)",
    "Intel: Xeon E5-2697 v2 product specification (12 cores)",
)
BANDWIDTH_RATIOS = (1.0, 2.47, 4.22, 4.47)  # level 0 against level l, large messages
LATENCY_RATIOS = (1.0, 1.01, 1.17, 1.57)  # level l against level 0, small messages
LEVEL0_BYTES_PER_S = 10e9
LEVEL0_LATENCY_S = 20e-6
INVENTED = "PCI bus ids are invented; bandwidth and latency of level 0 are assumed"


def build_mixed() -> Topology:
    """`k80-16`: shared capacities 1, 1/2.47, 2/4.22, 1 of level 0 per direction; flows capped."""
    shares = (1.0, 1 / 2.47, 2 / 4.22, 1.0)
    builder = _tree([LEVEL0_BYTES_PER_S * share for share in shares], combined=False)
    caps: dict[tuple[str, str], Quantity] = {}
    for i in range(16):
        for j in range(16):
            level = level_of_pair(i, j)
            if level:
                caps[f"gpu{i}", f"gpu{j}"] = nominal(LEVEL0_BYTES_PER_S / BANDWIDTH_RATIOS[level])
    return builder.build(
        name="k80-16",
        origin="catalogue",
        caps=caps,
        sources=SOURCES,
        description="16 GPUs on 8 Tesla K80 boards, two sockets; shared links and caps per flow,"
        " fitted to published communication times",
        metadata={"invented": INVENTED},
    )


def build_paper() -> Topology:
    """`k80-16-faraji`: the congestion graph of the paper, both directions summed on each link."""
    builder = _tree([4.47e9 / ratio for ratio in BANDWIDTH_RATIOS], combined=True)
    return builder.build(
        name="k80-16-faraji",
        origin="catalogue",
        sources=SOURCES,
        description="The graph of Faraji's congestion figures: capacities in the ratio of the"
        " measured bandwidths, QPI = 1 GB/s, both directions of a link together",
        metadata={"invented": INVENTED + "; the scale of 1 GB/s is arbitrary"},
    )


def level_of_pair(i: int, j: int) -> int:
    """The paper's level of two GPUs: 0 same board, 1 same switch, 2 same socket, 3 else."""
    return next(level for level, size in enumerate((2, 4, 8, 16)) if i // size == j // size)


def _tree(capacities: list[float], *, combined: bool) -> GraphBuilder:
    builder = GraphBuilder(pair_fraction={})  # flows are capped explicitly, or by links only
    buses = [0x04, 0x05, 0x08, 0x09, 0x0C, 0x0D, 0x10, 0x11]
    add_devices(
        builder,
        "Tesla K80",
        pci=[f"0000:{bus + 0x80 * socket:02x}:00.0" for socket in (0, 1) for bus in buses],
        numa=[i // 8 for i in range(16)],
        cpus=["0-11" if i < 8 else "12-23" for i in range(16)],
        memory_gib=12,
    )
    levels = [LEVEL0_LATENCY_S * ratio for ratio in LATENCY_RATIOS]
    latencies = [
        levels[0] / 2,
        (levels[1] - levels[0]) / 2,
        (levels[2] - levels[1]) / 2,
        levels[3] - levels[2],
    ]

    def link(level: int, a: str, b: str, name: str) -> None:
        builder.link(
            LinkKind.SMP if level == 3 else LinkKind.PCIE,
            a,
            b,
            bytes_per_s=capacities[level],
            combined_bytes_per_s=capacities[level] if combined else None,
            latency_s=latencies[level],
            name=name,
        )

    for board in range(8):
        builder.component(
            ComponentKind.SWITCH, f"board{board}", name=f"K80 board {board}", numa_node=board // 4
        )
    for switch in range(4):
        builder.component(
            ComponentKind.SWITCH,
            f"switch{switch}",
            name=f"PCIe switch {switch}",
            numa_node=switch // 2,
        )
    for root in range(2):
        builder.component(
            ComponentKind.HOST_BRIDGE,
            f"root{root}",
            name=f"root complex {root}",
            numa_node=root,
            cpus="0-11" if root == 0 else "12-23",
        )
    for i in range(16):
        link(0, f"gpu{i}", f"board{i // 2}", "level 0")
    for board in range(8):
        link(1, f"board{board}", f"switch{board // 2}", "level 1")
    for switch in range(4):
        link(2, f"switch{switch}", f"root{switch // 2}", "level 2")
    link(3, "root0", "root1", "level 3 (QPI)")
    return builder
