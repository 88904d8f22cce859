"""torchrun: one device order per node, node ranks that are kept."""

from __future__ import annotations

import shlex

from toposeat.errors import UsageError
from toposeat.launch.export.job import Export, Job
from toposeat.launch.hosts import torchrun
from toposeat.launch.launch_file import LaunchFile

_NAME = "torchrun.sh"
_UNBOUND = "torchrun binds no CPUs; for that put seat.sh of --launcher script after --no-python"


def export(job: Job) -> Export:
    """One line on one host; on several a script that each of them runs.

    The c10d rendezvous sorts nodes by address whatever `--node-rank` says; the static one keeps it.

    Raises:
        UsageError: ranks not in blocks of one size, or a mode that torchrun cannot express.
    """
    per_node = torchrun.nodes(job.rank_hosts)
    lists = job.device_lists()
    if any(len(set(each)) > 1 for each in lists.values()):
        raise UsageError(
            f"--visibility {job.visibility} gives ranks of one node different devices, which"
            " torchrun cannot",
            hint="leave it out: LOCAL_RANK i takes the i-th device of the list",
        )
    notes = (*((_UNBOUND,) if job.has_cpus else ()), *job.device_notes)
    workers = f"--nproc-per-node={per_node}"
    if len(job.seats_of_host) == 1:
        return Export(
            launcher="torchrun",
            command=("torchrun", "--standalone", workers, job.program),
            environment=job.device_variables(),
            notes=notes,
        )
    return Export(
        launcher="torchrun",
        files=(_script(job, workers),),
        command=("sh", _NAME, job.program),
        notes=("run this line on every host", *notes),
    )


def _script(job: Job, workers: str) -> LaunchFile:
    lists = job.device_lists()
    cases = []
    for node, host in enumerate(job.hosts):
        devices = f" devices={lists[host][0]}" if lists else ""
        cases.append(f"{shlex.quote(host.split('.', 1)[0])}) node={node}{devices} ;;")
    lines = [
        "#!/bin/sh",
        "# sh torchrun.sh PROGRAM ARGS, once on every host of the job. Made by toposeat export.",
        "host=$(hostname)",
        "case ${host%%.*} in",
        *cases,
        # No seat.sh, which starts a rank all the same: torchrun needs a node rank, and any that is
        # made up here would collide with another host's or leave all of them waiting for ever.
        f'*) echo "{_NAME}: host $host is not in the placement" >&2; exit 1 ;;',
        "esac",
    ]
    if lists:
        order = " CUDA_DEVICE_ORDER=PCI_BUS_ID" if job.placement.vendor == "nvidia" else ""
        lines.append(f"export {job.variable}=$devices{order}")
    rendezvous = f"--rdzv-backend=static --master-addr={shlex.quote(job.hosts[0])}"
    lines += [
        f"exec torchrun --nnodes={len(job.hosts)} {workers} --node-rank=$node {rendezvous} \\",
        '  --master-port="${MASTER_PORT:-29500}" "$@"',
    ]
    return LaunchFile(name=_NAME, text="\n".join(lines) + "\n", executable=True)
