"""Routes derived from links: the shortest of each pair, with what is told of the pair.

`with_routes` makes a topology whole: it checks it, and routes every device to every other device
and to every NIC of its host. Files hold only what differs from this. `rerouted` does so for links
that were told otherwise before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

from msgspec import Struct

from toposeat.model.path_class import DEVICE_LINKS, class_of_route
from toposeat.model.quantity import (
    Quantity,
    Source,
    assumed,
    is_of_this_machine,
    joined,
    quantity_fields,
)
from toposeat.model.topology import (
    Device,
    LinkKind,
    Nic,
    Pair,
    PathClass,
    Route,
    Topology,
    Vendor,
    with_named_premises,
)
from toposeat.topology.graph.rates import (
    CopyRates,
    copy_premises,
    copy_rates,
    settled,
)
from toposeat.topology.graph.staged_routes import (
    OVER_PCIE,
    paths_over,
    with_nccl_copies,
    with_staged_routes,
)

# Drivers take device links wherever they lead to the target, whatever the latency: routing prefers
# them by a weight that no sum of latencies reaches.
_OTHER_LINK_PENALTY_S = 1e-3

Ends = tuple[str, str]


def with_routes(topology: Topology) -> Topology:
    """The topology with all routes that follow from its links and the facts of its pairs.

    A pair whose devices no links join has no route, which the report says. Where peer access is
    told to be off, the route goes through host memory.
    """
    return rerouted(replace(topology, routes=()))


def with_direct_routes(topology: Topology) -> Topology:
    """The topology with routes as if every pair had peer access; see `with_routes`."""
    return _routed(settled(replace(topology, routes=())))


def _routed(bare: Topology) -> Topology:
    """The settled facts with a direct route of each pair that has one."""
    bare.check()
    routes, unrouted = shortest_routes(bare)
    report = bare.report
    if unrouted and bare.links:
        doubt = (
            f"no route known between {len(unrouted)} pairs, e.g. {unrouted[0][0]} and"
            f" {unrouted[0][1]}"
        )
        report = tuple(dict.fromkeys([*report, doubt]))
    premises = joined([*bare.premises, *copy_premises(bare)])
    return replace(bare, routes=tuple(routes), premises=premises, report=report)


def rerouted(topology: Topology) -> Topology:
    """The topology with routes over its links now; those that it holds stay where they still lead.

    A route stays where its links are there and no link that none of them used is better. It keeps
    what was measured of it; nominal numbers are those of the facts now.
    """
    topology = settled(topology)
    fresh = _routed(replace(topology, routes=()))
    if topology.routes:
        links = topology.link_of_id
        used = {id for route in topology.routes for id in route.links}
        routes = dict(fresh.route_of_pair)
        for ends, before in topology.route_of_pair.items():
            now = routes.get(ends)
            if not all(id in links for id in before.links):
                continue
            if before.staged and (now is None or not is_of_this_machine(before.cap_bytes_per_s)):
                continue  # as the facts are now
            if now is None:
                routes[ends] = before
            elif used.issuperset(now.links) or before.staged:
                routes[ends] = _kept(before, now)
        fresh = replace(fresh, routes=tuple(routes.values()))
    return with_named_premises(with_staged_routes(fresh))


def _kept(before: Route, now: Route) -> Route:
    """The route as it was, with the nominal numbers of the facts now where its links are theirs."""
    peer = before.peer_access if now.peer_access is None else now.peer_access
    if before.links != now.links or before.staged:
        return replace(before, peer_access=peer)
    numbers: dict[str, Any] = {}
    for name in quantity_fields(Route):
        if not is_of_this_machine(getattr(before, name)):
            numbers[name] = getattr(now, name)
    if is_of_this_machine(before.cap_bytes_per_s):  # a ring's steps are what was measured, too
        numbers["ring_bytes_per_s"] = before.ring_bytes_per_s
    return replace(before, peer_access=peer, **numbers)


def with_peer_access(topology: Topology, *, peer_access: bool) -> Topology:
    """The machine as if its devices copied over PCIe directly, NCCL too, or through host memory.

    It answers what the other way to copy would give: a pair keeps what was measured of it in this
    way. What device links join stays.
    """
    devices = {device.id for device in topology.devices}
    told = dict(topology.pair_of_ends)
    for ends, route in topology.route_of_pair.items():
        if devices.issuperset(ends) and route.ring_bytes_per_s is not None:
            cap = None if peer_access else route.staged_bytes_per_s
            if route.staged is not peer_access and is_of_this_machine(route.cap_bytes_per_s):
                cap = route.cap_bytes_per_s
            pair = told.get(ends) or Pair(source=ends[0], target=ends[1])
            told[ends] = replace(pair, peer_access=peer_access, cap_bytes_per_s=cap)
    found = rerouted(replace(topology, routes=(), pairs=tuple(told.values())))
    return with_nccl_copies(found, OVER_PCIE) if peer_access else found


def shortest_routes(topology: Topology) -> tuple[list[Route], list[Ends]]:
    """The shortest route of each pair that has one, and the pairs of one host that have none."""
    links = topology.links
    kinds = {c.id: c.kind for c in topology.components}
    flows = _Flows.of(topology)
    ids = [link.id for link in links]
    told = topology.pair_of_ends
    untold = Pair(source="", target=".")
    targets: list[Device | Nic] = [*topology.devices, *topology.nics]
    routes: list[Route] = []
    unrouted: list[Ends] = []
    for source, row in zip(topology.devices, _paths(topology), strict=True):
        for target, path in zip(targets, row, strict=True):
            if source.id == target.id:
                continue
            if not path:  # an adapter serves its own host
                if isinstance(target, Device) or target.host == source.host:
                    unrouted.append((source.id, target.id))
                continue
            pair = told.get((source.id, target.id), untold)
            path_class = pair.path_class or class_of_route(
                source.id, list(map(links.__getitem__, path)), kinds
            )
            cap = pair.cap_bytes_per_s or flows.cap(path_class, path)
            routes.append(
                Route(
                    source=source.id,
                    target=target.id,
                    links=tuple(map(ids.__getitem__, path)),
                    path_class=path_class,
                    cap_bytes_per_s=cap,
                    combined_bytes_per_s=pair.combined_bytes_per_s
                    or (None if pair.cap_bytes_per_s else flows.both_ways(cap)),
                    ring_bytes_per_s=flows.ring(path_class, path, cap)
                    if _are_of_nccl(source, target)
                    else None,
                    peer_access=pair.peer_access,
                )
            )
    return routes, unrouted


def _are_of_nccl(source: Device, target: Device | Nic) -> bool:
    nvidia = source.vendor is Vendor.NVIDIA
    return nvidia and isinstance(target, Device) and target.host == source.host


def _paths(topology: Topology) -> list[list[list[int]]]:
    """Positions of links, for each device to each device and NIC."""
    forwards = {device.id: bool(device.forwards) for device in topology.devices}
    sources = list(forwards)
    forwards |= {nic.id: False for nic in topology.nics}
    targets = list(forwards)
    forwards |= {component.id: True for component in topology.components}
    return paths_over(
        topology.links,
        forwards,
        sources,
        targets,
        lambda link: 0.0 if link.kind in DEVICE_LINKS else _OTHER_LINK_PENALTY_S,
    )


class _Flows(Struct, frozen=True):
    """Bytes/s by position of the link: its narrowest direction, and what one flow reaches on it.

    What one flow reaches is split into `pcie` and `other`, each infinite for links of the other
    kind, because some paths reach only a part of PCIe. `flow` has the same numbers with their
    sources. `between` says which links lead from one socket to another.
    """

    flow: list[Quantity]
    narrowest: list[float]
    pcie: list[float]
    other: list[float]
    between: list[bool]
    copies: CopyRates | None  # None: a flow fills its links

    @classmethod
    def of(cls, topology: Topology) -> _Flows:
        links, between = topology.links, topology.between_sockets
        of_link = [x.flow_bytes_per_s or x.forward_bytes_per_s for x in links]
        flow = [each.value for each in of_link]
        pcie = [x.kind is LinkKind.PCIE for x in links]
        return cls(
            flow=of_link,
            narrowest=[
                min(x.forward_bytes_per_s.value, x.backward_bytes_per_s.value) for x in links
            ],
            pcie=[f if is_pcie else inf for f, is_pcie in zip(flow, pcie, strict=True)],
            other=[inf if is_pcie else f for f, is_pcie in zip(flow, pcie, strict=True)],
            between=[x.id in between for x in links],
            copies=copy_rates(topology),
        )

    def cap(self, path_class: PathClass, path: Sequence[int]) -> Quantity | None:
        """What a single flow reaches, where that is or may be less than the narrowest link."""
        narrowest = min(map(self.narrowest.__getitem__, path))
        over_pcie = min(map(self.pcie.__getitem__, path))
        over_others = min(map(self.other.__getitem__, path))
        premise: tuple[str, ...] = ()
        if self.copies is not None and over_pcie <= over_others:
            across = any(map(self.between.__getitem__, path))
            over_pcie, premise = self.copies.of(path_class, over_pcie, across=across)
        flow = min(over_pcie, over_others)
        if flow >= narrowest and not premise:
            return None
        over = self.pcie if over_pcie <= over_others else self.other
        slowest = self.flow[min(path, key=over.__getitem__)]
        named = tuple(dict.fromkeys([*slowest.premises, *premise]))
        return Quantity(flow, Source.ASSUMED if named else Source.NOMINAL, premises=named)

    def ring(
        self, path_class: PathClass, path: Sequence[int], cap: Quantity | None
    ) -> Quantity | None:
        """What a step of NCCL's ring reaches, where NCCL may stage what the driver would not.

        `cap` is what one flow of the pair reaches, where that is less than its links.
        """
        if self.copies is None or path_class not in (PathClass.PHB, PathClass.NODE, PathClass.SYS):
            return None
        if min(map(self.pcie.__getitem__, path)) > min(map(self.other.__getitem__, path)):
            return None
        alone = cap or Quantity(min(map(self.narrowest.__getitem__, path)))
        return assumed(alone.value, self.copies.transport, of=alone)

    def both_ways(self, cap: Quantity | None) -> Quantity | None:
        """What a pair reaches both ways together, where one flow is held between sockets."""
        return None if self.copies is None or cap is None else self.copies.both_ways(cap)
