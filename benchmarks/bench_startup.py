"""What a command costs before and around its work: CPU seconds of whole processes, as ratios.

Every round runs each command once, in turn, beside `python -c 'import numpy'` and
`python -c 'import argparse'`; a ratio is taken within a round, and its median, quartiles and number
of rounds are printed. The row `again` is one of the two against itself: what a ratio of 1 looks
like here. Then what is added to a rank by `toposeat-exec` in front of /bin/true, and to a run of
two ranks that do nothing by `toposeat profile`, where there is an MPI.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.machine import describe, differences, in_turns, middle, parser, ratios
from tests.support.mpi import MPI_NAMES, MpiToolchain, find_mpi

from toposeat.cli.main import VERBS
from toposeat.installed import native_path
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.placement_file import save_placement

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
    "map stencil2d:4x4 -t k80-16": (NUMPY, 1.8),
    "discover": (NUMPY, 2.5),
    "doctor -t dgx-1v": (NUMPY, 2.5),
    "doctor -t k80-16": (NUMPY, 3.5),
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
    """An environment with byte code outside the checkout, in which OpenBLAS has no threads."""
    kept = {k: v for k, v in environment.items() if k != "PYTHONDONTWRITEBYTECODE"}
    # numpy's threads wait for work in busy loops: toposeat has none, so numpy has none here.
    one = {"OPENBLAS_NUM_THREADS": "1"}
    return {**kept, **one, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def print_ratios(rounds: int, folder: Path) -> None:
    environment = cached(folder, os.environ)
    for name in COMMANDS:
        if name not in BARE:  # `discover` fails where there is no GPU
            allowed = (0, 1) if name == "discover" else (0,)
            check((*TOPOSEAT, *name.split()), environment, *allowed)
    calls = {
        name: partial(cpu_seconds, BARE.get(name, (*TOPOSEAT, *name.split())), environment)
        for name in (NUMPY, ARGPARSE, *COMMANDS)
    }
    seconds = in_turns(calls, rounds)
    print(f"{'command':30}{'CPU ms':>8}  {'against':16}{'ratio':>6}{'quartiles':>14}{'asked':>7}")
    for name, (base, asked) in COMMANDS.items():
        ratio, low, high = middle(ratios(seconds[name], seconds[base]))
        print(
            f"{name:30}{middle(seconds[name])[0] * 1e3:8.0f}  {base:16}{ratio:6.2f}"
            f"{f'{low:.2f} - {high:.2f}':>14}{asked:7.1f}"
        )


def print_added(calls: Mapping[str, Callable[[], float]], rounds: int) -> None:
    """What each call costs, and what it adds to the first of them."""
    seconds = in_turns(calls, rounds)
    base = next(iter(seconds.values()))
    for name, values in seconds.items():
        added, low, high = (1e3 * each for each in middle(differences(values, base)))
        line = f"{name:32}{middle(values)[0] * 1e3:10.2f} ms CPU"
        print(line + (f"   added {added:+.2f} ({low:+.2f} to {high:+.2f})" if added else ""))


def save_ranks(path: Path, ranks: int, ranks_per_host: int) -> None:
    """A placement with CPU sets for the CPUs that this process may use; host * is this one."""
    cpus = sorted(os.sched_getaffinity(0))
    seats = tuple(
        Seat(
            rank=rank,
            host=f"n{rank // ranks_per_host}" if rank >= ranks_per_host else "*",
            local_rank=rank % ranks_per_host,
            index=ranks_per_host - 1 - rank % ranks_per_host,
            cpus=str(cpus[rank % len(cpus)]),
            memory_node=0,
        )
        for rank in range(ranks)
    )
    devices = tuple(
        HostDevice(index=i, pci_bus_id=f"0000:{i + 1:02x}:00.0", uuid=f"GPU-{i:08x}")
        for i in range(ranks_per_host)
    )
    listed = dict.fromkeys((seat.host for seat in seats), devices)
    save_placement(Placement(seats=seats, devices_of_host=listed, vendor="nvidia"), path)


def print_launcher(rounds: int, folder: Path) -> None:
    launcher, program = str(native_path("bin/toposeat-exec")), "/bin/true"
    save_ranks(folder / "small.place", 16, 16)
    save_ranks(folder / "large.place", 100_000, 8)
    (folder / "reports").mkdir()
    placed = (launcher, "-m", str(folder / "small.place"))
    lines = {
        program: (program,),
        "again": (program,),
        "toposeat-exec": (launcher, "--", program),
        "toposeat-exec -m, 16 ranks": (*placed, "--", program),
        "the same and --report": (*placed, "--report", str(folder / "reports"), "--", program),
        "toposeat-exec -m, 100000 ranks": (
            *(launcher, "-m", str(folder / "large.place")),
            *("--", program),
        ),
    }
    calls = {}
    for name, line in lines.items():
        ranks = "100000" if "100000" in name else "16"
        rank = {"PATH": "/usr/bin:/bin", "PMI_RANK": "3", "PMI_SIZE": ranks, "MPI_LOCALRANKID": "3"}
        check(line, rank, 0)
        calls[name] = partial(cpu_seconds, line, rank)
    print_added(calls, rounds)


def print_profile(mpi: MpiToolchain, rounds: int, folder: Path) -> None:
    source, program = folder / "empty.c", folder / f"empty-{mpi.name}"
    source.write_text(EMPTY, encoding="utf-8")
    subprocess.run([str(mpi.mpicc), "-o", str(program), str(source)], env=mpi.env, check=True)
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", "2", str(program)]
    record = [*TOPOSEAT, "profile", "-f", "-o", str(folder / "job.prof"), "--", *line]
    environment = cached(folder, mpi.env)
    check(record, environment, 0)
    lines = {f"{mpi.name} alone": line, "again": line, "profile": record}
    print_added(
        {name: partial(cpu_seconds, each, environment) for name, each in lines.items()}, rounds
    )


def main() -> None:
    rounds = parser(__doc__, rounds=20).parse_args().rounds
    print(describe())
    print(f"whole processes, byte code cached, {rounds} rounds after one that is not counted\n")
    with tempfile.TemporaryDirectory() as folder:
        print_ratios(rounds, Path(folder))
        print(f"\na rank behind toposeat-exec: medians of {10 * rounds} rounds (and quartiles)")
        print_launcher(10 * rounds, Path(folder))
        print("\n`profile` of two ranks that do nothing; asked: at most 400 ms")
        for name in MPI_NAMES:
            found = find_mpi(name)
            if isinstance(found, MpiToolchain):
                print_profile(found, max(rounds // 2, 3), Path(folder))
            else:
                print(f"{name}: {found}")


if __name__ == "__main__":
    main()
