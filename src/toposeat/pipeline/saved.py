"""A placement that is read again, as it was answered when it was saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from toposeat.mapping import Machine
from toposeat.model.evaluation import MappingResult
from toposeat.model.placement import VERDICT_KEY, Placement
from toposeat.model.traffic import Traffic
from toposeat.pipeline.answer import Answer, answer_in
from toposeat.pipeline.placing import positions_in
from toposeat.pipeline.stack_path import StackPath, assess, path_of_stack


def result_of_saved(
    machine: Machine,
    placement: Placement,
    traffic: Traffic,
    path: Path,
    environment: Mapping[str, str] | None = None,
) -> MappingResult:
    """A saved placement on its machine, as it was answered where nothing has changed since.

    Args:
        machine: that the placement was made for, or another one.
        placement: as it was saved.
        traffic: that it was made for, or another one.
        path: of the placement, for messages.
        environment: variables of this process, where the machine is this one.
    """
    row = positions_in(machine, placement, traffic, path)
    answer = answer_in(placement)
    if answer is None:
        return assess(machine, traffic, [row])[0]
    stack = _stack_of(placement, machine, traffic, answer, environment)
    listed = machine.topology if answer.is_listed else None
    devices = 0 if listed is None else len(listed.devices)
    result = assess(
        machine,
        traffic,
        [row],
        path=stack,
        metric=answer.metric,
        default=answer.default_on(traffic.ranks, devices),
        wanted=answer.is_listed,
    )[0]
    result = replace(result, objective=answer.objective)
    if not answer.is_of(result):
        said = placement.metadata.get(VERDICT_KEY, "")
        note = f"machine, traffic, order or settings were others when this was saved: {said}"
        return replace(result, notes=(note, *result.notes))
    return replace(
        result,
        certificate=answer.certificate,
        solver=answer.solver,
        solve_seconds=answer.solve_seconds,
        seed=answer.seed,
        uniform=answer.uniform,
        notes=answer.notes,
        premises=answer.premises,
        transport=answer.transport,
    )


def _stack_of(
    placement: Placement,
    machine: Machine,
    traffic: Traffic,
    answer: Answer,
    environment: Mapping[str, str] | None,
) -> StackPath:
    """The path that the answer was predicted for."""
    name = placement.metadata.get("stack")
    listed = machine.topology if answer.is_listed else None
    found = path_of_stack(name, None, listed, traffic.ranks, environment=environment or {})
    return found if name or environment is None else found.in_environment(environment)
