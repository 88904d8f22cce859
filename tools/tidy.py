"""Run clang-tidy over the native code.

Run: python tools/tidy.py [--deep] [--jobs N], after `make build`, whose compile commands are
used.

For every commit: all checks but the clang analyzer's, which take ten times what the others take
together, and the interposer as built for one MPI ABI of three. With --deep: everything. Says what
was found and exits with status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
OTHER_ABIS = ("toposeat_mpich_objects.dir", "toposeat_abi_objects.dir")
ANALYZER = "--checks=-clang-analyzer-*"
# Programs that an MPI's own compiler makes, which CMake does not know.
PROGRAMS = ("microbench/*.c", "examples/*/*.c", "benchmarks/*.c")
SMPI_PROGRAM = "benchmarks/referee/smpi_schedule.c"

Unit = tuple[str, list[str]]  # the source, and how it is compiled


def built(*, deep: bool) -> Iterator[Unit]:
    """What `make build` compiled of our own code."""
    checked = (*CHECKED, f"{TREE}/interposer")
    for entry in json.loads((ROOT / TREE / "compile_commands.json").read_text(encoding="utf-8")):
        source = str(Path(entry["file"]).relative_to(ROOT))
        other_abi = any(name in entry["output"] for name in OTHER_ABIS)
        if source.startswith(checked) and (deep or not other_abi):
            yield source, list(_options(shlex.split(entry["command"])))


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
            yield str(source.relative_to(ROOT)), _program_options(headers)
    probe = ["cc", "-x", "c", "-M", "-"]
    done = subprocess.run(
        probe, input="#include <smpi/mpi.h>\n", capture_output=True, text=True, check=False
    )
    header = next((word for word in done.stdout.split() if word.endswith("/smpi/mpi.h")), None)
    if header is None:
        print(f"tidy: no headers of SimGrid here: {SMPI_PROGRAM} is not checked", file=sys.stderr)
    else:
        yield SMPI_PROGRAM, _program_options(str(Path(header).parent))


def _program_options(headers: str) -> list[str]:
    return ["-std=c11", "-D_GNU_SOURCE", "-isystem", headers]


def check(unit: Unit, *, deep: bool) -> str:
    """What clang-tidy finds in one unit; empty if nothing."""
    source, options = unit
    line = ["clang-tidy", "--quiet", *([] if deep else [ANALYZER]), source, "--", *options]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description="clang-tidy over the native code")
    parser.add_argument("--deep", action="store_true", help="the analyzer too, under every ABI")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    units = [*built(deep=arguments.deep), *programs()]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = list(pool.map(lambda unit: check(unit, deep=arguments.deep), units))
    for text in filter(None, found):
        print(text, file=sys.stderr)
    print(f"tidy: {len(units)} units, {sum(map(bool, found))} with findings")
    return 1 if any(found) else 0


if __name__ == "__main__":
    sys.exit(main())
