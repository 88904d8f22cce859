"""What observes the ranks of a launch line, and why a run may have left no records.

Observers are an interposer for MPI and a hook for `torch.distributed`: the folder
`launch/python_hook`, put in front of PYTHONPATH. Any Python below the line loads it, whoever starts
it and whatever the program is called.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from toposeat.errors import MissingProgramError, ToposeatError
from toposeat.launch import LauncherKind, LaunchLine, server_of, unwrapped
from toposeat.launch.ledger import Fault, Ledger
from toposeat.launch.python_hook import hooked_path
from toposeat.model.hostlist import compress_hostlist
from toposeat.model.record import Record
from toposeat.profile.recording.gathering import ALLOCATION_ENDED
from toposeat.profile.recording.library import as_python_program, choose_library, inspect_linkage
from toposeat.profile.records.merge import noted_hosts
from toposeat.profile.records.segment import CAUSE_SUFFIX

_DEAF = {"-I": "isolated: it reads no PYTHONPATH", "-E": "reads no PYTHONPATH", "-S": "no `site`"}


class Recorders(Record, frozen=True, kw_only=True):
    """What observes a program; one of the two at least.

    Attributes:
        library: the interposer to preload; None where the program has no MPI that is known.
        hooks_torch: whether the program may be, or start, Python.
    """

    library: Path | None
    hooks_torch: bool = False

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What is set for the ranks, beside what both recorders want."""
        return hooked_path(environment) if self.hooks_torch else {}


def choose_recorders(line: LaunchLine, environment: Mapping[str, str]) -> Recorders:
    """How to observe the ranks of `line`."""
    python = line.kind is LauncherKind.TORCHRUN or _may_be_python(line, environment)
    try:
        return Recorders(library=choose_library(line, environment), hooks_torch=python)
    except MissingProgramError:
        raise
    except ToposeatError:
        if not python:
            raise
        return Recorders(library=None, hooks_torch=True)


def _may_be_python(line: LaunchLine, environment: Mapping[str, str]) -> bool:
    """Whether some program is Python or a script, which may start Python."""
    for command in map(unwrapped, line.programs):
        arguments = command.program[1:]
        found = command.which(environment, line.through)
        if found is None:
            if command.through or line.through:  # the file is elsewhere, and may be anything
                return True
            continue
        if as_python_program(found, arguments, environment) is not None:
            return True
        if not inspect_linkage(found, environment).is_elf:
            return True
    return False


def why_no_hook(line: LaunchLine, environment: Mapping[str, str]) -> str:
    """What on the line itself keeps the hook out of Python; empty if nothing does."""
    for command in map(unwrapped, ((*line.interpreter, *line.program), *line.programs)):
        name, *arguments = command.program
        found = command.which(environment, line.through) or Path(name)
        python = as_python_program(found, arguments, environment)
        for flag in python.flags if python else ():
            if flag in _DEAF:
                return f"{Path(name).name} {flag} ({_DEAF[flag]}) keeps the recorder out"
    return ""


_ON_NODES = "what ranks left is in /dev/shm/toposeat-records-* of their nodes"
_ENDED = (
    "run it inside an allocation (salloc, sbatch), or name a folder that the nodes share: toposeat"
    f" profile --keep-records DIR; {_ON_NODES}"
)


def why_nothing(
    line: LaunchLine,
    environment: Mapping[str, str],
    recorders: Recorders,
    *,
    ledger: Ledger,
    folder: Path,
    not_fetched: str,
) -> Fault:
    """The first entry that does not add up, where no rank has left a record.

    `not_fetched` says why records of other nodes could not be fetched; empty if they could.
    """
    name = unwrapped(line.program).program[0]
    cause = next((path.name for path in folder.glob(f"*{CAUSE_SUFFIX}*")), "").rpartition("-")[2]
    hosts = sorted(set(noted_hosts([folder]).values()))
    if cause.isdecimal():
        return Fault(
            f"no rank could keep its record in {folder}: {os.strerror(int(cause[:9]))}",
            "make room there, or name a folder elsewhere: toposeat profile --keep-records DIR",
        )
    if fault := ledger.not_kept(folder) or ledger.ended():
        return fault
    if not_fetched and hosts:
        return Fault(
            f"no records were sent back by {compress_hostlist(hosts)}: {not_fetched}",
            _ENDED if not_fetched == ALLOCATION_ENDED else _ON_NODES,
        )
    if ledger.exit_code != 0:
        cause = f"{name} ended with exit code {ledger.exit_code}, and no rank recorded anything"
        return Fault(cause, "; ".join(["what it said is above", *layout_hint(line)]))
    fault = next(_deaf(line, environment, recorders), None) or ledger.unreached()
    fault = fault or Fault(f"no rank recorded anything: {name} made no MPI call")
    return replace(fault, hint="; ".join(filter(None, [fault.hint, *layout_hint(line)])))


def layout_hint(line: LaunchLine) -> Iterator[str]:
    """What to type for a server whose line says how its ranks talk."""
    if (server := server_of(line)) is not None:
        yield (
            f"its line says its layout: toposeat map {server.pattern} -t this -o app.place;"
            " toposeat run -p app.place ..."
        )


def _deaf(
    line: LaunchLine, environment: Mapping[str, str], recorders: Recorders
) -> Iterator[Fault]:
    """Why this program records nothing whatever it does, the gravest first."""
    command = unwrapped(line.program)
    name = command.program[0]
    found = command.which(environment, line.through)
    none = f"no rank recorded anything: {name}"
    if recorders.hooks_torch and (deaf := why_no_hook(line, environment)):
        hint = "leave the option out to profile what it sends with torch.distributed"
        yield Fault(f"no rank recorded anything: {deaf}", hint)
    if recorders.library is None:
        yield Fault(
            f"{none} made no process group with torch.distributed, and no MPI of it is known"
        )
    if found is None:
        return
    before = line.program[: -len(command.program)]
    anew = next((word for word in before if word.startswith("LD_PRELOAD=")), "")
    if anew and Path(before[0]).name != "env":  # to that one, toposeat-exec adds its own
        hint = f"put it in front of toposeat: {anew} toposeat profile ..."
        yield Fault(f"no rank recorded anything: {anew} on the line keeps the recorder out", hint)
    linkage = inspect_linkage(found, environment)
    if linkage.is_static:
        yield Fault(
            f"{none} is linked statically, and loads no library", "link it with shared ones"
        )
    if found.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        cause = f"{none} is setuid, so that LD_PRELOAD has no effect on it"
        yield Fault(cause, "profile a copy without the setuid bit")
    if not linkage.is_elf:
        yield Fault(f"{none} (a script) started no MPI program that can be recorded")
    elif linkage.mpi_library is None:
        cause = (
            f"{none} is not linked to an MPI library, and none of its processes made an MPI call"
            " that could be seen"
        )
        yield Fault(cause, "profile the MPI program itself")
