"""Graphs of large jobs without a grid, beside `rgg` and `random` of scale_graphs, from a seed.

* `rgg wide`: random geometric as there, weights over three decades (10^uniform(0, 3)).
* `delaunay`: points uniform in the unit square, triangulated; weights uniform in 1..100.
* `mesh`: nodes of a plane finite-element mesh with two round holes, ever finer towards them;
  every edge weighs the same.
* `mesh parts`: a tetrahedral mesh of 12 n nodes, denser towards one corner, cut into n parts by
  recursive coordinate bisection; a pair of parts weighs what it has in edges. Numbered as cut.
* `power law`: preferential attachment (Barabasi, Albert, Science 1999), 4 edges per new vertex.
* `rmat`: 8 n edges drawn by R-MAT (Chakrabarti, Zhan, Faloutsos, SDM 2004; 0.57, 0.19, 0.19, 0.05),
  those between the same two added up. Some ranks stay silent.
* `tiled FILE`: a recorded matrix of 16 ranks of ../shared/traffic (in KiB) once per 16 ranks, on a
  grid of tiles; rank i talks to rank i of the next tiles as much as on average inside. Shuffled.

The triangulations need scipy. Where nothing else is said, weights are uniform in 1..100 and ranks
are numbered as drawn: in no order.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks.mapping.scale_graphs import Graph, Ids, random_graph, rgg, shuffled
from numpy.typing import NDArray

Points = NDArray[np.float64]
RECORDED = Path(__file__).resolve().parents[2].parent / "shared" / "traffic"
TILES = ("lammps_pppm_16.p2p_send", "hpcc_16.p2p_send")


def families() -> dict[str, Callable[[int, int], Graph]]:
    """By name: a graph of so many ranks from a seed. Those that can be made here."""
    made: dict[str, Callable[[int, int], Graph]] = {"rgg": rgg, "rgg wide": rgg_wide}
    if importlib.util.find_spec("scipy") is not None:
        made |= {"delaunay": delaunay, "mesh": mesh, "mesh parts": mesh_parts}
    made |= {"random": random_graph, "power law": power_law, "rmat": rmat}
    for name in TILES:
        file = RECORDED / f"{name}.bytes.csv"
        if file.is_file():
            short = name.split(".")[0]
            made[f"tiled {short}"] = lambda ranks, seed, file=file: tiled(file, ranks, seed)
    return made


def missing() -> list[str]:
    """Why some are left out."""
    reasons = []
    if importlib.util.find_spec("scipy") is None:
        reasons.append("delaunay, mesh, mesh parts: skipped, scipy is not installed")
    if not RECORDED.is_dir():
        reasons.append("tiled: skipped, there is no ../shared/traffic")
    return reasons


def rgg_wide(ranks: int, seed: int) -> Graph:
    plain = rgg(ranks, seed)
    half = plain.source.size // 2  # each edge once, then all the other way round
    rng = np.random.default_rng([seed, 1])
    weight = np.rint(10 ** rng.uniform(0, 3, half)).astype(np.int64)
    return Graph("rgg wide", ranks, plain.source, plain.target, np.concatenate((weight, weight)))


def delaunay(ranks: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    edges = _edges_of(_simplices(rng.random((ranks, 2))), ranks)
    return _both_ways("delaunay", ranks, edges, rng.integers(1, 101, edges.shape[1]))


def mesh(ranks: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    holes = np.array([[0.3, 0.35], [0.7, 0.65]])
    radii = np.array([0.12, 0.08])
    points = np.empty((0, 2))
    while len(points) < ranks:  # by rejection: denser the nearer to a hole, none inside
        drawn = rng.random((ranks, 2))
        gap = (np.linalg.norm(drawn[:, None] - holes, axis=2) - radii).min(axis=1)
        keep = (gap > 0) & (rng.random(ranks) < 0.02 / (0.02 + np.maximum(gap, 0)) + 0.05)
        points = np.concatenate((points, drawn[keep]))
    points = points[:ranks]
    triangles = _simplices(points)
    centres = points[triangles].mean(axis=1)
    outside = (np.linalg.norm(centres[:, None] - holes, axis=2) > radii).all(axis=1)
    edges = _edges_of(triangles[outside], ranks)
    return _both_ways("mesh", ranks, edges, np.full(edges.shape[1], 64))


def mesh_parts(ranks: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    points = rng.random((12 * ranks, 3)) ** 1.6
    low, high = _edges_of(_simplices(points), len(points))
    part = _coordinate_parts(points, ranks)
    a, b = np.minimum(part[low], part[high]), np.maximum(part[low], part[high])
    key, count = np.unique((a * ranks + b)[a != b], return_counts=True)
    return _both_ways("mesh parts", ranks, np.stack((key // ranks, key % ranks)), count)


def power_law(ranks: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    each = 4
    ends = list(range(each)) * 2  # every vertex as often as it has edges
    edges = [(i, (i + 1) % each) for i in range(each)]
    for v in range(each, ranks):
        chosen: set[int] = set()
        while len(chosen) < each:
            chosen.add(ends[rng.integers(len(ends))])
        for u in sorted(chosen):
            edges.append((u, v))
            ends += (u, v)
    pairs = np.array(edges, np.int64).T
    return shuffled(
        _both_ways("power law", ranks, pairs, rng.integers(1, 101, pairs.shape[1])), seed
    )


def rmat(ranks: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    ends = np.zeros((2, 8 * ranks), np.int64)
    for _ in range(int(ranks - 1).bit_length()):
        corner = rng.choice(4, 8 * ranks, p=(0.57, 0.19, 0.19, 0.05))
        ends = 2 * ends + np.stack((corner // 2, corner % 2))
    ends = ends[:, (ends < ranks).all(axis=0)]
    a, b = ends.min(axis=0), ends.max(axis=0)
    key, place = np.unique((a * ranks + b)[a != b], return_inverse=True)
    weight = np.bincount(place, rng.integers(1, 101, place.size)).astype(np.int64)
    return shuffled(_both_ways("rmat", ranks, np.stack((key // ranks, key % ranks)), weight), seed)


def tiled(file: Path, ranks: int, seed: int) -> Graph:
    matrix = np.ceil(np.loadtxt(file, delimiter=",") / 1024).astype(np.int64)
    size = len(matrix)
    tiles = ranks // size
    row = 1 << (tiles.bit_length() // 2)
    inside = np.stack(np.nonzero(matrix))
    weight = matrix[inside[0], inside[1]]
    between = int(np.ceil(weight.mean()))
    across = [(t, t + 1) for t in range(tiles) if (t + 1) % row and t + 1 < tiles]
    across += [(t, t + row) for t in range(tiles - row)]
    pairs = np.array(across, np.int64).T
    first = (pairs[0][:, None] * size + np.arange(size)).ravel()
    second = (pairs[1][:, None] * size + np.arange(size)).ravel()
    shift = np.repeat(np.arange(tiles) * size, weight.size)
    graph = Graph(
        "tiled",
        ranks,
        np.concatenate((shift + np.tile(inside[0], tiles), first, second)),
        np.concatenate((shift + np.tile(inside[1], tiles), second, first)),
        np.concatenate((np.tile(weight, tiles), np.full(2 * first.size, between))),
    )
    return shuffled(graph, seed)


def _simplices(points: Points) -> Ids:
    from scipy.spatial import Delaunay  # noqa: PLC0415

    return Delaunay(points).simplices.astype(np.int64)


def _edges_of(simplices: Ids, points: int) -> Ids:
    """Each edge once, 2 x edges."""
    corners = simplices.shape[1]
    pairs = [(i, j) for i in range(corners) for j in range(i)]
    a = np.concatenate([simplices[:, i] for i, _ in pairs])
    b = np.concatenate([simplices[:, j] for _, j in pairs])
    key = np.unique(np.minimum(a, b) * points + np.maximum(a, b))
    return np.stack((key // points, key % points))


def _coordinate_parts(points: Points, parts: int) -> Ids:
    """Part of each point: halves along the longest dimension, as many times as needed."""
    part = np.empty(len(points), np.int64)
    open_ = [(np.arange(len(points)), 0, parts)]
    while open_:
        here, first, count = open_.pop()
        if count == 1:
            part[here] = first
            continue
        longest = np.ptp(points[here], axis=0).argmax()
        order = here[points[here, longest].argsort(kind="stable")]
        middle = len(here) * (count // 2) // count
        open_.append((order[:middle], first, count // 2))
        open_.append((order[middle:], first + count // 2, count - count // 2))
    return part


def _both_ways(name: str, ranks: int, edges: Ids, weight: Ids) -> Graph:
    a, b = edges
    return Graph(
        name,
        ranks,
        np.concatenate((a, b)),
        np.concatenate((b, a)),
        np.concatenate((weight, weight)),
    )
