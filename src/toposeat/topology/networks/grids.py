"""Tori and meshes of routers, and how their places gather to nested blocks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from toposeat.model.network import MAX_SWITCHES, NetworkLevel
from toposeat.model.quantity import Quantity
from toposeat.topology.networks.builder import NetworkBuilder

Place = tuple[int, ...]


def add_torus(
    builder: NetworkBuilder,
    name: str,
    sizes: Sequence[int],
    *,
    rates: Sequence[Quantity] | None = None,
    joined: bool = True,
) -> dict[Place, int]:
    """Routers of a torus, with links by dimension, each in rising order; the first varies slowest.

    A dimension of two has one link, not two, between its routers. The link of a dimension has that
    dimension's number as `level`, from 1 on, so that each can have a bandwidth of its own: `rates`,
    in bytes/s. Without `joined` it is an open mesh: no links around its ends.

    Returns:
        The switch of every place.
    """
    if prod(sizes) > MAX_SWITCHES:
        raise builder.error(f"a torus of more than {MAX_SWITCHES} routers", None)
    cells = {}
    for place in product(*(range(size) for size in sizes)):
        cells[place] = builder.switch(f"{name} {','.join(map(str, place))}")
    for dimension, size in enumerate(sizes):
        rate = rates[dimension] if rates is not None else None
        for place, switch in cells.items():
            step = place[dimension] + 1
            if step < size or (joined and size > 2 and step == size):
                there = (*place[:dimension], step % size, *place[dimension + 1 :])
                builder.link(switch, cells[there], level=dimension + 1, bytes_per_s=rate)
    return cells


def grid_levels(places: Sequence[Place]) -> tuple[NetworkLevel, ...]:
    """Levels that halve the box around the places repeatedly, always across its longest side.

    The first coordinate numbers separate grids: equal for all where there is one.
    """
    levels: list[NetworkLevel] = []
    if not places:
        return ()
    at = np.array(places, dtype=np.int64)
    group_of, groups = np.zeros(len(at), np.int64), 1
    while True:
        upper = _upper_halves(at, group_of)
        numbers, group_of = np.unique(2 * group_of + upper, return_inverse=True)
        if len(numbers) == groups:  # what is left lies on one router each
            return tuple(levels)
        groups = len(numbers)
        name = f"cut {len(levels) + 1}"
        levels.append(NetworkLevel(name=name, group_of_host=tuple(group_of.tolist())))


def _upper_halves(at: NDArray[np.int64], group_of: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which places are in the upper half of their group's box; all groups of a level at once.

    Args:
        at: the places, shape (n, d).
        group_of: the group of each, shape (n,): 0, 1, ... without gaps.
    """
    order = np.argsort(group_of, kind="stable")
    starts = np.searchsorted(group_of[order], np.arange(group_of.max() + 1))
    low = np.minimum.reduceat(at[order], starts, axis=0)
    extent = np.maximum.reduceat(at[order], starts, axis=0) - low + 1
    # Separate grids come apart first, whatever their sizes.
    longest = np.where(extent[:, 0] > 1, 0, extent.argmax(axis=1))
    group = np.arange(len(starts))
    middle = low[group, longest] + extent[group, longest] // 2
    own = at[np.arange(len(at)), longest[group_of]]
    return np.asarray((own >= middle[group_of]) & (extent.max(axis=1) > 1)[group_of], np.bool_)
