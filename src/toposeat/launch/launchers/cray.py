"""Cray MPICH, which renumbers the processes of a job by a file: under srun, PALS or aprun."""

from __future__ import annotations

from collections.abc import Mapping

from toposeat.launch.launchers.hydra import forward
from toposeat.launch.launchers.launcher import (
    Launch,
    Launcher,
    LauncherKind,
    LaunchLine,
    OptionTable,
    arities,
)
from toposeat.launch.launchers.scripts import program_of
from toposeat.launch.launchers.seats import (
    Export,
    HostWords,
    Job,
    LaunchFile,
    RankHosts,
    hex_mask,
)
from toposeat.launch.launchers.slurm import order_file, per_host, srun

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


def _words(launch: Launch, plan: RankHosts) -> HostWords:
    return _pals(plan, launch.folder)


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


def _shares_files(line: LaunchLine, environment: Mapping[str, str]) -> bool:
    """Cray MPICH reads its order of ranks on every node."""
    del line, environment
    return True


def under_srun(job: Job) -> Export:
    """Blocks by srun, ranks renumbered by the MPI."""
    own = HostWords(options=("-N", "1", "-n", str(job.ranks)))
    if job.hosts:
        own = srun(job.rank_hosts, order=job.order, pmi="cray_shasta")
    words = ["srun", *own.options]
    cpus = job.cpus_alike()
    words += [] if cpus is None else ["--cpu-bind=mask_cpu:" + ",".join(map(hex_mask, cpus))]
    return _export(job, "cray", words, own, is_bound=cpus is not None)


def under_pals(job: Job) -> Export:
    """`mpiexec` of PALS: hosts from a file, CPU lists by local rank."""
    own = HostWords(options=("--ppn", str(job.ranks)))
    if job.hosts:
        own = _pals(job.rank_hosts)
    words = ["mpiexec", "-n", str(job.ranks), *own.options]
    cpus = job.cpus_alike()
    words += [] if cpus is None else ["--cpu-bind", "list:" + ":".join(cpus)]
    return _export(job, "pals", words, own, is_bound=cpus is not None)


def under_aprun(job: Job) -> Export:
    """`aprun` of ALPS: hosts are those of the reservation, CPU lists by local rank."""
    own = order_file(job.rank_hosts, "", job.order) if job.hosts else HostWords()
    words = ["aprun", "-n", str(job.ranks), "-N", str(per_host(job.rank_hosts))]
    cpus = job.cpus_alike()
    words += [] if cpus is None else ["-cc", ":".join(cpus)]
    return _export(job, "aprun", words, own, is_bound=cpus is not None)


def _export(job: Job, launcher: str, words: list[str], own: HostWords, *, is_bound: bool) -> Export:
    program, scripts, variables = program_of(
        job, cpus=job.has_cpus and not is_bound, by_variables=launcher != "cray"
    )  # srun sets variables of its own
    return Export(
        launcher=launcher,
        files=(*own.files, *scripts),
        command=(*words, *program),
        environment={**own.environment, **variables, **job.nic_environment()},
        notes=job.device_notes,
    )


LAUNCHERS = (
    Launcher(
        kind=LauncherKind.PALS,
        answer=r"\bPALS\b",
        table=_TABLE,
        words=_words,
        no_binding=("--cpu-bind", "none"),
        forward=forward,
        job_files=("PBS_NODEFILE",),
        shares_files=_shares_files,
    ),
)
EXPORTS = {
    "cray": ("MPICH_RANK_ORDER of Cray MPICH under srun", under_srun),
    "pals": ("mpiexec of PALS, with MPICH_RANK_ORDER", under_pals),
    "aprun": ("aprun of ALPS, with MPICH_RANK_ORDER", under_aprun),
}
