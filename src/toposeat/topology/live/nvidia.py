"""NVIDIA's GPUs of the live machine: NVML's devices, MIG slices, and what only sysfs shows."""

from __future__ import annotations

from typing import Any

from toposeat.model.topology import Device, LinkKind, PathClass, PcieState, Vendor
from toposeat.topology import products
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.machine import VENDOR_NVIDIA, PciDevice
from toposeat.topology.live.collection import Collection, pcie_state
from toposeat.topology.live.nvml import (
    MigSlice,
    NvmlDevice,
    NvmlMissingError,
    NvmlSnapshot,
    load_pynvml,
    read_nvml,
)

DeviceIds = dict[int, list[str]]  # ids of the devices by position in the snapshot


def ask_nvml(nvml: Any) -> tuple[NvmlSnapshot | None, str]:
    """What NVML tells, and why there is no GPU should there be none.

    Args:
        nvml: an object with the functions of `pynvml`; None loads the real one.
    """
    try:
        snapshot = read_nvml(load_pynvml() if nvml is None else nvml)
    except NvmlMissingError as error:
        return None, str(error)
    return snapshot, "NVML lists none"


def add_nvml_devices(found: Collection, snapshot: NvmlSnapshot) -> DeviceIds:
    """Add every GPU, or its MIG slices where it is cut into such.

    Whole GPUs keep NVML's number, slices are numbered after them: a number is for display, a slice
    is known by its UUID.
    """
    found.builder.report.extend(snapshot.report)
    whole = [gpu.index for gpu in snapshot.devices if not gpu.mig]
    next_slice = max((gpu.index for gpu in snapshot.devices), default=0) + 1 if whole else 0
    ids: DeviceIds = {}
    for position, gpu in enumerate(snapshot.devices):
        function = found.machine.pci.get(gpu.pci_bus_id)
        if gpu.mig:
            ids[position] = _add_slices(found, gpu, function, next_slice)
            next_slice += len(gpu.slices)
            continue
        device = _whole(found.builder.host, gpu, function)
        found.add_gpu(device, vendor=VENDOR_NVIDIA, generation=gpu.pcie.max_generation)
        ids[position] = [device.id]
        if gpu.inactive_links and gpu.links:
            found.builder.report.append(
                f"{device.id} has {gpu.inactive_links} inactive NVLinks beside"
                f" {len(gpu.links)} active ones"
            )
    return ids


def _whole(host: str, gpu: NvmlDevice, function: PciDevice | None) -> Device:
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
        pcie=_pcie(gpu, function),
        inactive_lanes=gpu.inactive_links if gpu.links or gpu.inactive_links else None,
    )


def _add_slices(
    found: Collection, gpu: NvmlDevice, function: PciDevice | None, first: int
) -> list[str]:
    if not gpu.slices:
        found.builder.report.append(
            f"NVML's GPU {gpu.index} ({gpu.pci_bus_id}) is in MIG mode without slices: nothing can"
            " run on it, so it is left out"
        )
        return []
    found.builder.report.append(
        f"NVML's GPU {gpu.index} ({gpu.pci_bus_id}) is in MIG mode: its {len(gpu.slices)}"
        f" slices, devices from {first} on, are known by UUID and have no peer access"
    )
    ids = []
    for number, piece in enumerate(gpu.slices, first):
        device = _slice(found.builder.host, gpu, piece, function, number)
        found.add_gpu(
            device,
            vendor=VENDOR_NVIDIA,
            generation=gpu.pcie.max_generation,
            function=function,
        )
        ids.append(device.id)
    return ids


def _slice(
    host: str, gpu: NvmlDevice, piece: MigSlice, function: PciDevice | None, index: int
) -> Device:
    return Device(
        id=f"gpu{index}",
        index=index,
        host=host,
        vendor=Vendor.NVIDIA,
        name=piece.name or f"{gpu.name} MIG",
        uuid=piece.uuid,
        numa_node=function.numa_node if function else None,
        cpus=(function.cpus if function else None) or gpu.cpus,
        memory_bytes=piece.memory_bytes,
        pcie=_pcie(gpu, function),
        parent=gpu.pci_bus_id,
    )


def _pcie(gpu: NvmlDevice, function: PciDevice | None) -> PcieState:
    """NVML's word on its link where it answers, else that of sysfs."""
    other = pcie_state(function) or PcieState()
    return PcieState(
        generation=gpu.pcie.generation or other.generation,
        width=gpu.pcie.width or other.width,
        max_generation=gpu.pcie.max_generation or other.max_generation,
        max_width=gpu.pcie.max_width or other.max_width,
    )


def add_unseen_nvidia(found: Collection, snapshot: NvmlSnapshot | None, reason: str) -> str:
    """GPUs that sysfs shows and NVML does not: hidden by a cgroup, or no driver at all.

    Hidden ones are no devices: a rank could not use them.

    Returns:
        Why there is no GPU, should there be none.
    """
    present = found.machine.gpus(VENDOR_NVIDIA)
    if snapshot is not None:
        seen = {gpu.pci_bus_id for gpu in snapshot.devices}
        hidden = [f.pci_bus_id for f in present if f.pci_bus_id not in seen]
        found.hide(hidden, len(present), "NVIDIA")
        return "; ".join([reason, *snapshot.report[:1], *found.builder.report[-1:]])
    if present:
        found.builder.report.append(f"{reason}: UUIDs and NVLinks are not known")
    for index, function in enumerate(present):
        device = Device(
            id=f"gpu{index}",
            index=index,
            host=found.builder.host,
            vendor=Vendor.NVIDIA,
            name=products.name_of_pci(VENDOR_NVIDIA, function.device),
            pci_bus_id=function.pci_bus_id,
            numa_node=function.numa_node,
            cpus=function.cpus,
            pcie=pcie_state(function),
        )
        found.add_gpu(device, vendor=VENDOR_NVIDIA)
    return reason


def stated_classes(
    builder: GraphBuilder, snapshot: NvmlSnapshot, ids: DeviceIds
) -> dict[tuple[str, str], PathClass]:
    """NVML's PCIe distances, for pairs that no NVLink joins."""
    joined = _nvlinked(builder, [id for each in ids.values() for id in each])
    return {
        pair: found
        for (i, j), found in snapshot.distances.items()
        for pair in _pairs(ids, i, j)
        if pair not in joined
    }


def stated_peers(snapshot: NvmlSnapshot, ids: DeviceIds) -> dict[tuple[str, str], bool]:
    """Whether peer access is possible, as NVML states it; never between MIG slices."""
    sliced = {i for i, gpu in enumerate(snapshot.devices) if gpu.mig}
    peers = {
        pair: ok and not sliced & {i, j}
        for (i, j), ok in snapshot.peer_access.items()
        for pair in _pairs(ids, i, j)
    }
    for position in sliced:
        peers.update({(a, b): False for a in ids[position] for b in ids[position] if a != b})
    return peers


def _pairs(ids: DeviceIds, i: int, j: int) -> list[tuple[str, str]]:
    return [(a, b) for a in ids.get(i, ()) for b in ids.get(j, ())]


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
