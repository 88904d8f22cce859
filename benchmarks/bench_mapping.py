"""Mapping time and quality beside Scotch: one thread, CPU time, interleaved, with an A/A control.

Run: python benchmarks/bench_mapping.py [--repeats N]. Times are medians of process CPU time; the
A/A column is the same solver measured twice, that is the noise. Scotch's cost is given as it
answered (`raw`, even where that is not one rank per device) and after the repair to one-to-one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from machine import describe
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluate import compile_network, compile_traffic, cost_matrix
from toposeat.mapping import scotch_available
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology

MACHINES = ("k80-16", "dgx-2", "dgx-1v", "mi250x-8")
PATTERNS = {
    16: (
        "stencil2d:4x4",
        "stencil2d:4x4,wrap",
        "stencil2d:4x4,weight=3",
        "stencil3d:2x2x4",
        "stencil3d:2x2x4,weight=3",
        "stencil3d:2x2x4,weight=3,wrap",
        "alltoall:4x2x2",
    ),
    8: (
        "stencil2d:2x4",
        "stencil2d:2x4,weight=3,wrap",
        "stencil3d:2x2x2",
        "stencil3d:2x2x2,weight=3",
        "alltoall:2x4",
    ),
}
RANDOM = ("random sparse", "random dense")


def random_traffic(name: str, ranks: int) -> Traffic:
    rng = np.random.default_rng(2017)
    matrix = rng.integers(1, 100, (ranks, ranks)) * 10_000
    matrix *= rng.random((ranks, ranks)) < (0.25 if name == "random sparse" else 1.0)
    np.fill_diagonal(matrix, 0)
    key = (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE)
    return Traffic(ranks=ranks, origin=name, tables={key: PairTable.from_dense(matrix)})


def cpu_times(calls: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median CPU milliseconds of each call; the calls take turns."""
    samples: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()  # first use loads tables and libraries
        call()
    for _ in range(repeats):
        for call, sample in zip(calls, samples, strict=True):
            begin = time.process_time_ns()
            call()
            sample.append((time.process_time_ns() - begin) / 1e6)
    return [statistics.median(sample) for sample in samples]


def cost_of(placement: list[int], matrix: NDArray[np.int64], cost: NDArray[np.float64]) -> float:
    where = np.array(placement)
    return float((matrix * cost[np.ix_(where, where)]).sum())


def row(machine: str, pattern: str, repeats: int) -> str:
    topology = read_topology(machine)
    ranks = len(topology.devices)
    traffic = random_traffic(pattern, ranks) if pattern in RANDOM else pattern_traffic(pattern)
    network, flows = compile_network(topology), compile_traffic(traffic)
    cost = cost_matrix(topology, "bandwidth")
    matrix = traffic.mapped_table().dense_bytes(ranks)

    def ours(objective: str, solver: str = "auto") -> Callable[[], _core.MapAnswer]:
        return lambda: _core.map_ranks(
            network,
            flows,
            cost,
            objective=objective,
            solver=solver,
            budget_s=1.0,
            seed=1,
            devices=[],
            pins=[],
        )

    calls: list[Callable[[], object]] = [ours("cost"), ours("cost"), ours("congestion")]
    calls.append(ours("time"))
    if scotch_available():
        calls.append(lambda: _core.scotch_raw(flows, cost, 1))
    times = cpu_times(calls, repeats)
    best = ours("cost")()
    cells = [f"{machine:9}", f"{pattern:30}", f"{times[0]:8.2f}", f"{times[1] / times[0]:5.2f}"]
    cells += [f"{times[2]:8.2f}", f"{times[3]:8.2f}", "proved" if best.proved else "gap   "]
    base = cost_of(list(range(ranks)), matrix, cost)
    cells.append(f"{cost_of(best.device_of_rank, matrix, cost) / base:6.3f}")
    if scotch_available():
        raw, repaired = _core.scotch_raw(flows, cost, 1)
        cells += [
            f"{times[4]:8.2f}",
            f"{times[0] / times[4]:6.2f}",
            f"{cost_of(list(raw), matrix, cost) / base:6.3f}"
            + (" " if len(set(raw)) == ranks else "*"),
            f"{cost_of(list(repaired), matrix, cost) / base:6.3f}",
        ]
    return "  ".join(cells)


def main() -> None:
    print(describe())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    print(
        f"mapping: CPU ms on one thread, median of {repeats} interleaved rounds; A/A and ratio are"
        " quotients; cost relative to the default placement"
    )
    if not scotch_available():
        print("Scotch: skipped, libscotch is not installed (Debian: libscotch-dev)")
    print(
        "machine    pattern                             cost    A/A  congest.      time  proof "
        "   cost    Scotch  ratio    raw   repaired"
    )
    for machine in MACHINES:
        ranks = len(read_topology(machine).devices)
        for pattern in (*PATTERNS[ranks], *RANDOM):
            print(row(machine, pattern, repeats), flush=True)
    print("* not one-to-one: several ranks on one device, so that the cost is not attainable")


if __name__ == "__main__":
    main()
