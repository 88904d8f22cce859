"""Machines of the node tables: the catalogue's, and 16-GPU ones that no catalogue has.

Those without a catalogue entry are written as direct links between devices, and one host link per
device for every pair that has none. Their figures are assumptions of the notes (NVLink pair, single
NVLink, host, other node = 100 : 200 : 480 : 800 per byte), not measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation import compile_network, cost_matrix
from toposeat.topology import read_topology

_DGX1V_TWO = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
_DGX1V_ONE = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))
_HOST, _OTHER_NODE = 480.0, 800.0


Steps = list[tuple[int, bool]]  # links of a route, and whether they are taken backwards


@dataclass(frozen=True)
class Machine:
    """Compiled links and the pairwise cost of a byte; `kind` groups rows of the tables."""

    name: str
    kind: str
    network: _core.Network
    cost: NDArray[np.float64]


def catalogue(name: str, kind: str) -> Machine:
    """A machine that `read_topology` knows, with the bandwidth metric."""
    topology = read_topology(name)
    return Machine(name, kind, compile_network(topology), cost_matrix(topology))


def direct(
    name: str, devices: int, links: Mapping[tuple[int, int], float], node: int | None = None
) -> Machine:
    """Direct links of the given cost per byte; other pairs go over host links, or between nodes of
    `node` devices each.

    A link of cost c carries 1e12 / c bytes per second and direction.
    """
    node = node or devices
    ends = [*links, *((d, d) for d in range(devices))]  # then one host link per device
    speed = [1e12 / links[pair] for pair in links] + [1e12 / _HOST] * devices
    first_uplink = len(ends)
    uplinks = devices // node if node < devices else 0
    speed += [1e12 / _OTHER_NODE * 4] * uplinks
    number = {pair: i for i, pair in enumerate(ends)}
    cost = np.zeros((devices, devices))
    routes: dict[tuple[int, int], Steps] = {}
    for a in range(devices):
        for b in range(devices):
            if a == b:
                continue
            if (min(a, b), max(a, b)) in links:
                routes[a, b] = [(number[min(a, b), max(a, b)], a > b)]
                cost[a, b] = links[min(a, b), max(a, b)]
            elif a // node == b // node:
                routes[a, b] = [(number[a, a], False), (number[b, b], True)]
                cost[a, b] = _HOST
            else:
                between = [(first_uplink + a // node, False), (first_uplink + b // node, True)]
                routes[a, b] = [(number[a, a], False), *between, (number[b, b], True)]
                cost[a, b] = _OTHER_NODE
    cap = np.full((devices, devices), np.inf)
    np.divide(1e12, cost, out=cap, where=cost > 0)
    return Machine(name, "other 16", network_of(np.array(speed), routes, cost, cap=cap), cost)


def network_of(
    forward: NDArray[np.float64],
    routes: Mapping[tuple[int, int], Steps],
    cost: NDArray[np.float64],
    *,
    backward: NDArray[np.float64] | None = None,
    combined: NDArray[np.float64] | None = None,
    cap: NDArray[np.float64] | None = None,
) -> _core.Network:
    """Links with their bytes per second, the routes over them by pair, 2 us for every pair that
    costs anything; where nothing else is said, links are alike both ways and pairs have no cap.
    """
    devices = len(cost)
    every = [routes.get((a, b), []) for a in range(devices) for b in range(devices)]
    steps = [step for route in every for step in route]
    return _core.Network(
        devices=devices,
        forward=forward,
        backward=forward if backward is None else backward,
        combined=np.full(len(forward), np.inf) if combined is None else combined,
        route_begin=np.cumsum([0, *map(len, every)]).astype(np.uint32),
        route_link=np.array([link for link, _ in steps], np.uint32),
        route_reverse=np.array([back for _, back in steps], np.bool_),
        cap=np.full(cost.size, np.inf) if cap is None else cap.ravel(),
        latency=np.where(cost.ravel() > 0, 2e-6, 0.0),
    )


def two_dgx1v() -> Machine:
    links = {}
    for base in (0, 8):
        links.update({(base + a, base + b): 100.0 for a, b in _DGX1V_TWO})
        links.update({(base + a, base + b): 200.0 for a, b in _DGX1V_ONE})
    return direct("2x dgx-1v", 16, links, node=8)


def hops(name: str, topology: str) -> Machine:
    """Direct neighbours forward for the others: the cost is the number of hops."""
    machine = read_topology(topology)
    ids = [device.id for device in machine.devices]
    routes = machine.route_of_pair
    cost = np.array([[0.0 if a == b else len(routes[a, b].links) for b in ids] for a in ids])
    return Machine(name, "other 16", compile_network(machine), cost)


def hypercube_mesh() -> Machine:
    """16 GPUs, four links each: doubled along one dimension, host links for all other pairs."""
    links = {(a, a ^ (1 << d)): 200.0 for a in range(16) for d in range(4) if not a >> d & 1}
    links.update({pair: 100.0 for pair in links if pair[0] ^ pair[1] == 1})
    return direct("hypercube, host else", 16, links)


def quads_joined() -> Machine:
    """Four fully connected quads of GPUs; GPU i of each quad in a ring with those of the others."""
    links = {}
    for quad in range(4):
        for i in range(4):
            links.update({(4 * quad + i, 4 * quad + j): 100.0 for j in range(i + 1, 4)})
            there = 4 * ((quad + 1) % 4) + i
            links[min(4 * quad + i, there), max(4 * quad + i, there)] = 200.0
    return direct("4 quads, ringed", 16, links)


def random_mesh(devices: int, seed: int) -> Machine:
    """Every pair a cost of its own: no tree and no symmetry."""
    rng = np.random.default_rng(seed)
    links = {
        (a, b): float(rng.integers(100, 480))
        for a in range(devices)
        for b in range(a + 1, devices)
        if rng.random() < 0.6
    }
    machine = direct(f"random mesh {devices}, {seed}", devices, links)
    return Machine(machine.name, f"any {devices}", machine.network, machine.cost)


def eights() -> Iterator[Machine]:
    for name in (
        "dgx-1p", "dgx-1v", "dgx-a100", "hgx-h100", "a100-pcie-8-bridged", "mi250x-8", "mi300x-8",
    ):  # fmt: skip
        yield catalogue(name, "any 8")
    yield catalogue("ring:8", "any 8")
    for seed in (1, 2):
        yield random_mesh(8, seed)


def trees() -> Iterator[Machine]:
    for name in (
        "k80-16-faraji", "k80-16", "tree:2:2:2:2,bw=12/10/8/6", "tree:2:2:4", "tree:4:4",
        "tree:2:8", "tree:8:2", "dgx-2",
    ):  # fmt: skip
        yield catalogue(name, "tree 16")


def others() -> Iterator[Machine]:
    yield two_dgx1v()
    yield hops("torus 4x4", "torus:4x4")
    yield hops("mesh 4x4", "mesh:4x4")
    yield hypercube_mesh()
    yield quads_joined()


KINDS: Mapping[str, Callable[[], Iterator[Machine]]] = {
    "eights": eights,
    "trees": trees,
    "others": others,
}
