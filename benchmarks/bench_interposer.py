"""What the interposer costs: per call, at the start, in memory and on disk.

Per call: thread CPU time, one rank; each figure is the minimum over rounds of many repetitions,
and the tools take turns in every round. "none again" is the A/A control. A tool that left no output
is an error, not a zero.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.machine import describe, in_turns, middle
from tests.support.interposed import library
from tests.support.mpi import MPI_NAMES, MpiToolchain, find_mpi

from toposeat.profile import read_records

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 7
REPETITIONS = 20
CALLS = 5000
STARTS = 11
RANKS = 16
MEMORY = Path("/dev/shm")
DONE = REPETITIONS * CALLS
CASES = {"exchange": 3, "null": 1, "allreduce": 1}  # MPI calls per measured unit
QUERIES = 2  # of the kind of memory, per exchange

Check = Callable[[str], None]


@dataclass(frozen=True)
class Tool:
    """How to run under a tool, and the check that it really worked."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    check: Check = lambda _: None
    arguments: tuple[str, ...] = ()
    cases: tuple[str, ...] = tuple(CASES)


def recorder(name: str, mpi: MpiToolchain, folder: Path, *arguments: str, **more: str) -> Tool:
    records = folder / f"records-{name.replace(' ', '-')}"
    records.mkdir()
    environment = {
        "LD_PRELOAD": str(library(mpi)),
        "TOPOSEAT_PROFILE_DIR": str(records),
        **{f"TOPOSEAT_PROFILE_{key.upper()}": value for key, value in more.items()},
    }

    def check(case: str) -> None:
        traffic = read_records(records)
        seen = int(traffic.table().messages.sum())
        if seen != (DONE if case == "exchange" else 0) or not traffic.rank_info[0].finalized:
            raise SystemExit(f"{name} counted {seen} messages instead of {DONE}")
        for each in records.iterdir():
            each.unlink()

    return Tool(name, environment, check, arguments, ("exchange",) if arguments else tuple(CASES))


def monitoring(folder: Path) -> Tool:
    options = {
        "OMPI_MCA_pml_monitoring_enable": "2",
        "OMPI_MCA_pml_monitoring_enable_output": "3",
        "OMPI_MCA_pml_monitoring_filename": str(folder / "monitoring"),
    }

    def check(case: str) -> None:
        found = list(folder.glob("monitoring*.prof"))
        wanted = f"{DONE} msgs sent" if case == "exchange" else "POINT TO POINT"
        if not any(wanted in each.read_text() for each in found):
            raise SystemExit("Open MPI's monitoring did not count the messages")
        for each in found:
            each.unlink()

    return Tool("monitoring", options, check)


def fake_runtime(folder: Path) -> Path:
    path = folder / "libcuda.so.1"
    source = ROOT / "tests" / "interposer" / "programs" / "fake_gpu.c"
    line = ["gcc", "-O1", "-shared", "-fPIC", "-DFAKE_CUDA", "-pthread", f"-Wl,-soname,{path.name}"]
    subprocess.run([*line, "-o", str(path), str(source)], check=True)
    return path


