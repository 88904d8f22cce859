"""Which MPI stack a launch line uses, and what it will do with device messages."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from toposeat.errors import UsageError
from toposeat.launch.child import answer_of
from toposeat.launch.launchers.launcher import LauncherKind, LaunchLine, version_of
from toposeat.launch.line import parse_launch_line
from toposeat.launch.stack_rules import (
    CRAY_GPU,
    INTEL_GPU,
    MPICH_REPEAT,
    MPICH_THRESHOLD,
    STEERING,
    UCX_GET,
    expected_rule,
    piece_bytes,
    rule_for_devices,
    settings_of,
)
from toposeat.model.protocol import Basis, ProtocolRule, Setting, Stack, StackKind, Statement

_CRAY_VARIABLES = ("CRAY_MPICH_VERSION", "CRAY_MPICH_DIR")
_SWITCHES = {StackKind.CRAY_MPICH: CRAY_GPU, StackKind.INTEL_MPI: INTEL_GPU}
_SYSTEM_FOLDERS = tuple(map(Path, ("/usr/lib64", "/usr/lib/*-linux-gnu", "/usr/lib")))
_HINT = f"say which: --stack {', '.join(kind.value for kind in StackKind)}"


def stack_of(argv: Sequence[str], environment: Mapping[str, str]) -> Stack:
    """The stack of a launch line with its program.

    Raises:
        UsageError: a launcher that does not tell which MPI its program uses.
    """
    return _asked(tuple(argv), tuple(environment.items()))[0]


def why_not_gpu_aware(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """Why the MPI of a launch line takes no device buffers; "" if it does, or nothing tells."""
    try:
        stack, facts = _asked(tuple(argv), tuple(environment.items()))
    except UsageError:
        return ""  # srun and the like do not tell which MPI it is
    mpi = f"{stack.kind.value} {stack.version}".strip()
    switch = _SWITCHES.get(stack.kind)
    if switch is not None:
        on = stack.variables.get(switch, "0") not in ("", "0")
        return "" if on else f"{mpi} takes device buffers only with {switch}=1"
    if facts.takes_gpus is not False:
        return ""
    if stack.kind is not StackKind.OPENMPI_UCX:
        return f"{mpi} is built without a GPU library"
    if _ucx_takes_gpus(parse_launch_line(argv).launcher[0], environment) is not False:
        return ""
    return f"{mpi}: neither this Open MPI nor its UCX is built with a GPU library"


@functools.lru_cache(1)  # a verb asks for both, and an installation takes a second to answer
def _asked(argv: tuple[str, ...], around: tuple[tuple[str, str], ...]) -> tuple[Stack, Installed]:
    """The stack of a launch line, and what its installation answered."""
    environment = dict(around)
    line = parse_launch_line(argv)
    given = _variables_of_line(line)
    variables = {**environment, **given}
    launcher = shutil.which(line.launcher[0]) or line.launcher[0] if line.launcher else ""
    said: tuple[Statement, ...] = ()
    if line.kind is LauncherKind.OPENMPI:
        facts = open_mpi_facts(launcher)
        kind, said = _point_to_point(facts, variables)
    elif line.kind is LauncherKind.MPICH:
        kind, facts = StackKind.MPICH, mpich_facts(launcher)
    elif line.kind is LauncherKind.INTEL:
        kind = StackKind.INTEL_MPI
        facts = Installed(version=".".join(map(str, version_of(launcher))))
    elif any(environment.get(name) for name in _CRAY_VARIABLES):
        kind = StackKind.CRAY_MPICH
        facts = Installed(version=environment.get("CRAY_MPICH_VERSION", ""))
    else:
        raise UsageError(
            f"the launch line does not say which MPI {Path(line.program[0]).name} uses",
            hint=_HINT,
        )
    return _described(kind, variables, facts, said, frozenset(given)), facts


def named_stack(name: str, environment: Mapping[str, str]) -> Stack:
    """A stack that the user names, with the defaults that are documented."""
    try:
        kind = StackKind(name)
    except ValueError:
        raise UsageError(f"no stack {name[:40]!r}", hint=_HINT) from None
    said = (Statement("named by --stack", Basis.ASSUMED),)
    return _described(kind, environment, Installed(), said, frozenset())


def for_devices(stack: Stack, device_names: Sequence[str], ranks: int) -> Stack:
    """The stack on these GPUs: UCX, left to itself, chooses by what it knows of their generation.

    A stack that was asked stays as it answered. `device_names` are products of the node.
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
    settings = settings_of(kind, steering)
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


_TIMEOUT_S = 30
_GPU_CALLS = (b"cudaMemcpy", b"cuMemcpy", b"hipMemcpy", b"zeCommandList")
_COMPONENT = re.compile(r"^mca:(\w+):(\w+):version", re.MULTILINE)
_DEFAULT = re.compile(r"^\s*(MPIR_CVAR_\w+)=(\S*)\t", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Installed:
    """Answers of an installation; empty where it gave none.

    Attributes:
        components: "framework:name" of Open MPI's parts.
        variables: names that it knows; empty: not known, so nothing is ruled out.
        defaults: values of variables that nobody set.
        takes_gpus: whether it is built with a GPU library; None if it does not say.
    """

    version: str = ""
    transport: str = ""
    components: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)
    statements: tuple[Statement, ...] = ()
    takes_gpus: bool | None = None


