"""Certified optimum on 16-GPU trees of any shape, and of jobs that leave devices free: CPU time.

Run: python -m benchmarks.mapping.trees [regular] [irregular] [drawn] [jobs] [--rounds N] [--shapes]

`regular` and `irregular` are lists of shapes, with links by level (12, 10, 8, 6 GB/s from the
devices up); irregular ones also with a speed of its own for every link; `drawn` are shapes drawn at
random. Each has the 17 patterns of the node tables. `jobs` are 2 to 15 ranks on the node table's
trees. Times are thread CPU milliseconds of one call of `_core.map_ranks`, placement and guard
included: the least of the rounds. "refused": the optimum was predicted slower than the default.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from benchmarks.machine import describe
from benchmarks.mapping import tree_machines
from benchmarks.mapping.node import ALLOWED_MS, call
from benchmarks.mapping.node_machines import Machine, trees
from benchmarks.mapping.patterns import Bytes, patterns, random_bytes, rank_traffic

from toposeat.profile import pattern_traffic

OBJECTIVES = ("cost", "congestion")


def small_jobs() -> Iterator[tuple[str, Bytes]]:
    for ranks in range(2, 16):
        ring = f"ring:{ranks}"
        yield ring, pattern_traffic(ring).mapped_table().dense_bytes(ranks)
        yield f"random sparse, {ranks}", random_bytes(ranks, 0.4, ranks)
        yield f"random dense, {ranks}", random_bytes(ranks, 1.0, ranks)


FAMILIES: Mapping[str, Callable[[], Iterator[Machine]]] = {
    "regular": tree_machines.regular,
    "irregular": tree_machines.irregular,
    "drawn": tree_machines.drawn,
    "jobs": trees,
}


def measure(
    machine: Machine, objective: str, problems: list[tuple[str, Bytes]], rounds: int
) -> tuple[list[float], int]:
    """CPU milliseconds by problem, and how many optima were refused."""
    taken: list[float] = []
    refused = 0
    for _, matrix in problems:
        solve = call(machine, rank_traffic(matrix), objective, budget_s=1.0)
        least = np.inf
        for _ in range(rounds):
            begin = time.thread_time_ns()
            answer = solve()
            least = min(least, (time.thread_time_ns() - begin) / 1e6)
        slower = any("slower" in note for note in answer.notes)
        if not answer.proved and not slower:
            raise RuntimeError(f"{machine.name}, {objective}: not proved")
        refused += slower
        taken.append(least)
    return taken, refused


def row(name: str, objective: str, taken: list[float], refused: int) -> str:
    median, ninety, worst = np.quantile(taken, (0.5, 0.9, 1.0))
    over = sum(each >= ALLOWED_MS for each in taken)
    return (
        f"{name:40} {objective:11}{len(taken):6}{median:9.3f}{ninety:9.3f}{worst:9.3f}"
        f"{over:6}{refused:9}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", action="store_true", help="a row for every shape")
    options = parser.parse_args()
    print(describe())
    print(f"least of {options.rounds} rounds, CPU ms; over: {ALLOWED_MS:g} ms or more")
    print(f"\n{'machines':40} objective  calls   median      p90    worst  over  refused")
    for family in options.families or list(FAMILIES):
        problems = list(small_jobs() if family == "jobs" else patterns(16))
        for objective in OBJECTIVES:
            everything: list[float] = []
            all_refused = 0
            for machine in FAMILIES[family]():
                taken, refused = measure(machine, objective, problems, options.rounds)
                if options.shapes:
                    print(row(f"  {machine.name}", objective, taken, refused), flush=True)
                everything += taken
                all_refused += refused
            print(row(family, objective, everything, all_refused), flush=True)


if __name__ == "__main__":
    main()
