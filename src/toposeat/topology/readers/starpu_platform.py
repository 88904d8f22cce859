"""Reader of the SimGrid platform that StarPU writes of one machine (NAME.platform.xml).

    CUDA0 --02:00.0-- [02-02] --+                          hosts CUDAn are GPUs, RAM is host memory
                                +-- [00-07] -- Host -- RAM  a link "PCI:... up" and one "... down"
    CUDA1 --03:00.0-- [03-03] --+                           are the two directions of a real link

Its link speeds are StarPU's measurements. "through" links (twice the speed of a bridge, by formula)
and pair links (kept as limits of single flows) are no channels. Where StarPU knew no PCI tree, each
GPU gets a host bridge of its own. Other SimGrid platforms describe networks and are refused.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.quantity import Quantity, Source, nominal
from toposeat.model.topology import (
    ComponentKind,
    Device,
    LinkKind,
    Topology,
    Vendor,
    canonical_pci,
)
from toposeat.topology import constants as k
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.word_table import MAX_ENDPOINTS
from toposeat.topology.readers.xml_tree import XmlElement

_SAVE = "StarPU writes it anew with: starpu_calibrate_bus -f"
_GPU = re.compile(r"(CUDA|HIP)(\d{1,4})", re.ASCII)
_PORT = re.compile(r"PCI:(\S+) (up|down|through)", re.ASCII)
_SPEED = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)(Bps)?", re.ASCII)
_VENDORS = {"CUDA": Vendor.NVIDIA, "HIP": Vendor.AMD}


@dataclass(slots=True)
class _Platform:
    """What the file says, by name."""

    path: Path
    gpus: dict[str, XmlElement] = field(default_factory=dict)
    speeds: dict[str, float] = field(default_factory=dict)
    routes: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)  # where a link is used, or described
    report: list[str] = field(default_factory=list)


def looks_like(file: FileText) -> bool:
    """Whether this is a SimGrid platform, of StarPU or not."""
    return file.xml is not None and file.xml.tag == "platform"


def parse(file: FileText) -> Topology:
    """Read the machine.

    Raises:
        InputError: a platform that StarPU did not write, or a damaged one, with file and line.
    """
    root = file.xml
    if root is None or root.tag != "platform":
        raise InputError("no SimGrid platform", path=file.path, hint=_SAVE)
    platform = _read(root, file.path)
    return _build(platform, file.name.removesuffix(".platform"))


def _read(root: XmlElement, path: Path) -> _Platform:
    found = _Platform(path)
    hosts = [e for e in root.walk() if e.tag == "host"]
    names = {host.get("id") for host in hosts}
    gpus = [host for host in hosts if _GPU.fullmatch(host.get("id"))]
    if "RAM" not in names or not gpus:
        raise InputError(
            "a SimGrid platform of a cluster or network, not of one machine with GPUs (StarPU's"
            " have hosts RAM and CUDA0)",
            path=path,
            line=root.line,
            hint="for a network use toposeat's own forms: see docs/how-to/describe-a-machine.md",
        )
    if len(gpus) > MAX_ENDPOINTS:
        raise InputError(f"more than {MAX_ENDPOINTS} GPUs", path=path, hint=_SAVE)
    for host in sorted(gpus, key=lambda h: _order(h.get("id"))):
        if host.get("id") in found.gpus:
            raise InputError(
                f"host {host.get('id')} appears twice", path=path, line=host.line, hint=_SAVE
            )
        found.gpus[host.get("id")] = host
    if any(name.startswith("OpenCL") for name in names):
        found.report.append("OpenCL devices are the same GPUs again: they are left out")
    for element in root.walk():
        if element.tag == "link":
            found.speeds[element.get("id")] = _speed(element, path)
            found.lines[element.get("id")] = element.line
        elif element.tag == "route":
            pair = element.get("src"), element.get("dst")
            found.routes[pair] = [c.get("id") for c in element.named("link_ctn")]
            for part in element.named("link_ctn"):
                found.lines.setdefault(part.get("id"), part.line)
    return found


def _order(name: str) -> tuple[str, int]:
    match = _GPU.fullmatch(name)
    return (match.group(1), int(match.group(2))) if match else (name, 0)


def _speed(link: XmlElement, path: Path) -> float:
    match = _SPEED.fullmatch(link.get("bandwidth"))
    if match is None:
        raise InputError(
            f"link {link.get('id')!r:.60} has the bandwidth {link.get('bandwidth')!r:.40}",
            path=path,
            line=link.line,
            hint="bytes per second are expected; " + _SAVE,
        )
    return float(match.group(1))


def _build(platform: _Platform, name: str) -> Topology:
    builder = GraphBuilder(report=platform.report)
    chains = {gpu: _chain(platform, gpu) for gpu in platform.gpus}
    shared = Counter(part for chain in chains.values() for part in set(chain))
    flat = not any(chains.values())
    if flat:
        builder.report.append(
            "the platform has no PCI tree: what transfers share is not known, each GPU is taken to"
            " have its own host bridge"
        )
    ids = {}
    for index, (gpu, host) in enumerate(platform.gpus.items()):
        ids[gpu] = f"gpu{index}"
        builder.devices.append(_device(ids[gpu], index, host, chains[gpu]))
    tree = _Tree(builder, platform, shared)
    for gpu, chain in chains.items():
        tree.add(ids[gpu], gpu, chain)
    tree.join()
    return builder.build(
        name=name,
        origin="StarPU platform",
        caps=_caps(platform, ids),
        peer_access=_peers(platform, ids),
    )


def _device(id: str, index: int, host: XmlElement, chain: list[str]) -> Device:
    properties = {p.get("id"): p.get("value") for p in host.named("prop")}
    memory = properties.get("memsize", "")
    return Device(
        id=id,
        index=index,
        vendor=_VENDORS[_order(host.get("id"))[0]],
        name=properties.get("model", "")[:120],
        pci_bus_id=_bus(chain[0]) if chain else None,
        memory_bytes=int(memory) if re.fullmatch(r"\d{1,18}", memory, re.ASCII) else None,
    )


def _bus(name: str) -> str | None:
    try:
        return canonical_pci(name)
    except ValueError:
        return None


def _chain(platform: _Platform, gpu: str) -> list[str]:
    """The PCI links from a GPU up to the host, nearest first, once each."""
    links = platform.routes.get((gpu, "RAM"), [])
    names = [match.group(1) for link in links if (match := _PORT.fullmatch(link))]
    return list(dict.fromkeys(names))


class _Tree:
    """Writes bridges and their links; the outermost range of buses is a host bridge."""

    def __init__(self, builder: GraphBuilder, platform: _Platform, shared: Counter[str]) -> None:
        self.builder = builder
        self.platform = platform
        self.shared = shared
        self.bridges: dict[str, str] = {}
        self.numas: list[str] = []
        self.switches: dict[str, str] = {}

    def add(self, id: str, gpu: str, chain: list[str]) -> None:
        """The way from one GPU to its host bridge; bridges for it alone are contracted."""
        if not chain:
            up, down = self._speed(f"{gpu}-RAM"), self._speed(f"RAM-{gpu}")
            bridge = self._bridge(f"of {gpu}", id, "numa-0", max(up, down))
            self._link(id, bridge, up, down)
            return
        range_ = chain[-1]
        numa = f"numa-{len(self.bridges)}" if range_ not in self.bridges else ""
        bridge = self._bridge(range_, range_, numa, 2 * self._speed("Host"))
        below, pending = id, [chain[0]]
        for range_ in chain[1:-1]:
            if self.shared[range_] < 2:
                pending.append(range_)
                continue
            known = range_ in self.switches
            if not known:
                self.switches[range_] = self.builder.component(
                    ComponentKind.SWITCH, f"switch-{range_}", name=f"buses {range_}"
                )
            self._chain(below, self.switches[range_], pending)
            if known:
                return
            below, pending = self.switches[range_], [range_]
        self._chain(below, bridge, pending)

    def _bridge(self, key: str, name: str, numa: str, fabric: float) -> str:
        """The host bridge of a range of buses, below a memory node of its own or the only one."""
        if key not in self.bridges:
            self.bridges[key] = self.builder.component(
                ComponentKind.HOST_BRIDGE, f"bridge-{name}", name=f"buses {key}"
            )
            if numa not in self.numas:
                self.numas.append(self.builder.component(ComponentKind.NUMA, numa))
            self.builder.fabric(self.bridges[key], numa, bytes_per_s=fabric)
        return self.bridges[key]

    def _chain(self, below: str, above: str, names: list[str]) -> None:
        up = min(self._speed(f"PCI:{name} up") for name in names)
        down = min(self._speed(f"PCI:{name} down") for name in names)
        self._link(below, above, up, down)

    def _link(self, below: str, above: str, up: float, down: float) -> None:
        self.builder.link(
            LinkKind.PCIE,
            below,
            above,
            bytes_per_s=Quantity(up, Source.MEASURED),
            backward_bytes_per_s=Quantity(down, Source.MEASURED),
            combined_bytes_per_s=nominal(k.PCIE_COMBINED * max(up, down)),
            latency_s=k.LATENCY_PCIE_ENDPOINT,
        )

    def _speed(self, name: str) -> float:
        speed = self.platform.speeds.get(name, 0.0)
        if not speed:
            raise InputError(
                f"the platform has no speed for link {name!r}",
                path=self.platform.path,
                line=self.platform.lines.get(name),
                hint=_SAVE,
            )
        return speed

    def join(self) -> None:
        """Memory nodes, over the one link that StarPU knows between them."""
        for a, b in combinations(self.numas, 2):
            speed = Quantity(self._speed("Host"), Source.MEASURED)
            self.builder.link(
                LinkKind.SMP,
                a,
                b,
                bytes_per_s=speed,
                combined_bytes_per_s=speed,
                latency_s=k.LATENCY_SMP,
                name="Host",
            )


def _caps(platform: _Platform, ids: dict[str, str]) -> dict[tuple[str, str], Quantity]:
    """What StarPU measured between two GPUs: the link of a pair that only they use."""
    return {
        (ids[a], ids[b]): Quantity(speed, Source.MEASURED)
        for a in ids
        for b in ids
        if a != b and (speed := platform.speeds.get(f"{a}-{b}", 0.0)) and _is_peer(platform, a, b)
    }


def _peers(platform: _Platform, ids: dict[str, str]) -> dict[tuple[str, str], bool]:
    """Whether StarPU could copy directly; only a GPU's own ability is noted."""
    return {
        (ids[a], ids[b]): _is_peer(platform, a, b)
        for a in ids
        for b in ids
        if a != b and _ability(platform, a) and _ability(platform, b)
    }


def _ability(platform: _Platform, gpu: str) -> str:
    found = (
        p.get("value") for p in platform.gpus[gpu].named("prop") if p.get("id") == "memcpy_peer"
    )
    return next(found, "")


def _is_peer(platform: _Platform, a: str, b: str) -> bool:
    return _ability(platform, a) == "1" and _ability(platform, b) == "1"
