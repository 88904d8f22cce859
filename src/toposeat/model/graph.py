"""Shortest paths and connected components of small graphs; those of all devices are the core's.

Edges are numbered by their order, so that whoever asks looks up what else it knows of each.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count
from typing import TypeVar

_V = TypeVar("_V", bound=Hashable)


def neighbours(ends: Iterable[tuple[_V, _V]]) -> defaultdict[_V, list[tuple[_V, int]]]:
    """Of every vertex those that an edge joins it to, each with the number of the edge."""
    near: defaultdict[_V, list[tuple[_V, int]]] = defaultdict(list)
    for number, (a, b) in enumerate(ends):
        near[a].append((b, number))
        near[b].append((a, number))
    return near


def shortest(
    starts: Iterable[_V],
    near: Mapping[_V, Sequence[tuple[_V, int]]],
    length: Callable[[int], float] = lambda _: 1.0,
    passes: Callable[[_V], bool] = lambda _: True,
) -> dict[_V, tuple[float, _V, int]]:
    """The distance of every vertex in reach, the vertex before it, and the edge from there.

    Args:
        starts: are at a distance of 0, each after itself by edge -1.
        near: as `neighbours` has it.
        length: of an edge, by its number.
        passes: whether paths lead on from a vertex that is no start.
    """
    first = dict.fromkeys(starts)
    order = count()  # of equally long paths the one that was found first
    queue = [(0.0, next(order), start, start, -1) for start in first]
    reach: dict[_V, tuple[float, _V, int]] = {}
    while queue:
        distance, _, here, before, edge = heapq.heappop(queue)
        if here in reach:
            continue
        reach[here] = (distance, before, edge)
        if here in first or passes(here):
            for there, number in near.get(here, ()):
                if there not in reach:
                    far = distance + length(number)
                    heapq.heappush(queue, (far, next(order), there, here, number))
    return reach


def components(vertices: Iterable[_V], pairs: Iterable[tuple[_V, _V]]) -> list[list[_V]]:
    """Vertices that pairs join, directly or over others, in the order of `vertices`."""
    above = {vertex: vertex for vertex in vertices}

    def top(vertex: _V) -> _V:
        while above[vertex] != vertex:
            above[vertex] = vertex = above[above[vertex]]
        return vertex

    for a, b in pairs:
        above[top(b)] = top(a)
    found: dict[_V, list[_V]] = {}
    for vertex in above:
        found.setdefault(top(vertex), []).append(vertex)
    return list(found.values())
