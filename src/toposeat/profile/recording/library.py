"""Which interposer library fits a program: by its linkage, mpi4py, launcher or `mpirun`.

The choice is a first guess: the library checks the MPI that it finds in the process, and one of
the wrong ABI records nothing (interposer/src/real.c). For an MPI whose ABI is none of the prebuilt
ones, a library is compiled (compiled_library.py).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from toposeat.errors import InputError, MissingProgramError, ToposeatError
from toposeat.installed import native_path
from toposeat.launch import LauncherKind, LaunchLine, identify_launcher
from toposeat.launch.installations import compiler_wrappers
from toposeat.profile.recording.linkage import (
    MPICH_FAMILY,
    Linkage,
    defines_symbol,
    inspect_linkage,
    mentions,
)
from toposeat.profile.recording.python_program import as_python_program, find_mpi4py_module

ABI_VARIABLE = "TOPOSEAT_MPI_ABI"  # overrules the choice
LIBRARY_OF_ABI = {
    "ompi": "lib/libtoposeat_ompi.so",
    "mpich": "lib/libtoposeat_mpich.so",
    "abi": "lib/libtoposeat_abi.so",  # the standard ABI of MPI 5
}

_STANDARD = "abi"
COMPILE = "compile"  # an ABI of its own
_ABIS = "ompi, mpich, abi or compile"
_ABI_OF_LAUNCHER: dict[str, str] = {
    LauncherKind.OPENMPI: "ompi",
    LauncherKind.MPICH: "mpich",
    LauncherKind.INTEL: "mpich",
}
_STANDARD_ABI = re.compile(r"^libmpi_abi\.so")
_MPI4PY_NAMES = {"ompi": "openmpi", "mpich": "mpich"}  # in the names of its modules
_FAMILIES = {"ompi": "Open MPI", "mpich": "the MPICH family"}
_MPI4PY_CHOICE = "MPI4PY_MPIABI"  # its variable


def choose_library(line: LaunchLine, environment: Mapping[str, str] | None = None) -> Path:
    """The interposer library to preload into the ranks of `line`.

    Args:
        line: the command, taken apart.
        environment: for PATH and LD_LIBRARY_PATH; default the process's own.
    """
    env = os.environ if environment is None else environment
    abi = choose_abi(line, env)
    if abi != COMPILE:
        return native_path(LIBRARY_OF_ABI[abi])
    from toposeat.profile.recording.compiled_library import compiled_library  # noqa: PLC0415 - 8 ms

    name = Path(line.program[0]).name
    mpi = _mpi_of(line, env)
    if mpi.linkage.mpi_library is None or mpi.linkage.mpi_file is None:
        raise ToposeatError(
            f"cannot tell which MPI {name} will use, to compile an interposer for it",
            hint=f"set {ABI_VARIABLE} to ompi, mpich or abi if it is one of those",
        )
    mpi_file = mpi.linkage.mpi_file
    prefixes = (*mpi_file.parents[:3], *mpi_file.resolve().parents[:3])
    candidates = compiler_wrappers(line, env, places=[prefix / "bin" for prefix in prefixes])
    return compiled_library(mpi_file, mpi.linkage.mpi_library, candidates, env)


def choose_abi(line: LaunchLine, environment: Mapping[str, str] | None = None) -> str:
    """`ompi`, `mpich`, `abi` or `compile` for the ranks of `line` (see `choose_library`)."""
    env = os.environ if environment is None else environment
    if ABI_VARIABLE in env:
        return _abi_from_variable(env[ABI_VARIABLE])
    chosen = {
        words[0]: _abi_of_program(replace(line, program=words, further=(), tasks=()), env)
        for words in line.programs
    }
    if len(set(chosen.values())) > 1:
        said = ", ".join(f"{Path(name).name} ({abi})" for name, abi in chosen.items())
        raise ToposeatError(
            f"the programs of the line have MPIs of several ABIs: {said}",
            hint=f"build them with one MPI, or set {ABI_VARIABLE} to {_ABIS}",
        )
    return next(iter(chosen.values()))


def _abi_of_program(line: LaunchLine, env: Mapping[str, str]) -> str:
    """The ABI for a line with one program."""
    name = Path(line.program[0]).name
    mpi = _mpi_of(line, env)
    by_launcher = _ABI_OF_LAUNCHER.get(line.kind)
    if mpi.linkage.static_mpi:
        raise ToposeatError(
            f"{name} is linked statically with MPI: it cannot be observed",
            hint="link it with the shared MPI library, for example without -static",
        )
    if mpi.linkage.mpi_library is not None:
        abi = _abi_of_library(mpi.linkage)
        if mpi.module is None or by_launcher in (abi, None) or abi in (_STANDARD, COMPILE):
            return abi
        return _abi_of_launcher_or_mpi4py(line, mpi, env, by_launcher)
    if by_launcher is None and not mpi.is_python:
        by_launcher = _abi_of_path(env)
    if by_launcher is None:
        by = "" if line.kind is LauncherKind.NONE else f", and {line.kind} serves several"
        raise ToposeatError(
            f"cannot tell which MPI {name} will use: {mpi.why_none}{by}",
            hint=f"start it with mpirun, or set {ABI_VARIABLE} to {_ABIS}",
        )
    return by_launcher


@dataclass(frozen=True, kw_only=True, slots=True)
class _Mpi:
    """What is known of the MPI of a program."""

    linkage: Linkage
    module: Path | None = None  # of mpi4py, if the linkage is that module's
    is_python: bool = False
    why_none: str = "it is not linked to one"


def _mpi_of(line: LaunchLine, env: Mapping[str, str]) -> _Mpi:
    """The MPI that the program is linked to, or else that of its mpi4py."""
    first, *arguments = (*line.interpreter, *line.program)
    program = _find_program(first, env)
    linkage = inspect_linkage(program, env)
    if linkage.static_mpi or linkage.mpi_library is not None:
        return _Mpi(linkage=linkage)
    python = as_python_program(program, arguments, env)
    if python is None:
        return _Mpi(linkage=linkage)
    module = find_mpi4py_module(python, env)
    if isinstance(module, str):
        return _Mpi(linkage=linkage, is_python=True, why_none=module)
    return _Mpi(linkage=inspect_linkage(module, env), module=module, is_python=True)


def _abi_of_launcher_or_mpi4py(
    line: LaunchLine, mpi: _Mpi, env: Mapping[str, str], by_launcher: str
) -> str:
    """The ABI where mpi4py, asked here, and the launcher differ.

    An mpi4py with modules for both takes the one whose library it finds, and in the ranks that is
    the launcher's.
    """
    module = mpi.module or Path()
    wanted = f"MPI.{_MPI4PY_NAMES[by_launcher]}.*.so"
    if _MPI4PY_CHOICE not in env and any(module.parent.glob(wanted)):
        return by_launcher
    raise ToposeatError(
        f"{Path(line.program[0]).name} has an mpi4py for {mpi.linkage.mpi_library} ({module}), but "
        f"{line.launcher[0]} starts programs of {_FAMILIES[by_launcher]}",
        hint=f"use the launcher of that MPI, or set {ABI_VARIABLE} to {_ABIS}",
    )


def _abi_of_path(env: Mapping[str, str]) -> str | None:
    """The ABI of the `mpirun` on PATH: a script may call it, and srun starts its programs, too."""
    for name in ("mpirun", "mpiexec"):
        path = shutil.which(name, path=env.get("PATH"))
        if path is not None:
            try:
                return _ABI_OF_LAUNCHER.get(identify_launcher(path))
            except ToposeatError:  # its version is not known
                continue
    return None


def _abi_from_variable(text: str) -> str:
    if text not in (*LIBRARY_OF_ABI, COMPILE):
        raise InputError(f"{ABI_VARIABLE} is {text!r}", hint=f"set it to {_ABIS}")
    return text


def _abi_of_library(linkage: Linkage) -> str:
    name = linkage.mpi_library or ""
    if _STANDARD_ABI.match(name):
        return _STANDARD
    if linkage.mpi_file is not None:
        if defines_symbol(linkage.mpi_file, "ompi_mpi_comm_world"):
            return "ompi"
        return "mpich" if mentions(linkage.mpi_file, MPICH_FAMILY) else COMPILE
    return "mpich" if name.startswith("libmpich") or name.endswith(".so.12") else "ompi"


def _find_program(name: str, env: Mapping[str, str]) -> Path:
    found = shutil.which(name, path=env.get("PATH"))
    if found is None:
        raise MissingProgramError(
            f"program {name!r} not found", hint="check the name behind the launcher's options"
        )
    return Path(found)
