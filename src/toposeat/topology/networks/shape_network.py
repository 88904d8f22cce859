"""The network of a synthetic large machine: fat trees, hierarchies, tori and dragonflies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import UsageError
from toposeat.model.network import (
    MAX_HOSTS,
    MAX_SWITCHES,
    Network,
    NetworkKind,
    NetworkLevel,
    NetworkPort,
    NetworkRates,
)
from toposeat.model.quantity import Quantity, Source
from toposeat.model.shape_text import ShapeText, known_shape, parse_shape
from toposeat.topology.networks.builder import NetworkBuilder
from toposeat.topology.networks.rails import with_options

ORIGIN = "synthetic"
MAX_LINKS = 1 << 19
_GLOBAL_WEIGHT = 3.0  # so that local-global-local beats two global hops
_LOCAL, _GLOBAL = 1, 2  # levels of a dragonfly's links


def network_of_shape(text: str) -> Network:
    """The hosts and switches of a shape; see `mapping.shapes` for the forms.

    What a shape says of devices is kept as `devices_per_host`, their costs are not, because a
    node's own topology knows them better.
    """
    shape = parse_shape(text)
    inside: dict[str, str] = {
        name: shape.options.pop(name) for name in ("rails", "domain") if name in shape.options
    }
    network = _KINDS[shape.kind](shape)
    shape.options.pop("costs", None)
    shape.finish()
    network = with_options(replace(network, name=text), inside)
    known = known_shape(text)
    if known is None:
        return network
    return replace(
        network,
        origin="catalogue",
        description=known.description,
        sources=known.sources,
        report=(*network.report, f"assumed: {known.assumed}"),
    )


def _check(shape: ShapeText, hosts: int, switches: int) -> None:
    if hosts > MAX_HOSTS or switches > MAX_SWITCHES:
        raise UsageError(
            f"{shape.text!r}: more than {MAX_HOSTS} hosts or {MAX_SWITCHES} switches",
            hint="leave out --node, or describe the part of it that you use",
        )


def _hosts(
    builder: NetworkBuilder, names: Iterable[str], switches: Iterable[int], rate: Quantity | None
) -> None:
    for name, switch in zip(names, switches, strict=True):
        builder.hosts[name] = [NetworkPort(switch=switch, bytes_per_s=rate)]


def _nested(shape: ShapeText) -> Network:
    """Fat trees and hierarchies: a switch for every unit above the node."""
    sizes = shape.sizes
    node = 1
    if shape.kind == "hierarchy":
        node = shape.count("node", max(1, len(sizes) - 1), len(sizes))
    levels = sizes[node:] or (1,)
    hosts = prod(levels)
    _check(shape, hosts, sum(prod(levels[at + 1 :]) for at in range(len(levels))))
    builder = NetworkBuilder()
    count = len(sizes)
    given = shape.bandwidths("bandwidth", count, []) if "bandwidth" in shape.options else []
    latencies = shape.latencies(count, []) if "latency" in shape.options else []
    row = [builder.switch(f"level {len(levels) - 1} switch 0" if len(levels) > 1 else "switch")]
    for level in range(len(levels) - 1, 0, -1):
        below = []
        for number in range(len(row) * levels[level]):
            below.append(builder.switch(f"level {level - 1} switch {number}"))
            builder.link(below[-1], row[number // levels[level]], level=level)
        row = below
    attached = [switch for switch in row for _ in range(levels[0])]
    _hosts(builder, shape.hosts(hosts), attached, None)
    network = builder.build(name=shape.text, origin=ORIGIN)
    rates = NetworkRates(
        bandwidths_bytes_per_s=tuple(given[node:]),
        whole_host=True,
        taper=shape.taper() if shape.kind == "fattree" else 1.0,
        # A message that crosses one more level takes that much longer, both ways together.
        port_latency_s=latencies[node] / 2 if len(latencies) > node else None,
        hop_latency_s=(latencies[-1] - latencies[node]) / (2 * (count - node - 1))
        if len(latencies) > node + 1
        else None,
    )
    return replace(network, rates=rates, devices_per_host=prod(sizes[:node]))


def _torus(shape: ShapeText) -> Network:
    dimensions = int(shape.kind[5])
    if len(shape.sizes) != dimensions:
        raise shape.error(f"{shape.kind} has {dimensions} sizes, got {len(shape.sizes)}")
    nodes = shape.count("nodes", 1, MAX_HOSTS)
    explicit = "devices" in shape.options
    devices = shape.count("devices", 1, MAX_HOSTS)
    routers = prod(shape.sizes)
    _check(shape, routers * nodes, routers)
    links = shape.bandwidths("bandwidth", dimensions, [10.0] * dimensions)
    (node,) = shape.bandwidths("node-bandwidth", 1, [max(links) / 1e9])
    shape.bandwidths("device-bandwidth", 1, [25.0])
    leave, hop = shape.latencies(2, [1.0, 0.1])
    ends = shape.options.pop("ends", "joined")
    if ends not in ("joined", "open"):
        raise shape.error(f"ends must be joined or open, got {ends[:30]!r}")
    builder = NetworkBuilder()
    rates = [Quantity(link, Source.USER) for link in links]
    cells = add_torus(builder, "router", shape.sizes, rates=rates, joined=ends == "joined")
    places = [place for place in cells for _ in range(nodes)]
    names = shape.hosts(routers * nodes)
    _hosts(builder, names, (cells[place] for place in places), Quantity(node, Source.USER))
    return builder.build(
        name=shape.text,
        origin=ORIGIN,
        kind=NetworkKind.TORUS,
        levels=_grid_levels(places),
        spread=False,
        rates=NetworkRates(port_latency_s=leave / 2, hop_latency_s=hop, whole_host=True),
        devices_per_host=devices if explicit else None,
    )


def _dragonfly(shape: ShapeText) -> Network:
    """Groups of fully connected routers; each two groups are joined by one link.

    The links of a group to the others are dealt to its routers in turn.
    """
    if len(shape.sizes) not in (3, 4):
        raise shape.error("a dragonfly has groups, routers, nodes and perhaps devices per node")
    groups, routers, nodes = shape.sizes[:3]
    hosts = groups * routers * nodes
    _check(shape, hosts, groups * routers)
    if groups * routers * (routers - 1) // 2 + groups * (groups - 1) // 2 > MAX_LINKS:
        raise UsageError(
            f"{shape.text!r}: more than {MAX_LINKS} links", hint="describe the part that you use"
        )
    _, node, local, remote = shape.bandwidths("bandwidth", 4, [25.0] * 4)
    leave, local_s, remote_s = shape.latencies(3, [1.0, 0.2, 0.5])
    builder = NetworkBuilder()
    router = {
        place: builder.switch("group {} router {}".format(*place))
        for place in product(range(groups), range(routers))
    }
    rate, latency = Quantity(local, Source.USER), Quantity(local_s, Source.USER)
    for group in range(groups):
        for a, b in combinations(range(routers), 2):
            ends = router[group, a], router[group, b]
            builder.link(*ends, level=_LOCAL, bytes_per_s=rate, latency_s=latency)
    rate, latency = Quantity(remote, Source.USER), Quantity(remote_s, Source.USER)
    for a, b in combinations(range(groups), 2):
        ends = router[a, (b - 1) % routers], router[b, a % routers]
        builder.link(
            *ends, level=_GLOBAL, weight=_GLOBAL_WEIGHT, bytes_per_s=rate, latency_s=latency
        )
    places = [place for place in router for _ in range(nodes)]
    attached = (router[place] for place in places)
    _hosts(builder, shape.hosts(hosts), attached, Quantity(node, Source.USER))
    return builder.build(
        name=shape.text,
        origin=ORIGIN,
        kind=NetworkKind.DRAGONFLY,
        levels=[
            NetworkLevel(name="group", group_of_host=tuple(group for group, _ in places)),
            NetworkLevel(name="router", group_of_host=tuple(router[place] for place in places)),
        ],
        rates=NetworkRates(port_latency_s=leave / 2, whole_host=True),
        devices_per_host=shape.sizes[3] if len(shape.sizes) == 4 else None,
    )


_KINDS: dict[str, Callable[[ShapeText], Network]] = {
    "hierarchy": _nested,
    "fattree": _nested,
    "torus2d": _torus,
    "torus3d": _torus,
    "torus4d": _torus,
    "dragonfly": _dragonfly,
}


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


def _grid_levels(places: Sequence[Place]) -> tuple[NetworkLevel, ...]:
    """Levels that halve the box around the places repeatedly, always across its longest side."""
    levels: list[NetworkLevel] = []
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
    longest = extent.argmax(axis=1)
    group = np.arange(len(starts))
    middle = low[group, longest] + extent[group, longest] // 2
    own = at[np.arange(len(at)), longest[group_of]]
    return np.asarray((own >= middle[group_of]) & (extent.max(axis=1) > 1)[group_of], np.bool_)
