"""Other mappers on the node problems: what they answer, repaired to one rank per device.

Scotch through the core (from Debian), SharedMap through `chszlablib`, METIS recursive bisection
through `pymetis`, FAQ and 2-opt of scipy. Each is skipped with a reason where it is not installed.
KaHIP's `process_mapping` is not in these wheels; SharedMap, which wraps KaHIP, stands for it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.mapping.node_machines import Machine
from benchmarks.mapping.patterns import Bytes, rank_traffic
from numpy.typing import NDArray

from toposeat import _core

Answer = NDArray[np.int64]
_PACKAGES = {"chszlablib": "SharedMap", "pymetis": "METIS", "scipy": "FAQ, 2-opt"}


@dataclass(frozen=True)
class Peer:
    """`call(seed)` answers a device per rank, which need not be one to one."""

    name: str
    call: Callable[[int], Answer]


def missing() -> Iterator[str]:
    """One line for every peer that is not there."""
    if not _core.scotch_available():
        yield "Scotch: skipped, libscotch is not installed (Debian: libscotch-dev)"
    for module, what in (
        ("chszlablib", "SharedMap"),
        ("pymetis", "METIS"),
        ("scipy", "FAQ, 2-opt"),
    ):
        if importlib.util.find_spec(module) is None:
            yield f"{what}: skipped, Python package {module} is not installed"


def peers(machine: Machine, matrix: Bytes) -> list[Peer]:
    """Those that are installed and can express the machine."""
    found: list[Peer] = []
    if _core.scotch_available():
        flows = rank_traffic(matrix)
        found.append(
            Peer("Scotch", lambda seed: np.array(_core.scotch_raw(flows, machine.cost, seed)[0]))
        )
    if importlib.util.find_spec("scipy") is not None:
        found += _scipy(machine, matrix)
    if machine.arities and importlib.util.find_spec("chszlablib") is not None:
        found.append(_shared_map(machine, matrix))
    if importlib.util.find_spec("pymetis") is not None:
        found.append(_metis(len(matrix), matrix))
    return found


def repaired(answer: Answer, matrix: Bytes, cost: NDArray[np.float64]) -> Answer:
    """One rank per device: ranks that share one move, least traffic first, to the nearest free."""
    where = answer.astype(np.int64).copy()
    free = sorted(set(range(len(cost))) - set(where.tolist()))
    traffic = matrix.sum(axis=0) + matrix.sum(axis=1)
    taken: set[int] = set()
    for rank in np.argsort(-traffic, kind="stable"):
        if where[rank] in taken:
            where[rank] = min(free, key=lambda device: (cost[where[rank], device], device))
            free.remove(where[rank])
        taken.add(int(where[rank]))
    return where


def _scipy(machine: Machine, matrix: Bytes) -> list[Peer]:
    from scipy.optimize import quadratic_assignment  # noqa: PLC0415

    flow = matrix.astype(np.float64)

    def call(method: str) -> Callable[[int], Answer]:
        return lambda seed: (
            quadratic_assignment(
                flow, machine.cost, method=method, options={"rng": np.random.default_rng(seed)}
            ).col_ind
        )

    return [Peer("scipy faq", call("faq")), Peer("scipy 2opt", call("2opt"))]


def _symmetric(matrix: Bytes) -> tuple[list[int], list[int], list[int]]:
    """CSR of the undirected graph; weights in units of the largest common divisor."""
    both = matrix + matrix.T
    unit = max(1, int(np.gcd.reduce(both[both > 0]))) if both.any() else 1
    begin, ends, weights = [0], [], []
    for row in both // unit:
        (others,) = np.nonzero(row)
        ends += others.tolist()
        weights += row[others].tolist()
        begin.append(len(ends))
    return begin, ends, weights


def _shared_map(machine: Machine, matrix: Bytes) -> Peer:
    chszlablib: Any = importlib.import_module("chszlablib")
    begin, ends, weights = _symmetric(matrix)
    graph = chszlablib.Graph.from_csr(
        np.array(begin, np.int64), np.array(ends, np.int32), None, np.array(weights, np.int64)
    )
    levels = _level_costs(machine)

    def call(seed: int) -> Answer:
        answer = chszlablib.Decomposition.process_map(
            graph, list(machine.arities), levels, mode="eco", imbalance=0.0, threads=1, seed=seed
        )
        return np.asarray(answer.assignment, np.int64)

    return Peer("SharedMap eco", call)


def _level_costs(machine: Machine) -> list[int]:
    costs, size = [], 1
    for arity in machine.arities:
        costs.append(round(1000 * float(machine.cost[0, size])))
        size *= arity
    return costs


def _metis(ranks: int, matrix: Bytes) -> Peer:
    pymetis: Any = importlib.import_module("pymetis")
    begin, ends, weights = _symmetric(matrix)

    def call(seed: int) -> Answer:
        options = pymetis.Options(seed=seed)
        _, parts = pymetis.part_graph(
            ranks, xadj=begin, adjncy=ends, eweights=weights, recursive=True, options=options
        )
        return np.asarray(parts, np.int64)

    return Peer("METIS bisection", call)
