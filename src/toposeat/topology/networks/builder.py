"""What all readers of networks share: switches by name, ports, links, and freezing it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any

from toposeat.errors import InputError
from toposeat.model.few import few
from toposeat.model.graph import components, neighbours, shortest
from toposeat.model.hostlist import expand_hostlist
from toposeat.model.network import (
    MAX_HOSTS,
    MAX_SWITCHES,
    Network,
    NetworkHost,
    NetworkKind,
    NetworkLevel,
    NetworkLink,
    NetworkPort,
)


@dataclass(frozen=True)
class HostPath:
    """A host and the names of the switches above it, nearest first; at a line of the file."""

    host: str
    above: tuple[str, ...]
    line: int | None = None


@dataclass
class NetworkBuilder:
    """Collects a network; switches and hosts keep the order in which they were first named."""

    path: Path | None = None  # for messages
    switches: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, list[NetworkPort]] = field(default_factory=dict)
    links: list[NetworkLink] = field(default_factory=list)
    domains: dict[str, str] = field(default_factory=dict)  # of hosts that NVLink joins to others
    report: list[str] = field(default_factory=list)

    def error(self, message: str, line: int | None, hint: str = "") -> InputError:
        """An error of the file, at a line."""
        return InputError(message, path=self.path, line=line, hint=hint or "correct the file")

    def names(self, text: str, line: int | None) -> tuple[str, ...]:
        """The names of a hostlist of the file."""
        try:
            return expand_hostlist(text)
        except InputError as error:
            raise self.error(error.message, line, error.hint) from None

    def switch(self, name: str, line: int | None = None) -> int:
        """The position of a switch, which is added if it is new."""
        if name not in self.switches:
            if not name:
                raise self.error("a switch without a name", line)
            if len(self.switches) >= MAX_SWITCHES:
                raise self.error(f"more than {MAX_SWITCHES} switches", line)
            self.switches[name] = len(self.switches)
        return self.switches[name]

    def port(self, host: str, switch: int, line: int | None = None, **told: Any) -> None:
        """One more port of a host, with what is told of it; the host is added if it is new."""
        if host not in self.hosts and len(self.hosts) >= MAX_HOSTS:
            raise self.error(f"more than {MAX_HOSTS} hosts", line)
        self.hosts.setdefault(host, []).append(NetworkPort(switch=switch, **told))

    def link(self, a: int, b: int, **told: Any) -> None:
        """A link between two switches, with what is told of it."""
        self.links.append(NetworkLink(ends=(a, b), **told))

    def hang(self, paths: Sequence[HostPath]) -> None:
        """Hosts below their switches, as a tree.

        A name under two different switches stands for two switches (rack 1 of each row).
        """
        ways = {path.above[at:]: None for path in paths for at in range(len(path.above))}
        count = Counter(way[0] for way in ways)
        linked: set[tuple[int, int]] = set()
        for path in paths:
            if path.host in self.hosts:
                raise self.error(f"host {path.host[:60]!r} appears twice", path.line)
            if not path.above:
                raise self.error(f"host {path.host[:60]!r} has no switch above it", path.line)
            switches = [
                self.switch(
                    name if count[name] == 1 else "/".join(path.above[at:][::-1]), path.line
                )
                for at, name in enumerate(path.above)
            ]
            self.port(path.host, switches[0], path.line)
            for level, pair in enumerate(pairwise(switches), start=1):
                if pair not in linked:
                    linked.add(pair)
                    self.link(*pair, level=level)

    def link_tree(self, children: Mapping[str, tuple[int | None, Sequence[str]]]) -> None:
        """Link every switch with those below it, by name; each with its line."""
        for name, (line, below) in children.items():
            for child in below:
                if child not in children:
                    raise self.error(f"switch {name} is above {child}, which is not defined", line)
        height: dict[str, int] = {}
        try:
            order = TopologicalSorter({name: below for name, (_, below) in children.items()})
            for name in order.static_order():  # those below come first
                height[name] = 1 + max((height[child] for child in children[name][1]), default=-1)
        except CycleError as error:
            low, high = error.args[1][:2]
            raise self.error(
                f"switch {low} is above itself, by way of {high}", children[low][0]
            ) from None
        for name, (_, below) in children.items():
            for child in dict.fromkeys(below):
                self.link(self.switches[child], self.switches[name], level=height[child] + 1)

    def build(
        self,
        *,
        kind: NetworkKind | None = None,
        levels: Sequence[NetworkLevel] | None = None,
        **told: Any,
    ) -> Network:
        """Join what is not joined, find the levels, freeze; `told` are further members."""
        if not self.hosts:
            raise self.error("no host is named", None, "is the file complete?")
        islands = self._join_islands()
        parents = _parents(len(self.switches), self.links, islands)
        hosts = tuple(NetworkHost(name=n, ports=tuple(p)) for n, p in self.hosts.items())
        if levels is None:
            levels = _tree_levels(hosts, parents) if parents is not None else ()
        if kind is None:
            kind = NetworkKind.GRAPH if parents is None else NetworkKind.TREE
        return Network(
            kind=kind,
            switches=tuple(self.switches),
            hosts=hosts,
            links=tuple(self.links),
            levels=tuple(levels),
            report=tuple(self.report),
            domain=self._domain(),
            **told,
        )

    def _domain(self) -> NetworkLevel | None:
        """The domain of every host; one that is not told is a domain of its own."""
        if not self.domains:
            return None
        number: dict[tuple[str, str], int] = {}
        keys = ((self.domains.get(host, ""), host) for host in self.hosts)
        own = (key if not key[0] else (key[0], "") for key in keys)
        groups = tuple(number.setdefault(key, len(number)) for key in own)
        return NetworkLevel(name="NVLink domain", group_of_host=groups)

    def _join_islands(self) -> int:
        """Join parts that the file does not join by an assumed switch, and report it.

        Returns:
            Number of parts after that, those without hosts included.
        """
        parts = components(range(len(self.switches)), (link.ends for link in self.links))
        used = {port.switch for ports in self.hosts.values() for port in ports}
        islands = [island for island in parts if used & set(island)]
        if len(islands) < 2:
            return len(parts)
        height = switch_levels(len(self.switches), self.links, used)
        tops = [max(island, key=lambda each: (height[each], -each)) for island in islands]
        names = list(self.switches)
        self.report.append(
            f"{len(islands)} parts are not joined by what the file says"
            f" ({few([names[top] for top in tops])}): a switch above them is assumed"
        )
        above = self.switch("(assumed top switch)")
        for top in tops:
            self.link(top, above, level=height[top] + 1)
        return len(parts) - len(islands) + 1


def switch_levels(
    switches: int, links: Sequence[NetworkLink], with_hosts: set[int]
) -> dict[int, int]:
    """How many links each switch is from the nearest one with hosts; 0 where none is in reach."""
    reach = shortest(sorted(with_hosts), neighbours(link.ends for link in links))
    return {switch: int(reach[switch][0]) if switch in reach else 0 for switch in range(switches)}


def _parents(switches: int, links: Sequence[NetworkLink], islands: int) -> list[int | None] | None:
    """The switch above each, if links were given from below to above and make a forest."""
    above = dict(link.ends for link in links)
    if len(above) < len(links) or len(links) != switches - islands:
        return None
    return [above.get(switch) for switch in range(switches)]


def _tree_levels(
    hosts: Sequence[NetworkHost], parents: Sequence[int | None]
) -> tuple[NetworkLevel, ...]:
    """From the top down, the switch of each depth above each host (above its first port)."""
    chains = []
    for host in hosts:
        chain = [host.ports[0].switch]
        while (above := parents[chain[-1]]) is not None:
            chain.append(above)
        chains.append(chain[::-1])
    depth = max(map(len, chains))
    return tuple(
        NetworkLevel(
            name=f"level {depth - 1 - at}",
            group_of_host=tuple(chain[min(at, len(chain) - 1)] for chain in chains),
        )
        for at in range(depth)
    )
