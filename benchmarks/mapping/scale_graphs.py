"""Graphs of large jobs, made from a seed: random geometric, random, stencils.

* `rgg`: points uniform in the unit square, joined within 0.55 sqrt(ln n / n) (mean degree about 8
  at 4096), each edge with a whole weight uniform in 1..100.
* `random`: 5 n pairs drawn uniformly, weights the same.
* `stencil`: 27 points in a cube, row-major; faces 64, edges 8, corners 1 (a halo of 8^3 cells).
* `shuffled`: any of these with its ranks numbered at random.

Weights are bytes in each direction. Vertices of `rgg` are numbered as drawn: in no order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from toposeat import _core

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Graph:
    """Directed pairs, both directions of every edge present."""

    name: str
    ranks: int
    source: Ids
    target: Ids
    weight: Ids

    def traffic(self) -> _core.RankTraffic:
        return _core.RankTraffic(
            ranks=self.ranks,
            source=self.source.astype(np.uint32),
            target=self.target.astype(np.uint32),
            bytes=self.weight.astype(np.float64),
            messages=np.ones(self.source.size),
        )

    def rows(self) -> tuple[Ids, Ids, Ids]:
        """Compressed rows: begin, target, weight."""
        order = np.lexsort((self.target, self.source))
        begin = np.concatenate(([0], np.cumsum(np.bincount(self.source, minlength=self.ranks))))
        return begin.astype(np.int64), self.target[order], self.weight[order]


def rgg(ranks: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    points = rng.random((ranks, 2))
    radius = 0.55 * sqrt(log(ranks) / ranks)
    across = max(1, int(1 / radius))
    cell = np.minimum((points * across).astype(np.int64), across - 1)
    members: dict[tuple[int, int], Ids] = {}
    keys = cell[:, 0] * across + cell[:, 1]
    order = np.argsort(keys, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
        members[tuple(cell[part[0]])] = part
    pairs = []
    for (x, y), here in members.items():
        near = [
            members[x + a, y + b]
            for a, b in product((-1, 0, 1), repeat=2)
            if (x + a, y + b) in members
        ]
        there = np.concatenate(near)
        gap = points[here][:, None, :] - points[there][None, :, :]
        close = (gap**2).sum(axis=2) < radius**2
        i, j = np.nonzero(close)
        keep = here[i] < there[j]
        pairs.append(np.stack((here[i][keep], there[j][keep])))
    low, high = np.concatenate(pairs, axis=1)
    return _weighted("rgg", ranks, low, high, rng)


def random_graph(ranks: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, ranks, (2, 5 * ranks))
    low, high = ends.min(axis=0), ends.max(axis=0)
    key = np.unique((low * ranks + high)[low < high])
    return _weighted("random", ranks, key // ranks, key % ranks, rng)


def stencil(extents: tuple[int, int, int]) -> Graph:
    number = np.arange(int(np.prod(extents))).reshape(extents)
    source, target, weight = [], [], []
    for step in product((-1, 0, 1), repeat=3):
        kinds = sum(map(abs, step))
        if kinds == 0:
            continue
        here = tuple(slice(max(0, -s), n - max(0, s)) for s, n in zip(step, extents, strict=True))
        there = tuple(slice(max(0, s), n - max(0, -s)) for s, n in zip(step, extents, strict=True))
        source.append(number[here].ravel())
        target.append(number[there].ravel())
        weight.append(np.full(source[-1].size, {1: 64, 2: 8, 3: 1}[kinds]))
    return Graph(
        "stencil", number.size, *(np.concatenate(each) for each in (source, target, weight))
    )


def shuffled(graph: Graph, seed: int) -> Graph:
    """The same graph with its ranks numbered in no order."""
    name = np.random.default_rng(seed).permutation(graph.ranks)
    return Graph(
        f"shuffled {graph.name}",
        graph.ranks,
        name[graph.source],
        name[graph.target],
        graph.weight,
    )


def _weighted(name: str, ranks: int, low: Ids, high: Ids, rng: np.random.Generator) -> Graph:
    weight = rng.integers(1, 101, low.size)
    return Graph(
        name,
        ranks,
        np.concatenate((low, high)),
        np.concatenate((high, low)),
        np.concatenate((weight, weight)),
    )
