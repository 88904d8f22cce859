"""What observes the ranks of a launch line: an interposer for MPI, a hook for `torch.distributed`.

The hook is the folder `launch/python_hook`, put in front of PYTHONPATH: any Python below the line
loads it, whoever starts it and whatever the program is called.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import MissingProgramError, ToposeatError
from toposeat.launch import LauncherKind, LaunchLine
from toposeat.launch.python_hook import hooked_path
from toposeat.profile.recording.library import choose_library
from toposeat.profile.recording.linkage import inspect_linkage
from toposeat.profile.recording.python_program import as_python_program

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
    """How to observe the ranks of `line`.

    Raises:
        MissingProgramError: the program does not exist.
        ToposeatError: it is not Python, and cannot be observed by MPI either (`choose_library`).
    """
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
    for name, *arguments in line.programs:
        found = shutil.which(name, path=environment.get("PATH"))
        if found is None:
            continue
        program = Path(found)
        if as_python_program(program, arguments, environment) is not None:
            return True
        if not inspect_linkage(program, environment).is_elf:
            return True
    return False


def why_no_hook(line: LaunchLine, environment: Mapping[str, str]) -> str:
    """What on the line itself keeps the hook out of Python; empty if nothing does."""
    for name, *arguments in ((*line.interpreter, *line.program), *line.programs):
        found = shutil.which(name, path=environment.get("PATH"))
        python = as_python_program(Path(found), arguments, environment) if found else None
        for flag in python.flags if python else ():
            if flag in _DEAF:
                return f"{Path(name).name} {flag} ({_DEAF[flag]}) keeps the recorder out"
    return ""
