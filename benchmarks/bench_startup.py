"""What a command costs before and around its work: CPU seconds of whole processes, as ratios.

Every round runs each command once, in turn, beside `python -c 'import numpy'` and
`python -c 'import argparse'`; a ratio is taken within a round, and its median, quartiles and number
of rounds are printed. The row `again` is one of the two against itself: what a ratio of 1 looks
like here. `profile` is a run of two ranks that do nothing, with the recorder and without, where
there is an MPI.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from benchmarks.machine import describe
from tests.support.mpi import MPI_NAMES, MpiToolchain, find_mpi

from toposeat.cli.main import VERBS

TOPOSEAT = (str(Path(sys.executable).with_name("toposeat")),)
NUMPY, ARGPARSE = "import numpy", "import argparse"
BARE = {
    name: (sys.executable, "-c", name.removesuffix(" again"))
    for name in (NUMPY, ARGPARSE, f"{NUMPY} again", f"{ARGPARSE} again")
}
# Each with what it is divided by, and the most that its ratio should be.
COMMANDS: dict[str, tuple[str, float]] = {
    f"{NUMPY} again": (NUMPY, 1.0),
    f"{ARGPARSE} again": (ARGPARSE, 1.0),
    "map stencil2d:4x4 -t k80-16": (NUMPY, 2.0),
    "discover": (NUMPY, 2.5),
    "doctor": (NUMPY, 2.5),
    "--version": (ARGPARSE, 5.0),
    "--help": (ARGPARSE, 5.0),
    **{f"{verb} --help": (ARGPARSE, 5.0) for verb in VERBS},
}
EMPTY = """#include <mpi.h>
int main(int argc, char **argv) { MPI_Init(&argc, &argv); return MPI_Finalize(); }
"""


def check(command: Sequence[str], environment: Mapping[str, str], *allowed: int) -> None:
    """Stop at a command that does not do its work: it would look cheap."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in allowed or "Traceback" in done.stderr:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")


def cpu_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """User and system time of a command and all its children."""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0  # waited for here, checked before
    return usage.ru_utime + usage.ru_stime


def cached(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which Python keeps byte code, outside the checkout."""
    kept = {k: v for k, v in environment.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def print_ratios(rounds: int, folder: Path) -> None:
    environment = cached(folder, os.environ)
    for name in COMMANDS:
        if name not in BARE:  # `discover` and `doctor` fail where there is no GPU
            allowed = (0, 1) if name in ("discover", "doctor") else (0,)
            check((*TOPOSEAT, *name.split()), environment, *allowed)
    seconds: dict[str, list[float]] = {name: [] for name in (NUMPY, ARGPARSE, *COMMANDS)}
    for _ in range(rounds + 1):
        for name, taken in seconds.items():
            taken.append(cpu_seconds(BARE.get(name, (*TOPOSEAT, *name.split())), environment))
    print(f"{'command':30}{'CPU ms':>8}  {'against':16}{'ratio':>6}{'quartiles':>14}{'asked':>7}")
    for name, (base, asked) in COMMANDS.items():
        # The first round is not counted: byte code and files come into memory.
        ratios = [a / b for a, b in zip(seconds[name][1:], seconds[base][1:], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        print(
            f"{name:30}{median(seconds[name][1:]) * 1e3:8.0f}  {base:16}{median(ratios):6.2f}"
            f"{f'{low:.2f} - {high:.2f}':>14}{asked:7.1f}"
        )


def print_profile(mpi: MpiToolchain, rounds: int, folder: Path) -> None:
    source, program = folder / "empty.c", folder / f"empty-{mpi.name}"
    source.write_text(EMPTY, encoding="utf-8")
    subprocess.run([str(mpi.mpicc), "-o", str(program), str(source)], env=mpi.env, check=True)
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", "2", str(program)]
    record = [*TOPOSEAT, "profile", "-f", "-o", str(folder / "job.prof"), "--", *line]
    environment = cached(folder, mpi.env)
    check(record, environment, 0)
    lines = {"alone": line, "again": line, "profile": record}
    seconds: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(rounds + 1):
        for name, each in lines.items():
            seconds[name].append(cpu_seconds(each, environment))
    for name in ("again", "profile"):
        added = [a - b for a, b in zip(seconds[name][1:], seconds["alone"][1:], strict=True)]
        low, _, high = quantiles(added, n=4)
        print(f"{mpi.name:16}{name:9} adds {median(added):6.3f} s CPU ({low:.3f} to {high:.3f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    print(describe())
    print(f"whole processes, byte code cached, {rounds} rounds after one that is not counted\n")
    with tempfile.TemporaryDirectory() as folder:
        print_ratios(rounds, Path(folder))
        print("\n`profile` of two ranks that do nothing, against the run alone; asked: 0.4 s")
        for name in MPI_NAMES:
            found = find_mpi(name)
            if isinstance(found, MpiToolchain):
                print_profile(found, max(rounds // 2, 3), Path(folder))
            else:
                print(f"{name}: {found}")


if __name__ == "__main__":
    main()
