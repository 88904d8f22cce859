"""Which interposer library fits a program: by its linkage, mpi4py, launcher or `mpirun`.

The choice is a first guess: the library checks the MPI that it finds in the process, and one of
the wrong ABI records nothing (interposer/src/real.c). An MPI of another ABI is refused.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from toposeat.errors import InputError, MissingProgramError, ToposeatError
from toposeat.installed import native_path
from toposeat.launch import LauncherKind, LaunchLine, identify_launcher, unwrapped
from toposeat.launch.child import answer_of
from toposeat.launch.launchers.wrappers import VARIABLE
from toposeat.model.files import beginning
from toposeat.model.record import Record
from toposeat.profile.recording.elf import read_elf

_OF_MPICH = "MPIR_Dup_fn"  # what `mpi.h` of MPICH and its kin calls MPI_DUP_FN
_OF_OPEN_MPI = "ompi_mpi_comm_world"
# Not Open MPI's language bindings (libmpi_mpifh, libmpi_usempif08), which need libmpi themselves.
_MPI_SONAME = re.compile(r"^libmpi(ch|_abi|_cray|_gnu\w*|_intel|_nvidia|_ibm)?\.so(\.\d+)*$")
_STARTS = ("MPI_Init", "PMPI_Init", "MPI_Init_thread", "PMPI_Init_thread", "MPI_Session_init")
_SYSTEM_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")


class Linkage(Record, frozen=True, kw_only=True):
    """What an executable shows of its MPI."""

    mpi_library: str | None = None  # soname of the MPI among the libraries it needs
    mpi_file: Path | None = None  # where that was found
    is_elf: bool = True
    static_mpi: bool = False  # MPI functions are inside the executable itself
    is_static: bool = False  # no loader, so that nothing can be preloaded


def inspect_linkage(program: Path, env: Mapping[str, str]) -> Linkage:
    """Look for an MPI among all libraries that the program needs, directly or not.

    A script, or any other file that is no ELF executable, has `is_elf` False.
    """
    executable = read_elf(program, _STARTS)
    if executable is None:
        return Linkage(is_elf=False)
    if executable.is_static and not executable.defines:
        return Linkage(is_static=True)
    pending = deque([(program, executable)])
    seen: set[str] = set()
    while pending:
        path, elf = pending.popleft()
        for soname in elf.needed:
            found = _find_soname(soname, path, elf.run_path, env)
            if _MPI_SONAME.match(soname) or _is_other_mpi(soname, found):
                return Linkage(mpi_library=soname, mpi_file=found)
            if found is not None and soname not in seen and (library := read_elf(found)):
                pending.append((found, library))
            seen.add(soname)
    return Linkage(static_mpi=executable.defines)  # with a library it is a tool's MPI_Init


def defines_symbol(path: Path, name: str) -> bool:
    """Whether an ELF file itself defines a symbol, in any of its symbol tables."""
    elf = read_elf(path, (name,))
    return elf is not None and elf.defines


def _is_other_mpi(soname: str, path: Path | None) -> bool:
    """Whether a library of another name is an MPI."""
    return path is not None and "mp" in soname and defines_symbol(path, "PMPI_Init")


def _find_soname(
    soname: str, needed_by: Path, run_path: tuple[str, ...], env: Mapping[str, str]
) -> Path | None:
    """Where the dynamic loader would find a library (LD_PRELOAD and LD_AUDIT aside)."""
    origin = str(needed_by.resolve().parent)
    folders = [
        *(f.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for f in run_path),
        *env.get("LD_LIBRARY_PATH", "").split(":"),
        *_system_folders(),
    ]
    for folder in folders:
        candidate = Path(folder) / soname
        if folder and candidate.is_file():
            return candidate
    return None


@cache
def _system_folders() -> tuple[str, ...]:
    """The folders of ld.so.conf and the built-in ones."""
    folders: list[str] = []
    for file in sorted(Path("/etc/ld.so.conf.d").glob("*.conf")):
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        folders += [line.strip() for line in text.splitlines() if line.strip().startswith("/")]
    return (*folders, *_SYSTEM_FOLDERS)


_TIMEOUT_S = 30.0
_INTERPRETER = re.compile(r"^(python|pypy)\d*(\.\d+)*t?$")
_KEPT_FLAGS = "EIPSs"  # change where modules are found
_FLAGS_WITH_VALUE = "WX"
_MARK = "toposeat: mpi4py.MPI is "
_PROBE = f"""
import sys
if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    sys.path[0] = sys.argv[1]
file = said = ""
try:
    from importlib.util import find_spec
    found = find_spec("mpi4py.MPI")
    file = found and found.origin or ""
