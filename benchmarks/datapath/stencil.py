"""Stencil2D with direct copies against staged ones, by matrix size and halo width.

examples/stencil2d under Open MPI with UCX: `cuda_ipc` pulling (GET), or not used (staged through
host memory). On the stand-in a step takes as long as a GPU of a stated rate would need.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.datapath.rows import Label

from toposeat.launch import GpuAwareMpi, find_gpu_aware_mpi

_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "stencil2d" / "stencil2d.c"
_DIRECT = {"UCX_RNDV_SCHEME": "get_zcopy", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY": "on"}
_STAGED = {"UCX_TLS": "^cuda_ipc"}
_BOTH = {"UCX_RNDV_THRESH": "4k"}  # Ji et al. compare rendezvous messages only
_STEPS = 16
_LIMIT_S = 120


def print_stencil(label: Label, options: argparse.Namespace) -> None:
    """A table of matrix sizes by halo widths."""
    mpi = find_gpu_aware_mpi()
    if isinstance(mpi, str):
        label.title(f"stencil2d: cannot run here: {mpi}")
        return
    sizes = [int(x) for x in options.matrices.split(",")]
    halos = [int(x) for x in options.halos.split(",")]
    label.title(
        f"stencil2d, {options.ranks} ranks, double precision, {_STEPS} steps, gain of GET over"
        f" staged; {options.rate:g} points/s per GPU; {options.repeats} repeats, interleaved"
    )
    print(
        f"{'matrix':>7} {'halo':>5} {'staged ms':>10} {'GET ms':>9} {'gain':>8} {'A/A':>8}"
        "  (fastest of each), and by medians"
    )
    with tempfile.TemporaryDirectory(prefix="toposeat-stencil-") as folder:
        program = _compiled(mpi, Path(folder))
        for size in sizes:
            gains = [_row(mpi, program, options, size, halo) for halo in halos]
            print(f"{size:>7}  mean {statistics.mean(gains):+.1%}", flush=True)
    label.published(
        "single: mean +4.7 %; +8.5, +3.9, +1.6 % for matrices of 2048, 4096, 8192; double: +2.3 %;"
        " +4.3, +2.2, +0.3 %; less with wider halos (Ji et al. 2012, Fig. 7)"
    )


def _compiled(mpi: GpuAwareMpi, folder: Path) -> Path:
    program = folder / "stencil2d"
    line = [str(mpi.installation.mpicc), "-O3", "-rdynamic", "-o", str(program), str(_EXAMPLE)]
    subprocess.run([*line, "-ldl"], check=True)
    return program


def _row(
    mpi: GpuAwareMpi, program: Path, options: argparse.Namespace, size: int, halo: int
) -> float:
    """Staged, GET and staged again (A/A) take turns; one row."""
    rows = 2 if options.ranks > 2 else 1
    columns = options.ranks // rows
    words = [
        *mpi.launch_words(options.ranks),
        *(str(program), "--device", "--grid", f"{rows}x{columns}"),
        *("--rows", str(size // rows), "--columns", str(size // columns), "--halo", str(halo)),
        *("--iterations", str(_STEPS // halo), "--rate", str(int(options.rate))),
    ]
    kinds = (_STAGED, _DIRECT, _STAGED)
    times: list[list[float]] = [[], [], []]
    for turn in range(options.repeats):
        for kind in ((turn + k) % 3 for k in range(3)):
            times[kind].append(_run(mpi, words, kinds[kind]))
    gain, control = [], []
    for of in (min, statistics.median):
        staged, direct, again = (of(each) for each in times)
        gain.append(staged / direct - 1)
        control.append(staged / again - 1)
    print(
        f"{size:>7} {halo:>5} {min(times[0]) * 1e3:>10.2f} {min(times[1]) * 1e3:>9.2f}"
        f" {gain[0]:>+8.1%} {control[0]:>+8.1%}  {gain[1]:+.1%}, A/A {control[1]:+.1%}",
        flush=True,
    )
    return gain[0]


def _run(mpi: GpuAwareMpi, words: Sequence[str], settings: dict[str, str]) -> float:
    done = subprocess.run(
        words,
        env={**mpi.environment(), **_drop(settings), **_BOTH, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=True,
    )
    assert "verified" in done.stdout
    found = re.search(r"iterations, ([0-9.]+) s", done.stdout)
    assert found is not None, done.stdout
    return float(found[1])


def _drop(settings: dict[str, str]) -> dict[str, str]:
    """Without what the caller's environment says about the way."""
    return {"UCX_RNDV_SCHEME": "auto"} if "UCX_TLS" in settings else {"UCX_TLS": "all"}
