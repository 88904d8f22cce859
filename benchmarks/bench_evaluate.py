"""Microseconds per evaluation of one placement in the core: everything that is said of it.

That is maximum and mean congestion, hop-bytes, pairwise cost and predicted flow time. For each
machine of 16 GPUs and each pattern of the paper: the default placement, the placed one (what `map`
answers) and random ones. Each placement's time is the least of some rounds of the mean of a few
evaluations, in thread CPU time; of the random placements the median, the 99th percentile and the
worst are shown, with the median of the flow time alone and of the congestion alone. Other columns
are one call through Python. Larger traffic and machines follow in tables of their own.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from benchmarks.machine import describe
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation import compile_network, compile_traffic, cost_matrix, evaluate
from toposeat.mapping import read_shape
from toposeat.model.traffic import MemorySpace, Traffic, TrafficKind
from toposeat.profile.pattern.patterns import pattern_traffic
from toposeat.topology import read_topology

ROUNDS = 7
REPEATS = 20  # of one placement in a batch
PLACEMENTS = 200
MACHINES = ("k80-16", "k80-16-faraji", "dgx-2", "tree:2:2:2:2", "tree:8:2", "tree:4:4", "ring:16")
PATTERNS = (
    "stencil2d:4x4",
    "stencil2d:4x4,wrap",
    "stencil2d:4x4,weight=3",
    "stencil2d:4x4,weight=3,wrap",
    "stencil3d:2x2x4",
    "stencil3d:2x2x4,wrap",
    "stencil3d:2x2x4,weight=3",
    "stencil3d:2x2x4,weight=3,wrap",
    "alltoall:4x2x2",
)
UNEQUAL = " unequal"  # the pattern's pairs, each with another number of bytes
OTHERS = (
    ("k80-16", "alltoall:8x2"),
    ("k80-16", "alltoall:16"),
    ("k80-16", "alltoall:16" + UNEQUAL),
    ("dgx-1v", "stencil3d:2x2x2"),
)
POINTS = (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE)
ASKED = 10  # microseconds per placement

Placements = NDArray[np.uint32]


def microseconds(action: Callable[[], object], evaluations: int) -> list[float]:
    """Time per evaluation of each round."""
    action()  # not counted: first use of memory and code
    rounds = []
    for _ in range(ROUNDS):
        start = time.thread_time_ns()
        action()
        rounds.append((time.thread_time_ns() - start) / 1e3 / evaluations)
    return rounds


def least(action: Callable[[Placements], object], placement: Placements) -> float:
    """Of one placement, repeated in one call."""
    batch = np.tile(placement, (REPEATS, 1))
    return min(microseconds(lambda: action(batch), REPEATS))


def placed(machine: object, network: _core.Network, flows: _core.RankTraffic) -> Placements:
    answer = _core.map_ranks(
        _core.MapRequest(
            network,
            flows,
            cost_matrix(machine),
            objective="time",
            solver="auto",
            budget_s=0.3,
            seed=1,
        )
    )
    return np.array(answer.device_of_rank, np.uint32)


def unequal(traffic: Traffic) -> Traffic:
    """The same pairs, each with another number of bytes up to a mebibyte."""
    table = traffic.mapped_table()
    size = np.random.default_rng(7).integers(1, 1 << 20, len(table))
    tables = {POINTS: replace(table, bytes=size)}
    return Traffic(ranks=traffic.ranks, origin=traffic.origin, tables=tables)


def measure(machine_name: str, pattern: str, count: int) -> tuple[str, NDArray[np.float64]]:
    """The row, and the times of the default, the placed and the random placements."""
    machine = read_topology(machine_name)
    traffic = pattern_traffic(pattern.removesuffix(UNEQUAL))
    if pattern.endswith(UNEQUAL):
        traffic = unequal(traffic)
    network, flows = compile_network(machine), compile_traffic(traffic)
    cost = cost_matrix(machine)
    random = np.random.default_rng(1)
    devices = len(machine.devices)
    default = np.arange(flows.ranks, dtype=np.uint32)
    others = [random.permutation(devices)[: flows.ranks].astype(np.uint32) for _ in range(count)]

    def everything(batch: Placements) -> object:
        return _core.figures_each(network, flows, cost, batch)

    times = np.array([least(everything, each) for each in others])
    some = np.array(others)
    flow = statistics.median(
        microseconds(lambda: _core.flow_time_each(network, flows, some), count)
    )
    loads = statistics.median(
        microseconds(lambda: _core.max_congestion_each(network, flows, some), count)
    )
    one_call = min(microseconds(lambda: _core.flow_time(network, flows, default.tolist()), 1))
    python = min(microseconds(lambda: evaluate(machine, traffic, default.tolist()), 1))
    cells = (
        least(everything, default),
        least(everything, placed(machine, network, flows)),
        *np.percentile(times, (50, 99, 100)),
        flow,
        loads,
        one_call,
    )
    numbers = "".join(f"{cell:9.2f}" for cell in cells)
    row = f"{machine_name:14}{pattern:31}{len(flows):5}{numbers}{python:10.0f}"
    return row, np.array([*cells[:2], *times])


HEADER = (
    f"{'machine':14}{'traffic':31}{'flows':>5}{'default':>9}{'placed':>9}{'random':>9}{'p99':>9}"
    f"{'worst':>9}{'flow':>9}{'loads':>9}{'one call':>9}{'evaluate()':>10}"
)

LARGE = ("dragonfly:8x16x8x8", "torus3d:16x8x8,devices=8", "fattree:8:16:8:8")  # 1024 nodes each
LARGE_TRAFFIC = "stencil3d:16x32x16,wrap"


def measure_large(text: str) -> str:
    """Congestion and predicted time of one random placement of 8192 ranks on 1024 nodes."""
    shape, flows = read_shape(text), compile_traffic(pattern_traffic(LARGE_TRAFFIC))
    slots = np.random.default_rng(1).permutation(shape.slots)[: flows.ranks].astype(np.uint32)
    rounds = microseconds(lambda: _core.large_prediction(shape.machine, flows, slots), 1)
    return (
        f"{text:25} {len(flows):6} flows  {statistics.median(rounds):9.0f}"
        f" ({min(rounds):.0f} .. {max(rounds):.0f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("machines", nargs="*", help=f"default: {' '.join(MACHINES)}")
    parser.add_argument("--placements", type=int, default=PLACEMENTS, help="random ones")
    args = parser.parse_args()
    print(describe())
    print(
        f"microseconds of thread CPU time per evaluation; {args.placements} random placements,"
        f" each the least of {ROUNDS} rounds of {REPEATS}"
    )
    print(HEADER)
    all_times: list[NDArray[np.float64]] = []
    for machine in args.machines or MACHINES:
        for pattern in PATTERNS:
            row, times = measure(machine, pattern, args.placements)
            all_times.append(times)
            print(row, flush=True)
    each = np.concatenate(all_times)
    print(
        f"of all {len(each)} placements above the slowest takes {each.max():.2f},"
        f" {(each > ASKED).sum()} more than {ASKED}"
    )
    for machine, pattern in OTHERS:
        print(measure(machine, pattern, args.placements)[0], flush=True)
    print("\n8192 ranks at random on 1024 nodes; median (min .. max)")
    for text in LARGE:
        print(measure_large(text), flush=True)


if __name__ == "__main__":
    main()
