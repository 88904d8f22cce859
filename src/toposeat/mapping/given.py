"""Placements that were given, not searched for, in the form of mapping results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toposeat.evaluation import Evaluator
from toposeat.evaluation.scenarios import OpenMachine, Scenarios
from toposeat.mapping.decision import Evaluating, certificate_of, premises_of, result_of
from toposeat.mapping.mapper import with_hosts
from toposeat.mapping.shapes import Shape
from toposeat.mapping.slot_evaluation import SlotEvaluator
from toposeat.model.evaluation import MappingResult
from toposeat.model.map_options import MIN_GAIN, MapOptions
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic


def assess(
    machine: Topology | Shape,
    traffic: Traffic,
    placements: Sequence[Sequence[int]],
    *,
    metric: str = "bandwidth",
    open_machine: OpenMachine | None = None,
    shape: Shape | None = None,
    default: Sequence[int] | None = None,
) -> tuple[MappingResult, ...]:
    """Given placements beside the default, in the form of mapping results without a proof.

    Args:
        machine: whose devices are listed, or the shape of one.
        traffic: bytes between ranks.
        placements: the device of each rank, of each placement.
        metric: of the pairwise cost.
        open_machine: the same machine with what its sources leave open; None: nothing.
        shape: of a listed machine whose hosts are equal.
        default: what they stand beside, where options made it another than the usual one.
    """
    options = MapOptions(metric=metric, seed=0)
    members: list[dict[str, Any]]
    if isinstance(machine, Topology):
        compiled = None if open_machine is None else open_machine.nominal
        listed = Evaluator(machine, traffic, metric=metric, machine=compiled)
        evaluator: Evaluating = listed
        rows = [tuple(default or listed.default), *map(tuple, placements)]
        machines = open_machine or OpenMachine(machine, compiled=listed.machine)
        before = listed.evaluate(rows[0])
        outlook = Scenarios(listed, machines, rows, latency=before.latency).outlook(rows)
        of_phases = listed.groups is not None and len(listed.groups.phases) > 1
        members = [
            {"premises": premises_of(outlook, at, machines, MIN_GAIN, of_phases=of_phases)}
            for at in range(1, len(rows))
        ]
    else:
        by_slots = evaluator = SlotEvaluator(machine, traffic)
        members = [{"notes": machine.notes, "stages": by_slots.stages}] * len(placements)
        before = by_slots.with_other_ways(by_slots.evaluate(default or by_slots.default))
    found = [*map(evaluator.evaluate, placements)]
    if isinstance(evaluator, SlotEvaluator):
        found = [*map(evaluator.with_other_ways, found)]
    why = "a placement that was given, not searched for"
    results = tuple(
        result_of(
            machine,
            before,
            placed,
            options,
            certificate_of("time", placed, reason=why),
            solver="given",
            **own,
        )
        for placed, own in zip(found, members, strict=True)
    )
    return results if shape is None else tuple(with_hosts(shape, traffic, r) for r in results)
