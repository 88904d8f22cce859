"""Scotch's program `gmap` as a peer: a graph and a machine go in as files, the places come back.

Debian's package `scotch` calls it `scotch_gmap`. It runs on one thread with its default strategy,
which is that for quality, and its fixed seed. Places may be shared: `repaired` makes them
one-to-one.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Square = NDArray[np.float64]
Ids = NDArray[np.int64]
Pairs = tuple[Ids, Ids, Square]
_LOAD = 1e9  # of all edges, times the dearest distance: Scotch's numbers have 32 bits
_DEAREST = 1000  # distance of a pair
MISSING = "Scotch: skipped, scotch_gmap and amk_grf are not installed (Debian: scotch)"


def is_installed() -> bool:
    """Whether both programs are there."""
    return all(shutil.which(each) for each in ("scotch_gmap", "amk_grf"))


def places_on_tree(size: int, pairs: Pairs, levels: str) -> tuple[Ids, float]:
    """The place of every vertex, and the CPU seconds of the program that mapped them.

    Args:
        size: how many vertices.
        pairs: sources, targets and weights, one way or both.
        levels: size and cost of each from the root down, such as "4 10 8 1".
    """
    words = levels.split()
    dearest = max(map(float, words[1::2]))
    return _places(size, pairs, f"tleaf {len(words) // 2} {levels}\n", dearest)


def places_on_pairs(flow: Square, distance: Square) -> tuple[Ids, float]:
    """The same on a machine that is a square of symmetric distances."""
    source, target = np.nonzero(flow)
    with tempfile.TemporaryDirectory() as folder:
        graph, machine = (str(Path(folder, name)) for name in ("machine.grf", "machine.tgt"))
        far, near = np.nonzero(~np.eye(len(distance), dtype=bool))
        scaled = distance[far, near] * (_DEAREST / distance.max())
        _write_graph(len(distance), (far, near, scaled), graph)
        _run("amk_grf", graph, machine)
        text = Path(machine).read_text(encoding="ascii")
    return _places(len(flow), (source, target, flow[source, target]), text, _DEAREST)


def repaired(places: Ids, matrix: Square, cost: Square) -> Ids:
    """One rank per device: ranks that share one move, least traffic first, to the nearest free."""
    where = places.copy()
    free = sorted(set(range(len(cost))) - set(where.tolist()))
    traffic = matrix.sum(axis=0) + matrix.sum(axis=1)
    taken: set[int] = set()
    for rank in np.argsort(-traffic, kind="stable"):
        if where[rank] in taken:
            where[rank] = min(free, key=lambda device: (cost[where[rank], device], device))
            free.remove(where[rank])
        taken.add(int(where[rank]))
    return where


def _places(size: int, pairs: Pairs, machine: str, dearest: float) -> tuple[Ids, float]:
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, name)) for name in ("job.grf", "machine.tgt", "job.map")]
        source, target, weight = pairs
        load = weight * min(1.0, _LOAD / (2 * dearest * weight.sum()))
        _write_graph(size, (source, target, load), files[0])
        Path(files[1]).write_text(machine, encoding="ascii")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _run("scotch_gmap", *files, "-Cf", "-b0.01")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rows = np.loadtxt(files[2], np.int64, skiprows=1, ndmin=2)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return rows[np.argsort(rows[:, 0]), 1], cpu_s


def _write_graph(size: int, pairs: Pairs, path: str) -> None:
    """Both directions of every edge carry the sum of both."""
    source, target, weight = pairs
    keys = np.concatenate((source * size + target, target * size + source))
    key, edge = np.unique(keys, return_inverse=True)
    load = np.bincount(edge, np.concatenate((weight, weight)))
    load = np.maximum(1, np.rint(load)).astype(np.int64)
    begin = np.searchsorted(key // size, np.arange(size + 1))
    with Path(path).open("w", encoding="ascii") as file:
        file.write(f"0\n{size} {len(key)}\n0 010\n")
        for first, end in pairwise(begin):
            edges = zip(load[first:end], key[first:end] % size, strict=True)
            words = " ".join(f"{each} {vertex}" for each, vertex in edges)
            file.write(f"{end - first} {words}\n")


def _run(*command: str) -> None:
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "SCOTCH_PTHREAD_NUMBER": "1"},
    )
