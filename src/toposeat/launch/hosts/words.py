"""Which words a launch line needs: by its launcher, that one's version, and what the job gives."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from toposeat.errors import UsageError
from toposeat.launch.allocation import Allocation, allocation_of
from toposeat.launch.hosts import cray, hydra, openmpi, others, slurm, torchrun
from toposeat.launch.hosts.rank_hosts import HostWords, RankHosts, in_natural_order
from toposeat.launch.launch_line import LaunchLine
from toposeat.launch.launchers import LauncherKind, version_of
from toposeat.model.hostlist import compress_hostlist, short_name

_ASK_S = 10.0
_OVERSUBSCRIBE = (
    *("PRTE_MCA_rmaps_default_mapping_policy", "PRTE_MCA_rmaps_base_oversubscribe"),
    *("OMPI_MCA_rmaps_base_oversubscribe", "OMPI_MCA_rmaps_base_mapping_policy"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """A line and what is around it: the hosts it may use, variables, where files will lie."""

    line: LaunchLine
    allocation: Allocation | None
    environment: Mapping[str, str]
    folder: str


def words_for(launch: Launch, plan: RankHosts, cpus: Sequence[str | None]) -> HostWords:
    """The words with which this launcher starts every rank on its host.

    Args:
        launch: the line.
        plan: the host of every rank, by the launcher's names.
        cpus: the CPUs of every rank, where they are bound.

    Raises:
        UsageError: it has none for this plan.
    """
    line, folder = launch.line, launch.folder
    in_job = order_in_job(launch, plan.hosts)
    order = in_job or in_natural_order(plan.hosts)
    kinds: Mapping[LauncherKind, Callable[[], HostWords]] = {
        LauncherKind.OPENMPI: lambda: _of_openmpi(launch, plan, cpus),
        LauncherKind.MPICH: lambda: hydra.mpich(
            plan,
            folder,
            order=order_in_job(launch, plan.hosts),
            version=version_of(line.launcher[0]),
        ),
        LauncherKind.INTEL: lambda: hydra.intel(plan, folder, order=in_job),
        LauncherKind.SRUN: lambda: _of_srun(launch, plan),
        LauncherKind.FLUX: lambda: others.flux(plan, folder, order=order),
        LauncherKind.TORCHRUN: lambda: _of_torchrun(line, plan),
        LauncherKind.PALS: lambda: cray.pals(plan, folder),
        LauncherKind.RSH: lambda: others.mpirun_rsh(plan, folder),
        LauncherKind.JSRUN: lambda: others.jsrun(plan, cpus, folder, order=order),
        LauncherKind.IBRUN: lambda: others.ibrun(plan, order),
    }
    if line.kind not in kinds:
        raise UsageError(
            f"the plan has {len(plan.hosts)} hosts, and the line has no launcher",
            hint=f"start it by one, such as srun -n {plan.ranks}",
        )
    return kinds[line.kind]()


def dealing_order(
    line: LaunchLine, hosts: Sequence[str], environment: Mapping[str, str]
) -> tuple[str, ...]:
    """These hosts in the order in which this line deals ranks out to them: blocks, cyclic, plane.

    Empty where it has words for other plans too.

    Raises:
        InputError: a host list or host file that cannot be read.
    """
    if line.kind is not LauncherKind.SRUN or _pmi(line, environment) != slurm.PMI2:
        return ()
    allocation = allocation_of(line, environment)
    launch = Launch(line=line, allocation=allocation, environment=environment, folder="")
    return _srun_order(launch, hosts, slurm.PMI2) or in_natural_order(hosts)


def order_in_job(launch: Launch, hosts: Collection[str]) -> tuple[str, ...]:
    """These hosts as the scheduler's job has them; () outside a job."""
    if launch.allocation is None or not launch.allocation.in_job:
        return ()
    return tuple(host for host in launch.allocation.hosts if host in hosts)


def oversubscribes(line: LaunchLine, environment: Mapping[str, str]) -> bool:
    """Whether the launcher may start more ranks on a host than it has places there."""
    if line.kind is LauncherKind.SRUN:
        return line.has({"O", "overcommit"})
    texts = [environment.get(name, "").lower() for name in _OVERSUBSCRIBE]
    policy = (line.value({"map-by", "mapby"}) or "").lower()
    allowed = any(text in ("1", "true") or "oversubscribe" in text for text in (*texts, policy))
    return allowed or line.has({"oversubscribe"})


def _of_openmpi(launch: Launch, plan: RankHosts, cpus: Sequence[str | None]) -> HostWords:
    line = launch.line
    version = version_of(line.launcher[0])
    if version and version[0] < 5 and "prte" not in line.launcher[0]:
        return openmpi.version_4(plan, launch.folder)
    # A launcher that binds would bind to the one slot that the rankfile names for every rank.
    binds = bool(line.binding_options) or all(each is None for each in cpus)
    sequential = binds or oversubscribes(line, launch.environment)
    return openmpi.version_5(plan, launch.folder, oversubscribe=sequential)


def _of_srun(launch: Launch, plan: RankHosts) -> HostWords:
    pmi = _pmi(launch.line, launch.environment)
    order = _srun_order(launch, plan.hosts, pmi)
    guess = in_natural_order(plan.hosts)
    return slurm.srun(plan, launch.folder, order=order or guess, pmi=pmi, exact=bool(order))


def _srun_order(launch: Launch, hosts: Sequence[str], pmi: str) -> tuple[str, ...]:
    """The order in which srun deals ranks to these hosts; () if not known, or not needed."""
    order = order_in_job(launch, hosts)
    return order or (_slurm_order(hosts) if pmi == slurm.PMI2 or pmi.startswith("cray") else ())


def needs_shared_files(line: LaunchLine, environment: Mapping[str, str]) -> bool:
    """Whether processes on other nodes read what is written for this launcher: Cray MPICH's."""
    if line.kind is LauncherKind.PALS:
        return True
    return line.kind is LauncherKind.SRUN and _pmi(line, environment).startswith("cray")


def _pmi(line: LaunchLine, environment: Mapping[str, str]) -> str:
    return line.value({"mpi"}) or environment.get("SLURM_MPI_TYPE") or _default_pmi()


@cache
def _default_pmi() -> str:
    """What srun without `--mpi` uses; "" where Slurm does not say."""
    for line in _ask("scontrol", "show", "config"):
        name, _, value = line.partition("=")
        if name.strip() == "MpiDefault":
            return value.strip()
    return ""


def _slurm_order(hosts: Sequence[str]) -> tuple[str, ...]:
    """These hosts in the order of Slurm's own table, in which a job has them; () if not known."""
    lines = _ask("scontrol", "--oneliner", "show", "nodes")
    names = [line.split()[0].removeprefix("NodeName=") for line in lines if line.strip()]
    found = tuple(name for name in names if name in hosts)
    return found if len(found) == len(hosts) else ()


def _ask(*words: str) -> list[str]:
    """The lines that a program of the scheduler answers; none if there is no answer."""
    if shutil.which(words[0]) is None:
        return []
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.decode(errors="replace").splitlines()


def _of_torchrun(line: LaunchLine, plan: RankHosts) -> HostWords:
    here = socket.gethostname()
    own = next((host for host in plan.hosts if short_name(host) == short_name(here)), None)
    if own is None:
        raise UsageError(
            "torchrun is started on every host of the plan"
            f" ({compress_hostlist(plan.hosts)[:80]}), and this is {here}",
            hint="start this line on those hosts, or map for these ones",
        )
    return torchrun.on_host(plan, own, port=torchrun.port_of(line))
