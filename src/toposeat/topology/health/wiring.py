"""How a machine is wired: the class that decides whether the order of ranks can matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations, pairwise

from toposeat.model.few import listed
from toposeat.model.flow_rate import flow_rate
from toposeat.model.graph import components
from toposeat.model.health import Shape, Wiring
from toposeat.model.path_class import DEVICE_LINKS
from toposeat.model.quantity import Source
from toposeat.model.topology import (
    MEASURED_PORTS,
    ComponentKind,
    Device,
    PathClass,
    Route,
    Topology,
)
from toposeat.topology.graph.routes import shortest_routes
from toposeat.topology.untold import untold_pairs

_MAX_NAMED = 4
_TELLING_GAP = 1.15  # between neighbouring rates: direction and noise alone make 10 % and more
_BELOW_SWITCH = {PathClass.PIX, PathClass.PXB}


def wiring_of(topology: Topology) -> Wiring:
    """The wiring class of one machine, with its reason in words."""
    wiring = _drawn_wiring(topology)
    untold = len(untold_pairs(topology))
    if not untold or wiring.shape is Shape.UNKNOWN:
        return wiring
    doubt = f"without device links: of {untold} pairs it is not known whether they have any"
    return replace(wiring, reason=f"{wiring.reason}; {doubt}")


def _drawn_wiring(topology: Topology) -> Wiring:
    pairs = Pairs(topology)
    count = len(topology.devices)
    if count < 2:
        return Wiring(shape=Shape.SINGLE, reason="one device: there is no order to choose")
    if says_nothing(topology, pairs):
        return Wiring(
            shape=Shape.UNKNOWN,
            reason="what was read does not tell pairs of devices apart (a virtual machine?)",
        )
    if pairs.alike(pairs.all):
        found = pairs.path_class(0, 1)
        rate = f"{pairs.mean_rate(0, 1) / 1e9:.3g} GB/s"
        what = rate if found is PathClass.UNKNOWN else found.value
        who = "two devices" if count == 2 else f"all {count} devices"
        return Wiring(shape=Shape.UNIFORM, reason=f"{who} are alike to each other ({what})")
    if not pairs.groups:
        one_class = len({pairs.path_class(i, j) for i, j in pairs.all}) == 1
        return _of_rates(pairs) if one_class else _of_pcie(pairs)
    return _of_groups(pairs)


def says_nothing(topology: Topology, pairs: Pairs) -> bool:
    """Whether nothing is known of pairs: a reader said so, or no class and no measured rate is."""
    if all(pairs.is_measured(i, j) for i, j in pairs.all):
        return False
    if topology.metadata.get("relations") == "information-free":
        return True
    return all(pairs.path_class(i, j) is PathClass.UNKNOWN for i, j in pairs.all)


def _of_rates(pairs: Pairs) -> Wiring:
    """The wiring by rates, where classes tell no pairs apart: the widest gap separates them."""
    rates = {(i, j): pairs.mean_rate(i, j) for i, j in pairs.all}
    known = sorted(rate for rate in rates.values() if rate)
    span = f"{known[0] / 1e9:.3g} to {known[-1] / 1e9:.3g} GB/s" if known else ""
    gap, least_fast = max(
        ((after / before, after) for before, after in pairwise(known)), default=(1.0, 0.0)
    )
    if gap < _TELLING_GAP:
        return Wiring(shape=Shape.UNIFORM, reason=f"no pairs stand out by their rates ({span})")
    fast = [
        group
        for group in pairs.components_of(lambda i, j: rates[i, j] >= least_fast)
        if len(group) > 1
    ]
    words = f"rates ({span}) join {_named(pairs, fast)}"
    if all(len(group) == 2 for group in fast):
        return Wiring(shape=Shape.PAIRED, reason=words)
    complete = all(rates[p] >= least_fast for group in fast for p in combinations(group, 2))
    if complete and len(fast) > 1:
        return Wiring(shape=Shape.ISLANDS, reason=words)
    return Wiring(shape=Shape.MESH, reason=f"pairs differ by their rates ({span})")


def _of_pcie(pairs: Pairs) -> Wiring:
    classes = {pairs.path_class(i, j) for i, j in pairs.all}
    words = ", ".join(c.value for c in NEARNESS if c in classes)
    below = [
        group
        for group in pairs.components_of(lambda i, j: pairs.path_class(i, j) in _BELOW_SWITCH)
        if len(group) > 1
    ]
    if below:
        return Wiring(
            shape=Shape.SWITCHED,
            reason=f"PCIe switches join {_named(pairs, below)}; pairs are {words}",
        )
    return Wiring(
        shape=Shape.SPLIT, reason=f"host bridges and sockets alone tell pairs apart ({words})"
    )


def _of_groups(pairs: Pairs) -> Wiring:
    groups = pairs.groups
    kind = _link_word(pairs)
    if all(len(group) == 2 for group in groups):
        crossing = [group for group in groups if crosses(pairs, *group)]
        if crossing:
            return Wiring(
                shape=Shape.CROSSED,
                reason=f"{kind} joins {_named(pairs, crossing)}, but PCIe puts other pairs"
                " together",
            )
        return Wiring(shape=Shape.PAIRED, reason=f"{kind} joins {_named(pairs, groups)}")
    alike = all(
        all(pairs.joined(i, j) for i, j in combinations(group, 2))
        and pairs.alike(combinations(group, 2))
        for group in groups
    )
    if alike and len(groups) > 1:
        return Wiring(
            shape=Shape.ISLANDS, reason=f"{kind} joins {_named(pairs, groups)}, alike inside"
        )
    return Wiring(shape=Shape.MESH, reason=_mesh_reason(pairs, kind))


def _mesh_reason(pairs: Pairs, kind: str) -> str:
    total = len(pairs.all)
    direct = [pair for pair in pairs.all if pairs.joined(*pair)]
    rates = sorted({round((pairs.rate(i, j) or 0.0) / 1e9) for i, j in direct})
    unequal = f" at {rates[0]} to {rates[-1]} GB/s" if len(rates) > 1 else ""
    if len(direct) < total:
        return f"{kind} joins {len(direct)} of {total} pairs{unequal}: an incomplete mesh"
    return f"{kind} joins all pairs{unequal}: an unequal mesh"


def crosses(pairs: Pairs, i: int, j: int) -> bool:
    """Whether PCIe puts i or j nearer to a third device than to the other."""
    classes = pairs.pcie_classes
    here = classes.get((i, j))
    if here is None:
        return False
    nearer = NEARNESS[: NEARNESS.index(here)]
    return any(
        found in nearer for (a, b), found in classes.items() if a in (i, j) and b not in (i, j)
    )


def _link_word(pairs: Pairs) -> str:
    names = {"nvlink": "NVLink", "xgmi": "xGMI", "xelink": "Xe Link"}
    devices = {d.id for d in pairs.devices}
    kinds = {
        names[x.kind.value]
        for x in pairs.topology.links
        if x.kind.value in names and devices & set(x.ends)
    }
    return " and ".join(sorted(kinds)) or "a device link"


def _named(pairs: Pairs, groups: Sequence[Sequence[int]]) -> str:
    """`D0-D2, D1-D3`, `D0..D3, D4..D7`; long lists end in a number."""
    names = list(pairs.name.values())
    words = []
    for group in groups:
        row = len(group) > 2 and list(group) == list(range(group[0], group[-1] + 1))
        ends = (names[group[0]], names[group[-1]])
        words.append("..".join(ends) if row else "-".join(names[each] for each in group))
    return listed(words, _MAX_NAMED)


NEARNESS = tuple(PathClass)  # nearest first
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

    def named(self, route: Route) -> str:
        """`D0-D1`: the ends of a route between devices."""
        return f"{self.name[route.source]}-{self.name[route.target]}"

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
        return components(range(len(self.devices)), (p for p in self.all if related(*p)))

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
