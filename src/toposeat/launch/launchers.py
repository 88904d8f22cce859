"""Which launcher a command is: by its name, by what it is linked to, or by asking its version."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

from toposeat.errors import MissingProgramError, UsageError, did_you_mean

_VERSION_TIMEOUT_S = 20.0


class LauncherKind(StrEnum):
    """The families of launchers whose command lines toposeat understands."""

    OPENMPI = "openmpi"
    MPICH = "mpich"
    INTEL = "intel"
    SRUN = "srun"
    FLUX = "flux"
    TORCHRUN = "torchrun"
    PALS = "pals"
    RSH = "mpirun_rsh"
    JSRUN = "jsrun"
    IBRUN = "ibrun"
    NONE = "none"  # the program is started directly


# Arguments that switch the launcher's own CPU binding off.
NO_BINDING: Mapping[LauncherKind, tuple[str, ...]] = {
    LauncherKind.OPENMPI: ("--bind-to", "none"),
    LauncherKind.MPICH: ("-bind-to", "none"),
    LauncherKind.INTEL: ("-genv", "I_MPI_PIN", "0"),
    LauncherKind.SRUN: ("--cpu-bind=none",),
    LauncherKind.PALS: ("--cpu-bind", "none"),
}

_KIND_OF_NAME = {
    "orterun": LauncherKind.OPENMPI,
    "prterun": LauncherKind.OPENMPI,
    "mpirun.openmpi": LauncherKind.OPENMPI,
    "mpiexec.openmpi": LauncherKind.OPENMPI,
    "mpirun.mpich": LauncherKind.MPICH,
    "mpiexec.mpich": LauncherKind.MPICH,
    "srun": LauncherKind.SRUN,
    "flux": LauncherKind.FLUX,
    "torchrun": LauncherKind.TORCHRUN,
    "mpirun_rsh": LauncherKind.RSH,
    "jsrun": LauncherKind.JSRUN,
    "ibrun": LauncherKind.IBRUN,
}
_AMBIGUOUS_NAMES = ("mpirun", "mpiexec", "mpiexec.hydra", "oshrun", "shmemrun")
_UNSUPPORTED_NAMES = (
    "lrun",
    "aprun",
    "mpiexec.gforker",
    "horovodrun",
)

_VERSION = re.compile(r"(?<![\d.])(\d{1,4}\.\d{1,3}(?:\.\d{1,3})?)")
_KIND_OF_VERSION_TEXT = (
    (re.compile(r"Intel\(R\) MPI", re.IGNORECASE), LauncherKind.INTEL),
    (re.compile(r"\bPALS\b"), LauncherKind.PALS),
    (re.compile(r"Open ?MPI|OpenRTE|PRRTE|prterun", re.IGNORECASE), LauncherKind.OPENMPI),
    (re.compile(r"HYDRA|MPICH|MVAPICH", re.IGNORECASE), LauncherKind.MPICH),
)


def identify_launcher(program: str) -> LauncherKind:
    """The launcher that `program` names, `NONE` if it is no known launcher.

    `mpirun` and `mpiexec` belong to several families: the file behind the name decides
    (`mpirun` -> `orterun` under Debian), else what it answers to `--version`.

    Raises:
        MissingProgramError: `program` is an ambiguous launcher name and does not exist.
        UsageError: it is a launcher, but one that toposeat cannot take apart.
    """
    name = Path(program).name
    if name in _KIND_OF_NAME:
        return _KIND_OF_NAME[name]
    if name in _UNSUPPORTED_NAMES:
        raise UsageError(
            f"toposeat cannot read launch lines of {name}",
            hint=f"add it by hand: {name} OPTIONS toposeat-exec -m PLACEMENT ./app",
        )
    if name not in _AMBIGUOUS_NAMES:
        near = did_you_mean(name, (*_KIND_OF_NAME, *_AMBIGUOUS_NAMES))
        if near and shutil.which(program) is None:
            raise MissingProgramError(f"program {program!r} not found", hint=near)
        return LauncherKind.NONE
    path = shutil.which(program)
    if path is None:
        raise MissingProgramError(
            f"launcher {program!r} not found", hint="load the MPI module or give its full path"
        )
    real = Path(path).resolve()
    if real.name in _KIND_OF_NAME:
        return _KIND_OF_NAME[real.name]
    if "pals" in real.parts:  # /opt/cray/pals/1.3/bin/mpiexec
        return LauncherKind.PALS
    return _identify_by_version(path)


def version_answer(path: str | Path) -> str:
    """What a launcher answers to `--version`, on either stream.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it does not answer.
    """
    return _version_answer_as_installed(str(path), Path(path).stat().st_mtime_ns)


@cache
def _version_answer_as_installed(path: str, installed: int) -> str:
    """Asked once per file and time of change: a verb takes its launch line apart several times."""
    del installed
    return subprocess.run(
        [path, "--version"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_VERSION_TIMEOUT_S,
        check=False,
    ).stdout.decode(errors="replace")


def kind_of_version(answer: str) -> LauncherKind | None:
    """The family that a `--version` answer names, None if it is not known."""
    for pattern, kind in _KIND_OF_VERSION_TEXT:
        if pattern.search(answer):
            return kind
    return None


def version_of(program: str) -> tuple[int, ...]:
    """The numbers of the first version in what a launcher answers to `--version`; () if none."""
    path = shutil.which(program)
    try:
        found = _VERSION.search(version_answer(path)) if path else None
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _identify_by_version(path: str) -> LauncherKind:
    try:
        answer = version_answer(path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"cannot find out which MPI {path} belongs to: {error}",
            hint="add it by hand: mpirun OPTIONS toposeat-exec -m PLACEMENT ./app",
        ) from error
    kind = kind_of_version(answer)
    if kind is not None:
        return kind
    first_line = answer.strip().splitlines()[0] if answer.strip() else "nothing"
    raise UsageError(
        f"cannot find out which MPI {path} belongs to; '--version' answers {first_line!r}",
        hint="add it by hand: mpirun OPTIONS toposeat-exec -m PLACEMENT ./app",
    )
