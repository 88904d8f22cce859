"""Cost of the interposer per MPI call, beside no tool, no tool again (A/A) and MPI's monitoring.

One rank, 8-byte Irecv + Isend + Waitall to itself, thread CPU time; each figure is the minimum over
the rounds, the tools take turns in every round. A tool that left no output is an error, not a zero.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from machine import describe  # noqa: E402
from tests.support.mpi import MPI_NAMES, MpiToolchain, find_mpi  # noqa: E402

from toposeat import _native_path  # noqa: E402
from toposeat.profile import read_records  # noqa: E402

ROUNDS = 7
REPETITIONS = 20
EXCHANGES = 10000
CALLS = 3  # per exchange
MEMORY = Path("/dev/shm")
SENDS = REPETITIONS * EXCHANGES


@dataclass(frozen=True)
class Tool:
    """How to run under a tool, and the check that it really worked."""

    name: str
    environment: Mapping[str, str]
    check: Callable[[], None]


def tools_for(mpi: MpiToolchain, folder: Path) -> list[Tool]:
    library = "ompi" if mpi.family == "openmpi" else "mpich"
    records = folder / "records"
    tools = [
        Tool("none", {}, lambda: None),
        Tool("none again", {}, lambda: None),
        Tool(
            "toposeat",
            {
                "LD_PRELOAD": str(_native_path(f"lib/libtoposeat_{library}.so")),
                "TOPOSEAT_PROFILE_DIR": str(records),
            },
            lambda: check_records(records),
        ),
    ]
    if mpi.family == "openmpi":
        prefix = folder / "monitoring"
        options = {
            "OMPI_MCA_pml_monitoring_enable": "2",
            "OMPI_MCA_pml_monitoring_enable_output": "3",
            "OMPI_MCA_pml_monitoring_filename": str(prefix),
        }
        tools.append(Tool("monitoring", options, lambda: check_monitoring(folder)))
    return tools


def check_records(records: Path) -> None:
    messages = int(read_records(records).table().messages.sum())
    if messages != SENDS:
        raise SystemExit(f"toposeat counted {messages} messages instead of {SENDS}")
    for each in records.iterdir():
        each.unlink()


def check_monitoring(folder: Path) -> None:
    found = list(folder.glob("monitoring*.prof"))
    if not any(f"{SENDS} msgs sent" in each.read_text() for each in found):
        raise SystemExit("Open MPI's monitoring did not count the messages")
    for each in found:
        each.unlink()


def measure(program: Path, mpi: MpiToolchain, tool: Tool) -> float:
    """Nanoseconds per exchange."""
    done = subprocess.run(
        [str(program), str(REPETITIONS), str(EXCHANGES)],
        env={**mpi.env, **tool.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    tool.check()
    return float(done.stdout.split()[-1])


def bench(mpi: MpiToolchain, folder: Path) -> None:
    program = folder / "calls"
    (folder / "records").mkdir()
    source = ROOT / "benchmarks" / "interposer_calls.c"
    subprocess.run(
        [str(mpi.mpicc), "-O2", "-o", str(program), str(source)], env=mpi.env, check=True
    )
    tools = tools_for(mpi, folder)
    taken: dict[str, list[float]] = {tool.name: [] for tool in tools}
    for _ in range(ROUNDS):
        for tool in tools:
            taken[tool.name].append(measure(program, mpi, tool))
    base = min(taken["none"])
    for name, values in taken.items():
        extra = (min(values) - base) / CALLS
        spread = (sorted(values)[len(values) // 2] - min(values)) / CALLS
        print(f"{mpi.name:16}{name:14}{min(values):10.1f}{extra:14.1f}{spread:14.1f}")


def main() -> None:
    print(describe())
    print("interposer: thread CPU time of 8-byte Irecv + Isend + Waitall to oneself, one rank")
    print(f"{'MPI':16}{'tool':14}{'ns/3 calls':>10}{'extra ns/call':>14}{'median - min':>14}")
    for name in MPI_NAMES:
        mpi = find_mpi(name)
        if isinstance(mpi, str):
            print(f"{name:16}skipped: {mpi}")
            continue
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as f:
            bench(mpi, Path(f))


if __name__ == "__main__":
    main()
