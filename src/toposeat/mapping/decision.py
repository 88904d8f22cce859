"""Default or another placement, on listed devices and on slots alike: guard, proof and result.

What differs between the two is behind an evaluator: what a placement takes, and the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from toposeat.model.evaluation import Certificate, Evaluation, MappingResult
from toposeat.model.map_options import MapOptions
from toposeat.model.topology import Topology

if TYPE_CHECKING:  # one node needs none of them
    from toposeat.mapping.shapes import Shape

SAME = 1e-9  # share by which values differ that are computed in another order


class Evaluating(Protocol):
    """A machine and a traffic, compiled once for any number of placements."""

    @property
    def default(self) -> Sequence[int]:
        """What a job has without a placement."""

    def evaluate(self, device_of_rank: Sequence[int]) -> Evaluation:
        """What a placement is predicted to take."""


# ---- the guard


def why_slower(default: Evaluation, placed: Evaluation) -> str:
    """Why the default is kept where phases take longer, at one end of their range; "" else."""
    limit = 1 + SAME
    if placed.phases and placed.predicted_s > default.predicted_s * limit:
        return "kept the default: its phases one after the other take less"
    if placed.phases and placed.low_s > default.low_s * limit:
        return "kept the default: its slowest phase takes less"
    return ""


def gains(default: Evaluation, placed: Evaluation, objective: str) -> bool:
    """Whether a placement is better by the objective; by time also with all phases at once."""
    values = [tuple(each.value(objective) for each in (placed, default))]
    if objective == "time":
        values.append((placed.low_s, default.low_s))
    return any(new < old * (1 - SAME) for new, old in values)


def why_keep_default(default: Evaluation, placed: Evaluation, options: MapOptions) -> str:
    """Why the default is kept: it is faster at one end of the range of phases, or too little less.

    "" where the placement is to be taken.
    """
    if why := why_slower(default, placed):
        return why
    if placed.phases and not gains(default, placed, options.objective):
        return "kept the default: groups gain nothing by another order"
    return too_little(default, placed, options)


def too_little(default: Evaluation, placed: Evaluation, options: MapOptions) -> str:
    """Why what a placement saves is not worth it; "" where it is."""
    return options.why_keep_default(*(each.value(options.objective) for each in (default, placed)))


# ---- the result


def certificate_of(
    objective: str,
    placed: Evaluation,
    *,
    reason: str,
    bound: float | None = None,
    proved: bool = False,
    everywhere: bool = True,
    orders_tried: int | None = None,
) -> Certificate:
    """What a search proved, with the value as the evaluation states it."""
    value = placed.value(objective)
    gap = 0.0 if proved else max(0.0, value / bound - 1) if bound else None
    return Certificate(
        objective=objective,
        proved=proved,
        value=value,
        lower_bound=bound,
        gap=gap,
        reason=reason,
        everywhere=everywhere,
        orders_tried=orders_tried,
    )


def result_of(
    machine: Topology | Shape,
    default: Evaluation,
    placed: Evaluation,
    options: MapOptions,
    certificate: Certificate,
    *,
    solver: str,
    solve_seconds: float = 0.0,
    **members: Any,
) -> MappingResult:
    """The default and a placement as a result; `members` are those that some machines have."""
    if isinstance(machine, Topology):
        name, per_host = machine.name, _devices_of_each(machine)
    else:
        name, per_host = machine.text, machine.slots_per_host
    return MappingResult(
        device_of_rank=placed.device_of_rank,
        default=default,
        placed=placed,
        certificate=certificate,
        objective=options.objective,
        metric=options.metric,
        solver=solver,
        solve_seconds=solve_seconds,
        seed=options.seed,
        topology=name,
        hosts=machine.hosts,
        slots_per_host=per_host,
        **members,
    )


def _devices_of_each(topology: Topology) -> int:
    """How many devices each host has, where all have as many and stand after each other; else 0."""
    each = len(topology.devices) // max(1, len(topology.hosts))
    alike = [host for host in topology.hosts for _ in range(each)]
    return each if [device.host for device in topology.devices] == alike else 0
