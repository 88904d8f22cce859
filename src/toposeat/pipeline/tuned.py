"""`tune`: discover, profile and map a command once, and keep what was found."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from toposeat import launch, mapping, profile
from toposeat.errors import ApplicationError, InputError, ToposeatError
from toposeat.mapping import Machine
from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.evaluation import MappingResult
from toposeat.model.map_options import MapOptions
from toposeat.model.placement import Placement
from toposeat.model.placement_file import save_placement
from toposeat.model.private_cache import cache_root, private_folder
from toposeat.model.rank_info import RankInfo
from toposeat.model.record import Record
from toposeat.model.result_file import save_mapping
from toposeat.model.shell_words import shell_line
from toposeat.model.topology import Device, Topology
from toposeat.model.traffic import BESIDE, INNER_LINE, Traffic
from toposeat.model.traffic_file import save_traffic
from toposeat.model.visible_list import DEVICE_VARIABLES, ordering_variable
from toposeat.pipeline.command_words import program_name
from toposeat.pipeline.job_machine import JobMachine, MachineSource, machine_of_job, runs_here
from toposeat.pipeline.placing import placement_of
from toposeat.pipeline.stack_path import StackPath, map_on_path, path_of_stack
from toposeat.topology import save_topology

Progress = Callable[[str], None]

PLACEMENT_NAME = "app.place"
PROFILE_NAME = "app.prof"
TOPOLOGY_NAME = "machine.json"
MAPPING_NAME = "mapping.json"
_RESULTS = "tuned results"

_SCRIPT_SUFFIXES = {".py", ".sh", ".jl", ".pl", ".rb", ".lua", ".R"}
# Where a launch line leaves the number of ranks to the allocation, that is said here.
_RANK_VARIABLES = ("SLURM_NTASKS", "SLURM_NPROCS", "PBS_NP", "LSB_DJOB_NUMPROC", "NSLOTS")


class Tuned(Record, frozen=True, kw_only=True):
    """What `tune` found, and where it keeps it; `topology` lists the devices of the result."""

    topology: Topology | None
    traffic: Traffic
    result: MappingResult
    path: StackPath
    placement: Placement
    placement_path: Path
    profile_path: Path
    exit_code: int  # of the profiled application; 0 when its profile was cached


def tune(
    command: Sequence[str],
    *,
    source: MachineSource,
    profile_again: bool,
    options_for: Callable[[Machine], MapOptions],
    progress: Progress,
    stack: str | None = None,
    settings: str = "",
    merging: Callable[[int, int], None] | None = None,
    searching: AbstractContextManager[None] | None = None,
) -> Tuned:
    """Discover (or read) the machine, profile the command once, map, and keep the results.

    The machine is that of the job: all nodes that the command may use (`machine_of_job`). The
    profile is cached by command and rank count. `options_for` says how to map onto the machine;
    `stack` names the MPI, None: the command tells. `settings` says for the placement what files
    of settings decided. `merging` is told how many of how many records of the profile are merged;
    the search for a placement runs within `searching`.
    """
    line = launch.parse_launch_line(command)
    _check_cache(_tuned_folder(command).parent)
    found = machine_of_job(line, source, os.environ, progress)
    machine, ranks = found.machine, (launch.torchrun_below(line) or line).ranks
    for words in found.words:
        progress(words)
    options = options_for(machine)
    if found.devices is not None and options.constraints.devices is None:
        options = replace(options, constraints=replace(options.constraints, devices=found.devices))
    # Of several programs some may use no GPU, which only their run tells.
    _check_mapping(machine, None if line.further or line.tasks else ranks, options, stack)
    folder = _tuned_folder(command)
    profile_path = folder / PROFILE_NAME
    exit_code = 0
    traffic = None if profile_again else _cached(line, profile_path)
    if traffic is not None:
        progress(f"Profile   cached: {profile_path} (profile again with --again)")
    else:
        why = launch.why_not_gpu_aware(command, os.environ)
        if why:
            progress(f"MPI       not GPU-aware, device buffers crash: {why}")
        progress(f"Profile   running: {shell_line(command)}")
        traffic, exit_code = profile.profile_run(command, progress=merging)
        if exit_code != 0:
            raise ApplicationError(
                f"the application ended with exit code {exit_code} while being profiled",
                hint="run it alone first; a profile of a failed run is not kept",
                exit_code=exit_code,
            )
        _refuse_fewer(line, traffic)
        private_folder(folder, _RESULTS)
        save_traffic(traffic, profile_path, overwrite=True)
    options = with_script(line, machine, traffic, options, progress)
    path = path_of_stack(stack, command, machine.topology, traffic.ranks, environment=os.environ)
    with searching or nullcontext():
        result, placement = _placed(found, traffic, options, path, folder)
    saved = found.node or machine.topology
    assert saved is not None, "of a machine that is not listed its node is known"
    save_topology(saved, folder / TOPOLOGY_NAME, overwrite=True)
    save_mapping(result, folder / MAPPING_NAME, overwrite=True)
    placement = placement.with_settings(settings)
    save_placement(placement, folder / PLACEMENT_NAME, overwrite=True)
    return Tuned(
        topology=path.listed(machine, options),
        traffic=traffic,
        result=result,
        path=path,
        placement=placement,
        placement_path=folder / PLACEMENT_NAME,
        profile_path=profile_path,
        exit_code=exit_code,
    )


def _refuse_fewer(line: launch.LaunchLine, traffic: Traffic) -> None:
    if traffic.why_no_verdict:
        inner = traffic.metadata.get(INNER_LINE)
        raise ToposeatError(
            f"nothing to plan: {traffic.why_no_verdict}",
            hint=f"its own line is the job: toposeat tune -- {inner}"
            if inner
            else "start the ranks that talk by a launch line of their own",
        )
    beside = "" if traffic.worlds_of_one else traffic.metadata.get(BESIDE)
    if beside:
        raise ToposeatError(
            f"the line starts several MPI jobs side by side, of {traffic.ranks} and {beside} ranks,"
            " and a plan is for one of them: all would take its devices",
            hint="start and tune each by a line of its own, with --devices for each",
        )
    launch.refuse_fewer(line, traffic.ranks, os.environ, alone=traffic.worlds_of_one)


def with_script(
    line: launch.LaunchLine,
    machine: Machine,
    traffic: Traffic,
    options: MapOptions,
    progress: Progress,
) -> MapOptions:
    """The options for a program behind a script: no order is promised where it changed the list.

    `progress` is told of it. A pattern, and what others recorded, say of no rank what it saw.
    """
    script, present = launch.script_of(line, os.environ), machine.topology
    if not script or present is None:
        return options
    of_host: dict[str, list[Device]] = {}
    for device in present.devices:
        of_host.setdefault(device.host, []).append(device)
    fewest = min(map(len, of_host.values()))
    other = present.devices if len(of_host) == 1 else ()
    told = {
        info.rank: _is_inherited(info, of_host.get(info.host, other), fewest)
        for info in traffic.rank_info
    }
    if own := [rank for rank, is_inherited in told.items() if is_inherited is False]:
        progress(
            f"Warning   {format_cpu_list(own)} (ranks) saw another list than the inherited one, of"
            f" {fewest} devices: {script}, the launcher or the program made it. An order of the"
            " list may have no effect, so the default is kept"
        )
        return replace(options, solver="default")
    if not told or None in told.values():
        progress(f"Warning   {script} may choose devices itself: a gain is for the inherited list")
    return options


def _is_inherited(info: RankInfo, listed: Sequence[Device], fewest: int) -> bool | None:
    """Whether a rank saw the list of its host, as far as it used it; None where nothing tells.

    CUDA counts products of several names by their speed, unless it is told to count by bus ids.
    """
    if info.visible_devices is None or info.visible_devices < fewest:
        return None if info.visible_devices is None else False
    by_speed = os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
    names, vendors = {device.name for device in listed}, {device.vendor for device in listed}
    if (by_speed and len(names) > 1) or None in map(ordering_variable, vendors):
        return None
    places = [device.pci_bus_id for device in listed]
    told = [
        (use.ordinal, use.pci_bus_id)
        for use in info.devices
        if use.ordinal is not None and use.pci_bus_id in places
    ]
    return all(places[at : at + 1] == [bus] for at, bus in told) if told else None


def _cached(line: launch.LaunchLine, path: Path) -> Traffic | None:
    """The profile of an earlier run; None where there is none, or its job was not what is asked."""
    if not path.exists():
        return None
    private_folder(path.parent, _RESULTS)
    traffic = profile.read_traffic(path)
    try:
        _refuse_fewer(line, traffic)
    except ToposeatError:
        return None
    return traffic


def _check_mapping(
    machine: Machine, ranks: int | None, options: MapOptions, stack: str | None
) -> None:
    """Refuse what cannot be mapped before the application runs, not after."""
    topology = machine.listed(options, wanted=stack is not None)
    if topology is not None:
        if ranks is not None:
            mapping.problem_of(topology, ranks, options.constraints)
    elif stack is not None:
        path_of_stack(stack, None, None, 1, environment=os.environ)
    else:
        assert machine.shape is not None, "a machine has one form or both"
        mapping.check_scale(machine.shape, ranks or 1, options)


def _placed(
    found: JobMachine, traffic: Traffic, options: MapOptions, path: StackPath, folder: Path
) -> tuple[MappingResult, Placement]:
    """The mapping, and the placement that it gives."""
    machine_path = str(folder / TOPOLOGY_NAME)
    result = map_on_path(found.machine, traffic, options, path)
    placement = placement_of(
        result,
        found.machine,
        traffic,
        traffic_name=str(folder / PROFILE_NAME),
        machine_source=machine_path
        if found.node is None
        else {**found.sources, "node": machine_path},
        stack=path.name,
        own=found.nodes,
    )
    return result, placement


def tuned_placement_path(command: Sequence[str]) -> Path:
    """The path of the placement that `tune` saved for this command on this machine."""
    path = _tuned_folder(command) / PLACEMENT_NAME
    if not path.is_file():
        raise InputError(
            f"no placement for this command on {os.uname().nodename} yet",
            hint=f"find one with: toposeat tune -- {shell_line(command)}",
        )
    private_folder(path.parent, _RESULTS)
    return path


def why_not_realised(command: Sequence[str], placement: Placement) -> list[str]:
    """What to say where this line cannot start the placement; nothing where it can."""
    refusal = launch.refusal_of(launch.parse_launch_line(command), placement, os.environ)
    if refusal is None:
        return []
    cause = refusal.message.removeprefix("nothing was started, ")
    return [f"Warning: {cause}", *([f"hint:  {refusal.hint}"] if refusal.hint else [])]


def _check_cache(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, before the application runs."""
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

    A job that runs elsewhere has one wherever it is started: on a login node, in its allocation.
    The launcher's own options stay out of the key, but those that decide what worlds there are:
    `mpirun --bind-to none -n 8 ./app` is the same job as `mpirun -n 8 ./app`. Programs and scripts
    in the line count with their place and time of modification, so that a rebuilt application is
    profiled again, and two `python app.py` in two folders are two applications.
    """
    line = launch.parse_launch_line(command)
    words = [(word, not at) for program in line.programs for at, word in enumerate(program)]
    files = [_program_file(word, first=first) for word, first in words]
    is_here = runs_here(line, os.environ)
    key = {
        "launcher": [line.kind, *launch.deciding_worlds(line, os.environ)],
        "host": os.uname().nodename if is_here else "of the job",
        "lists": [is_here and os.environ.get(name) for name in DEVICE_VARIABLES],
        "ranks": line.ranks or [os.environ.get(name) for name in _RANK_VARIABLES],
        "program": [
            str(path) if path else word for path, (word, _) in zip(files, words, strict=True)
        ],
        "modified": [path.stat().st_mtime_ns if path else 0 for path in files],
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return cache_root(os.environ) / f"{program_name(command)}-{line.ranks or 'n'}-{digest}"


def _program_file(word: str, *, first: bool) -> Path | None:
    """The program or script that a word of a launch line names: interpreters and wrappers too."""
    found = Path(shutil.which(word) or word) if first else Path(word)
    try:
        runnable = found.suffix in _SCRIPT_SUFFIXES or os.access(found, os.X_OK)
        return found.resolve() if runnable and found.is_file() else None
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return None
