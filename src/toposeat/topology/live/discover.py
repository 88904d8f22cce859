"""This machine's topology: NVML, KFD and sysfs, merged by PCI bus id.

NVML knows NVLinks and names, KFD knows AMD's devices and xGMI links, sysfs knows the PCI tree,
sockets and NICs. Where they disagree on what exists, the union of what can be used is taken and
the difference is reported.
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toposeat.errors import UnavailableError
from toposeat.model.topology import Device, LinkKind, Nic, PathClass, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.machine import VENDOR_NVIDIA, Machine, PciDevice
from toposeat.topology.graph.pci_graph import Endpoint, PciGraphWriter
from toposeat.topology.live.kfd import KfdGpu, read_kfd
from toposeat.topology.live.nvlink_live import add_live_nvlinks
from toposeat.topology.live.nvml import (
    NvmlDevice,
    NvmlMissingError,
    NvmlSnapshot,
    load_pynvml,
    read_nvml,
)
from toposeat.topology.live.sysfs import read_sysfs

_HINT = "give a saved one with -t FILE; make it on the GPU node with: toposeat discover -o FILE"


@dataclass
class _Found:
    """What is collected before links are written."""

    builder: GraphBuilder
    machine: Machine
    endpoints: list[Endpoint] = field(default_factory=list)

    def add_gpu(
        self, device: Device, generation: int | None, function: PciDevice | None = None
    ) -> None:
        self.builder.devices.append(device)
        function = function or self.machine.pci.get(device.pci_bus_id or "")
        if function is None:
            self.builder.report.append(
                f"{device.id} ({device.pci_bus_id}) is not in sysfs: its PCI position is not known"
            )
            function = _unplaced(device.pci_bus_id or "")
        default = generation or k.pcie_generation_of_device(device.name)
        self.endpoints.append(Endpoint(device.id, function, default or k.DEFAULT_PCIE_GENERATION))


def discover_this(
    *, sysfs: Path = Path("/sys"), nvml: Any = None, host: str | None = None
) -> Topology:
    """Read the topology of the machine this runs on.

    Args:
        sysfs: where sysfs is; tests give a recorded tree.
        nvml: an object with the functions of `pynvml`; None loads the real one.
        host: name of the machine; None asks the system.

    Raises:
        UnavailableError: there is no GPU.
    """
    machine = read_sysfs(sysfs)
    name = host or platform.node() or "this"
    found = _Found(GraphBuilder(host=name, report=list(machine.report)), machine)
    snapshot, reason = _ask_nvml(nvml)
    if snapshot is not None:
        _add_nvml_devices(found, snapshot)
    reason = _add_unseen_nvidia(found, snapshot, reason)
    amd = read_kfd(sysfs)
    id_of_node = _add_kfd_devices(found, amd)
    if not found.builder.devices:
        raise UnavailableError(f"no GPU found on this machine ({reason})", hint=_HINT)
    _add_nics(found)
    numa_of = PciGraphWriter(found.builder, machine).write(found.endpoints)
    if snapshot is not None:
        present = {function.pci_bus_id for function in machine.gpus(VENDOR_NVIDIA)}
        add_live_nvlinks(found.builder, snapshot.devices, numa_of, present)
    _add_xgmi(found.builder, amd, id_of_node)
    return _finish(found.builder, snapshot, name)


def _ask_nvml(nvml: Any) -> tuple[NvmlSnapshot | None, str]:
    try:
        snapshot = read_nvml(load_pynvml() if nvml is None else nvml)
    except NvmlMissingError as error:
        return None, str(error)
    return snapshot, "NVML lists none"


def _add_nvml_devices(found: _Found, snapshot: NvmlSnapshot) -> None:
    found.builder.report.extend(snapshot.report)
    for gpu in snapshot.devices:
        function = found.machine.pci.get(gpu.pci_bus_id)
        found.add_gpu(_nvidia_device(found.builder.host, gpu, function), gpu.pcie_generation)
        if gpu.mig:
            found.builder.report.append(
                f"gpu{gpu.index} is in MIG mode: its slices are not listed as devices"
            )
        if gpu.inactive_links and gpu.links:
            found.builder.report.append(
                f"gpu{gpu.index} has {gpu.inactive_links} inactive NVLinks beside"
                f" {len(gpu.links)} active ones"
            )


def _nvidia_device(host: str, gpu: NvmlDevice, function: PciDevice | None) -> Device:
    return Device(
        id=f"gpu{gpu.index}",
        index=gpu.index,
        host=host,
        vendor=Vendor.NVIDIA,
        name=gpu.name,
        pci_bus_id=gpu.pci_bus_id,
        uuid=gpu.uuid,
        numa_node=function.numa_node if function else None,
        cpus=(function.cpus if function else None) or gpu.cpus,
        memory_bytes=gpu.memory_bytes,
    )


def _add_unseen_nvidia(found: _Found, snapshot: NvmlSnapshot | None, reason: str) -> str:
    """GPUs that sysfs shows and NVML does not: hidden by a cgroup, or no driver at all.

    Hidden ones are no devices: a rank could not use them.

    Returns:
        Why there is no GPU, should there be none.
    """
    present = found.machine.gpus(VENDOR_NVIDIA)
    if snapshot is not None:
        seen = {gpu.pci_bus_id for gpu in snapshot.devices}
        hidden = [f.pci_bus_id for f in present if f.pci_bus_id not in seen]
        if hidden:
            found.builder.report.append(
                f"{len(hidden)} of {len(present)} NVIDIA GPUs are hidden from this process"
                f" (cgroup, container, or driver): {', '.join(hidden)}"
            )
        return "; ".join([reason, *snapshot.report[:1], *found.builder.report[-1:]])
    if present:
        found.builder.report.append(f"{reason}: names, UUIDs and NVLinks are not known")
    for index, function in enumerate(present):
        found.add_gpu(
            Device(
                id=f"gpu{index}",
                index=index,
                host=found.builder.host,
                vendor=Vendor.NVIDIA,
                pci_bus_id=function.pci_bus_id,
                numa_node=function.numa_node,
                cpus=function.cpus,
            ),
            None,
        )
    return reason


def _add_kfd_devices(found: _Found, gpus: tuple[KfdGpu, ...]) -> dict[int, str]:
    """Add AMD's devices; their ids by KFD node (partitions of one GPU share a PCI bus id)."""
    start = max((d.index + 1 for d in found.builder.devices), default=0)
    if start and gpus:
        found.builder.report.append(
            f"GPUs of two vendors: AMD's are numbered from {start} on, after NVIDIA's"
        )
    shared = Counter(gpu.pci_bus_id for gpu in gpus)
    doubled = [bus for bus, count in shared.items() if count > 1]
    if doubled:
        found.builder.report.append(
            f"partitions of one GPU share a PCI bus id ({', '.join(doubled)}): theirs are left out"
        )
    for index, gpu in enumerate(gpus):
        function = found.machine.pci.get(gpu.pci_bus_id)
        found.add_gpu(
            Device(
                id=f"gpu{start + index}",
                index=start + index,
                host=found.builder.host,
                vendor=Vendor.AMD,
                name=gpu.name,
                pci_bus_id=gpu.pci_bus_id if shared[gpu.pci_bus_id] == 1 else None,
                uuid=f"GPU-{gpu.unique_id:016x}" if gpu.unique_id else None,
                numa_node=function.numa_node if function else None,
                cpus=function.cpus if function else None,
                memory_bytes=gpu.memory_bytes,
                forwards=gpu.forwards,
            ),
            None,
            function,
        )
    return {gpu.node: f"gpu{start + index}" for index, gpu in enumerate(gpus)}


