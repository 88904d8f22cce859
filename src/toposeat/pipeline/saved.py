"""A placement that is read again, as it was answered when it was saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from toposeat.mapping import Machine
from toposeat.model.evaluation import MappingResult
from toposeat.model.placement import VERDICT_KEY, Placement
from toposeat.model.traffic import Traffic
from toposeat.pipeline.answer import answer_in
from toposeat.pipeline.placing import positions_in
from toposeat.pipeline.stack_path import assess, path_of_stack


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
    listed = machine.topology if answer.is_listed else None
    name, around = placement.metadata.get("stack"), environment or {}
    way = path_of_stack(name, None, listed, traffic.ranks, environment=around)
    if not name and environment is not None:
        way = way.in_environment(environment)
    devices = 0 if listed is None else len(listed.devices)
    result = assess(
        machine,
        traffic,
        [row],
        path=way,
        metric=answer.metric,
        default=answer.default_on(traffic.ranks, devices),
        wanted=answer.is_listed,
    )[0]
    if answer.is_of(result):
        return answer.given_by(result)
    said = placement.metadata.get(VERDICT_KEY, "")
    note = f"machine, traffic, order or settings were others when this was saved: {said}"
    return replace(result, objective=answer.objective, notes=(note, *result.notes))
