"""Cray MPICH, which renumbers the processes of a job by a file: under srun or PALS."""

from __future__ import annotations

from toposeat.launch.launchers.hydra import forward
from toposeat.launch.launchers.launcher import (
    Launcher,
    LauncherKind,
    OptionTable,
    arities,
)
from toposeat.launch.launchers.scripts import with_seats
from toposeat.launch.launchers.seats import Export, HostWords, Job, LaunchFile, RankHosts
from toposeat.launch.launchers.slurm import by_mask, order_file, per_host, srun

_TABLE = OptionTable(
    arity=arities(
        {
            0: """
            abort-on-failure envall envnone fork genvall genvnone help l label line-buffer
            no-abort-on-failure no-transfer no-vni transfer version
            """,
            1: """
            arch configfile cpu-bind d depth envlist exclude exclude-hosts gpu-bind host hostfile
            hostlist hosts include-hosts mem-bind n network np path pmi ppn procinfo rlimits soft
            umask wdir
            """,
            2: "env genv",
        }
    ),
    ranks=frozenset({"n", "np"}),
    binding=frozenset({"cpu-bind", "mem-bind"}),
    hosts=frozenset({"host", "hosts", "hostlist"}),
    host_files=frozenset({"hostfile"}),
    per_host=frozenset({"ppn"}),
    many={"configfile": "reads several programs from a file"},
)


def _pals(plan: RankHosts, folder: str = "") -> HostWords:
    """`mpiexec` of PALS: blocks of ranks over the hosts of a file, renumbered by Cray MPICH."""
    own = order_file(plan, folder, plan.hosts)
    hosts = LaunchFile(name="hostfile", text="".join(f"{host}\n" for host in plan.hosts))
    return HostWords(
        options=("--ppn", str(per_host(plan)), "--hostfile", f"{folder}hostfile"),
        replaces=_TABLE.hosts | _TABLE.host_files | _TABLE.per_host,
        files=(hosts, *own.files),
        environment=own.environment,
        rank_of_slot=own.rank_of_slot,
    )


def under_srun(job: Job) -> Export:
    """Blocks by srun, ranks renumbered by the MPI."""
    own = HostWords(options=("-N", "1", "-n", str(job.ranks)))
    if job.hosts:
        own = srun(job.rank_hosts, order=job.order, pmi="cray_shasta")
    binding, cpus = job.bound(by_mask)
    words = ["srun", *own.options, *binding]
    return with_seats(job, "cray", words, own, cpus=cpus, keeps_variables=False, nics=True)


def under_pals(job: Job) -> Export:
    """`mpiexec` of PALS: hosts from a file, CPU lists by local rank."""
    own = _pals(job.rank_hosts) if job.hosts else HostWords(options=("--ppn", str(job.ranks)))
    binding, cpus = job.bound(lambda lists: ("--cpu-bind", "list:" + ":".join(lists)))
    words = ["mpiexec", "-n", str(job.ranks), *own.options, *binding]
    return with_seats(job, "pals", words, own, cpus=cpus, nics=True)


LAUNCHERS = (
    Launcher(
        kind=LauncherKind.PALS,
        answer=r"\bPALS\b",
        table=_TABLE,
        words=lambda launch, plan: _pals(plan, launch.folder),
        no_binding=("--cpu-bind", "none"),
        forward=forward,
        job_files=("PBS_NODEFILE",),
        shares_files=lambda *_: True,  # its order of ranks, read on every node
    ),
)
EXPORTS = {
    "cray": ("MPICH_RANK_ORDER of Cray MPICH under srun", under_srun),
    "pals": ("mpiexec of PALS, with MPICH_RANK_ORDER", under_pals),
}
