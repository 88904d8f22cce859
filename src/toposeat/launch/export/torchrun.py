"""torchrun: one device order per node, and node ranks that are kept by either rendezvous."""

from __future__ import annotations

import shlex

from toposeat.launch.export.job import Export, Job
from toposeat.launch.export.node_script import PORT, on_each_node, on_one_node, ranks_per_node


def static(job: Job) -> Export:
    """One line on one host; on several a script with `--node-rank`, which the static one keeps.

    Raises:
        UsageError: ranks not in blocks of one size, or a mode that torchrun cannot express.
    """
    return _export(
        job,
        "torchrun",
        ("--node-rank=$node", "--rdzv-backend=static", f"--master-addr={_first(job)}"),
        (f"--master-port={PORT}",),
    )


def c10d(job: Job) -> Export:
    """The elastic rendezvous, whose order is that of the nodes' addresses as text.

    It ignores `--node-rank` and sorts by `--local-addr`, by default the full host name, so that
    node10 comes before node2. Only that of node 0 has to be an address, since it becomes
    MASTER_ADDR; that of every other node is a text behind it.

    Raises:
        UsageError: as for `static`.
    """
    first = _first(job)
    nodes = len(job.hosts)
    padded = f'$(printf "%0{len(str(nodes))}d" $node)'
    return _export(
        job,
        "torchrun-c10d",
        (
            "--rdzv-backend=c10d",
            f'--rdzv-id="${{RDZV_ID:-toposeat}}" --rdzv-endpoint={first}:{PORT}',
        ),
        ('--local-addr="$address"',),
        before=(
            f"address={first}",
            f'[ "$node" = 0 ] || address="$address~{padded}"  # a sort key, never looked up',
        ),
    )


def _first(job: Job) -> str:
    return shlex.quote(job.rank_hosts.hosts[0])


def _export(
    job: Job,
    launcher: str,
    rendezvous: tuple[str, ...],
    rest: tuple[str, ...],
    *,
    before: tuple[str, ...] = (),
) -> Export:
    workers = f"--nproc-per-node={ranks_per_node(job, launcher)}"
    if len(job.seats_of_host) == 1:
        return on_one_node(job, launcher, ("torchrun", "--standalone", workers, job.program))
    lines = (
        *before,
        f"exec torchrun --nnodes={len(job.hosts)} {workers} {' '.join(rendezvous)} \\",
        f'  {" ".join(rest)} "$@"',
    )
    return on_each_node(job, launcher, "\n".join(lines), (job.program,))
