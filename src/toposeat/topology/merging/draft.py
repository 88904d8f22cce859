"""A topology open to change: links by id, routes by pair, routed anew where links changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from toposeat.model.quantity import Quantity, nominal
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    Link,
    LinkKind,
    Nic,
    Route,
    Topology,
)
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.routes import DEVICE_LINKS


@dataclass
class Draft:
    """The members of a topology, open to change; `base` is what it was made of."""

    base: Topology
    devices: list[Device]
    nics: list[Nic]
    components: list[Component]
    links: dict[str, Link]
    routes: dict[tuple[str, str], Route]
    report: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, topology: Topology) -> Draft:
        """A draft that equals `topology`."""
        return cls(
            base=topology,
            devices=list(topology.devices),
            nics=list(topology.nics),
            components=list(topology.components),
            links={link.id: link for link in topology.links},
            routes={(r.source, r.target): r for r in topology.routes},
            report=list(topology.report),
        )

    def topology(self, *, name: str, origin: str) -> Topology:
        """The topology as it is now."""
        return replace(
            self.base,
            name=name,
            origin=origin,
            devices=tuple(self.devices),
            nics=tuple(self.nics),
            components=tuple(self.components),
            links=tuple(self.links.values()),
            routes=tuple(self.routes.values()),
            report=tuple(dict.fromkeys(self.report)),
        )

    def builder(self) -> GraphBuilder:
        """A builder that holds the same vertices and links, to add some; see `reroute`."""
        return GraphBuilder(
            host=self.devices[0].host,
            devices=list(self.devices),
            nics=list(self.nics),
            components=list(self.components),
            links=list(self.links.values()),
        )

    def reroute(self, builder: GraphBuilder) -> None:
        """Take over vertices and links of a builder, and route anew.

        Pairs whose links are the same as before keep their route with all that is known of it;
        others keep what is known of the pair: peer access, and numbers that are not nominal.
        """
        built = builder.build(name=self.base.name, origin=self.base.origin)
        self.devices, self.nics = list(built.devices), list(built.nics)
        self.components = list(built.components)
        self.links = {link.id: link for link in built.links}
        before, self.routes = self.routes, {}
        for route in built.routes:
            pair = (route.source, route.target)
            old = before.get(pair)
            if old is not None and (old.links == route.links or old.staged):
                self.routes[pair] = old
            else:
                self.routes[pair] = replace(route, peer_access=old.peer_access if old else None)
        self.report.extend(built.report)

    def walk(self, route: Route) -> Iterator[tuple[Link, bool]]:
        """Links of a route in order, each with whether it is walked from `ends[1]` to `ends[0]`."""
        here = route.source
        for id in route.links:
            link = self.links[id]
            backward = here == link.ends[1]
            here = link.ends[0] if backward else link.ends[1]
            yield link, backward

    def capacity(self, route: Route) -> float:
        """The narrowest link of a route in its direction, bytes/s."""
        return min(
            (link.backward_bytes_per_s if backward else link.forward_bytes_per_s).value
            for link, backward in self.walk(route)
        )

    def set_capacity(self, link: Link, rate: Quantity, *, backward: bool) -> None:
        """Give one direction another capacity; the limit on both together changes in proportion."""
        if backward:
            link = replace(link, backward_bytes_per_s=rate)
        else:
            link = replace(link, forward_bytes_per_s=rate)
        first = self.base.link_of_id.get(link.id, link)
        combined = first.combined_bytes_per_s
        if combined is not None and _fastest(first) not in (0, _fastest(link)):
            both = combined.value * _fastest(link) / _fastest(first)
            combined = nominal(both)  # even where it was measured: with other capacities
        self.links[link.id] = replace(link, combined_bytes_per_s=combined)

    def used_by(self, kinds: Iterable[ComponentKind]) -> set[str]:
        """Ids of the components of some kinds."""
        wanted = set(kinds)
        return {c.id for c in self.components if c.kind in wanted}


def _fastest(link: Link) -> float:
    return max(link.forward_bytes_per_s.value, link.backward_bytes_per_s.value)


def is_bond(link: Link, inner: set[str]) -> bool:
    """Whether a link is one of devices among themselves, their switches or the CPU's own NVLink.

    Args:
        link: any.
        inner: ids of devices and of switches of device links.
    """
    return link.kind in DEVICE_LINKS or (link.kind is LinkKind.C2C and set(link.ends) <= inner)
