"""NVIDIA's GPUs of the live machine: NVML's devices, MIG slices, and what only sysfs shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toposeat.model.topology import Device, LinkKind, PathClass, PcieState, Vendor
from toposeat.topology import products
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.machine import VENDOR_NVIDIA, PciDevice
from toposeat.topology.live.collection import Collection, pcie_state
from toposeat.topology.live.nvml import (
    NvmlGpu,
    NvmlMissingError,
    NvmlSnapshot,
    load_pynvml,
    read_nvml,
)

DeviceIds = dict[int, list[str]]  # ids of the devices by position in the snapshot


def ask_nvml(nvml: Any) -> tuple[NvmlSnapshot | None, str]:
    """What NVML tells, None without NVML, and the reason to give if no GPU is found.

    Args:
        nvml: an object with the functions of `pynvml`; None loads the real one.
    """
    try:
        snapshot = read_nvml(load_pynvml() if nvml is None else nvml)
    except NvmlMissingError as error:
        return None, str(error)
    return snapshot, "NVML lists none"


def add_nvml_devices(found: Collection, snapshot: NvmlSnapshot) -> DeviceIds:
    """Add every GPU, or its MIG slices where it is in MIG mode.

    Whole GPUs keep NVML's number, slices are numbered after them: a number is for display, a slice
    is known by its UUID.
    """
    found.builder.report.extend(snapshot.report)
    whole = [gpu.device.number for gpu in snapshot.gpus if not gpu.mig]
    next_slice = max((gpu.device.number for gpu in snapshot.gpus), default=0) + 1 if whole else 0
    ids: DeviceIds = {}
    for position, gpu in enumerate(snapshot.gpus):
        if gpu.mig:
            _report_slices(found, gpu, next_slice)
            devices = [
                replace(each, id=f"gpu{number}", index=number)
                for number, each in enumerate(gpu.slices, next_slice)
            ]
            next_slice += len(devices)
        else:
            devices = [gpu.device]
            inactive = gpu.device.inactive_lanes
            if inactive and gpu.links:
                found.builder.report.append(
                    f"{gpu.device.id} has {inactive} inactive NVLinks beside {len(gpu.links)}"
                    " active ones"
                )
        for device in devices:
            _add(found, device, found.machine.pci.get(gpu.bus))
        ids[position] = [device.id for device in devices]
    return ids


def _add(found: Collection, device: Device, function: PciDevice | None) -> None:
    """Add a device at its PCI function; NVML's word on its link counts where it answers."""
    told, other = device.pcie or PcieState(), pcie_state(function) or PcieState()
    placed = replace(
        device,
        host=found.builder.host,
        numa_node=function.numa_node if function else None,
        cpus=(function.cpus if function else None) or device.cpus,
        pcie=PcieState(
            generation=told.generation or other.generation,
            width=told.width or other.width,
            max_generation=told.max_generation or other.max_generation,
            max_width=told.max_width or other.max_width,
        ),
    )
    found.add_gpu(placed, vendor=VENDOR_NVIDIA, generation=told.max_generation, function=function)


def _report_slices(found: Collection, gpu: NvmlGpu, first: int) -> None:
    what = f"NVML's GPU {gpu.device.index} ({gpu.bus}) is in MIG mode"
    found.builder.report.append(
        f"{what}: its {len(gpu.slices)} slices, devices from {first} on, are known by UUID and have"
        " no peer access"
        if gpu.slices
        else f"{what} without slices: nothing can run on it, so it is left out"
    )


def add_unseen_nvidia(found: Collection, snapshot: NvmlSnapshot | None, reason: str) -> str:
    """Note GPUs that NVML does not list: a cgroup hides them, or there is no driver.

    GPUs that a cgroup hides do not become devices, because no rank can use them.

    Returns:
        The reason to give if no GPU is found.
    """
    present = found.machine.gpus(VENDOR_NVIDIA)
    if snapshot is not None:
        seen = {gpu.bus for gpu in snapshot.gpus}
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
    sliced = {i for i, gpu in enumerate(snapshot.gpus) if gpu.mig}
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
