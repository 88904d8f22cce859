"""What joins the hosts of a machine: switches, their links, and where hosts are attached.

A `Network` says nothing about what is inside a host. Together with a `Topology` of one node it
describes a machine of thousands of devices without listing them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum

from msgspec import field

from toposeat.errors import PartError
from toposeat.model.quantity import Quantity
from toposeat.model.record import Record

INSIDE_HOSTS = 0  # level of a link that stands for what hosts pass on inside: no uplink
MAX_HOSTS = 1 << 17
MAX_SWITCHES = 1 << 17
_BANDWIDTH_RANGE = (1e-3, 1e30)


class NetworkKind(StrEnum):
    """What a network looks like, as far as its source says."""

    TREE = "tree"  # every switch has at most one above it
    BLOCK = "block"  # hosts in blocks, blocks in blocks of blocks
    TORUS = "torus"
    DRAGONFLY = "dragonfly"
    GRAPH = "graph"  # any other graph of switches


class NetworkLink(Record, frozen=True, kw_only=True):
    """A cable, or `count` of them, between two switches (positions in `Network.switches`).

    Capacities are those of all cables together per direction; None is "the source does not say".
    `level` counts from the hosts: 1 is an uplink of a leaf switch, `INSIDE_HOSTS` is none.
    `weight` is the length of the hop where routes are the shortest ones.
    """

    ends: tuple[int, int]
    bytes_per_s: Quantity | None = None
    latency_s: Quantity | None = None
    count: int = 1
    level: int = 1
    weight: float = 1.0


class NetworkPort(Record, frozen=True, kw_only=True):
    """One adapter port of a host: its switch (a position), its rate per direction, its name."""

    switch: int
    bytes_per_s: Quantity | None = None
    name: str = ""


class NetworkHost(Record, frozen=True, kw_only=True):
    """A host and its ports. One port without a name stands for all ports of the node."""

    name: str
    ports: tuple[NetworkPort, ...]


class NetworkLevel(Record, frozen=True, kw_only=True):
    """Which group each host is in: `group_of_host[i]` numbers the group of `Network.hosts[i]`."""

    name: str
    group_of_host: tuple[int, ...]

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(set(self.group_of_host))


class NetworkRates(Record, frozen=True, kw_only=True):
    """What the user says of rates that the source does not state.

    `bandwidths_bytes_per_s` is that of one adapter port (of all of a host's together with
    `whole_host`), then of each link at level 1, 2 ...; what is beyond the list carries all that is
    below it, divided by `taper` at each level.
    """

    bandwidths_bytes_per_s: tuple[float, ...] = ()
    whole_host: bool = False
    taper: float = 1.0
    port_latency_s: float | None = None
    hop_latency_s: float | None = None

    @property
    def latencies_s(self) -> tuple[float, float]:
        """Of a port, and of a link between switches: as told, else those of InfiniBand.

        These are about 1 us between two hosts on one switch, and 0.2 more per further switch.
        """
        port, hop = self.port_latency_s, self.hop_latency_s
        return 0.4e-6 if port is None else port, 0.2e-6 if hop is None else hop


class Network(Record, frozen=True, kw_only=True):
    """Hosts on a graph of switches.

    `levels` are the groups of hosts that lie near each other, coarse ones first; empty where the
    source has no such notion. `spread` says that equally short ways are shared out by destination;
    without it the first link of a switch's list is taken, which is dimension order on a torus.
    `report` is what the reader doubted or had to assume, `sources` who published its numbers.
    """

    name: str
    origin: str
    kind: NetworkKind
    switches: tuple[str, ...]
    hosts: tuple[NetworkHost, ...]
    links: tuple[NetworkLink, ...] = ()
    levels: tuple[NetworkLevel, ...] = ()
    spread: bool = True
    rates: NetworkRates = field(default_factory=NetworkRates)
    devices_per_host: int | None = None  # where the source says so
    rails: int = 0  # where each leaf stands for one switch per rail: as many as a host has NICs
    domain: NetworkLevel | None = None  # which hosts NVLink joins, where that is stated
    report: tuple[str, ...] = ()
    description: str = ""
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_size("hosts", len(self.hosts), MAX_HOSTS)
        _check_size("switches", len(self.switches), MAX_SWITCHES)
        _check_unique("host", "hosts", (host.name for host in self.hosts))
        _check_unique("switch", "switches", self.switches)
        for number, host in enumerate(self.hosts):
            if not host.ports:
                raise PartError(f"host {host.name!r} has no port", "hosts", number)
            for port in host.ports:
                self._check_switch(port.switch, "hosts", number)
                _check_rate(port.bytes_per_s, "hosts", number)
        switches = len(self.switches)
        for number, link in enumerate(self.links):  # half a million of a large dragonfly
            a, b = link.ends
            if not 0 <= a < switches or not 0 <= b < switches:
                self._check_switch(a, "links", number)
                self._check_switch(b, "links", number)
            if a == b:
                raise PartError("a link joins a switch to itself", "links", number)
            if link.bytes_per_s is not None:
                _check_rate(link.bytes_per_s, "links", number)
        for number, level in enumerate((*self.levels, *self.own_fabrics)):
            if len(level.group_of_host) != len(self.hosts):
                raise PartError("a level does not place every host", "levels", number)

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names of the hosts, in order."""
        return tuple(host.name for host in self.hosts)

    @property
    def own_fabrics(self) -> tuple[NetworkLevel, ...]:
        """`domain`, if it is stated."""
        return () if self.domain is None else (self.domain,)

    def restricted_to(self, names: Sequence[str]) -> Network:
        """The same network with these hosts only, in this order: an allocation.

        Raises:
            KeyError: a name that is no host of this network.
            ValueError: a name that appears twice, or no name at all.
        """
        position = {host.name: at for at, host in enumerate(self.hosts)}
        chosen = [position[name] for name in names]

        def part(level: NetworkLevel) -> NetworkLevel:
            return replace(level, group_of_host=tuple(level.group_of_host[at] for at in chosen))

        return replace(
            self,
            hosts=tuple(self.hosts[at] for at in chosen),
            levels=tuple(map(part, self.levels)),
            domain=None if self.domain is None else part(self.domain),
        )

    def hosts_of_switch(self) -> Counter[int]:
        """How many hosts have a port on each switch (positions)."""
        return Counter(
            switch for host in self.hosts for switch in {port.switch for port in host.ports}
        )

    def _check_switch(self, switch: int, member: str, number: int) -> None:
        if not 0 <= switch < len(self.switches):
            raise PartError(f"there is no switch {switch}", member, number)


def _check_size(what: str, size: int, most: int) -> None:
    if not 1 <= size <= most:
        raise ValueError(f"a network has 1 to {most} {what}, not {size}")


def _check_unique(what: str, member: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for number, name in enumerate(names):
        if not name:
            raise PartError(f"a {what} without a name", member, number)
        if name in seen:
            raise PartError(f"{what} {name!r} appears twice", member, number)
        seen.add(name)


def _check_rate(quantity: Quantity | None, member: str, number: int) -> None:
    low, high = _BANDWIDTH_RANGE
    if quantity is not None and not low <= quantity.value <= high:
        raise PartError(f"a bandwidth of {quantity.value:g} bytes/s", member, number)
