"""What Linux knows of a machine: PCI devices and the bridges above them, NUMA nodes, sockets, NICs.

Everything is read below a root folder, `/sys` of this machine or a recorded or synthetic tree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from toposeat.model.cpu_list import MAX_CPU, cpu_list_of_mask, cpus_of, parse_cpu_list
from toposeat.model.few import first_few
from toposeat.model.files import open_input
from toposeat.model.processor import processor_metadata
from toposeat.model.topology import LinkLayer, canonical_pci
from toposeat.topology.graph.pci_graph import (
    VENDOR_NVIDIA,
    Machine,
    NetworkAdapter,
    PciDevice,
    pcie_generation,
)

_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE | re.ASCII)
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.IGNORECASE | re.ASCII)
_MASK_WORD = re.compile(r"[0-9a-f]{1,8}", re.IGNORECASE | re.ASCII)


def read_sysfs(root: Path = Path("/sys")) -> Machine:
    """Read PCI, NUMA, sockets and NICs; what is missing is left out, nothing raises."""
    cpus_of_node = _cpus_of_node(root)
    pci = _pci_devices(root, cpus_of_node)
    adapters, report = _adapters(root, pci)
    if any(d.is_gpu and _ROOT.fullmatch(d.root) is None for d in pci.values()):
        report += (
            "the PCI tree is not shown: functions of one PCI domain are taken to share a host"
            " bridge",
        )
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
        cores=_groups(root, cpus_of_node.values(), "topology/thread_siblings_list"),
        caches=_groups(root, cpus_of_node.values(), "cache/index3/shared_cpu_list"),
    )


def _pci_devices(root: Path, cpus_of_node: dict[int, str]) -> dict[str, PciDevice]:
    folder = root / "bus" / "pci" / "devices"
    found: dict[str, PciDevice] = {}
    for entry in entries_of(folder):
        if _BDF.fullmatch(entry.name):
            device = _pci_device(entry, cpus_of_node)
            found[device.pci_bus_id] = device
    return found


def _pci_device(entry: Path, cpus_of_node: dict[int, str]) -> PciDevice:
    path = _target(entry) or entry
    bus_id = canonical_pci(entry.name)
    roots = [part for part in path.parts if _ROOT.fullmatch(part)]
    chain = [canonical_pci(part) for part in path.parts if _BDF.fullmatch(part)]
    cpus = read_cpu_list(path / "local_cpulist") or _cpu_mask(path / "local_cpus")
    node = read_number(path / "numa_node")
    if node is None and cpus is not None:
        node = _node_of_cpus(cpus, cpus_of_node)
    vendor, device = _identity(path)
    speed = _first_number(path / "max_link_speed")
    return PciDevice(
        pci_bus_id=bus_id,
        root=roots[-1] if roots else f"pci{bus_id.partition(':')[0]}",
        bridges=tuple(chain[:-1]),
        vendor=vendor,
        device=device,
        class_code=read_number(path / "class") or 0,
        numa_node=node if node is not None and node >= 0 else None,
        cpus=cpus,
        generation=pcie_generation(speed),
        width=read_number(path / "current_link_width") or None,
        max_width=read_number(path / "max_link_width") or None,
        current_generation=pcie_generation(_first_number(path / "current_link_speed")),
    )


def _identity(path: Path) -> tuple[int, int]:
    """Vendor and device: from their files, else from the configuration space (recorded trees).

    The last resort is NVIDIA's driver, which lists its GPUs in /proc beside the recorded /sys.
    """
    vendor, device = read_number(path / "vendor"), read_number(path / "device")
    if vendor is None:
        try:
            head = read_small(path / "config", 4)
        except OSError:
            head = b""
        if len(head) == 4:
            return int.from_bytes(head[:2], "little"), int.from_bytes(head[2:], "little")
        if _proc_of_driver(path) is not None:
            vendor = VENDOR_NVIDIA
    return vendor or 0, device or 0


def _proc_of_driver(path: Path) -> Path | None:
    """The folder of NVIDIA's driver for a function, if the tree was recorded with /proc."""
    for root in path.parents:
        if root.name == "sys":
            folder = root.parent / "proc" / "driver" / "nvidia" / "gpus" / path.name
            return folder if folder.is_dir() else None
    return None


