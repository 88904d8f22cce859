"""Run time of real applications: no tool, no tool again (A/A), the interposer, MPI's monitoring.

The tools take turns in every round, each round begins with another one. Wall time of the whole
launch and the processor time of launcher and ranks; a run that did not come to its end, or a tool
that left no output, is an error. What is below the A/A difference is noise.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.machine import describe, in_turns, middle, parser, ratios
from tests.support.applications import APPLICATIONS, Application
from tests.support.mpi import MpiToolchain, find_mpi

from toposeat.installed import native_path
from toposeat.profile import read_records, read_traffic
from toposeat.profile.records.record import read_record

NANOSECONDS_PER_CALL = 10  # of bench_interposer, rounded up; for the estimate only
MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Tool:
    name: str
    environment: Mapping[str, str]
    output: Path | None = None  # a folder that must not be empty after a run


@dataclass(frozen=True)
class Run:
    """Of launcher and ranks together; `calls` are MPI calls of the busiest rank, if recorded."""

    wall_s: float
    cpu_s: float
    calls: int


def tools_for(folder: Path) -> list[Tool]:
    """The tools, each with a folder of its own for what it writes."""
    records, untimed, monitoring = (folder / n for n in ("records", "untimed", "monitoring"))
    for each in (records, untimed, monitoring):
        each.mkdir()
    preload = {"LD_PRELOAD": str(native_path("lib/libtoposeat_ompi.so"))}
    watch = {
        "OMPI_MCA_pml_monitoring_enable": "2",
        "OMPI_MCA_pml_monitoring_enable_output": "3",
        "OMPI_MCA_pml_monitoring_filename": str(monitoring / "seen"),
    }
    return [
        Tool("none", {}),
        Tool("none again", {}),
        Tool("toposeat", {**preload, "TOPOSEAT_PROFILE_DIR": str(records)}, records),
        Tool(
            "toposeat untimed",
            {**preload, "TOPOSEAT_PROFILE_DIR": str(untimed), "TOPOSEAT_PROFILE_TIME": "0"},
            untimed,
        ),
        Tool("monitoring", watch, monitoring),
    ]


def run_once(
    application: Application, mpi: MpiToolchain, folder: Path, tool: Tool, ranks: int
) -> Run:
    environment = {**mpi.env, "OMP_NUM_THREADS": "1", **exports(tool.environment)}
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", str(ranks), *passed_on(tool.environment)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(
        [*line, *application.command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    wall_s = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode or not application.ran(folder, done.stdout):
        raise SystemExit(f"{application.name} under {tool.name} did not come to its end")
    calls = 0 if tool.output is None else check_output(tool.name, tool.output)
    return Run(wall_s, cpu_s, calls)


def exports(environment: Mapping[str, str]) -> dict[str, str]:
    """For the launcher itself: everything but the preload, which is for ranks only."""
    return {name: value for name, value in environment.items() if name != "LD_PRELOAD"}


def passed_on(environment: Mapping[str, str]) -> list[str]:
    """Open MPI's options that hand variables to the ranks."""
    mine = {n: v for n, v in environment.items() if not n.startswith("OMPI_")}
    return [word for name, value in mine.items() for word in ("-x", f"{name}={value}")]


def check_output(name: str, folder: Path) -> int:
    """Exits unless messages were counted; empties the folder. MPI calls of the busiest rank."""
    files = sorted(folder.iterdir())
    if not files:
        raise SystemExit(f"{name} left no output")
    monitoring = next((each for each in files if each.name.endswith(".0.prof")), None)
    traffic = read_traffic(monitoring) if monitoring else read_records(folder)
    if traffic.table().messages.sum() == 0:
        raise SystemExit(f"{name} counted nothing")
    records = [] if monitoring else [read_record(each) for each in files]
    for each in files:
        each.unlink()
    return max((record.calls for record in records if record), default=0)


def bench(application: Application, mpi: MpiToolchain, options: argparse.Namespace) -> None:
    """All tools over one application, and its lines of the table."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        folder = Path(name)
        application.prepare(folder, options.size)
        run = partial(run_once, application, mpi, folder, ranks=options.ranks)
        runs = in_turns(
            {tool.name: partial(run, tool=tool) for tool in tools_for(folder)}, options.rounds
        )
    print_lines(application, runs)


def print_lines(application: Application, runs: dict[str, list[Run]]) -> None:
    base = runs["none"]
    for name, own in runs.items():
        cells = []
        for what in ("wall_s", "cpu_s"):
            values, reference = ([getattr(run, what) for run in each] for each in (own, base))
            extra = 100 * (min(values) / min(reference) - 1)
            share, low, high = (100 * (r - 1) for r in middle(ratios(values, reference)))
            cells.append(
                f"{min(values):8.3f}{extra:+8.1f}{share:+8.1f}  [{low:+.1f} {high:+.1f}]".ljust(42)
            )
        print(f"{application.name:18}{name:18}{''.join(cells)}".rstrip())
    calls = max(run.calls for each in runs.values() for run in each)
    fastest = min(run.wall_s for run in base)
    estimate = 100 * calls * NANOSECONDS_PER_CALL * 1e-9 / fastest
    print(
        f"{'':18}estimate, not a measurement: {calls} MPI calls of the busiest rank x"
        f" {NANOSECONDS_PER_CALL} ns = {estimate:.4f} % of the run"
    )


def main() -> None:
    arguments = parser(__doc__, rounds=7)
    arguments.add_argument("--ranks", type=int, default=min(2, os.cpu_count() or 1))
    arguments.add_argument("--size", type=int, default=5, help="length of the runs (default 5)")
    arguments.add_argument("--only", help="part of an application's name")
    options = arguments.parse_args()
    print(describe())
    mpi = find_mpi("debian-openmpi")
    if isinstance(mpi, str):
        print(f"skipped: {mpi}")
        return
    print(
        f"applications on {mpi.name}, {options.ranks} ranks, {options.rounds} interleaved rounds"
        " (and one that is not counted): seconds (best run), extra of the best run, median and"
        " quartiles of the extra per round, in % of `none`"
    )
    head = f"{'s':>8}{'best %':>8}{'med %':>8}  [quartiles]".ljust(42)
    print(f"{'application':18}{'tool':18}{'wall' + head[4:]}{'CPU' + head[3:]}".rstrip())
    for application in APPLICATIONS:
        if options.only and options.only.lower() not in application.name.lower():
            continue
        reason = application.missing()
        if reason:
            print(f"skipped: {reason}")
            continue
        bench(application, mpi, options)


if __name__ == "__main__":
    main()
