"""Certified optimum on one node: CPU time of the core call, proof, and peers in the same run.

Run: python -m benchmarks.mapping.node [eights] [trees] [others] [--rounds N] [--budget S]
     [--machine PART_OF_NAME] [--objective NAME] [--table proofs|found|peers]

Every row is one machine under one objective, over 17 patterns (12 for 8 ranks). Times are thread
CPU milliseconds of `_core.map_ranks`, placement and guard included: the median over patterns of the
median over rounds, and the worst single call; A/A is the same call measured twice. "proved" counts
the patterns whose optimum was certified, "refused" those whose optimum was certified too but is
predicted slower than the default, so that the guard answered something else. A row ends with
"missed" and the number of patterns whose worst call took 50 ms or more, where that is the
figure asked for (cost and congestion on 8 devices and on trees). Calls for machines of kind
`others` take up to the budget (of seconds, not CPU time) where nothing is proved: each is made
twice, and under their rows stand the patterns left open, each with its gap. The peers' table gives
their cost divided by ours: as they answered (where that is one to one) and repaired.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
from benchmarks.machine import describe
from benchmarks.mapping.node_machines import KINDS, Machine
from benchmarks.mapping.node_peers import missing, peers, repaired
from benchmarks.mapping.patterns import Bytes, patterns, rank_traffic
from benchmarks.mapping.timing import Sample, interleaved
from numpy.typing import NDArray

from toposeat import _core

OBJECTIVES = ("cost", "congestion", "time")
SEEDS = (1, 2, 3)
TABLES = ("proofs", "found", "peers")
LONG = "other 16"  # kind of the machines whose calls may take the whole budget
ALLOWED_MS = 50.0  # of the worst call, placement and proof included


def call(
    machine: Machine, flows: _core.RankTraffic, objective: str, budget_s: float, seed: int = 1
) -> Callable[[], _core.MapAnswer]:
    return lambda: _core.map_ranks(
        _core.MapRequest(
            machine.network,
            flows,
            machine.cost,
            objective=objective,
            solver="auto",
            budget_s=budget_s,
            seed=seed,
        )
    )


def keeping(
    solve: Callable[[], _core.MapAnswer], answers: list[_core.MapAnswer]
) -> Callable[[], None]:
    return lambda: answers.append(solve())


def ours(machine: Machine, objective: str, rounds: int, budget_s: float) -> list[str]:
    """A row, and under it for `others` the patterns that are not proved."""
    firsts: list[Sample] = []
    quotients, gaps, left_open = [], [], []
    proved = refused = 0
    long = machine.kind == LONG
    for name, matrix in patterns(machine.network.devices):
        answers: list[_core.MapAnswer] = []
        solve = call(machine, rank_traffic(matrix), objective, budget_s)
        kept = keeping(solve, answers)
        first, second = interleaved([kept, kept], 1 if long else rounds, warm=not long)
        firsts.append(first)
        quotients.append(second.median / first.median)
        answer = answers[-1]
        slower = any("slower" in note for note in answer.notes)
        proved += answer.proved
        refused += not answer.proved and slower
        gaps.append(1 - (answer.lower_bound or 0) / answer.value if answer.value > 0 else 0.0)
        if long and not answer.proved:
            why = "refused, " if slower else ""
            left_open.append(f"    open: {name}, {why}gap {100 * gaps[-1]:.1f} %")
    median = statistics.median(sample.median for sample in firsts)
    worst = max(sample.worst for sample in firsts)
    row = (
        f"{machine.name:28} {objective:11}{median:9.3f}{worst:10.3f}"
        f"{statistics.median(quotients):6.2f}  {proved:2}/{len(gaps)}{refused:8}"
        f"{100 * max(gaps):9.1f} %{missed(machine, objective, firsts)}"
    )
    return [row, *left_open]


def missed(machine: Machine, objective: str, samples: Sequence[Sample]) -> str:
    """Marks a row whose figure is not met; empty where it is, or where none is asked for."""
    over = sum(sample.worst >= ALLOWED_MS for sample in samples)
    asked = objective != "time" and machine.kind in ("any 8", "tree 16")
    return f"  missed: {over} of {len(samples)}" if asked and over else ""


def found_in(machine: Machine, matrix: Bytes, optimum: float, seed: int) -> float | None:
    """CPU ms of the shortest of a few budgets whose answer has the best known cost."""
    flows = rank_traffic(matrix)
    for budget_s in (0.002, 0.005, 0.02, 0.1, 0.5):
        begin = time.thread_time_ns()
        answer = call(machine, flows, "cost", budget_s, seed)()
        spent = (time.thread_time_ns() - begin) / 1e6
        if answer.value <= optimum * (1 + 1e-9):
            return spent
    return None


def cost_of(where: NDArray[np.int64], matrix: Bytes, cost: NDArray[np.float64]) -> float:
    return float((matrix * cost[np.ix_(where, where)]).sum())


def beside_peers(machine: Machine, rounds: int, budget_s: float) -> list[str]:
    """One line per peer: geometric mean and worst of peer / ours over patterns and seeds."""
    ratios: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    raw: dict[str, list[float]] = {}
    own: list[float] = []
    for _, matrix in patterns(machine.network.devices):
        others = peers(machine, matrix)
        solve = call(machine, rank_traffic(matrix), "cost", budget_s)
        calls = [solve, *((lambda p=peer: p.call(1)) for peer in others)]
        samples = interleaved(calls, rounds)
        own.append(samples[0].median)
        best = cost_of(np.array(solve().device_of_rank), matrix, machine.cost)
        for peer, sample in zip(others, samples[1:], strict=True):
            times.setdefault(peer.name, []).append(sample.median)
            for seed in SEEDS:
                answer = peer.call(seed)
                mended = cost_of(repaired(answer, matrix, machine.cost), matrix, machine.cost)
                ratios.setdefault(peer.name, []).append(mended / best)
                raw.setdefault(peer.name, []).append(
                    cost_of(answer, matrix, machine.cost) / best
                    if len(set(answer.tolist())) == len(answer)
                    else float("nan")
                )
    return [
        f"{machine.name:28} {name:16}{statistics.median(own):9.3f}"
        f"{statistics.median(times[name]):10.3f}"
        f"{statistics.median(own) / statistics.median(times[name]):9.2f}"
        f"{statistics.geometric_mean(values):10.4f}{max(values):8.3f}"
        f"{sum(math.isfinite(value) for value in raw[name]):6}/{len(values)}"
        for name, values in ratios.items()
    ]


def print_found(machines: Sequence[Machine], budget_s: float) -> None:
    if not machines:
        return
    print(
        "\noptimum found on 16 devices, not a tree: CPU ms of the least sufficient of the budgets"
    )
    print("2, 5, 20, 100, 500 ms; runs = patterns x seeds; the target is the best of a long run")
    for machine in machines:
        spent = []
        for _, matrix in patterns(machine.network.devices):
            target = call(machine, rank_traffic(matrix), "cost", budget_s)().value
            spent += [found_in(machine, matrix, target, seed) for seed in SEEDS]
        hits = sorted(each for each in spent if each is not None)
        print(
            f"{machine.name:28} runs {len(spent)}, within 5 ms {sum(h <= 5 for h in hits)},"
            f" median {statistics.median(hits):.2f} ms, worst {hits[-1]:.2f} ms,"
            f" not found {len(spent) - len(hits)}",
            flush=True,
        )


def print_proofs(
    machines: Sequence[Machine], objectives: Sequence[str], rounds: int, budget_s: float
) -> None:
    print(f"\n{'machine':28} objective    median     worst   A/A  proved  refused  worst gap")
    for machine in machines:
        for objective in objectives:
            print("\n".join(ours(machine, objective, rounds, budget_s)), flush=True)


def print_peers(machines: Sequence[Machine], rounds: int, budget_s: float) -> None:
    print(
        f"\n{'machine':28} peer            ours ms   peer ms    ratio cost/ours   worst  one to one"
    )
    for machine in machines:
        each = 1 if machine.kind == LONG else rounds
        print("\n".join(beside_peers(machine, each, budget_s)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--machine", default="", metavar="PART_OF_NAME")
    parser.add_argument("--objective", action="append", choices=OBJECTIVES)
    parser.add_argument("--table", action="append", choices=TABLES)
    options = parser.parse_args()
    kinds = options.kinds or list(KINDS)
    machines = [
        machine for kind in kinds for machine in KINDS[kind]() if options.machine in machine.name
    ]
    tables = options.table or TABLES
    print(describe())
    for line in missing():
        print(line)
    print(f"{options.rounds} interleaved rounds, budget {options.budget:g} s")
    if "proofs" in tables:
        print_proofs(machines, options.objective or OBJECTIVES, options.rounds, options.budget)
    if "found" in tables:
        print_found([each for each in machines if each.kind == LONG], options.budget)
    if "peers" in tables:
        print_peers(machines, options.rounds, options.budget)


if __name__ == "__main__":
    main()
