"""Certified optimum on one node: CPU time of the core call, proof, and Scotch in the same run.

Run: python -m benchmarks.mapping.node [eights] [trees] [others] [--rounds N] [--budget S]
     [--machine PART_OF_NAME] [--objective NAME] [--table proofs|scotch]

Every row is one machine under one objective, over 17 patterns (12 for 8 ranks). Times are thread
CPU milliseconds of `_core.map_ranks`, placement and guard included: the median over patterns of the
median over rounds, and the worst single call; A/A is the same call measured twice. "proved" counts
the patterns whose optimum was certified, "refused" those whose optimum was certified too but is
predicted slower than the default, so that the guard answered something else. A row ends with
"missed" and the number of patterns whose worst call took 50 ms or more, where that is the
figure asked for (cost and congestion on 8 devices and on trees). Calls for machines of kind
`others` take up to the budget (of seconds, not CPU time) where nothing is proved: each is made
twice, and under their rows stand the patterns left open, each with its gap. The table of Scotch
gives the cost of the answer of its program, repaired to one rank per device, over ours.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np
from benchmarks.machine import describe, in_turns, parser, thread_ms
from benchmarks.mapping import gmap
from benchmarks.mapping.node_machines import KINDS, Machine
from benchmarks.mapping.patterns import Bytes, patterns, rank_traffic
from numpy.typing import NDArray

from toposeat import _core

Ids = NDArray[np.int64]
OBJECTIVES = ("cost", "congestion", "time")
TABLES = ("proofs", "scotch")
ALLOWED_MS = 50.0  # of a call on 8 devices or a tree of 16, placement and proof included
LONG = "other 16"  # kind of the machines whose calls may take the whole budget


def call(
    machine: Machine, flows: _core.RankTraffic, objective: str, budget_s: float
) -> Callable[[], _core.MapAnswer]:
    return lambda: _core.map_ranks(
        _core.MapRequest(
            machine.network, flows, machine.cost, objective=objective, budget_s=budget_s
        )
    )


def refused(answer: _core.MapAnswer) -> bool:
    """The certified optimum is predicted slower than the default: something else is answered."""
    return any("slower" in note for note in answer.notes)


def ours(machine: Machine, objective: str, rounds: int, budget_s: float) -> list[str]:
    """A row, and under it for `others` the patterns that are not proved."""
    medians, worsts, again, gaps, left_open = [], [], [], [], []
    proved = refusals = 0
    long = machine.kind == LONG
    for name, matrix in patterns(machine.network.devices):
        solve = call(machine, rank_traffic(matrix), objective, budget_s)
        answers: list[_core.MapAnswer] = []
        timed = thread_ms(lambda solve=solve, answers=answers: answers.append(solve()))
        taken = in_turns({"A": timed, "A again": timed}, 1 if long else rounds, warm=not long)
        medians.append(statistics.median(taken["A"]))
        worsts.append(max(taken["A"]))
        again.append(statistics.median(taken["A again"]) / medians[-1])
        answer = answers[-1]
        slower = refused(answer)
        proved += answer.proved
        refusals += not answer.proved and slower
        gaps.append(1 - (answer.lower_bound or 0) / answer.value if answer.value > 0 else 0.0)
        if long and not answer.proved:
            why = "refused, " if slower else ""
            left_open.append(f"    open: {name}, {why}gap {100 * gaps[-1]:.1f} %")
    over = sum(worst >= ALLOWED_MS for worst in worsts)
    asked = objective != "time" and machine.kind in ("any 8", "tree 16")
    missed = f"  missed: {over} of {len(worsts)}" if asked and over else ""
    row = (
        f"{machine.name:28} {objective:11}{statistics.median(medians):9.3f}{max(worsts):10.3f}"
        f"{statistics.median(again):6.2f}  {proved:2}/{len(gaps)}{refusals:8}"
        f"{100 * max(gaps):9.1f} %{missed}"
    )
    return [row, *left_open]


def cost_of(where: Ids, matrix: Bytes, cost: NDArray[np.float64]) -> float:
    return float((matrix * cost[np.ix_(where, where)]).sum())


def beside_scotch(machine: Machine, budget_s: float) -> str:
    """Geometric mean and worst of the cost of Scotch / ours over patterns."""
    worse = []
    for _, matrix in patterns(machine.network.devices):
        best = call(machine, rank_traffic(matrix), "cost", budget_s)().device_of_rank
        answer, _ = gmap.places_on_pairs(matrix, machine.cost)
        mended = gmap.repaired(answer, matrix, machine.cost)
        worse.append(
            cost_of(mended, matrix, machine.cost) / cost_of(np.array(best), matrix, machine.cost)
        )
    return f"{machine.name:28}{statistics.geometric_mean(worse):12.4f}{max(worse):8.3f}"


def print_proofs(
    machines: Sequence[Machine], objectives: Sequence[str], rounds: int, budget_s: float
) -> None:
    print(f"\n{'machine':28} objective    median     worst   A/A  proved  refused  worst gap")
    for machine in machines:
        for objective in objectives:
            print("\n".join(ours(machine, objective, rounds, budget_s)), flush=True)


def print_scotch(machines: Sequence[Machine], budget_s: float) -> None:
    if not gmap.is_installed():
        print(gmap.MISSING)
        return
    print(f"\n{'machine':28} cost / ours   worst")
    for machine in machines:
        print(beside_scotch(machine, budget_s), flush=True)


def main() -> None:
    options = parser(__doc__, rounds=5)
    options.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    options.add_argument("--budget", type=float, default=1.0)
    options.add_argument("--machine", default="", metavar="PART_OF_NAME")
    options.add_argument("--objective", action="append", choices=OBJECTIVES)
    options.add_argument("--table", action="append", choices=TABLES)
    args = options.parse_args()
    machines = [
        machine
        for kind in args.kinds or KINDS
        for machine in KINDS[kind]()
        if args.machine in machine.name
    ]
    tables = args.table or TABLES
    print(describe())
    print(f"{args.rounds} interleaved rounds, budget {args.budget:g} s")
    if "proofs" in tables:
        print_proofs(machines, args.objective or OBJECTIVES, args.rounds, args.budget)
    if "scotch" in tables:
        print_scotch(machines, args.budget)


if __name__ == "__main__":
    main()
