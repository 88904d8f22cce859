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


@dataclass(frozen=True)
class Machine:
    """Compiled links and the pairwise cost of a byte; `kind` groups rows of the tables."""

    name: str
    kind: str
    network: _core.Network
    cost: NDArray[np.float64]
    arities: tuple[int, ...] = ()  # from the leaves up, where the machine is a regular tree


def catalogue(name: str, kind: str, arities: tuple[int, ...] = ()) -> Machine:
    """A machine that `read_topology` knows, with the bandwidth metric."""
    topology = read_topology(name)
    return Machine(name, kind, compile_network(topology), cost_matrix(topology), arities)


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
    begin, used, reverse = [0], [], []
    for a in range(devices):
        for b in range(devices):
            route: list[tuple[int, bool]] = []
            if a != b and (min(a, b), max(a, b)) in links:
                route = [(number[min(a, b), max(a, b)], a > b)]
                cost[a, b] = links[min(a, b), max(a, b)]
            elif a != b:
                route = [(number[a, a], False), (number[b, b], True)]
                cost[a, b] = _HOST
                if a // node != b // node:
                    route[1:1] = [(first_uplink + a // node, False)]
                    route[2:2] = [(first_uplink + b // node, True)]
                    cost[a, b] = _OTHER_NODE
            used += [link for link, _ in route]
            reverse += [back for _, back in route]
            begin.append(len(used))
    cap = np.full(devices * devices, np.inf)
    off = cost.ravel() > 0
    cap[off] = 1e12 / cost.ravel()[off]
    return Machine(
        name,
        "other 16",
        _core.Network(
            devices=devices,
            forward=np.array(speed),
            backward=np.array(speed),
            combined=np.full(len(speed), np.inf),
            route_begin=np.array(begin, np.uint32),
            route_link=np.array(used, np.uint32),
            route_reverse=np.array(reverse, np.bool_),
            cap=cap,
            latency=np.where(off, 2e-6, 0.0),
        ),
        cost,
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
    yield catalogue("k80-16-faraji", "tree 16", (2, 2, 2, 2))
    yield catalogue("k80-16", "tree 16", (2, 2, 2, 2))
    yield catalogue("tree:2:2:2:2,bw=12/10/8/6", "tree 16", (2, 2, 2, 2))
    yield catalogue("tree:2:2:4", "tree 16", (4, 2, 2))
    yield catalogue("tree:4:4", "tree 16", (4, 4))
    yield catalogue("tree:2:8", "tree 16", (8, 2))
    yield catalogue("tree:8:2", "tree 16", (2, 8))
    yield catalogue("dgx-2", "tree 16", (8, 2))


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