except Exception as error:
    lines = str(error).strip().splitlines() or [repr(error)]
    said = chr(9) + lines[-1]
print({_MARK!r} + file + said)
"""


class PythonProgram(Record, frozen=True, kw_only=True):
    """An interpreter and what decides where it looks for modules."""

    interpreter: str
    flags: tuple[str, ...]
    folder: str  # first entry of its search path


def as_python_program(
    program: Path, arguments: Sequence[str], env: Mapping[str, str]
) -> PythonProgram | None:
    """An interpreter, or a script that starts with `#!...python`; None if it is something else."""
    if _INTERPRETER.match(program.name):
        flags, script = _interpreter_arguments(arguments)
        return PythonProgram(
            interpreter=str(program), flags=flags, folder=_folder_of(script) if script else ""
        )
    words = _shebang(program)
    found = shutil.which(words[0], path=env.get("PATH")) if words else None
    if found is None or not _INTERPRETER.match(Path(found).name):
        return None
    flags, _ = _interpreter_arguments(words[1:])
    return PythonProgram(interpreter=found, flags=flags, folder=_folder_of(str(program)))


def _interpreter_arguments(words: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """The flags that matter, and the script; None for -c, -m and standard input."""
    flags: list[str] = []
    pending = list(words)
    while pending:
        word = pending.pop(0)
        if word == "-":
            break
        if not word.startswith("-"):
            return tuple(flags), word
        if word == "--check-hash-based-pycs":
            del pending[:1]
        letters = "" if word.startswith("--") else word[1:]
        for index, letter in enumerate(letters):
            if letter in "cm":
                return tuple(flags), None
            if letter in _FLAGS_WITH_VALUE:
                del pending[: index == len(letters) - 1]
                break
            if letter in _KEPT_FLAGS:
                flags.append(f"-{letter}")
    return tuple(flags), None


def _folder_of(script: str) -> str:
    path = Path(script).resolve()
    return str(path if path.is_dir() else path.parent)


def _shebang(script: Path) -> list[str]:
    """The words of a script's first line, without `env` and its options."""
    first = beginning(script, 4096).partition(b"\n")[0]
    if not first.startswith(b"#!"):
        return []
    words = first[2:].decode(errors="replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S" and "=" not in word]
    return words


def find_mpi4py_module(python: PythonProgram, env: Mapping[str, str]) -> Path | str:
    """The file of `mpi4py.MPI` that the program would import, or the reason why there is none."""
    line = [python.interpreter, *python.flags, "-c", _PROBE, python.folder]
    said = answer_of(line, _TIMEOUT_S, env)
    if not said:
        return f"{python.interpreter} did not say where its mpi4py is"
    _, _, found = said.rpartition(_MARK)
    file, _, error = found.rstrip("\n").partition("\t")
    if not error:
        return Path(file) if file else "it has no mpi4py.MPI"
    if "No module named 'mpi4py'" in error:
        return "it has no mpi4py"
    if "cannot load MPI library" in error:
        return "its mpi4py finds no MPI library"
    return f"its mpi4py cannot be found: {error[:200]}"


ABI_VARIABLE = "TOPOSEAT_MPI_ABI"  # overrules the choice
LIBRARY_OF_ABI = {
    "ompi": "lib/libtoposeat_ompi.so",
    "mpich": "lib/libtoposeat_mpich.so",
    "abi": "lib/libtoposeat_abi.so",  # the standard ABI of MPI 5
}

_STANDARD = "abi"
_OTHER = ""  # an ABI of its own
_ABIS = "ompi, mpich or abi"
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
    """The interposer library to preload into the ranks of `line`."""
    return native_path(LIBRARY_OF_ABI[choose_abi(line, environment)])


def choose_abi(line: LaunchLine, environment: Mapping[str, str] | None = None) -> str:
    """`ompi`, `mpich` or `abi` for the ranks of `line` (see `choose_library`)."""
    env = os.environ if environment is None else environment
    if ABI_VARIABLE in env:
        return _abi_from_variable(env[ABI_VARIABLE])
    chosen: dict[str, str] = {}
    for words in line.programs:
        own = replace(line, program=words, further=(), tasks=())
        chosen[words[0]] = _abi_of_program(own, _mpi_of(own, env), env)
    if len(set(chosen.values())) > 1:
        said = ", ".join(f"{Path(name).name} ({abi})" for name, abi in chosen.items())
        raise ToposeatError(
            f"the programs of the line have MPIs of several ABIs: {said}",
            hint=f"build them with one MPI, or set {ABI_VARIABLE} to {_ABIS}",
        )
    return next(iter(chosen.values()))


