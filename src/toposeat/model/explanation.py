"""Why a placement: what it moved, what limits it, and how sure the choice is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PairMove:
    """A directed pair of ranks whose traffic uses other links than before; ids of links in order.

    No links: both ranks are on one device.
    """

    source: int
    target: int
    bytes: int
    messages: int
    links_before: tuple[str, ...]
    links_after: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PairLoad:
    """What a directed pair of ranks adds to a link."""

    source: int
    target: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Bottleneck:
    """The most congested link of a placement (None: no link carries anything), and who loads it.

    `loads` are the heaviest pairs of `pairs` in all. `last_source` and `last_target` are the ranks
    of the transfer that ends last in the flow model, and `last_link` is what limited it at its end
    (None: the cap or latency of its pair).
    """

    link: str | None
    congestion_s: float
    bytes: float
    pairs: int
    loads: tuple[PairLoad, ...]
    last_source: int | None
    last_target: int | None
    last_link: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sensitivity:
    """How the placement fares when every capacity and latency moves by its spread.

    Candidates that are as good as the numbers stand are not counted: ties say nothing. `better` of
    them are better than the placement as the numbers stand (than a random or default one, or one
    that was kept because the gain was too small). Of `draws` machines, on `best` no other of the
    `candidates` was better by the objective, and on `not_worse` the default was not better.
    `worst_loss` is the largest value of placed / best candidate - 1 over all draws.
    """

    draws: int
    candidates: int
    better: int
    best: int
    not_worse: int
    worst_loss: float
    stated_spread: float  # of numbers whose spread is not recorded
    recorded_spread: tuple[float, float] | None  # least and largest of those recorded
    is_any_assumed: bool  # whether there are numbers without a recorded spread


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Of a mapping result. `moves` are the heaviest pairs of `moved_pairs` in all."""

    moves: tuple[PairMove, ...]
    moved_pairs: int
    moved_bytes: int
    before: Bottleneck
    after: Bottleneck
    sensitivity: Sensitivity | None  # None: the objective uses no number that has a spread
