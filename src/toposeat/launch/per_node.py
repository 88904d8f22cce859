"""One process on every node of a job, by the job's own launcher and in its own allocation."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import InputError, ToposeatError, UsageError
from toposeat.launch import option_tables
from toposeat.launch.allocation import all_here, allocation_of
from toposeat.launch.child import run_child
from toposeat.launch.forwarding import hand_on
from toposeat.launch.home import Home
from toposeat.launch.home_job import Expected
from toposeat.launch.launch_line import LaunchLine, parse_launch_line
from toposeat.launch.launchers import LauncherKind
from toposeat.launch.line_options import Option
from toposeat.model.job_folder import job_folder

# The launcher's options that say where nodes are and how to reach them; all others place, bind or
# dress up the job's own ranks.
_OPENMPI = """
H host hostfile machinefile default-hostfile add-host add-hostfile prefix noprefix launch-agent
allow-run-as-root am tune path x dvm-uri hnp tmpdir personality
mca omca gmca prtemca pmixmca gprtemca gpmixmca
"""
_HYDRA = """
f hosts host hostfile machine machinefile launcher launcher-exec bootstrap bootstrap-exec
bootstrap-exec-args rmk iface localhost disable-x enable-x tree-width path env genv
"""
_SRUN = "jobid M clusters"
# What decides about the devices that a step sees.
_SRUN_DEVICES = "G export gpus gpus-per-node gres task-prolog tres-per-node"
# Outside of an allocation the line's own words are needed to get one like the job's.
_SRUN_ALLOCATION = """
A account B C cluster-constraint clusters comment constraint contiguous core-spec D chdir exclude
exclusive F I immediate jobid L licenses M mcs-label mem mincpus N
network nice nodefile nodelist nodes oversubscribe p partition prefer priority q qos reservation S
s switches t time time-min tmp use-min-nodes w wckey x
"""
_NODES_OF_JOB = ("SLURM_JOB_NUM_NODES", "SLURM_NNODES")
# Where the job's ranks go is not where these processes go.
_PLACING = ("SLURM_HOSTFILE", "SLURM_DISTRIBUTION", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")


@dataclass(frozen=True, kw_only=True, slots=True)
class PerNodeLine:
    """A line that starts one process per node, and the environment to start it in."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


def per_node_line(
    line: LaunchLine,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    as_job: bool = False,
    handed_on: Sequence[str] = (),
) -> PerNodeLine | None:
    """The line that starts `command` once on every node where `line` starts its ranks.

    Args:
        line: the job's.
        command: what to start.
        environment: of the job.
        as_job: with the devices that the job would see. Outside of an allocation srun asks for one
            as the job would, if the line says on how many nodes; it may be given others.
        handed_on: variables that the processes need, by their names (`forwarding`).

    Returns:
        None where there is no such line: without a launcher; for srun outside of an allocation,
        which has an allocation of its own for each job; for launchers whose way is not known here.
    """
    if line.kind is LauncherKind.OPENMPI:
        words = _kept(line, _OPENMPI)
        words += ["--map-by", "ppr:1:node", "--bind-to", "none"]
    elif line.kind in (LauncherKind.MPICH, LauncherKind.INTEL):
        words = [*_kept(line, _HYDRA), "-ppn", "1", *_hydra_hosts(line, environment)]
    elif line.kind is LauncherKind.SRUN:
        nodes = next((environment[name] for name in _NODES_OF_JOB if environment.get(name)), None)
        if nodes is not None:
            words = [*_kept(line, _SRUN), "--overlap", "--mpi=none"]
            words += [*(() if as_job else ("--cpu-bind=none",)), "-N", nodes, "-n", nodes]
        elif as_job and line.has({"N", "nodes"}):
            words = [*_kept(line, _SRUN_ALLOCATION), "--mpi=none"]
        else:
            return None
        if as_job:
            words += [*_kept(line, _SRUN_DEVICES), *_gpus_of_tasks(line)]
        words += ["--ntasks-per-node=1"]
    else:
        return None
    kept = {name: value for name, value in environment.items() if name not in _PLACING}
    own = parse_launch_line((line.launcher[0], *words, *command), identify=lambda _: line.kind)
    own, added = hand_on(own, handed_on, kept)
    return PerNodeLine(argv=own.argv, environment={**kept, **added})