def _add_nics(found: _Found) -> None:
    for index, adapter in enumerate(found.machine.adapters):
        function = found.machine.pci[adapter.pci_bus_id]
        found.builder.nics.append(
            Nic(
                id=f"nic{index}",
                index=index,
                host=found.builder.host,
                name=adapter.name,
                pci_bus_id=adapter.pci_bus_id,
                numa_node=function.numa_node,
            )
        )
        found.endpoints.append(Endpoint(f"nic{index}", function, k.DEFAULT_PCIE_GENERATION))


def _add_xgmi(builder: GraphBuilder, gpus: tuple[KfdGpu, ...], ids: dict[int, str]) -> None:
    """One link per direct pair; KFD states its bandwidth on newer drivers only."""
    unstated = 0
    for gpu in gpus:
        for peer, bytes_per_s in gpu.peers.items():
            if peer not in ids or peer <= gpu.node:
                continue
            unstated += not bytes_per_s
            builder.link(
                LinkKind.XGMI,
                ids[gpu.node],
                ids[peer],
                bytes_per_s=bytes_per_s or k.XGMI_MI200.data_sheet,
                latency_s=k.LATENCY_XGMI,
                name="xGMI",
            )
    far = sum(peer in ids for gpu in gpus for peer in gpu.far_peers) // 2
    if far:
        builder.report.append(
            f"KFD names {far} more xGMI pairs without a link of their own: they are routed over"
            " what lies between"
        )
    if unstated:
        builder.report.append(
            f"KFD does not state the bandwidth of {unstated} xGMI links:"
            f" {k.XGMI_MI200.data_sheet / k.GB_PER_S:g} GB/s assumed"
        )


def _finish(builder: GraphBuilder, snapshot: NvmlSnapshot | None, name: str) -> Topology:
    ids = [f"gpu{gpu.index}" for gpu in snapshot.devices] if snapshot else []
    joined = _nvlinked(builder, ids)
    classes: dict[tuple[str, str], PathClass] = {}
    peers: dict[tuple[str, str], bool] = {}
    if snapshot is not None:
        classes = {
            (ids[i], ids[j]): found
            for (i, j), found in snapshot.distances.items()
            if (ids[i], ids[j]) not in joined
        }
        peers = {(ids[i], ids[j]): ok for (i, j), ok in snapshot.peer_access.items()}
    driver = snapshot.driver if snapshot else None
    return builder.build(
        name=re.sub(r"[^\w.-]", "-", name),
        origin="discovered: " + ("NVML and sysfs" if snapshot else "sysfs"),
        classes=classes,
        peer_access=peers,
        metadata={"driver": driver} if driver else {},
    )


def _nvlinked(builder: GraphBuilder, ids: list[str]) -> set[tuple[str, str]]:
    """Pairs that reach each other over NVLink without a relaying GPU."""
    gpus = set(ids)
    neighbours: dict[str, set[str]] = {}
    for link in builder.links:
        if link.kind is LinkKind.NVLINK:
            a, b = link.ends
            neighbours.setdefault(a, set()).add(b)
            neighbours.setdefault(b, set()).add(a)
    joined: set[tuple[str, str]] = set()
    for gpu in ids:
        reached, front = {gpu}, [gpu]
        while front:
            here = front.pop()
            for there in neighbours.get(here, ()):
                if there not in reached and not there.startswith("numa"):
                    reached.add(there)
                    if there not in gpus:
                        front.append(there)
        joined.update((gpu, other) for other in reached & gpus - {gpu})
    return joined


def _unplaced(pci_bus_id: str) -> PciDevice:
    return PciDevice(
        pci_bus_id=pci_bus_id,
        root="",
        bridges=(),
        vendor=VENDOR_NVIDIA,
        device=0,
        class_code=0x030200,
        numa_node=None,
        cpus=None,
        generation=None,
        width=None,
        max_width=None,
    )
