"""Which MPI stack a launch line uses, and what it will do with device messages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from toposeat.errors import UsageError
from toposeat.launch.launch_line import LaunchLine, parse_launch_line
from toposeat.launch.launchers import LauncherKind, version_answer
from toposeat.launch.stack_facts import Installed, mpich_facts, open_mpi_facts, ucx_facts
from toposeat.launch.stack_rules import expected_rule, piece_bytes, rule_for_devices
from toposeat.launch.stack_settings import STEERING, settings_of
from toposeat.model.protocol import Basis, ProtocolRule, Setting, Stack, StackKind, Statement

_CRAY_VARIABLES = ("CRAY_MPICH_VERSION", "CRAY_MPICH_DIR")
_HINT = f"say which: --stack {', '.join(kind.value for kind in StackKind)}"


def stack_of(argv: Sequence[str], environment: Mapping[str, str]) -> Stack:
    """The stack of a launch line.

    Args:
        argv: the launch line with its program.
        environment: of the job.

    Raises:
        UsageError: a launcher that does not tell which MPI its program uses.
    """
    line = parse_launch_line(argv)
    given = _variables_of_line(line)
    variables = {**environment, **given}
    if line.kind is LauncherKind.OPENMPI:
        facts = open_mpi_facts(shutil.which(line.launcher[0]) or line.launcher[0])
        kind, said = _point_to_point(facts, variables)
    elif line.kind is LauncherKind.MPICH:
        kind, said = StackKind.MPICH, ()
        facts = mpich_facts(shutil.which(line.launcher[0]) or line.launcher[0])
    elif line.kind is LauncherKind.INTEL:
        kind, said = StackKind.INTEL_MPI, ()
        found = re.search(r"Version (\S+)", version_answer(shutil.which(line.launcher[0]) or ""))
        facts = Installed(version=found[1] if found else "")
    elif any(environment.get(name) for name in _CRAY_VARIABLES):
        kind, said = StackKind.CRAY_MPICH, ()
        facts = Installed(version=environment.get("CRAY_MPICH_VERSION", ""))
    else:
        raise UsageError(
            f"the launch line does not tell which MPI {Path(line.program[0]).name} uses",
            hint=_HINT,
        )
    return _described(kind, variables, facts, said, frozenset(given))


def named_stack(name: str, environment: Mapping[str, str]) -> Stack:
    """A stack that the user names, with the defaults that are documented.

    Raises:
        UsageError: no stack has this name.
    """
    try:
        kind = StackKind(name)
    except ValueError:
        raise UsageError(f"no stack {name[:40]!r}", hint=_HINT) from None
    said = (Statement("named by --stack", Basis.ASSUMED),)
    return _described(kind, environment, Installed(), said, frozenset())


def for_devices(stack: Stack, device_names: Sequence[str], ranks: int) -> Stack:
    """The stack on these GPUs: UCX, left to itself, chooses by what it knows of their generation.

    A stack that was asked stays as it answered.

    Args:
        stack: as its launch line or its name describes it.
        device_names: products of the node.
        ranks: on the node.
    """
    if stack.kind is not StackKind.OPENMPI_UCX:
        return stack
    if any(each.basis is Basis.MEASURED for each in stack.statements):
        return stack
    found = rule_for_devices(stack.variables, device_names, ranks)
    if found is None or found[1] in stack.statements:
        return stack
    return replace(stack, rule=found[0], statements=(*stack.statements, found[1]))


def with_rule(stack: Stack, rule: ProtocolRule, said: Statement) -> Stack:
    """The stack with what a run of it has shown: that counts, instead of what was expected."""
    known = tuple(each for each in stack.statements if each.basis is not Basis.ASSUMED)
    return replace(stack, rule=rule, statements=(*known, said))


def with_crossing(stack: Stack, crossing_bytes: int | None) -> Stack:
    """The stack with the settings that a measured crossing of protocols suggests."""
    known = {name for setting in stack.settings for name in setting.variables}
    found = settings_of(stack.kind, stack.variables, crossing_bytes)
    return replace(
        stack, settings=tuple(each for each in found if set(each.variables) <= known or not known)
    )


def conflict(stack: Stack, setting: Setting) -> str:
    """Why a setting cannot be tried with this launch line; "" if it can."""
    fixed = sorted(set(setting.variables) & stack.fixed)
    if not fixed:
        return ""
    return f"the launch line itself sets {', '.join(fixed)}: remove it to try this"


def _described(
    kind: StackKind,
    variables: Mapping[str, str],
    facts: Installed,
    said: tuple[Statement, ...],
    fixed: frozenset[str],
) -> Stack:
    transport = {
        StackKind.OPENMPI_UCX: "UCX",
        StackKind.OPENMPI_OB1: "smcuda",
        StackKind.MPICH: facts.transport or "ch4",
        StackKind.CRAY_MPICH: "GPU transport layer",
        StackKind.INTEL_MPI: "GPU buffers support",
    }[kind]
    known = facts.variables
    if kind is StackKind.OPENMPI_UCX:
        ucx = ucx_facts(variables)
        transport = f"UCX {ucx.version}" if ucx.version else transport
        known, said = ucx.variables, (*said, *ucx.statements)
    steering = {name: variables[name] for name in STEERING[kind] if name in variables}
    rule, reasons = expected_rule(kind, steering, facts.defaults)
    settings = settings_of(kind, steering, None)
    usable = tuple(each for each in settings if not known or set(each.variables) <= known)
    gone = sorted({name for each in settings for name in each.variables} - known) if known else []
    if gone:
        said = (
            *said,
            Statement(f"this installation does not know {', '.join(gone)}", Basis.KNOWN),
        )
    return Stack(
        kind=kind,
        version=facts.version,
        transport=transport,
        variables=steering,
        rule=rule,
        statements=(*facts.statements, *said, *reasons),
        settings=usable,
        fixed=fixed & frozenset(STEERING[kind]),
        piece_bytes=piece_bytes(kind, steering),
    )


def _point_to_point(
    facts: Installed, variables: Mapping[str, str]
) -> tuple[StackKind, tuple[Statement, ...]]:
    """Which layer of Open MPI sends device messages."""
    asked = variables.get("OMPI_MCA_pml", "")
    if asked == "ucx":
        return StackKind.OPENMPI_UCX, (Statement("pml ucx is asked for", Basis.KNOWN),)
    if asked == "ob1":
        return StackKind.OPENMPI_OB1, (Statement("pml ob1 is asked for", Basis.KNOWN),)
    if "pml:ucx" in facts.components:
        said = "Open MPI has UCX and takes it where it finds a network or GPU transport for it"
        return StackKind.OPENMPI_UCX, (Statement(said, Basis.ASSUMED, "ompi_info"),)
    said = "this Open MPI has no UCX, so ob1 sends"
    return StackKind.OPENMPI_OB1, (Statement(said, Basis.KNOWN, "ompi_info"),)


def _variables_of_line(line: LaunchLine) -> dict[str, str]:
    """Variables that the launch line sets for the ranks; they win over the environment."""
    found: dict[str, str] = {}
    for option in line.options:
        if line.kind is LauncherKind.OPENMPI and option.name == "x" and option.values:
            name, equals, value = option.values[0].partition("=")
            if equals:
                found[name] = value
        elif line.kind is LauncherKind.OPENMPI and option.name.endswith("mca"):
            if len(option.values) == 2:
                found[f"OMPI_MCA_{option.values[0]}"] = option.values[1]
        elif option.name in ("env", "genv") and len(option.values) == 2:
            found[option.values[0]] = option.values[1]
    return {name: value for name, value in found.items() if re.fullmatch(r"\w+", name)}
