"""A placement that was given, not searched for, in the form of a mapping result."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.evaluation.corners import premises_of_gains
from toposeat.evaluation.evaluation import Evaluator
from toposeat.model.evaluation import Certificate, MappingResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic


def assess(topology: Topology, traffic: Traffic, device_of_rank: Sequence[int]) -> MappingResult:
    """A given placement beside the default, in the form of a mapping result without a proof."""
    evaluator = Evaluator(topology, traffic)
    placed, default = evaluator.evaluate(device_of_rank), evaluator.evaluate_default()
    rows = (default.device_of_rank, placed.device_of_rank)
    return MappingResult(
        device_of_rank=placed.device_of_rank,
        default=default,
        premises=premises_of_gains(topology, evaluator, rows)[1],
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
        metric="bandwidth",
        solver="given",
        solve_seconds=0.0,
        seed=0,
        topology=topology.name,
        hosts=topology.hosts,
    )
