"""Collects the vertices and links that a source tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from msgspec import Struct, field

from toposeat.model.quantity import Premise, Quantity, assumed, joined, nominal
from toposeat.model.topology import (
    ANY_HOST,
    Component,
    ComponentKind,
    Device,
    FactKind,
    Link,
    LinkKind,
    Nic,
    Pair,
    PathClass,
    Topology,
)
from toposeat.topology import constants as k
from toposeat.topology.graph.rates import NODES_PER_SOCKET
from toposeat.topology.graph.routes import with_routes
from toposeat.topology.premises import PCIE_RATE, scaled
from toposeat.topology.processors import unknown
from toposeat.topology.told import Ends, told_pairs


class GraphBuilder(Struct):
    """A topology under construction; ids of links are made from their ends.

    `flows_fill_links` says that a single flow is told to reach the capacity of its links.
    """

    host: str = ANY_HOST
    flows_fill_links: bool = False
    devices: list[Device] = field(default_factory=list)
    nics: list[Nic] = field(default_factory=list)
    components: list[Component] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    tells: set[FactKind] = field(default_factory=set)
    metadata: dict[str, str] = field(default_factory=dict)
    report: list[str] = field(default_factory=list)
    premises: list[Premise] = field(default_factory=list)
    _parallel: dict[str, int] = field(default_factory=dict)

    def component(self, kind: ComponentKind, id: str, **told: Any) -> str:
        """Add a component, with what else is told of it, and return its id."""
        self.components.append(Component(id=id, kind=kind, host=self.host, **told))
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
        flow_bytes_per_s: float | Quantity | None = None,
        count: int = 1,
        name: str = "",
    ) -> str:
        """Add a link between two vertices and return its id.

        Numbers are of all `count` lanes together. The forward direction is from a to b, and the
        other as fast unless told. `flow_bytes_per_s` is what a single flow reaches on it.
        """
        forward = _quantity(bytes_per_s)
        backward, combined, flow = (
            None if rate is None else _quantity(rate)
            for rate in (backward_bytes_per_s, combined_bytes_per_s, flow_bytes_per_s)
        )
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
                backward_bytes_per_s=backward or forward,
                combined_bytes_per_s=combined,
                flow_bytes_per_s=flow,
                latency_s=_quantity(latency_s),
                count=count,
                name=name,
            )
        )
        return id

    def assume(self, value: float, *premises: Premise, of: Quantity | None = None) -> Quantity:
        """A number that rests on premises, and on those of the number it is made from."""
        self.premises += premises
        return assumed(value, *premises, of=of)

    def untold_pcie(self, generation: int, width: int = 16) -> Quantity:
        """The assumed capacity of a PCIe link, one direction, whose generation no source tells."""
        return self.assume(k.pcie_bytes_per_s(generation, width), PCIE_RATE)

    def device_link(
        self,
        a: str,
        b: str,
        lane: k.DeviceLink,
        lanes: int,
        *,
        port: bool,
        premise: Premise | None = None,
    ) -> str:
        """A bond of NVLink or xGMI lanes; `port` says that b is a switch, not a device.

        `premise` is what the rate of a lane rests on, where the product is untold.
        """

        def rate(value: float) -> Quantity:
            return (
                nominal(value * lanes) if premise is None else self.assume(value * lanes, premise)
            )

        latency = k.LATENCY_XGMI if lane.kind is LinkKind.XGMI else k.LATENCY_NVLINK
        if lane is k.NVLINK1:
            latency = k.LATENCY_NVLINK1
        return self.link(
            lane.kind,
            a,
            b,
            bytes_per_s=rate(lane.data_sheet),
            combined_bytes_per_s=None if lane.combined is None else rate(lane.combined),
            flow_bytes_per_s=rate(lane.achievable),
            latency_s=k.LATENCY_NVSWITCH_PORT if port else latency,
            count=lanes,
            name=lane.name,
        )

    def pcie(
        self,
        a: str,
        b: str,
        *,
        bytes_per_s: float | Quantity,
        latency_s: float = k.LATENCY_PCIE_BRIDGE,
        name: str = "",
    ) -> str:
        """A PCIe link: two directions, and an assumed limit on both together."""
        rate = _quantity(bytes_per_s)
        return self.link(
            LinkKind.PCIE,
            a,
            b,
            bytes_per_s=rate,
            combined_bytes_per_s=self.both_ways(rate, unknown().pcie_both),
            latency_s=latency_s,
            name=name,
        )

    def fabric(self, host_bridge: str, numa: str, *, bytes_per_s: float | Quantity) -> str:
        """The on-die link of a host bridge to its NUMA node; it is never the bottleneck."""
        return self.link(
            LinkKind.PCIE,
            host_bridge,
            numa,
            bytes_per_s=bytes_per_s,
            latency_s=k.LATENCY_HOST_BRIDGE,
            name="on-die fabric",
        )

    def sockets(self, a: str, b: str) -> str:
        """A link between sockets whose capacity no source tells."""
        premise = unknown().sockets
        rate = self.assume(premise.nominal * k.GB_PER_S, premise)
        both = scaled(rate, unknown().sockets_both.nominal)
        return self.smp(a, b, bytes_per_s=rate, combined_bytes_per_s=both)

    def join_nodes(
        self,
        packages: Mapping[int | str, Sequence[str]],
        *,
        die_bytes_per_s: float | Quantity,
    ) -> None:
        """Join NUMA nodes: over their socket's die where sockets hold several, else directly.

        `packages` has the nodes of each socket by its number; of a node whose socket is not told
        the key is a text.
        """
        has_dies = any(len(members) > 1 for members in packages.values())
        if all(isinstance(package, int) for package in packages):
            nodes = sum(map(len, packages.values()))
            self.metadata[NODES_PER_SOCKET] = str(nodes // max(1, len(packages)))
        joined: list[str] = []
        for package, members in packages.items():
            if not has_dies or isinstance(package, str):
                joined += members
                continue
            die = self.component(
                ComponentKind.PACKAGE, f"package{package}", name=f"socket {package}"
            )
            joined.append(die)
            for id in members:
                self.smp(id, die, bytes_per_s=die_bytes_per_s, name="on-die fabric")
        for a, b in combinations(joined, 2):
            self.sockets(a, b)

    def both_ways(self, rate: Quantity, duplex: Premise) -> Quantity:
        """The assumed limit on both directions of a link together."""
        return self.assume(rate.value * duplex.nominal, duplex, of=rate)

    def smp(
        self,
        a: str,
        b: str,
        *,
        bytes_per_s: float | Quantity,
        combined_bytes_per_s: Quantity | None = None,
        name: str = "",
    ) -> str:
        """A link between sockets or NUMA nodes, with an assumed limit on both directions."""
        rate = _quantity(bytes_per_s)
        return self.link(
            LinkKind.SMP,
            a,
            b,
            bytes_per_s=rate,
            combined_bytes_per_s=combined_bytes_per_s
            or self.both_ways(rate, unknown().sockets_both),
            latency_s=k.LATENCY_SMP,
            name=name,
        )

    def build(self, *, name: str, origin: str, **told: Any) -> Topology:
        """The whole machine of `facts`."""
        return with_routes(self.facts(name=name, origin=origin, **told))

    def facts(
        self,
        *,
        name: str,
        origin: str,
        classes: Mapping[Ends, PathClass] | None = None,
        caps: Mapping[Ends, Quantity] | None = None,
        both_ways: Mapping[Ends, Quantity] | None = None,
        peer_access: Mapping[Ends, bool] | None = None,
        metadata: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Topology:
        """All that was collected, and what is told of pairs: a machine without routes."""
        self.pairs += told_pairs(
            {
                "path_class": classes or {},
                "cap_bytes_per_s": caps or {},
                "combined_bytes_per_s": both_ways or {},
                "peer_access": peer_access or {},
            }
        )
        self.metadata |= metadata or {}
        facts = self.topology(name=name, origin=origin, **more)
        facts.check()
        return facts

    def topology(self, *, name: str, origin: str, **more: Any) -> Topology:
        """The topology as built so far, without routes."""
        return Topology(
            name=name,
            origin=origin,
            devices=tuple(self.devices),
            nics=tuple(self.nics),
            components=tuple(self.components),
            links=tuple(self.links),
            pairs=tuple(self.pairs),
            flows_fill_links=self.flows_fill_links,
            report=tuple(dict.fromkeys(self.report)),
            metadata=dict(self.metadata),
            tells=tuple(sorted(self.tells)),
            premises=joined(self.premises),
            **more,
        )


def _quantity(value: float | Quantity) -> Quantity:
    return value if isinstance(value, Quantity) else nominal(float(value))
