"""Which hosts of a large machine are near each other, and which links lead out of such a group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from toposeat.model.evaluation import HostGroup
from toposeat.model.network import INSIDE_HOSTS, Network, NetworkKind

MOST_HOSTS = 4096  # beyond, no picture could show them one by one
_TORUS_GROUPS = 16
_Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Uplinks:
    """A group's name, its hosts, and the numbers of the links that lead out of it and into it."""

    name: str
    hosts: Sequence[int]
    out: _Numbers
    into: _Numbers


@dataclass(frozen=True)
class HostGroups:
    """Groups of hosts stage by stage, the smallest first; row h of `ports`: links of host h.

    A host's links stand in pairs: out of it, into it.
    """

    stages: tuple[tuple[Uplinks, ...], ...] = ()
    ports: _Numbers = field(default_factory=lambda: np.empty((0, 2), np.int64))

    def nouns(self, capacities: NDArray[np.float64]) -> tuple[tuple[HostGroup, ...], ...]:
        """The groups as a result states them."""
        host = capacities[self.ports[:, ::2]].sum(axis=1)
        return tuple(
            tuple(
                HostGroup(
                    name=group.name,
                    hosts=tuple(group.hosts),
                    hosts_bytes_per_s=float(host[list(group.hosts)].sum()),
                    out_bytes_per_s=float(capacities[group.out].sum()),
                )
                for group in stage
            )
            for stage in self.stages
        )

    def busiest(
        self, seconds: NDArray[np.float64]
    ) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
        """Seconds of the busiest link of each host, and of each group of each stage."""
        groups = tuple(
            tuple(
                float(seconds[np.concatenate([group.out, group.into])].max(initial=0.0))
                for group in stage
            )
            for stage in self.stages
        )
        return tuple(seconds[self.ports].max(axis=1, initial=0.0).tolist()), groups


def groups_of_units(sizes: Sequence[int], node_levels: int) -> HostGroups:
    """Of a hierarchy: hosts are units of `node_levels` levels; each level has its own uplinks."""
    units = [prod(sizes[level:]) for level in range(len(sizes) + 1)]  # of each level
    hosts = units[node_levels]
    if hosts > MOST_HOSTS:
        return HostGroups()

    def uplinks(level: int) -> _Numbers:
        ways = 2 if level < len(sizes) else 0
        return 2 * sum(units[:level]) + np.arange(ways * units[level]).reshape(units[level], ways)

    inner = [uplinks(level) for level in range(node_levels + 1, len(sizes))] or [_none(1)]
    names = ["leaf", "pod"] + [f"level {level} group" for level in range(3, len(sizes))]
    stages = [
        _runs(name, hosts, links[:, :1], links[:, 1:])
        for name, links in zip(names, inner, strict=False)
    ]
    return HostGroups(tuple(stages), uplinks(node_levels))


def groups_of_planes(sizes: Sequence[int], nodes_per_router: int, first_port: int) -> HostGroups:
    """Of a torus, the routers across its first dimension; links are numbered by router."""
    hosts = prod(sizes) * nodes_per_router
    if hosts > MOST_HOSTS:
        return HostGroups()
    routers = np.arange(prod(sizes))
    along = (2 * len(sizes) * routers[:, None] + np.arange(2)).reshape(sizes[0], -1)
    return HostGroups((_runs("plane", hosts, along, _none(sizes[0])),), _pairs(first_port, hosts))


def groups_of_dragonfly(groups: int, hosts: int, first_global: int, first_port: int) -> HostGroups:
    """Of a dragonfly, whose link from group a to group b is number a * groups + b of its kind."""
    if hosts > MOST_HOSTS:
        return HostGroups()
    links = first_global + np.arange(groups * groups).reshape(groups, groups)
    out, into = ([np.delete(row, at) for at, row in enumerate(way)] for way in (links, links.T))
    return HostGroups((_runs("group", hosts, out, into),), _pairs(first_port, hosts))


