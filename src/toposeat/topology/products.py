"""What a GPU is known to have by its product: the one table of product knowledge.

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
        lane: one of its device links; None for a product that has none.
        lanes: how many a device has.
        ways: how boards join devices of it, the usual first: `switch` joins all of them, `each 4`
            each two by 4 lanes, `some 1` likewise by 1 lane, though lanes and pairs differ from
            board to board, `bridge 2x4` neighbours of two by 4 lanes, `like dgx-1v` as that machine
            of the catalogue does (`as` where all boards number their devices alike).
        always: whether every device of it is on such a board; else it may have bridges.
        ids: its PCI device ids.
        forwards: whether it relays the traffic of others.
    """

    name: str
    vendor: Vendor
    pattern: str
    isa: str
    pcie: int | None
    lane: k.DeviceLink | None = None
    lanes: int = 0
    ways: tuple[str, ...] = ()
    always: bool = False
    ids: tuple[int, ...] = ()
    forwards: bool = False


_N, _A, _I = Vendor.NVIDIA, Vendor.AMD, Vendor.INTEL
_BOARD = ("switch", "each 4"), True  # eight around switches, or four each to each
_HOPPER = ("switch", "each 6"), True
_CARD = ("bridge 2x12",)

# fmt: off
PRODUCTS: tuple[Product, ...] = (
    # ---- NVIDIA: modules
    Product("NVIDIA P100-SXM2", _N, r"\bP100(?!.*PCI)", "sm_60", 3, k.NVLINK1, 4,
            ("like dgx-1p", "like minsky-4", "some 1"), True, (0x15F9,)),
    Product("NVIDIA V100-SXM2", _N, r"\bV100(?!.*(PCI|FHHL|SXM3|DGXS))", "sm_70", 3, k.NVLINK2, 6,
            ("like dgx-1v", "like power9-4", "like summit-6", "some 1"), True,
            (0x1DB1, 0x1DB5, 0x1DF5)),
    Product("NVIDIA V100-SXM3", _N, r"\bV100-?\s?SXM3", "sm_70", 3, k.NVLINK2, 6,
            ("like dgx-2", "switch"), True, (0x1DB8,)),
    Product("NVIDIA V100-DGXS", _N, r"\bV100-?\s?DGXS", "sm_70", 3, k.NVLINK2, 4,
            ("some 1",), True, (0x1DB2, 0x1DB7)),
    Product("NVIDIA A100-SXM4", _N, r"\bA100(?!X|.*PCI)", "sm_80", 4, k.NVLINK3, 12,
            *_BOARD, (0x20B0, 0x20B2, 0x20B3)),
    Product("NVIDIA A800-SXM4", _N, r"\bA800(?!.*PCI)", "sm_80", 4, k.NVLINK3, 8,
            ("switch",), True, (0x20F3,)),
    Product("NVIDIA H100 SXM5", _N, r"\bH100(?!.*(PCI|NVL|CNX))", "sm_90", 5, k.NVLINK4, 18,
            *_HOPPER, (0x2330, 0x2339)),
    Product("NVIDIA H200", _N, r"\bH200(?!.*NVL)", "sm_90", 5, k.NVLINK4, 18, *_HOPPER, (0x2335,)),
    Product("NVIDIA H800", _N, r"\bH800(?!.*(PCI|NVL))", "sm_90", 5, k.NVLINK4, 8,
            ("switch",), True, (0x2324,)),
    Product("NVIDIA H20", _N, r"\bH20\b", "sm_90", 5, k.NVLINK4, 18,
            ("switch",), True, (0x2329, 0x232C)),
    Product("NVIDIA GH200", _N, r"\bGH200", "sm_90", 5, k.NVLINK4, 18,
            ("each 6", "switch"), True, (0x2342, 0x2343, 0x2345, 0x2348)),
    Product("NVIDIA B100, B200 or B300", _N, r"\bG?B[123]00\b", r"sm_10[03]", 5, k.NVLINK5, 18,
            ("switch",), True, (0x2901, 0x29BC, 0x2941, 0x3182, 0x31C2, 0x31C3)),
    # ---- NVIDIA: cards with bridges
    Product("NVIDIA Quadro GP100", _N, r"QUADRO GP100", "sm_60", 3, k.NVLINK1, 4,
            ("bridge 2x4",), False, (0x15F0,)),
    Product("NVIDIA Quadro GV100", _N, r"QUADRO GV100", "sm_70", 3, k.NVLINK2, 4,
            ("bridge 2x4",), False, (0x1DBA,)),
    Product("NVIDIA RTX 2080 Ti, TITAN RTX or Quadro RTX 6000", _N,
            r"RTX 2080 TI|TITAN RTX|QUADRO RTX [68]000", "sm_75", 3, k.NVLINK2, 2,
            ("bridge 2x2",)),
    Product("NVIDIA RTX 2080 or Quadro RTX 5000", _N, r"RTX 20[78]0 SUPER|RTX 2080(?! TI)"
            r"|QUADRO RTX 5000", "sm_75", 3, k.NVLINK2, 1, ("bridge 2x1",)),
    Product("NVIDIA A100 PCIe", _N, r"\bA100(?!.*SXM)", "sm_80", 4, k.NVLINK3, 12,
            _CARD, False, (0x20B1, 0x20B5, 0x20B8, 0x20F1)),
    Product("NVIDIA A800 PCIe", _N, r"\bA800(?!.*SXM)", "sm_80", 4, k.NVLINK3, 8,
            ("bridge 2x8",), False, (0x20F5, 0x20F6)),
    Product("NVIDIA A30", _N, r"\bA30X?\b", "sm_80", 4, k.NVLINK3, 4,
            ("bridge 2x4",), False, (0x20B7, 0x20B9)),
    Product("NVIDIA RTX 3090, A6000, A5500, A5000, A4500 or A40", _N,
            r"\bA40\b|A6000|A5500|A5000|A4500|3090", "sm_86", 4, k.NVLINK3_BRIDGE, 4,
            ("bridge 2x4",), False, (0x2235,)),
    Product("NVIDIA H100 PCIe or NVL", _N, r"\bH100(?!.*(HBM3|SXM))", "sm_90", 5, k.NVLINK4, 12,
            _CARD, False, (0x2313, 0x2321, 0x2331)),
    Product("NVIDIA H200 NVL", _N, r"\bH200.*NVL", "sm_90", 5, k.NVLINK4, 18,
            ("bridge 4x6", "bridge 2x18"), False, (0x233B,)),
    Product("NVIDIA H800 PCIe", _N, r"\bH800.*(PCI|NVL)", "sm_90", 5, k.NVLINK4, 8,
            ("bridge 2x8",), False, (0x2322, 0x233A)),
    # ---- NVIDIA: none
    Product("NVIDIA P100 PCIe", _N, r"\bP100(?!.*SXM)", "sm_60", 3, ids=(0x15F7, 0x15F8)),
    Product("NVIDIA V100 PCIe", _N, r"\bV100(?!.*(SXM|DGXS))|\bV100S", "sm_70", 3,
            ids=(0x1DB3, 0x1DB4, 0x1DB6, 0x1DF6)),
    Product("NVIDIA TITAN V", _N, r"TITAN V\b", "sm_70", 3, ids=(0x1D81,)),
    Product("NVIDIA T4 or small Turing", _N,
            r"\bT4G?\b|RTX 20[567]0(?! SUPER)|GTX 16|QUADRO RTX [34]000|\bT(4|6|10)00\b", "sm_75",
            3, ids=(0x1EB4, 0x1EB8)),
    Product("NVIDIA A10, A16, A2 or small Ampere", _N,
            r"\bA1[06][GM]?\b|\bA2\b|RTX 30(?!90)|\bA[1-4]000", "sm_8[67]", 4,
            ids=(0x2236, 0x2237, 0x2238, 0x25B6)),
    Product("NVIDIA L4, L40 or Ada", _N, r"RTX 40\d0|\bL40?[SG]?\b|\bL20?\b|\bADA\b", "sm_89", 4,
            ids=(0x26B5, 0x26B8, 0x26B9, 0x27B8)),
    Product("NVIDIA RTX 50, RTX PRO or GB10", _N, r"RTX 50\d0|RTX PRO|\bGB10\b", r"sm_12\d", 5),
    Product("NVIDIA Kepler, Maxwell or Pascal card", _N,
            r"\bK[248]0|\bM(4|6|10)0?\b|\bP(4|6|40)\b|GTX (7|8|9|10)\d\d|TITAN X|10[678]0"
            r"|QUADRO [KMP]\d|\bG(K|M)\d{3}|\bGP10[2-8]|KEPLER", r"sm_(3\d|5\d|6[12]|72)", 3,
            ids=(0x1021, 0x1023, 0x1024, 0x1028, 0x102D, 0x118F, 0x17FD, 0x13F2, 0x1B38, 0x1BB3)),
    Product("NVIDIA Fermi card", _N, r"\b[CM]20\d0|\bM2075|\bGF1|FERMI", "sm_2[01]", 2,
            ids=(0x06D1, 0x06D2, 0x1091, 0x1094, 0x1096)),
    # ---- AMD
    Product("AMD Instinct MI300A", _A, r"\bMI300A", "gfx94[02]", 5, k.XGMI_MI300, 6,
            ("each 2",), True, (0x74A0,)),
    Product("AMD Instinct MI300X", _A, r"\bMI300X?\b", "gfx94[12]", 5, k.XGMI_MI300, 7,
            ("each 1",), True, (0x74A1, 0x74A9, 0x74B5, 0x74BD)),
    Product("AMD Instinct MI308X", _A, r"\bMI308", "gfx942", 5, k.XGMI_MI300, 7,
            ("each 1",), True, (0x74A2,)),
    Product("AMD Instinct MI325X", _A, r"\bMI325", "gfx942", 5, k.XGMI_MI300, 7,
            ("each 1",), True, (0x74A5, 0x74B9)),
    Product("AMD Instinct MI350X", _A, r"\bMI350(?!P)", "gfx950", 5, k.XGMI_MI350, 7,
            ("each 1",), True, (0x75A0,)),
    Product("AMD Instinct MI355X", _A, r"\bMI355", "gfx950", 5, k.XGMI_MI350, 7,
            ("each 1",), True, (0x75A3,)),
    Product("AMD Instinct MI350P", _A, r"\bMI350P", "gfx950", 5),
    Product("AMD Instinct MI250X", _A, r"\bMI250X(?!/)", "gfx9(0a|10)", 4, k.XGMI_MI200, 8,
            ("as mi250x-8",), True, (0x7408,), forwards=True),
    Product("AMD Instinct MI250X or MI250", _A, r"\bMI250\b|\bMI250X OR", "gfx9(0a|10)", 4,
            k.XGMI_MI200, 8, ("like mi250x-8", "some 1"), True, (0x740C,), forwards=True),
    Product("AMD Instinct MI210", _A, r"\bMI210", "gfx9(0a|10)", 4, k.XGMI_MI200, 3,
            ("bridge 4x1", "bridge 2x3"), False, (0x740F,), forwards=True),
    Product("AMD Instinct MI100", _A, r"\bMI100", "gfx908", 4, k.XGMI_MI100, 3,
            ("bridge 4x1", "bridge 2x1"), False, (0x738C, 0x738E)),
    Product("AMD Radeon Instinct MI60 or MI50", _A, r"\bMI[56]0\b|VEGA ?20|PRO VII\b|VEGA II\b",
            "gfx906", 4, k.XGMI_VEGA20, 2, ("like mi60-8", "bridge 2x1"), False,
            (0x66A0, 0x66A1)),
    Product("AMD Radeon Instinct MI25", _A, r"\bMI(6|8|25)\b|VEGA 10", "gfx(8\\d\\d|900)", 3,
            ids=(0x6860, 0x6864)),
    Product("AMD Radeon", _A, r"RADEON (RX|HD|VII|R[579]|PRO W|PRO V\d|AI PRO)|\bRX [4-9]\d\d0"
            r"|NAVI|TAHITI", r"gfx([67]\d\d|1[0-2]\w\w)", None),
    # ---- Intel
    Product("Intel Max 1550 or 1350", _I, r"MAX 1[35]50|\(2 TILE\)", "-", 5, k.XELINK, 32,
            ("like aurora-12", "some 2"), True, (0x0BD0, 0x0BD5, 0x0BD6, 0x0BD7, 0x0BD8)),
    Product("Intel Max 1100", _I, r"MAX 1100", "-", 5, k.XELINK, 24, ("bridge 2x24", "bridge 4x8"),
            False, (0x0BD9, 0x0BDA, 0x0BDB)),
    Product("Intel Flex or Arc", _I, r"\bFLEX\b|\bARC\b|\bDG[12]\b|IRIS|\bB[56]0\b", "-", 4,
            ids=(0x56C0, 0x56C1)),
)
# What stands for a product that no source tells, by maker.
UNTOLD: dict[Vendor, Product] = {
    _N: Product("", _N, "", "", None, k.NVLINK_UNKNOWN, 12,
                ("switch", "like dgx-1v", "like power9-4", "like summit-6", "bridge 2x4")),
    _A: Product("", _A, "", "", None, k.XGMI_UNKNOWN, 7, ("each 1", "like mi250x-8", "bridge 2x1")),
    _I: Product("", _I, "", "", None, k.XELINK, 24, ("some 2", "bridge 2x24")),
}
# fmt: on

