"""16 GPUs on trees of any shape: switches with different numbers of devices, links of any speed.

A shape is a nested tuple of devices per switch: (5, 3, 8) is three switches below the root,
((5, 3), 8) has the first two behind one more. A cable of its own joins every switch and device to
what is above it; a pair costs what its narrowest link does per byte.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from benchmarks.mapping.node_machines import Machine, Steps, network_of

Shape = int | tuple["Shape", ...]  # devices of one switch, or what is below one

LEVELS = (12, 10, 8, 6)  # GB/s from the devices up
REGULAR: tuple[Shape, ...] = (
    ((2,) * 4,) * 2,
    ((4, 4), (4, 4)),
    (4,) * 4,
    (8, 8),
    (2,) * 8,
    (((2, 2), (2, 2)), ((2, 2), (2, 2))),
    ((8,), (8,)),
)
IRREGULAR: tuple[Shape, ...] = (
    (10, 6),
    (9, 7),
    (7, 5, 4),
    (6, 5, 3, 2),
    (5, 4, 3, 2, 1, 1),
    ((5, 3), 8),
    ((5, 3), (4, 4)),
    ((6, 4), (3, 3)),
    ((4, 2), (3, 3), 4),
    ((3, 2, 1), (4, 3), (2, 1)),
    (((3, 2), 3), ((2, 2), (3, 1))),
    ((((5, 3), 4), 2), 2),
)


@dataclass
class _Links:
    """Links so far, and those between each device and the root."""

    speed: list[float] = field(default_factory=list)
    above: list[list[int]] = field(default_factory=list)  # by device, from the device up


def _height(shape: Shape) -> int:
    return 1 if isinstance(shape, int) else 1 + max(_height(each) for each in shape)


def _hang(links: _Links, shape: Shape, rng: np.random.Generator | None) -> list[int]:
    """Adds what is below one switch, without its own cable, and returns its devices."""

    def speed(level: int) -> float:
        either = LEVELS[min(level, len(LEVELS) - 1)] if rng is None else rng.integers(4, 26)
        return 1e9 * float(either)

    below: list[int] = []
    for each in (1,) * shape if isinstance(shape, int) else shape:
        if isinstance(shape, int):
            links.above.append([])
            devices = [len(links.above) - 1]
        else:
            devices = _hang(links, each, rng)
        level = 0 if isinstance(shape, int) else _height(each)
        for device in devices:
            links.above[device].append(len(links.speed))
        links.speed.append(speed(level))
        below += devices
    return below


def tree_machine(shape: Shape, seed: int | None = None) -> Machine:
    """Speeds by level, or (with a seed) of each link for itself."""
    links = _Links()
    devices = len(_hang(links, shape, None if seed is None else np.random.default_rng(seed)))
    speeds = np.array(links.speed)
    cost = np.zeros((devices, devices))
    routes: dict[tuple[int, int], Steps] = {}
    for a, b in itertools.permutations(range(devices), 2):
        up = [link for link in links.above[a] if link not in links.above[b]]
        down = [link for link in reversed(links.above[b]) if link not in links.above[a]]
        routes[a, b] = [*((link, False) for link in up), *((link, True) for link in down)]
        cost[a, b] = 1e9 * max(1 / links.speed[link] for link in (*up, *down))
    name = str(shape).replace(" ", "") + ("" if seed is None else f" own {seed}")
    return Machine(name, "tree 16", network_of(speeds, routes, cost), cost)


def random_shape(rng: np.random.Generator, devices: int, depth: int = 4) -> Shape:
    """Devices divided at random, again and again, until a switch has a few."""
    if depth == 1 or devices <= 2 or rng.random() < 0.25:
        return devices
    parts: list[Shape] = []
    left = devices
    while left > 0:
        size = int(rng.integers(1, max(2, min(left, devices - 1) + 1)))
        parts.append(random_shape(rng, size, depth - 1))
        left -= size
    return tuple(parts)


def regular() -> Iterator[Machine]:
    for shape in REGULAR:
        yield tree_machine(shape)


def irregular() -> Iterator[Machine]:
    for shape in IRREGULAR:
        yield tree_machine(shape)
        yield tree_machine(shape, seed=1)


def drawn(count: int = 12) -> Iterator[Machine]:
    """Shapes at random, links by level and of their own in turn."""
    rng = np.random.default_rng(7)
    for i in range(count):
        yield tree_machine(random_shape(rng, 16), seed=None if i % 2 == 0 else i)
