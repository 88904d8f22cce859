"""Some four thousand problems of up to 8 devices: machines of every sort, many patterns on each.

The same name is the same problem everywhere; only the recorded machines depend on what lies beside
the repository.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from benchmarks.mapping.node_machines import Machine
from benchmarks.mapping.patterns import Bytes, patterns, random_bytes, rank_traffic
from benchmarks.mapping.wide_machines import machines
from numpy.typing import NDArray

from toposeat import _core


@dataclass(frozen=True)
class Problem:
    machine: Machine
    pattern: str
    traffic: _core.RankTraffic

    @property
    def name(self) -> str:
        return f"{self.machine.name} | {self.pattern}"


def problems() -> Iterator[Problem]:
    """Machine by machine, each with every pattern."""
    traffics: dict[int, list[tuple[str, _core.RankTraffic]]] = {}
    for machine in machines():
        devices = machine.network.devices
        if devices not in traffics:
            traffics[devices] = list(_of_eight() if devices == 8 else _of_fewer(devices))
        for name, traffic in traffics[devices]:
            yield Problem(machine, name, traffic)


def _of_eight() -> Iterator[tuple[str, _core.RankTraffic]]:
    for name, matrix in [*patterns(8), *_more_of_eight()]:
        yield name, rank_traffic(matrix)
    for density, seed in ((0.3, 21), (1.0, 22)):
        matrix = random_bytes(8, density, seed)
        yield f"small messages {seed}", _in_messages(matrix // 64, np.ceil(matrix / 2**18))
        rng = np.random.default_rng(seed)
        some = np.where(rng.random(matrix.shape) < 0.3, 200, 1)
        yield f"chatty flows {seed}", _in_messages(matrix, some)
        count = rng.integers(1, 100, matrix.shape)
        yield f"latency alone {seed}", _in_messages(np.minimum(matrix, 8), count)


def _more_of_eight() -> Iterator[tuple[str, Bytes]]:
    for seed in (3, 4, 5):
        yield f"random dense {seed}", random_bytes(8, 1.0, seed)
        yield f"random half {seed}", random_bytes(8, 0.5, seed)
    one_way = random_bytes(8, 1.0, 6)
    yield "dense symmetric", one_way + one_way.T
    yield "alltoall:8", _off_diagonal(np.full((8, 8), 10**6))
    yield "6 ranks dense", random_bytes(6, 1.0, 11)
    yield "7 ranks", random_bytes(7, 0.6, 12)
    star = np.zeros((8, 8), np.int64)
    star[0, 1:] = star[1:, 0] = 10**6
    yield "star", star
    rng = np.random.default_rng(9)
    yield "near uniform", _off_diagonal(rng.integers(1, 3, (8, 8)) * 10**6)
    yield "one way dense", np.triu(random_bytes(8, 1.0, 13))
    yield "heavy tailed", _off_diagonal(10 ** rng.integers(3, 8, (8, 8)))


def _of_fewer(ranks: int) -> Iterator[tuple[str, _core.RankTraffic]]:
    for density, seed in ((0.3, 1), (0.6, 2), (1.0, 3), (1.0, 4)):
        yield f"random {density:g}, {seed}", rank_traffic(random_bytes(ranks, density, seed))
    ring = np.roll(np.eye(ranks, dtype=np.int64), 1, axis=1) * 10**6
    yield "ring", rank_traffic(ring)


def _off_diagonal(matrix: Bytes) -> Bytes:
    np.fill_diagonal(matrix, 0)
    return matrix


def _in_messages(matrix: Bytes, messages: NDArray[np.generic]) -> _core.RankTraffic:
    source, target = np.nonzero(matrix)
    return _core.RankTraffic(
        ranks=len(matrix),
        source=source.astype(np.uint32),
        target=target.astype(np.uint32),
        bytes=matrix[source, target].astype(np.float64),
        messages=messages[source, target].astype(np.float64),
    )
