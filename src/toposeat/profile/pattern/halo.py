"""Halo exchanges on n-dimensional grids, and what a pattern must show to be claimed.

In a row-major grid a step along one dimension is a fixed distance between rank numbers, its stride;
the strides divide each other, and the number of ranks. So the distances that carry bytes give the
few grids that are possible, however many ranks there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, product

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


MAX_DIMENSIONS = 6
_MAX_STRIDES = 24  # the heaviest distances that may be strides
_MAX_GRIDS = 512
_PERIODIC = 0.25  # of a neighbour's bytes: less between the ends does not count
_MAX_WITH_DIAGONALS = 8
_MAX_PAIRS = 1 << 23
_SAMPLE = 64  # ranks looked at before all of them are

_POINTS = {2: " (9-point)", 3: " (27-point)"}


@dataclass(frozen=True)
class _Axis:
    """One dimension: steps of `stride` inside blocks of `span` = stride x extent ranks."""

    ranks: int
    stride: int
    span: int

    @property
    def extent(self) -> int:
        return self.span // self.stride

    def place(self, rank: Int64Array) -> Int64Array:
        """The coordinate of each rank along this dimension."""
        return rank // self.stride % self.extent

    @property
    def some_steps(self) -> Int64Array:
        """A few of `steps`: where one of them is not used, most axes are ruled out."""
        rank = np.linspace(0, self.ranks - 1, _SAMPLE).astype(np.int64)
        rank -= self.stride * (self.place(rank) == self.extent - 1)
        return both_ways(rank, rank + self.stride, self.ranks)

    @cached_property
    def steps(self) -> Int64Array:
        """Neighbours without wrap-around, both directions."""
        rank = np.arange(self.ranks, dtype=np.int64)
        rank = rank[self.place(rank) < self.extent - 1]
        return both_ways(rank, rank + self.stride, self.ranks)

    @cached_property
    def wraps(self) -> Int64Array:
        """The two ends joined; none where they are neighbours anyway."""
        rank = np.arange(self.ranks, dtype=np.int64)
        rank = rank[self.place(rank) == 0] if self.extent > 2 else rank[:0]
        return both_ways(rank, rank + self.stride * (self.extent - 1), self.ranks)


@dataclass(frozen=True)
class _Grid:
    axes: tuple[_Axis, ...]  # the slowest dimension first
    periodic: tuple[bool, ...]

    @cached_property
    def pairs(self) -> Int64Array:
        return np.concatenate([self.pairs_along(at) for at in range(len(self.axes))])

    def pairs_along(self, at: int) -> Int64Array:
        axis = self.axes[at]
        return np.concatenate([axis.steps, axis.wraps]) if self.periodic[at] else axis.steps

    def pairs_with_diagonals(self) -> Int64Array:
        """All ranks at most one step away in every dimension."""
        ranks = self.axes[0].ranks
        rank = np.arange(ranks, dtype=np.int64)
        parts = []
        for steps in product((-1, 0, 1), repeat=len(self.axes)):
            other, exists = rank.copy(), np.ones(ranks, bool)
            for axis, step, periodic in zip(self.axes, steps, self.periodic, strict=True):
                place = axis.place(rank)
                there = place + step
                if periodic:
                    there %= axis.extent
                else:
                    exists &= (there >= 0) & (there < axis.extent)
                other += axis.stride * (there - place)
            exists &= other != rank
            parts.append(rank[exists] * ranks + other[exists])
        return distinct(np.concatenate(parts))

    @property
    def shape(self) -> str:
        return "x".join(str(axis.extent) for axis in self.axes)


def find_halo(pairs: PairSet) -> Pattern | None:
    """A halo exchange on an open or periodic grid, with or without diagonal neighbours.

    Of the grids that explain the bytes, the one with the fewest pairs is the most specific.
    """
    fitting: list[tuple[float, int, _Grid]] = []
    for grid in _grids(pairs):
        share = pairs.share(grid.pairs)
        fitting.append((share, len(grid.pairs), grid))
    plain = [entry for entry in fitting if entry[0] >= MIN_SHARE]
    best = min(plain, key=lambda entry: (entry[1], -entry[0]), default=None)
    candidates = sorted(fitting, key=lambda entry: -entry[0])[:_MAX_WITH_DIAGONALS]
    if best is not None:
        candidates = [best]
    for share, count, grid in candidates:
        found = _with_diagonals(pairs, grid) if len(grid.axes) > 1 else None
        # Neighbours across a corner count where they carry what the others do not.
        if found is not None and len(found.keys) > count and found.share > share + (1 - share) / 2:
            return found
    if best is None:
        return None
    grid = best[2]
    words = f"{len(grid.axes)}-D {grid.shape} halo{_periodic_words(grid)}: {{share}} of the bytes"
    return pairs.claim("halo", words + " on {pairs}" + _weights(pairs, grid), grid.pairs)


def _with_diagonals(pairs: PairSet, grid: _Grid) -> Pattern | None:
    if 3 ** len(grid.axes) * pairs.ranks > _MAX_PAIRS:
        return None
    count = len(grid.axes)
    words = (
        f"{count}-D {grid.shape} halo with diagonals{_POINTS.get(count, '')}"
        f"{_periodic_words(grid)}: {{share}} of the bytes on {{pairs}}"
    )
    keys = grid.pairs_with_diagonals()
    if len(keys) == pairs.ranks * (pairs.ranks - 1):
        return None  # every pair is a neighbour: any traffic fits
    return pairs.claim("halo with diagonals", words, keys)


def _grids(pairs: PairSet) -> Iterator[_Grid]:
    """Grids of which every neighbour pair is used."""
    axes: dict[tuple[int, int], tuple[_Axis, bool] | None] = {}

    def axis_of(stride: int, span: int) -> tuple[_Axis, bool] | None:
        key = stride, span
        if key not in axes:
            axis = _Axis(pairs.ranks, stride, span)
            used = pairs.all_used(axis.some_steps) and pairs.all_used(axis.steps)
            axes[key] = (axis, _is_periodic(pairs, axis)) if used else None
        return axes[key]

    strides = [s for s in _strides(pairs) if s > 1]
    found = 0
    for count in range(min(MAX_DIMENSIONS, len(strides) + 1)):
        for inner in combinations(strides, count):
            chain = (1, *inner, pairs.ranks)
            if any(b % a for a, b in pairwise(chain)):
                continue
            made = [axis_of(a, b) for a, b in pairwise(chain)]
            if all(axis is not None for axis in made):
                slowest_first = [axis for axis in reversed(made) if axis is not None]
                yield _Grid(
                    tuple(axis for axis, _ in slowest_first),
                    tuple(periodic for _, periodic in slowest_first),
                )
                found += 1
            if found == _MAX_GRIDS:
                return


def _is_periodic(pairs: PairSet, axis: _Axis) -> bool:
    """Whether the ends of a dimension exchange something like what neighbours do."""
    if not pairs.all_used(axis.wraps):
        return False
    ends, steps = (float(pairs.bytes_of(keys).mean()) for keys in (axis.wraps, axis.steps))
    return ends >= _PERIODIC * steps


def _strides(pairs: PairSet) -> list[int]:
    """The distances that may be strides, ascending: divisors of the ranks that carry much."""
    distance = np.abs(pairs.target - pairs.source)
    divides = pairs.ranks % np.maximum(distance, 1) == 0
    values, at = np.unique(distance[divides], return_inverse=True)
    weight = np.bincount(at, weights=pairs.bytes[divides], minlength=len(values))
    heavy = values[np.argsort(-weight, kind="stable")[:_MAX_STRIDES]]
    return sorted(int(stride) for stride in heavy)


def _periodic_words(grid: _Grid) -> str:
    long = [at for at, axis in enumerate(grid.axes) if axis.extent > 2]
    wrapped = [at for at in long if grid.periodic[at]]
    if not wrapped:
        return ""
    if wrapped == long:
        return ", periodic"
    plural = "s" if len(wrapped) > 1 else ""
    return f", periodic along dimension{plural} " + " and ".join(str(at + 1) for at in wrapped)


def _weights(pairs: PairSet, grid: _Grid) -> str:
    """How bytes per pair relate between the dimensions, if they differ."""
    mean = [float(pairs.bytes_of(grid.pairs_along(at)).mean()) for at in range(len(grid.axes))]
    if max(mean) <= (1 + EVEN) * min(mean):
        return ""
    ratio = " : ".join(f"{each / min(mean):.3g}" for each in mean)
    return f"; per pair along the dimensions {ratio}"
