"""What the order of ranks could gain on a machine, for which kind of job, and what it costs others.

No profile is needed: common patterns stand for the kinds of jobs. The answer holds for these
patterns; others may gain more or less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from toposeat import evaluation, mapping, profile
from toposeat.model.health import TOLERANCE, JobOrder, OrderEffect, PossibleGain
from toposeat.model.map_options import MapOptions
from toposeat.model.quantity import WORTH_SAYING
from toposeat.model.record import Record
from toposeat.model.topology import Topology
from toposeat.pipeline.placing import open_machine

MAX_DEVICES = 128  # beyond, a verdict would take minutes
_LAYERS = 32  # of a language model whose pattern names none

Row = tuple[int, ...]


class Kind(Record, frozen=True, kw_only=True):
    """A kind of job: each pattern of `placed` is placed, and every order is judged by all."""

    words: str
    placed: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        """All that stand for the kind."""
        return self.placed + self.judged


def possible_gains(
    machine: Topology,
) -> tuple[tuple[PossibleGain, ...], tuple[JobOrder, ...]]:
    """Place one rank per device for common patterns, and judge what was found by all of them.

    Args:
        machine: 2 to `MAX_DEVICES` devices; others have no gains.

    Returns:
        One gain per pattern, the largest first; and the orders that are worth a line, that for all
        kinds of jobs first.
    """
    count = len(machine.devices)
    if not 2 <= count <= MAX_DEVICES or not machine.routes:
        return (), ()
    machines = open_machine(machine)
    kinds = tuple(kinds_for(count, hosts=len(machine.hosts)))
    jobs = {pattern: _Job(machines, pattern) for kind in kinds for pattern in kind.patterns}
    gains = [_gain(jobs[pattern], kind.words) for kind in kinds for pattern in kind.placed]
    gains.sort(key=lambda gain: -gain.share)
    rows = dict.fromkeys(gain.device_of_rank for gain in gains if gain.share >= WORTH_SAYING)
    orders = _worth_a_line(_judged(jobs, kinds, list(rows))) if rows else ()
    return tuple(gains), orders


def kinds_for(ranks: int, *, hosts: int = 1) -> Iterator[Kind]:
    """The kinds of jobs that people run, as far as patterns of them have so many ranks.

    On one host a library orders the group of all devices itself: no order changes its time.
    """
    groups = [(size, ranks // size) for size in (2, 4) if ranks % size == 0 and ranks > size]
    parts = sorted({2, ranks // 2}) if ranks % 2 == 0 and ranks > 2 else []
    grids = {dimensions: _grid(ranks, dimensions) for dimensions in (2, 3)}
    halos = [
        f"stencil{dimensions}d:{'x'.join(map(str, grid))}"
        for dimensions, grid in grids.items()
        if grid[0] > 1
    ]

    def each(form: str, at: slice = slice(None)) -> list[str]:
        return [form.format(size, rest) for size, rest in groups[at]]

    fsdp, first, last = "llm:tp={},dp={},fsdp", slice(1), slice(-1, None)
    expert = f"llm:tp=1,dp={ranks},ep={{}},experts=8"
    kinds: tuple[tuple[str, list[str], list[str]], ...] = (  # placed and judged
        (
            "tensor parallel",
            each("llm:tp={},dp={}"),
            [f"llm:tp={size},{_stages(rest)}" for size, rest in groups],
        ),
        (
            "tensor parallel with FSDP",
            each(fsdp, first),
            [*each(f"llm:model=llama-3.1-8b,{fsdp[4:]}", first), *each(fsdp, slice(1, None))],
        ),
        (
            "pipeline with data parallel",
            [f"llm:tp=1,{_stages(ranks)}"],
            [*(f"llm:tp=1,{_stages(n)},dp={ranks // n}" for n in parts), f"ring:{ranks}"],
        ),
        ("sharded data parallel", [], [f"llm:tp=1,dp={ranks},fsdp"] if hosts > 1 else []),
        ("context and expert parallel", [], [*each("llm:tp=1,cp={},dp={}"), *each(expert, last)]),
        ("decode on two and four GPUs", [], each("llm:tp={},dp={},mode=decode")),
        ("2-D and 3-D halo", [*halos[:1], *(f"{halo},weight=3" for halo in halos)], halos[1:]),
        ("all-to-all in groups", each("alltoall:{}x{}"), []),
    )
    for words, placed, judged in kinds:
        if placed or judged:
            yield Kind(words=words, placed=tuple(placed), judged=tuple(judged))


def _stages(stages: int) -> str:
    """Stages of a language model, of as many layers as they divide."""
    return f"pp={stages}" if _LAYERS % stages == 0 else f"pp={stages},layers={4 * stages}"


class _Job:
    """A pattern on a machine, compiled once for all that is asked of it."""

    def __init__(self, machines: evaluation.OpenMachine, pattern: str) -> None:
        self.machines, self.pattern = machines, pattern
        self.machine = machines.nominal.topology
        self.traffic = profile.pattern_traffic(pattern)
        self.evaluator = evaluation.Evaluator(self.machine, self.traffic, machine=machines.nominal)


def _gain(job: _Job, kind: str) -> PossibleGain:
    result = mapping.map_traffic(
        job.machine,
        job.traffic,
        MapOptions(),
        machine=job.machines,
        evaluator=job.evaluator,
    )
    certificate = result.certificate
    return PossibleGain(
        pattern=job.pattern,
        kind=kind,
        default_s=result.default.predicted_s,
        placed_s=result.placed.predicted_s,
        bound_s=certificate.lower_bound,
        proved=certificate.word == "proved" or result.uniform,
        premises=result.premises,
        device_of_rank=result.device_of_rank,
    )


def _judged(
    jobs: Mapping[str, _Job],
    kinds: Sequence[Kind],
    rows: Sequence[Row],
) -> list[JobOrder]:
    """What each order does to each kind of job."""
    effects: list[list[OrderEffect]] = [[] for _ in rows]
    for kind in kinds:
        ranges = [_ranges(jobs[pattern], rows) for pattern in kind.patterns]
        for each, of_row in zip(effects, zip(*ranges, strict=True), strict=True):
            each.append(OrderEffect(kind=kind.words, patterns=kind.patterns, ranges=of_row))
    return [
        JobOrder(device_of_rank=row, effects=tuple(each))
        for row, each in zip(rows, effects, strict=True)
    ]


def _ranges(job: _Job, rows: Sequence[Row]) -> list[tuple[float, float]]:
    """The least and the largest share that each order saves, on all machines that are allowed.

    Rings are searched anew for every set of devices and every machine, which costs more than all
    else here: an order that groups lose by with nominal numbers is not looked at on the others.
    """
    evaluator = job.evaluator
    default = evaluation.default_placement(job.traffic.ranks, job.machine)
    found: dict[Row, tuple[float, float]] = {}
    if evaluator.groups is not None:
        base, *times = map(evaluator.predicted_s, (default, *rows))
        for row, seconds in zip(rows, times, strict=True):
            if seconds > base * (1 + TOLERANCE):
                found[row] = (1 - seconds / base,) * 2
    rest = [row for row in rows if row not in found]
    every = [default, *rest]
    gains = evaluation.Scenarios(evaluator, job.machines, every).outlook(every).gains()
    found |= {
        row: (float(gains[:, at].min()), float(gains[:, at].max()))
        for at, row in enumerate(rest, start=1)
    }
    return [found[row] for row in rows]


def _worth_a_line(found: Sequence[JobOrder]) -> tuple[JobOrder, ...]:
    """The best order that is slower for no kind, then the best one of each kind that saves more.

    Of orders that are as good for a kind, the one that costs the others least. An order that saves
    something for sure for no kind is not worth one: what it may save, it may also not.
    """
    found = [
        order
        for order in found
        if any(low >= WORTH_SAYING for e in order.effects if not e.slower for low, _ in e.ranges)
    ]
    if not found:
        return ()
    harmless = [order for order in found if not order.costs]
    for_all = max(harmless, key=lambda order: sum(e.middle for e in order.effects), default=None)
    served: dict[Row, list[str]] = {}
    for number, effect in enumerate(found[0].effects):
        able = [order for order in found if order.effects[number].is_gain]
        least = max((o.effects[number].middle for o in able), default=0) - WORTH_SAYING
        if not able or (for_all is not None and for_all.effects[number].middle >= least):
            continue
        near = [order for order in able if order.effects[number].middle >= least]
        best = max(near, key=lambda order: sum(cost.low for cost in order.costs))
        served.setdefault(best.device_of_rank, []).append(effect.kind)
    labelled = [
        replace(order, kinds=tuple(served[order.device_of_rank]))
        for order in found
        if order.device_of_rank in served
    ]
    return (*([] if for_all is None else [for_all]), *labelled)


def _grid(ranks: int, dimensions: int) -> tuple[int, ...]:
    """The most even grid of `ranks`, smallest extent first; 1 where it has no such divisor."""
    if dimensions == 1:
        return (ranks,)
    least = max(
        d for d in range(1, int(math.exp(math.log(ranks) / dimensions) + 1e-9) + 1) if not ranks % d
    )
    return tuple(sorted((least, *_grid(ranks // least, dimensions - 1))))
