"""`advise`: settings of the user's MPI stack, clocked with a placement."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from toposeat import launch
from toposeat.errors import ToposeatError
from toposeat.model.placement import Placement
from toposeat.model.protocol import (
    Advice,
    Basis,
    ProtocolRule,
    Setting,
    Stack,
    StackKind,
    Statement,
)
from toposeat.model.record import Record
from toposeat.model.runs import ClockedResult
from toposeat.pipeline.clocked import Candidate, ClockPlan, Progress, clock_placements

PRESENT = "present"


class AdviceCase(Record, frozen=True, kw_only=True):
    """A placement in use, and where it was read."""

    placement: Placement
    path: Path


def settings_to_try(stack: Stack) -> Advice:
    """The settings of a stack, and why some of them cannot be tried; nothing is run."""
    skipped = {each.name: why for each in stack.settings if (why := _why_not(stack, each))}
    return Advice(stack=stack, skipped=skipped)


def clocked_advice(
    case: AdviceCase,
    stack: Stack,
    plan: ClockPlan,
    *,
    environment: Mapping[str, str],
    progress: Progress,
) -> Advice:
    """Ask the stack in a run what it does, and clock every setting that would change it."""
    with launch.StopSignals() as signals:
        advice = settings_to_try(_asked(case, stack, plan, environment, signals))
        tried = advice.tried
        if not tried:
            return advice
        clocked = clock_placements(
            plan,
            [_candidate(case, each.name, each.variables) for each in tried],
            progress=progress,
            environment=environment,
            baseline=_candidate(case, PRESENT, {}),
        )
    best = _verified(clocked)
    recommended = next((each for each in tried if each.name == best), None)
    return replace(advice, clocked=clocked, recommended=recommended)


def _verified(clocked: ClockedResult) -> str | None:
    """The candidate with the largest gain that is not noise; None if there is none."""
    if len(clocked.default_s) < 2:
        return None
    sure = [each for each in clocked.orders if not clocked.is_noise(each) and each.gain.mean > 0]
    return max(sure, key=lambda each: each.gain.mean).name if sure else None


def _why_not(stack: Stack, setting: Setting) -> str:
    if setting.variables.items() <= stack.variables.items():
        return "set already"
    if setting.rule == stack.rule and any(s.basis is Basis.MEASURED for s in stack.statements):
        return "what it does already, as that run showed"
    return launch.conflict(stack, setting)


def _candidate(case: AdviceCase, name: str, variables: Mapping[str, str]) -> Candidate:
    return Candidate(name=name, placement=case.placement, path=case.path, variables=variables)


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
    mode, _ = launch.visibility_of(case.placement, None)
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
    said = f"a run with UCX_PROTO_INFO=y: {_rule_words(rule)}"
    return launch.with_rule(stack, rule, Statement(said, Basis.MEASURED, "that run"))


def _rule_words(rule: ProtocolRule) -> str:
    """`staged, from 38974 bytes on put`."""
    words = []
    for first, protocol in rule.pieces:
        words.append(protocol.value if first == 0 else f"from {first} bytes on {protocol.value}")
    return ", ".join(words)
