"""The explanation of a placement: what it moved, and what limits it."""

from __future__ import annotations

from msgspec import Struct

from toposeat.model.latency import Latency


class Move(Struct, frozen=True, kw_only=True):
    """Traffic of a directed pair of ranks that uses other links than before.

    `links_before` and `links_after` are ids of links in order, and none where both ranks are on one
    device.
    """

    links_before: tuple[str, ...]
    links_after: tuple[str, ...]
    bytes: int
    source: int
    target: int
    messages: int


class PairLoad(Struct, frozen=True, kw_only=True):
    """What a directed pair of ranks adds to a link."""

    source: int
    target: int
    bytes: int


class Bottleneck(Struct, frozen=True, kw_only=True):
    """The most congested link of a placement (None: no link carries anything), and who loads it.

    `pairs` counts the pairs that load it, `loads` lists the heaviest. `last_source` and
    `last_target` are the ranks of the transfer that ends last in the flow model, and `last_link` is
    what limited it at its end (None: the cap of its pair). `latency` says how much of it all is
    latency, and whose.
    """

    link: str | None
    congestion_s: float
    bytes: float
    pairs: int
    loads: tuple[PairLoad, ...]
    last_source: int | None = None
    last_target: int | None = None
    last_link: str | None = None
    latency: Latency | None = None


class Explanation(Struct, frozen=True, kw_only=True):
    """Explains a mapping result: of all moves, `moves` lists the heaviest."""

    moves: tuple[Move, ...]
    moved_pairs: int
    moved_bytes: int
    before: Bottleneck
    after: Bottleneck
