"""srun's words for the host of every rank."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.errors import UsageError
from toposeat.launch.hosts import cray
from toposeat.launch.hosts.rank_hosts import (
    HostWords,
    RankHosts,
    dealing_name,
    host_per_rank,
)
from toposeat.launch.option_tables import SRUN
from toposeat.model.hostlist import compress_hostlist

PMI2 = "pmi2"  # under which an MPI knows the ranks of its node only where srun deals them out
_REPLACED = SRUN.hosts | SRUN.host_files | SRUN.nodes | SRUN.per_host | {"m", "distribution"}


def srun(
    plan: RankHosts, folder: str = "", *, order: Sequence[str], pmi: str = "", exact: bool = True
) -> HostWords:
    """Blocks, rounds (cyclic, plane), or a host for every rank (arbitrary).

    Args:
        plan: the host of every rank.
        folder: where the file will lie, with a slash at its end.
        order: the plan's hosts as Slurm sorts them.
        pmi: what `--mpi` says, or stands for it.
        exact: whether `order` is known, not guessed.

    Raises:
        UsageError: an order for which this PMI has no words.
    """
    if pmi.startswith("cray"):
        return _of_cray(plan, folder, order)
    size = plan.dealt_over(order) if plan.per_host is not None else None
    if size is not None and (exact or pmi == PMI2):
        return _dealt(plan, order, size)
    if pmi == PMI2:
        # Measured: MPICH then has one rank in every node communicator, so no shared memory.
        raise UsageError(
            "under --mpi=pmi2 an MPI knows the ranks of its node only where they are in blocks,"
            " cyclic or plane order, and this plan is in none of them",
            hint="start it by Hydra inside the job: mpiexec -n"
            f" {plan.ranks}; or, with Open MPI, srun --mpi=pmix",
        )
    return HostWords(
        options=("-N", str(len(plan.hosts)), "-n", str(plan.ranks), "-m", "arbitrary"),
        replaces=_REPLACED | SRUN.ranks,
        files=(host_per_rank("hostfile", plan),),
        environment={"SLURM_HOSTFILE": f"{folder}hostfile"},
    )


def _dealt(plan: RankHosts, order: Sequence[str], size: int) -> HostWords:
    per_host = max(plan.counts.values())
    return HostWords(
        options=(
            *("-N", str(len(plan.hosts)), "-n", str(plan.ranks)),
            *(f"--ntasks-per-node={per_host}", "-m", dealing_name(size, per_host)),
            *("-w", compress_hostlist(order)),
        ),
        replaces=_REPLACED | SRUN.ranks,
    )


def _of_cray(plan: RankHosts, folder: str, order: Sequence[str]) -> HostWords:
    """Blocks, and the MPI renumbers its ranks: Cray's PMI refuses other distributions."""
    own = cray.order_file(plan, folder, order)
    blocks = RankHosts(tuple(host for host in order for _ in range(plan.counts[host])))
    dealt = _dealt(blocks, order, cray.per_host(plan))
    return HostWords(
        options=dealt.options,
        replaces=dealt.replaces,
        files=own.files,
        environment=own.environment,
        rank_of_slot=own.rank_of_slot,
    )
