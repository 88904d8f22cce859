"""The words of Flux, mpirun_rsh, jsrun and ibrun, as their documentation has them. Never run."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.errors import UsageError
from toposeat.launch.hosts.rank_hosts import HostWords, RankHosts, host_per_rank
from toposeat.launch.launch_file import LaunchFile
from toposeat.launch.option_tables import FLUX_RUN, JSRUN, MPIRUN_RSH
from toposeat.model.hostlist import compress_hostlist


def flux(plan: RankHosts, folder: str = "", *, order: Sequence[str]) -> HostWords:
    """`--requires=host:` for the hosts, and a task map where blocks are not the plan."""
    options = ["-N", str(len(plan.hosts)), "-n", str(plan.ranks)]
    options.append(f"--requires=host:{compress_hostlist(order)}")
    files: tuple[LaunchFile, ...] = ()
    in_blocks = plan.in_blocks and plan.hosts == tuple(order) and plan.per_host is not None
    if not in_blocks:
        options.append(f"--taskmap=hostfile:{folder}hostfile")
        files = (host_per_rank("hostfile", plan),)
    replaced = FLUX_RUN.nodes | FLUX_RUN.per_host | FLUX_RUN.ranks | {"requires"}
    return HostWords(options=tuple(options), replaces=replaced, files=files)


def mpirun_rsh(plan: RankHosts, folder: str = "") -> HostWords:
    """A host file whose line r is the host of rank r."""
    return HostWords(
        options=("-hostfile", f"{folder}hostfile"),
        replaces=MPIRUN_RSH.hosts | MPIRUN_RSH.host_files,
        files=(host_per_rank("hostfile", plan),),
    )


def jsrun(
    plan: RankHosts, cpus: Sequence[str | None], folder: str = "", *, order: Sequence[str]
) -> HostWords:
    """An explicit resource file: host (counted from 1) and CPUs of every rank, all its GPUs.

    Args:
        plan: the host of every rank.
        cpus: the CPUs of every rank, as the operating system counts them.
        folder: where the file will lie, with a slash at its end.
        order: the hosts of the job, without that of the batch script.

    Raises:
        UsageError: ranks without CPUs, which such a file must state.
    """
    if None in cpus:
        raise UsageError(
            "jsrun takes the host of a rank only together with its CPUs, which this placement does"
            " not know",
            hint="map onto a topology with CPUs: toposeat discover on a node, map --node FILE",
        )
    number = {host: at for at, host in enumerate(order, start=1)}
    lines = ["cpu_index_using: physical", "overlapping_rs: allow"]
    pairs = zip(plan.host_of_rank, cpus, strict=True)
    lines += [
        f"rank: {rank}: {{ host: {number[host]}; cpu: {{{own}}}; gpu: * }}"
        for rank, (host, own) in enumerate(pairs)
    ]
    return HostWords(
        options=("--erf_input", f"{folder}ranks.erf"),
        replaces=JSRUN.ranks | _RESOURCE_SETS,
        files=(LaunchFile(name="ranks.erf", text="\n".join(lines) + "\n"),),
    )


def ibrun(plan: RankHosts, order: Sequence[str]) -> HostWords:
    """Nothing: it deals blocks out over the job's hosts.

    Raises:
        UsageError: any other order, for which it has no words.
    """
    if not (plan.in_blocks and plan.hosts == tuple(order)):
        raise UsageError(
            "ibrun starts ranks in blocks over the job's hosts, and this plan is in another order",
            hint=f"start the job's MPI itself: toposeat run -p PLACE -- mpiexec -n {plan.ranks}",
        )
    return HostWords()


_RESOURCE_SETS = frozenset(
    {
        *("n", "nrs", "a", "tasks_per_rs", "c", "cpu_per_rs", "g", "gpu_per_rs", "r"),
        *("rs_per_host", "K", "l", "latency_priority", "b", "bind", "m", "memory_per_rs"),
    }
)
