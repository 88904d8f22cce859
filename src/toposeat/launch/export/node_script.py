"""One script for all nodes of a job: a host finds its node rank and devices by its name."""

from __future__ import annotations

import shlex

from toposeat.errors import UsageError
from toposeat.launch.export.job import Export, Job
from toposeat.launch.hosts import torchrun
from toposeat.launch.launch_file import LaunchFile

_UNBOUND = "{} binds no CPUs"
_BEHIND = "; for that put seat.sh of --launcher script after --no-python"
PORT = '"${MASTER_PORT:-29500}"'


def ranks_per_node(job: Job, launcher: str) -> int:
    """How many ranks every node has: such launchers number them node by node.

    Raises:
        UsageError: ranks not in blocks of one size, or devices that differ from rank to rank.
    """
    per_node = torchrun.nodes(job.rank_hosts, launcher)
    if any(len(set(each)) > 1 for each in job.device_lists().values()):
        raise UsageError(
            f"--visibility {job.visibility} gives ranks of one node different devices, which"
            f" {launcher} cannot",
            hint="leave it out: LOCAL_RANK i takes the i-th device of the list",
        )
    return per_node


def notes_of(job: Job, launcher: str) -> tuple[str, ...]:
    """What the launcher leaves out of the placement."""
    unbound = _UNBOUND.format(launcher) + (_BEHIND if launcher.startswith("torchrun") else "")
    return (*((unbound,) if job.has_cpus else ()), *job.device_notes)


def on_one_node(job: Job, launcher: str, command: tuple[str, ...]) -> Export:
    """A line for a placement on one host."""
    return Export(
        launcher=launcher,
        command=command,
        environment=job.device_variables(),
        notes=notes_of(job, launcher),
    )


def on_each_node(
    job: Job, launcher: str, last: str, program: tuple[str, ...], *, more: tuple[str, ...] = ()
) -> Export:
    """A script that every host runs, and its line.

    Args:
        job: with several hosts.
        launcher: also the script's name.
        last: lines of the script that become the launcher; `$node` is the node rank, `"$@"` the
            words of the line.
        program: words after the script.
        more: notes of this launcher.
    """
    return Export(
        launcher=launcher,
        files=(_script(job, f"{launcher}.sh", last),),
        command=("sh", f"{launcher}.sh", *program),
        notes=("run this line on every host", *more, *notes_of(job, launcher)),
    )


def _script(job: Job, name: str, last: str) -> LaunchFile:
    lists = job.device_lists()
    cases = []
    for node, host in enumerate(job.hosts):
        devices = f" devices={lists[host][0]}" if lists else ""
        cases.append(f"{shlex.quote(host.split('.', 1)[0])}) node={node}{devices} ;;")
    lines = [
        "#!/bin/sh",
        f"# sh {name} PROGRAM ARGS, once on every host of the job. Made by toposeat export.",
        "host=$(hostname)",
        "case ${host%%.*} in",
        *cases,
        # No seat.sh, which starts a rank all the same: a node rank is needed, and any that is made
        # up here would collide with another host's or leave all of them waiting for ever.
        f'*) echo "{name}: host $host is not in the placement" >&2; exit 1 ;;',
        "esac",
    ]
    if lists:
        order = " CUDA_DEVICE_ORDER=PCI_BUS_ID" if job.placement.vendor == "nvidia" else ""
        lines.append(f"export {job.variable}=$devices{order}")
    return LaunchFile(name=name, text="\n".join([*lines, last]) + "\n", executable=True)
