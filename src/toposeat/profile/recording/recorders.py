"""What observes the ranks of a launch line, and why a run may have left no records.

Observers are an interposer for MPI and a hook for `torch.distributed`: the folder
`launch/python_hook`, put in front of PYTHONPATH. Any Python below the line loads it, whoever starts
it and whatever the program is called.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import MissingProgramError, ToposeatError
from toposeat.launch import LauncherKind, LaunchLine, unwrapped
from toposeat.launch.python_hook import hooked_path
from toposeat.model.hostlist import compress_hostlist
from toposeat.profile.recording.library import as_python_program, choose_library, inspect_linkage
from toposeat.profile.records.merge import noted_hosts
from toposeat.profile.records.segment import CAUSE_SUFFIX

_DEAF = {"-I": "isolated: it reads no PYTHONPATH", "-E": "reads no PYTHONPATH", "-S": "no `site`"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorders:
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


_HOME_HINT = (
    "run it inside an allocation (salloc, sbatch), or name a folder that the nodes share:"
    " --keep-records DIR; what ranks left is in /dev/shm/toposeat-records-* of their nodes"
)
_NO_WAY_HINT = (
    "if its nodes cannot connect to this host, name ports that are open (TOPOSEAT_PORTS=FROM-TO),"
    " or a folder that they share: --keep-records DIR"
)
_SEE_ABOVE = "lines that start with 'toposeat:' above, if there are any, give another reason"


def why_nothing(
    line: LaunchLine,
    environment: Mapping[str, str],
    recorders: Recorders,
    *,
    folder: Path,
    exit_code: int,
    not_fetched: str,
) -> tuple[str, str]:
    """The probable cause, and a hint.

    `not_fetched` says why records of other nodes could not be fetched; empty if they could.
    """
    command = unwrapped(line.program)
    name = command.program[0]
    found = command.which(environment, line.through)
    linkage = inspect_linkage(found, environment) if found else None
    cause = next((path.name for path in folder.glob(f"*{CAUSE_SUFFIX}*")), "").rpartition("-")[2]
    hosts = sorted(set(noted_hosts([folder]).values()))
    if cause.isdecimal():
        message = f"no rank could keep its record in {folder}: {os.strerror(int(cause[:9]))}"
        hint = "make room there, or name a folder elsewhere: --keep-records DIR"
    elif not_fetched and hosts:
        message = f"no records were sent back by {compress_hostlist(hosts)}: {not_fetched}"
        hint = _HOME_HINT
    elif exit_code != 0:
        message = f"{name} ended with exit code {exit_code}, and no rank recorded anything"
        hint = f"run it without toposeat first; {_SEE_ABOVE}"
    elif recorders.hooks_torch and (deaf := why_no_hook(line, environment)):
        message = f"no rank recorded anything: {deaf}"
        hint = "leave the option out to profile what it sends with torch.distributed"
    elif recorders.library is None:
        message = (
            f"no rank recorded anything: no process of {name} made a process group with"
            " torch.distributed, and no MPI of it is known"
        )
        hint = f"Python started with -I, -E or -S is not recorded; {_SEE_ABOVE}"
    elif linkage is not None and linkage.is_static:
        message = f"no rank recorded anything: {name} is linked statically, and loads no library"
        hint = f"link it with shared libraries; {_SEE_ABOVE}"
    elif linkage is not None and linkage.is_elf and linkage.mpi_library is None:
        message = (
            f"no rank recorded anything: {name} is not linked to an MPI library, and none of its"
            " processes made an MPI call"
        )
        hint = f"profile the MPI program itself, which must not be linked statically; {_SEE_ABOVE}"
    elif found is not None and found.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        message = (
            f"no rank recorded anything: {name} is setuid, so that LD_PRELOAD has no effect on it"
        )
        hint = "profile a copy without the setuid bit"
    elif linkage is not None and not linkage.is_elf:
        message = f"no rank recorded anything: {name} (a script) started no MPI program"
        hint = "an MPI of another family than the launcher's, or a static one, cannot be recorded"
    elif not_fetched:
        message = f"no records were sent back by the nodes of the job: {not_fetched}"
        hint = _NO_WAY_HINT
    else:
        message = f"no rank recorded anything: {name} made no MPI call"
        hint = _SEE_ABOVE
    return message, hint
