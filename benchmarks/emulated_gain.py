"""Gain by the clock on the stand-in GPU node: `python -m benchmarks.emulated_gain [--repeats N]`.

16 real ranks of a GPU-aware Open MPI on an emulated k80-16, in the default, the placed and random
orders, taking turns, each repeat with the default a second time (A/A). EMULATED: copies take the
time of the links, which are slowed down so that few cores keep pace; no time here is one of a GPU.
The collective's steps are a ring of messages: collectives of an Open MPI without CUDA of its own
copy device memory on the host and crash.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toposeat import evaluate, pipeline, profile
from toposeat.emulation import emulated_node
from toposeat.topology import read_topology

MACHINE = "k80-16"
SCALE = 0.0125  # a board's uplink moves 50 MB/s
PATTERNS = (
    ("3-D stencil, first dimension 3x", "stencil3d:2x2x4,weight=3"),
    ("2-D stencil", "stencil2d:4x4"),
    ("ring, as in a ring all-reduce", "ring:16"),
)
BYTES = 262144


def bench(pattern: str, repeats: int) -> dict[str, Any]:
    """The JSON of `toposeat bench` on a fresh stand-in node."""
    mpi = pipeline.emulated_mpi()
    if isinstance(mpi, str):
        raise SystemExit(f"cannot run here: {mpi}")
    program = Path(sys.executable).with_name("toposeat")
    options = ["--buffers", "device", "--sizes", str(BYTES), "--iterations", "4", "--batch", "2"]
    options += ["--warmup", "1", "--repeats", str(repeats), "--random", str(repeats)]
    line = [str(program), "bench", pattern, "-t", MACHINE, "--json", *options]
    with emulated_node(read_topology(MACHINE), scale=SCALE) as node:
        done = subprocess.run(
            [*line, "--", *mpi.launch_words(16)],
            env={**node.environment(mpi.environment()), "TOPOSEAT_EMULATOR_QUIET": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def row(name: str, pattern: str, repeats: int) -> str:
    """One line of the table: seconds clocked and predicted, gains, control."""
    result = bench(pattern, repeats)
    (size,) = result["rows"]
    machine = read_topology(MACHINE)
    evaluator = evaluate.Evaluator(machine, profile.pattern_traffic(f"{pattern},bytes={BYTES}"))
    forecast = {
        "default": evaluator.evaluate(evaluate.default_placement(16, machine)).predicted_s / SCALE,
        "placed": evaluator.evaluate(result["device_of_rank"]).predicted_s / SCALE,
    }
    clocked = {
        order: statistics.median(r["seconds"][0] for r in result["runs"] if r["order"] == order)
        for order in ("default", "placed", "random")
    }
    cells = [f"{name:32}"]
    for order in ("default", "placed"):
        off = clocked[order] / forecast[order] - 1
        cells.append(f"{clocked[order] * 1e3:7.1f} {forecast[order] * 1e3:7.1f} {off:+7.1%}")
    low, high = size["placed"]["low"], size["placed"]["high"]
    interval = "" if low is None else f" ({low:+.1%} to {high:+.1%})"
    cells.append(f"{size['placed']['mean']:+.1%}{interval}, predicted {size['predicted']:+.1%}")
    cells.append(f"random {clocked['random'] * 1e3:.1f} ms, A/A {size['control']['mean']:+.1%}")
    return "  ".join(cells)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args(arguments)
    print(
        f"EMULATED {MACHINE}, links x {SCALE}, 16 ranks on {os.cpu_count()} CPUs, {BYTES} bytes a"
        f" message, {args.repeats} repeats, orders interleaved; milliseconds per exchange"
    )
    print(f"{'':32}  {'default: clocked predicted off':>26}  {'placed: clocked predicted off':>24}")
    for name, pattern in PATTERNS:
        print(row(name, pattern, args.repeats), flush=True)


if __name__ == "__main__":
    main()