def run(program: Path, mpi: MpiToolchain, tool: Tool, case: str, calls: int = CALLS) -> list[str]:
    words = [str(program), case, str(REPETITIONS), str(calls), *tool.arguments]
    done = subprocess.run(
        words,
        env={**mpi.env, **tool.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return done.stdout.split()


def call_ns(program: Path, mpi: MpiToolchain, tool: Tool, case: str) -> float:
    taken = float(run(program, mpi, tool, case)[0])
    tool.check(case)
    return taken


def bench_calls(mpi: MpiToolchain, program: Path, tools: list[Tool]) -> dict[str, float]:
    """Prints the table; returns the nanoseconds of one exchange by tool."""
    best = {}
    for case, calls in CASES.items():
        chosen = [tool for tool in tools if case in tool.cases]
        turns = {tool.name: partial(call_ns, program, mpi, tool, case) for tool in chosen}
        taken = in_turns(turns, ROUNDS, warm=0)
        base = min(taken["none"])
        for name, values in taken.items():
            extra = (min(values) - base) / calls
            spread = (middle(values)[0] - min(values)) / calls
            print(f"{mpi.name:16}{case:10}{name:22}{min(values):8.1f}{extra:12.1f}{spread:13.1f}")
            if case == "exchange":
                best[name] = min(values)
    return best


def bench_start(mpi: MpiToolchain, program: Path, tools: list[Tool]) -> None:
    """CPU time of a whole run without communication, and resident memory, per rank."""

    def start(tool: Tool) -> tuple[float, int]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        resident = int(run(program, mpi, tool, "start")[1])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        folder = tool.environment.get("TOPOSEAT_PROFILE_DIR")
        for each in Path(folder).iterdir() if folder else ():
            each.unlink()
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, resident

    found = in_turns({tool.name: partial(start, tool) for tool in tools}, STARTS)
    base_s, base_kib = min(s for s, _ in found["none"]), found["none"][0][1]
    for name, starts in found.items():
        extra = (min(s for s, _ in starts) - base_s) * 1e3
        print(f"{mpi.name:16}{name:22}{extra:14.2f}{starts[0][1] - base_kib:18}")


def bench_files(mpi: MpiToolchain, program: Path, folder: Path) -> None:
    records = folder / "files"
    records.mkdir()
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", str(RANKS), "env"]
    line += [f"TOPOSEAT_PROFILE_DIR={records}", f"LD_PRELOAD={library(mpi)}"]
    subprocess.run(
        [*line, str(program), "ring", "1", "20"],
        env={**mpi.env, "TMPDIR": os.environ.get("TMPDIR", "/tmp")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    found = [each.stat() for each in records.iterdir()]
    if len(found) != RANKS:  # one file per rank: no threads
        raise SystemExit(f"{len(found)} records of {RANKS} ranks")
    start = time.process_time()
    traffic = read_records(records)
    merge_ms = (time.process_time() - start) * 1e3
    if int(traffic.table().messages.sum()) < RANKS * 3 * 20:
        raise SystemExit("the records hold too few messages")
    apparent = sum(s.st_size for s in found) / RANKS / 1024
    on_disk = sum(s.st_blocks * 512 for s in found) / RANKS / 1024
    print(
        f"{mpi.name:16}{RANKS} ranks: {apparent:.0f} KiB apparent and {on_disk:.0f} KiB on disk per"
        f" rank; merged in {merge_ms / RANKS:.2f} ms CPU per rank, {traffic.ranks} ranks read"
    )
    shutil.rmtree(records)


def bench(mpi: MpiToolchain, folder: Path) -> None:
    program = folder / "calls"
    source = ROOT / "benchmarks" / "interposer_calls.c"
    line = [str(mpi.mpicc), "-O2", "-o", str(program), str(source), "-ldl"]
    subprocess.run(line, env=dict(mpi.env), check=True)
    tools = [
        Tool("none"),
        Tool("none again"),
        recorder("toposeat", mpi, folder),
        recorder("toposeat untimed", mpi, folder, time="0"),
    ]
    device = recorder("toposeat, on device", mpi, folder, str(fake_runtime(folder)))
    others = [monitoring(folder)] if mpi.family == "openmpi" else []
    best = bench_calls(mpi, program, [*tools, device, *others])
    query = (best[device.name] - best["toposeat"]) / QUERIES
    print(f"{mpi.name:16}cached device query (emulated runtime): {query:.1f} ns")
    print(f"\n{'MPI':16}{'tool':22}{'start, CPU ms':>14}{'resident, KiB':>18}   over none")
    bench_start(mpi, program, tools)
    bench_files(mpi, program, folder)


def main() -> None:
    print(describe())
    print(
        f"interposer: min of {ROUNDS} interleaved rounds of {REPETITIONS} x {CALLS};"
        " exchange = 8-byte Irecv + Isend + Waitall to oneself, null = Send to MPI_PROC_NULL"
    )
    for name in MPI_NAMES:
        mpi = find_mpi(name)
        if isinstance(mpi, str):
            print(f"{name:16}skipped: {mpi}")
            continue
        print(f"\n{'MPI':16}{'case':10}{'tool':22}{'ns':>8}{'extra/call':>12}{'median-min':>13}")
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as f:
            bench(mpi, Path(f))


if __name__ == "__main__":
    main()
