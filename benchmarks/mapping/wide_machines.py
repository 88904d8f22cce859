"""Machines of 4 to 8 devices of every sort: catalogue, shapes, recorded files, random ones.

Recorded machines are those of `../shared/machines`, where that folder lies beside the repository.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
from benchmarks.mapping.node_machines import Machine, Steps, direct, eights, network_of
from tests.mapping.machines import complete_mesh, random_topology

from toposeat.errors import ToposeatError
from toposeat.evaluation import compile_network, cost_matrix
from toposeat.model.topology import Topology
from toposeat.topology import catalogue_names, read_topology

_SHAPES = (
    "ring:5", "ring:6", "ring:7", "mesh:2x3", "mesh:7", "mesh:8", "mesh:2x4", "mesh:2x2x2",
    "torus:3x2", "torus:8", "torus:2x4", "torus:2x2x2", "tree:2:4", "tree:4:2", "tree:2:2:2",
    "tree:2:2:2,bw=12/10/8",
)  # fmt: skip
_SHARED = Path(__file__).resolve().parents[3] / "shared" / "machines"
_LARGEST_FILE = 5_000_000

Edge = tuple[int, int]


def machines() -> Iterator[Machine]:
    """In a fixed order, no two with the same name."""
    known = set()
    for machine in eights():
        known.add(machine.name)
        yield machine
    for name in sorted(set(catalogue_names()) - known):
        topology = read_topology(name)
        if 4 <= len(topology.devices) <= 8:
            yield _compiled(name, topology)
    for name in _SHAPES:
        yield _compiled(name, read_topology(name))
    yield from _recorded()
    yield from _random()


def _compiled(name: str, topology: Topology) -> Machine:
    return Machine(name, "wide", compile_network(topology), cost_matrix(topology))


def _recorded() -> Iterator[Machine]:
    """Of files that say the same, the first."""
    known = set()
    for path in sorted(_SHARED.rglob("*")) if _SHARED.is_dir() else ():
        if not (path.is_file() or (path / "sys").is_dir()) or path.stat().st_size > _LARGEST_FILE:
            continue
        try:
            topology = read_topology(str(path))
            if not 4 <= len(topology.devices) <= 8:
                continue
            machine = _compiled(path.relative_to(_SHARED).as_posix(), topology)
        except ToposeatError:  # no machine in it
            continue
        key = (machine.network.devices, machine.network.links, machine.cost.tobytes())
        if key not in known:
            known.add(key)
            yield machine


def _random() -> Iterator[Machine]:
    for density in (0.2, 0.4, 0.6, 0.8, 1.0):
        for seed in range(10, 16):
            yield _mesh(density, seed)
        for seed in (7, 8):
            yield _one_way_costs(_mesh(density, seed), seed)
    for seed in range(12):
        hubs = random_topology(np.random.default_rng(seed), 8)
        yield _compiled(f"hubs {seed}", hubs)
    for seed in range(5):
        complete = complete_mesh(np.random.default_rng(seed), 8)
        yield _compiled(f"complete {seed}", complete)
    for extra in (0, 1, 3, 6, 10):
        for seed in range(3):
            for duplex in (True, False):
                yield _graph(extra, seed, duplex)


def _mesh(density: float, seed: int) -> Machine:
    """Links of any speed for a share of the pairs; all others go through the host."""
    rng = np.random.default_rng(seed)
    links = {
        (a, b): float(rng.integers(100, 480))
        for a in range(8)
        for b in range(a + 1, 8)
        if rng.random() < density
    }
    return direct(f"mesh {density:g}, {seed}", 8, links)


def _one_way_costs(machine: Machine, seed: int) -> Machine:
    """The way back costs something else; the links are as they were."""
    rng = np.random.default_rng(seed)
    cost = machine.cost * rng.uniform(0.5, 1.5, machine.cost.shape)
    return Machine(f"{machine.name}, costs one way", "wide", machine.network, cost)


def _graph(extra: int, seed: int, duplex: bool) -> Machine:
    """A random tree of 8 devices and `extra` links more, which routes share; costs are lengths of
    routes. Links are equal with seed 0; else each way of each link has a speed of its own."""
    rng = np.random.default_rng(seed)
    edges = _random_edges(rng, 8, extra)
    length = [1.0 if seed == 0 else float(rng.integers(1, 5)) for _ in edges]
    forward = np.array([1e10 / each for each in length])
    backward = forward.copy() if seed == 0 else forward * rng.uniform(0.5, 1, len(edges))
    weight = dict(zip(edges, length, strict=True))
    cost = np.zeros((8, 8))
    routes: dict[Edge, Steps] = {}
    for a in range(8):
        distance, before = _shortest_paths(weight, a)
        for b in range(8):
            steps, here = [], b
            while here != a:
                low, high = before[here], here
                steps.append((edges.index((min(low, high), max(low, high))), low > high))
                here = low
            routes[a, b] = steps[::-1]
            cost[a, b] = distance[b] * 100
    both = None if duplex else forward * 1.2
    network = network_of(forward, routes, cost, backward=backward, combined=both)
    ways = "each way" if duplex else "both ways together"
    return Machine(f"graph +{extra}, {seed}, {ways}", "wide", network, cost)


def _random_edges(rng: np.random.Generator, devices: int, extra: int) -> list[Edge]:
    order = rng.permutation(devices)
    ends = [(order[i], order[rng.integers(0, i)]) for i in range(1, devices)]
    edges = {(int(min(pair)), int(max(pair))) for pair in ends}
    while len(edges) < devices - 1 + extra:
        a, b = (int(each) for each in rng.integers(0, devices, 2))
        if a != b:
            edges.add((min(a, b), max(a, b)))
    return sorted(edges)


def _shortest_paths(
    weight: dict[Edge, float], start: int
) -> tuple[dict[int, float], dict[int, int]]:
    """Distance from `start` and the vertex before, of each vertex (Dijkstra)."""
    distance, before = {start: 0.0}, {start: start}
    open_ = [(0.0, start)]
    while open_:
        so_far, here = heappop(open_)
        if so_far > distance[here]:
            continue
        for (a, b), length in weight.items():
            if here not in (a, b):
                continue
            there = a + b - here
            if so_far + length < distance.get(there, np.inf) - 1e-12:
                distance[there], before[there] = so_far + length, here
                heappush(open_, (so_far + length, there))
    return distance, before
