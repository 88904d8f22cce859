"""The explanation of a placement: what it moved, and what limits it."""

from __future__ import annotations

from msgspec import Struct


class Move(Struct, frozen=True, kw_only=True):
    """Traffic that uses other links than before: of one directed pair of ranks, or of a kind.

    `links_before` and `links_after` are ids of links in order, and none where both ranks are on one
    device. On a machine whose links are not listed they are names of its levels, and the move is
    that of all `pairs` between the same levels; no pair is named then.
    """

    links_before: tuple[str, ...]
    links_after: tuple[str, ...]
    bytes: int
    pairs: int = 1
    source: int | None = None
    target: int | None = None
    messages: int | None = None


class PairLoad(Struct, frozen=True, kw_only=True):
    """What a directed pair of ranks adds to a link."""

    source: int
    target: int
    bytes: int


class Bottleneck(Struct, frozen=True, kw_only=True):
    """The most congested link of a placement (None: no link carries anything), and who loads it.

    `pairs` counts the pairs that load it, `loads` lists the heaviest; `level` is that of the link
    where links are not listed. `last_source` and `last_target` are the ranks of the transfer that
    ends last in the flow model, and `last_link` is what limited it at its end (None: the cap or
    latency of its pair); the model of large machines knows none of them.
    """

    link: str | None
    congestion_s: float
    bytes: float
    pairs: int
    loads: tuple[PairLoad, ...]
    level: str | None = None
    last_source: int | None = None
    last_target: int | None = None
    last_link: str | None = None


class Explanation(Struct, frozen=True, kw_only=True):
    """Explains a mapping result: of all moves, `moves` lists the heaviest.

    `kinds_of_moves` is how many moves there are where one stands for several pairs; None where each
    is of one pair.
    """

    moves: tuple[Move, ...]
    moved_pairs: int
    moved_bytes: int
    before: Bottleneck
    after: Bottleneck
    kinds_of_moves: int | None = None
