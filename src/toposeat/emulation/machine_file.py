"""A Topology as the text that the stand-in driver reads (`emulator/src/machine.c`).

The stand-in has a model of its own: it serves chunks of bytes one after the other on every
*channel* (one direction of a link, or both together where the link has a combined capacity). The
cap of a pair is a channel too, which all copies of the pair share. The stand-in takes from the
topology only what a machine has: links, routes, caps, peer access.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from toposeat.errors import InputError, UsageError
from toposeat.model.capability import compute_capability
from toposeat.model.graph import neighbours, shortest
from toposeat.model.path_class import class_of_route
from toposeat.model.processor import CPU_KEY, CPU_NAME, processor_of
from toposeat.model.quantity import quantity_fields
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    Link,
    LinkKind,
    PathClass,
    PcieState,
    Route,
    Topology,
)

MAX_DEVICES = 128
MAX_CHANNELS = 4096
MAX_PATH = 64
MAX_LANES = 18
IPC_OPEN_S = 90e-6  # Open MPI's notes on opening a CUDA IPC handle
DEFAULT_MEMORY_BYTES = 16 * 2**30
DEFAULT_COPY_BYTES_PER_S = 200e9

_USUAL_CAPABILITY = 70
_PCIE_1_X16 = 3e9  # bytes/s that copies reach; every generation doubles it
_PORTS = {
    ComponentKind.NVSWITCH: "switch-port",
    ComponentKind.NUMA: "cpu-port",
    ComponentKind.PACKAGE: "cpu-port",
}
_ANCESTOR = {  # nvmlGpuTopologyLevel_t
    PathClass.PIX: 10,
    PathClass.PXB: 20,
    PathClass.PHB: 30,
    PathClass.NODE: 40,
    PathClass.SYS: 50,
}
_Hops = list[tuple[Link, bool]]  # links in order, and whether each is walked backward


def machine_text(
    topology: Topology,
    *,
    scale: float = 1.0,
) -> str:
    """The machine file of a topology of one node.

    Args:
        topology: what the drivers say. Pairs whose peer access is not known are taken to have it.
        scale: factor on every bandwidth; far below 1 so that real copies on the CPU keep pace.
    """
    if not 0 < scale < 1e6:
        raise UsageError(f"a scale of {scale:g} is not above 0", hint="for example --scale 0.01")
    if len(topology.hosts) > 1:
        raise InputError(
            f"{topology.name} has {len(topology.hosts)} hosts; the stand-in is one node",
            hint="give the topology of one node",
        )
    writer = _Writer(topology, scale)
    if not 1 <= len(topology.devices) <= MAX_DEVICES or writer.channels > MAX_CHANNELS:
        raise InputError(
            f"{topology.name} is too large to emulate: {len(topology.devices)} devices,"
            f" {writer.channels} channels",
            hint=f"at most {MAX_DEVICES} devices and {MAX_CHANNELS} channels",
        )
    name = "".join(c if c.isalnum() or c in "-._" else "_" for c in topology.name)[:60] or "machine"
    lines = [
        "toposeat-emulated-machine 1",
        f"name {name}",
        *_processor_lines(topology),
        f"ipc-open-ns {round(IPC_OPEN_S * 1e9)}",
        f"sizes {writer.channels} {len(topology.devices)}",
        *writer.lines(),
        "end",
    ]
    return "\n".join(lines) + "\n"


def _processor_lines(topology: Topology) -> Iterator[str]:
    """What `toposeat discover` is told instead of the /proc/cpuinfo of the node that it runs on."""
    processor = processor_of(topology)
    told = {
        CPU_KEY: str(processor or ""),
        CPU_NAME: re.sub(r"[^\w ()@.-]", " ", topology.metadata.get(CPU_NAME, ""), flags=re.ASCII),
    }
    yield from (f"processor {key} {words}" for key, words in told.items() if words)


class _Writer:
    def __init__(self, topology: Topology, scale: float) -> None:
        self.topology = topology
        self.scale = scale
        self.component_of = {each.id: each for each in topology.components}
        self.kind_of = {each.id: each.kind for each in topology.components}
        self.host = HostPaths(topology)
        devices = {each.id for each in topology.devices}
        apart = tuple(link for link in topology.links if not devices.issuperset(link.ends))
        self.bus = HostPaths(replace(topology, links=apart))
        self.channel_of: dict[tuple[str, str], int] = {}
        self.rates: list[float] = []
        for link in topology.links:
            self._add(link.id, "forward", link.forward_bytes_per_s.value)
            self._add(link.id, "backward", link.backward_bytes_per_s.value)
            if link.combined_bytes_per_s is not None:
                self._add(link.id, "combined", link.combined_bytes_per_s.value)

    @property
    def channels(self) -> int:
        return len(self.rates)

    def _add(self, link: str, which: str, bytes_per_s: float) -> None:
        if bytes_per_s <= 0:
            raise InputError(
                f"link {link} has no {which} capacity", hint="emulate a topology with capacities"
            )
        self.channel_of[link, which] = len(self.rates)
        self.rates.append(bytes_per_s * self.scale)

    def lines(self) -> Iterator[str]:
        for number, rate in enumerate(self.rates):
            yield f"channel {number} {rate:.17g}"
        homes = {d.id: self.host.home(d) for d in self.topology.devices}
        for i, device in enumerate(self.topology.devices):
            yield self._device(i, device)
            home = homes[device.id]
            yield f"to-host {i} {self._path(self.host.links(device.id, home), None)}"
            yield f"from-host {i} {self._path(self.host.links(home, device.id), None)}"
            yield from self._ports(i, device)
        for i, a in enumerate(self.topology.devices):
            for j, b in enumerate(self.topology.devices):
                if i != j:
                    yield from self._pair(i, j, a, b, homes)

    def _device(self, number: int, device: Device) -> str:
        copy = device.copy_bytes_per_s
        words = (
            device.pci_bus_id or f"0000:{16 + number:02x}:00.0",
            device.uuid
            or f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{self.topology.name}/{number}')}",
            compute_capability(device.name) or _USUAL_CAPABILITY,
            *self._pcie(device),
            device.memory_bytes or DEFAULT_MEMORY_BYTES,
            f"{(copy.value if copy else DEFAULT_COPY_BYTES_PER_S) * self.scale:.17g}",
            "_".join(device.name.split())[:40] or "GPU",
        )
        return f"device {number} {' '.join(map(str, words))}"

    def _pcie(self, device: Device) -> tuple[int, int]:
        """Generation and width of a device's own link, as told or by its capacity; 0: none."""
        told = device.pcie or PcieState()
        generation = told.max_generation
        for link, _ in self._links(device):
            if generation is None and link.kind is LinkKind.PCIE:
                rate = max(link.forward_bytes_per_s.value, link.backward_bytes_per_s.value)
                generation = min(max(round(math.log2(rate / _PCIE_1_X16)), 0) + 1, 6)
        return generation or 0, told.max_width or (16 if generation else 0)

    def _ports(self, number: int, device: Device) -> Iterator[str]:
        """NVLinks that lead to no other device."""
        for link, far in self._links(device):
            component = self.component_of.get(far)
            kind = _PORTS.get(component.kind) if component else None
            if kind and component and link.kind is LinkKind.NVLINK:
                place = list(self.component_of).index(far)
                pci = component.pci_bus_id or f"{0xFF00 + place // 256:04x}:{place % 256:02x}:00.0"
                yield f"{kind} {number} {min(link.count, MAX_LANES)} {pci}"

    def _links(self, device: Device) -> Iterator[tuple[Link, str]]:
        """Links of a device, and what is at their other ends."""
        for link in self.topology.links:
            if device.id in link.ends:
                yield link, link.ends[0] if link.ends[1] == device.id else link.ends[1]

    def _pair(self, i: int, j: int, a: Device, b: Device, homes: dict[str, str]) -> Iterator[str]:
        """What copies from one device to another occupy, and what the drivers say of the two."""
        route = _route(self.topology, a, b)
        up, down = self._stages(route, a, b, homes)
        cap = route.cap_bytes_per_s.value if route.cap_bytes_per_s else None
        yield f"direct {i} {j} {self._path(self._hops(route), cap)}"
        if route.combined_bytes_per_s is not None:  # the smaller of two routes' counts
            back = self.topology.route_of_pair.get((b.id, a.id))
            other = back.combined_bytes_per_s if back else None
            both = min(x.value for x in (route.combined_bytes_per_s, other) if x is not None)
            yield f"both {i} {j} {both * self.scale:.17g}"
        yield f"stage-up {i} {j} {self._path(up, cap)}"
        yield f"stage-down {i} {j} {self._path(down, None)}"
        if route.peer_access is not False and not route.staged:
            yield f"peer {i} {j}"
        yield f"ancestor {i} {j} {_ANCESTOR[self._level(route)]}"
        lanes = [
            self.topology.link_of_id[link].count
            for link in route.links
            if self.topology.link_of_id[link].kind is LinkKind.NVLINK
            and {*self.topology.link_of_id[link].ends} == {a.id, b.id}
        ]
        if lanes:
            yield f"nvlink {i} {j} {min(sum(lanes), MAX_LANES)}"

    def _level(self, route: Route) -> PathClass:
        """How near two devices are over PCIe: NVML tells it of pairs with device links too."""
        found = route.path_class
        if found not in _ANCESTOR:
            links = [link for link, _ in self.bus.way(route.source, route.target)]
            found = class_of_route(route.source, links, self.kind_of)
        return found if found in _ANCESTOR else PathClass.SYS

    def _stages(
        self, route: Route, a: Device, b: Device, homes: dict[str, str]
    ) -> tuple[_Hops, _Hops]:
        """The two halves of a copy through host memory near the source."""
        hops = self._hops(route)
        here = route.source
        for number, (link, backward) in enumerate(hops, 1):
            here = link.ends[0] if backward else link.ends[1]
            near = self.component_of.get(here)
            if near and near.kind in (ComponentKind.NUMA, ComponentKind.PACKAGE):
                return hops[:number], hops[number:]
        home = homes[a.id]
        return self.host.links(a.id, home), self.host.links(home, b.id)

    def _hops(self, route: Route) -> _Hops:
        here = route.source
        hops: _Hops = []
        for link_id in route.links:
            link = self.topology.link_of_id[link_id]
            backward = here != link.ends[0]
            hops.append((link, backward))
            here = link.ends[0] if backward else link.ends[1]
        return hops

    def _path(self, hops: _Hops, cap: float | None) -> str:
        latency = sum(link.latency_s.value for link, _ in hops)
        channels = list(dict.fromkeys(self._channels(hops)))
        if len(channels) > MAX_PATH:
            raise InputError(
                f"a path of {len(channels)} channels is longer than {MAX_PATH}",
                hint="emulate a smaller machine",
            )
        rate = 0.0 if cap is None else cap * self.scale
        return " ".join(map(str, (round(latency * 1e9), f"{rate:.17g}", len(channels), *channels)))

    def _channels(self, hops: Iterable[tuple[Link, bool]]) -> Iterator[int]:
        for link, backward in hops:
            yield self.channel_of[link.id, "backward" if backward else "forward"]
            if (link.id, "combined") in self.channel_of:
                yield self.channel_of[link.id, "combined"]


