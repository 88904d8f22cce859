"""Measured rates against what the product's PCIe link carries, and against the other devices.

Copies between devices one way, both ways together, and copies from and to the host count, whatever
is known of the way between the devices. Where nothing is, rates that no PCIe link of the product
carries are those of device links, and tell nothing of devices without such links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from toposeat.model.few import listed
from toposeat.model.health import Finding
from toposeat.model.quantity import Quantity, Source, median
from toposeat.model.topology import MEASURED_PORTS, Device, LinkKind, PathClass, Route, Topology
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.health.findings import finding
from toposeat.topology.health.wiring import Pairs, rate_of

_SLOW = 0.7  # of its siblings: published machines stay within 10 to 25 %
_SLOW_OTHER = 0.35  # of devices of another product: its link may have half the lanes
_BROKEN = 0.3  # of its siblings: a slot with half the lanes gives more
_LEAST_PAIRS = 6  # of one class, for a median to mean something
_ASYMMETRIC = 0.7  # one direction against the other
# Shares of a PCIe link below which something is wrong: of direct copies and those of the host; of
# copies that stop in host memory; of any pair (some processors stage 0.05 across sockets).
_DIRECT, _STAGED, _ANY = 0.5, 0.15, 0.1
_OTHER_WAY = 1.1  # of a PCIe link: what is faster goes another way
_MOST_PCIE = k.pcie_bytes_per_s(5)  # of a product that nobody names


class _Copy(Struct, frozen=True, kw_only=True):
    """A measured rate, bytes/s, and the devices that it is of; `direct`: without a stop."""

    ends: tuple[str, ...]
    rate: float
    path_class: PathClass = PathClass.UNKNOWN
    direct: bool = True


def slow_copies(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Devices, and pairs of others, whose measured copies are far below what is to be expected."""
    slow: set[str] = set()
    for what, ways, copies in _measured_copies(topology):
        rest = [copy for copy in copies if slow.isdisjoint(copy.ends)]
        for found, ids in _slow_devices(what, ways, rest, pairs):
            yield found
            slow.update(ids)
    routes = [r for r in measured_routes(topology) if slow.isdisjoint((r.source, r.target))]
    yield from _slow_pairs(topology, pairs, routes)
    yield from _slow_against_link(pairs, routes)


def measured_routes(topology: Topology) -> Iterator[Route]:
    """Routes between devices of which somebody measured what a flow reaches."""
    devices = {device.id for device in topology.devices}
    for route in topology.routes:
        if route.target in devices and route.links and _measured(route.cap_bytes_per_s):
            yield route


def _measured(rate: Quantity | None) -> float:
    """A measured rate, bytes/s; 0 for any other."""
    return rate.value if rate is not None and rate.source is Source.MEASURED else 0.0


def _measured_copies(topology: Topology) -> Iterator[tuple[str, int, list[_Copy]]]:
    """Each kind of copies in words, over how many directions its rates are added, and the rates.

    Those of the host come first: they are of one device each.
    """
    whole = {device.id for device in topology.devices if not device.parent}
    of_hosts = [
        _Copy(ends=(end,), rate=rate)
        for link in topology.links
        if link.kind is LinkKind.PCIE and MEASURED_PORTS not in link.ends
        for end in whole.intersection(link.ends)
        for ways in [map(_measured, (link.forward_bytes_per_s, link.backward_bytes_per_s))]
        if (rate := min(filter(None, ways), default=0.0))
    ]
    yield "copies over the own PCIe link, as those of the host,", 1, of_hosts
    for what, ways, member in (
        ("copies to and from other devices", 1, "cap_bytes_per_s"),
        ("copies both ways at once", 2, "combined_bytes_per_s"),
    ):
        between = [
            _Copy(
                ends=(route.source, route.target),
                rate=rate,
                path_class=route.path_class,
                direct=route.peer_access is True,
            )
            for route in topology.routes
            if whole.issuperset((route.source, route.target))
            and route.path_class is not PathClass.NET
            and (rate := _measured(getattr(route, member)))
        ]
        yield what, ways, between


