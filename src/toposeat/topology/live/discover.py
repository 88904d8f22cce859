"""This machine's topology: NVML, KFD and sysfs, merged by PCI bus id.

NVML knows NVLinks and names, KFD knows AMD's devices and xGMI links, sysfs knows the PCI tree,
sockets, NICs and Intel's cards. Where they disagree on what exists, the union of what can be used
is taken and the difference is reported.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

from toposeat.errors import UnavailableError
from toposeat.model.few import first_few
from toposeat.model.topology import FactKind, Topology, Vendor
from toposeat.topology.fabric_domain import domain_of_node
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.kfd_graph import KfdNode
from toposeat.topology.graph.pci_graph import VENDOR_NVIDIA, PciGraphWriter, add_nics
from toposeat.topology.graph.routes import with_routes
from toposeat.topology.live.amd import add_amd_devices, add_xgmi
from toposeat.topology.live.collection import Collection, pcie_state
from toposeat.topology.live.intel import (
    IntelCard,
    add_intel_devices,
    add_tile_links,
    read_intel,
)
from toposeat.topology.live.nvidia import (
    NO_SNAPSHOT,
    DeviceIds,
    NvmlSnapshot,
    add_live_nvlinks,
    add_nvml_devices,
    add_unseen_nvidia,
    ask_nvml,
    draw_by_distance,
    stated_classes,
    stated_peers,
)
from toposeat.topology.live.sysfs import processor_of_file, read_sysfs

_HINT = "give a saved one with -t FILE; make it on the GPU node with: toposeat discover -o FILE"
_HIDDEN_HINT = (
    "ask the job for them (Slurm: --gpus-per-node=N --gpu-bind=none; containers: --gpus all,"
    " --device /dev/kfd --device /dev/dri), or give a saved one with -t FILE"
)
_STAND_IN = "toposeat emulator"  # names itself so as a driver
_LIVE_SYSFS, _LIVE_DEV, _LIVE_CPUINFO = Path("/sys"), Path("/dev"), Path("/proc/cpuinfo")


def discover_this(**where: Any) -> Topology:
    """The whole machine that this runs on; see `facts_of_this`."""
    return with_routes(facts_of_this(**where))


def facts_of_this(
    *,
    sysfs: Path = _LIVE_SYSFS,
    dev: Path | None = None,
    nvml: Any = None,
    host: str | None = None,
    cpuinfo: Path | None = None,
) -> Topology:
    """What the machine that this runs on tells of itself.

    Args:
        sysfs: where sysfs is; tests give a recorded tree.
        dev: where device nodes are; None takes /dev for the real sysfs, and checks none for a
            recorded one.
        nvml: an object with the functions of `pynvml`; None loads the real one.
        host: name of the machine; None asks the system.
        cpuinfo: where the processor is told; None is /proc/cpuinfo for the real sysfs only.
    """
    if sysfs == _LIVE_SYSFS:
        dev, cpuinfo = dev or _LIVE_DEV, cpuinfo or _LIVE_CPUINFO
    machine = read_sysfs(sysfs)
    name = host or platform.node() or "this"
    found = Collection(GraphBuilder(host=name, report=list(machine.report)), machine)
    snapshot, reason = ask_nvml(nvml)
    ids = add_nvml_devices(found, snapshot) if snapshot is not None else {}
    reason = add_unseen_nvidia(found, snapshot, reason)
    amd, id_of_node = add_amd_devices(found, sysfs, dev)
    intel = read_intel(found, sysfs, dev)
    add_intel_devices(found, intel)
    if not found.builder.devices:
        hint = _HIDDEN_HINT if found.hidden else _HINT
        raise UnavailableError(f"no GPU found on this machine ({_why(found, reason)})", hint=hint)
    numa_of = _draw_tree(found, snapshot, ids)
    if snapshot is not None:
        present = {function.pci_bus_id for function in machine.gpus(VENDOR_NVIDIA)}
        whole = [gpu for gpu in snapshot.gpus if not gpu.mig]
        add_live_nvlinks(found.builder, whole, numa_of, present)
    add_xgmi(found.builder, amd, id_of_node)
    add_tile_links(found.builder)
    metadata = processor_of_file(cpuinfo, platform.machine()) if cpuinfo is not None else {}
    if snapshot is not None and _STAND_IN in (snapshot.driver or ""):
        from toposeat.emulation import emulated_processor  # noqa: PLC0415 - of no real machine

        metadata = emulated_processor(os.environ)
    return _finish(found, snapshot, ids, _origin(snapshot, amd, intel), metadata)


def _draw_tree(found: Collection, snapshot: NvmlSnapshot | None, ids: DeviceIds) -> dict[str, str]:
    """Draw the PCIe tree as sysfs shows it, or by distances where it shows no GPU.

    Returns the NUMA vertex of each device, by id.
    """
    machine, report = found.machine, found.builder.report
    is_unseen = len(found.unseen) == len(found.builder.devices)
    told = NO_SNAPSHOT if snapshot is None else snapshot
    if is_unseen and told.distances and not any(gpu.mig for gpu in told.gpus):
        nics = first_few((each.name for each in machine.adapters), 8)
        report.append(
            f"sysfs shows none of the {len(found.unseen)} GPUs: their PCIe tree is drawn by the"
            " distances that NVML tells"
            + (f", and adapters are left out, whose place nothing tells ({nics})" if nics else "")
        )
        return draw_by_distance(found.builder, told, ids)
    if found.unseen:
        report.append(f"{', '.join(found.unseen)}: not in sysfs, so the PCI position is not known")
    adapters = [(each, machine.pci[each.pci_bus_id]) for each in machine.adapters]
    found.endpoints += add_nics(found.builder, adapters, pcie_state)
    return PciGraphWriter(found.builder, machine).write(found.endpoints)


def _why(found: Collection, reason: str) -> str:
    """Why there is no GPU; hidden GPUs are a better reason than a library's message."""
    hidden = [line for line in found.builder.report if "are hidden from this process" in line]
    return "; ".join(dict.fromkeys([*hidden, reason])) if hidden else reason


