"""The order of ranks in a file for Cray MPICH, which renumbers the processes of a job by it."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.errors import UsageError
from toposeat.launch.hosts.rank_hosts import HostWords, RankHosts
from toposeat.launch.launch_file import LaunchFile
from toposeat.launch.option_tables import PALS

_ORDER = "MPICH_RANK_ORDER"


def order_file(plan: RankHosts, folder: str, order: Sequence[str]) -> HostWords:
    """`MPICH_RANK_REORDER_METHOD=3` where ranks are not in blocks over hosts in this order."""
    rows = [plan.ranks_of(host) for host in order]
    rank_of_slot = tuple(rank for row in rows for rank in row)
    if rank_of_slot == tuple(range(plan.ranks)):
        return HostWords()
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    return HostWords(
        files=(LaunchFile(name=_ORDER, text=text),),
        environment={
            "MPICH_RANK_REORDER_METHOD": "3",
            "MPICH_RANK_REORDER_FILE": f"{folder}{_ORDER}",
        },
        rank_of_slot=rank_of_slot,
    )


def pals(plan: RankHosts, folder: str = "") -> HostWords:
    """`mpiexec` of PALS: blocks of ranks over the hosts of a file, renumbered by Cray MPICH."""
    own = order_file(plan, folder, plan.hosts)
    hosts = LaunchFile(name="hostfile", text="".join(f"{host}\n" for host in plan.hosts))
    return HostWords(
        options=("--ppn", str(per_host(plan)), "--hostfile", f"{folder}hostfile"),
        replaces=PALS.hosts | PALS.host_files | PALS.per_host,
        files=(hosts, *own.files),
        environment=own.environment,
        rank_of_slot=own.rank_of_slot,
    )


def per_host(plan: RankHosts) -> int:
    """Ranks of every host.

    Raises:
        UsageError: they differ, which an order of ranks cannot express.
    """
    if plan.per_host is None:
        raise UsageError(
            "hosts have different numbers of ranks, which an order of ranks cannot express",
            hint="use --launcher slurm, or place the same number of ranks on every host",
        )
    return plan.per_host
