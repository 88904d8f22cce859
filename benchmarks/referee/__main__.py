"""Our flow model against SimGrid's MPI simulator: the same messages on the same numbers.

    python -m benchmarks.referee [--quick]

Every pattern runs in the default order, as our mapper places it, and in a random order; sizes from
64 KiB; one phase and three iterations without a barrier; collectives by three algorithms. With
equal latencies SimGrid shares links as we do; with the machine's own it gives flows of shorter
latency a larger share (as TCP does), which GPU copies do not: that column is for information.

What a pair of ranks exchanges in a phase is one message on both sides: by the model's rule n
messages of a pair follow one another and pay n latencies, which is no rule of SimGrid's. SMPI adds
16 bytes to every message: 0.024 % of 64 KiB. Small allreduces, which are all latency, stand beside
the floor that rounds give a traffic without an order (docs/explanation/prediction.md). Both are
max-min fair fluids, so agreement checks our code, not the physics; for that see
`benchmarks.papers.physics`.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.referee.simgrid import smpi_version, why_no_smpi
from benchmarks.referee.simulator import Referee

from toposeat.evaluation import ScheduleEvaluator, default_placement, evaluate
from toposeat.mapping import map_traffic
from toposeat.model.map_options import MapOptions
from toposeat.model.pair_table import Schedule
from toposeat.model.quantity import nominal
from toposeat.model.topology import Topology
from toposeat.model.traffic import MemorySpace, PairTable
from toposeat.profile import collective_schedule, pattern_traffic, schedule_traffic
from toposeat.topology import read_topology

LATENCY_S = 20e-6
SIZES = ("64KiB", "1MiB", "4MiB")
CASES = (
    ("k80-16", "stencil2d:4x4"),
    ("k80-16", "stencil2d:4x4,wrap"),
    ("k80-16", "stencil3d:2x2x4"),
    ("k80-16", "stencil3d:2x2x4,wrap"),
    ("k80-16", "stencil2d:4x4,weight=3"),
    ("k80-16", "stencil2d:4x4,weight=3,wrap"),
    ("k80-16", "stencil3d:2x2x4,weight=3"),
    ("k80-16", "stencil3d:2x2x4,weight=3,wrap"),
    ("k80-16", "alltoall:4x2x2"),
    ("dgx-1v", "stencil3d:2x2x2"),
    ("dgx-2", "stencil3d:2x2x4,wrap"),
    ("power9-4", "alltoall:4"),
    ("mi250x-8", "stencil2d:2x4,wrap"),
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One run: relative difference of our seconds from SimGrid's."""

    machine: str
    pattern: str
    order: str
    what: str
    equal: float  # every route with one latency
    own: float  # with the machine's latencies


def with_latency(machine: Topology, latency_s: float) -> Topology:
    """The machine with one latency on every route."""
    routes = tuple(dataclasses.replace(r, latency_s=nominal(latency_s)) for r in machine.routes)
    return dataclasses.replace(machine, routes=routes)


def schedules(pattern: str, size: str) -> Iterator[tuple[str, Schedule]]:
    traffic = pattern_traffic(f"{pattern},bytes={size}")
    phase = traffic.mapped_table()
    once = PairTable.from_pairs(phase.source, phase.target, phase.bytes, np.ones(len(phase)))
    for repeats, what in ((1, "one phase"), (3, "3 iterations")):
        yield (
            f"{size}, {what}",
            Schedule(ranks=traffic.ranks, origin=pattern, phases=(once,), repeats=repeats),
        )
    if pattern == "alltoall:4x2x2":
        groups = [list(range(k, 16, 4)) for k in range(4)]
        for algorithm in ("pairwise", "bruck"):
            nbytes = int(traffic.table().bytes.max())
            yield f"{size}, {algorithm}", collective_schedule("alltoall", algorithm, groups, nbytes)


def placements(machine: Topology, pattern: str) -> list[tuple[str, tuple[int, ...]]]:
    traffic = pattern_traffic(pattern)
    random = np.random.default_rng(1).permutation(len(machine.devices))[: traffic.ranks]
    return [
        ("default", default_placement(traffic.ranks, machine)),
        (
            "placed",
            map_traffic(machine, traffic, MapOptions(budget_s=0.3, min_gain=0)).device_of_rank,
        ),
        ("random", tuple(int(device) for device in random)),
    ]


