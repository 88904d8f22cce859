"""Rings and tori of routers, and how their places gather to nested blocks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from toposeat.model.network import MAX_SWITCHES, NetworkLevel
from toposeat.topology.networks.builder import NetworkBuilder

Place = tuple[int, ...]


def add_torus(
    builder: NetworkBuilder, name: str, sizes: Sequence[int], line: int | None = None
) -> dict[Place, int]:
    """Routers of a torus, with links by dimension, each in rising order; the first varies slowest.

    A dimension of two has one link, not two, between its routers. The link of a dimension has that
    dimension's number as `level`, from 1 on, so that each can have a bandwidth of its own.

    Returns:
        The switch of every place.
    """
    if prod(sizes) > MAX_SWITCHES:
        raise builder.error(f"a torus of more than {MAX_SWITCHES} routers", line)
    cells = {}
    for place in product(*(range(size) for size in sizes)):
        title = f"{name} {','.join(map(str, place))}"
        if title in builder.switches:
            raise builder.error(f"torus {name} is defined twice", line)
        cells[place] = builder.switch(title, line)
    for dimension, size in enumerate(sizes):
        for place, switch in cells.items():
            step = place[dimension] + 1
            if step < size or (size > 2 and step == size):
                there = (*place[:dimension], step % size, *place[dimension + 1 :])
                builder.link(switch, cells[there], level=dimension + 1)
    return cells


def add_ring(
    builder: NetworkBuilder, name: str, hosts: Sequence[str], line: int | None = None
) -> None:
    """Hosts around a ring, each on a router of its own."""
    if not hosts:
        return
    for place, switch in add_torus(builder, name, (len(hosts),), line).items():
        host = hosts[place[0]]
        if host in builder.hosts:
            raise builder.error(f"host {host} is on two rings", line)
        builder.port(host, switch, line)


def grid_levels(places: Sequence[Place]) -> tuple[NetworkLevel, ...]:
    """Halves of halves of the box around the places, always across its longest side.

    The first coordinate may number separate grids: equal for all where there is one.
    """
    levels: list[NetworkLevel] = []
    groups: list[list[int]] = [list(range(len(places)))]
    while any(len(group) > 1 for group in groups):
        finer = [half for group in groups for half in _halves(group, places)]
        if len(finer) == len(groups):  # hosts on one router
            break
        groups = finer
        group_of = [0] * len(places)
        for number, group in enumerate(groups):
            for host in group:
                group_of[host] = number
        levels.append(NetworkLevel(name=f"cut {len(levels) + 1}", group_of_host=tuple(group_of)))
    return tuple(levels)


def _halves(group: Sequence[int], places: Sequence[Place]) -> list[list[int]]:
    columns = list(zip(*(places[host] for host in group), strict=True))
    low = [min(column) for column in columns]
    extent = [max(column) - least + 1 for column, least in zip(columns, low, strict=True)]
    # Separate grids come apart first, whatever their sizes.
    longest = 0 if extent[0] > 1 else max(range(len(extent)), key=lambda d: (extent[d], -d))
    if extent[longest] < 2:
        return [list(group)]
    middle = low[longest] + extent[longest] // 2
    return [
        [host for host in group if places[host][longest] < middle],
        [host for host in group if places[host][longest] >= middle],
    ]
