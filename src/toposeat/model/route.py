"""How a transfer gets from one device to another: its links, and what limits it beyond them.

A route is a walk over the links of its topology, from its source to its target.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from math import log2

from toposeat.errors import PartError
from toposeat.model.quantity import (
    BANDWIDTH_RANGE_BYTES_PER_S,
    MAX_LATENCY_S,
    Quantity,
    Source,
    check_bandwidth,
    check_latency,
    check_number,
)
from toposeat.model.record import Record

MAX_CURVE_POINTS = 64
MAX_MESSAGE_BYTES = 1 << 50


class PathClass(StrEnum):
    """How near two endpoints are, nearest first, in the words of nvidia-smi and NCCL."""

    NVL = "NVL"  # direct device links or one device-link switch (NVLink, xGMI, Xe Link)
    C2C = "C2C"
    PIX = "PIX"  # at most one PCIe bridge
    PXB = "PXB"  # several PCIe bridges, no host bridge
    PHB = "PHB"  # through one host bridge
    NODE = "NODE"  # between host bridges of one NUMA node
    SYS = "SYS"  # between NUMA nodes
    NET = "NET"  # between hosts
    UNKNOWN = "UNKNOWN"


class CurvePoint(Record, frozen=True, kw_only=True):
    """One message size of a `RouteCurve`: a message of M bytes alone takes latency + M / rate."""

    message_bytes: int
    latency_s: float
    bytes_per_s: float

    def __post_init__(self) -> None:
        least, most = BANDWIDTH_RANGE_BYTES_PER_S
        check_number("the size of a message", self.message_bytes, MAX_MESSAGE_BYTES, 1)
        check_number("a latency (s)", self.latency_s, MAX_LATENCY_S)
        check_number("a bandwidth (bytes/s)", self.bytes_per_s, most, least)


class RouteCurve(Record, frozen=True, kw_only=True):
    """Latency and bandwidth of a route by message size, for a single flow on idle links.

    Between two points both are linear in the logarithm of the size; beyond the ends they stay.
    `points` come by rising size.
    """

    points: tuple[CurvePoint, ...]
    source: Source = Source.NOMINAL

    def __post_init__(self) -> None:
        check_number("the number of points of a curve", len(self.points), MAX_CURVE_POINTS, 1)
        sizes = [point.message_bytes for point in self.points]
        for number, (size, following) in enumerate(pairwise(sizes), start=1):
            if following <= size:
                raise PartError(f"size {following} after {size}", "points", number)

    def at(self, message_bytes: float) -> tuple[float, float]:
        """Latency in seconds and bytes per second of messages of one size."""
        place = bisect_left([point.message_bytes for point in self.points], message_bytes)
        after = self.points[min(place, len(self.points) - 1)]
        before = self.points[max(place - 1, 0)]
        if place == len(self.points) or before is after:
            return after.latency_s, after.bytes_per_s
        size, low, high = log2(message_bytes), log2(before.message_bytes), log2(after.message_bytes)
        part = (size - low) / (high - low)
        return (
            before.latency_s + part * (after.latency_s - before.latency_s),
            before.bytes_per_s + part * (after.bytes_per_s - before.bytes_per_s),
        )

    @property
    def least_latency_s(self) -> float:
        """The least latency of all message sizes."""
        return min(point.latency_s for point in self.points)

    @property
    def most_bytes_per_s(self) -> float:
        """The greatest bandwidth of all message sizes."""
        return max(point.bytes_per_s for point in self.points)


class CopyProtocol(StrEnum):
    """How the bytes of a message get from one device to another (Ji et al. 2012)."""

    GET = "get"  # the receiver opens the sender's memory and reads
    PUT = "put"  # the sender opens the receiver's memory and writes
    COOPERATE = "cooperate"  # each of them copies one half
    STAGED = "staged"  # piece by piece through a buffer in host memory


class Route(Record, frozen=True, kw_only=True):
    """The links a transfer from one device to another device or NIC uses, in order.

    The direction on each link follows from walking from `source`. `peer_access` is None when not
    known. `staged` says that the transfer goes through a buffer in host memory, piece by piece, so
    that both halves move at once: only such a route may go back over a link, once.

    What limits a transfer beyond its links: `cap_bytes_per_s` a single flow even on idle links
    (None: only the links do); `combined_bytes_per_s` all that the two devices exchange with each
    other in both directions together (one of the two routes may state it for both; the smaller
    counts); `ring_bytes_per_s` a step of a collective library's ring, where that has a way of its
    own; `staged_bytes_per_s` a copy through host memory, measured although the two have peer
    access. `latency_s` is what one message waits (None: the sum over the links). `curve` states
    latency and bandwidth by message size: its latency replaces `latency_s`, and the cap limits its
    bandwidth.
    """

    source: str
    target: str
    links: tuple[str, ...]
    path_class: PathClass = PathClass.UNKNOWN
    cap_bytes_per_s: Quantity | None = None
    peer_access: bool | None = None
    latency_s: Quantity | None = None
    combined_bytes_per_s: Quantity | None = None
    ring_bytes_per_s: Quantity | None = None
    staged_bytes_per_s: Quantity | None = None
    staged: bool = False
    curve: RouteCurve | None = None

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise ValueError(f"a route from {self.source!r} to itself")
        check_bandwidth(self.cap_bytes_per_s)
        check_bandwidth(self.combined_bytes_per_s)
        check_bandwidth(self.ring_bytes_per_s)
        check_bandwidth(self.staged_bytes_per_s)
        check_latency(self.latency_s)


_Ends = Mapping[str, tuple[str, str]]  # of a link, by its id


def first_fault(
    routes: Sequence[Route], ends: _Ends, known: Collection[str]
) -> tuple[int, str] | None:
    """The first route that is no walk, by number, with what is wrong with it; None if all are."""
    arrived: dict[str, dict[tuple[str, ...], str]] = {}
    faults: list[tuple[int, str]] = []
    # Shorter routes first: in a ring or mesh most routes are a shorter one and one more link, so
    # that only the last of their links is checked. 256 devices have some four million links in all.
    for number in sorted(range(len(routes)), key=lambda i: len(routes[i].links)):
        route = routes[number]
        if route.source not in known or route.target not in known:
            faults.append((number, "has an unknown end"))
            continue
        before = arrived.setdefault(route.source, {(): route.source})
        fault = _fault_of_route(route, ends, before)
        if fault:
            faults.append((number, fault))
        elif not route.staged:
            before[route.links] = route.target
    return min(faults, default=None)


def _fault_of_route(route: Route, ends: _Ends, before: Mapping[tuple[str, ...], str]) -> str:
    """What is wrong with a route; "" if nothing is.

    `before`: the ends of checked walks from its source, by their links; none uses a link twice.
    """
    return "" if _goes_on(route, ends, before) else _fault_of_links(route, ends)


def _goes_on(route: Route, ends: _Ends, before: Mapping[tuple[str, ...], str]) -> bool:
    """Whether the route is a checked walk and one more link, which the walk does not use."""
    if not route.links:
        return False
    others, last = route.links[:-1], route.links[-1]
    here = before.get(others)
    if here is None or last in others:
        return False
    return ends.get(last) in ((here, route.target), (route.target, here))


def _fault_of_links(route: Route, ends: _Ends) -> str:
    fault = _fault_of_walk(route, ends, route.links)
    if not fault and not route.staged and len(set(route.links)) < len(route.links):
        return "uses a link twice: only a staged route may go back over a link"
    return fault


def _fault_of_walk(route: Route, ends: _Ends, links: tuple[str, ...]) -> str:
    """What is wrong with the route's links as a walk."""
    here = route.source
    walked: set[tuple[str, str]] = set()  # links, and the end they were walked from
    for link in links:
        pair = ends.get(link)
        if pair is None:
            return f"uses unknown link {link!r}"
        if here not in pair:
            return f"goes on from {here!r}, but not its link {link!r}"
        if (link, here) in walked:
            return f"uses a link twice: {link!r} in one direction"
        walked.add((link, here))
        here = pair[1] if here == pair[0] else pair[0]
    return "" if here == route.target else f"stops at {here!r}"