def _origin(
    snapshot: NvmlSnapshot | None, amd: tuple[KfdNode, ...], intel: tuple[IntelCard, ...]
) -> str:
    tellers = [
        *(["NVML"] if snapshot is not None else []),
        *(["KFD"] if amd else []),
        "sysfs" + (" (i915, xe)" if intel else ""),
    ]
    return "discovered: " + " and ".join(tellers)


def _tells(found: Collection, snapshot: NvmlSnapshot | None) -> set[FactKind]:
    """NVML and KFD list device links, sysfs does not tell which Intel cards are joined.

    NVML does so only where it says of each link what is at its other end.
    """
    builder = found.builder
    tells = {FactKind.NICS} if len(builder.nics) == len(found.machine.adapters) else set()
    vendors = {device.vendor for device in builder.devices}
    links = [link for gpu in snapshot.gpus for link in gpu.links] if snapshot else []
    ends_are_known = all(link.remote_pci or link.end in ("switch", "cpu") for link in links)
    are_asked = Vendor.NVIDIA not in vendors or snapshot is not None
    if vendors <= {Vendor.NVIDIA, Vendor.AMD} and are_asked and ends_are_known:
        tells.add(FactKind.DEVICE_LINKS)
    if all(device.numa_node is not None for device in builder.devices):
        tells.add(FactKind.AFFINITY)
    return tells


def _finish(
    found: Collection,
    snapshot: NvmlSnapshot | None,
    ids: DeviceIds,
    origin: str,
    metadata: dict[str, str],
) -> Topology:
    told, builder = snapshot or NO_SNAPSHOT, found.builder
    words = {"driver": told.driver, "virtual": told.virtual}
    metadata |= {name: word for name, word in words.items() if word}
    metadata |= domain_of_node(gpu.domain for gpu in told.gpus)
    builder.tells = _tells(found, snapshot)
    return builder.facts(
        name=re.sub(r"[^\w.-]", "-", builder.host),
        origin=origin,
        classes=stated_classes(builder, told, ids),
        peer_access=stated_peers(told, ids),
        metadata=metadata,
        hidden=tuple(found.hidden),
    )