def _runs(
    name: str, hosts: int, out: Sequence[_Numbers] | _Numbers, into: Sequence[_Numbers] | _Numbers
) -> tuple[Uplinks, ...]:
    """Equal groups of hosts that follow each other, as many as there are rows of links."""
    each = hosts // len(out)
    alone = "all hosts" if len(out) == 1 else ""
    return tuple(
        Uplinks(alone or f"{name} {at}", range(at * each, (at + 1) * each), here, back)
        for at, (here, back) in enumerate(zip(out, into, strict=True))
    )


def _none(groups: int) -> _Numbers:
    return np.empty((groups, 0), np.int64)


def _pairs(first: int, count: int) -> _Numbers:
    return first + np.arange(2 * count).reshape(count, 2)


def groups_of_network(network: Network, ports: int) -> HostGroups:
    """Of a network: its levels, else the switches that hosts are on.

    Args:
        network: hosts on switches; directions of link k are links 2 k and 2 k + 1 of the machine.
        ports: how many ports each host has there, numbered behind them.
    """
    hosts = len(network.hosts)
    if hosts > MOST_HOSTS:
        return HostGroups()
    leaves = [host.ports[0].switch for host in network.hosts]
    levels = [level.group_of_host for level in reversed(network.levels)] or [tuple(leaves)]
    wide = [level for level in levels if 1 < len(set(level)) <= (hosts + 1) // 2]
    if network.kind is NetworkKind.TORUS:  # halves of halves: one of them says enough
        wide = sorted(wide, key=lambda level: abs(len(set(level)) - _TORUS_GROUPS))[:1]
    stages = [_stage(network, level) for level in wide]
    together = _runs("switch", hosts, _none(1), _none(1))
    links = _pairs(2 * len(network.links), hosts * ports).reshape(hosts, -1)
    return HostGroups(tuple(stages) or (together,), links)


def _stage(network: Network, group_of_host: Sequence[int]) -> tuple[Uplinks, ...]:
    groups_of_switch = _groups_of_switch(network, group_of_host)
    hosts: dict[int, list[int]] = defaultdict(list)
    for host, group in enumerate(group_of_host):
        hosts[group].append(host)
    out: dict[int, list[int]] = defaultdict(list)
    into: dict[int, list[int]] = defaultdict(list)
    for number, link in enumerate(network.links):
        here, there = (groups_of_switch[end] for end in link.ends)
        if here == there or link.level == INSIDE_HOSTS:
            continue
        for own, forward in ((here, 2 * number), (there, 2 * number + 1)):
            if len(own) == 1:
                (group,) = own
                out[group].append(forward)
                into[group].append(forward ^ 1)
    return tuple(
        Uplinks(
            _name(network, members),
            members,
            np.array(out[group], np.int64),
            np.array(into[group], np.int64),
        )
        for group, members in hosts.items()
    )


def _groups_of_switch(network: Network, group_of_host: Sequence[int]) -> list[set[int]]:
    """The groups below each switch; a switch without hosts has those of the switches below it."""
    found: list[set[int]] = [set() for _ in network.switches]
    for host, group in zip(network.hosts, group_of_host, strict=True):
        for port in host.ports:
            found[port.switch].add(group)
    has_hosts = [bool(groups) for groups in found]
    for link in sorted(network.links, key=lambda link: link.level):
        below, above = link.ends
        if not has_hosts[above]:
            found[above] |= found[below]
    return found


def _name(network: Network, hosts: Sequence[int]) -> str:
    """The switch that all these hosts are on, else the first and the last of them."""
    switches = {port.switch for host in hosts for port in network.hosts[host].ports}
    if len(switches) == 1:
        return network.switches[switches.pop()]
    first, last = network.hosts[hosts[0]].name, network.hosts[hosts[-1]].name
    return f"{first} to {last}"
