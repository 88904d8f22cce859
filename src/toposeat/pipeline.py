"""The only place that chains topology, profile, mapping and launch: tune and demo."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from toposeat import evaluate, launch, mapping, profile, topology
from toposeat.errors import ApplicationError, InputError, ToposeatError
from toposeat.model.evaluation import Certificate, MappingResult
from toposeat.model.placement import Placement
from toposeat.model.placement_file import save_placement
from toposeat.model.result_file import save_mapping
from toposeat.model.topology import ANY_HOST, Topology
from toposeat.model.topology_file import load_topology, save_topology
from toposeat.model.traffic import Traffic
from toposeat.model.traffic_file import load_traffic, save_traffic

Progress = Callable[[str], None]

PLACEMENT_NAME = "app.place"
PROFILE_NAME = "app.prof"
TOPOLOGY_NAME = "machine.json"
MAPPING_NAME = "mapping.json"

_SCRIPT_SUFFIXES = {".py", ".sh", ".jl", ".pl", ".rb", ".lua", ".R"}
# Where a launch line leaves the number of ranks to the allocation, that is said here.
_RANK_VARIABLES = ("SLURM_NTASKS", "SLURM_NPROCS", "PBS_NP", "LSB_DJOB_NUMPROC", "NSLOTS")


@dataclass(frozen=True, kw_only=True)
class MapOptions:
    """How to map: see `mapping.map_traffic`."""

    objective: str = "time"
    metric: str = "bandwidth"
    solver: str = "auto"
    budget_s: float = 1.0
    seed: int = 1
    min_gain: float = 0.01

    @staticmethod
    def from_namespace(args: argparse.Namespace) -> MapOptions:
        """From the options of `cli.command.add_solver_options`."""
        return MapOptions(
            objective=args.objective,
            metric=args.metric,
            solver=args.solver,
            budget_s=MapOptions.budget_s if args.budget is None else args.budget,
            seed=args.seed,
            min_gain=args.min_gain / 100,
        )

    def map(
        self,
        machine: Topology,
        traffic: Traffic,
        *,
        constraints: mapping.Constraints | None = None,
        explained: bool = False,
    ) -> MappingResult:
        """`mapping.map_traffic` with these options."""
        return mapping.map_traffic(
            machine,
            traffic,
            objective=self.objective,
            metric=self.metric,
            solver=self.solver,
            budget_s=self.budget_s,
            seed=self.seed,
            min_gain=self.min_gain,
            constraints=constraints,
            explained=explained,
        )


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What `tune` found, and where it keeps it."""

    topology: Topology
    traffic: Traffic
    result: MappingResult
    placement: Placement
    placement_path: Path
    profile_path: Path
    exit_code: int  # of the profiled application; 0 when its profile was cached


def tune(
    command: Sequence[str],
    *,
    source: str,
    profile_again: bool,
    options: MapOptions,
    constraints_for: Callable[[Topology], mapping.Constraints],
    progress: Progress,
) -> Tuned:
    """Discover (or read) the machine, profile the command once, map, and keep the results.

    The profile is cached by command and rank count, the placement also by machine.
    `constraints_for` says what a placement on the machine must keep to.

    Raises:
        ToposeatError: whatever the steps raise; nothing is cached for a run that failed.
    """
    machine = topology.read_topology(source)
    progress(f"Topology  {machine.name}, {len(machine.devices)} devices ({machine.origin})")
    constraints = constraints_for(machine)
    ranks = launch.parse_launch_line(command).ranks
    if ranks is not None:  # refused before the application runs, not after
        mapping.problem_of(machine, ranks, constraints)
    folder = _tuned_folder(command)
    _check_cache(folder.parent)
    profile_path = folder / PROFILE_NAME
    exit_code = 0
    if profile_path.exists() and not profile_again:
        traffic = load_traffic(profile_path)
        progress(f"Profile   cached: {profile_path} (profile again with --again)")
    else:
        progress(f"Profile   running: {shell_line(command)}")
        traffic, exit_code = profile.profile_run(command)
        if exit_code != 0:
            raise ApplicationError(
                f"the application ended with exit code {exit_code} while being profiled",
                hint="run it alone first; a profile of a failed run is not kept",
                exit_code=exit_code,
            )
        folder.mkdir(parents=True, exist_ok=True)
        save_traffic(traffic, profile_path, overwrite=True)
    result = options.map(machine, traffic, constraints=constraints)
    placement = placement_of(result, machine, traffic, traffic_name=str(profile_path))
    save_topology(machine, folder / TOPOLOGY_NAME, overwrite=True)
    save_mapping(result, folder / MAPPING_NAME, overwrite=True)
    save_placement(placement, folder / PLACEMENT_NAME, overwrite=True)
    return Tuned(
        topology=machine,
        traffic=traffic,
        result=result,
        placement=placement,
        placement_path=folder / PLACEMENT_NAME,
        profile_path=profile_path,
        exit_code=exit_code,
    )