def differences(
    cases: Sequence[tuple[str, str]] = CASES, sizes: Sequence[str] = SIZES
) -> Iterator[Difference]:
    with Referee() as referee:
        for name, pattern in cases:
            machine = read_topology(name)
            equal = with_latency(machine, LATENCY_S)
            for order, placement in placements(machine, pattern):
                for size in sizes:
                    for what, schedule in schedules(pattern, size):

                        def difference(
                            numbers: Topology,
                            schedule: Schedule = schedule,
                            placement: tuple[int, ...] = placement,
                        ) -> float:
                            mine = ScheduleEvaluator(numbers, schedule).time(placement).seconds
                            return mine / referee.seconds(numbers, schedule, placement) - 1

                        yield Difference(
                            machine=name,
                            pattern=pattern,
                            order=order,
                            what=what,
                            equal=difference(equal),
                            own=difference(machine),
                        )


def rounds() -> Iterator[str]:
    """Small allreduces of all ranks: SimGrid, the schedule, and the floor of the same messages."""
    with Referee() as referee:
        for name in ("k80-16", "dgx-1v"):
            machine = read_topology(name)
            ranks = len(machine.devices)
            for algorithm, nbytes in (("recursive-doubling", 8), ("ring", 8 * ranks)):
                schedule = collective_schedule("allreduce", algorithm, [range(ranks)], nbytes)
                table = {MemorySpace.DEVICE: schedule.table()}
                traffic = dataclasses.replace(schedule_traffic(schedule), rounds=table)
                for order, placement in placements(machine, f"ring:{ranks}"):
                    theirs = referee.seconds(machine, schedule, placement)
                    mine = ScheduleEvaluator(machine, schedule).time(placement).seconds
                    floor = evaluate(machine, traffic, placement).predicted_s
                    cells = "  ".join(f"{1e6 * each:8.2f}" for each in (theirs, mine, floor))
                    yield f"{name}, {algorithm} of {nbytes} B, {order}".ljust(48) + cells


def _line(name: str, found: Sequence[Difference]) -> str:
    equal = [abs(each.equal) for each in found]
    own = [abs(each.own) for each in found]
    cells = [f"{100 * statistics.mean(equal):.4f} %", f"{100 * max(equal):.4f} %"]
    cells += [f"{100 * statistics.mean(own):.3f} %", f"{100 * max(own):.2f} %"]
    return f"{name:42} {len(found):5}  " + "  ".join(f"{cell:>10}" for cell in cells)


def main() -> int:
    parser = argparse.ArgumentParser(description="The flow model against SimGrid.")
    parser.add_argument("--quick", action="store_true", help="three patterns, one size")
    arguments = parser.parse_args()
    reason = why_no_smpi()
    if reason is not None:
        print(f"skipped: {reason}")
        return 0
    few = ([CASES[0], CASES[6], CASES[8]], SIZES[1:2]) if arguments.quick else (CASES, SIZES)
    print(f"SimGrid {'.'.join(map(str, smpi_version()))}; simulated, nothing is measured")
    print(f"{'':49}{'equal latencies':>20}  {'own latencies':>21}")
    print(f"{'':42} {'runs':>5}  " + "  ".join(f"{word:>10}" for word in ("mean", "max") * 2))
    found = list(differences(*few))
    for case in dict.fromkeys((each.machine, each.pattern) for each in found):
        print(_line(", ".join(case), [e for e in found if (e.machine, e.pattern) == case]))
    for order in ("default", "placed", "random"):
        print(_line(f"all, {order}", [each for each in found if each.order == order]))
    print(_line("all", found))
    print(f"{'small allreduces, in microseconds':48}{'SimGrid':>8}  {'schedule':>8}  {'floor':>8}")
    print("\n".join(rounds()))
    return 0 if statistics.mean(abs(each.equal) for each in found) <= 1e-3 else 1


if __name__ == "__main__":
    raise SystemExit(main())
