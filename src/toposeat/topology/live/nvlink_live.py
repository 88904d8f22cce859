"""NVLinks of a live machine, as NVML lists them link by link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.device_bonds import add_bonds, add_fabrics
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.live.nvml import NvmlGpu

_AMPERE = (k.NVLINK3, k.NVLINK3_BRIDGE)
_LANES_OF_VERSION = {  # NVML's numbers stand for 1.0, 2.0, 2.2, 3.0, 3.1, 4.0 and 5.0
    1: (k.NVLINK1,),
    2: (k.NVLINK2,),
    3: (k.NVLINK2,),
    4: _AMPERE,
    5: _AMPERE,
    6: (k.NVLINK4,),
    7: (k.NVLINK5,),
}
_SOMEWHERE = "?"  # a switch whose PCI bus id NVML does not tell


def add_live_nvlinks(
    builder: GraphBuilder,
    gpus: Sequence[NvmlGpu],
    numa_of: Mapping[str, str],
    present: Collection[str],
) -> None:
    """Add direct bonds, NVSwitch fabrics, and links to CPUs (POWER9).

    Args:
        builder: already holds the devices.
        gpus: what NVML told; GPUs in MIG mode use no NVLink.
        numa_of: the NUMA vertex of each device, by id.
        present: PCI bus ids of all NVIDIA GPUs that the machine has, hidden ones too.
    """
    ids = {gpu.bus: gpu.device.id for gpu in gpus}
    direct: dict[tuple[str, str], Counter[str]] = {}
    ports: dict[str, Counter[str]] = {}
    lanes = {gpu.device.id: _lane(gpu) for gpu in gpus}
    away: Counter[str] = Counter()
    for gpu in gpus:
        here = gpu.device.id
        for link in gpu.links:
            peer = ids.get(link.remote_pci or "")
            if peer is not None and not link.to_switch:
                pair = (min(here, peer), max(here, peer))
                direct.setdefault(pair, Counter())[here] += 1
            elif link.to_switch:
                ports.setdefault(here, Counter())[link.remote_pci or _SOMEWHERE] += 1
            elif link.to_cpu:
                continue
            elif link.remote_pci is None:
                away["to where NVML does not tell"] += 1
            elif link.to_gpu or link.remote_pci in present:
                away["to GPUs that this process does not see"] += 1
            else:  # old drivers do not tell of what kind the other end is
                ports.setdefault(here, Counter())[link.remote_pci] += 1
        to_cpu = sum(link.to_cpu for link in gpu.links)
        if to_cpu and here in numa_of:
            builder.device_link(here, numa_of[here], lanes[here], to_cpu, port=False)
    builder.report.extend(f"{n} NVLinks lead {where}: left out" for where, n in away.items())
    add_bonds(builder, direct, lanes)
    add_fabrics(builder, ports, lanes)


def _lane(gpu: NvmlGpu) -> k.DeviceLink:
    """What a link is by NVML's own version; of those alike in it, the product's."""
    by_name = products.lane_named(gpu.device.name) or k.NVLINK_UNKNOWN
    told = _LANES_OF_VERSION.get(max((link.version or 0 for link in gpu.links), default=0))
    return by_name if told is None or by_name in told else told[0]