# RTX 2080 to RTX 5090 and TITAN RTX, with or without the word GeForce; no workstation card.
_NO_PEER_ACCESS = r"GEFORCE (RTX|GTX 16)|TITAN RTX|\bRTX [2-5]0[5-9]0|\bGTX 16[56]0"
_ISA = re.compile(r"sm_\d+|gfx[0-9a-f]+", re.ASCII)
_VENDOR_IDS = {0x10DE: _N, 0x1002: _A, 0x8086: _I}


@cache
def products_named(name: str) -> tuple[Product, ...]:
    """All products that a device called like this may be; none where the name is not known."""
    if _ISA.fullmatch(name):
        return tuple(each for each in PRODUCTS if re.fullmatch(each.isa, name))
    return tuple(each for each in PRODUCTS if name and re.search(each.pattern, name.upper()))


def products_of(device: Device) -> tuple[Product, ...]:
    """All products that a device may be; that of its maker without a name where it is untold."""
    known = products_named(device.name)
    if known:
        return known
    untold = UNTOLD.get(device.vendor)
    return (untold,) if untold else ()


def name_of_pci(vendor: int, device: int) -> str:
    """The product of PCI vendor and device ids; "" where it is not known."""
    maker = _VENDOR_IDS.get(vendor)
    return next((p.name for p in PRODUCTS if p.vendor is maker and device in p.ids), "")


def lane_named(name: str) -> k.DeviceLink | None:
    """One device link of a product; None where the name says nothing, or of several kinds."""
    lanes = {product.lane for product in products_named(name)} - {None}
    return lanes.pop() if len(lanes) == 1 else None


def lane_of(device: Device) -> k.DeviceLink:
    """One device link of a device, by its product, else by its maker."""
    by_maker = {_A: k.XGMI_UNKNOWN, _I: k.XELINK}
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
