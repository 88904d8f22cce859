"""NVLink domains on a machine of joined hosts: one switch for all hosts of a domain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from toposeat.mapping.fabric import common_switch
from toposeat.model.network import Network
from toposeat.model.record import Record
from toposeat.model.topology import ANY_HOST, Component, Device, Link, Route, Topology


class _Way(Record, frozen=True, kw_only=True):
    """From a device to the switch of its domain."""

    switch: str
    link: str
    inside: Route  # to another device of its host


def with_domains(machine: Topology, network: Network, hosts: Sequence[Topology]) -> Topology:
    """The machine with one NVSwitch for each domain, by which devices of its hosts are joined."""
    if network.domain is None:
        return machine
    members: dict[int, list[Topology]] = defaultdict(list)
    for group, host in zip(network.domain.group_of_host, hosts, strict=True):
        members[group].append(host)
    shared: dict[str, str] = {}
    ways: dict[str, _Way] = {}
    report = list(machine.report)
    for group, own in members.items():
        if len(own) < 2:
            continue
        switches = [common_switch(host) for host in own]
        if any(len(host.devices) < 2 for host in own) or None in switches:
            report.append("an NVLink domain is left out: not all its hosts have an NVSwitch for it")
            continue
        name = f"domain{group}/nvswitch"
        for host, switch in zip(own, switches, strict=True):
            if switch is not None:
                shared[switch.id] = name
                ways |= {each.id: _way(host, each, switch, name) for each in host.devices}
    return replace(
        machine,
        components=_components(machine, shared),
        links=tuple(_link(link, shared) for link in machine.links),
        routes=tuple(_route(route, ways) for route in machine.routes),
        report=tuple(dict.fromkeys(report)),
    )


def _way(host: Topology, device: Device, switch: Component, name: str) -> _Way:
    other = next(each for each in host.devices if each.id != device.id)
    link = next(x for x in host.links if {device.id, switch.id} == set(x.ends))
    return _Way(switch=name, link=link.id, inside=host.route_of_pair[device.id, other.id])


def _components(machine: Topology, shared: Mapping[str, str]) -> tuple[Component, ...]:
    """Each shared switch once, on no host of its own."""
    found: dict[str, Component] = {}
    for part in machine.components:
        name = shared.get(part.id, part.id)
        own = part if name == part.id else replace(part, id=name, host=ANY_HOST)
        found.setdefault(name, own)
    return tuple(found.values())


def _link(link: Link, shared: Mapping[str, str]) -> Link:
    a, b = link.ends
    return replace(link, ends=(shared.get(a, a), shared.get(b, b)))


def _route(route: Route, ways: Mapping[str, _Way]) -> Route:
    """By the switch where both devices are on it and the route left the host."""
    out, into = ways.get(route.source), ways.get(route.target)
    if out is None or into is None or out.switch != into.switch or out.link in route.links:
        return route
    return replace(
        out.inside, source=route.source, target=route.target, links=(out.link, into.link)
    )
