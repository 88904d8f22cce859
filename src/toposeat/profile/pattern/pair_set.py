"""The pairs of ranks that exchange bytes, and what a pattern must show to be claimed of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toposeat.model.traffic import Int64Array, PairTable

MIN_SHARE = 0.95  # of the bytes that a pattern must explain
EVEN = 0.05  # relative spread below which sizes count as equal


@dataclass(frozen=True, slots=True)
class Pattern:
    """What was recognised.

    Attributes:
        kind: one word or two, for programs.
        words: one sentence, for people.
        keys: the directed pairs that the sentence is about (source x ranks + target), sorted; all
            of them are used.
        share: of the bytes, on these pairs.
    """

    kind: str
    words: str
    keys: Int64Array
    share: float


class PairSet:
    """Directed pairs with bytes, without a rank's own, as sorted keys source x ranks + target."""

    def __init__(self, ranks: int, keys: Int64Array, nbytes: Int64Array, total: int) -> None:
        self.ranks = ranks
        self.keys = keys
        self.bytes = nbytes
        self.total = total

    @staticmethod
    def of(table: PairTable, ranks: int) -> PairSet:
        """The pairs of a table that carry bytes."""
        used = (table.bytes > 0) & (table.source != table.target)
        keys = table.source[used] * ranks + table.target[used]
        return PairSet(ranks, keys, table.bytes[used], int(table.bytes[used].sum()))

    def within(self, members: Sequence[int]) -> PairSet:
        """Pairs among the members, numbered by their place; `total` stays that of all pairs."""
        place = np.full(self.ranks, -1, np.int64)
        place[np.asarray(members, np.int64)] = np.arange(len(members))
        source, target = place[self.source], place[self.target]
        inside = (source >= 0) & (target >= 0)
        keys = source[inside] * len(members) + target[inside]
        order = np.argsort(keys)
        return PairSet(len(members), keys[order], self.bytes[inside][order], self.total)

    def heaviest(self, share: float) -> PairSet:
        """Without the lightest pairs that make up less than 1 - `share` of the bytes."""
        order = np.argsort(self.bytes)
        light = np.cumsum(self.bytes[order]) <= (1 - share) * self.total
        # A pair as heavy as one that is kept is kept, too.
        floor = self.bytes[order][~light].min() if (~light).any() else 0
        keep = self.bytes >= floor
        return PairSet(self.ranks, self.keys[keep], self.bytes[keep], self.total)

    @property
    def source(self) -> Int64Array:
        """Sender of each pair."""
        return self.keys // self.ranks

    @property
    def target(self) -> Int64Array:
        """Receiver of each pair."""
        return self.keys % self.ranks

    def __len__(self) -> int:
        return len(self.keys)

    def bytes_of(self, keys: Int64Array) -> Int64Array:
        """Bytes of each key, 0 where the pair is not used."""
        if not len(self.keys):
            return np.zeros(len(keys), np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.bytes[at], 0)

    def all_used(self, keys: Int64Array) -> bool:
        """Whether there is any key, and bytes on every one."""
        return 0 < len(keys) <= len(self.keys) and bool((self.bytes_of(keys) > 0).all())

    def share(self, keys: Int64Array) -> float:
        """Share of all bytes that the keys carry."""
        return int(self.bytes_of(keys).sum()) / self.total if self.total else 0.0

    def claim(self, kind: str, words: str, keys: Int64Array) -> Pattern | None:
        """The pattern, if all of its pairs are used and carry `MIN_SHARE` of the bytes.

        This is the only place where a pattern is claimed. `words` may have {share} and {pairs}.
        """
        if not self.all_used(keys):
            return None
        share = self.share(keys)
        if share < MIN_SHARE:
            return None
        text = words.format(share=percent(share), pairs=f"{len(keys)} directed pairs")
        return Pattern(kind, text, np.sort(keys), share)


def both_ways(a: Int64Array, b: Int64Array, ranks: int) -> Int64Array:
    """Keys of the pairs a-b in both directions, each once."""
    return distinct(np.concatenate([a * ranks + b, b * ranks + a]))


def distinct(keys: Int64Array) -> Int64Array:
    """Each key once, sorted: what `numpy.unique` does, without its import of masked arrays."""
    ordered = np.sort(keys)
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def percent(share: float) -> str:
    """Never rounded up to all of it, nor down to nothing: `97 %`, `99.9 %`, `0.3 %`, `<0.1 %`."""
    value = 100 * share
    if 99.5 <= value < 100:
        return f"{min(value, 99.9):.1f} %"
    if 0 < value < 0.95:
        return f"{value:.1f} %" if value >= 0.05 else "<0.1 %"
    return f"{value:.0f} %"


def are_even(sizes: Int64Array) -> bool:
    """Whether no size differs much from the others."""
    return bool(sizes.max() <= (1 + EVEN) * sizes.min())
