"""Hosts that a network joins as one machine that lists every device: they need not be alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeVar

from toposeat.errors import InputError
from toposeat.mapping.cluster import (
    PORT_BYTES_PER_S,
    adapter_rates,
    adapters_of,
    link_rates,
    port_rates,
    ports_of_devices,
    ways_out,
)
from toposeat.mapping.joined_domains import with_domains
from toposeat.model.cpu_list import RESERVED, cpus_of, format_cpu_list
from toposeat.model.graph import neighbours, shortest
from toposeat.model.hostlist import compress_hostlist
from toposeat.model.network import Network
from toposeat.model.quantity import (
    PORT_PREMISE,
    UPLINK_PREMISE,
    Premise,
    Quantity,
    Source,
    assumed,
    joined,
    nominal,
)
from toposeat.model.record import Record
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    Link,
    LinkKind,
    Nic,
    PathClass,
    Route,
    Topology,
    with_named_premises,
)

MOST_DEVICES = 256  # whose routes are listed pair by pair
_MOST_NAME = 60
_GB = 1e9

_PORT = Premise(
    what=PORT_PREMISE,
    low=12.5,
    nominal=PORT_BYTES_PER_S / _GB,
    high=50.0,
    unit="GB/s",
    source="adapters of 100 Gb/s carry 12.5, those of 400 Gb/s carry 50.",
)
_UPLINKS = Premise(
    what=UPLINK_PREMISE,
    low=0.25,
    nominal=1.0,
    high=1.0,
    unit="of what is below it",
    source="fat trees are built with a taper of 1 to 4.",
)


def join_hosts(network: Network, nodes: Sequence[Topology]) -> Topology:
    """One machine of hosts that a network joins, with the devices of each host by their own names.

    A device leaves its host through its nearest adapter, as on `shape_of_network`; where a host
    lists none, its devices share one port. Hosts of an NVLink domain share its switch. A rate that
    no source states is a premise.
    """
    devices = sum(len(node.devices) for node in nodes)
    if devices > MOST_DEVICES:
        raise InputError(
            f"{devices} devices are too many to list pair by pair (at most {MOST_DEVICES})",
            hint="name fewer hosts with --hosts",
        )
    named = zip(network.host_names, nodes, strict=True)
    hosts = [_in_host(node, name) for name, node in named]
    exits = [_Exits.of(network, at, node) for at, node in enumerate(hosts)]
    cables = _cables(network, exits)
    routes = [route for node in hosts for route in node.routes]
    routes += _between(network, hosts, exits)
    switches = tuple(
        Component(id=_switch(name), kind=ComponentKind.NETWORK, name=name)
        for name in network.switches
    )
    hosts_named = compress_hostlist(network.host_names)
    kept = {cpu for n in nodes for cpu in cpus_of(n.metadata.get(RESERVED))}
    machine = with_named_premises(
        Topology(
            name=hosts_named if len(hosts_named) <= _MOST_NAME else network.name,
            origin=f"{network.origin} and {', '.join(dict.fromkeys(n.origin for n in nodes))}",
            devices=tuple(each for node in hosts for each in node.devices),
            nics=tuple(each for node in hosts for each in node.nics),
            components=(
                *(each for node in hosts for each in node.components),
                *(each for own in exits for each in own.components),
                *switches,
            ),
            links=(
                *(each for node in hosts for each in node.links),
                *(each for own in exits for each in own.links),
                *cables,
            ),
            pairs=tuple(each for node in hosts for each in node.pairs),
            routes=tuple(routes),
            report=_distinct(network.report, *(node.report for node in nodes)),
            metadata={RESERVED: format_cpu_list(kept)} if kept else {},
            sources=_distinct(network.sources, *(node.sources for node in nodes)),
            hidden=_distinct(*(node.hidden for node in nodes)),
            others=tuple(each for node in hosts for each in node.others),
            tells=tuple(x for x in nodes[0].tells if all(x in each.tells for each in nodes)),
            premises=joined([*(x for n in nodes for x in n.premises), _PORT, _UPLINKS]),
        )
    )
    return with_domains(machine, network, hosts)


def _distinct(*lists: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for own in lists for each in own))


# ---- inside a host

_Part = TypeVar("_Part", Device, Nic, Component)


def _in_host(node: Topology, host: str) -> Topology:
    """The node with its host's name in front of every id, so that hosts do not collide."""

    @cache
    def own(id: str) -> str:
        return f"{host}/{id}"

    def renamed(parts: Iterable[_Part]) -> tuple[_Part, ...]:
        return tuple(replace(each, id=own(each.id), host=host) for each in parts)

    def route(old: Route) -> Route:
        return replace(
            old,
            source=own(old.source),
            target=own(old.target),
            links=tuple(map(own, old.links)),
        )

    return replace(
        node,
        devices=renamed(node.devices),
        others=renamed(node.others),
        nics=renamed(node.nics),
        components=renamed(node.components),
        links=tuple(
            replace(x, id=own(x.id), ends=(own(x.ends[0]), own(x.ends[1]))) for x in node.links
        ),
        pairs=tuple(replace(x, source=own(x.source), target=own(x.target)) for x in node.pairs),
        routes=tuple(map(route, node.routes)),
    )


