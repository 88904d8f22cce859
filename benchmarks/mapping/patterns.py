"""Traffic of the node tables: 17 patterns of 16 ranks and 12 of 8, as byte matrices.

Stencils plain, with wrap-around, weighted and both; a weighted lattice of hypercube neighbours, a
ring, all-to-all in sub-communicators, random sparse and random dense (asymmetric) traffic. They are
fixed: nothing was tuned on one of them alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.profile import pattern_traffic

Bytes = NDArray[np.int64]

_VARIANTS = ("", ",wrap", ",weight=3", ",weight=3,wrap")
_NAMED = {
    16: (
        *(f"stencil2d:4x4{variant}" for variant in _VARIANTS),
        *(f"stencil3d:2x2x4{variant}" for variant in _VARIANTS),
        "ring:16",
        "alltoall:4x2x2",
        "alltoall:4x4",
        "alltoall:8x2",
    ),
    8: (
        *(f"stencil2d:2x4{variant}" for variant in _VARIANTS),
        *(f"stencil3d:2x2x2{variant}" for variant in ("", ",weight=3")),
        "ring:8",
        "alltoall:4x2",
    ),
}


def patterns(ranks: int) -> Iterator[tuple[str, Bytes]]:
    """Name and bytes by (source, target) of every pattern of 8 or 16 ranks."""
    for name in _NAMED[ranks]:
        yield name, pattern_traffic(name).mapped_table().dense_bytes(ranks)
    if ranks == 16:
        yield "lattice 2x2x2x2, weights 1:2:3:4", _lattice(4)
    for seed in (1, 2):
        yield f"random sparse {seed}", random_bytes(ranks, 0.25, seed)
        yield f"random dense {seed}", random_bytes(ranks, 1.0, seed)


def _lattice(dimensions: int) -> Bytes:
    """Neighbours across dimension d of a hypercube exchange d + 1 units."""
    ranks = 2**dimensions
    matrix = np.zeros((ranks, ranks), np.int64)
    for rank in range(ranks):
        for d in range(dimensions):
            matrix[rank, rank ^ (1 << d)] = (d + 1) * 2**20
    return matrix


def random_bytes(ranks: int, density: float, seed: int) -> Bytes:
    """1 to 99 times 10 kB for a share `density` of the ordered pairs."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(1, 100, (ranks, ranks)) * 10_000
    matrix *= rng.random((ranks, ranks)) < density
    np.fill_diagonal(matrix, 0)
    return matrix.astype(np.int64)


def rank_traffic(matrix: Bytes) -> _core.RankTraffic:
    """The core's form; messages of at most 1 MiB."""
    source, target = np.nonzero(matrix)
    sizes = matrix[source, target].astype(np.float64)
    return _core.RankTraffic(
        ranks=len(matrix),
        source=source.astype(np.uint32),
        target=target.astype(np.uint32),
        bytes=sizes,
        messages=np.ceil(sizes / 2**20),
    )
