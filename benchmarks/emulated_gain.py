"""Gain and time by the clock on the stand-in GPU node, beside prediction and paper.

Run: python -m benchmarks.emulated_gain [--repeats N] [--page FILE]

16 real ranks of a GPU-aware Open MPI on an emulated k80-16 whose links are slowed down, so that few
cores keep pace. EMULATED: real programs, MPI and copies, but every copy takes the time of the links
it uses; no time here is that of a GPU. Each pattern runs in the default order, the placed one, a
random one (another in every repeat) and the default again (A/A); orders take turns and every other
repeat runs backwards. A run is one start of the microbenchmark: its time is the median of its
samples, each an exchange behind a barrier by the slowest rank.

What the flow model predicts is link time. Beside it stands the time of the same exchange with
messages of one byte, measured in the same runs: start-up, protocol, and ranks that wait for a core.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.emulated_table import PaperPattern, section_of
from benchmarks.machine import describe, rewrite_section

from toposeat import emulation, pipeline
from toposeat.launch import GpuAwareMpi
from toposeat.launch.microbench import MicrobenchOptions
from toposeat.model.map_options import MapOptions
from toposeat.topology import read_topology

MACHINE = "k80-16"
RANKS = 16
SCALE = 0.00625  # a board's uplink moves 25 MB/s
BYTES = 393216
PATTERNS = (  # name, pattern, what the paper says of its communication time
    ("3-D stencil, first dimension 3x", "stencil3d:2x2x4,weight=3", "about 50 %"),
    ("2-D stencil", "stencil2d:4x4", "about 20 %"),
    ("collective in groups of 4", "alltoall:4x2x2", "up to 70 %"),
)
PROGRAM = MicrobenchOptions(sizes=(BYTES,), iterations=3, batch=1, warmup=0, buffers="device")


def clock(name: str, pattern: str, paper: str, mpi: GpuAwareMpi, repeats: int) -> PaperPattern:
    """All runs of one pattern, on a stand-in node of its own."""
    machine = emulation.scaled_topology(read_topology(MACHINE), SCALE)
    algorithm = "linear" if pattern.startswith("alltoall") else None
    plan, tiny = (
        pipeline.plan_pattern(
            pattern,
            machine,
            replace(PROGRAM, sizes=(size,)),
            options=MapOptions(min_gain=0),
            randoms=repeats,
            algorithm=algorithm,
        )
        for size in (BYTES, 1)
    )
    both = replace(
        plan, program=replace(PROGRAM, sizes=(1, BYTES)), times=(*tiny.times, *plan.times)
    )
    with emulation.emulated_node(
        emulation.machine_text(read_topology(MACHINE), scale=SCALE)
    ) as node:
        variables = {**node.environment(mpi.environment()), "TOPOSEAT_EMULATOR_QUIET": "1"}
        os.environ.update(variables)
        result = pipeline.clock_pattern(
            both, mpi.launch_words(RANKS), repeats=repeats, progress=lambda _done, _of: None
        )
    return PaperPattern(name=name, paper=paper, plan=plan, result=result)


def main(arguments: Sequence[str] | None = None) -> None:
    """Clock all patterns and print or write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5, help="runs of every order (default: 5)")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="rewrite its section of this page"
    )
    args = parser.parse_args(arguments)
    mpi = pipeline.emulated_mpi()
    if isinstance(mpi, str):
        raise SystemExit(f"cannot run here: {mpi}")
    head = (
        f"EMULATED {MACHINE}, links x {SCALE}, {RANKS} ranks, {BYTES} bytes a message,"
        f" {args.repeats} repeats; {mpi.installation.description}"
    )
    where = describe()  # the load before this
    patterns = []
    for name, pattern, paper in PATTERNS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        patterns.append(clock(name, pattern, paper, mpi, args.repeats))
    section = section_of(head, where, patterns)
    if args.page is None:
        print(section)
    else:
        rewrite_section(args.page, "emulated-gains", section)


if __name__ == "__main__":
    main()