def open_mpi_facts(launcher: str) -> Installed:
    """What `ompi_info` beside the launcher says."""
    program = _beside(launcher, "ompi_info")
    text = answer_of([program, "--parsable", "--all"], _TIMEOUT_S)
    if not text:
        return Installed(
            statements=(Statement("no ompi_info: its parts are not known", Basis.ASSUMED),)
        )
    version = re.search(r"^ompi:version:full:(\S+)", text, re.MULTILINE)
    components = frozenset(f"{m[1]}:{m[2]}" for m in _COMPONENT.finditer(text))
    cuda = re.search(r"built_with_cuda_support:value:(true|false)", text)
    gpu_parts = {f"accelerator:{name}" for name in ("cuda", "rocm", "ze")}
    takes_gpus = cuda[1] == "true" if cuda else None
    return Installed(
        version=version[1] if version else "",
        components=components,
        takes_gpus=True if components & gpu_parts else takes_gpus,
    )


def mpich_facts(launcher: str) -> Installed:
    """What `mpichversion` and `mpivars` beside the launcher say."""
    described = answer_of([_beside(launcher, "mpichversion")], _TIMEOUT_S)
    version = re.search(r"^MPICH Version:\s*(\S+)", described, re.MULTILINE)
    device = re.search(r"^MPICH Device:\s*(.+?)\s*$", described, re.MULTILINE)
    listed = dict(_DEFAULT.findall(answer_of([_beside(launcher, "mpivars")], _TIMEOUT_S)))
    said = []
    if described and not re.search(r"--with-(cuda|hip|ze)\b", described):
        said.append(
            Statement(
                "its configure line names no GPU library: device buffers may not work at all",
                Basis.ASSUMED,
                "mpichversion",
            )
        )
    return Installed(
        version=version[1] if version else "",
        transport=device[1] if device else "",
        variables=frozenset(listed),
        defaults={k: v for k, v in listed.items() if k in (MPICH_THRESHOLD, MPICH_REPEAT)},
        statements=tuple(said),
        takes_gpus=None if not said else _names_gpu_calls(launcher),
    )


def ucx_facts(environment: Mapping[str, str]) -> Installed:
    """What the UCX that programs would load says: that on LD_LIBRARY_PATH, else on PATH."""
    for folder in environment.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        program = Path(folder, os.pardir, "bin", "ucx_info")
        if folder and Path(folder, "libucp.so.0").exists() and program.exists():
            return _ucx_facts(str(program), environment)
    found = shutil.which("ucx_info", path=environment.get("PATH"))
    if found:
        return _ucx_facts(found, environment)
    return Installed(
        statements=(Statement("no ucx_info: UCX's version is not known", Basis.ASSUMED),)
    )


def _ucx_facts(program: str, environment: Mapping[str, str]) -> Installed:
    said = answer_of([program, "-v"], _TIMEOUT_S, environment)
    version = re.search(r"Library version:\s*(\S+)", said, re.IGNORECASE)
    listed = answer_of([program, "-c"], _TIMEOUT_S, environment)
    known = frozenset(re.findall(r"^(UCX_\w+)=", listed, re.MULTILINE))
    without: tuple[Statement, ...] = ()
    if known and not any(name.startswith("UCX_CUDA_") for name in known):
        # UCX loads its CUDA part, and lists its variables, only where there is a driver.
        text = "UCX lists no variables of its CUDA part here: no GPU driver, or built without"
        known, without = known | {UCX_GET}, (Statement(text, Basis.KNOWN, "ucx_info -c"),)
    return Installed(version=version[1] if version else "", variables=known, statements=without)


def _names_gpu_calls(launcher: str) -> bool | None:
    """Whether a library of the MPI names calls of a GPU library; None where none is found."""
    prefix = Path(os.path.realpath(launcher)).parent.parent
    found = [
        path
        for folder in ("lib", "lib64", "lib/*-linux-gnu")
        for name in ("libmpi.so*", "libmpich.so*", "libmpi-*.so*")
        for path in prefix.glob(f"{folder}/{name}")
    ]
    try:
        texts = [path.read_bytes() for path in {each.resolve() for each in found}]
    except OSError:
        return None
    return any(call in text for text in texts for call in _GPU_CALLS) if texts else None


def _ucx_takes_gpus(launcher: str, environment: Mapping[str, str]) -> bool | None:
    """Whether the UCX that programs load has a GPU transport; None if it is not found."""
    prefix = Path(os.path.realpath(shutil.which(launcher) or launcher)).parent.parent
    words = environment.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    for folder in (
        *map(Path, filter(None, words)),
        *(prefix / name for name in ("lib", "lib64")),
        *_SYSTEM_FOLDERS,
    ):
        for place in sorted(folder.parent.glob(folder.name)):
            if (place / "libucp.so.0").exists():
                return any((place / "ucx").glob("libuct_cuda*")) or any(
                    (place / "ucx").glob("libuct_rocm*")
                )
    return None


def _beside(launcher: str, name: str) -> str:
    """A program of the same installation: beside the launcher or where its link leads."""
    for place in (Path(launcher), Path(os.path.realpath(launcher))):
        suffix = place.suffix if place.suffix in (".openmpi", ".mpich") else ""
        for word in (f"{name}{suffix}", name):
            if place.with_name(word).exists():
                return str(place.with_name(word))
    return ""
