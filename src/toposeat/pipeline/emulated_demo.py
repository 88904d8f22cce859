"""The clocked part of the demo: the whole path with device buffers on a stand-in GPU node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from toposeat import _native_path, emulation, launch, profile, topology
from toposeat.errors import ToposeatError
from toposeat.model.clocked import ClockedResult
from toposeat.model.placement import Placement
from toposeat.model.placement_file import save_placement
from toposeat.model.traffic_file import save_traffic
from toposeat.pipeline.clocked import Candidate, ClockPlan, clock_placements
from toposeat.pipeline.command_words import shell_line
from toposeat.pipeline.placing import MapOptions, placement_of

MACHINE = "k80-16"
SCALE = 0.02  # a board's uplink moves 80 MB/s: two cores keep pace with eight ranks
RANKS = 8  # of a 2x2x2 grid
_HALO = ("--grid", "2x2x2", "--weights", "3,1,1", "--bytes", "500000", "--device")
_REAL_DRIVER = Path("/proc/driver/nvidia/version")
_SECONDS = r" ([0-9.]+) s$"


def emulated_mpi() -> launch.GpuAwareMpi | str:
    """What the clocked part of the demo runs with, or why it cannot run here."""
    if _REAL_DRIVER.exists():
        return "a real NVIDIA driver is here: use `toposeat tune` and `toposeat compare` on it"
    return launch.find_gpu_aware_mpi()


def emulated_gain(
    folder: Path,
    mpi: launch.GpuAwareMpi,
    progress: Callable[[str], None],
    *,
    repeats: int = 3,
) -> ClockedResult:
    """Profile 8 ranks with device buffers on the stand-in, map, and clock default and placed.

    Raises:
        ToposeatError: the program cannot be compiled, or fails.
    """
    program = folder / "halo3d-device"
    mpi.installation.compile(_native_path("share/halo3d/halo3d.c"), program)
    machine = topology.read_topology(MACHINE)
    command = [*mpi.launch_words(RANKS), str(program), *_HALO]
    with emulation.emulated_node(machine, scale=SCALE) as node:
        environment = {**node.environment(mpi.environment()), "TOPOSEAT_EMULATOR_QUIET": "1"}
        progress(f"Emulate   {MACHINE}: {RANKS} ranks, buffers on stand-in GPUs, real copies")
        progress("          (Open MPI says that it is not GPU-aware; the UCX it sends with is)")
        short = [*command, "--iterations", "2"]
        traffic, code = profile.profile_run(short, environment=environment)
        if code != 0:
            raise ToposeatError(
                f"the demo program ended with exit code {code} on the stand-in node",
                hint=f"try it alone: toposeat emulate -t {MACHINE} -- {shell_line(short)}",
            )
        profile_path, path = folder / "emulated.prof", folder / "emulated.place"
        save_traffic(traffic, profile_path, overwrite=True)
        result = MapOptions().map(machine, traffic)
        placed = placement_of(result, machine, traffic, traffic_name=str(profile_path))
        placement = _without_cpus(placed)
        save_placement(placement, path, overwrite=True)
        candidate = Candidate(
            name="placed",
            placement=placement,
            path=path,
            predicted=1 - result.placed.predicted_s / result.default.predicted_s,
        )
        progress(f"Clock     default and placed take turns, {repeats} repeats")
        plan = ClockPlan(
            command=(*command, "--iterations", "4", "--warmup", "1"),
            repeats=repeats,
            pattern=f"(?m){_SECONDS}",
        )
        return clock_placements(plan, [candidate], progress=_silent, environment=environment)


def _silent(_done: int, _of: int) -> None:
    """The runs are few."""


def _without_cpus(placement: Placement) -> Placement:
    """The devices only: the stand-in's CPUs are those of this machine, not the catalogue's."""
    seats = tuple(replace(seat, cpus=None, memory_node=None) for seat in placement.seats)
    return replace(placement, seats=seats)
