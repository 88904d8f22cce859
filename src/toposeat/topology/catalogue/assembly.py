"""Builds the graph of a machine from its file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any, TypeVar

from toposeat.errors import PartError
from toposeat.model.processor import CPU_NAME
from toposeat.model.quantity import Quantity, nominal
from toposeat.model.topology import (
    ANY_HOST,
    ComponentKind,
    Device,
    FactKind,
    LinkKind,
    Nic,
    PathClass,
    Topology,
)
from toposeat.topology import constants as k
from toposeat.topology.catalogue.machine_file import (
    MAX_DEVICES,
    Level,
    Links,
    MachineFile,
    Pairs,
    Parts,
    quantity,
)
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.processors import unknown

T = TypeVar("T")

MAX_VERTICES, MAX_LINKS = 4096, 1 << 15
GIB = 1 << 30
LANES = {
    name.lower().replace("_", "-"): lane
    for name, lane in vars(k).items()
    if isinstance(lane, k.DeviceLink)
}
_LATENCY = {
    LinkKind.NVLINK: k.LATENCY_NVLINK,
    LinkKind.XGMI: k.LATENCY_XGMI,
    LinkKind.XELINK: k.LATENCY_XGMI,
    LinkKind.C2C: k.LATENCY_C2C,
    LinkKind.SMP: k.LATENCY_SMP,
    LinkKind.PCIE: k.LATENCY_PCIE_BRIDGE,
}
_COMBINED = {LinkKind.PCIE: unknown().pcie_both, LinkKind.SMP: unknown().sockets_both}


def build_machine(name: str, origin: str, spec: MachineFile) -> Topology:
    """The machine that a file describes.

    Raises:
        PartError: a table of the file describes something impossible.
    """
    return _Assembly(spec).build(name, origin)


def members(text: str) -> list[str]:
    """The vertices of a set: `gpu0-3,6` is gpu0, gpu1, gpu2, gpu3 and gpu6."""
    match = re.fullmatch(r"([A-Za-z][\w.-]*?)(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)", text, re.ASCII)
    if match is None or len(text) > MAX_VERTICES:
        raise ValueError(f"{text[:80]!r} is no set of parts such as gpu0-3 or numa0,8")
    found: list[str] = []
    for part in match[2].split(","):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        if len(found) + len(numbers) > MAX_VERTICES:
            raise ValueError(f"{text[:80]!r} has more than {MAX_VERTICES} parts")
        width = len(first) if first.startswith("0") else 0
        found += [f"{match[1]}{number:0{width}d}" for number in numbers]
    return found


def _shared_out(values: Sequence[T], count: int, what: str) -> list[T]:
    """`values` spread in order over `count` things, each over equally many."""
    if not values or count % len(values):
        raise ValueError(f"{len(values)} {what} cannot be shared out evenly over {count}")
    return [values[i * len(values) // count] for i in range(count)]


class _Assembly:
    """Adds the parts of a machine file to a graph, once for each of its hosts."""

    def __init__(self, spec: MachineFile) -> None:
        self.spec = spec
        self.builder = GraphBuilder(
            flows_fill_links=spec.flows_fill_links,
            tells=set(FactKind) - {FactKind.PEER_ACCESS},
        )
        self.made: Counter[ComponentKind] = Counter()
        self.id_of: dict[str, str] = {}  # by the name that the file uses, of the host at hand
        self.kind_of: dict[str, ComponentKind] = {}
        self.numa_of: dict[str, int | None] = {}
        self.devices_left: Iterator[str] = iter(())
        self.nics_left: Iterator[str] = iter(())

    def build(self, name: str, origin: str) -> Topology:
        spec, builder = self.spec, self.builder
        for number, parts in enumerate(spec.parts):
            with _part("parts", number):
                self._add_parts(parts)
        with _part("hosts"):
            hosts = members(spec.hosts) if spec.hosts else [ANY_HOST]
        for builder.host in hosts:
            with _part("numa"):
                self._add_numa()
            with _part("devices"):
                self._add_devices()
            with _part("nics"):
                self._add_nics()
            for number, links in enumerate(spec.links):
                with _part("links", number):
                    self._add_links(links)
        caps: dict[tuple[str, str], Quantity] = {}
        both_ways: dict[tuple[str, str], Quantity] = {}
        classes: dict[tuple[str, str], PathClass] = {}
        for number, each in enumerate(spec.pairs):
            with _part("pairs", number):
                pairs = self._pairs(each)
            if each.flow_bytes_per_s is not None:
                caps |= dict.fromkeys(pairs, quantity(each.flow_bytes_per_s))
            if each.both_ways_bytes_per_s is not None:
                both_ways |= dict.fromkeys(pairs, quantity(each.both_ways_bytes_per_s))
            if each.path_class is not None:
                classes |= dict.fromkeys(pairs, each.path_class)
        metadata = {key: getattr(spec.remarks, key) for key in spec.remarks.__struct_fields__}
        metadata[CPU_NAME] = spec.cpu
        if spec.pcie_generation is not None:
            metadata["pcie_generation"] = str(spec.pcie_generation)
        return builder.build(
            name=name,
            origin=origin,
            classes=classes,
            caps=caps,
            both_ways=both_ways,
            sources=tuple(spec.sources),
            description=spec.description,
            metadata={key: remark for key, remark in metadata.items() if remark},
        )

    # ---- vertices

    def _add_component(
        self, kind: ComponentKind, called: str, numa: int | None, *, id: str = "", **told: Any
    ) -> str:
        self._check_room()
        id = id or called
        if id in self.kind_of:
            raise ValueError(f"there are two {called}")
        self.id_of[called], self.kind_of[id], self.numa_of[id] = id, kind, numa
        return self.builder.component(kind, id, numa_node=numa, **told)

    def _check_room(self) -> None:
        if len(self.builder.nics) + len(self.builder.components) >= MAX_VERTICES:
            raise ValueError(f"more than {MAX_VERTICES} adapters and other parts")
        if len(self.builder.links) >= MAX_LINKS:
            raise ValueError(f"more than {MAX_LINKS} links")

    def _add_parts(self, parts: Parts) -> None:
        names = members(parts.ids)
        numa = _shared_out(parts.numa or [None], len(names), "NUMA nodes")
        cpus = _shared_out(parts.cpus or [None], len(names), "CPU lists")
        for number, name in enumerate(names):
            title = f"{parts.name} {number}" if parts.name and len(names) > 1 else parts.name
            self._add_component(parts.kind, name, numa[number], name=title, cpus=cpus[number])

    def _add_numa(self) -> None:
        numa = self.spec.numa
        prefix = "" if self.builder.host == ANY_HOST else f"{self.builder.host}/"
        for i, node in enumerate(numa.nodes):
            self._add_component(
                ComponentKind.NUMA,
                f"numa{node}",
                node,
                id=f"{prefix}numa{node}",
                name=numa.names[i] if numa.names else f"NUMA node {node}",
                cpus=numa.cpus[i] if numa.cpus else None,
            )

    def _add_devices(self) -> None:
        devices, builder = self.spec.devices, self.builder
        count, first = devices.count, len(builder.devices)
        if first + count > MAX_DEVICES:
            raise ValueError(f"more than {MAX_DEVICES} devices")
        buses = devices.pci_bus_ids or [""] * count
        numa = self._nodes(devices.numa, count)
        cpus_of: dict[int | None, str] = dict(
            zip(self.spec.numa.nodes, self.spec.numa.cpus, strict=False)
        )
        near = [cpus_of.get(node) for node in numa]
        cpus = _shared_out(devices.cpus or near, count, "CPU lists")
        for i in range(count):
            builder.devices.append(
                Device(
                    id=f"gpu{first + i}",
                    index=i,
                    host=builder.host,
                    vendor=devices.vendor,
                    name=devices.name,
                    pci_bus_id=buses[i] or None,
                    numa_node=numa[i],
                    cpus=cpus[i],
                    memory_bytes=devices.memory_gib and devices.memory_gib * GIB,
                    forwards=devices.forwards,
                )
            )
            self.id_of[f"gpu{i}"] = f"gpu{first + i}"
        self.devices_left = iter([device.id for device in builder.devices[first:]])

    def _add_nics(self) -> None:
        nics, builder = self.spec.nics, self.builder
        count, first = len(nics.names), len(builder.nics)
        buses = nics.pci_bus_ids or [""] * count
        numa = self._nodes(nics.numa, count) if count else []
        rate = nics.gigabits_per_s
        for i, name in enumerate(nics.names):
            self._check_room()
            builder.nics.append(
                Nic(
                    id=f"nic{first + i}",
                    index=first + i,
                    host=builder.host,
                    name=name,
                    pci_bus_id=buses[i] or None,
                    numa_node=numa[i],
                    bytes_per_s=None if rate is None else nominal(rate * 1e9 / 8),
                )
            )
            self.id_of[f"nic{i}"] = f"nic{first + i}"
        self.nics_left = iter([nic.id for nic in builder.nics[first:]])

    def _nodes(self, stated: list[int], count: int) -> list[int | None]:
        return _shared_out([*stated] or [*self.spec.numa.nodes] or [None], count, "NUMA nodes")

    # ---- links

    def _ids(self, text: str) -> list[str]:
        found = [(name, self.id_of.get(name)) for name in members(text)]
        for name, id in found:
            if id is None:
                raise ValueError(f"there is no {name}")
        return [id for _, id in found if id is not None]

    def _add_links(self, links: Links) -> None:
        if links.tree:
            nodes = ",".join(str(node) for node in self.spec.numa.nodes)
            for root in self._ids(links.below or f"numa{nodes}"):
                self._grow(root, links.tree)
        for a, b in self._ends(links):
            self._add_link(links, a, b)

    def _ends(self, links: Links) -> Iterable[tuple[str, str]]:
        for a, b in links.pairs:
            yield self._ids(f"gpu{a}")[0], self._ids(f"gpu{b}")[0]
        for text in links.each_to_each:
            yield from combinations(self._ids(text), 2)
        if links.from_:
            ends = self._ids(links.from_)
            yield from zip(ends, _shared_out(self._ids(links.to), len(ends), "ends"), strict=True)

    def _add_link(self, links: Links, a: str, b: str) -> None:
        lane = LANES.get(links.type or self.spec.devices.link)
        kind = lane.kind if lane else _kind(links.type)
        if kind not in _COMBINED and (links.generation or links.width):
            raise ValueError("generation and width are those of PCIe")
        if links.bytes_per_s is not None:
            capacity = quantity(links.bytes_per_s)
        elif lane:
            capacity = nominal(lane.data_sheet * links.lanes)
        else:
            capacity = self._nominal_rate(links, kind)
        combined: Quantity | None = None
        if links.combined_bytes_per_s is not None:
            combined = quantity(links.combined_bytes_per_s)
        elif lane and lane.combined is not None:
            combined = nominal(lane.combined * links.lanes)
        elif kind in _COMBINED and not links.full_duplex:
            combined = self.builder.both_ways(capacity, _COMBINED[kind])
        flow = links.flow_bytes_per_s
        if flow is None and lane and links.bytes_per_s is None:
            flow = lane.achievable * links.lanes
        self._check_room()
        self.builder.link(
            kind,
            a,
            b,
            bytes_per_s=capacity,
            combined_bytes_per_s=combined,
            flow_bytes_per_s=flow,
            latency_s=quantity(links.latency_s or self._latency(kind, lane, a, b)),
            count=links.lanes,
            name=links.name or (lane.name if lane else ""),
        )

    def _nominal_rate(self, links: Links, kind: LinkKind) -> Quantity:
        if kind is LinkKind.PCIE:
            generation = self._generation(links.generation)
            return nominal(k.pcie_bytes_per_s(generation, links.width or 16))
        if kind is LinkKind.SMP:
            sockets = unknown().sockets
            return self.builder.assume(sockets.nominal * k.GB_PER_S, sockets)
        raise ValueError(f"give the bytes_per_s of {kind.value} links, or a type that has them")

    def _generation(self, stated: int | None) -> int:
        generation = stated or self.spec.pcie_generation
        if generation is None:
            raise ValueError("the machine's pcie_generation is not given")
        return generation

    def _latency(self, kind: LinkKind, lane: k.DeviceLink | None, a: str, b: str) -> float:
        if lane and self.kind_of.get(b) is ComponentKind.NVSWITCH:
            return k.LATENCY_NVSWITCH_PORT
        if lane is k.NVLINK1:
            return k.LATENCY_NVLINK1
        if kind is LinkKind.PCIE and a not in self.kind_of:  # a device or an adapter
            return k.LATENCY_PCIE_ENDPOINT
        return _LATENCY[kind]

    # ---- PCIe trees

    def _grow(self, parent: str, levels: Sequence[Level]) -> None:
        if not levels:
            return
        level = levels[0]
        rate = k.pcie_bytes_per_s(self._generation(level.generation), level.width)
        self._check_room()
        for _ in range(level.bridges or 0):
            bridge = self._made(ComponentKind.HOST_BRIDGE, "bridge", parent)
            self.builder.fabric(bridge, parent, bytes_per_s=level.uplinks * rate)
            self._grow(bridge, levels[1:])
        for _ in range(level.switches or 0):
            switch = self._made(ComponentKind.SWITCH, "switch", parent)
            self.builder.pcie(switch, parent, bytes_per_s=rate)
            self._grow(switch, levels[1:])
        ends = [self._next(self.devices_left, "devices") for _ in range(level.devices or 0)]
        ends += [self._next(self.nics_left, "nics") for _ in range(level.nics or 0)]
        for end in ends:
            self.builder.pcie(end, parent, bytes_per_s=rate, latency_s=k.LATENCY_PCIE_ENDPOINT)

    def _made(self, kind: ComponentKind, word: str, parent: str) -> str:
        """A bridge or switch with the next free number, at the NUMA node of its parent."""
        name = f"{word}{self.made[kind]}"
        self.made[kind] += 1
        return self._add_component(kind, name, self.numa_of.get(parent))

    def _next(self, left: Iterator[str], what: str) -> str:
        found = next(left, None)
        if found is None:
            raise ValueError(f"the tree has more places than there are {what}")
        return found

    # ---- pairs

    def _pairs(self, each: Pairs) -> list[tuple[str, str]]:
        devices = [device.id for device in self.builder.devices]
        adapters = [nic.id for nic in self.builder.nics]
        starts = members(each.from_) if each.from_ else devices
        ends = members(each.to) if each.to else devices
        unknown = [x for x in starts if x not in devices]
        unknown += [x for x in ends if x not in devices and x not in adapters]
        if unknown:
            raise ValueError(f"there is no device {unknown[0]}")
        linked = {link.ends for link in self.builder.links}
        start_groups = [_groups(starts, count) for count in (each.together, each.apart)]
        end_groups = [_groups(ends, count) for count in (each.together, each.apart)]
        return [
            (a, b)
            for a in starts
            for b in ends
            if a != b
            and start_groups[0].get(a) == end_groups[0].get(b)
            and (not each.apart or start_groups[1][a] != end_groups[1][b])
            and not (each.unlinked and ((a, b) in linked or (b, a) in linked))
        ]


def _groups(ids: Sequence[str], count: int | None) -> dict[str, int]:
    """The group number of each id when they are split, in order, into `count` equal groups."""
    if count is None:
        return {}
    return dict(zip(ids, _shared_out(range(count), len(ids), "groups"), strict=True))


def _kind(type: str) -> LinkKind:
    if type not in set(_LATENCY):
        known = ", ".join([*LANES, *(kind.value for kind in _LATENCY)])
        raise ValueError(f"no type of link {type[:40]!r}; known are {known}")
    return LinkKind(type)


@contextmanager
def _part(*part: str | int) -> Iterator[None]:
    """Turn a ValueError raised inside into a PartError that names the part of the file."""
    try:
        yield
    except PartError:
        raise
    except ValueError as error:
        raise PartError(str(error), *part) from error
