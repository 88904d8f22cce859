"""Halo exchanges on n-dimensional grids, and what a shape must show to be claimed.

In a row-major grid a step along one dimension is a fixed distance between rank numbers, its stride;
the strides divide each other, and the number of ranks. So the distances that are used give the
few grids that are possible, however many ranks there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice, product
from typing import NamedTuple

import numpy as np

from toposeat.model.plural import nouns
from toposeat.model.traffic import Int64Array, PairTable

MIN_SHARE = 0.95  # of the bytes that a shape must explain
EVEN = 0.05  # relative spread below which sizes count as equal
_MAX_DIMENSIONS = 6
_MAX_GRIDS = 512
_MAX_WITH_DIAGONALS = 8  # grids, those that explain most
_PERIODIC = 0.25  # of a neighbour's bytes: less between the ends does not count
_POINTS = {2: " (9-point)", 3: " (27-point)"}


class Shape(NamedTuple):
    """What the messages may be: one of these is claimed, or none."""

    words: str  # "2-D 4x4 halo"
    keys: Int64Array  # its directed pairs, source x ranks + target, sorted
    more: str = ""  # what follows the share that the words have
    grid: str = ""  # "4x4", of ranks in their order


class PairSet(NamedTuple):
    """Directed pairs with bytes, without a rank's own, as sorted keys source x ranks + target."""

    ranks: int
    keys: Int64Array
    bytes: Int64Array
    total: int

    @staticmethod
    def of(table: PairTable, ranks: int) -> PairSet:
        """The pairs of a table that carry bytes."""
        used = (table.bytes > 0) & (table.source != table.target)
        keys = table.source[used] * ranks + table.target[used]
        return PairSet(ranks, keys, table.bytes[used], int(table.bytes[used].sum()))

    def ends(self) -> tuple[Int64Array, Int64Array]:
        """Sender and receiver of each pair."""
        return self.keys // self.ranks, self.keys % self.ranks

    def bytes_of(self, keys: Int64Array) -> Int64Array:
        """Bytes of each key, 0 where the pair is not used."""
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.bytes[at], 0)

    def all_used(self, keys: Int64Array) -> bool:
        """Whether there is any key, and bytes on every one."""
        return 0 < len(keys) <= len(self.keys) and bool((self.bytes_of(keys) > 0).all())

    def share(self, keys: Int64Array) -> float:
        """Share of all bytes that the keys carry."""
        return int(self.bytes_of(keys).sum()) / self.total

    def claim(self, shapes: Iterable[Shape]) -> Shape | None:
        """The shape with the fewest pairs, if all are used and carry `MIN_SHARE` of the bytes.

        Of two with equally many pairs none. This is the only place where a shape is claimed.
        """
        fit = [s for s in shapes if self.all_used(s.keys) and self.share(s.keys) >= MIN_SHARE]
        fewest = min((len(shape.keys) for shape in fit), default=0)
        best = [shape for shape in fit if len(shape.keys) == fewest]
        return best[0] if best and all(np.array_equal(s.keys, best[0].keys) for s in best) else None


class Axis(NamedTuple):
    """One dimension: `extent` ranks, each a `stride` from the next."""

    stride: int
    extent: int
    periodic: bool = False


def neighbours(ranks: int, axes: Sequence[Axis], *, diagonals: bool = False) -> Int64Array:
    """Keys of all ranks one step away, sorted; with diagonals, in several dimensions at once."""
    rank = np.arange(ranks, dtype=np.int64)
    parts = []
    for steps in product((-1, 0, 1), repeat=len(axes)):
        if 1 <= sum(map(abs, steps)) <= (len(axes) if diagonals else 1):
            other, exists = rank.copy(), np.ones(ranks, bool)
            for axis, step in zip(axes, steps, strict=True):
                place = rank // axis.stride % axis.extent
                there = (place + step) % axis.extent
                exists &= axis.periodic | (there == place + step)
                other += axis.stride * (there - place)
            exists &= other != rank
            parts.append(rank[exists] * ranks + other[exists])
    keys: Int64Array = np.sort(np.concatenate(parts))
    return keys[np.diff(keys, prepend=-1) > 0]


