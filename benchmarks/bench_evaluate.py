"""CPU time of evaluating one placement in the core: everything that is said of it.

That is maximum and mean congestion, hop-bytes, pairwise cost and predicted flow time. On 16 GPUs:
the default placement, once more (A/A), and random ones together, microseconds each, one call for
many placements; then `evaluate()`, which compiles machine and traffic too. On 1024 nodes of 8 GPUs:
milliseconds of congestion and predicted time of one random placement. Rounds take turns.
"""

from __future__ import annotations

import numpy as np
from benchmarks.machine import describe, in_turns, middle, parser, thread_ms

from toposeat import _core
from toposeat.evaluation import compile_network, compile_traffic, cost_matrix, evaluate
from toposeat.mapping import read_shape
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology

MACHINES = ("k80-16", "dgx-2", "tree:2:2:2:2", "ring:16")
PATTERNS = ("stencil2d:4x4", "stencil3d:2x2x4,weight=3,wrap", "alltoall:4x2x2", "alltoall:16")
PLACEMENTS = 200  # of one call
LARGE = ("dragonfly:8x16x8x8", "torus3d:16x8x8,devices=8", "fattree:8:16:8:8")
LARGE_TRAFFIC = "stencil3d:16x32x16,wrap"


def node_row(name: str, pattern: str, rounds: int) -> str:
    machine, traffic = read_topology(name), pattern_traffic(pattern)
    network, flows = compile_network(machine), compile_traffic(traffic)
    cost = cost_matrix(machine)
    draw = np.random.default_rng(1).permutation
    default = np.tile(np.arange(flows.ranks, dtype=np.uint32), (PLACEMENTS, 1))
    random = np.array([draw(flows.ranks) for _ in range(PLACEMENTS)], np.uint32)
    taken = in_turns(
        {
            "default": thread_ms(lambda: _core.figures_each(network, flows, cost, default)),
            "A/A": thread_ms(lambda: _core.figures_each(network, flows, cost, default)),
            "random": thread_ms(lambda: _core.figures_each(network, flows, cost, random)),
            "evaluate": thread_ms(lambda: evaluate(machine, traffic, default[0].tolist())),
        },
        rounds,
    )
    cells = ""
    for what, values in taken.items():
        each = 1 if what == "evaluate" else 1e3 / PLACEMENTS
        typical, low, high = (each * value for value in middle(values))
        cells += f"{typical:8.2f} ({low:.2f} - {high:.2f})".rjust(24)
    return f"{name:14}{pattern:31}{len(flows):5}{cells}"


def large_row(text: str, rounds: int) -> str:
    shape, flows = read_shape(text), compile_traffic(pattern_traffic(LARGE_TRAFFIC))
    slots = np.random.default_rng(1).permutation(shape.slots)[: flows.ranks].astype(np.uint32)
    call = thread_ms(lambda: _core.large_prediction(shape.machine, flows, slots))
    taken = in_turns({"once": call, "A/A": call}, rounds)
    cells = "".join("{:10.2f} ({:.2f} - {:.2f})".format(*middle(each)) for each in taken.values())
    return f"{text:28}{len(flows):7}{cells}"


def main() -> None:
    rounds = parser(__doc__, rounds=15).parse_args().rounds
    print(describe())
    print(f"thread CPU time, median and quartiles of {rounds} rounds in turns\n")
    heads = ("default, us", "again (A/A), us", "random, us", "evaluate(), ms")
    columns = "".join(f"{name:>24}" for name in heads)
    print(f"{'machine':14}{'traffic':31}{'flows':>5}{columns}")
    for machine in MACHINES:
        for pattern in PATTERNS:
            print(node_row(machine, pattern, rounds), flush=True)
    print(f"\n{LARGE_TRAFFIC} on 1024 nodes of 8 GPUs, ms: a random placement, and again (A/A)")
    for text in LARGE:
        print(large_row(text, rounds), flush=True)


if __name__ == "__main__":
    main()
