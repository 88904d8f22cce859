"""Which interposer library fits a program: by what it is linked to, else by its launcher.

The choice is only a first guess: the library itself looks at the MPI it finds in the process, and
one of the wrong ABI keeps quiet (interposer/src/real.c). For an MPI of none of the ABIs that are
prebuilt, a library is compiled (compiled_library.py).
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from toposeat import _native_path
from toposeat.errors import InputError, MissingProgramError, ToposeatError
from toposeat.launch import LauncherKind, LaunchLine
from toposeat.profile.compiled_library import MPICC_VARIABLE, compiled_library

ABI_VARIABLE = "TOPOSEAT_MPI_ABI"  # overrules the choice
LIBRARY_OF_ABI = {
    "ompi": "lib/libtoposeat_ompi.so",
    "mpich": "lib/libtoposeat_mpich.so",
    "abi": "lib/libtoposeat_abi.so",  # the standard ABI of MPI 5
}

COMPILE = "compile"  # an ABI of its own
_ABIS = "ompi, mpich, abi or compile"
_ABI_OF_LAUNCHER = {
    LauncherKind.OPENMPI: "ompi",
    LauncherKind.MPICH: "mpich",
    LauncherKind.INTEL: "mpich",
}
_MPICH_FAMILY = (b"MPICH Version", b"MPICH version", b"MVAPICH", b"Intel(R) MPI Library")
_STATIC_MPI = (*_MPICH_FAMILY, b"Open MPI v")  # in a program without symbols and without libmpi
# Not Open MPI's language bindings (libmpi_mpifh, libmpi_usempif08), which need libmpi themselves.
_MPI_SONAME = re.compile(r"^libmpi(ch|_abi|_cray|_gnu\w*|_intel|_nvidia|_ibm)?\.so(\.\d+)*$")
_STANDARD_ABI = re.compile(r"^libmpi_abi\.so")
_STARTS = ("MPI_Init", "PMPI_Init", "MPI_Init_thread", "PMPI_Init_thread", "MPI_Session_init")
_SYSTEM_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")


@dataclass(frozen=True, kw_only=True, slots=True)
class Linkage:
    """What a look at an executable tells."""

    mpi_library: str | None = None  # soname of the MPI among the libraries it needs
    mpi_file: Path | None = None  # where that was found
    is_elf: bool = True
    static_mpi: bool = False  # MPI functions are inside the executable itself


def choose_library(line: LaunchLine, environment: Mapping[str, str] | None = None) -> Path:
    """The interposer library to preload into the ranks of `line`.

    Args:
        line: the command, taken apart.
        environment: for PATH and LD_LIBRARY_PATH; default the process's own.

    Raises:
        MissingProgramError: the program does not exist.
        ToposeatError: MPI is linked statically, nothing tells the ABI, or a library that had to be
            compiled cannot be.
    """
    env = os.environ if environment is None else environment
    abi = choose_abi(line, env)
    if abi != COMPILE:
        return _native_path(LIBRARY_OF_ABI[abi])
    program = _find_program(line.program[0], env)
    linkage = inspect_linkage(program, env)
    if linkage.mpi_library is None or linkage.mpi_file is None:
        raise ToposeatError(
            f"cannot tell which MPI {program.name} will use, to compile an interposer for it",
            hint=f"set {ABI_VARIABLE} to ompi, mpich or abi if it is one of those",
        )
    candidates = _compiler_wrappers(line, linkage.mpi_file, env)
    return compiled_library(linkage.mpi_file, linkage.mpi_library, candidates, env)


def _compiler_wrappers(line: LaunchLine, mpi_file: Path, env: Mapping[str, str]) -> list[Path]:
    """Every mpicc that may belong to the MPI: named, beside its library or launcher, on PATH."""
    if env.get(MPICC_VARIABLE):
        return [Path(env[MPICC_VARIABLE])]
    prefixes = [*mpi_file.parents[:3], *mpi_file.resolve().parents[:3]]
    places = [str(prefix / "bin") for prefix in prefixes]
    launcher = shutil.which(line.launcher[0], path=env.get("PATH")) if line.launcher else None
    if launcher is not None:
        places.append(str(Path(launcher).parent))
    search = os.pathsep.join([*places, env.get("PATH", os.defpath)])
    found = [shutil.which("mpicc", path=place) for place in search.split(os.pathsep)]
    return [Path(path) for path in dict.fromkeys(filter(None, found))]


def choose_abi(line: LaunchLine, environment: Mapping[str, str] | None = None) -> str:
    """`ompi`, `mpich`, `abi` or `compile` for the ranks of `line` (see `choose_library`)."""
    env = os.environ if environment is None else environment
    if ABI_VARIABLE in env:
        return _abi_from_variable(env[ABI_VARIABLE])
    program = _find_program(line.program[0], env)
    linkage = inspect_linkage(program, env)
    if linkage.static_mpi:
        raise ToposeatError(
            f"{program.name} is linked statically with MPI: it cannot be observed",
            hint="link it with the shared MPI library, for example without -static",
        )
    if linkage.mpi_library is not None:
        return _abi_of_library(linkage)
    abi = _ABI_OF_LAUNCHER.get(line.kind)
    if abi is None:
        by = "" if line.kind is LauncherKind.NONE else f", and {line.kind.value} serves several"
        raise ToposeatError(
            f"cannot tell which MPI {program.name} will use: it is not linked to one{by}",
            hint=f"start it with mpirun, or set {ABI_VARIABLE} to {_ABIS}",
        )
    return abi


def _abi_from_variable(text: str) -> str:
    if text not in (*LIBRARY_OF_ABI, COMPILE):
        raise InputError(f"{ABI_VARIABLE} is {text!r}", hint=f"set it to {_ABIS}")
    return text


def _abi_of_library(linkage: Linkage) -> str:
    name = linkage.mpi_library or ""
    if _STANDARD_ABI.match(name):
        return "abi"
    if linkage.mpi_file is not None:
        if defines_symbol(linkage.mpi_file, "ompi_mpi_comm_world"):
            return "ompi"
        return "mpich" if _mentions(linkage.mpi_file, _MPICH_FAMILY) else COMPILE
    return "mpich" if name.startswith("libmpich") or name.endswith(".so.12") else "ompi"


def _find_program(name: str, env: Mapping[str, str]) -> Path:
    found = shutil.which(name, path=env.get("PATH"))
    if found is None:
        raise MissingProgramError(
            f"program {name!r} not found", hint="check the name behind the launcher's options"
        )
    return Path(found)


def inspect_linkage(program: Path, env: Mapping[str, str]) -> Linkage:
    """Look for an MPI among all libraries that the program needs, directly or not.

    A file that is no ELF executable (a script) has no linkage to tell.
    """
    pending: deque[Path] = deque([program])
    seen: set[str] = set()
    first = True
    while pending:
        current = pending.popleft()
        read = _read_elf(current)
        if read is None:
            if first:
                return Linkage(is_elf=False)
            continue
        if first and any(defines_symbol(current, name) for name in _STARTS):
            return Linkage(static_mpi=True)
        first = False
        for soname in read.needed:
            path = _find_soname(soname, current, read.run_path, env)
            if _MPI_SONAME.match(soname) or _is_other_mpi(soname, path):
                return Linkage(mpi_library=soname, mpi_file=path)
            if path is not None and soname not in seen:
                pending.append(path)
            seen.add(soname)
    return Linkage(static_mpi=_mentions(program, _STATIC_MPI))


@dataclass(frozen=True, slots=True)
class _Elf:
    needed: tuple[str, ...]
    run_path: tuple[str, ...]


def _read_elf(path: Path) -> _Elf | None:
    """What the dynamic section says; None for a file that is no ELF."""
    try:
        written = path.stat().st_mtime_ns
    except OSError:
        return None
    return _read_elf_as_written(path, written)


@cache
def _read_elf_as_written(path: Path, written: int) -> _Elf | None:
    """Cached by time of change: a program may be compiled again, for another MPI."""
    del written
    try:
        with path.open("rb") as stream:
            dynamic = ELFFile(stream).get_section_by_name(".dynamic")
            needed, run_path = [], []
            for tag in dynamic.iter_tags() if isinstance(dynamic, DynamicSection) else ():
                if tag.entry.d_tag == "DT_NEEDED":
                    needed.append(str(getattr(tag, "needed", "")))
                elif tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
                    text = getattr(tag, "rpath", None) or getattr(tag, "runpath", "")
                    run_path += str(text).split(":")
            return _Elf(tuple(needed), tuple(run_path))
    except (OSError, ELFError, ValueError, KeyError, AttributeError):
        return None


def _is_other_mpi(soname: str, path: Path | None) -> bool:
    """A library of another name that is an MPI."""
    return path is not None and "mp" in soname and defines_symbol(path, "PMPI_Init")


def _mentions(path: Path, words: tuple[bytes, ...]) -> bool:
    """Whether any of the words is somewhere in a file."""
    try:
        with (
            path.open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return any(data.find(word) >= 0 for word in words)
    except (OSError, ValueError):
        return False


def defines_symbol(path: Path, name: str) -> bool:
    """Whether an ELF file itself defines a symbol, in any of its symbol tables."""
    wanted = b"\0" + name.encode() + b"\0"
    try:
        with path.open("rb") as stream:
            for section in ELFFile(stream).iter_sections():
                if not isinstance(section, SymbolTableSection):
                    continue
                if wanted not in section.stringtable.data():  # fast, even for large programs
                    continue
                for symbol in section.get_symbol_by_name(name) or ():
                    if symbol["st_shndx"] != "SHN_UNDEF":
                        return True
    except (OSError, ELFError, ValueError, KeyError, AttributeError):
        return False
    return False


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
