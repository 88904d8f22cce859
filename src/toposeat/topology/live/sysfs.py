"""What Linux knows of a machine: PCI devices and the bridges above them, NUMA nodes, sockets, NICs.

Everything is read below a root folder, `/sys` of this machine or a recorded or synthetic tree.
"""

from __future__ import annotations

import re
from pathlib import Path

from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.topology import canonical_pci
from toposeat.topology.graph.machine import Machine, NetworkAdapter, PciDevice, pcie_generation

_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE | re.ASCII)
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.IGNORECASE | re.ASCII)


def read_sysfs(root: Path = Path("/sys")) -> Machine:
    """Read PCI, NUMA, sockets and NICs; what is missing is left out, nothing raises."""
    pci = _pci_devices(root)
    cpus_of_node = _cpus_of_node(root)
    adapters, report = _adapters(root, pci)
    return Machine(
        pci=pci,
        cpus_of_node=cpus_of_node,
        package_of_node={
            node: package
            for node, cpus in cpus_of_node.items()
            if (package := _package(root, cpus)) is not None
        },
        adapters=adapters,
        report=report,
    )


def _pci_devices(root: Path) -> dict[str, PciDevice]:
    folder = root / "bus" / "pci" / "devices"
    found: dict[str, PciDevice] = {}
    for entry in _entries(folder):
        if _BDF.fullmatch(entry.name):
            device = _pci_device(entry)
            found[device.pci_bus_id] = device
    return found


def _pci_device(entry: Path) -> PciDevice:
    path = entry.resolve()
    roots = [part for part in path.parts if _ROOT.fullmatch(part)]
    chain = [canonical_pci(part) for part in path.parts if _BDF.fullmatch(part)]
    node = _number(path / "numa_node")
    speed = _first_number(path / "max_link_speed")
    return PciDevice(
        pci_bus_id=canonical_pci(entry.name),
        root=roots[-1] if roots else "",
        bridges=tuple(chain[:-1]),
        vendor=_number(path / "vendor") or 0,
        device=_number(path / "device") or 0,
        class_code=_number(path / "class") or 0,
        numa_node=node if node is not None and node >= 0 else None,
        cpus=_cpu_list(path / "local_cpulist"),
        generation=pcie_generation(speed),
        width=_number(path / "current_link_width") or None,
        max_width=_number(path / "max_link_width") or None,
        current_generation=pcie_generation(_first_number(path / "current_link_speed")),
    )


def _cpus_of_node(root: Path) -> dict[int, str]:
    """CPU lists of the memory nodes that have CPUs (GPU memory nodes have none)."""
    found: dict[int, str] = {}
    for entry in _entries(root / "devices" / "system" / "node"):
        match = re.fullmatch(r"node(\d+)", entry.name, re.ASCII)
        cpus = _cpu_list(entry / "cpulist") if match else None
        if match and cpus:
            found[int(match.group(1))] = cpus
    return dict(sorted(found.items()))


def _package(root: Path, cpus: str) -> int | None:
    first = parse_cpu_list(cpus)[0]
    return _number(
        root / "devices" / "system" / "cpu" / f"cpu{first}" / "topology" / "physical_package_id"
    )


def _adapters(
    root: Path, pci: dict[str, PciDevice]
) -> tuple[tuple[NetworkAdapter, ...], tuple[str, ...]]:
    """The adapters a job could be told to use, and what was left out.

    RDMA devices, or network interfaces where there is no RDMA device: beside one, an interface of
    its own is for management. Virtual functions count only where their physical one is not seen.
    """
    found = {
        kind: [
            _adapter(entry, bus)
            for entry in _entries(root / "class" / kind)
            if (bus := _parent_function(entry, pci)) is not None
        ]
        for kind in ("infiniband", "cxi", "net")
    }
    chosen = found["infiniband"] + found["cxi"]
    taken = {a.pci_bus_id for a in chosen}
    plain = [a for a in found["net"] if a.pci_bus_id not in taken]
    report: list[str] = []
    if not chosen:
        chosen = plain
    elif plain:
        names = ", ".join(a.name for a in plain[:8]) + (", ..." if len(plain) > 8 else "")
        report.append(f"{len(plain)} network interfaces without RDMA are left out: {names}")
    taken = {a.pci_bus_id for a in chosen}
    virtual = {a.pci_bus_id for a in chosen if _physical_function(root, a.pci_bus_id) in taken}
    if virtual:
        report.append(f"{len(virtual)} virtual functions of network adapters are left out")
    kept = [a for a in chosen if a.pci_bus_id not in virtual]
    return tuple(sorted(kept, key=lambda a: (a.pci_bus_id, a.name))), tuple(report)


def _adapter(entry: Path, bus: str) -> NetworkAdapter:
    """An RDMA device tells of its ports; others have network interfaces that do."""
    ports = _entries(entry / "ports")
    if ports:
        states = [read_line(port / "state") or "" for port in ports]
        up = [port for port, state in zip(ports, states, strict=True) if "ACTIVE" in state]
        rates = [(_first_number(port / "rate") or 0.0) * 1e9 / 8 for port in up]
        known = any(states)
    else:
        faces = [entry] if (entry / "operstate").exists() else _entries(entry / "device" / "net")
        states = [read_line(face / "operstate") or "" for face in faces]
        up = [face for face, state in zip(faces, states, strict=True) if state == "up"]
        rates = [max(_number(face / "speed") or 0, 0) * 1e6 / 8 for face in up]
        known = any(state in ("up", "down") for state in states)
    return NetworkAdapter(
        name=entry.name,
        pci_bus_id=bus,
        bytes_per_s=sum(rates) or None,
        active=bool(up) if known else None,
    )


def _physical_function(root: Path, bus: str) -> str | None:
    """The bus id of the physical function that a virtual one belongs to."""
    link = root / "bus" / "pci" / "devices" / bus / "physfn"
    try:
        return canonical_pci(link.resolve().name) if link.exists() else None
    except (OSError, ValueError):
        return None


def _parent_function(entry: Path, pci: dict[str, PciDevice]) -> str | None:
    try:
        target = (entry / "device").resolve()
    except OSError:
        return None
    if not _BDF.fullmatch(target.name):
        return None
    bus = canonical_pci(target.name)
    return bus if bus in pci else None


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def read_line(path: Path) -> str | None:
    """The first line of a small file; None if it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip().partition("\n")[0]
    except OSError:
        return None


def _number(path: Path) -> int | None:
    try:
        return int(read_line(path) or "", 0)
    except ValueError:
        return None


def _first_number(path: Path) -> float | None:
    match = re.match(r"\d+(\.\d+)?", read_line(path) or "", re.ASCII)
    return float(match.group()) if match else None


def _cpu_list(path: Path) -> str | None:
    text = read_line(path)
    try:
        parse_cpu_list(text or "")
    except ValueError:
        return None
    return text
