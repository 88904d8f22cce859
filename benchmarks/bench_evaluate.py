"""Microseconds per evaluation of one placement: the core alone, and called through Python.

Every figure is the median over the rounds of the mean over a batch of random placements, with the
range of the rounds beside it. All the core's rows of a case see the same placements.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from machine import describe

from toposeat import _core
from toposeat.evaluate import compile_network, compile_traffic, evaluate
from toposeat.mapping import read_shape
from toposeat.profile.pattern.patterns import pattern_traffic
from toposeat.topology import read_topology

ROUNDS = 15
PLACEMENTS = 400
CASES = (
    ("k80-16", "stencil2d:4x4"),
    ("k80-16", "stencil3d:2x2x4,weight=3"),
    ("k80-16", "alltoall:4x2x2"),
    ("k80-16", "alltoall:16"),
    ("dgx-1v", "stencil3d:2x2x2"),
    ("dgx-2", "stencil3d:2x2x4,wrap"),
)


def microseconds(action: Callable[[], object], evaluations: int) -> list[float]:
    """Time per evaluation of each round."""
    action()  # not counted: first use of memory and code
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        action()
        rounds.append((time.process_time() - start) * 1e6 / evaluations)
    return rounds


def shown(rounds: list[float]) -> str:
    return f"{statistics.median(rounds):.2f} ({min(rounds):.2f} .. {max(rounds):.2f})"


def measure(machine_name: str, pattern: str) -> list[str]:
    machine, traffic = read_topology(machine_name), pattern_traffic(pattern)
    network, flows = compile_network(machine), compile_traffic(traffic)
    random = np.random.default_rng(1)
    devices = len(machine.devices)
    placements = np.array(
        [random.permutation(devices)[: traffic.ranks] for _ in range(PLACEMENTS)], np.uint32
    )
    exchanges = np.array([random.permutation(devices)[:2] for _ in range(PLACEMENTS)], np.uint32)
    default = list(range(traffic.ranks))
    defaults = np.tile(np.array(default, np.uint32), (PLACEMENTS, 1))
    flow, congestion = _core.flow_time_each, _core.max_congestion_each
    return [
        machine_name,
        pattern,
        str(len(flows)),
        shown(microseconds(lambda: congestion(network, flows, placements), PLACEMENTS)),
        shown(
            microseconds(
                lambda: _core.max_congestion_walk(network, flows, default, exchanges), PLACEMENTS
            )
        ),
        shown(microseconds(lambda: flow(network, flows, defaults), PLACEMENTS)),
        shown(microseconds(lambda: flow(network, flows, placements), PLACEMENTS)),
        shown(microseconds(lambda: _core.flow_time(network, flows, default), 1)),
        shown(microseconds(lambda: evaluate(machine, traffic, default), 1)),
    ]


HEADER = (
    *("machine", "traffic", "flows", "congestion", "after exchange", "time, default"),
    *("time, random", "time, one call", "evaluate()"),
)
WIDTHS = (8, 25, 6, 22, 22, 25, 25, 22, 28)

LARGE = ("dragonfly:8x16x8x8", "torus3d:16x8x8,devices=8", "fattree:8:16:8:8")  # 1024 nodes each
LARGE_TRAFFIC = "stencil3d:16x32x16,wrap"


def measure_large(text: str) -> str:
    """Congestion and predicted time of one random placement of 8192 ranks on 1024 nodes."""
    shape, flows = read_shape(text), compile_traffic(pattern_traffic(LARGE_TRAFFIC))
    slots = np.random.default_rng(1).permutation(shape.slots)[: flows.ranks].astype(np.uint32)
    rounds = microseconds(lambda: _core.large_prediction(shape.machine, flows, slots), 1)
    return f"{text:25} {len(flows):6} flows  {shown(rounds)}"


def main() -> None:
    print(describe())
    print(f"microseconds per evaluation, median (min .. max) of {ROUNDS} rounds")
    print("  ".join(f"{name:{width}}" for name, width in zip(HEADER, WIDTHS, strict=True)))
    for case in CASES:
        cells = zip(measure(*case), WIDTHS, strict=True)
        print("  ".join(f"{cell:{width}}" for cell, width in cells), flush=True)
    for text in LARGE:
        print(measure_large(text), flush=True)


if __name__ == "__main__":
    main()