def _node_of_cpus(cpus: str, cpus_of_node: dict[int, str]) -> int | None:
    """The memory node that all of these CPUs belong to."""
    wanted = cpus_of(cpus)
    return next((node for node, near in cpus_of_node.items() if wanted <= cpus_of(near)), None)


def _cpus_of_node(root: Path) -> dict[int, str]:
    """CPU lists of the memory nodes that have CPUs (GPU memory nodes have none)."""
    found: dict[int, str] = {}
    for entry in entries_of(root / "devices" / "system" / "node"):
        match = re.fullmatch(r"node(\d+)", entry.name, re.ASCII)
        cpus = read_cpu_list(entry / "cpulist") if match else None
        if match and cpus:
            found[int(match.group(1))] = cpus
    return dict(sorted(found.items()))


def _groups(root: Path, lists: Iterable[str], file: str) -> tuple[frozenset[int], ...]:
    """CPUs that share a core or a cache, by the file of each CPU that lists them."""
    found: list[frozenset[int]] = []
    left = set().union(*map(cpus_of, lists))
    while left:
        first = min(left)
        group = cpus_of(read_cpu_list(root / "devices" / "system" / "cpu" / f"cpu{first}" / file))
        found += [group] if group else []
        left -= group | {first}
    return tuple(found)


def _package(root: Path, cpus: str) -> int | None:
    first = parse_cpu_list(cpus)[0]
    return read_number(
        root / "devices" / "system" / "cpu" / f"cpu{first}" / "topology" / "physical_package_id"
    )


def _adapters(
    root: Path, pci: dict[str, PciDevice]
) -> tuple[tuple[NetworkAdapter, ...], tuple[str, ...]]:
    """The adapters a job could be told to use, and what was left out.

    These are RDMA devices, or network interfaces if there is no RDMA device: beside RDMA devices,
    an interface without RDMA is for management. Virtual functions count only where their physical
    one is not seen, and of interfaces in a bond only the bond.
    """
    found: dict[str, list[NetworkAdapter]] = {
        kind: [
            _adapter(entry, bus)
            for entry in entries_of(root / "class" / kind)
            if (bus := _parent_function(entry, pci)) is not None
        ]
        for kind in ("infiniband", "cxi", "net")
    }
    found["net"] = _with_bonds(root, found["net"])
    chosen = found["infiniband"] + found["cxi"]
    taken = {a.pci_bus_id for a in chosen}
    plain = [a for a in found["net"] if a.pci_bus_id not in taken]
    report: list[str] = []
    if not chosen:
        chosen = plain
    elif plain:
        names = first_few((a.name for a in plain), 8)
        report.append(f"{len(plain)} network interfaces without RDMA are left out: {names}")
    taken = {a.pci_bus_id for a in chosen}
    virtual = {a.pci_bus_id for a in chosen if _physical_function(root, a.pci_bus_id) in taken}
    if virtual:
        report.append(f"{len(virtual)} virtual functions of network adapters are left out")
    kept = [a for a in chosen if a.pci_bus_id not in virtual]
    return tuple(sorted(kept, key=lambda a: (a.pci_bus_id, a.name))), tuple(report)


def _with_bonds(root: Path, interfaces: list[NetworkAdapter]) -> list[NetworkAdapter]:
    """Interfaces, and instead of those that are in a bond the bond: addresses are the bond's."""
    net = root / "class" / "net"
    kept, bonds = [], dict[str, str]()
    for each in sorted(interfaces, key=lambda a: (a.pci_bus_id, a.name)):
        master = _target(net / each.name / "master")
        if master is not None and (master / "bonding").is_dir():
            bonds.setdefault(master.name, each.pci_bus_id)
        else:
            kept.append(each)
    return kept + [_adapter(net / name, bus) for name, bus in bonds.items()]


