"""What is known of devices and their pairs, in the form and with the names that verdicts need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from itertools import combinations

from toposeat.model.flow_rate import flow_rate
from toposeat.model.quantity import Source
from toposeat.model.topology import (
    MEASURED_PORTS,
    ComponentKind,
    Device,
    PathClass,
    Route,
    Topology,
)
from toposeat.topology.graph.routes import DEVICE_LINKS, shortest_routes

NEARNESS = tuple(PathClass)  # nearest first
_MOST = 6  # names in a list
_ALIKE = 0.01  # rates within this share of each other are one rate


class Pairs:
    """The device pairs of a topology: names, routes, rates, groups.

    `name` has the short names of devices by id: `D3`, or `node07:D3` among several hosts.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.devices: tuple[Device, ...] = topology.devices
        self._links = topology.link_of_id
        self._kinds = {c.id: c.kind for c in topology.components}
        several = len(topology.hosts) > 1
        self.name = {d.id: f"{d.host}:" * several + f"D{d.index}" for d in topology.devices}
        self.all = list(combinations(range(len(self.devices)), 2))  # unordered, of positions

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
        here = route.source
        for link in map(self._links.__getitem__, route.links):
            here = link.ends[1] if here == link.ends[0] else link.ends[0]
            passes = here == route.target or self._kinds.get(here) is ComponentKind.NVSWITCH
            if not passes or link.kind not in DEVICE_LINKS:
                return False
        return True

    @cached_property
    def lanes(self) -> Counter[str]:
        """Active lanes of the device links of each device by id."""
        lanes: Counter[str] = Counter()
        for link in self.topology.links:
            if link.kind in DEVICE_LINKS:
                lanes.update(dict.fromkeys(link.ends, link.count))
        return lanes

    @cached_property
    def switched(self) -> set[str]:
        """Devices whose device links end at a switch, which measured ports do not show."""
        return {
            end
            for link in self.topology.links
            for end, other in (link.ends, link.ends[::-1])
            if link.kind in DEVICE_LINKS
            and self._kinds.get(other) is ComponentKind.NVSWITCH
            and other != MEASURED_PORTS
        }

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

    def alike(self, pairs: Iterable[tuple[int, int]]) -> bool:
        """Whether pairs agree in class, in rate both ways, and in being joined directly or not."""
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
        links = tuple(x for x in self.topology.links if x.kind not in DEVICE_LINKS)
        routes, _ = shortest_routes(replace(self.topology, links=links, pairs=(), routes=()))
        position = {d.id: i for i, d in enumerate(self.devices)}
        return {
            (position[r.source], position[r.target]): r.path_class
            for r in routes
            if r.target in position
        }


def rate_of(topology: Topology, route: Route) -> float:
    """What a single flow on a route reaches, bytes/s; 0 where it has no links."""
    rate = flow_rate(topology, route)
    return 0.0 if rate is None else rate.value


def few(names: Iterable[str]) -> str:
    """`D0, D1, D2`; of many the first, and how many more."""
    each = list(names)
    if len(each) <= _MOST:
        return ", ".join(each)
    return ", ".join(each[: _MOST - 1]) + f" and {len(each) - _MOST + 1} more"