def _hydra_hosts(line: LaunchLine, environment: Mapping[str, str]) -> list[str]:
    """MPICH alone starts one process for each host it was given if no number is said.

    One that was built without the scheduler's part stays on this host unless hosts are named.
    """
    try:
        allocation = allocation_of(line, environment)
    except InputError:
        return []
    if allocation is None:
        return []
    table = option_tables.MPICH
    named = line.has(table.hosts | table.host_files)
    hosts = [] if named else ["-hosts", ",".join(allocation.hosts)]
    return [*hosts, "-n", str(len(allocation.hosts))]


def _kept(line: LaunchLine, names: str) -> list[str]:
    """Options in their own words: srun takes some values only behind a "="."""
    kept = (o for o in line.options if o.name in names.split() and not _places_ranks(o))
    return [word for option in kept for word in option.words]


def _gpus_of_tasks(line: LaunchLine) -> list[str]:
    """What `--gpus-per-task` gives a node of the job."""
    numbers = [line.value({"gpus-per-task"}), line.value({"N", "nodes"})]
    if line.ranks is None or not all(each is not None and each.isdigit() for each in numbers):
        return []
    gpus, nodes = (int(each or 0) for each in numbers)
    return [f"--gpus-per-node={gpus * -(-line.ranks // max(1, nodes))}"]


def _places_ranks(option: Option) -> bool:
    """Whether an Open MPI `--mca name value` says where ranks go."""
    return option.name.endswith("mca") and option.values[0].startswith(("rmaps_", "hwloc_"))


_ANSWERS = Expected(name=re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII), max_bytes=1 << 24)


def node_answers(
    line: LaunchLine,
    command: Callable[[str], Sequence[str]],
    environment: Mapping[str, str],
    *,
    hosts: Sequence[str] = (),
) -> dict[str, bytes]:
    """What the processes that `command` names send home from the nodes of a job, by file name.

    Args:
        line: the job's.
        command: of the words by which processes find the way home (`home_sender`).
        environment: of the job.
        hosts: of the job, as far as they are known.

    Raises:
        UsageError: no line of this launcher starts one process per node.
        ToposeatError: the launcher failed, or no answer arrived.
        MissingProgramError: the launcher does not exist.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(job_folder("nodes", memory=True))
        home = _open_home(stack, folder, hosts, here=all_here(line, environment))
        step = per_node_line(
            line,
            command(home.words),
            {**environment, **home.environment},
            as_job=True,
            handed_on=tuple(home.environment),
        )
        if step is None:
            raise _no_line(line)
        nowhere = stack.enter_context(Path(os.devnull).open("wb"))
        code = run_child(step.argv, step.environment, stdout=nowhere)
        home.close()
        answers = {
            path.name: path.read_bytes()
            for path in sorted(folder.iterdir())
            if not path.name.startswith(".")
        }
    if code != 0 or not answers:
        raise ToposeatError(
            f"the nodes of the job cannot be asked: {line.launcher[0]} ended with exit code {code}"
            if code
            else "no node of the job could send its answer here",
            hint="toposeat must be installed under the same path on all nodes, and nodes must reach"
            " this host; or give the machine with -t NETWORK --node SRC",
        )
    return answers


def _open_home(stack: ExitStack, folder: Path, hosts: Sequence[str], *, here: bool) -> Home:
    try:
        return stack.enter_context(Home(folder, hosts=hosts, here=here, expected=_ANSWERS))
    except OSError as error:
        raise ToposeatError(
            f"no port can be opened for answers of nodes: {error.strerror or error}",
            hint="give the machine with -t NETWORK --node SRC",
        ) from error


def _no_line(line: LaunchLine) -> UsageError:
    if line.kind is LauncherKind.SRUN:
        return UsageError(
            "srun outside of an allocation does not say on how many nodes the job shall run",
            hint="add -N NODES, or tune inside the allocation",
        )
    return UsageError(
        f"{line.kind.value} has no known way to start one process per node",
        hint="give the machine: toposeat tune -t NETWORK --node SRC --hosts LIST -- LAUNCH...",
    )
