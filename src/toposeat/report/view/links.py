"""Links in words, once: what one is made of, what it carries, which are alike and what they join.

Trees, tables, pages and pictures all take their words from here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations

from msgspec import Struct

from toposeat.model.few import within
from toposeat.model.quantity import Quantity
from toposeat.model.topology import Component, Device, Link, LinkKind, Nic, Topology
from toposeat.report.units import format_rate, span, three_digits
from toposeat.report.view.machine import (
    LINK_WORDS,
    device_code,
    device_ranges,
    link_medium,
    vertex_words,
)

NOMINAL_MARK = "~"
DEVICE_LINKS = frozenset({LinkKind.NVLINK, LinkKind.XGMI, LinkKind.XELINK, LinkKind.C2C})
_MAX_PAIRS = 16


def rate_words(rate: Quantity) -> str:
    """`~12.0 GB/s` for what only the kind of link tells, `11.3 GB/s` for what was measured."""
    return f"{_mark(rate)}{format_rate(rate.value)}"


def rate_number(*rates: Quantity) -> str:
    """GB/s without the unit, for where there is little room: `~12`, `11.3`, `24/48`."""
    return span(*(f"{_mark(rate)}{_short(rate.value / 1e9)}" for rate in rates), joint="/")


def _mark(rate: Quantity) -> str:
    return "" if rate.source.is_of_this_machine else NOMINAL_MARK


def _short(value: float) -> str:
    """Two or three digits are what a glance takes in: 48, 6.6, 200."""
    return f"{value:.0f}" if value >= 9.95 else three_digits(value)[:4].rstrip("0").rstrip(".")


def each_way(link: Link, form: Callable[[Quantity], str] = rate_words) -> str:
    """The rate of each direction, once if they are the same."""
    return span(form(link.forward_bytes_per_s), form(link.backward_bytes_per_s), joint=" / ")


def plain_rate(rate: Quantity) -> str:
    """`12.0 GB/s`, beside words for where it comes from."""
    return format_rate(rate.value)


def lane_words(link: Link) -> str:
    """What it is made of, and how many lanes are bonded: `NVLink 2 x2`."""
    return f"{link_medium(link)} x{link.count}" if link.count > 1 else link_medium(link)


class LinkClass(Struct, frozen=True):
    """Links that look alike: their medium with its lanes, and their rate each way."""

    medium: str
    way: str
    links: tuple[Link, ...]


def link_classes(topology: Topology) -> list[LinkClass]:
    """All links, dealt out by medium, lanes and rate; in the order of kinds, then as they come."""
    groups: dict[tuple[LinkKind, str, str], list[Link]] = defaultdict(list)
    for link in topology.links:
        groups[link.kind, lane_words(link), each_way(link)].append(link)
    order = list(LinkKind)
    return [
        LinkClass(medium, way, tuple(links))
        for (_, medium, way), links in sorted(groups.items(), key=lambda g: order.index(g[0][0]))
    ]


def joined_words(topology: Topology, links: Sequence[Link]) -> str:
    """What links join: `D0-D1, D2-D3`, `D0..D3 to NVSwitch 0`, `each two of D0..D7`."""
    devices = {device.id for device in topology.devices}
    leaves = devices | {nic.id for nic in topology.nics}
    pairs = [link.ends for link in links if set(link.ends) <= devices]
    parts = [_pair_words(topology, pairs)] if pairs else []
    below: dict[str, set[str]] = defaultdict(set)
    for link in links:
        inside = set(link.ends) & leaves
        if len(inside) == 2 and not inside <= devices:  # a NIC on a device
            inside -= devices
        if len(inside) == 1:
            (other,) = set(link.ends) - inside
            below[other] |= inside
        elif not inside:
            parts.append(" - ".join(vertex_words(topology, end) for end in link.ends))
    for other, members in below.items():
        names = [vertex_words(topology, nic.id) for nic in topology.nics if nic.id in members]
        ranges = device_ranges(topology, members)
        parts.append(
            f"{', '.join(filter(None, [ranges, *names]))} to {vertex_words(topology, other)}"
        )
    if len(parts) > _MAX_PAIRS:
        parts[_MAX_PAIRS:] = [f"and {len(parts) - _MAX_PAIRS} more"]
    return "; ".join(parts)


def host_rates(topology: Topology) -> dict[str, str]:
    """What leads out of each of several hosts, each way: `NVLink 3.60 TB/s`."""
    if len(topology.hosts) < 2:
        return {}
    vertices: list[Device | Nic | Component] = [*topology.devices, *topology.nics]
    vertices += topology.components
    host_of = {vertex.id: vertex.host for vertex in vertices}
    sums: dict[str, dict[LinkKind, float]] = defaultdict(lambda: defaultdict(float))
    for link in topology.links:
        a, b = (host_of[end] for end in link.ends)
        for own, rate in ((a, link.forward_bytes_per_s), (b, link.backward_bytes_per_s)):
            if a != b:
                sums[own][link.kind] += rate.value
    return {
        host: "out: "
        + ", ".join(f"{LINK_WORDS[kind]} {format_rate(sums[host][kind])}" for kind in sums[host])
        for host in topology.hosts
        if host in sums
    }


def _pair_words(topology: Topology, pairs: Sequence[tuple[str, str]]) -> str:
    members = {end for pair in pairs for end in pair}
    known = {frozenset(pair) for pair in pairs}
    if len(members) > 2 and all(frozenset(p) in known for p in combinations(members, 2)):
        return f"each two of {device_ranges(topology, members)}"
    code = {d.id: device_code(topology, at) for at, d in enumerate(topology.devices)}
    words = [f"{code[a]}-{code[b]}" for a, b in pairs]
    shown, more = within(words, _MAX_PAIRS)
    return ", ".join([*shown, *([f"and {more} more"] if more else [])])
