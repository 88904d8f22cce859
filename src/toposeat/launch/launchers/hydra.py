"""Hydra, which starts MPICH and Intel MPI: options, host files and rank maps, exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toposeat.errors import UsageError
from toposeat.launch.launchers.launcher import (
    Launch,
    Launcher,
    LauncherKind,
    LaunchLine,
    Option,
    OptionTable,
    arities,
    version_of,
)
from toposeat.launch.launchers.scripts import with_seats
from toposeat.launch.launchers.seats import (
    Export,
    HostWords,
    Job,
    LaunchFile,
    RankHosts,
    hex_mask,
    plus_list,
)

_HYDRA_ARITY = arities(
    {
        0: """
        debug disable-auto-cleanup disable-hostname-propagation disable-x enable-auto-cleanup
        enable-x envall envnone exitinfo genvall genvnone hybrid-hosts info l pmi-port prepend-rank
        print-all-exitcodes print-rank-map profile skip-launch-node v verbose
        """,
        1: """
        arch bind-to binding bootstrap bootstrap-exec bootstrap-exec-args demux envlist errfile
        errfile-pattern f genvlist gpu-subdevs-per-proc gpus-per-proc host hostfile hosts iface
        launcher launcher-exec localhost machine machinefile map-by membind memory-alloc-kinds n
        nameserver np order-nodes outfile outfile-pattern path perhost ppn prepend-pattern rankmap
        rmk s topolib tree-width usize wd wdir
        """,
        2: "env genv",
    }
)
_HYDRA_HOSTS = frozenset({"host", "hosts"})
_HYDRA_FILES = frozenset({"f", "hostfile", "machinefile", "machine"})

_MPICH = OptionTable(
    arity=_HYDRA_ARITY,
    ranks=frozenset({"n", "np"}),
    binding=frozenset({"bind-to", "binding", "membind"}),
    hosts=_HYDRA_HOSTS,
    host_files=_HYDRA_FILES,
    per_host=frozenset({"ppn", "perhost"}),
    ordering=frozenset({"rankmap"}),
    devices=frozenset({"gpus-per-proc", "gpu-subdevs-per-proc"}),
    output=frozenset({"outfile", "outfile-pattern"}),
    colon=True,
    program_files=frozenset({"configfile"}),
    ends_options=False,
)

_INTEL = replace(
    _MPICH,
    arity={
        **_HYDRA_ARITY,
        **arities(
            {
                0: """
                aps check-mpi check_mpi gdb ilp64 noconf nolocal ordered-output rr static_mpi t
                trace tune-disable tv
                """,
                1: """
                branch-count genvexcl grr gtool gtoolfile hosts-group preload temporary-dir tmpdir
                use-app-topology
                """,
            }
        ),
    },
    ordering=frozenset({"rankmap", "rr", "grr", "hosts-group"}),
)

_REPLACED = _INTEL.hosts | _INTEL.host_files | _INTEL.per_host
_RANKMAP_SINCE = (4, 3)
# Hydra (4.3 to 5.0.2 at least) packs a rank map by comparing an integer that it has not set: what
# lies in its memory decides whether ranks learn the truth, and where they do not, all wait in
# MPI_Init for ever. The C library fills mpiexec's memory, so that the integer is no count of ranks,
# and leaves that of the ranks alone.
_FILLED = {"MALLOC_PERTURB_": "1"}
_NOT_FILLED = ("-genv", "MALLOC_PERTURB_", "0")
_MPICH_UNBOUND = ("-bind-to", "none")
_INTEL_UNBOUND = ("-genv", "I_MPI_PIN", "0")
# Options that say where nodes are and how to reach them.
_OF_NODES = """
f hosts host hostfile machine machinefile launcher launcher-exec bootstrap bootstrap-exec
bootstrap-exec-args rmk iface localhost disable-x enable-x tree-width path env genv
"""


def _mpich_words(launch: Launch, plan: RankHosts) -> HostWords:
    order, version = launch.order_in_job(plan.hosts), version_of(launch.line.launcher[0])
    return mpich(plan, launch.folder, order=order, version=version)


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
    """`-machinefile` for blocks, with `-perhost` for rounds."""
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


def forward(
    line: LaunchLine, names: Sequence[str], environment: Mapping[str, str]
) -> tuple[LaunchLine, dict[str, str]]:
    """All variables reach the ranks, unless the line lists them: then these are added."""
    del environment
    for option in line.options:
        words = _hydra_words(option, names)
        if words != option.words:
            line = line.exchanged(option, words)
    further = []
    for each in line.further:
        own = [word for option in each.options for word in _hydra_words(option, names)]
        length = sum(len(option.words) for option in each.options)
        rest = each.launcher[1 + length :]
        further.append(replace(each, launcher=(*each.launcher[:1], *own, *rest)))
    return replace(line, further=tuple(further)), {}


def _hydra_words(option: Option, names: Sequence[str]) -> tuple[str, ...]:
    """`-genvlist A` and `-envlist A` with more names; `-genvnone` becomes a list of these alone."""
    if option.name in ("genvlist", "envlist"):
        listed = ",".join((option.values[-1], *names))
        first, equals, _ = option.words[0].partition("=")
        return (f"{first}={listed}",) if equals else (first, listed)
    if option.name in ("genvnone", "envnone"):
        return (option.words[0].replace("none", "list"), ",".join(names))
    return option.words


def _per_node(launch: Launch, as_job: bool) -> list[str]:
    """MPICH alone starts one process for each host it was given if no number is said.

    One that was built without the scheduler's part stays on this host unless hosts are named.
    """
    del as_job
    words = [*launch.line.words_of(_OF_NODES), "-ppn", "1"]
    if launch.allocation is None:
        return words
    hosts = launch.allocation.hosts
    named = launch.line.has(_HYDRA_HOSTS | _HYDRA_FILES)
    return [*words, *(() if named else ("-hosts", ",".join(hosts))), "-n", str(len(hosts))]


def _export_mpich(job: Job) -> Export:
    """`-f hostfile`, `-rankmap` where ranks are not in blocks, `-bind-to user:`."""
    own = mpich(job.rank_hosts) if job.hosts else HostWords()
    notes = []
    if "-rankmap" in own.options:
        notes.append("-rankmap needs MPICH 4.3 or later (4.0 refuses it)")
        notes.append("without MALLOC_PERTURB_ for mpiexec, ranks may wait in MPI_Init for ever")
    binding, cpus = job.bound(
        lambda lists: ("-bind-to", "user:" + ",".join(map(plus_list, lists))), _MPICH_UNBOUND
    )
    words = ["mpiexec", "-n", str(job.ranks), *own.options, *binding]
    return with_seats(job, "mpich", words, own, cpus=cpus, say=_genv, notes=notes)


def _export_intel(job: Job) -> Export:
    """`-machinefile` and `I_MPI_PIN_DOMAIN` masks by local rank; without 0x it refuses them."""
    own = intel(job.rank_hosts) if job.hosts else HostWords()
    binding, cpus = job.bound(
        lambda lists: _genv("I_MPI_PIN_DOMAIN", f"[{','.join(map(hex_mask, lists))}]"),
        _INTEL_UNBOUND,
    )
    words = ["mpiexec", "-n", str(job.ranks), *own.options, *binding]
    if job.nic_environment():  # Slingshot: it pins ranks to the nearest NICs, by its own choice
        words += _genv("I_MPI_MULTIRAIL", "1")
    return with_seats(job, "intel", words, own, cpus=cpus, say=_genv)


def _genv(name: str, value: str) -> tuple[str, ...]:
    return "-genv", name, value


_OF_MPICH = Launcher(
    kind=LauncherKind.MPICH,
    names=("mpirun.mpich", "mpiexec.mpich"),
    answer=r"\A(?!.*(?:Intel\(R\) MPI|\bPALS\b)).*(?:HYDRA|MPICH|MVAPICH)",
    table=_MPICH,
    words=_mpich_words,
    no_binding=_MPICH_UNBOUND,
    bound_by=("HYDRA_BINDING",),
    forward=forward,
    per_node=_per_node,
    stays_here=True,
    host_variables=("HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_HOSTS_GROUP"),
    job_files=("PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE"),
)
_OF_INTEL = replace(
    _OF_MPICH,
    kind=LauncherKind.INTEL,
    names=(),
    answer=r"Intel\(R\) MPI",
    table=_INTEL,
    words=lambda launch, plan: intel(plan, launch.folder, order=launch.order_in_job(plan.hosts)),
    no_binding=_INTEL_UNBOUND,
    bound_by=("I_MPI_PIN",),
)
LAUNCHERS = (_OF_MPICH, _OF_INTEL)
EXPORTS = {
    "mpich": ("Hydra's host file, -rankmap and -bind-to user", _export_mpich),
    "intel": ("Intel MPI's machine file and I_MPI_PIN_DOMAIN", _export_intel),
}
