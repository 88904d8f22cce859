"""Certified optimum on 16-GPU trees of any shape, and of jobs that leave devices free: CPU time.

Run: python -m benchmarks.mapping.trees [regular] [irregular] [drawn] [jobs] [--rounds N] [--shapes]

`regular` and `irregular` are lists of shapes, with links by level (12, 10, 8, 6 GB/s from the
devices up); irregular ones also with a speed of its own for every link; `drawn` are shapes drawn at
random. Each has the 17 patterns of the node tables. `jobs` are 2 to 15 ranks on the node table's
trees. Times are thread CPU milliseconds of one call of `_core.map_ranks`, placement and guard
included: the least of the rounds. "refused": the optimum was predicted slower than the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from benchmarks.machine import describe, parser
from benchmarks.mapping import tree_machines
from benchmarks.mapping.calls import ALLOWED_MS, HEAD, Outcome, outcome, summary
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


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}")
    options.add_argument("--shapes", action="store_true", help="a row for every shape")
    args = options.parse_args()
    print(describe())
    print(f"least of {args.rounds} rounds, CPU ms; over: more than {ALLOWED_MS:g} ms\n\n{HEAD}")
    for family in args.families or list(FAMILIES):
        problems = list(small_jobs() if family == "jobs" else patterns(16))
        for objective in OBJECTIVES:
            everything: list[Outcome] = []
            for machine in FAMILIES[family]():
                found = [
                    outcome(name, machine, rank_traffic(matrix), objective, args.rounds)
                    for name, matrix in problems
                ]
                if not all(each.proved or each.refused for each in found):
                    raise SystemExit(f"{machine.name}, {objective}: not proved")
                if args.shapes:
                    print(summary(f"  {machine.name}", objective, found, ALLOWED_MS), flush=True)
                everything += found
            print(summary(family, objective, everything, ALLOWED_MS), flush=True)


if __name__ == "__main__":
    main()