def _adapter(entry: Path, bus: str) -> NetworkAdapter:
    """An adapter with the rate of its ports, from its RDMA device or its network interfaces."""
    ports = entries_of(entry / "ports")
    if ports:
        states = [read_line(port / "state") or "" for port in ports]
        up = [port for port, state in zip(ports, states, strict=True) if "ACTIVE" in state]
        rates = [(_first_number(port / "rate") or 0.0) * 1e9 / 8 for port in up]
        known = any(states)
        layers = [read_line(port / "link_layer") for port in up or ports]
    else:
        faces = [entry] if (entry / "operstate").exists() else entries_of(entry / "device" / "net")
        states = [read_line(face / "operstate") or "" for face in faces]
        up = [face for face, state in zip(faces, states, strict=True) if state == "up"]
        rates = [max(read_number(face / "speed") or 0, 0) * 1e6 / 8 for face in up]
        known = any(state in ("up", "down") for state in states)
        layers = []
    return NetworkAdapter(
        name=entry.name,
        pci_bus_id=bus,
        bytes_per_s=sum(rates) or None,
        active=bool(up) if known else None,
        link_layer=next((layer for layer in LinkLayer if layer in layers), None),
    )


def _physical_function(root: Path, bus: str) -> str | None:
    """The bus id of the physical function that a virtual one belongs to."""
    link = root / "bus" / "pci" / "devices" / bus / "physfn"
    target = _target(link) if link.exists() else None
    return canonical_pci(target.name) if target and _BDF.fullmatch(target.name) else None


def _parent_function(entry: Path, pci: dict[str, PciDevice]) -> str | None:
    target = _target(entry / "device")
    if target is None or not _BDF.fullmatch(target.name):
        return None
    bus = canonical_pci(target.name)
    return bus if bus in pci else None


def _target(link: Path) -> Path | None:
    """The target of a symbolic link; None if it cannot be resolved, as in a circle of links."""
    try:
        return link.resolve()
    except (OSError, RuntimeError):  # the latter for circles, before Python 3.13
        return None


def read_line(path: Path) -> str | None:
    """The first line of a small file; None if it cannot be read."""
    try:
        text = read_small(path).decode("ascii", "replace")
    except (OSError, ValueError):
        return None
    return text.strip().partition("\n")[0]


def read_number(path: Path) -> int | None:
    """The number in a small file, decimal or 0x...; None if there is none."""
    try:
        return int(read_line(path) or "", 0)
    except ValueError:
        return None


def _first_number(path: Path) -> float | None:
    match = re.match(r"\d+(\.\d+)?", read_line(path) or "", re.ASCII)
    return float(match.group()) if match else None


def _cpu_mask(path: Path) -> str | None:
    """CPUs from words of 32 bits in hexadecimal, highest first."""
    words = (read_line(path) or "").split(",")
    if len(words) > (MAX_CPU + 1) // 32 or any(not _MASK_WORD.fullmatch(word) for word in words):
        return None
    return cpu_list_of_mask([int(word, 16) for word in reversed(words)], bits=32) or None


def read_cpu_list(path: Path) -> str | None:
    """The CPU list in a file; None if there is none."""
    text = read_line(path)
    try:
        parse_cpu_list(text or "")
    except ValueError:
        return None
    return text


MAX_SMALL_BYTES = 1024 * 1024  # no file that describes a machine is larger


def entries_of(folder: Path) -> list[Path]:
    """The entries of a folder by name; none if it is not a folder or cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def read_small(path: Path, limit: int = MAX_SMALL_BYTES) -> bytes:
    """The beginning of a file.

    A saved tree may hold anything under the names of sysfs: pipes, which would be waited for, and
    files without end.

    Raises:
        OSError: missing, unreadable, or no regular file.
    """
    with open_input(path) as file:
        return os.read(file.fileno(), limit)


def processor_of_file(cpuinfo: Path, architecture: str = "") -> dict[str, str]:
    """The processor as metadata, see `processor_metadata`, from a `/proc/cpuinfo`."""
    try:
        text = read_small(cpuinfo).decode(errors="replace")
    except OSError:
        text = ""
    first = [line.partition(":") for line in text.split("\n\n", maxsplit=1)[0].splitlines()]
    told = {key.strip(): value.strip() for key, _, value in first}
    return processor_metadata(told, architecture)
