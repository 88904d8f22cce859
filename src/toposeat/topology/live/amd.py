"""AMD's GPUs of the live machine: what KFD lists, partitions, xGMI, and what is hidden."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from toposeat.model.topology import Device, Vendor
from toposeat.topology import products
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.kfd_graph import KfdNode, XgmiGpu
from toposeat.topology.graph.kfd_graph import add_xgmi as add_bonds
from toposeat.topology.graph.pci_graph import VENDOR_AMD, PciDevice
from toposeat.topology.live.collection import Collection, can_render
from toposeat.topology.live.sysfs import entries_of, read_line, read_small

_NODES = "class/kfd/kfd/topology/nodes"


def add_amd_devices(
    found: Collection, sysfs: Path, dev: Path | None
) -> tuple[tuple[KfdNode, ...], dict[int, str]]:
    """Add AMD's devices.

    Returns:
        The usable GPUs, and the ids of their devices by KFD node (partitions share a bus id).
    """
    listed = read_kfd(sysfs)
    gpus = tuple(gpu for gpu in listed if _usable(gpu, dev))
    _hide(found, sysfs, listed, gpus)
    start = found.next_index
    if start and gpus:
        found.builder.report.append(
            f"GPUs of two vendors: AMD's are numbered from {start} on, after NVIDIA's"
        )
    shared = Counter(gpu.bus for gpu in gpus)
    doubled = [bus for bus, count in shared.items() if count > 1]
    if doubled:
        found.builder.report.append(
            f"partitions of one GPU share a PCI bus id ({', '.join(doubled)}): theirs are left out"
        )
    boards = Counter(gpu.board for gpu in gpus)
    for index, gpu in enumerate(gpus, start):
        part = boards[gpu.board] > 1
        function = _function(found, gpu, part)
        bus = gpu.bus if shared[gpu.bus] == 1 else None
        device = Device(
            id=f"gpu{index}",
            index=index,
            vendor=Vendor.AMD,
            name=_name(sysfs, gpu, function),
            pci_bus_id=bus,
            uuid=gpu.uuid,
            memory_bytes=gpu.memory_bytes,
            forwards=gpu.forwards,
            parent=gpu.board if part else "",
        )
        found.add_gpu(device, vendor=VENDOR_AMD, function=function)
    return gpus, {gpu.number: f"gpu{index}" for index, gpu in enumerate(gpus, start)}


def _usable(gpu: KfdNode, dev: Path | None) -> bool:
    """Whether this process may open the render node, by which ROCm uses a GPU."""
    minor = gpu.told("drm_render_minor")
    return can_render(dev, f"renderD{minor}" if minor else "")


def _hide(
    found: Collection, sysfs: Path, listed: tuple[KfdNode, ...], usable: tuple[KfdNode, ...]
) -> None:
    """Note GPUs whose render node is missing, or whose KFD node the kernel refuses to show."""
    left = {gpu.board for gpu in listed} - {gpu.board for gpu in usable}
    boards = {gpu.board for gpu in listed}
    if unreadable_nodes(sysfs):
        present = [f.pci_bus_id for f in found.machine.gpus(VENDOR_AMD)]
        left |= set(present) - boards
        boards |= set(present)
    found.hide(sorted(left), len(boards), "AMD")


def _function(found: Collection, gpu: KfdNode, part: bool) -> PciDevice | None:
    """The PCI function behind a device; partitions have that of the whole GPU."""
    pci = found.machine.pci
    return (None if part else pci.get(gpu.bus)) or pci.get(gpu.board)


def _name(sysfs: Path, gpu: KfdNode, function: PciDevice | None) -> str:
    """The product's name where the driver knows it, and how the GPU is cut."""
    if function is None:
        return gpu.name
    folder = sysfs / "bus" / "pci" / "devices" / function.pci_bus_id
    by_id = products.name_of_pci(VENDOR_AMD, function.device)
    name = read_line(folder / "product_name") or by_id or gpu.name
    modes = [
        read_line(folder / f"current_{what}_partition") or "" for what in ("compute", "memory")
    ]
    cut = "/".join(mode for mode in modes if mode and mode not in ("SPX", "UNKNOWN"))
    return f"{name} ({cut})" if modes[0] not in ("", "SPX", "UNKNOWN") else name


def add_xgmi(builder: GraphBuilder, gpus: tuple[KfdNode, ...], ids: dict[int, str]) -> None:
    """One bond per direct pair; partitions share those of their GPU."""
    buses: dict[str, set[str]] = {}
    for gpu in gpus:
        buses.setdefault(gpu.board, set()).add(gpu.bus)
    add_bonds(
        builder, [XgmiGpu(ids[gpu.number], gpu, part=len(buses[gpu.board]) > 1) for gpu in gpus]
    )


# ---- the nodes of AMD's kernel driver (KFD) as they are in sysfs


def unreadable_nodes(root: Path = Path("/sys")) -> int:
    """How many nodes the kernel refuses to show: those of GPUs outside the process's cgroup."""
    count = 0
    for entry in _folders(root / _NODES):
        try:
            read_small(entry / "properties", 1)
        except OSError:
            count += 1
    return count


def read_kfd(root: Path = Path("/sys")) -> tuple[KfdNode, ...]:
    """GPUs of the KFD topology in node order; empty if there is no such driver."""
    return tuple(node for node in kfd_nodes(root / _NODES) if node.is_gpu)


def kfd_nodes(folder: Path) -> list[KfdNode]:
    """All nodes below the folder of KFD's nodes, by number."""
    return [
        KfdNode(
            number=int(entry.name),
            name=read_line(entry / "name") or "",
            properties=_properties(entry),
            links=[_properties(link) for link in entries_of(entry / "io_links")],
            memory=[_properties(bank) for bank in entries_of(entry / "mem_banks")],
        )
        for entry in _folders(folder)
    ]


def _folders(nodes: Path) -> list[Path]:
    entries = (entry for entry in entries_of(nodes) if entry.name.isdecimal())
    return sorted(entries, key=lambda entry: int(entry.name))


def _properties(folder: Path) -> dict[str, int]:
    try:
        text = read_small(folder / "properties").decode("ascii", "replace")
    except OSError:
        return {}
    return {key: int(n) for key, n in re.findall(r"^(\w+) (\d{1,20})$", text, re.MULTILINE)}