def halos(pairs: PairSet) -> list[Shape]:
    """Halo exchanges on open or periodic grids; where every pair is a neighbour, any would fit.

    Neighbours across a corner belong to one where they carry over half of what the others do not.
    """
    n = pairs.ranks
    grids = islice(_grids(pairs), _MAX_GRIDS)
    shares = sorted(((pairs.share(neighbours(n, axes)), axes) for axes in grids), reverse=True)
    shapes = []
    for at, (share, axes) in enumerate(shares):
        many, wrap = len(axes), _periodic_words(axes)
        grid = "x".join(str(axis.extent) for axis in axes)
        name = f"{many}-D {grid} halo"
        if at < _MAX_WITH_DIAGONALS and n * (2**many - 1) <= len(pairs.keys):
            keys = neighbours(n, axes, diagonals=True)
            if pairs.all_used(keys) and pairs.share(keys) > (1 + share) / 2:
                words = f"{name} with diagonals{_POINTS.get(many, '')}{wrap}"
                shapes.append(Shape(words, keys, "", grid))
                continue
        if share >= MIN_SHARE:
            shapes.append(Shape(name + wrap, neighbours(n, axes), _weights(pairs, axes), grid))
    return [shape for shape in shapes if len(shape.keys) < n * (n - 1)]


def _grids(pairs: PairSet) -> Iterator[tuple[Axis, ...]]:
    """Grids of which every neighbour pair is used, the slowest dimension first."""
    n = pairs.ranks
    if len(pairs.keys) < n:  # of one dimension; before arrays of millions of ranks are made
        return
    used = np.bincount(np.abs(np.subtract(*pairs.ends())), minlength=n)
    strides = [s for s in (np.flatnonzero(n % np.arange(1, n) == 0) + 1).tolist() if used[s]]

    @cache
    def axis_of(stride: int, span: int) -> Axis | None:
        axis = Axis(stride, span // stride)
        keys = neighbours(n, [axis])
        if used[stride] < len(keys) or not pairs.all_used(keys):
            return None
        ring = axis._replace(periodic=True)
        ends = np.setdiff1d(neighbours(n, [ring]), keys, assume_unique=True)
        least = _PERIODIC * pairs.bytes_of(keys).mean()
        like = pairs.all_used(ends) and pairs.bytes_of(ends).mean() >= least
        return ring if like else axis

    def grids(span: int, most: int) -> Iterator[tuple[Axis, ...]]:
        for stride in strides:
            axis = axis_of(stride, span) if stride < span and span % stride == 0 else None
            if axis is not None and stride == 1:
                yield (axis,)
            elif axis is not None and most > 1:
                yield from ((axis, *inner) for inner in grids(stride, most - 1))

    yield from grids(n, _MAX_DIMENSIONS)


def _periodic_words(axes: Sequence[Axis]) -> str:
    wrapped = [str(at + 1) for at, axis in enumerate(axes) if axis.periodic]
    some = f" along {nouns(len(wrapped), 'dimension')} {' and '.join(wrapped)}"
    everywhere = len(wrapped) == sum(axis.extent > 2 for axis in axes)
    return f", periodic{'' if everywhere else some}" if wrapped else ""


def _weights(pairs: PairSet, axes: Sequence[Axis]) -> str:
    """How bytes per pair relate between the dimensions, if they differ."""
    mean = [float(pairs.bytes_of(neighbours(pairs.ranks, [axis])).mean()) for axis in axes]
    if max(mean) <= (1 + EVEN) * min(mean):
        return ""
    return "; per pair along the dimensions " + " : ".join(f"{m / min(mean):.3g}" for m in mean)
