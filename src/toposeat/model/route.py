"""How a transfer gets from one device to another: its links, and what limits it beyond them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from math import log2

from toposeat.model.number_checks import (
    BANDWIDTH_RANGE_BYTES_PER_S,
    MAX_LATENCY_S,
    check_bandwidth,
    check_latency,
)
from toposeat.model.part_error import PartError
from toposeat.model.quantity import Quantity, Source

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


@dataclass(frozen=True, kw_only=True, slots=True)
class CurvePoint:
    """One message size of a `RouteCurve`: a message of M bytes alone takes latency + M / rate."""

    message_bytes: int
    latency_s: float
    bytes_per_s: float

    def __post_init__(self) -> None:
        low, high = BANDWIDTH_RANGE_BYTES_PER_S
        if not 1 <= self.message_bytes <= MAX_MESSAGE_BYTES:
            raise ValueError(f"a message has 1 to 2^50 bytes, not {str(self.message_bytes)[:30]}")
        if not 0 <= self.latency_s <= MAX_LATENCY_S:
            raise ValueError(f"a latency of {self.latency_s:g} s is not 0 to {MAX_LATENCY_S:g} s")
        if not low <= self.bytes_per_s <= high:
            raise ValueError(
                f"a bandwidth of {self.bytes_per_s:g} bytes/s is not within {low:g} to {high:g}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class RouteCurve:
    """Latency and bandwidth of a route by message size, for a single flow on idle links.

    Between two points both are linear in the logarithm of the size; beyond the ends they stay.
    `points` come by rising size.
    """

    points: tuple[CurvePoint, ...]
    source: Source = Source.NOMINAL

    def __post_init__(self) -> None:
        if not 1 <= len(self.points) <= MAX_CURVE_POINTS:
            raise ValueError(f"a curve has 1 to {MAX_CURVE_POINTS} points, not {len(self.points)}")
        for number, (point, following) in enumerate(
            zip(self.points, self.points[1:], strict=False), start=1
        ):
            if following.message_bytes <= point.message_bytes:
                raise PartError(
                    f"size {following.message_bytes} of a curve does not come after "
                    f"{point.message_bytes}",
                    "points",
                    number,
                )

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


@dataclass(frozen=True, kw_only=True, slots=True)
class ProtocolRoute:
    """What one protocol was measured to reach on a route, and the links that it uses.

    `links` is None where they are those of the route; a staged copy may go back over a link.
    `combined_bytes_per_s` is what both directions of the pair reach together, where they hinder
    each other.
    """

    protocol: CopyProtocol
    curve: RouteCurve
    links: tuple[str, ...] | None = None
    combined_bytes_per_s: Quantity | None = None

    def __post_init__(self) -> None:
        check_bandwidth(self.combined_bytes_per_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """The links a transfer from one device to another device or NIC uses, in order.

    The direction on each link follows from walking from `source`. `peer_access` is None when not
    known. `staged` says that the transfer goes through a buffer in host memory, piece by piece, so
    that both halves move at once: only such a route may go back over a link, once.

    What limits a transfer beyond its links: `cap_bytes_per_s` a single flow even on idle links
    (None: only the links do); `combined_bytes_per_s` all that the two devices exchange with each
    other in both directions together (one of the two routes may state it for both; the smaller
    counts). `latency_s` is what one message waits (None: the sum over the links). `curve` states
    latency and bandwidth by message size: its latency replaces `latency_s`, and the cap limits its
    bandwidth. `protocols` are the ways to copy that were measured, each at most once. The other
    members are those of one of them, and predictions use only these unless a protocol is asked for
    (`evaluation.under_rule`).
    """

    source: str
    target: str
    links: tuple[str, ...]
    path_class: PathClass = PathClass.UNKNOWN
    cap_bytes_per_s: Quantity | None = None
    peer_access: bool | None = None
    latency_s: Quantity | None = None
    combined_bytes_per_s: Quantity | None = None
    staged: bool = False
    curve: RouteCurve | None = None
    protocols: tuple[ProtocolRoute, ...] | None = None

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise ValueError(f"a route from {self.source!r} to itself")
        names = [each.protocol.value for each in self.protocols or ()]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise PartError(f"protocol {name!r} appears twice", "protocols", number)
        check_bandwidth(self.cap_bytes_per_s)
        check_bandwidth(self.combined_bytes_per_s)
        check_latency(self.latency_s)
