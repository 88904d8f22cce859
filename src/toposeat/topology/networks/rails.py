"""Rails: NIC k of every host on a leaf switch of its own, where a source knows one leaf for all.

Slurm and tables of levels name what is near each other, not cables; a rail-optimised fabric has in
each such place one leaf switch for every NIC of a host. With a spine the leaves of all rails share
what is above them; in a rail-only fabric each rail is a network of its own, and messages between
rails go on inside a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from toposeat.errors import InputError, UsageError
from toposeat.model.network import (
    INSIDE_HOSTS,
    Network,
    NetworkHost,
    NetworkKind,
    NetworkLevel,
    NetworkLink,
    NetworkPort,
    NetworkRates,
)
from toposeat.model.quantity import Quantity, Source

MAX_RAILS = 64
RAILS_HINT = "rails=8: the rails share a spine; rails=8:only: nothing but hosts joins them"
_UNLIMITED = 1e18  # bytes/s between rails inside hosts


@dataclass(frozen=True, slots=True)
class Rails:
    """How many rails, and whether no switch joins them."""

    count: int
    only: bool

    @staticmethod
    def parse(text: str) -> Rails:
        """`8` or `8:only`."""
        number, colon, word = text.partition(":")
        is_number = number.isascii() and number.isdigit() and len(number) < 4
        if not is_number or not 1 <= int(number) <= MAX_RAILS or (colon and word != "only"):
            raise UsageError(f"rails={text[:40]}", hint=f"1 to {MAX_RAILS}; {RAILS_HINT}")
        return Rails(int(number), bool(colon))


def with_options(network: Network, options: Mapping[str, str]) -> Network:
    """The network with what `rails=` and `domain=` say of it, if they are among the options."""
    size = options.get("domain")
    if size is not None:
        if not (size.isascii() and size.isdigit() and len(size) < 6 and int(size) > 0):
            raise UsageError(f"domain={size[:40]}", hint="how many hosts NVLink joins: domain=18")
        groups = tuple(at // int(size) for at in range(len(network.hosts)))
        level = NetworkLevel(name="NVLink domain", group_of_host=groups)
        network = replace(network, domain=level)
    return with_rails(network, Rails.parse(options["rails"])) if "rails" in options else network


def with_rails(network: Network, rails: Rails) -> Network:
    """The network with a leaf switch per rail in place of each leaf; port k is on rail k.

    A whole host's rate and that of a leaf's uplink are divided among the rails.
    """
    leaves = _leaves(network)
    copied = range(len(network.switches)) if rails.only else leaves
    names, place = _switches(network, copied, rails.count)
    links = [
        replace(link, ends=(place[link.ends[0], rail], place[link.ends[1], rail]))
        for link in network.links
        for rail in range(rails.count if link.ends[0] in copied else 1)
    ]
    report = list(network.report)
    if rails.only:
        inside = Quantity(_UNLIMITED, Source.ASSUMED)
        for leaf in leaves:
            names.append(f"{network.switches[leaf]} inside hosts")
            links += [
                NetworkLink(
                    ends=(place[leaf, rail], len(names) - 1), level=INSIDE_HOSTS, bytes_per_s=inside
                )
                for rail in range(rails.count)
            ]
        report.append(
            "rail-only: messages between rails go on inside hosts, where nothing limits them"
        )
    elif not network.links:
        names.append("(spine of all rails)")
        links += [
            NetworkLink(ends=(place[leaf, rail], len(names) - 1))
            for leaf in leaves
            for rail in range(rails.count)
        ]
        report.append("a spine above the rails is assumed")
    return replace(
        network,
        kind=NetworkKind.GRAPH if rails.only else network.kind,
        switches=tuple(names),
        hosts=tuple(_on_rails(host, place, rails.count) for host in network.hosts),
        links=tuple(links),
        rates=_per_rail(network.rates, rails),
        rails=rails.count,
        report=tuple(report),
    )


def _leaves(network: Network) -> list[int]:
    if network.kind not in (NetworkKind.TREE, NetworkKind.BLOCK):
        raise InputError(
            f"the network {network.name} is a {network.kind.value}: rails= is for trees",
            hint="leave rails= out",
        )
    if any(len(host.ports) > 1 or host.ports[0].name for host in network.hosts):
        raise InputError(
            f"the network {network.name} lists the ports of its hosts: it knows its rails",
            hint="leave rails= out",
        )
    return sorted({host.ports[0].switch for host in network.hosts})


def _switches(
    network: Network, copied: range | list[int], count: int
) -> tuple[list[str], Mapping[tuple[int, int], int]]:
    """Names of all switches, and the place of each by its old place and its rail."""
    names: list[str] = []
    place: dict[tuple[int, int], int] = {}
    is_copied = set(copied)
    for switch, name in enumerate(network.switches):
        for rail in range(count):
            if switch in is_copied:
                names.append(f"{name} rail {rail}")
            elif rail == 0:
                names.append(name)
            place[switch, rail] = len(names) - 1
    return names, place


def _on_rails(host: NetworkHost, place: Mapping[tuple[int, int], int], count: int) -> NetworkHost:
    (port,) = host.ports
    rate = port.bytes_per_s
    ports = tuple(
        NetworkPort(switch=place[port.switch, rail], bytes_per_s=rate, name=f"rail {rail}")
        for rail in range(count)
    )
    return replace(host, ports=ports)


def _per_rail(rates: NetworkRates, rails: Rails) -> NetworkRates:
    """Rates of one rail, where they were those of a whole host and of all that is above it."""
    if not rates.whole_host:
        return rates
    shared = len(rates.bandwidths_bytes_per_s) if rails.only else 2
    return replace(
        rates,
        whole_host=False,
        bandwidths_bytes_per_s=tuple(
            rate / rails.count if at < shared else rate
            for at, rate in enumerate(rates.bandwidths_bytes_per_s)
        ),
    )
