"""How a device reaches host memory: the links up to its NUMA node, and from any node down to it."""

from __future__ import annotations

import heapq
from collections import defaultdict

from toposeat.errors import InputError
from toposeat.model.topology import Component, ComponentKind, Device, Link, Topology

# Where host memory may be, the likeliest first.
_HOST_KINDS = (ComponentKind.NUMA, ComponentKind.PACKAGE, ComponentKind.HOST_BRIDGE)
_Hops = list[tuple[Link, bool]]  # links in order, and whether each is walked backward


class HostPaths:
    """Shortest paths, by latency, between the devices of one topology and its host memory."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._components = {c.id: c for c in topology.components}
        self._around: dict[str, list[tuple[str, Link, bool]]] = defaultdict(list)
        for link in topology.links:
            a, b = link.ends
            self._around[a].append((b, link, False))
            self._around[b].append((a, link, True))

    def home(self, device: Device) -> str:
        """The vertex that stands for the host memory near a device.

        Raises:
            InputError: the topology shows no host memory that the device reaches.
        """
        reach = self._shortest(device.id)
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
        """Links of the shortest path between two vertices.

        Raises:
            InputError: there is none.
        """
        reach = self._shortest(source)
        if target not in reach:
            raise InputError(
                f"no path from {source} to {target} in {self._topology.name}",
                hint="emulate a topology whose devices and host memory are connected by links",
            )
        hops: _Hops = []
        here = target
        while here != source:
            before, link, backward = reach[here][1:]
            hops.append((link, backward))
            here = before
        return hops[::-1]

    def _shortest(self, source: str) -> dict[str, tuple[float, str, Link, bool]]:
        """Distance, predecessor and last link of every vertex that traffic of `source` reaches."""
        done: dict[str, float] = {}
        reach: dict[str, tuple[float, str, Link, bool]] = {}
        queue: list[tuple[float, int, str]] = [(0.0, 0, source)]
        pushed = 0
        while queue:
            distance, _, here = heapq.heappop(queue)
            if here in done:
                continue
            done[here] = distance
            if here != source and not self._can_forward(here):
                continue
            for there, link, backward in self._around[here]:
                length = distance + link.latency_s.value + 1e-12  # ties: fewer links
                if there not in done and (there not in reach or length < reach[there][0]):
                    reach[there] = (length, here, link, backward)
                    pushed += 1
                    heapq.heappush(queue, (length, pushed, there))
        return reach

    def _can_forward(self, vertex: str) -> bool:
        component: Component | None = self._components.get(vertex)
        return component is not None and component.kind is not ComponentKind.NVSWITCH
