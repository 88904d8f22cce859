"""What MPI an ELF file needs, directly or not, and where the dynamic loader would find it."""

from __future__ import annotations

import mmap
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.hash import GNUHashSection
from elftools.elf.sections import Section, SymbolTableSection

from toposeat.model.files import open_input

MPICH_FAMILY = (b"MPICH Version", b"MPICH version", b"MVAPICH", b"Intel(R) MPI Library")
_STATIC_MPI = (*MPICH_FAMILY, b"Open MPI v")  # in a program without symbols and without libmpi
# Not Open MPI's language bindings (libmpi_mpifh, libmpi_usempif08), which need libmpi themselves.
_MPI_SONAME = re.compile(r"^libmpi(ch|_abi|_cray|_gnu\w*|_intel|_nvidia|_ibm)?\.so(\.\d+)*$")
_STARTS = ("MPI_Init", "PMPI_Init", "MPI_Init_thread", "PMPI_Init_thread", "MPI_Session_init")
_SYSTEM_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")


@dataclass(frozen=True, kw_only=True, slots=True)
class Linkage:
    """What an executable shows of its MPI."""

    mpi_library: str | None = None  # soname of the MPI among the libraries it needs
    mpi_file: Path | None = None  # where that was found
    is_elf: bool = True
    static_mpi: bool = False  # MPI functions are inside the executable itself


def inspect_linkage(program: Path, env: Mapping[str, str]) -> Linkage:
    """Look for an MPI among all libraries that the program needs, directly or not.

    A script, or any other file that is no ELF executable, has `is_elf` False.
    """
    executable = _read_elf(program, _STARTS)
    if executable is None:
        return Linkage(is_elf=False)
    if executable.defines:
        return Linkage(static_mpi=True)
    pending = deque([(program, executable)])
    seen: set[str] = set()
    while pending:
        path, elf = pending.popleft()
        for soname in elf.needed:
            found = _find_soname(soname, path, elf.run_path, env)
            if _MPI_SONAME.match(soname) or _is_other_mpi(soname, found):
                return Linkage(mpi_library=soname, mpi_file=found)
            if found is not None and soname not in seen and (library := _read_elf(found)):
                pending.append((found, library))
            seen.add(soname)
    return Linkage(static_mpi=mentions(program, _STATIC_MPI))


@dataclass(frozen=True, slots=True)
class _Elf:
    needed: tuple[str, ...]
    run_path: tuple[str, ...]
    defines: bool  # one of the symbols that were asked for


def _read_elf(path: Path, symbols: Sequence[str] = ()) -> _Elf | None:
    """What an ELF file needs, and whether it defines a symbol; None for any other file."""
    needed: list[str] = []
    run_path: list[str] = []
    try:
        with open_input(path) as stream:
            sections = list(ELFFile(stream).iter_sections())
            for section in sections:
                for tag in section.iter_tags() if isinstance(section, DynamicSection) else ():
                    if tag.entry.d_tag == "DT_NEEDED":
                        needed.append(str(getattr(tag, "needed", "")))
                    elif tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
                        text = getattr(tag, "rpath", None) or getattr(tag, "runpath", "")
                        run_path += str(text).split(":")
            defines = any(_defines(sections, name) for name in symbols)
    except (OSError, ELFError, ValueError, KeyError, AttributeError):
        return None
    return _Elf(tuple(needed), tuple(run_path), defines)


def _defines(sections: Sequence[Section], name: str) -> bool:
    """By the hash tables, which have defined symbols only, or else by reading symbol tables."""
    for section in sections:
        if isinstance(section, GNUHashSection) and section.get_symbol(name) is not None:
            return True
    word = b"\0" + name.encode() + b"\0"
    return any(
        symbol["st_shndx"] != "SHN_UNDEF"
        for section in sections
        if isinstance(section, SymbolTableSection) and word in section.stringtable.data()
        for symbol in section.get_symbol_by_name(name) or ()
    )


def defines_symbol(path: Path, name: str) -> bool:
    """Whether an ELF file itself defines a symbol, in any of its symbol tables."""
    elf = _read_elf(path, (name,))
    return elf is not None and elf.defines


def _is_other_mpi(soname: str, path: Path | None) -> bool:
    """Whether a library of another name is an MPI."""
    return path is not None and "mp" in soname and defines_symbol(path, "PMPI_Init")


def mentions(path: Path, words: tuple[bytes, ...]) -> bool:
    """Whether any of the words is somewhere in a file."""
    try:
        with (
            open_input(path) as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return any(data.find(word) >= 0 for word in words)
    except (OSError, ValueError):
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