def has_own_mpi(line: LaunchLine, environment: Mapping[str, str]) -> bool:
    """Whether MPI is linked into every program of `line`: no preloaded library gets its calls."""
    commands = (unwrapped((*line.interpreter, *words)) for words in line.programs)
    found = (command.which(environment, line.through) for command in commands)
    return all(file and inspect_linkage(file, environment).static_mpi for file in found)


def _name_of(line: LaunchLine) -> str:
    return Path(unwrapped(line.program).program[0]).name


def _abi_of_program(line: LaunchLine, mpi: _Mpi, env: Mapping[str, str]) -> str:
    """The ABI for a line with one program."""
    name = _name_of(line)
    by_launcher = _ABI_OF_LAUNCHER.get(line.kind)
    if mpi.linkage.static_mpi:
        raise ToposeatError(
            f"{name} is linked statically with MPI: it cannot be observed",
            hint="link it with the shared MPI library, for example without -static",
        )
    if mpi.linkage.is_static and line.launcher:
        raise ToposeatError(
            f"{name} is linked statically: nothing can be recorded in it",
            hint="link it with shared libraries; if it starts the program behind it, name it as a"
            f" wrapper: {VARIABLE}={name}",
        )
    if mpi.linkage.mpi_library is not None:
        abi = _abi_of_library(mpi.linkage)
        if abi == _OTHER:
            raise ToposeatError(
                f"{name} runs on {mpi.linkage.mpi_file}, an MPI that nothing can be recorded in",
                hint="link it with Open MPI, with MPICH or its kin (Intel MPI, MVAPICH, Cray MPICH)"
                f" or for the standard ABI of MPI 5; {ABI_VARIABLE} ({_ABIS}) overrules this",
            )
        if mpi.module is None or by_launcher in (abi, None) or abi == _STANDARD:
            return abi
        return _abi_of_launcher_or_mpi4py(line, mpi, env, by_launcher)
    if by_launcher is None and not mpi.is_python and not mpi.is_elsewhere:
        by_launcher = _abi_of_path(env)
    if by_launcher is None:
        by = "" if line.kind is LauncherKind.NONE else f", and {line.kind} serves several"
        raise ToposeatError(
            f"cannot tell which MPI {name} will use: {mpi.why_none}{by}",
            hint=f"start it with mpirun, or set {ABI_VARIABLE} to {_ABIS}",
        )
    return by_launcher


class _Mpi(Record, frozen=True, kw_only=True):
    """What is known of the MPI of a program."""

    linkage: Linkage
    module: Path | None = None  # of mpi4py, if the linkage is that module's
    is_python: bool = False
    is_elsewhere: bool = False  # in a container: nothing is known
    why_none: str = "it is not linked to one"


def _mpi_of(line: LaunchLine, env: Mapping[str, str]) -> _Mpi:
    """The MPI that the program is linked to, or else that of its mpi4py."""
    command = unwrapped((*line.interpreter, *line.program))
    first, *arguments = command.program
    program = command.which(env, line.through)
    if program is None and (command.through or line.through):
        return _Mpi(linkage=Linkage(is_elf=False), is_elsewhere=True, why_none="it is elsewhere")
    if program is None:
        raise MissingProgramError(
            f"program {first!r} not found", hint="check the name behind the launcher's options"
        )
    linkage = inspect_linkage(program, env)
    if linkage.static_mpi or linkage.mpi_library is not None:
        return _Mpi(linkage=linkage)
    python = as_python_program(program, arguments, env)
    if python is None:
        return _Mpi(linkage=linkage)
    module = find_mpi4py_module(python, env)
    if isinstance(module, str):
        return _Mpi(linkage=linkage, is_python=True, why_none=module)
    # mpi4py looks beside its interpreter first.
    folders = f"{Path(python.interpreter).parents[1] / 'lib'}:{env.get('LD_LIBRARY_PATH', '')}"
    linkage = inspect_linkage(module, {**env, "LD_LIBRARY_PATH": folders})
    return _Mpi(linkage=linkage, module=module, is_python=True)


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
        f"{_name_of(line)} has an mpi4py for {mpi.linkage.mpi_library} ({module}), but "
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
    if text not in LIBRARY_OF_ABI:
        raise InputError(f"{ABI_VARIABLE} is {text!r}", hint=f"set it to {_ABIS}")
    return text


def _abi_of_library(linkage: Linkage) -> str:
    name = linkage.mpi_library or ""
    if _STANDARD_ABI.match(name):
        return _STANDARD
    if linkage.mpi_file is not None:
        if defines_symbol(linkage.mpi_file, _OF_OPEN_MPI):
            return "ompi"
        return "mpich" if defines_symbol(linkage.mpi_file, _OF_MPICH) else _OTHER
    return "mpich" if name.startswith("libmpich") or name.endswith(".so.12") else "ompi"
