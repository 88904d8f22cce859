"""Placements that were given, not searched for, in the form of mapping results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toposeat.evaluation import Evaluator, premises_of_gains
from toposeat.mapping.decision import Evaluating, certificate_of, result_of
from toposeat.mapping.mapper import with_hosts
from toposeat.mapping.shapes import Shape
from toposeat.mapping.slot_evaluation import SlotEvaluator
from toposeat.model.evaluation import MappingResult
from toposeat.model.map_options import MapOptions
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic


def assess(
    machine: Topology | Shape,
    traffic: Traffic,
    placements: Sequence[Sequence[int]],
    *,
    metric: str = "bandwidth",
    readings: Sequence[Topology] = (),
    shape: Shape | None = None,
    default: Sequence[int] | None = None,
) -> tuple[MappingResult, ...]:
    """Given placements beside the default, in the form of mapping results without a proof.

    Args:
        machine: whose devices are listed, or the shape of one.
        traffic: bytes between ranks.
        placements: the device of each rank, of each placement.
        metric: of the pairwise cost.
        readings: other machines that its sources allow, on which gains depend.
        shape: of a listed machine whose hosts are equal.
        default: what they stand beside, where options made it another than the usual one.
    """
    options = MapOptions(metric=metric, seed=0)
    members: list[dict[str, Any]]
    if isinstance(machine, Topology):
        listed = Evaluator(machine, traffic, metric=metric)
        evaluator: Evaluating = listed
        rows = [tuple(default or listed.default), *map(tuple, placements)]
        _, *premises = premises_of_gains(machine, listed, rows, readings)
        members = [{"premises": each} for each in premises]
    else:
        by_slots = evaluator = SlotEvaluator(machine, traffic)
        members = [{"notes": machine.notes, "stages": by_slots.stages}] * len(placements)
    before, *found = map(evaluator.evaluate, (default or evaluator.default, *placements))
    if isinstance(evaluator, SlotEvaluator):
        before, *found = map(evaluator.with_trees, (before, *found))
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
