"""`compare PATTERN`: its message sizes; default, placed and random orders of the devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from toposeat import evaluation, mapping, profile
from toposeat.errors import ToposeatError
from toposeat.launch import MicrobenchOptions
from toposeat.model.map_options import MapOptions
from toposeat.model.pair_table import Schedule
from toposeat.model.runs import GridExchange
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.pipeline.placing import open_machine
from toposeat.pipeline.stack_path import StackPath

Devices = tuple[int, ...]

_MAPPED_SIZES = 4  # sizes for which a placement is searched; all are tried at every size
_SAME = 1e-9  # relative: predicted times that differ by less are equal


@dataclass(frozen=True, kw_only=True)
class PatternPlan:
    """What will be compared: one exchange on one machine in several orders of its devices.

    `times[i]` predicts one exchange of size i. `algorithm` is that of a collective, else "". What a
    reader of the predictions must know is in `notes`.
    """

    exchange: GridExchange
    machine: Topology
    program: MicrobenchOptions
    default: Devices
    placed: Devices
    randoms: tuple[Devices, ...]
    times: tuple[Callable[[Devices], float], ...] = field(repr=False)
    algorithm: str = ""
    notes: tuple[str, ...] = ()

    def predicted(self, order: Devices) -> tuple[float, ...]:
        """Seconds of one exchange of each size, by the flow model."""
        return tuple(time(order) for time in self.times)


def plan_pattern(
    pattern: str,
    machine: Topology,
    program: MicrobenchOptions,
    *,
    options: MapOptions,
    randoms: int,
    algorithm: str | None = None,
    path: StackPath | None = None,
) -> PatternPlan:
    """Take the pattern apart and choose the orders.

    One placement serves all sizes, as it would in an application: of those found for a few of the
    sizes, the one with the least predicted time (geometric mean over the sizes) that is predicted
    slower than the default at no size. A collective is predicted step by step by its algorithm, and
    placed for the bytes of all its steps; anything else is one phase. Each size is predicted on the
    machine as `path` uses it; without one copies go straight between GPUs.
    """
    path = path or StackPath()
    exchange = profile.grid_exchange(pattern)
    if exchange.ranks > len(machine.devices):
        raise ToposeatError(
            f"{exchange.text()} has {exchange.ranks} ranks, {machine.name} has "
            f"{len(machine.devices)} devices",
            hint="a benchmark of devices needs one for each rank: use a smaller grid",
        )
    model = _model(exchange, machine, program.sizes, algorithm, path)
    generator = np.random.default_rng(options.seed)
    plan = PatternPlan(
        exchange=exchange,
        machine=machine,
        program=program,
        default=evaluation.default_placement(exchange.ranks, machine),
        placed=(),
        randoms=tuple(
            tuple(int(d) for d in generator.permutation(len(machine.devices))[: exchange.ranks])
            for _ in range(randoms)
        ),
        times=model.times,
        algorithm=_algorithm(exchange, algorithm),
        notes=path.notes(model.traffics, model.schedules),
    )
    few = {round(at) for at in np.linspace(0, len(model.traffics) - 1, _MAPPED_SIZES)}
    found = []
    machines = open_machine(machine)
    for at in sorted(few):
        traffic = model.traffics[at]
        schedule = model.schedules[at] if model.schedules else None
        used = path.open_for(machines, traffic, schedule)
        result = mapping.map_traffic(used.nominal.topology, traffic, options, machine=used)
        found.append(result.device_of_rank)
    return _with_placed(plan, found)


class _Model(NamedTuple):
    """For each size the traffic that is placed, its machine, its phases, what predicts its time."""

    traffics: list[Traffic]
    machines: list[Topology]
    schedules: list[Schedule]
    times: tuple[Callable[[Devices], float], ...]


def _model(
    exchange: GridExchange,
    machine: Topology,
    sizes: Sequence[int],
    algorithm: str | None,
    path: StackPath,
) -> _Model:
    if not exchange.is_collective and algorithm is None:
        traffics = [profile.pattern_traffic(exchange.text(size)) for size in sizes]
        machines = [path.machine_for(machine, traffic) for traffic in traffics]
        evaluators = map(evaluation.Evaluator, machines, traffics)
        return _Model(traffics, machines, [], tuple(partial(_flow_time, e) for e in evaluators))
    schedules = [profile.exchange_schedule(exchange, algorithm, size) for size in sizes]
    traffics = [profile.schedule_traffic(each) for each in schedules]
    machines = [
        path.machine_for(machine, traffic, schedule)
        for traffic, schedule in zip(traffics, schedules, strict=True)
    ]
    networks = {id(each): evaluation.compile_network(each) for each in machines}
    timers = (
        evaluation.ScheduleEvaluator(each, schedule, network=networks[id(each)])
        for each, schedule in zip(machines, schedules, strict=True)
    )
    times = tuple(partial(_schedule_time, each) for each in timers)
    return _Model(traffics, machines, schedules, times)


def _flow_time(evaluator: evaluation.Evaluator, order: Devices) -> float:
    return evaluator.evaluate(order).predicted_s


def _schedule_time(timer: evaluation.ScheduleEvaluator, order: Devices) -> float:
    return timer.time(order).seconds


def _algorithm(exchange: GridExchange, algorithm: str | None) -> str:
    if not exchange.is_collective:
        return ""
    return algorithm or profile.default_algorithm(exchange.name)


def _with_placed(plan: PatternPlan, candidates: Sequence[Devices]) -> PatternPlan:
    """The plan with the best order that is never predicted slower; the default if none gains."""
    default = plan.predicted(plan.default)
    best, best_score = plan.default, -_SAME
    for order in dict.fromkeys(candidates):
        times = plan.predicted(order)
        ratios = [t / d if d > 0 else 1.0 for t, d in zip(times, default, strict=True)]
        score = math.fsum(math.log(ratio) for ratio in ratios if ratio > 0)
        if max(ratios) <= 1 + _SAME and score < best_score - _SAME:
            best, best_score = order, score
    return replace(plan, placed=best)
