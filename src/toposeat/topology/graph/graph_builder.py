"""Collects vertices and links, then routes every pair: the last step of all topology sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from toposeat import _core
from toposeat.model.quantity import Quantity, nominal
from toposeat.model.topology import (
    ANY_HOST,
    Component,
    ComponentKind,
    Device,
    Link,
    LinkKind,
    Nic,
    PathClass,
    Route,
    Topology,
)
from toposeat.topology import constants as k

DEVICE_LINKS = frozenset({LinkKind.NVLINK, LinkKind.XGMI, LinkKind.XELINK})

# Drivers take device links wherever they lead to the target, whatever the latency: routing prefers
# them by a weight that no sum of latencies reaches.
_OTHER_LINK_PENALTY_S = 1e-3


@dataclass
class GraphBuilder:
    """A topology under construction; ids of links are made from their ends.

    `pair_fraction` is what a single flow reaches of the PCIe links it uses, by path class.
    """

    host: str = ANY_HOST
    pair_fraction: Mapping[PathClass, float] = field(default_factory=lambda: k.PAIR_FRACTION)
    devices: list[Device] = field(default_factory=list)
    nics: list[Nic] = field(default_factory=list)
    components: list[Component] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    report: list[str] = field(default_factory=list)
    flow_of_link: dict[str, float] = field(default_factory=dict)
    _parallel: dict[str, int] = field(default_factory=dict)

    def component(
        self,
        kind: ComponentKind,
        id: str,
        *,
        name: str = "",
        pci_bus_id: str | None = None,
        numa_node: int | None = None,
        cpus: str | None = None,
    ) -> str:
        """Add a component and return its id."""
        self.components.append(
            Component(
                id=id,
                kind=kind,
                host=self.host,
                name=name,
                pci_bus_id=pci_bus_id,
                numa_node=numa_node,
                cpus=cpus,
            )
        )
        return id

    def link(
        self,
        kind: LinkKind,
        a: str,
        b: str,
        *,
        bytes_per_s: float | Quantity,
        latency_s: float | Quantity,
        backward_bytes_per_s: float | Quantity | None = None,
        combined_bytes_per_s: float | Quantity | None = None,
        flow_bytes_per_s: float | None = None,
        count: int = 1,
        name: str = "",
    ) -> str:
        """Add a link between two vertices and return its id.

        Args:
            kind: what it is made of.
            a: one end.
            b: the other end; the forward direction is from a to b.
            bytes_per_s: capacity of the whole bond, forward, and backward unless given.
            latency_s: one way.
            backward_bytes_per_s: where it differs.
            combined_bytes_per_s: limit on both directions together, if the link has one.
            flow_bytes_per_s: what a single flow reaches on it, if less than the capacity.
            count: lanes of the bond.
            name: for display.
        """
        forward = _quantity(bytes_per_s)
        id = f"{kind.value}:{a}-{b}"
        seen = self._parallel.get(id, 0) + 1
        self._parallel[id] = seen
        id = id if seen == 1 else f"{id}#{seen}"
        self.links.append(
            Link(
                id=id,
                kind=kind,
                ends=(a, b),
                forward_bytes_per_s=forward,
                backward_bytes_per_s=(
                    forward if backward_bytes_per_s is None else _quantity(backward_bytes_per_s)
                ),
                combined_bytes_per_s=(
                    None if combined_bytes_per_s is None else _quantity(combined_bytes_per_s)
                ),
                latency_s=_quantity(latency_s),
                count=count,
                name=name,
            )
        )
        if flow_bytes_per_s is not None:
            self.flow_of_link[id] = flow_bytes_per_s
        return id

    def device_link(self, a: str, b: str, lane: k.DeviceLink, lanes: int, *, port: bool) -> str:
        """A bond of NVLink or xGMI lanes; `port` says that b is a switch, not a device."""
        latency = k.LATENCY_XGMI if lane.kind is LinkKind.XGMI else k.LATENCY_NVLINK
        if lane is k.NVLINK1:
            latency = k.LATENCY_NVLINK1
        return self.link(
            lane.kind,
            a,
            b,
            bytes_per_s=lane.data_sheet * lanes,
            combined_bytes_per_s=None if lane.combined is None else lane.combined * lanes,
            flow_bytes_per_s=lane.achievable * lanes,
            latency_s=k.LATENCY_NVSWITCH_PORT if port else latency,
            count=lanes,
            name=lane.name,
        )

    def pcie(
        self,
        a: str,
        b: str,
        *,
        bytes_per_s: float,
        latency_s: float = k.LATENCY_PCIE_BRIDGE,
        name: str = "",
    ) -> str:
        """A PCIe link: two directions, and a limit on both together."""
        return self.link(
            LinkKind.PCIE,
            a,
            b,
            bytes_per_s=bytes_per_s,
            combined_bytes_per_s=bytes_per_s * k.PCIE_COMBINED,
            latency_s=latency_s,
            name=name,
        )

    def fabric(self, host_bridge: str, numa: str, *, bytes_per_s: float) -> str:
        """What joins a host bridge to its NUMA node: on the die, never the bottleneck."""
        return self.link(
            LinkKind.PCIE,
            host_bridge,
            numa,
            bytes_per_s=bytes_per_s,
            latency_s=k.LATENCY_HOST_BRIDGE,
            name="on-die fabric",
        )

    def smp(
        self,
        a: str,
        b: str,
        *,
        bytes_per_s: float,
        combined_bytes_per_s: Quantity | None = None,
        name: str = "",
    ) -> str:
        """A link between sockets or NUMA nodes: one capacity for both directions together."""
        return self.link(
            LinkKind.SMP,
            a,
            b,
            bytes_per_s=bytes_per_s,
            combined_bytes_per_s=combined_bytes_per_s or bytes_per_s * k.SMP_COMBINED,
            latency_s=k.LATENCY_SMP,
            name=name,
        )

    def build(
        self,
        *,
        name: str,
        origin: str,
        classes: Mapping[tuple[str, str], PathClass] | None = None,
        caps: Mapping[tuple[str, str], Quantity] | None = None,
        both_ways: Mapping[tuple[str, str], Quantity] | None = None,
        peer_access: Mapping[tuple[str, str], bool] | None = None,
        sources: Sequence[str] = (),
        description: str = "",
        metadata: Mapping[str, str] | None = None,
        hidden: Sequence[str] = (),
    ) -> Topology:
        """Route every device to every other device and every NIC, and freeze.

        Args:
            name: of the machine.
            origin: what was read.
            classes: path classes that the source states itself, by ordered pair of ids.
            caps: limits of a single flow that are known better than by `nominal_cap`.
            both_ways: what a pair reaches in both directions together, by ordered pair, both alike.
            peer_access: what is known of peer access, by ordered pair of ids.
            sources: published facts used.
            description: one sentence.
            metadata: free remarks.
            hidden: PCI bus ids of GPUs that are there and cannot be used.
        """
        routes, unrouted = self._routes(classes or {}, caps or {}, peer_access or {})
        if both_ways:
            routes = [
                replace(r, combined_bytes_per_s=both_ways.get((r.source, r.target))) for r in routes
            ]
        report = list(self.report)
        if unrouted:
            report.append(
                f"no route known between {len(unrouted)} pairs, e.g. {unrouted[0][0]} and"
                f" {unrouted[0][1]}"
            )
        return Topology(
            name=name,
            origin=origin,
            devices=tuple(self.devices),
            nics=tuple(self.nics),
            components=tuple(self.components),
            links=tuple(self.links),
            routes=tuple(routes),
            report=tuple(dict.fromkeys(report)),
            sources=tuple(sources),
            description=description,
            metadata=dict(metadata or {}),
            hidden=tuple(hidden),
        )

    def _routes(
        self,
        classes: Mapping[tuple[str, str], PathClass],
        caps: Mapping[tuple[str, str], Quantity],
        peer_access: Mapping[tuple[str, str], bool],
    ) -> tuple[list[Route], list[tuple[str, str]]]:
        paths = self._paths()
        kinds = {c.id: c.kind for c in self.components}
        flows = self._flows()
        ids = [link.id for link in self.links]
        targets: list[Device | Nic] = [*self.devices, *self.nics]
        routes: list[Route] = []
        unrouted: list[tuple[str, str]] = []
        for source, row in zip(self.devices, paths, strict=True):
            for target, path in zip(targets, row, strict=True):
                pair = (source.id, target.id)
                if source.id == target.id:
                    continue
                if not path:  # an adapter serves its own host
                    if isinstance(target, Device) or target.host == source.host:
                        unrouted.append(pair)
                    continue
                links = list(map(self.links.__getitem__, path))
                path_class = classes.get(pair) or class_of_route(source.id, links, kinds)
                routes.append(
                    Route(
                        source=source.id,
                        target=target.id,
                        links=tuple(map(ids.__getitem__, path)),
                        path_class=path_class,
                        cap_bytes_per_s=caps.get(pair) or self._cap(path_class, path, flows),
                        peer_access=peer_access.get(pair),
                    )
                )
        return routes, unrouted

    def _paths(self) -> list[list[list[int]]]:
        vertices: list[Device | Nic | Component] = [*self.devices, *self.nics, *self.components]
        number = {v.id: i for i, v in enumerate(vertices)}
        components = {c.id for c in self.components}
        forwards = [v.id in components or (isinstance(v, Device) and v.forwards) for v in vertices]
        links = [
            (
                number[link.ends[0]],
                number[link.ends[1]],
                link.latency_s.value
                + (0.0 if link.kind in DEVICE_LINKS else _OTHER_LINK_PENALTY_S),
                min(link.forward_bytes_per_s.value, link.backward_bytes_per_s.value),
            )
            for link in self.links
        ]
        sources = list(range(len(self.devices)))
        targets = list(range(len(self.devices) + len(self.nics)))
        return _core.shortest_routes(len(vertices), links, forwards, sources, targets)

    def _flows(self) -> _Flows:
        flow = [self.flow_of_link.get(x.id, x.forward_bytes_per_s.value) for x in self.links]
        pcie = [x.kind is LinkKind.PCIE for x in self.links]
        return _Flows(
            narrowest=[
                min(x.forward_bytes_per_s.value, x.backward_bytes_per_s.value) for x in self.links
            ],
            pcie=[f if is_pcie else inf for f, is_pcie in zip(flow, pcie, strict=True)],
            other=[inf if is_pcie else f for f, is_pcie in zip(flow, pcie, strict=True)],
        )

    def _cap(self, path_class: PathClass, path: Sequence[int], flows: _Flows) -> Quantity | None:
        """What a single flow reaches, where that is less than the narrowest link."""
        fraction = self.pair_fraction.get(path_class, 1.0)
        if fraction >= 1 and not self.flow_of_link:
            return None
        narrowest = min(map(flows.narrowest.__getitem__, path))
        over_pcie = min(map(flows.pcie.__getitem__, path)) * fraction
        over_others = min(map(flows.other.__getitem__, path))
        flow = min(over_pcie, over_others)
        return nominal(flow) if flow < narrowest else None


@dataclass(frozen=True, slots=True)
class _Flows:
    """By number of link, in bytes/s: what it carries, and what one flow reaches on it.

    The latter apart for PCIe (infinite for other links), of which some paths reach a fraction only.
    """

    narrowest: list[float]
    pcie: list[float]
    other: list[float]


def class_of_route(
    source: str, links: Sequence[Link], kinds: Mapping[str, ComponentKind]
) -> PathClass:
    """The nvidia-smi word for a route, from what it passes through."""
    used = {link.kind for link in links}
    if LinkKind.NETWORK in used:
        return PathClass.NET
    if LinkKind.SMP in used:
        return PathClass.SYS
    if not kinds and used <= DEVICE_LINKS:  # a ring of 256 has 4 million steps to walk
        return PathClass.NVL
    walk = [source]
    for link in links:
        walk.append(link.ends[1] if walk[-1] == link.ends[0] else link.ends[0])
    passed = [kinds[v] for v in walk[1:-1] if v in kinds]
    relays = len(walk) - 2 - len(passed)  # devices that forward
    if used <= DEVICE_LINKS and not set(passed) - {ComponentKind.NVSWITCH}:
        return PathClass.NVL
    if used <= {LinkKind.C2C}:
        return PathClass.C2C
    return _class_inside_numa_node(passed, relays)


def _class_inside_numa_node(passed: Sequence[ComponentKind], relays: int) -> PathClass:
    bridges = passed.count(ComponentKind.HOST_BRIDGE)
    if bridges > 1:
        return PathClass.NODE
    if bridges == 1 or ComponentKind.NUMA in passed or ComponentKind.PACKAGE in passed:
        return PathClass.PHB
    near = passed.count(ComponentKind.SWITCH) <= 1 and not relays
    return PathClass.PIX if near else PathClass.PXB


def _quantity(value: float | Quantity) -> Quantity:
    return value if isinstance(value, Quantity) else nominal(float(value))
