"""The hosts that a launch line may use: those that it names, else those of the scheduler's job."""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from toposeat.errors import InputError
from toposeat.launch.launchers.launcher import LauncherKind, LaunchLine
from toposeat.launch.launchers.seats import Allocation
from toposeat.model.files import read_text
from toposeat.model.hostlist import expand_counts, expand_hostlist, short_name


def allocation_of(line: LaunchLine, environment: Mapping[str, str]) -> Allocation | None:
    """What hosts and counts the line and the environment give; None where nothing is known.

    Raises:
        InputError: a host list or host file that cannot be read.
    """
    job = _of_job(line, environment)
    own = _of_line(line, in_job=job is not None)
    if own is None or job is None:
        return own or job
    # A line inside a job takes some of its hosts; the job's order and limits stay.
    named = {short_name(host) for host in own.hosts}
    left = tuple(host for host in job.hosts if short_name(host) in named) or own.hosts
    slots = {host: job.slots[host] for host in left if host in job.slots}
    return Allocation(hosts=left, source=own.source, in_job=True, slots=slots)


def known_allocation(line: LaunchLine, environment: Mapping[str, str]) -> Allocation | None:
    """`allocation_of`; None for what is damaged, too: the launcher says what it thinks of it."""
    try:
        return allocation_of(line, environment)
    except InputError:
        return None


def known_hosts(line: LaunchLine, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Where the ranks will run, as far as known: home listens where they can reach it."""
    allocation = known_allocation(line, environment)
    return () if allocation is None else allocation.hosts


def ranks_asked(line: LaunchLine, environment: Mapping[str, str]) -> int | None:
    """How many ranks the line starts, as it or the scheduler's job says; None if neither does."""
    table = line.table
    told = line.has(table.hosts | table.host_files | table.per_host)
    text = environment.get(line.family.job_ranks, "")
    if line.ranks is not None or told or "SLURM_HET_SIZE" in environment:
        return line.ranks
    return int(text) or None if re.fullmatch("[0-9]{1,9}", text) else None


def _of_line(line: LaunchLine, *, in_job: bool) -> Allocation | None:
    table = line.table
    given = line.value(table.hosts)
    if given is not None and "/" not in given:
        counts: Counter[str] = Counter()
        for host in expand_hostlist(re.sub(r":([0-9]+|\*)", "", given)):
            counts[host] += 1
        stated = dict(re.findall(r"([^,:\[\]]+):([0-9]{1,6})", given))
        slots = (
            {host: int(stated.get(host, n)) for host, n in counts.items()}
            if line.family.limits_slots
            else {}
        )
        source = next(o.words[0].partition("=")[0] for o in line.options if o.name in table.hosts)
        return Allocation(hosts=tuple(counts), source=source, in_job=in_job, slots=slots)
    path = line.value(table.host_files) or (given if given and "/" in given else None)
    return None if path is None else _of_file(Path(path), in_job=in_job)


def _of_file(path: Path, *, in_job: bool, limited: bool = False) -> Allocation:
    """A host on each line; one line for each slot with `limited`."""
    counts: Counter[str] = Counter()
    for line in read_text(path).splitlines():
        words = line.split("#", 1)[0].split()
        counts.update(expand_hostlist(words[0].partition(":")[0]) if words else ())
    return Allocation(
        hosts=tuple(counts),
        source=str(path),
        in_job=in_job,
        slots=dict(counts) if limited else {},
    )


def _of_job(line: LaunchLine, environment: Mapping[str, str]) -> Allocation | None:
    family = line.family
    if family.starts_here:
        return None
    of_group = _components(line, environment)
    nodes = [environment.get(f"SLURM_JOB_NODELIST{end}") for end in of_group]
    if not any(nodes):
        nodes, of_group = [environment.get("SLURM_NODELIST")], ("",)
    if all(nodes):
        hosts = expand_hostlist(",".join(filter(None, nodes)))
        counts = [environment.get(f"{family.slurm_places}{end}") for end in of_group]
        told = ",".join(filter(None, counts)) if all(counts) else None
        return _with_counts(hosts, told, f"SLURM_JOB_NODELIST{of_group[0]}")
    for name in family.job_files:
        path = environment.get(name)
        if path:
            found = _of_file(Path(path), in_job=True, limited=name != "PE_HOSTFILE")
            return Allocation(hosts=found.hosts, source=name, in_job=True, slots=found.slots)
    return None


def _components(line: LaunchLine, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Ends of the variables of a job's components that the line uses: one, but of a plain job.

    Of a heterogeneous job (`sbatch ... : ...`) srun takes the first component or the one that
    `--het-group` names, Open MPI's mpirun all.
    """
    count = environment.get("SLURM_HET_SIZE", "")
    ends = [
        f"_HET_GROUP_{at}" for at in range(int(count) if re.fullmatch("[0-9]{1,3}", count) else 0)
    ]
    if not ends or f"SLURM_JOB_NODELIST{ends[0]}" not in environment:
        return ("",)
    if line.kind == LauncherKind.OPENMPI:
        return tuple(ends)
    group = line.value({"het-group"}) or "0"
    if not group.isdigit():
        raise InputError(
            f"--het-group={group} starts ranks on several components of a heterogeneous job, of"
            " which each numbers its own",
            hint="plan one component: --het-group=0; or start all by mpirun inside the job",
        )
    if int(group) >= len(ends):
        raise InputError(
            f"--het-group={group}: the job has {len(ends)} components",
            hint=f"name one from 0 to {len(ends) - 1}",
        )
    return (ends[int(group)],)


def _with_counts(hosts: tuple[str, ...], counts: str | None, source: str) -> Allocation:
    numbers = expand_counts(counts) if counts else ()
    slots = dict(zip(hosts, numbers, strict=True)) if len(numbers) == len(hosts) else {}
    return Allocation(hosts=hosts, source=source, in_job=True, slots=slots)


_OWN_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def all_here(line: LaunchLine, environment: Mapping[str, str]) -> bool:
    """Whether every rank will run on this node; False where that is not known.

    Of `torchrun` it is: each node has a torchrun of its own.
    """
    family = line.family
    if family.starts_here:
        return True
    table = line.table
    told = table.hosts | table.host_files | table.reach
    if any(option.name in told for each in line.further for option in each.options):
        return False
    try:
        allocation = allocation_of(line, environment)
    except InputError:  # the launcher will say what it thinks of it
        return False
    if allocation is not None:
        return all(is_here(host) for host in allocation.hosts)
    told_so = line.has(table.reach) or any(map(environment.get, family.host_variables))
    return family.stays_here and not told_so


def is_here(host: str) -> bool:
    """Whether a launcher's name of a host is one of this node."""
    return host in _OWN_NAMES or short_name(host) == short_name(socket.gethostname())