def _slow_devices(
    what: str, ways: int, copies: list[_Copy], pairs: Pairs
) -> Iterator[tuple[Finding, list[str]]]:
    """Devices whose fastest copy is far below that of the others, or of their own link.

    Where half of them are slower than the rest the machine was built so.
    """
    device_of = {device.id: device for device in pairs.devices}
    fastest: dict[str, _Copy] = {}
    for copy in copies:
        for end in copy.ends:
            fastest[end] = max(fastest.get(end, copy), copy, key=lambda each: each.rate)
    slower: dict[str, float] = {}
    for id, best in fastest.items():
        others = _fastest_of_others(
            copies, id, best, (_link_of(device_of[id]) or _MOST_PCIE) * ways
        )
        usual = median(others.values()) if len(others) >= len(best.ends) else 0.0
        alike = sum(device_of[other].name == device_of[id].name for other in others)
        if best.rate < (_SLOW if 2 * alike >= len(others) else _SLOW_OTHER) * usual:
            slower[id] = usual
    if len(fastest) > 2 and 2 * len(slower) >= len(fastest):
        slower = {}
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for id, best in fastest.items():
        link, reached = _link_of(device_of[id]), f"{what} reach {_words(best.rate)} at most"
        if id in slower:
            row = "device-slow broken" if best.rate < _BROKEN * slower[id] else "device-slow"
            groups[row, f"{reached}, those of the others {_words(slower[id])}"].append(id)
        elif link and best.rate < (_DIRECT if best.direct else _STAGED) * link * ways:
            words = _link_words(device_of[id], ways)
            row = "device-slow broken" if best.rate < _ANY * link * ways else "device-slow"
            groups[row, f"{reached}, {words}"].append(id)
    for (row, said), ids in groups.items():
        yield finding(row, listed(pairs.name[id] for id in ids), what=said), ids


def _fastest_of_others(
    copies: Iterable[_Copy], id: str, best: _Copy, pcie: float
) -> Mapping[str, float]:
    """The fastest copy of each other device on a way like that of `best`, without this device."""
    unknown = best.path_class is PathClass.UNKNOWN
    found: dict[str, float] = {}
    for copy in copies:
        other_way = unknown and copy.rate > _OTHER_WAY * pcie
        if id in copy.ends or copy.path_class is not best.path_class or other_way:
            continue
        found |= {end: max(copy.rate, found.get(end, 0.0)) for end in copy.ends}
    return found


def _slow_pairs(topology: Topology, pairs: Pairs, routes: Iterable[Route]) -> Iterator[Finding]:
    """Measured pairs far below others of the same class and the same number of links."""
    groups: dict[tuple[PathClass, int], list[tuple[Route, float]]] = defaultdict(list)
    for route in routes:
        if route.path_class is PathClass.UNKNOWN:
            continue  # some may have device links and others none
        lanes = min(topology.link_of_id[id].count for id in route.links)
        groups[route.path_class, lanes].append((route, rate_of(topology, route)))
    for (path_class, _lanes), members in groups.items():
        if len(members) < _LEAST_PAIRS:
            continue
        usual = median(rate for _, rate in members)
        slow = [(route, rate) for route, rate in members if rate < _SLOW * usual]
        if slow:
            yield finding(
                "pair-slow",
                listed(pairs.named(route) for route, _ in slow),
                rate=_words(min(rate for _, rate in slow)),
                path_class=path_class.value,
                usual=_words(usual),
            )


def _slow_against_link(pairs: Pairs, routes: Iterable[Route]) -> Iterator[Finding]:
    """Pairs that are measured far below what the links of both products carry."""
    device_of = {device.id: device for device in pairs.devices}
    below: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for route in routes:
        ends = device_of[route.source], device_of[route.target]
        rate = _measured(route.cap_bytes_per_s)
        narrow = min(ends, key=lambda end: _link_of(end) or 0.0)
        if rate < _ANY * (_link_of(narrow) or 0.0):
            below[_link_words(narrow, 1)].append((pairs.named(route), rate))
    for words, found in below.items():
        least = _words(min(rate for _, rate in found))
        yield finding("pair-slow link", listed(name for name, _ in found), rate=least, link=words)


def directions(topology: Topology, pairs: Pairs) -> Iterator[Finding]:
    """Measured pairs whose directions differ by more than machines usually do."""
    rates = {(r.source, r.target): (r, rate_of(topology, r)) for r in measured_routes(topology)}
    odd = [
        route
        for (a, b), (route, rate) in rates.items()
        if (b, a) in rates and rate < _ASYMMETRIC * rates[b, a][1]
    ]
    if odd:
        names = listed(pairs.named(route) for route in odd)
        yield finding("direction-asymmetric", names, count=len(odd))


def _link_of(device: Device) -> float | None:
    """What the device's own PCIe link carries, bytes/s; None where its generation is not known."""
    generation = products.pcie_generation_of(device)
    width = products.pcie_width_of(device)
    return None if generation is None else k.pcie_bytes_per_s(generation, width)


def _link_words(device: Device, ways: int) -> str:
    """`PCIe 4.0 x16 of an NVIDIA A100 carries about 24 GB/s`."""
    generation, width = products.pcie_generation_of(device), products.pcie_width_of(device)
    both = " both ways" if ways > 1 else ""
    return (
        f"PCIe {generation}.0 x{width} of {device.name or 'such a device'} carries about"
        f" {_words((_link_of(device) or 0.0) * ways)}{both}"
    )


def _words(rate: float) -> str:
    return f"{rate / 1e9:.3g} GB/s"
