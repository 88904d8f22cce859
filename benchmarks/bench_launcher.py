"""Start-up of a rank: toposeat-exec in front of /bin/true against /bin/true alone.

All variants run in turn, round after round in shuffled order, so that drift of the machine meets
all of them alike. The plain start is measured twice: what these two differ by is noise.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.machine import describe

from toposeat.installed import native_path
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.placement_file import save_placement

PROGRAM = "/bin/true"


def make_placement(path: Path, ranks: int, ranks_per_host: int) -> None:
    """Write a placement with CPU sets for the CPUs that this process may use."""
    cpus = sorted(os.sched_getaffinity(0))
    host_of = [
        "*" if rank < ranks_per_host else f"n{rank // ranks_per_host}" for rank in range(ranks)
    ]
    devices = tuple(
        HostDevice(index=i, pci_bus_id=f"0000:{i + 1:02x}:00.0", uuid=f"GPU-{i:08x}")
        for i in range(ranks_per_host)
    )
    seats = tuple(
        Seat(
            rank=rank,
            host=host_of[rank],
            local_rank=rank % ranks_per_host,
            index=ranks_per_host - 1 - rank % ranks_per_host,
            cpus=str(cpus[rank % len(cpus)]),
            memory_node=0,
        )
        for rank in range(ranks)
    )
    listed = dict.fromkeys(host_of, devices)
    save_placement(Placement(seats=seats, devices_of_host=listed, vendor="nvidia"), path)


def variants(folder: Path) -> dict[str, list[str]]:
    """The command lines to compare, by the name they are printed under."""
    launcher = str(native_path("bin/toposeat-exec"))
    make_placement(folder / "small.place", 16, 16)
    make_placement(folder / "large.place", 100_000, 8)
    (folder / "reports").mkdir()
    placed = [launcher, "-m", str(folder / "small.place")]
    return {
        "plain": [PROGRAM],
        "plain again (A/A)": [PROGRAM],
        "toposeat-exec": [launcher, "--", PROGRAM],
        "toposeat-exec -m, 16 ranks": [*placed, "--", PROGRAM],
        "... and --report": [*placed, "--report", str(folder / "reports"), "--", PROGRAM],
        "toposeat-exec -m, 100000 ranks": [
            launcher,
            "-m",
            str(folder / "large.place"),
            "--",
            PROGRAM,
        ],
    }


def start_once(argv: list[str], environment: Mapping[str, str]) -> float:
    """Seconds from posix_spawn to the end of the program."""
    began = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, environment)
    _, status = os.waitpid(pid, 0)
    seconds = time.perf_counter() - began
    if status != 0:
        raise SystemExit(f"{argv[0]} failed with status {status}")
    return seconds


def measure(lines: Mapping[str, list[str]], rounds: int) -> dict[str, list[float]]:
    """Seconds per start and variant; a tenth of the rounds first, unrecorded."""
    found: dict[str, list[float]] = {name: [] for name in lines}
    order = list(lines)
    shuffle = random.Random(1).shuffle
    for number in range(-(rounds // 10), rounds):
        shuffle(order)
        for name in order:
            ranks = "100000" if "100000" in name else "16"
            environment = {
                "PATH": "/usr/bin:/bin",
                "PMI_RANK": "3",
                "PMI_SIZE": ranks,
                "MPI_LOCALRANKID": "3",
            }
            seconds = start_once(lines[name], environment)
            if number >= 0:
                found[name].append(seconds)
    return found


def table(found: Mapping[str, list[float]]) -> str:
    """Median, quartiles and the median of the differences to the plain start of the same round."""
    rows = ["start-up of one rank           median ms   quartiles ms      added ms"]
    plain = found["plain"]
    for name, values in found.items():
        low, middle, high = statistics.quantiles(values, n=4)
        added = statistics.median(own - base for own, base in zip(values, plain, strict=True))
        tail = "" if name == "plain" else f"{added * 1e3:+9.3f}"
        rows.append(
            f"{name:30s} {middle * 1e3:9.3f}   {low * 1e3:.3f} - {high * 1e3:.3f} {tail:>13s}"
        )
    return "\n".join(rows)


def main() -> None:
    print(describe())
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        found = measure(variants(Path(folder)), rounds)
    print(table(found))
    print(f"program: {PROGRAM}; {rounds} rounds, interleaved; {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
