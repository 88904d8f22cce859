"""What MPI an ELF file needs, directly or not, and where the dynamic loader would find it."""

from __future__ import annotations

import mmap
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

MPICH_FAMILY = (b"MPICH Version", b"MPICH version", b"MVAPICH", b"Intel(R) MPI Library")
_STATIC_MPI = (*MPICH_FAMILY, b"Open MPI v")  # in a program without symbols and without libmpi
# Not Open MPI's language bindings (libmpi_mpifh, libmpi_usempif08), which need libmpi themselves.
_MPI_SONAME = re.compile(r"^libmpi(ch|_abi|_cray|_gnu\w*|_intel|_nvidia|_ibm)?\.so(\.\d+)*$")
_STARTS = ("MPI_Init", "PMPI_Init", "MPI_Init_thread", "PMPI_Init_thread", "MPI_Session_init")
_SYSTEM_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")


@dataclass(frozen=True, kw_only=True, slots=True)
class Linkage:
    """What a look at an executable tells."""

    mpi_library: str | None = None  # soname of the MPI among the libraries it needs
    mpi_file: Path | None = None  # where that was found
    is_elf: bool = True
    static_mpi: bool = False  # MPI functions are inside the executable itself


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
    return Linkage(static_mpi=mentions(program, _STATIC_MPI))


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


def mentions(path: Path, words: tuple[bytes, ...]) -> bool:
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
