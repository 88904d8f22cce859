"""What of its hardening (cmake/hardening.cmake) a built file lacks, by checksec and readelf.

Usage: hardened.py FOLDER-OR-WHEEL...

Says of each ELF file what it lacks, one line each; exit code 1 if any does.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# What checksec has to answer, and how it is said where it answers something else.
_WANTED = {
    "nx": ({"yes"}, "a stack that is never executed (-z noexecstack)"),
    "pie": ({"yes", "dso"}, "an address of its own at each start (PIE)"),
    "relro": ({"full"}, "tables that are read-only after the start (-z relro)"),
    "canary": ({"yes"}, "a stack protector (-fstack-protector-strong)"),
    "fortify_source": ({"yes"}, "checked calls of the C library (-D_FORTIFY_SOURCE)"),
}
_PARTIAL = "functions that are looked up at the start (-z now)"
# The only one whose functions are looked up when they are called: as Slurm opens plugins.
_LAZY = "toposeat_spank.so"
# Its copies have sizes that the compiler knows; nothing is left to check when it runs.
_UNCHECKED = "libtoposeat_devcopy.so"


def lacks(path: Path) -> list[str]:
    """In words; empty: nothing, as far as its kind of program can have it."""
    said = json.loads(_output("checksec", f"--file={path}", "--output=json"))[str(path)]
    nothing_to_check = path.name == _UNCHECKED or said["fortify-able"] == "0"
    excused = {"fortify_source"} if nothing_to_check else set()
    if "There is no dynamic section" in _output("readelf", "-d", str(path)):
        # Others are of no use to a static program, or cost too much. Its C library may have
        # canaries of its own; what was asked for our code, GCC wrote down.
        excused = {"pie", "relro", "fortify_source"}
        written = re.findall(r"^ *\[.*", _output("readelf", "-p.GCC.command.line", str(path)), re.M)
        strong = all("-fstack-protector-strong" in each for each in written)
        said["canary"] = "yes" if written and strong else "no"
    if said["relro"] == "partial" and path.name == _LAZY:
        excused.add("relro")
    return [
        _PARTIAL if said[name] == "partial" else words
        for name, (answers, words) in _WANTED.items()
        if name not in excused and said[name] not in answers
    ]


def _output(*words: str) -> str:
    english = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(words, check=True, capture_output=True, text=True, env=english)
    except FileNotFoundError:
        raise SystemExit(f"error: no {words[0]}\nhint:  apt-get install checksec") from None
    return done.stdout


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
