"""The racks of 72 GPUs: GB200 and GB300 NVL72."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from toposeat.model.topology import ComponentKind, Device, LinkKind, PathClass, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology.catalogue.parts import GIB, XDR, add_bridge, add_nic, attach
from toposeat.topology.graph.graph_builder import GraphBuilder

TRAYS, PER_TRAY = 18, 4
C2C_BYTES_PER_S = 225e9  # half of a superchip's 450 per direction
# As between two Graces of a node of four GH200 (JSC: JUPITER configuration, cNVLink).
GRACE_BYTES_PER_S = 100e9
_GRACE_LINKS = (
    "NVIDIA: GB200 superchip (two GPUs and one Grace of 72 cores, NVLink-C2C of 900 GB/s both"
    " directions)"
)
_ASSUMED = (
    "CPU numbers; a C2C of 225 GB/s per direction for each of the two GPUs of a superchip; 100 GB/s"
    " per direction between two Graces"
)


@dataclass(frozen=True, slots=True)
class _Tray:
    """What differs between the generations."""

    gpu: str
    memory_gib: int
    pci: tuple[str, ...]
    nics: int  # per Grace


def build_gb200() -> Topology:
    """`gb200-nvl72`: 18 hosts of four GPUs and two Graces on one NVLink switch fabric."""
    pci = tuple(f"{domain:04x}:01:00.0" for domain in (0x8, 0x9, 0x18, 0x19))
    builder = _rack(_Tray("NVIDIA GB200", 186, pci, nics=0))
    return builder.build(
        name="gb200-nvl72",
        origin="catalogue",
        sources=(
            "NVIDIA: GB200 NVL72 data sheet (72 GPUs and 36 Graces in 18 compute trays, NVLink 5"
            " at 1.8 TB/s both directions per GPU, one NVLink domain)",
            _GRACE_LINKS,
            "NVIDIA: NCCL, src/graph/topo.h (40.1 GB/s per NVLink 5)",
            "MLCommons inference v6.1, system description of a GB200 NVL72 (4 GPUs of 186 GB per"
            " node, NV18 by NVSwitch, host by NVLink-C2C)",
        ),
        description="GB200 NVL72: 18 trays of 4 GPUs, all 72 on one NVLink switch fabric",
        metadata={
            "assumed": f"PCI bus ids; {_ASSUMED}",
            "nics": "left out: between trays NVLink is the shorter way",
            "pcie_generation": "5",
        },
    )


def build_gb300() -> Topology:
    """`gb300-nvl72`: the same rack with Blackwell Ultra, and two adapters at each Grace."""
    pci = tuple(f"{domain:04x}:06:00.0" for domain in (0x8, 0x9, 0x18, 0x19))
    builder = _rack(_Tray("NVIDIA GB300", 277, pci, nics=2))
    numa = {d.id: d.numa_node for d in builder.devices}
    host = {d.id: d.host for d in builder.devices}
    return builder.build(
        name="gb300-nvl72",
        origin="catalogue",
        classes={
            (gpu, nic.id): PathClass.NODE
            for gpu, nic in product(numa, builder.nics)
            if (host[gpu], numa[gpu]) == (nic.host, nic.numa_node)
        },
        sources=(
            "NVIDIA: NVL72 AI Factory enterprise reference architecture, system components (GB300"
            " NVL72: 18 trays of 4 GPUs, 2 Graces and 4 ConnectX-8; all 72 GPUs non-blocking,"
            " 130 TB/s together)",
            _GRACE_LINKS,
            "NVIDIA: NCCL, src/graph/topo.h (40.1 GB/s per NVLink 5)",
            "A published nvidia-smi topo -m of an Azure ND GB300 v6 tray (NV18, two adapters NODE"
            " to the two GPUs of each Grace), and nvidia-smi -q -x of a GB300 tray (bus ids,"
            " memory)",
        ),
        description="GB300 NVL72: 18 trays of 4 GPUs and 4 adapters, all 72 GPUs on one NVLink"
        " switch fabric",
        metadata={
            "assumed": f"{_ASSUMED}; PCIe 5 x16 from each adapter to its Grace",
            "pcie_generation": "5",
        },
    )


def _rack(tray: _Tray) -> GraphBuilder:
    builder = GraphBuilder()
    fabric = builder.component(
        ComponentKind.NVSWITCH, "nvswitch0", name="NVLink switch trays of the rack"
    )
    for number in range(TRAYS):
        builder.host = f"tray{number:02d}"
        graces = _graces(builder)
        _gpus(builder, tray, PER_TRAY * number, fabric, graces)
        for grace, node in enumerate(graces):
            for _ in range(tray.nics):
                _adapter(builder, node, grace)
    return builder


def _graces(builder: GraphBuilder) -> list[str]:
    graces = [
        builder.component(
            ComponentKind.NUMA,
            f"{builder.host}/numa{grace}",
            name=f"Grace {grace}",
            numa_node=grace,
            cpus=_cpus(grace),
        )
        for grace in (0, 1)
    ]
    builder.smp(*graces, bytes_per_s=GRACE_BYTES_PER_S, name="Grace to Grace")
    return graces


def _gpus(builder: GraphBuilder, tray: _Tray, first: int, fabric: str, graces: list[str]) -> None:
    for local in range(PER_TRAY):
        grace = local // 2
        id = f"gpu{first + local}"
        builder.devices.append(
            Device(
                id=id,
                index=local,
                host=builder.host,
                vendor=Vendor.NVIDIA,
                name=tray.gpu,
                pci_bus_id=tray.pci[local],
                numa_node=grace,
                cpus=_cpus(grace),
                memory_bytes=tray.memory_gib * GIB,
            )
        )
        builder.device_link(id, fabric, k.NVLINK5, 18, port=True)
        builder.link(
            LinkKind.C2C,
            id,
            graces[grace],
            bytes_per_s=C2C_BYTES_PER_S,
            latency_s=1e-6,
            name="NVLink-C2C",
        )


def _adapter(builder: GraphBuilder, node: str, grace: int) -> None:
    bridge = add_bridge(builder, node, grace, generation=5, uplinks=1)
    number = len(builder.nics) % (PER_TRAY)
    attach(
        builder,
        add_nic(builder, f"mlx5_{number}", None, grace, gigabits_per_s=XDR),
        bridge,
        generation=5,
    )


def _cpus(grace: int) -> str:
    return f"{72 * grace}-{72 * grace + 71}"
