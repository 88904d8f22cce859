"""Intel's GPUs of the live machine, as the kernel drivers i915 and xe show them in sysfs.

A tile is a device, as in Level Zero's default (flat) hierarchy. sysfs tells which cards have Xe
Link, not who is joined to whom: `xpu-smi topology -m` knows that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path

from toposeat.model.topology import Device, Vendor
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.pci_graph import VENDOR_INTEL, PciDevice
from toposeat.topology.live.collection import Collection, can_render
from toposeat.topology.live.sysfs import entries_of, read_number

_FABRIC_FOLDERS = ("iaf.*", "i915.iaf.*")  # of older and newer drivers


@dataclass(frozen=True, kw_only=True, slots=True)
class IntelCard:
    """One card. `memory_bytes` has one entry per tile, None where the driver does not tell."""

    function: PciDevice
    memory_bytes: tuple[int | None, ...]
    fabric_id: int | None
    usable: bool


def read_intel(found: Collection, sysfs: Path, dev: Path | None) -> tuple[IntelCard, ...]:
    """Discrete Intel GPUs that a compute driver serves, in PCI bus order."""
    cards = []
    for function in found.machine.gpus(VENDOR_INTEL):
        folder = sysfs / "bus" / "pci" / "devices" / function.pci_bus_id
        nodes = sorted(path.name for path in _glob(folder / "drm", "*[0-9]"))
        card = next((name for name in nodes if name.startswith("card")), None)
        if card is not None:
            cards.append(
                IntelCard(
                    function=function,
                    memory_bytes=_memory_of_tiles(folder, folder / "drm" / card),
                    fabric_id=_fabric_id(folder),
                    usable=can_render(dev, next((n for n in nodes if n.startswith("renderD")), "")),
                )
            )
    return tuple(cards)


def add_intel_devices(found: Collection, cards: tuple[IntelCard, ...]) -> None:
    """Add every tile of every card that this process may open."""
    hidden = [card.function.pci_bus_id for card in cards if not card.usable]
    found.hide(hidden, len(cards), "Intel")
    usable = [card for card in cards if card.usable]
    start = found.next_index
    if start and usable:
        found.builder.report.append(
            f"GPUs of several vendors: Intel's are numbered from {start} on"
        )
    for card in usable:
        for tile, memory in enumerate(card.memory_bytes):
            found.add_gpu(
                _device(found, card, tile, memory), vendor=VENDOR_INTEL, function=card.function
            )
    linked = [card.function.pci_bus_id for card in usable if card.fabric_id is not None]
    if len(linked) > 1:
        found.builder.report.append(
            f"{len(linked)} GPUs have Xe Link, but sysfs does not tell which are joined: their PCIe"
            " paths are shown (merge with `xpu-smi topology -m`: discover -t this -t FILE)"
        )


def add_tile_links(builder: GraphBuilder) -> None:
    """The link inside a card between each two of its tiles (Max 1550: Multi-Die Fabric)."""
    tiles: dict[str, list[str]] = {}
    for device in builder.devices:
        if device.vendor is Vendor.INTEL and device.parent:
            tiles.setdefault(device.parent, []).append(device.id)
    for members in tiles.values():
        for a, b in combinations(members, 2):
            builder.device_link(a, b, k.MDF, 1, port=False)


def _device(found: Collection, card: IntelCard, tile: int, memory: int | None) -> Device:
    function = card.function
    tiles = len(card.memory_bytes)
    index = found.next_index
    known = products.name_of_pci(VENDOR_INTEL, function.device)
    product = known or f"Intel GPU {function.device:#06x}"
    return Device(
        id=f"gpu{index}",
        index=index,
        vendor=Vendor.INTEL,
        name=product + (f" tile {tile}" if tiles > 1 else ""),
        pci_bus_id=function.pci_bus_id if tiles == 1 else None,
        memory_bytes=memory,
        parent=function.pci_bus_id if tiles > 1 else "",
    )


def _memory_of_tiles(folder: Path, card: Path) -> tuple[int | None, ...]:
    """Xe has a folder per tile beside the PCI files, i915 one per tile (`gt`) below the card."""
    tiles = _numbered(folder, "tile")
    if tiles:
        return tuple(read_number(tile / "physical_vram_size_bytes") for tile in tiles)
    count = max(1, len(_numbered(card / "gt", "gt")))
    total = read_number(card / "lmem_total_bytes")
    return (total // count if total else None,) * count


def _fabric_id(folder: Path) -> int | None:
    for pattern in _FABRIC_FOLDERS:
        for entry in _glob(folder, pattern):
            number = read_number(entry / "iaf_fabric_id")
            if number is not None:
                return number
    return None


def _numbered(folder: Path, stem: str) -> list[Path]:
    return sorted(
        (path for path in _glob(folder, f"{stem}*") if re.fullmatch(rf"{stem}\d+", path.name)),
        key=lambda path: int(path.name[len(stem) :]),
    )


def _glob(folder: Path, pattern: str) -> list[Path]:
    return [entry for entry in entries_of(folder) if fnmatchcase(entry.name, pattern)]
