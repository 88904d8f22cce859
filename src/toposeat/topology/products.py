"""What a GPU is known to have by its product: the one table of it is `products.json`.

A source that says nothing of device links leaves open whether there are any; the product may settle
it. GPUs on a baseboard (SXM, OAM, superchips) always have NVLink, xGMI or Xe Link; cards may have
bridges; others never have a link of that kind. Where several products fit what a source calls a
device (compute capability 9.0 is a module or a card), all of them count.

Sources: pci.ids of pciutils and NVIDIA's gpu-admin-tools (PCI ids); NVIDIA's data sheets, white
papers and NVLink bridge tables (A10, A16, A2, L4, L40, T4 and all cards from Ada on have none; A800
and H800 have 8 links); AMD's data sheets and ROCm's pages on MI50 to MI355X (hives of two or four
cards by bridges up to MI210, each to each of eight modules from MI300X on), ServeTheHome on MI350P
(a card without); Intel's product briefs of the Max and Flex series; NVIDIA's list of compute
capabilities; LLVM's AMDGPU guide (gfx). Wiring of boards: the catalogue's machines, each with its
own sources.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from toposeat.model.topology import Device, Nic, PcieState, Vendor
from toposeat.topology import constants as k


class Product(Struct, frozen=True):
    """One product, or several that are alike in their links.

    Args:
        name: what people call it; "" stands for any product of a maker.
        vendor: its maker.
        pattern: found in the name that a tool or pci.ids gives it, in capitals.
        isa: compute capability (sm_90) or gfx number: a pattern of the whole.
        pcie: generation of its PCIe link.
        link: the name in `constants` of one of its device links; "" for a product without.
        lanes: how many a device has.
        ways: how boards join devices of it, the usual first: `switch` joins all of them, `each 4`
            each two by 4 lanes, `some 1` likewise by 1 lane, though lanes and pairs differ from
            board to board, `bridge 2x4` neighbours of two by 4 lanes, `like dgx-1v` as that machine
            of the catalogue does (`as` where all boards number their devices alike).
        always: whether every device of it is on such a board; else it may have bridges.
        ids: its PCI device ids, four digits of base 16.
        forwards: whether it relays the traffic of others.
        geforce: whether GeForce or TITAN cards are among it (`has_peer_access`).
    """

    name: str
    vendor: Vendor
    pattern: str = ""
    isa: str = ""
    pcie: int | None = None
    link: str = ""
    lanes: int = 0
    ways: tuple[str, ...] = ()
    always: bool = False
    ids: tuple[str, ...] = ()
    forwards: bool = False
    geforce: bool = False

    @property
    def lane(self) -> k.DeviceLink | None:
        """One of its device links; None for a product that has none."""
        found: k.DeviceLink | None = getattr(k, self.link) if self.link else None
        return found


@cache
def products() -> tuple[Product, ...]:
    """Every product of `products.json`, and what stands for one that no source tells, by maker."""
    text = Path(__file__).with_name("products.json").read_bytes()
    return tuple(msgspec.json.decode(text, type=list[Product]))


# RTX 2080 to RTX 5090 and TITAN RTX, with or without the word GeForce; no workstation card.
_NO_PEER_ACCESS = r"GEFORCE (RTX|GTX 16)|TITAN RTX|\bRTX [2-5]0[5-9]0|\bGTX 16[56]0"
_ISA = re.compile(r"sm_\d+|gfx[0-9a-f]+", re.ASCII)
VENDORS = {0x10DE: Vendor.NVIDIA, 0x1002: Vendor.AMD, 0x8086: Vendor.INTEL}


@cache
def products_named(name: str) -> tuple[Product, ...]:
    """All products that a device called like this may be; none where the name is not known."""
    if _ISA.fullmatch(name):
        return tuple(x for x in products() if x.isa and re.fullmatch(x.isa, name))
    return tuple(x for x in products() if name and x.name and re.search(x.pattern, name.upper()))


def products_of(device: Device) -> tuple[Product, ...]:
    """All products that a device may be; that of its maker without a name where it is untold."""
    known = products_named(device.name)
    return known or tuple(x for x in products() if not x.name and x.vendor is device.vendor)


def kind_of(device: Device) -> str:
    """What devices that are alike in their links are called: its product, or as it is named."""
    return " or ".join(product.name for product in products_named(device.name)) or device.name


def name_of_pci(vendor: int, device: int) -> str:
    """The product of PCI vendor and device ids; "" where it is not known."""
    maker = VENDORS.get(vendor)
    return next((p.name for p in products() if p.vendor is maker and f"{device:04x}" in p.ids), "")


def lane_named(name: str) -> k.DeviceLink | None:
    """One device link of a product; None where the name says nothing, or of several kinds."""
    lanes = {product.lane for product in products_named(name)} - {None}
    return lanes.pop() if len(lanes) == 1 else None


def lane_of(device: Device) -> k.DeviceLink:
    """One device link of a device, by its product, else by its maker."""
    by_maker = {Vendor.AMD: k.XGMI_UNKNOWN, Vendor.INTEL: k.XELINK}
    return lane_named(device.name) or by_maker.get(device.vendor, k.NVLINK_UNKNOWN)


def pcie_generation_named(name: str) -> int | None:
    """The PCIe generation a product was built for; None if the name says nothing."""
    return next((p.pcie for p in products_named(name) if p.pcie is not None), None)


def pcie_generation_of(end: Device | Nic) -> int | None:
    """The greatest PCIe generation of a device or NIC that is told, else that of its product."""
    state = end.pcie or PcieState()
    built = pcie_generation_named(end.name)
    return state.max_generation or awake(state.generation, built) or built


def pcie_width_of(end: Device | Nic) -> int:
    """The lanes of the PCIe link of a device or NIC: as many as it has, else as it can have."""
    state = end.pcie or PcieState()
    return state.width or state.max_width or 16


def awake(generation: int | None, built: int | None) -> int | None:
    """The generation that a link runs at; None at 2.5 GT/s if it was built for more: it is idle."""
    return None if generation == 1 < (built or 0) else generation


def has_peer_access(name: str) -> bool:
    """Whether the maker's driver lets devices called like this copy to each other over PCIe.

    NVIDIA's gives GeForce and TITAN cards none since Turing; all others have it as far as is known.
    So do cards of which only a list of products is known.
    """
    return " or " in name or not re.search(_NO_PEER_ACCESS, name.upper())


def isa_of_gfx_version(version: int) -> str:
    """KFD's `gfx_target_version` as a name: 90010 is gfx90a."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def forwards(name: str) -> bool:
    """Whether every product of this name relays the traffic of others."""
    found = products_named(name)
    return bool(found) and all(product.forwards for product in found)
