"""What a running job has sent so far, and how fast it sends now."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PairGlance:
    """Bytes from one rank to another."""

    source: int
    target: int
    bytes: int
    bytes_per_s: float  # since the glance before


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkGlance:
    """Bytes over a link in both directions, as the routes of the pairs predict them."""

    link: str  # an id of the topology
    bytes: int
    bytes_per_s: float  # since the glance before
    busy: float  # that rate as a share of what the link carries, of the fuller direction


@dataclass(frozen=True, kw_only=True, slots=True)
class Glance:
    """One look at the records of a running job on this node.

    Attributes:
        elapsed_s: since the launcher was started.
        ranks: of the job.
        seen: those whose records are on this node.
        bytes: that they sent each other, or received from each other's windows.
        messages: likewise.
        bytes_per_s: since the glance before.
        pairs: all of them, most bytes first.
        links: those that pairs use, most bytes first.
        seating: which rank is on which device, for `links`; or why links are not told.
    """

    elapsed_s: float
    ranks: int
    seen: int
    bytes: int
    messages: int
    bytes_per_s: float
    pairs: tuple[PairGlance, ...]
    links: tuple[LinkGlance, ...]
    seating: str
