"""Placement and protocol chosen together, where the measured cost of a pair depends on both."""

from __future__ import annotations

from collections.abc import Mapping

from toposeat import evaluation, launch, mapping
from toposeat.errors import InputError
from toposeat.model.map_options import MapOptions
from toposeat.model.protocol import JointChoice, JointOption, Setting, Stack, rule_of
from toposeat.model.topology import CopyProtocol, Topology
from toposeat.model.traffic import Traffic
from toposeat.pipeline.stack_path import on_machine

PER_PAIR = "per-pair"


def map_with_protocols(
    machine: Topology,
    traffic: Traffic,
    options: MapOptions,
    stack_name: str,
    *,
    environment: Mapping[str, str],
) -> JointChoice:
    """Map under every setting of a stack, and take the placement with the least predicted time.

    A stack's settings count for all pairs alike. A tie goes to the present environment, then to the
    order of the documentation.

    Args:
        machine: with curves by protocol.
        traffic: bytes between ranks.
        options: of each mapping; the budget is for each.
        stack_name: of `StackKind`, or "per-pair": the best protocol for each pair and size.
        environment: whose variables steer the stack now.

    Raises:
        InputError: no curves by protocol, or of no setting of the stack.
        UsageError: no such stack.
    """
    if stack_name == PER_PAIR:
        variant = evaluation.under_envelope(machine, evaluation.typical_bytes(traffic))
        setting = Setting(name="best of each pair", variables={}, rule=rule_of(CopyProtocol.GET))
        result = mapping.map_traffic(variant, traffic, options)
        found = [JointOption(setting=setting, machine=variant, result=result)]
    else:
        stack = on_machine(launch.named_stack(stack_name, environment), machine, traffic.ranks)
        found = [
            _option(machine, traffic, each, options) for each in _settings(machine, traffic, stack)
        ]
    known = [each for each in found if each.result is not None]
    if not known:
        raise InputError(
            f"{machine.name} has no curves of what {stack_name} can do: {found[0].lacking}",
            hint="measure them: toposeat measure -t this --protocols get,put,staged -o node.json",
        )
    return JointChoice(stack=stack_name, options=tuple(found), chosen=min(known, key=_time))


def _settings(machine: Topology, traffic: Traffic, stack: Stack) -> list[Setting]:
    crossing = None
    if evaluation.measured_protocols(machine):
        default = evaluation.default_placement(traffic.ranks, machine)
        crossing = evaluation.crossing_bytes(machine, traffic, default)
    stack = launch.with_crossing(stack, crossing)
    return [Setting(name=evaluation.PRESENT, variables={}, rule=stack.rule), *stack.settings]


def _option(
    machine: Topology, traffic: Traffic, setting: Setting, options: MapOptions
) -> JointOption:
    missing = evaluation.missing_protocols(machine, setting.rule)
    if missing:
        names = ", ".join(each.value for each in missing)
        return JointOption(setting=setting, lacking=f"not measured here: {names}")
    variant = evaluation.under_rule(machine, setting.rule, evaluation.typical_bytes(traffic))
    result = mapping.map_traffic(variant, traffic, options)
    return JointOption(setting=setting, machine=variant, result=result)


def _time(option: JointOption) -> float:
    assert option.result is not None
    return option.result.placed.predicted_s
