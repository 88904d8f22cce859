"""`bench`: one pattern over many message sizes; default, placed and random orders of devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from toposeat import evaluate, profile
from toposeat.errors import ToposeatError
from toposeat.evaluate.paired import paired_gain
from toposeat.launch.microbench import MicrobenchOptions
from toposeat.model.bench import BenchOrder, BenchResult, BenchRow, BenchRun, BenchSource, Gain
from toposeat.model.exchange import GridExchange
from toposeat.model.topology import Topology
from toposeat.pipeline.placing import MapOptions

Devices = tuple[int, ...]
Progress = Callable[[int, int], None]

_MAPPED_SIZES = 4  # sizes for which a placement is searched; all are tried at every size
_SAME = 1e-9  # relative: predicted times that differ by less are equal


@dataclass(frozen=True, kw_only=True)
class BenchPlan:
    """What will be compared: one exchange on one machine in several orders of its devices."""

    exchange: GridExchange
    machine: Topology
    program: MicrobenchOptions
    default: Devices
    placed: Devices
    randoms: tuple[Devices, ...]
    evaluators: tuple[evaluate.Evaluator, ...] = field(repr=False)  # one per size

    def predicted(self, order: Devices) -> tuple[float, ...]:
        """Seconds of one exchange of each size, by the flow model."""
        return tuple(each.evaluate(order).predicted_s for each in self.evaluators)


def plan_bench(
    pattern: str,
    machine: Topology,
    program: MicrobenchOptions,
    *,
    options: MapOptions,
    randoms: int,
) -> BenchPlan:
    """Take the pattern apart and choose the orders.

    One placement serves all sizes, as it would in an application: of those found for a few of the
    sizes, the one with the least predicted time (geometric mean over the sizes) that is predicted
    slower than the default at no size.

    Raises:
        UsageError: a pattern that no microbenchmark runs.
        ToposeatError: the ranks do not fit.
    """
    exchange = profile.grid_exchange(pattern)
    if exchange.ranks > len(machine.devices):
        raise ToposeatError(
            f"{exchange.text()} has {exchange.ranks} ranks, {machine.name} has "
            f"{len(machine.devices)} devices",
            hint="a benchmark of devices needs one for each rank: use a smaller grid",
        )
    traffics = [profile.pattern_traffic(exchange.text(size)) for size in program.sizes]
    generator = np.random.default_rng(options.seed)
    plan = BenchPlan(
        exchange=exchange,
        machine=machine,
        program=program,
        default=evaluate.default_placement(exchange.ranks, machine),
        placed=(),
        randoms=tuple(
            tuple(int(d) for d in generator.permutation(len(machine.devices))[: exchange.ranks])
            for _ in range(randoms)
        ),
        evaluators=tuple(evaluate.Evaluator(machine, traffic) for traffic in traffics),
    )
    few = sorted({round(at) for at in np.linspace(0, len(traffics) - 1, _MAPPED_SIZES)})
    found = [options.map(machine, traffics[at]).device_of_rank for at in few]
    return _with_placed(plan, found)


def _with_placed(plan: BenchPlan, candidates: Sequence[Devices]) -> BenchPlan:
    """The plan with the best order that is never predicted slower; the default if none gains."""
    default = plan.predicted(plan.default)
    best, best_score = plan.default, -_SAME
    for order in dict.fromkeys(candidates):
        times = plan.predicted(order)
        ratios = [t / d if d > 0 else 1.0 for t, d in zip(times, default, strict=True)]
        score = math.fsum(math.log(ratio) for ratio in ratios if ratio > 0)
        if max(ratios) <= 1 + _SAME and score < best_score - _SAME:
            best, best_score = order, score
    return BenchPlan(
        exchange=plan.exchange,
        machine=plan.machine,
        program=plan.program,
        default=plan.default,
        placed=best,
        randoms=plan.randoms,
        evaluators=plan.evaluators,
    )


def predict_bench(plan: BenchPlan) -> BenchResult:
    """The bench by the flow model: every exchange is one phase; nothing is run."""
    return once_each(plan, BenchSource.PREDICTED, plan.predicted)


def once_each(
    plan: BenchPlan, source: BenchSource, times: Callable[[Devices], Sequence[float]]
) -> BenchResult:
    """A result of times that are the same whenever they are asked for."""
    named = [(BenchOrder.DEFAULT, plan.default), (BenchOrder.PLACED, plan.placed)]
    named += [(BenchOrder.RANDOM, order) for order in plan.randoms]
    runs = [
        BenchRun(order=name, device_of_rank=order, repeat=0, seconds=tuple(times(order)))
        for name, order in named
    ]
    return result_of(plan, source, runs, repeats=1)


def result_of(
    plan: BenchPlan, source: BenchSource, runs: Sequence[BenchRun], *, repeats: int
) -> BenchResult:
    """Rows from runs: each order against the mean of the default's runs of the same repeat."""
    forecast = None
    if source is not BenchSource.PREDICTED:
        pair = zip(plan.predicted(plan.default), plan.predicted(plan.placed), strict=True)
        forecast = [1 - after / before if before > 0 else 0.0 for before, after in pair]
    rows = []
    for at, size in enumerate(plan.program.sizes):
        times = _times_at(runs, at)
        base = _base(times)
        rows.append(
            BenchRow(
                bytes=size,
                default_s=float(np.mean(list(base.values()))),
                placed_s=float(np.mean([s for _, s in times[BenchOrder.PLACED]])),
                placed=_gain(base, times[BenchOrder.PLACED]) or Gain(mean=0.0),
                random=_gain(base, times[BenchOrder.RANDOM]),
                control=_gain(dict(times[BenchOrder.DEFAULT]), times[BenchOrder.AGAIN]),
                predicted=None if forecast is None else forecast[at],
            )
        )
    return BenchResult(
        pattern=plan.exchange.text(),
        ranks=plan.exchange.ranks,
        topology=plan.machine.name,
        source=source,
        device_of_rank=plan.placed,
        rows=tuple(rows),
        runs=tuple(runs),
        repeats=repeats,
        randoms=len(plan.randoms),
    )


_Times = dict[BenchOrder, list[tuple[int, float]]]  # (repeat, seconds) of each run


def _times_at(runs: Sequence[BenchRun], at: int) -> _Times:
    times: _Times = {order: [] for order in BenchOrder}
    for run in runs:
        times[run.order].append((run.repeat, run.seconds[at]))
    return times


def _base(times: _Times) -> dict[int, float]:
    """The default's seconds in each repeat: the mean of its two runs, one early and one late."""
    both: dict[int, list[float]] = {}
    for repeat, seconds in times[BenchOrder.DEFAULT] + times[BenchOrder.AGAIN]:
        both.setdefault(repeat, []).append(seconds)
    return {repeat: float(np.mean(seconds)) for repeat, seconds in both.items()}


def _gain(base: dict[int, float], times: Sequence[tuple[int, float]]) -> Gain | None:
    pairs = [(base[repeat], seconds) for repeat, seconds in times if base[repeat] > 0]
    return paired_gain([a for a, _ in pairs], [b for _, b in pairs]) if pairs else None