def tuned_placement_path(command: Sequence[str]) -> Path:
    """Where `tune` left the placement of this command on this machine.

    Raises:
        InputError: it did not.
    """
    path = _tuned_folder(command) / PLACEMENT_NAME
    if not path.is_file():
        raise InputError(
            f"no placement for this command on {os.uname().nodename} yet",
            hint=f"find one with: toposeat tune -- {shell_line(command)}",
        )
    return path


def tuned_topology(command: Sequence[str]) -> Topology:
    """The machine that `tune` placed this command on."""
    return load_topology(_tuned_folder(command) / TOPOLOGY_NAME)


def cache_folder() -> Path:
    """Where tuned results are kept: TOPOSEAT_CACHE_DIR, else the user's cache folder."""
    if os.environ.get("TOPOSEAT_CACHE_DIR"):
        return Path(os.environ["TOPOSEAT_CACHE_DIR"])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "toposeat"


def _check_cache(folder: Path) -> None:
    """Refuse a folder that could not be made or written before the application runs for nothing."""
    there = next(each for each in (folder, *folder.absolute().parents) if os.path.lexists(each))
    if not there.is_dir():
        cause = f"{there} is not a directory"
    elif not os.access(there, os.W_OK | os.X_OK):
        cause = f"no permission to write in {there}"
    else:
        return
    raise InputError(
        f"cannot keep results here: {cause}",
        path=folder,
        hint="set TOPOSEAT_CACHE_DIR to a folder that can be written",
    )