# ---- out of a host


class _Way(Record, frozen=True, kw_only=True):
    """From a device to the switch that its port is on."""

    links: tuple[str, ...]
    switch: int
    cap: Quantity | None


class _Exits(Record, frozen=True, kw_only=True):
    """The ports of one host, and the way of each of its devices to a switch, by id."""

    way_of: dict[str, _Way]
    links: tuple[Link, ...]
    components: tuple[Component, ...]
    rates: list[float]

    @staticmethod
    def of(network: Network, number: int, node: Topology) -> _Exits:
        host = network.hosts[number]
        out = ways_out(node)
        adapters = adapters_of(out)
        plain = len(host.ports) == 1 and not host.ports[0].name
        whole = network.rates.whole_host
        ports = (1 if whole else max(1, len(adapters))) if plain else len(host.ports)
        own = adapter_rates(node, adapters, whole=whole)
        rates = port_rates(network, host, ports, own, shared=not plain)
        users: dict[int, set[str]] = defaultdict(set)  # vertices that send through each port
        port_of = ports_of_devices(out, ports)
        for device, route, port in zip(node.devices, out, port_of, strict=True):
            users[port].add(device.id if route is None else route.target)
        links, components, end_of, feeder = [], [], {}, {}
        latency, _ = network.rates.latencies_s
        for port, vertices in sorted(users.items()):
            listed = host.ports[port % len(host.ports)]
            is_told = bool(own or network.rates.bandwidths_bytes_per_s or listed.bytes_per_s)
            rate = Quantity(rates[port]) if is_told else assumed(rates[port], _PORT)
            end = f"{host.name}/port{port}"
            alone = next(iter(vertices)) if len(vertices) == 1 else ""
            if alone in adapters:
                end_of[port] = alone
            else:  # several share it, or no adapter is listed
                end_of[port] = end
                components.append(
                    Component(
                        id=end, kind=ComponentKind.NETWORK, host=host.name, name=f"port {port}"
                    )
                )
                for vertex in sorted(vertices):
                    feeder[vertex] = _link(f"{vertex}-{end}", LinkKind.NIC, (vertex, end), rate, 0)
            where = (end_of[port], _switch(network.switches[listed.switch]))
            links.append(_link(f"{end}-network", LinkKind.NETWORK, where, rate, latency))
        way_of = {}
        for device, route, port in zip(node.devices, out, port_of, strict=True):
            last = feeder.get(device.id if route is None else route.target)
            way_of[device.id] = _Way(
                links=(
                    *(() if route is None else route.links),
                    *(() if last is None else (last.id,)),
                    f"{host.name}/port{port}-network",
                ),
                switch=host.ports[port % len(host.ports)].switch,
                cap=None if route is None else route.cap_bytes_per_s,
            )
        return _Exits(
            way_of=way_of,
            links=(*feeder.values(), *links),
            components=tuple(components),
            rates=rates,
        )


