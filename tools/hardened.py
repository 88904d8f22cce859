"""What of its hardening (cmake/hardening.cmake) a built file lacks.

Usage: hardened.py FOLDER-OR-WHEEL...

Says of each ELF file what it lacks, one line each; exit code 1 if any does.
"""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.constants import P_FLAGS
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

# The only one whose functions are looked up when they are called: as Slurm opens plugins.
LAZY = {"toposeat_spank.so"}
_NOW, _FLAG_NOW, _FLAG_PIE = 0x8, 0x1, 0x08000000
# With FORTIFY each of these is called by another name, whatever its arguments; the C++ library
# that zig links is compiled without.
_CHECKED = {"snprintf", "sprintf", "vsnprintf", "vsprintf", "printf", "fprintf", "vfprintf"}


def lacks(path: Path) -> list[str]:
    """In words; empty: nothing, as far as its kind of program can have it."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        segments = {each["p_type"]: each for each in elf.iter_segments()}
        stack = segments.get("PT_GNU_STACK")
        missing = []
        if stack is None or stack["p_flags"] & P_FLAGS.PF_X:
            missing.append("a stack that is never executed (-z noexecstack)")
        dynamic = segments.get("PT_DYNAMIC")
        if not isinstance(
            dynamic, DynamicSegment
        ):  # static: the others have no use, or cost too much
            # A C library may have canaries of its own; what was asked for our code, GCC wrote down.
            words = elf.get_section_by_name(".GCC.command.line")
            written = words.data().split(b"\0")[:-1] if words is not None else []
            if not written or any(b"-fstack-protector-strong" not in each for each in written):
                missing.append(_NO_CANARY)
            return missing
        tags = {tag.entry.d_tag: tag.entry.d_val for tag in dynamic.iter_tags()}
        if elf["e_type"] != "ET_DYN" or (
            "PT_INTERP" in segments and not tags.get("DT_FLAGS_1", 0) & _FLAG_PIE
        ):
            missing.append("an address of its own at each start (PIE)")
        if "PT_GNU_RELRO" not in segments:
            missing.append("tables that are read-only after the start (-z relro)")
        now = tags.get("DT_FLAGS", 0) & _NOW or tags.get("DT_FLAGS_1", 0) & _FLAG_NOW
        if not now and "DT_BIND_NOW" not in tags and path.name not in LAZY:
            missing.append("functions that are looked up at the start (-z now)")
        imported = set(_imported(elf))
        if not imported & {"__stack_chk_fail", "__stack_chk_guard"}:
            missing.append(_NO_CANARY)
        checked = {name for name in imported if re.fullmatch(r"__\w+_chk", name)}
        if imported & _CHECKED and not checked:
            missing.append("checked calls of the C library (-D_FORTIFY_SOURCE)")
        return missing


_NO_CANARY = "a stack protector (-fstack-protector-strong)"


def _imported(elf: ELFFile) -> Iterator[str]:
    symbols = elf.get_section_by_name(".dynsym")
    if isinstance(symbols, SymbolTableSection):
        for symbol in symbols.iter_symbols():
            if symbol["st_shndx"] == "SHN_UNDEF":
                yield symbol.name


def elf_files(folder: Path) -> list[Path]:
    """All below a folder, but links."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    found.append(path)
    return found


def lacking(folder: Path) -> list[str]:
    """Lines about the files below a folder."""
    files = elf_files(folder)
    if not files:
        return [f"{folder}: no ELF file"]
    return [f"{each.relative_to(folder)} lacks {word}" for each in files for word in lacks(each)]


def main() -> int:
    """Print what is lacking."""
    lines = []
    for each in map(Path, sys.argv[1:]):
        if each.is_dir():
            lines += lacking(each)
            continue
        with tempfile.TemporaryDirectory() as folder:
            zipfile.ZipFile(each).extractall(folder)
            lines += [f"{each.name}: {line}" for line in lacking(Path(folder))]
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
