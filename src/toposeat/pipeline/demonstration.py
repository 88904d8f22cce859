"""`demo`: the whole path on a machine without GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO

from toposeat import launch, mapping, profile, topology
from toposeat.errors import ToposeatError
from toposeat.installed import native_path
from toposeat.model.evaluation import MappingResult
from toposeat.model.map_options import MapOptions
from toposeat.model.placement_file import save_placement
from toposeat.model.record import Record
from toposeat.model.shell_words import shell_line
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.model.traffic_file import save_traffic
from toposeat.pipeline.placing import placement_of

Progress = Callable[[str], None]


class DemoMachine(Record, frozen=True, kw_only=True):
    """One machine of the demo with what was found for it."""

    topology: Topology
    result: MappingResult
    placement_path: Path


class DemoOutcome(Record, frozen=True, kw_only=True):
    """What the demo did."""

    mpi: str
    command: tuple[str, ...]
    traffic: Traffic
    profile_path: Path
    machines: tuple[DemoMachine, ...]


DEMO_MACHINES = ("k80-16", "dgx-2")
DEMO_GRID = (2, 2, 4)
DEMO_WEIGHTS = (3, 1, 1)
DEMO_BYTES = 65536
DEMO_ITERATIONS = 50


def demo(
    folder: Path,
    mpi: launch.MpiInstallation,
    progress: Progress,
    *,
    output: IO[bytes] | None = None,
) -> DemoOutcome:
    """Compile the halo exchange, profile 16 real ranks of it, map it onto two known machines.

    What the program prints goes to `output`, else where this process's own output does.
    """
    source = native_path("share/halo3d/halo3d.c")
    program = folder / "halo3d"
    progress(f"Compile   {shell_line([mpi.mpicc.name, source.name])} ({mpi.description})")
    mpi.compile(source, program)
    ranks = DEMO_GRID[0] * DEMO_GRID[1] * DEMO_GRID[2]
    command = [
        *mpi.launch_words(ranks),
        str(program),
        *("--grid", "x".join(map(str, DEMO_GRID))),
        *("--weights", ",".join(map(str, DEMO_WEIGHTS))),
        *("--bytes", str(DEMO_BYTES), "--iterations", str(DEMO_ITERATIONS)),
    ]
    progress(f"Profile   {shell_line(command)}")
    traffic, exit_code = profile.profile_run(command, environment=mpi.environment(), output=output)
    if exit_code != 0:
        raise ToposeatError(
            f"the demo program ended with exit code {exit_code}",
            hint=f"try it alone: {shell_line(command)}",
        )
    profile_path = folder / "halo3d.prof"
    save_traffic(traffic, profile_path, overwrite=True)
    machines = []
    for name in DEMO_MACHINES:
        progress(f"Map       16 ranks onto {name} (catalogue, nominal numbers)")
        machine = topology.read_topology(name)
        result = mapping.map_traffic(machine, traffic, MapOptions(min_gain=0.01))
        placement = placement_of(result, machine, traffic, traffic_name=str(profile_path))
        path = folder / f"{name}.place"
        save_placement(placement, path, overwrite=True)
        machines.append(DemoMachine(topology=machine, result=result, placement_path=path))
    return DemoOutcome(
        mpi=mpi.description,
        command=tuple(command),
        traffic=traffic,
        profile_path=profile_path,
        machines=tuple(machines),
    )
