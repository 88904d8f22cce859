"""Which regular pattern a traffic is, in words, for people who want to know what they place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from toposeat.model.traffic import Int64Array, PairTable, Traffic

MAX_RANKS = 4096  # grids of more ranks have too many shapes to try while a user waits
MAX_DIMENSIONS = 4
MIN_SHARE = 0.95  # of the bytes that a pattern must explain
EVEN = 0.05  # relative spread below which sizes count as equal

_Pairs = NDArray[np.int64]  # source * ranks + target, sorted


@dataclass(frozen=True, slots=True)
class _Grid:
    """A process grid in row-major order, the first dimension slowest."""

    shape: tuple[int, ...]
    wrap: bool

    def pairs(self, dimension: int) -> _Pairs:
        """Neighbours along one dimension, both directions."""
        ranks = int(np.prod(self.shape))
        number = np.arange(ranks, dtype=np.int64).reshape(self.shape)
        after = np.roll(number, -1, axis=dimension)
        if not self.wrap:
            keep = [slice(None)] * len(self.shape)
            keep[dimension] = slice(0, -1)
            number, after = number[tuple(keep)], after[tuple(keep)]
        a, b = number.ravel(), after.ravel()
        return np.unique(np.concatenate([a * ranks + b, b * ranks + a]))

    def all_pairs(self) -> _Pairs:
        """Neighbours along any dimension."""
        return np.unique(np.concatenate([self.pairs(d) for d in range(len(self.shape))]))


def describe_pattern(traffic: Traffic) -> str:
    """One sentence on the traffic that is mapped, or "" if it is no pattern known here.

    Known are halo exchanges on 1-D to 4-D grids in row-major rank order, open or periodic, and
    all-to-all among all ranks. A pattern must explain at least 95 % of the bytes, and every pair of
    it must be used.
    """
    table = traffic.mapped_table()
    total = int(table.bytes.sum())
    if total == 0 or not 3 <= traffic.ranks <= MAX_RANKS:
        return ""
    keys = table.source * traffic.ranks + table.target
    best: tuple[int, str] | None = None
    for grid in _grids(traffic.ranks):
        pairs = grid.all_pairs()
        inside = np.isin(keys, pairs)
        used = np.count_nonzero(table.bytes[inside] > 0)
        share = int(table.bytes[inside].sum()) / total
        # Of the grids that explain the bytes, the one with the fewest pairs says most.
        if used == len(pairs) and share >= MIN_SHARE and (best is None or len(pairs) < best[0]):
            best = len(pairs), _halo_words(grid, keys, table, share)
    if best is not None and best[0] < traffic.ranks * (traffic.ranks - 1):
        return best[1]
    return _all_to_all_words(traffic.ranks, table)


def with_pattern(traffic: Traffic) -> Traffic:
    """The same traffic with what was recognised in its metadata, for the reports."""
    words = describe_pattern(traffic)
    return replace(traffic, metadata={**traffic.metadata, "pattern": words}) if words else traffic


def _grids(ranks: int) -> Iterator[_Grid]:
    for shape in _shapes(ranks):
        yield _Grid(shape, wrap=False)
        if max(shape) > 2:  # a periodic dimension of two is the same pair twice
            yield _Grid(shape, wrap=True)


def _shapes(ranks: int) -> list[tuple[int, ...]]:
    """Ordered factorisations into 1 to `MAX_DIMENSIONS` factors of at least two."""
    found: set[tuple[int, ...]] = set()

    def split(rest: int, smallest: int, factors: tuple[int, ...]) -> None:
        if rest >= smallest:
            found.update(permutations((*factors, rest)))
        if len(factors) + 1 < MAX_DIMENSIONS:
            for factor in range(smallest, int(rest**0.5) + 1):
                if rest % factor == 0:
                    split(rest // factor, factor, (*factors, factor))

    split(ranks, 2, ())
    return sorted(found, key=lambda shape: (len(shape), shape))


def _halo_words(grid: _Grid, keys: Int64Array, table: PairTable, share: float) -> str:
    shape = "x".join(map(str, grid.shape))
    periodic = ", periodic" if grid.wrap else ""
    pairs = len(grid.all_pairs())
    words = (
        f"{len(grid.shape)}-D {shape} halo{periodic}: {100 * share:.0f} % of the bytes on {pairs}"
        " directed pairs"
    )
    mean = []
    for dimension in range(len(grid.shape)):
        sizes = table.bytes[np.isin(keys, grid.pairs(dimension))]
        mean.append(float(sizes.mean()))
    if len(mean) > 1 and max(mean) > (1 + EVEN) * min(mean):
        words += "; per pair along the dimensions " + " : ".join(
            f"{each / min(mean):.3g}" for each in mean
        )
    return words


def _all_to_all_words(ranks: int, table: PairTable) -> str:
    sizes = table.bytes[table.bytes > 0]
    if len(sizes) < ranks * (ranks - 1):
        return ""
    even = sizes.max() <= (1 + EVEN) * sizes.min()
    return "all-to-all among all ranks" + ("" if even else ", uneven")
