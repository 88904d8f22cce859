"""What stands between peer copies on this node: IOMMU, PCIe access control, relaxed ordering.

The kernel tells everybody how it translates the addresses of a device (its IOMMU group) and how it
was started; of the configuration space of PCI only root sees more than 64 bytes. Registers: PCI
Express base specification, "Device Control Register" and "Access Control Services".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from toposeat.model.few import listed
from toposeat.model.health import Finding
from toposeat.topology.graph.pci_graph import PciDevice
from toposeat.topology.health.findings import finding
from toposeat.topology.live.sysfs import read_line, read_small, read_sysfs

_HEAD, _CONFIG = 64, 4096  # bytes that all users see, and all there are
_EXPRESS, _ACS = 0x10, 0x000D  # capabilities
_RELAXED = 1 << 4
_REDIRECTS = {1 << 2: "ReqRedir", 1 << 3: "CmpltRedir", 1 << 4: "UpstreamFwd"}  # as lspci says
_TRANSLATES = ("DMA", "DMA-FQ", "DMA-SQ")
_PARAMETERS = ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "pcie_acs_override")


def findings_of_paths(
    sysfs: Path = Path("/sys"), cmdline: Path = Path("/proc/cmdline")
) -> tuple[Finding, ...]:
    """Findings on the way between the GPUs of a node; none where there are not two of them."""
    machine = read_sysfs(sysfs)
    gpus = [function for _, function in sorted(machine.pci.items()) if function.is_gpu]
    if len(gpus) < 2:
        return ()
    folder = sysfs / "bus" / "pci" / "devices"
    nics = dict.fromkeys(adapter.pci_bus_id for adapter in machine.adapters)
    ends = [*(gpu.pci_bus_id for gpu in gpus), *nics]
    return (
        *_iommu(folder, gpus, read_line(cmdline) or ""),
        *_access_control(folder, gpus),
        *_relaxed_ordering(folder, ends),
    )


def _iommu(folder: Path, gpus: Sequence[PciDevice], cmdline: str) -> Iterator[Finding]:
    """GPUs whose addresses the IOMMU translates; the type of a group tells it to everybody."""
    types = {gpu.pci_bus_id: _group_type(folder / gpu.pci_bus_id) for gpu in gpus}
    translated = [bus for bus, kind in types.items() if kind in _TRANSLATES]
    if not translated:
        return
    told = [word for word in cmdline.split() if word.partition("=")[0] in _PARAMETERS]
    started = f"its command line has {' '.join(told)}" if told else "its command line names none"
    yield finding(
        "iommu-translates",
        listed(translated),
        count=len(translated),
        total=len(gpus),
        kind=types[translated[0]],
        started=started,
    )


def _group_type(device: Path) -> str:
    return read_line(device / "iommu_group" / "type") or ""


def _access_control(folder: Path, gpus: Sequence[PciDevice]) -> Iterator[Finding]:
    """Bridges above GPUs that send copies between devices below them up to the processor."""
    bridges = dict.fromkeys(bridge for gpu in gpus for bridge in gpu.bridges)
    redirecting: dict[str, str] = {}
    untold = []
    for bridge in bridges:
        space = _config(folder / bridge)
        if len(space) <= _HEAD:
            untold += [bridge] if space else []
            continue
        place = _extended(space, _ACS)
        control = _word(space, place + 6) if place else 0
        words = [f"{name}+" for bit, name in _REDIRECTS.items() if control & bit]
        if words:
            redirecting[bridge] = " ".join(words)
    if redirecting:
        below = [g.pci_bus_id for g in gpus if redirecting.keys() & set(g.bridges)]
        first = next(iter(redirecting))
        yield finding(
            "acs-redirect",
            listed(below),
            count=len(redirecting),
            total=len(bridges),
            bridges=listed(redirecting),
            control=redirecting[first],
            first=first,
        )
    if untold:
        yield finding("acs-untold", listed(untold), count=len(untold), size=_HEAD)


def _relaxed_ordering(folder: Path, ends: Sequence[str]) -> Iterator[Finding]:
    """GPUs and NICs that may not let writes overtake each other, where root sees it."""
    strict = []
    for end in ends:
        space = _config(folder / end)
        place = _capability(space, _EXPRESS) if len(space) > _HEAD else 0
        if place and not _word(space, place + 8) & _RELAXED:
            strict.append(end)
    if strict:
        names = listed(strict)
        yield finding("relaxed-ordering-off", names, count=len(strict), total=len(ends))


def _config(device: Path) -> bytes:
    try:
        return read_small(device / "config", _CONFIG)
    except (OSError, ValueError):
        return b""


def _word(space: bytes, place: int) -> int:
    """16 bits; beyond what was read all are 0."""
    return int.from_bytes(space[place : place + 2], "little")


def _capability(space: bytes, wanted: int) -> int:
    """Where a capability begins; 0 if it is not in the list, which a damaged tree may close."""
    place, seen = space[0x34] & 0xFC, set[int]()
    while place >= _HEAD and place + 2 <= len(space) and place not in seen:
        if space[place] == wanted:
            return place
        seen.add(place)
        place = space[place + 1] & 0xFC
    return 0


def _extended(space: bytes, wanted: int) -> int:
    """Where an extended capability begins; 0 if it is not in the list."""
    place, seen = 0x100, set[int]()
    while place >= 0x100 and place + 4 <= len(space) and place not in seen:
        if _word(space, place) == wanted:
            return place
        seen.add(place)
        place = _word(space, place + 2) >> 4
    return 0