def _tuned_folder(command: Sequence[str]) -> Path:
    """One folder per machine, program with arguments, and rank count.

    The launcher's own options stay out of the key: `mpirun --bind-to none -n 8 ./app` is the same
    job as `mpirun -n 8 ./app`. Programs and scripts in the line count with their place and time of
    modification, so that a rebuilt application is profiled again, and two `python app.py` in two
    folders are two applications.
    """
    line = launch.parse_launch_line(command)
    files = [_program_file(word, first=not at) for at, word in enumerate(line.program)]
    key = {
        "host": os.uname().nodename,
        "ranks": line.ranks or [os.environ.get(name) for name in _RANK_VARIABLES],
        "program": [
            str(path) if path else word for path, word in zip(files, line.program, strict=True)
        ],
        "modified": [path.stat().st_mtime_ns if path else 0 for path in files],
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / f"{program_name(command)}-{line.ranks or 'n'}-{digest}"


def _program_file(word: str, *, first: bool) -> Path | None:
    """The program or script that a word of a launch line names: interpreters and wrappers too."""
    found = Path(shutil.which(word) or word) if first else Path(word)
    try:
        runnable = found.suffix in _SCRIPT_SUFFIXES or os.access(found, os.X_OK)
        return found.resolve() if runnable and found.is_file() else None
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return None


def program_name(command: Sequence[str]) -> str:
    """The application's own name in a launch line, for file names."""
    program = launch.parse_launch_line(command).program
    names = [word for word in program if not word.startswith("-")]
    is_python = bool(names) and Path(names[0]).name.startswith("python") and len(names) > 1
    return Path(names[1] if is_python else names[0]).stem if names else "app"


def shell_line(command: Sequence[str]) -> str:
    """A command as one would type it."""
    return shlex.join(command)


def placement_of(
    result: MappingResult, machine: Topology, traffic: Traffic, *, traffic_name: str
) -> Placement:
    """The placement file's content for a mapping result."""
    metadata = {
        "topology": machine.name,
        "traffic": traffic_name,
        "objective": result.objective,
        "solver": result.solver,
        "certificate": result.certificate.word,
        "predicted_s_default": f"{result.default.predicted_s:.6g}",
        "predicted_s_placed": f"{result.placed.predicted_s:.6g}",
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    placement = mapping.seat_ranks(machine, traffic.ranks, result.device_of_rank, metadata=metadata)
    return launch.with_visibility(placement, traffic.device_choice)


def device_positions(
    placement: Placement, machine: Topology, traffic: Traffic, path: Path
) -> tuple[int, ...]:
    """`device_of_rank` of a placement on this topology, found by PCI bus id, else host and index.

    Raises:
        InputError: another rank count, or a device that the topology does not have.
    """
    if placement.ranks != traffic.ranks:
        raise InputError(
            f"a placement for {placement.ranks} ranks; the traffic has {traffic.ranks}",
            path=path,
            hint="map this traffic again: toposeat map TRAFFIC -t SRC -o F",
        )
    # Nodes of one kind have the same bus ids: with several hosts, the host tells them apart.
    by_pci = {(d.host, d.pci_bus_id): at for at, d in enumerate(machine.devices) if d.pci_bus_id}
    by_index = {(d.host, d.index): at for at, d in enumerate(machine.devices)}
    only_host = machine.hosts[0] if len(machine.hosts) == 1 else None
    found = []
    for seat in placement.seats:
        host = only_host if only_host and ANY_HOST in (seat.host, only_host) else seat.host
        at = by_pci.get((only_host or seat.host, seat.pci_bus_id)) if seat.pci_bus_id else None
        at = by_index.get((host, seat.index)) if at is None else at
        if at is None:
            raise InputError(
                f"rank {seat.rank}: {machine.name} has no device {seat.pci_bus_id or seat.index}",
                path=path,
                hint="this placement was made for another machine",
            )
        found.append(at)
    return tuple(found)


def assess(machine: Topology, traffic: Traffic, devices: Sequence[int]) -> MappingResult:
    """A given placement beside the default, in the form of a mapping result without a proof."""
    evaluator = evaluate.Evaluator(machine, traffic)
    default = evaluator.evaluate(evaluate.default_placement(traffic.ranks, machine))
    placed = evaluator.evaluate(devices)
    return MappingResult(
        device_of_rank=tuple(devices),
        default=default,
        placed=placed,
        certificate=Certificate(
            objective="time",
            proved=False,
            value=placed.predicted_s,
            lower_bound=None,
            gap=None,
            reason="a placement that was given, not searched for",
        ),
        objective="time",
        metric="bandwidth",
        solver="given",
        solve_seconds=0.0,
        seed=0,
    )


@dataclass(frozen=True, kw_only=True)
class DemoMachine:
    """One machine of the demo with what was found for it."""

    topology: Topology
    result: MappingResult
    placement_path: Path


@dataclass(frozen=True, kw_only=True)
class DemoOutcome:
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


def demo(folder: Path, mpi: launch.MpiInstallation, progress: Progress) -> DemoOutcome:
    """Compile the halo exchange, profile 16 real ranks of it, map it onto two known machines."""
    source = _halo3d_source()
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
    traffic, exit_code = profile.profile_run(command, environment=mpi.environment())
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
        result = MapOptions().map(machine, traffic)
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


def _halo3d_source() -> Path:
    import toposeat  # noqa: PLC0415  (the package itself, for the path of its data)

    return toposeat._native_path("share/halo3d.c")


__all__ = [
    "DemoMachine",
    "DemoOutcome",
    "MapOptions",
    "Tuned",
    "assess",
    "cache_folder",
    "demo",
    "device_positions",
    "placement_of",
    "program_name",
    "shell_line",
    "tune",
    "tuned_placement_path",
    "tuned_topology",
]
