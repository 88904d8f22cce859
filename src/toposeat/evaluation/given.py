"""Placements that were given, not searched for, in the form of mapping results."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.evaluation.corners import premises_of_gains
from toposeat.evaluation.evaluation import Evaluator
from toposeat.model.evaluation import Certificate, MappingResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic


def assess(
    topology: Topology,
    traffic: Traffic,
    placements: Sequence[Sequence[int]],
    *,
    metric: str = "bandwidth",
    readings: Sequence[Topology] = (),
) -> tuple[MappingResult, ...]:
    """Given placements beside the default, in the form of mapping results without a proof.

    Args:
        topology: the machine.
        traffic: bytes between ranks.
        placements: the device of each rank, of each placement.
        metric: of the pairwise cost.
        readings: other machines that its sources allow, on which gains depend.
    """
    evaluator = Evaluator(topology, traffic, metric=metric)
    default, *found = evaluator.evaluate_default(), *map(evaluator.evaluate, placements)
    rows = [each.device_of_rank for each in (default, *found)]
    _, *premises = premises_of_gains(topology, evaluator, rows, readings)
    return tuple(
        MappingResult(
            device_of_rank=placed.device_of_rank,
            default=default,
            premises=each,
            placed=placed,
            certificate=Certificate(
                objective="time",
                proved=False,
                value=placed.predicted_s,
                lower_bound=None,
                gap=None,
                reason="a placement that was given, not searched for",
            ),
            objective="time",
            metric=metric,
            solver="given",
            solve_seconds=0.0,
            seed=0,
            topology=topology.name,
            hosts=topology.hosts,
        )
        for placed, each in zip(found, premises, strict=True)
    )
