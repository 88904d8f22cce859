"""Compilers for the user's own MPI: finding and running them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from toposeat.launch.launch_line import LaunchLine

MPICC_VARIABLE = "TOPOSEAT_MPICC"
_TIMEOUT_S = 300


def run_compiler(
    line: Sequence[str], folder: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a compiler, or a program that was compiled; what cannot be started ends with 127."""
    try:
        return subprocess.run(
            line,
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(line, 127, "", str(error))


def first_error_line(text: str) -> str:
    """The first line of a compiler's complaint that names an error, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "no output")


def compiler_wrappers(
    line: LaunchLine, env: Mapping[str, str], *, places: Sequence[Path] = ()
) -> list[Path]:
    """Every mpicc that may belong to a launch line: named, in `places`, by its launcher, on PATH.

    Debian's `mpirun.mpich` has an `mpicc.mpich` beside it.
    """
    if env.get(MPICC_VARIABLE):
        return [Path(env[MPICC_VARIABLE])]
    found = [shutil.which("mpicc", path=str(place)) for place in places]
    launcher = shutil.which(line.launcher[0], path=env.get("PATH")) if line.launcher else None
    if launcher is not None:
        folder, suffix = str(Path(launcher).parent), Path(launcher).suffix
        found += [shutil.which(f"mpicc{end}", path=folder) for end in (suffix, "")]
    path = env.get("PATH", os.defpath)
    found += [shutil.which("mpicc", path=place) for place in path.split(os.pathsep)]
    return [Path(each) for each in dict.fromkeys(filter(None, found))]
