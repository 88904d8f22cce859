"""Seconds to evaluate one placement on a network of about a thousand nodes with eight GPUs each.

Per case: what is done once (the network read, the machine compiled), and one evaluation (cost,
bytes over every link, busiest link, latency) of the default and of random placements. Medians
over the rounds with their range, thread CPU seconds. The two rows of the default are the same
thing timed twice, interleaved: the control. Numbers of placements are predictions.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.machine import describe

from toposeat import _core
from toposeat.evaluation import compile_traffic
from toposeat.mapping import shape_of_network
from toposeat.profile.pattern.patterns import pattern_traffic
from toposeat.topology import read_network, read_topology

ROUNDS = 7
NODE = "hgx-h100"
TRAFFICS = ("stencil3d:32x16x16", "stencil3d:32x16x16,diagonals", "alltoall:256x32")


def irregular_tree() -> str:
    """A topology.conf: 1024 nodes on 60 leaves of 8 to 26, below 6 spines and one core."""
    lines = ["SwitchName=core Switches=spine[0-5]"]
    lines += [f"SwitchName=spine{s} Switches=leaf[{10 * s}-{10 * s + 9}]" for s in range(6)]
    first = 0
    for leaf in range(60):
        last = min(1024, first + 8 + leaf * 7 % 19) if leaf < 59 else 1024
        lines.append(f"SwitchName=leaf{leaf} Nodes=n[{first:04d}-{last - 1:04d}]")
        first = last
    return "\n".join(lines) + "\n"


def cases(folder: Path) -> dict[str, str]:
    """Sources by name."""
    conf = folder / "topology.conf"
    conf.write_text(irregular_tree())
    return {
        "irregular tree (topology.conf)": str(conf),
        "fat tree": "fattree:8:16:8:8",
        "torus": "torus3d:8x8x8,nodes=2,bandwidth=9.4:4.7:9.4",
        "dragonfly": "dragonfly:16:16:4",
    }


def seconds(action: Callable[[], object]) -> float:
    """Thread CPU time of one call."""
    start = time.thread_time()
    action()
    return time.thread_time() - start


def shown(rounds: list[float]) -> str:
    """Median and range in milliseconds."""
    low, middle, high = (1e3 * f(rounds) for f in (min, statistics.median, max))
    return f"{middle:8.1f} ms ({low:.1f} .. {high:.1f})"


def measure(name: str, source: str) -> None:
    """Print one case."""
    node = read_topology(NODE)
    once = [seconds(lambda: shape_of_network(read_network(source), node)) for _ in range(3)]
    shape = shape_of_network(read_network(source), node)
    print(f"{name}: {len(shape.hosts)} nodes, {shape.slots} GPUs, {shape.machine.links} links")
    print(f"  read and compile, once          {shown(once)}")
    random = np.random.default_rng(1)
    for text in TRAFFICS:
        traffic = pattern_traffic(text)
        flows = compile_traffic(traffic)
        default = np.arange(traffic.ranks, dtype=np.uint32)
        rows: dict[str, list[float]] = {"default": [], "default, again": [], "random": []}
        for _ in range(ROUNDS):
            shuffled = random.permutation(shape.slots)[: traffic.ranks].astype(np.uint32)
            for row, slots in (
                ("default", default),
                ("random", shuffled),
                ("default, again", default),
            ):
                evaluate = partial(_core.large_prediction, shape.machine, flows, slots)
                rows[row].append(seconds(evaluate))
        for row, times in rows.items():
            pairs = len(traffic.mapped_table().source)
            print(f"  {text:29} {pairs:7} pairs, {row:15}{shown(times)}")


def main() -> None:
    """All cases."""
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        for name, source in cases(Path(folder)).items():
            measure(name, source)


if __name__ == "__main__":
    main()