def _route(machine: Topology, source: Device, target: Device) -> Route:
    route = machine.route_of_pair.get((source.id, target.id))
    if route is None:
        raise InputError(
            f"no route from {source.id} to {target.id} in {machine.name}",
            hint="emulate a topology whose devices are all connected",
        )
    return route


# Where host memory may be, the likeliest first.
_HOST_KINDS = (ComponentKind.NUMA, ComponentKind.PACKAGE, ComponentKind.HOST_BRIDGE)


class HostPaths:
    """Shortest paths, by latency, between the devices of one topology and its host memory."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._components = {c.id: c for c in topology.components}
        self._near = neighbours(link.ends for link in topology.links)

    def home(self, device: Device) -> str:
        """The vertex that stands for the host memory near a device."""
        reach = self._reach(device.id)
        for kind in _HOST_KINDS:
            found = [
                (each.numa_node != device.numa_node, reach[each.id][0], each.id)
                for each in self._topology.components
                if each.kind is kind and each.id in reach
            ]
            if found:
                return min(found)[2]
        raise InputError(
            f"{device.id} is not connected to host memory in {self._topology.name}",
            hint="emulate a topology that has NUMA nodes, packages or host bridges",
        )

    def links(self, source: str, target: str) -> _Hops:
        """Links of the shortest path between two vertices."""
        hops = self.way(source, target)
        if not hops:
            raise InputError(
                f"no path from {source} to {target} in {self._topology.name}",
                hint="emulate a topology whose devices and host memory are connected by links",
            )
        return hops

    def way(self, source: str, target: str) -> _Hops:
        """Those links; none where none lead there."""
        reach = self._reach(source)
        hops: _Hops = []
        if target not in reach:
            return hops
        here = target
        while here != source:
            _, before, number = reach[here]
            link = self._topology.links[number]
            hops.append((link, here == link.ends[0]))
            here = before
        return hops[::-1]

    def _reach(self, source: str) -> dict[str, tuple[float, str, int]]:
        """Distance, predecessor and last link of every vertex that traffic of `source` reaches."""
        links = self._topology.links
        return shortest(
            [source],
            self._near,
            lambda number: links[number].latency_s.value + 1e-12,  # ties: fewer links
            self._can_forward,
        )

    def _can_forward(self, vertex: str) -> bool:
        component: Component | None = self._components.get(vertex)
        return component is not None and component.kind is not ComponentKind.NVSWITCH


def scaled_topology(topology: Topology, scale: float) -> Topology:
    """`topology` with every bandwidth multiplied by `scale`; latencies stay, as in the stand-in.

    Predictions for it are of the seconds that the stand-in takes with the same `scale`.
    """
    links = tuple(replace(each, **_scaled_rates(each, scale)) for each in topology.links)
    routes = []
    for route in topology.routes:
        curve = route.curve
        if curve is not None:
            points = (replace(p, bytes_per_s=p.bytes_per_s * scale) for p in curve.points)
            curve = replace(curve, points=tuple(points))
        routes.append(replace(route, curve=curve, **_scaled_rates(route, scale)))
    return replace(topology, links=links, routes=tuple(routes))


def _scaled_rates(part: Link | Route, scale: float) -> dict[str, Any]:
    rates = {name: getattr(part, name) for name in quantity_fields(type(part))}
    return {
        name: replace(rate, value=rate.value * scale)
        for name, rate in rates.items()
        if rate is not None and name.endswith("bytes_per_s")
    }
