"""`advise`: settings of the user's MPI stack, predicted for a placement and verified by runs."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from toposeat import emulation, evaluation, launch
from toposeat.errors import ToposeatError, UsageError
from toposeat.model.clocked import ClockedResult
from toposeat.model.placement import Placement
from toposeat.model.protocol import Advice, Basis, Prediction, Setting, Stack, StackKind, Statement
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.pipeline.clocked import Candidate, ClockPlan, Progress, clock_placements
from toposeat.pipeline.stack_path import on_machine

EMULATED = "emulated"  # member of a topology's metadata: the stand-in that was measured


@dataclass(frozen=True, kw_only=True)
class AdviceCase:
    """A placement in use, its machine and its traffic."""

    machine: Topology
    traffic: Traffic
    placement: Placement
    path: Path
    device_of_rank: tuple[int, ...]


def predict_advice(case: AdviceCase, stack: Stack) -> Advice:
    """The settings of a stack by predicted time; nothing is run, so nothing is recommended.

    Raises:
        InputError: the machine has no curves by protocol.
        UsageError: GPUs that no setting is known for.
    """
    machine, traffic, devices = case.machine, case.traffic, case.device_of_rank
    stack = on_machine(stack, machine, traffic.ranks)
    if evaluation.measured_protocols(machine):
        stack = launch.with_crossing(stack, evaluation.crossing_bytes(machine, traffic, devices))
    present, candidates = evaluation.predict_settings(
        machine, traffic, devices, stack.rule, stack.settings
    )
    notes = []
    stand_in = machine.metadata.get(EMULATED)
    if stand_in:
        notes.append(
            f"EMULATED: the curves are those of the stand-in of {stand_in}; they say nothing about"
            " real GPUs"
        )
    unmeasured = evaluation.unmeasured_pairs(machine, traffic, devices)
    if unmeasured:
        notes.append(
            f"{unmeasured} pairs of devices in use have no curves by protocol: they are assumed to"
            " be equally fast under every setting"
        )
    if present.predicted_s is None:
        notes.append(f"the present environment cannot be predicted: {present.lacking}")
    return Advice(
        stack=stack,
        present=present,
        candidates=tuple(_possible(stack, each) for each in candidates),
        envelope_s=evaluation.envelope_seconds(machine, traffic, devices),
        pairs=evaluation.pair_notes(machine, traffic, devices, stack.rule),
        notes=tuple(notes),
    )


def verify_advice(
    case: AdviceCase,
    stack: Stack,
    plan: ClockPlan,
    *,
    environment: Mapping[str, str],
    tries: int,
    progress: Progress,
) -> Advice:
    """Ask the stack in a run what it does, predict, and clock what is predicted to be faster.

    Raises:
        UsageError: curves of a stand-in for a run that is not on it, or no tries.
        ApplicationError: a run that is clocked failed, or a signal stopped one.
        ToposeatError: the first run failed.
    """
    if tries < 1:
        raise UsageError("no candidate to try", hint="--tries 2")
    stand_in = emulation.emulated_machine(environment)
    if case.machine.metadata.get(EMULATED) and not stand_in:
        raise UsageError(
            f"{case.machine.name} was measured on a stand-in, and this run is on a real machine",
            hint="measure it: toposeat measure -t this --protocols get,put,staged -o node.json",
        )
    with launch.StopSignals() as signals:
        expected = on_machine(stack, case.machine, case.traffic.ranks)
        advice = predict_advice(case, _asked(case, expected, plan, environment, signals))
        tried = advice.promising[:tries]
        if not tried:
            return advice
        clocked = clock_placements(
            plan,
            [_candidate(case, each.setting, each.gain or 0.0) for each in tried],
            progress=progress,
            environment=environment,
            baseline=_candidate(case, advice.present.setting, 0.0),
        )
    names = tuple(each.setting.name for each in tried)
    best = _verified(clocked)
    recommended = next((each.setting for each in tried if each.setting.name == best), None)
    return replace(advice, tried=names, clocked=clocked, recommended=recommended)


def _verified(clocked: ClockedResult) -> str | None:
    """The candidate with the largest gain that is not noise; None if there is none."""
    if len(clocked.default_s) < 2:
        return None
    sure = [each for each in clocked.orders if not clocked.is_noise(each) and each.gain.mean > 0]
    return max(sure, key=lambda each: each.gain.mean).name if sure else None


def _possible(stack: Stack, prediction: Prediction) -> Prediction:
    setting = prediction.setting
    why = launch.conflict(stack, setting)
    if setting.variables.items() <= stack.variables.items():
        why = "set already"
    return replace(prediction, lacking=why) if why and not prediction.lacking else prediction


def _candidate(case: AdviceCase, setting: Setting, predicted: float) -> Candidate:
    return Candidate(
        name=setting.name,
        placement=case.placement,
        path=case.path,
        predicted=predicted,
        variables=setting.variables,
    )


def _asked(
    case: AdviceCase,
    stack: Stack,
    plan: ClockPlan,
    environment: Mapping[str, str],
    signals: launch.StopSignals,
) -> Stack:
    """The stack with what it says itself in one run; only UCX can be asked."""
    if stack.kind is not StackKind.OPENMPI_UCX:
        return stack
    mode, _ = launch.visibility_of(case.placement, plan.visibility)
    with tempfile.TemporaryFile() as output:
        record = launch.run_placed(
            plan.command,
            case.placement,
            case.path,
            visibility=mode,
            environment={**environment, "UCX_PROTO_INFO": "y"},
            stdout=output,
        )
        output.seek(0)
        text = output.read().decode(errors="replace")
    signals.check()
    if record.exit_code != 0:
        raise ToposeatError(
            f"a run ended with exit code {record.exit_code}",
            hint="its messages are above; check that the line works without toposeat",
        )
    rule = launch.device_rule(text)
    if rule is None:
        said = "a run with UCX_PROTO_INFO=y showed no message from device memory"
        return replace(
            stack, statements=(*stack.statements, Statement(said, Basis.MEASURED, "that run"))
        )
    said = f"a run with UCX_PROTO_INFO=y: {rule_words(rule.pieces)}"
    return launch.with_rule(stack, rule, Statement(said, Basis.MEASURED, "that run"))


def rule_words(pieces: Sequence[tuple[int, object]]) -> str:
    """`staged, from 38974 bytes on put`."""
    words = []
    for first, protocol in pieces:
        name = getattr(protocol, "value", str(protocol))
        words.append(name if first == 0 else f"from {first} bytes on {name}")
    return ", ".join(words)
