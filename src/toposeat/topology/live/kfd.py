"""AMD GPUs as the kernel driver (KFD) lists them: devices and direct xGMI links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from toposeat.model.topology import canonical_pci
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.kfd_node import FORWARDING_GFX, PARTITIONED_GFX
from toposeat.topology.live.small_file import TreePath, entries_of, read_small
from toposeat.topology.live.sysfs import read_line

_XGMI = 11  # CRAT link type; 2 is PCIe


@dataclass(frozen=True, kw_only=True, slots=True)
class KfdGpu:
    """One GPU node.

    `links` are its xGMI links as the driver states them, by the node at the other end. `board` is
    the bus id of the GPU that the node is, or is a partition of: the driver writes a partition's
    number into the function digit of its own id (Linux 6.6), or above all of it (before).
    """

    node: int
    pci_bus_id: str
    board: str
    render_minor: int | None  # of /dev/dri/renderD<minor>
    name: str
    memory_bytes: int | None
    unique_id: int
    forwards: bool
    lane: k.DeviceLink  # what one of its xGMI links is by data sheet
    links: dict[int, dict[str, int]]


def unreadable_nodes(root: TreePath = Path("/sys")) -> int:
    """How many nodes the kernel refuses to show: those of GPUs outside the process's cgroup."""
    count = 0
    for entry in _nodes(root):
        try:
            read_small(entry / "properties", 1)
        except OSError:
            count += 1
    return count


def read_kfd(root: TreePath = Path("/sys")) -> tuple[KfdGpu, ...]:
    """GPUs of the KFD topology in node order; empty if there is no such driver."""
    gpus = (_gpu(entry) for entry in _nodes(root))
    return tuple(gpu for gpu in gpus if gpu is not None)


def _nodes(root: TreePath) -> list[TreePath]:
    folder = root / "class" / "kfd" / "kfd" / "topology" / "nodes"
    return sorted((e for e in entries_of(folder) if e.name.isdecimal()), key=lambda e: int(e.name))


def _gpu(entry: TreePath) -> KfdGpu | None:
    properties = _properties(entry / "properties")
    if not properties.get("simd_count"):
        return None
    location = properties.get("location_id", 0) & 0xFFFF
    gfx = properties.get("gfx_target_version", 0)
    links = _xgmi_links(entry)
    slot = f"{properties.get('domain', 0):04x}:{location >> 8:02x}:{location >> 3 & 31:02x}"
    bus = canonical_pci(f"{slot}.{location & 7}")
    return KfdGpu(
        node=int(entry.name),
        pci_bus_id=bus,
        board=canonical_pci(f"{slot}.0") if gfx in PARTITIONED_GFX else bus,
        render_minor=properties.get("drm_render_minor") or None,
        name=read_line(entry / "name") or "",
        memory_bytes=_memory(entry),
        unique_id=properties.get("unique_id", 0),
        forwards=gfx == FORWARDING_GFX,
        lane=products.lane_named(products.isa_of_gfx_version(gfx)) or k.XGMI_UNKNOWN,
        links={link["node_to"]: link for link in links},
    )


def _memory(entry: TreePath) -> int | None:
    """Bytes of the banks that are the device's own (heap types 1 and 2)."""
    banks = [_properties(bank / "properties") for bank in entries_of(entry / "mem_banks")]
    total = sum(b.get("size_in_bytes", 0) for b in banks if b.get("heap_type") in (1, 2))
    return total or None


def _xgmi_links(entry: TreePath) -> list[dict[str, int]]:
    links = [_properties(link / "properties") for link in entries_of(entry / "io_links")]
    return [link for link in links if link.get("type") == _XGMI and "node_to" in link]


def _properties(path: TreePath) -> dict[str, int]:
    try:
        text = read_small(path).decode("ascii", "replace")
    except OSError:
        return {}
    return {key: int(n) for key, n in re.findall(r"^(\w+) (\d{1,20})$", text, re.MULTILINE)}