def _switch(name: str) -> str:
    return f"network/{name}"


def _link(id: str, kind: LinkKind, ends: tuple[str, str], rate: Quantity, latency_s: float) -> Link:
    return Link(
        id=id,
        kind=kind,
        ends=ends,
        forward_bytes_per_s=rate,
        backward_bytes_per_s=rate,
        latency_s=nominal(latency_s),
    )


# ---- between hosts


def _cable(number: int) -> str:
    return f"network/link{number}"


def _cables(network: Network, exits: Sequence[_Exits]) -> list[Link]:
    """The links between switches."""
    rates, _ = link_rates(network, [own.rates for own in exits])
    ports_are_told = not any(
        rate.forward_bytes_per_s.premises for own in exits for rate in own.links
    )
    given = len(network.rates.bandwidths_bytes_per_s[1:])
    _, hop = network.rates.latencies_s
    cables = []
    for number, (link, value) in enumerate(zip(network.links, rates, strict=True)):
        is_told = link.bytes_per_s is not None or network.rates.taper != 1
        if is_told or link.level <= given:
            rate = link.bytes_per_s or Quantity(value, Source.USER)
        else:
            rate = assumed(value, _UPLINKS, *(() if ports_are_told else (_PORT,)))
        low, high = (network.switches[end] for end in link.ends)
        latency = hop if link.latency_s is None else link.latency_s.value
        ends = (_switch(low), _switch(high))
        cables.append(_link(_cable(number), LinkKind.NETWORK, ends, rate, latency))
    return cables


def _between(
    network: Network, hosts: Sequence[Topology], exits: Sequence[_Exits]
) -> Iterable[Route]:
    """Routes between devices of different hosts."""
    ways = _SwitchWays(network)
    for here, source_host in enumerate(hosts):
        for there, target_host in enumerate(hosts):
            if here == there:
                continue
            for source in source_host.devices:
                out = exits[here].way_of[source.id]
                for target in target_host.devices:
                    into = exits[there].way_of[target.id]
                    cables = ways.between(out.switch, into.switch, there)
                    if cables is None:
                        raise InputError(
                            f"the network {network.name} does not join {network.host_names[here]}"
                            f" and {network.host_names[there]}",
                            hint="correct it, or name hosts that it joins with --hosts",
                        )
                    caps = [cap for cap in (out.cap, into.cap) if cap is not None]
                    yield Route(
                        source=source.id,
                        target=target.id,
                        links=(*out.links, *map(_cable, cables), *reversed(into.links)),
                        path_class=PathClass.NET,
                        cap_bytes_per_s=min(caps, key=lambda cap: cap.value, default=None),
                    )


class _SwitchWays:
    """Shortest ways between switches; equally short ones are shared out by the target's number."""

    def __init__(self, network: Network) -> None:
        self._spread = network.spread
        self._weights = [link.weight for link in network.links]
        self._near = neighbours(link.ends for link in network.links)
        self._far: dict[int, dict[int, tuple[float, int, int]]] = {}

    def between(self, source: int, target: int, number: int) -> tuple[int, ...] | None:
        """Links from switch to switch, None where there is no way."""
        if target not in self._far:
            self._far[target] = shortest([target], self._near, self._weights.__getitem__)
        far = self._far[target]
        if source not in far:
            return None
        way: list[int] = []
        while source != target:
            steps = [
                (self._weights[cable] + far[next][0], next, cable)
                for next, cable in self._near[source]
            ]
            least = min(steps)[0] * (1 + 1e-9)
            best = [(next, cable) for length, next, cable in steps if length <= least]
            source, cable = best[number % len(best) if self._spread else 0]
            way.append(cable)
        return tuple(way)
