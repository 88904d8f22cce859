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
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.machine import describe
from tests.support.applications import APPLICATIONS, Application
from tests.support.mpi import MpiToolchain, find_mpi

from toposeat.installed import native_path
from toposeat.profile import read_records, read_traffic
from toposeat.profile.records.record import read_record

NANOSECONDS_PER_CALL = 10  # of bench_interposer, rounded up; for the estimate only
MEMORY = Path("/dev/shm")


@dataclass
class Tool:
    """An environment, and what the runs under it took."""

    name: str
    environment: Mapping[str, str]
    output: Path | None = None  # a folder that must not be empty after a run
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


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
) -> int:
    """One run, its times noted; MPI calls of the busiest rank, where they were recorded."""
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
    tool.wall_s.append(time.perf_counter() - begin)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    tool.cpu_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    if done.returncode or not application.ran(folder, done.stdout):
        raise SystemExit(f"{application.name} under {tool.name} did not come to its end")
    return 0 if tool.output is None else check_output(tool.name, tool.output)


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
        tools = tools_for(folder)
        calls = 0
        for turn in range(options.rounds + 1):
            for step in range(len(tools)):
                tool = tools[(turn + step) % len(tools)]
                calls = max(calls, run_once(application, mpi, folder, tool, options.ranks))
        for tool in tools:  # the first round warms caches
            tool.wall_s.pop(0)
            tool.cpu_s.pop(0)
        print_lines(application, tools, calls)


def print_lines(application: Application, tools: list[Tool], calls: int) -> None:
    base = tools[0]
    for tool in tools:
        cells = []
        for values, reference in ((tool.wall_s, base.wall_s), (tool.cpu_s, base.cpu_s)):
            # Ratio within a round: slow drift of the machine cancels.
            ratios = sorted(v / r - 1 for v, r in zip(values, reference, strict=True))
            low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
            extra = 100 * (min(values) / min(reference) - 1)
            cells.append(
                f"{min(values):8.3f}{extra:+8.1f}{100 * median(ratios):+8.1f}"
                f"  [{100 * low:+.1f} {100 * high:+.1f}]".ljust(42)
            )
        print(f"{application.name:18}{tool.name:18}{''.join(cells)}".rstrip())
    estimate = 100 * calls * NANOSECONDS_PER_CALL * 1e-9 / min(base.wall_s)
    print(
        f"{'':18}estimate, not a measurement: {calls} MPI calls of the busiest rank x"
        f" {NANOSECONDS_PER_CALL} ns = {estimate:.4f} % of the run"
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--size", type=int, default=5, help="length of the runs (default 5)")
    parser.add_argument("--only", help="part of an application's name")
    return parser.parse_args()


def main() -> None:
    options = parse()
    print(describe())
    mpi = find_mpi("debian-openmpi")
    if isinstance(mpi, str):
        print(f"skipped: {mpi}")
        return
    print(
        f"applications on {mpi.name}, {options.ranks} ranks, {options.rounds} interleaved rounds"
        " (first one dropped): seconds (best run), extra of the best run, median and quartiles of"
        " the extra per round, in % of `none`"
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
