"""What a running job has sent so far, and how fast it sends now."""

from __future__ import annotations

from dataclasses import dataclass


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
        most: the rank pair with most bytes, and these; None without any.
        busiest: the link, an id of the topology, that the routes of the pairs fill most, and the
            share of what it carries in its fuller direction; None where no link is told.
        seating: which rank is on which device, for `busiest`; or why links are not told.
    """

    elapsed_s: float
    ranks: int
    seen: int
    bytes: int
    messages: int
    bytes_per_s: float
    most: tuple[int, int, int] | None
    busiest: tuple[str, float] | None
    seating: str
