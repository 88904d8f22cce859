"""The explanation of a placement: what it moved, and what limits it."""

from __future__ import annotations

from msgspec import Struct


class PairMove(Struct, frozen=True, kw_only=True):
    """A directed pair of ranks whose traffic uses other links than before; ids of links in order.

    No links: both ranks are on one device.
    """

    source: int
    target: int
    bytes: int
    messages: int
    links_before: tuple[str, ...]
    links_after: tuple[str, ...]


class PairLoad(Struct, frozen=True, kw_only=True):
    """What a directed pair of ranks adds to a link."""

    source: int
    target: int
    bytes: int


class Bottleneck(Struct, frozen=True, kw_only=True):
    """The most congested link of a placement (None: no link carries anything), and who loads it.

    `pairs` counts the pairs that load it, `loads` lists the heaviest. `last_source` and
    `last_target` are the ranks of the transfer that ends last in the flow model, and `last_link` is
    what limited it at its end (None: the cap or latency of its pair).
    """

    link: str | None
    congestion_s: float
    bytes: float
    pairs: int
    loads: tuple[PairLoad, ...]
    last_source: int | None
    last_target: int | None
    last_link: str | None


class Explanation(Struct, frozen=True, kw_only=True):
    """Explains a mapping result. `moved_pairs` counts pairs, `moves` lists the heaviest."""

    moves: tuple[PairMove, ...]
    moved_pairs: int
    moved_bytes: int
    before: Bottleneck
    after: Bottleneck
