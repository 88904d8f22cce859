"""What is known of pairs of devices, in the form that verdicts need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations

from toposeat.model.flow_rate import flow_rate
from toposeat.model.quantity import Source
from toposeat.model.topology import (
    ComponentKind,
    Device,
    Link,
    PathClass,
    Route,
    Topology,
)
from toposeat.topology.graph.routes import DEVICE_LINKS, class_of_route

NEARNESS = tuple(PathClass)  # nearest first
_ALIKE = 0.01  # rates within this share of each other are one rate


class Pairs:
    """The device pairs of a topology: routes, rates, groups."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.devices: tuple[Device, ...] = topology.devices
        self._links = topology.link_of_id
        self._kinds = {c.id: c.kind for c in topology.components}

    @property
    def all(self) -> Iterable[tuple[int, int]]:
        """Unordered pairs of positions."""
        return combinations(range(len(self.devices)), 2)

    def route(self, i: int, j: int) -> Route | None:
        """The route from the i-th to the j-th device."""
        return self.topology.route_of_pair.get((self.devices[i].id, self.devices[j].id))

    def rate(self, i: int, j: int) -> float | None:
        """Bytes/s that one flow from i to j reaches on an idle machine; None without a route."""
        route = self.route(i, j)
        return None if route is None else rate_of(self.topology, route)

    def mean_rate(self, i: int, j: int) -> float:
        """Of both directions; 0 where none is known."""
        rates = [rate for rate in (self.rate(i, j), self.rate(j, i)) if rate]
        return sum(rates) / len(rates) if rates else 0.0

    def is_measured(self, i: int, j: int) -> bool:
        """Whether somebody measured what a flow between the two reaches."""
        routes = (self.route(i, j), self.route(j, i))
        caps = (route.cap_bytes_per_s for route in routes if route is not None)
        return any(cap is not None and cap.source is Source.MEASURED for cap in caps)

    def path_class(self, i: int, j: int) -> PathClass:
        """The stated class of a pair."""
        route = self.route(i, j) or self.route(j, i)
        return PathClass.UNKNOWN if route is None else route.path_class

    def joined(self, i: int, j: int) -> bool:
        """Whether device links join a pair without another device between."""
        route = self.route(i, j)
        if route is None or route.path_class is not PathClass.NVL:
            return False
        walk = _inner_vertices(route, self._links)
        return all(self._kinds.get(v) is ComponentKind.NVSWITCH for v in walk) and all(
            self._links[each].kind in DEVICE_LINKS for each in route.links
        )

    @cached_property
    def groups(self) -> list[list[int]]:
        """Devices that device links join, directly or over others: components of two or more."""
        return [group for group in self.components_of(self.joined) if len(group) > 1]

    def components_of(self, related: Callable[[int, int], bool]) -> list[list[int]]:
        """Connected components of a relation between positions."""
        group = list(range(len(self.devices)))
        for i, j in self.all:
            if related(i, j) and group[i] != group[j]:
                old, new = group[j], group[i]
                group = [new if g == old else g for g in group]
        members: dict[int, list[int]] = {}
        for position, root in enumerate(group):
            members.setdefault(root, []).append(position)
        return list(members.values())

    def complete(self, group: Sequence[int]) -> bool:
        """Whether device links join each two of a group directly."""
        return all(self.joined(i, j) for i, j in combinations(group, 2))

    def alike(self, pairs: Iterable[tuple[int, int]]) -> bool:
        """Whether pairs have one class and one rate, both ways; over others or not, all alike."""
        classes: set[tuple[PathClass, bool]] = set()
        rates: list[float] = []
        for i, j in pairs:
            classes.add((self.path_class(i, j), self.joined(i, j)))
            for rate in (self.rate(i, j), self.rate(j, i)):
                if rate is None:
                    return False
                rates.append(rate)
        return len(classes) <= 1 and (not rates or max(rates) <= min(rates) * (1 + _ALIKE))

    @cached_property
    def pcie_classes(self) -> dict[tuple[int, int], PathClass]:
        """The class of each pair over PCIe alone, whatever device links there are."""
        links = [x for x in self.topology.links if x.kind not in DEVICE_LINKS]
        near: dict[str, list[tuple[str, Link]]] = {}
        for link in links:
            a, b = link.ends
            near.setdefault(a, []).append((b, link))
            near.setdefault(b, []).append((a, link))
        devices = {d.id for d in self.devices} | {n.id for n in self.topology.nics}
        found: dict[tuple[int, int], PathClass] = {}
        position = {d.id: i for i, d in enumerate(self.devices)}
        for i, device in enumerate(self.devices):
            for target, path in _paths_from(device.id, near, devices).items():
                j = position.get(target)
                if j is not None and j != i:
                    found[i, j] = class_of_route(device.id, path, self._kinds)
        return found


def rate_of(topology: Topology, route: Route) -> float:
    """What a single flow on a route reaches, bytes/s; 0 where it has no links."""
    rate = flow_rate(topology, route)
    return 0.0 if rate is None else rate.value


def _inner_vertices(route: Route, links: Mapping[str, Link]) -> list[str]:
    walk = [route.source]
    for id in route.links:
        ends = links[id].ends
        walk.append(ends[1] if walk[-1] == ends[0] else ends[0])
    return walk[1:-1]


def _paths_from(
    source: str, near: dict[str, list[tuple[str, Link]]], ends: set[str]
) -> dict[str, list[Link]]:
    """Fewest-links paths from a device to others; devices and NICs pass nothing on."""
    paths: dict[str, list[Link]] = {source: []}
    front = [source]
    while front:
        following: list[str] = []
        for here in front:
            if here != source and here in ends:
                continue
            for there, link in near.get(here, ()):
                if there not in paths:
                    paths[there] = [*paths[here], link]
                    following.append(there)
        front = following
    return paths
