"""Run clang-tidy over the native code.

Run: python tools/tidy.py [--deep] [--jobs N], after `make build`, whose compile commands are
used.

For every commit: all checks but the clang analyzer's, which take ten times what the others take
together, and the interposer as built for one MPI ABI of three. A unit that passed is checked again
where anything that it is made of has changed: the digests are in the user's cache. With --deep:
everything. Says what was found and exits with status 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import dropwhile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREE = "build/wheel"  # of `make build`
CHECKED = (
    "core/src",
    "interposer",
    "reorder",
    "launcher",
    "emulator",
    "devcopy",
    "virtual",
)
OTHER_ABIS = ("toposeat_mpich.dir", "toposeat_abi.dir")
ANALYZER = "--checks=-clang-analyzer-*"
# Programs that an MPI's own compiler makes, which CMake does not know.
PROGRAMS = ("microbench/*.c", "examples/*/*.c", "benchmarks/*.c")
SMPI_PROGRAM = "benchmarks/referee/smpi_schedule.c"

Unit = tuple[str, list[str], str]  # the source, how it is compiled, and its object if CMake's


def built(*, deep: bool) -> Iterator[Unit]:
    """What `make build` compiled of our own code."""
    checked = (*CHECKED, f"{TREE}/interposer")
    for entry in json.loads((ROOT / TREE / "compile_commands.json").read_text(encoding="utf-8")):
        source = str(Path(entry["file"]).relative_to(ROOT))
        other_abi = any(name in entry["output"] for name in OTHER_ABIS)
        if source.startswith(checked) and (deep or not other_abi):
            made = os.path.relpath(ROOT / TREE / entry["output"], ROOT / TREE)
            yield source, list(_options(shlex.split(entry["command"]))), made


def _options(words: list[str]) -> Iterator[str]:
    """Without compiler, input and output."""
    left = dropwhile(lambda word: not word.startswith("-"), words)
    for word in left:
        if word in ("-o", "-c"):
            next(left)
        else:
            yield word


def programs() -> Iterator[Unit]:
    """C programs that include mpi.h."""
    headers = str(ROOT / ".venv" / "mpi" / "mpich" / "include")
    for pattern in PROGRAMS:
        for source in sorted(ROOT.glob(pattern)):
            yield str(source.relative_to(ROOT)), _program_options(headers), ""
    probe = ["cc", "-x", "c", "-M", "-"]
    done = subprocess.run(
        probe, input="#include <smpi/mpi.h>\n", capture_output=True, text=True, check=False
    )
    header = next((word for word in done.stdout.split() if word.endswith("/smpi/mpi.h")), None)
    if header is None:
        print(f"tidy: no headers of SimGrid here: {SMPI_PROGRAM} is not checked", file=sys.stderr)
    else:
        yield SMPI_PROGRAM, _program_options(str(Path(header).parent)), ""


def _program_options(headers: str) -> list[str]:
    return ["-std=c11", "-D_GNU_SOURCE", "-isystem", headers]


def check(unit: Unit, *, deep: bool) -> str:
    """What clang-tidy finds in one unit; empty if nothing."""
    source, options, _ = unit
    line = ["clang-tidy", "--quiet", *([] if deep else [ANALYZER]), source, "--", *options]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


PASSED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "toposeat-tidy")


@cache
def _digest(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def read_by() -> dict[str, list[str]]:
    """What the compiler read for each object, the source among it."""
    listed = subprocess.run(
        ["ninja", "-C", TREE, "-t", "deps"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    blocks = [block.splitlines() for block in listed.stdout.split("\n\n") if block]
    return {
        head.partition(": #deps")[0]: [str(ROOT / TREE / line.strip()) for line in files]
        for head, *files in blocks
    }


def key(unit: Unit, files: list[str]) -> str:
    """Digest of all that decides what is found in a unit."""
    source, options, _ = unit
    settings = [ROOT / ".clang-tidy", *sorted(ROOT.glob("*/.clang-tidy"))]
    line = "\0".join([_version(), source, *options]).replace(str(ROOT), ".")
    read = b"".join(map(_digest, [*map(str, settings), *files]))
    return hashlib.sha256(line.encode() + read).hexdigest()


@cache
def _version() -> str:
    return subprocess.check_output(["clang-tidy", "--version"], text=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="clang-tidy over the native code")
    parser.add_argument("--deep", action="store_true", help="the analyzer too, under every ABI")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    units = [*built(deep=arguments.deep), *programs()]
    read = {} if arguments.deep else read_by()
    keys = [key(unit, read[unit[2]]) if unit[2] in read else "" for unit in units]
    changed = [
        (unit, mark) for unit, mark in zip(units, keys, strict=True)
        if not mark or not (PASSED / mark).exists()
    ]  # fmt: skip
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = list(pool.map(lambda each: check(each[0], deep=arguments.deep), changed))
    PASSED.mkdir(parents=True, exist_ok=True)
    for (_, mark), text in zip(changed, found, strict=True):
        if text:
            print(text, file=sys.stderr)
        elif mark:
            (PASSED / mark).touch()
    print(
        f"tidy: {len(units)} units, {len(changed)} changed since they passed,"
        f" {sum(map(bool, found))} with findings"
    )
    return 1 if any(found) else 0


if __name__ == "__main__":
    sys.exit(main())
