"""Hydra's words for the host of every rank: MPICH and Intel MPI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toposeat.errors import UsageError
from toposeat.launch.hosts.rank_hosts import HostWords, RankHosts
from toposeat.launch.launch_file import LaunchFile
from toposeat.launch.option_tables import INTEL

_REPLACED = INTEL.hosts | INTEL.host_files | INTEL.per_host
_RANKMAP_SINCE = (4, 3)
# Hydra (4.3 to 5.0.2 at least) packs a rank map by comparing an integer that it has not set: what
# lies in its memory decides whether ranks learn the truth, and where they do not, all wait in
# MPI_Init for ever. The C library fills mpiexec's memory, so that the integer is no count of ranks,
# and leaves that of the ranks alone.
_FILLED = {"MALLOC_PERTURB_": "1"}
_NOT_FILLED = ("-genv", "MALLOC_PERTURB_", "0")


def mpich(
    plan: RankHosts,
    folder: str = "",
    *,
    order: Sequence[str] = (),
    version: tuple[int, ...] = (),
) -> HostWords:
    """`-f` with every host once, and `-rankmap` where ranks are not in blocks.

    Hydra takes a repeated name for another node, whose ranks then share no memory with the rest.
    Before 4.3 it has no `-rankmap`, but deals ranks out round after round where the file has fewer
    processes than are started.

    Args:
        plan: the host of every rank.
        folder: where the file will lie, with a slash at its end.
        order: hosts as a scheduler's job has them: inside a Slurm job srun starts Hydra's proxies,
            in the job's order whatever the file says.
        version: of MPICH; () is taken for a new one.

    Raises:
        UsageError: an order that this version has no words for.
    """
    order = order or plan.hosts
    options: tuple[str, ...] = ("-f", f"{folder}hostfile")
    size = _round(plan, order)
    environment: Mapping[str, str] = {}
    if not (plan.in_blocks and plan.hosts == tuple(order)):
        if version and version < _RANKMAP_SINCE:
            if size is None:
                raise UsageError(
                    "Hydra of MPICH before 4.3 has no words for this order of ranks",
                    hint="take mpiexec of MPICH 4.3 or later, which has -rankmap",
                )
        else:
            size = None
            number = {host: at for at, host in enumerate(order)}
            options += ("-rankmap", ",".join(str(number[host]) for host in plan.host_of_rank))
            options += _NOT_FILLED
            environment = _FILLED
    return HostWords(
        options=options,
        replaces=_REPLACED,
        files=(_hostfile("hostfile", plan, order, size),),
        environment=environment,
    )


def intel(plan: RankHosts, folder: str = "", *, order: Sequence[str] = ()) -> HostWords:
    """`-machinefile` for blocks, with `-perhost` for rounds.

    Raises:
        UsageError: any other order, for which Intel MPI has no words.
    """
    options: tuple[str, ...] = ("-machinefile", f"{folder}machinefile")
    order = order or plan.hosts
    size = _round(plan, order)
    if plan.in_blocks and plan.hosts == tuple(order):
        size = None
    elif size is None:
        raise UsageError(
            "Intel MPI has no words for this order of ranks: its machine file assigns them host by"
            " host",
            hint="start it by srun inside a Slurm job, or map again with --solver default",
        )
    else:
        options += ("-perhost", str(size))
    return HostWords(
        options=options, replaces=_REPLACED, files=(_hostfile("machinefile", plan, order, size),)
    )


def _round(plan: RankHosts, order: Sequence[str]) -> int | None:
    """Ranks of a host in each round, where all rounds are alike; None in any other order.

    Hydra begins anew with the file when it is used up: a shorter last round cannot be said.
    """
    size = plan.dealt_over(order)
    return size if size and plan.per_host and plan.per_host % size == 0 else None


def _hostfile(name: str, plan: RankHosts, order: Sequence[str], size: int | None) -> LaunchFile:
    """Every host once, with all its ranks or with those of one round."""
    lines = [f"{host}:{size or plan.counts[host]}\n" for host in order]
    return LaunchFile(name=name, text="".join(lines))
