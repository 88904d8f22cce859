"""The plain loop over block orders of a language model: `toposeat map` must not be worse.

    python -m benchmarks.block_orders [--seed N] [--only WORDS]

For every network, list of hosts and layout all orders tp x dp_inner x pp x dp_outer are written
down as lists of hosts (hosts by name), and judged by the time of their phases. This module shares
no code with the search: ranks, orders and hosts are computed here, and the prediction alone is
toposeat's (`SlotEvaluator`). Printed: default, best block order, the order that the search found,
the answer of `map`, the lower bound, the gap of the order that was found, and CPU seconds. The
answer is another one where the order that was found loses more than a tenth of the default's time
in some scenario, as where all-reduces go by trees (docs/adr/0066-one-decision.md).
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchmarks.machine import describe

from toposeat.mapping import Shape, SlotEvaluator, map_to_shape, shape_of_network
from toposeat.model.evaluation import Evaluation
from toposeat.model.map_options import MapOptions
from toposeat.profile import pattern_traffic
from toposeat.topology import allocated, read_network, read_topology

MODEL = "model=llama-3.1-70b"
EXPERTS = "model=mixtral-8x7b,sp"
LAYOUTS = (
    (MODEL, (8, 8, 64)),
    (MODEL, (8, 4, 128)),
    (MODEL, (8, 16, 32)),
    (MODEL, (4, 8, 64)),
    (EXPERTS + ",ep=8", (8, 4, 128)),
)
NETWORKS = ("taper=4", "taper=2", "taper=4,rails=8", "taper=2,rails=8")


def block_orders(ranks_of: tuple[int, int, int]) -> Iterator[tuple[int, list[int]]]:
    """dp_inner, and the ranks one after the other: tp, dp_inner, pp, dp_outer, the first fastest.

    Args:
        ranks_of: how many ranks tp, pp and dp have; rank = t + tp (d + dp p).
    """
    tp, pp, dp = ranks_of
    for inner in range(1, dp + 1):
        if dp % inner == 0:
            yield (
                inner,
                [
                    t + tp * (outer * inner + d + dp * p)
                    for outer in range(dp // inner)
                    for p in range(pp)
                    for d in range(inner)
                    for t in range(tp)
                ],
            )


def best_block_order(
    shape: Shape, evaluator: SlotEvaluator, ranks_of: tuple[int, int, int]
) -> tuple[int, Evaluation]:
    """dp_inner of the block order whose phases take least, and what it takes."""
    named = sorted(range(len(shape.hosts)), key=lambda host: shape.hosts[host])
    slots = [
        host * shape.slots_per_host + at for host in named for at in range(shape.slots_per_host)
    ]
    found = []
    for inner, ranks in block_orders(ranks_of):
        row = np.empty(len(ranks), np.uint32)
        row[ranks] = slots[: len(ranks)]
        found.append((inner, evaluator.evaluate(row)))
    return min(found, key=lambda each: each[1].predicted_s)


def network_text(seed: int) -> tuple[str, dict[str, list[str]]]:
    """About 980 hosts in 64 leaves below 16 spines as Slurm's topology.conf, and lists of 512."""
    rng, lines, count = random.Random(seed), [], 0
    for spine in range(16):
        for leaf in range(4):
            size = rng.randint(13, 18)
            lines.append(f"SwitchName=l{spine}-{leaf} Nodes=n[{count:04}-{count + size - 1:04}]")
            count += size
        lines.append(f"SwitchName=s{spine} Switches=l{spine}-[0-3]")
    lines.append("SwitchName=core Switches=s[0-15]")
    hosts = rng.sample(range(count), 512)
    rows = {
        "sorted": sorted(hosts),
        "random": hosts,
        "strided": [host for first in range(8) for host in sorted(hosts)[first::8]],
    }
    return "\n".join(lines) + "\n", {
        name: [f"n{host:04}" for host in row] for name, row in rows.items()
    }


def main() -> None:
    """Print a line for each network, list and layout."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--seed", type=int, default=1)
    given.add_argument("--only", default="")
    given.add_argument("--budget", type=float, default=1.0)
    args = given.parse_args()
    print(describe())
    node = read_topology("hgx-h100")
    text, lists = network_text(args.seed)
    gaps = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.conf"
        file.write_text(text)
        print(f"{'':58} default   block   found  answer   bound    gap  CPU s")
        for options in NETWORKS:
            for name, hosts in lists.items():
                network = allocated(read_network(f"{file},{options}"), hosts)
                shape = shape_of_network(network, node)
                for model, ranks_of in LAYOUTS:
                    tp, pp, dp = ranks_of
                    job = f"llm:{model},tp={tp},pp={pp},dp={dp}"
                    label = f"{options} {name} {job}"
                    if args.only not in label:
                        continue
                    traffic = pattern_traffic(job)
                    _, block = best_block_order(shape, SlotEvaluator(shape, traffic), ranks_of)
                    begin = time.process_time()
                    result = map_to_shape(
                        shape, traffic, MapOptions(min_gain=0, budget_s=args.budget)
                    )
                    used = time.process_time() - begin
                    found_s = min(
                        each.predicted_s
                        for each in result.candidates
                        if each.name == "orders of nodes" and each.predicted_s is not None
                    )
                    bound_s = result.certificate.lower_bound or 0.0
                    gaps.append(found_s / bound_s - 1 if bound_s else float("inf"))
                    seconds = (
                        result.default.predicted_s,
                        block.predicted_s,
                        found_s,
                        result.placed.predicted_s,
                        bound_s,
                    )
                    worse = found_s > block.predicted_s * (1 + 1e-9)
                    print(
                        f"{label.replace('model=', ''):58}"
                        + "".join(f" {1e3 * each:7.1f}" for each in seconds)
                        + f" {gaps[-1]:6.1%} {used:6.1f}{'  WORSE' if worse else ''}",
                        flush=True,
                    )
    if gaps:
        print(f"gap: median {statistics.median(gaps):.1%}, most {max(gaps):.1%}")


if __name__ == "__main__":
    main()
