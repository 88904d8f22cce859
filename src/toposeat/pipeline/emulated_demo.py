"""The clocked part of the demo: the whole path with device buffers on a stand-in GPU node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from toposeat import emulation, launch, mapping, profile, topology
from toposeat.errors import ToposeatError
from toposeat.installed import native_path
from toposeat.model.map_options import MapOptions
from toposeat.model.placement_file import save_placement
from toposeat.model.runs import ClockedResult
from toposeat.model.shell_words import shell_line
from toposeat.model.traffic_file import save_traffic
from toposeat.pipeline.clocked import Candidate, ClockPlan, clock_placements
from toposeat.pipeline.placing import placement_of

MACHINE = "k80-16"
SCALE = 0.00625  # a board's uplink moves 25 MB/s: its time is long beside a rank's wait for a core
RANKS = 16  # of a 2x2x4 grid
_PROFILED, _CLOCKED = 2, 3  # iterations
_HALO = ("--grid", "2x2x4", "--weights", "3,1,1", "--bytes", "393216", "--device")
_REAL_DRIVER = Path("/proc/driver/nvidia/version")
_SECONDS = r" ([0-9.]+) s$"


def emulated_mpi() -> launch.GpuAwareMpi | str:
    """What the clocked part of the demo runs with, or why it cannot run here."""
    if _REAL_DRIVER.exists():
        return (
            "this node has a real NVIDIA driver: use `toposeat tune` and `toposeat compare` on it"
        )
    return launch.find_gpu_aware_mpi()


def emulated_gain(
    folder: Path,
    mpi: launch.GpuAwareMpi,
    progress: Callable[[str], None],
    *,
    repeats: int = 3,
    output: IO[bytes] | None = None,
    runs: Callable[[int, int], None] = lambda _done, _of: None,
) -> ClockedResult:
    """Profile 16 ranks with device buffers on the stand-in, map, and clock default and placed.

    Args:
        folder: where program, profile and placement are written.
        mpi: what it runs with.
        progress: is told each step.
        repeats: of the clocked runs.
        output: takes what the profiled program prints; default: this process's own output.
        runs: is told how many of how many runs are clocked.
    """
    program = folder / "halo3d-device"
    mpi.installation.compile(native_path("share/halo3d/halo3d.c"), program)
    machine = topology.read_topology(MACHINE)
    slowed = emulation.scaled_topology(machine, SCALE)
    command = [*mpi.launch_words(RANKS), str(program), *_HALO]
    with emulation.emulated_node(emulation.machine_text(machine, scale=SCALE)) as node:
        environment = {**node.environment(mpi.environment()), "TOPOSEAT_EMULATOR_QUIET": "1"}
        progress(f"Emulate   {MACHINE}: {RANKS} ranks, buffers on stand-in GPUs, real copies")
        short = [*command, "--iterations", str(_PROFILED)]
        traffic, code = profile.profile_run(short, environment=environment, output=output)
        if code != 0:
            raise ToposeatError(
                f"the demo program ended with exit code {code} on the stand-in node",
                hint=f"try it alone: toposeat emulate -t {MACHINE} -- {shell_line(short)}",
            )
        profile_path, path = folder / "emulated.prof", folder / "emulated.place"
        save_traffic(traffic, profile_path, overwrite=True)
        result = mapping.map_traffic(slowed, traffic, MapOptions(min_gain=0.01))
        placement = placement_of(result, slowed, traffic, traffic_name=str(profile_path))
        save_placement(placement, path, overwrite=True)
        candidate = Candidate(
            name="placed",
            placement=placement,
            path=path,
            predicted=1 - result.placed.predicted_s / result.default.predicted_s,
        )
        progress(f"Clock     default and placed take turns, {repeats} repeats")
        plan = ClockPlan(
            command=(*command, "--iterations", str(_CLOCKED), "--warmup", "1"),
            repeats=repeats,
            pattern=f"(?m){_SECONDS}",
        )
        clocked = clock_placements(plan, [candidate], progress=runs, environment=environment)
    pair = result.default.predicted_s, result.placed.predicted_s
    return replace(clocked, predicted_s=tuple(each * _CLOCKED / _PROFILED for each in pair))
