"""Slurm's srun: options, blocks and rounds or a host for every rank, exports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from toposeat.errors import UsageError
from toposeat.launch.child import answer_of
from toposeat.launch.launchers.launcher import (
    Launch,
    Launcher,
    LauncherKind,
    LaunchLine,
    OptionTable,
    Words,
    arities,
    product,
    value_of,
)
from toposeat.launch.launchers.scripts import with_seats
from toposeat.launch.launchers.seats import (
    Export,
    HostWords,
    Job,
    LaunchFile,
    RankHosts,
    dealing_name,
    hex_mask,
    host_per_rank,
    in_natural_order,
)
from toposeat.model.files import beginning
from toposeat.model.hostlist import compress_hostlist

_TABLE = OptionTable(
    arity=arities(
        {
            # Among those without an argument are those with an optional one: it follows a "=".
            0: """
            async compress consolidate-segments contiguous disable-status E exact exclusive
            external-launcher get-user-env H h help hold I immediate interactive K k
            kill-on-bad-exit l label multi-prog nice no-allocate no-kill O overcommit overlap
            oversubscribe preserve-env propagate pty Q quiet reboot resv-ports s send-libs
            spread-job spread-segments stepmgr test-only u unbuffered usage use-min-nodes V v
            verbose version whole X x11 Z
            container-mount-home no-container-mount-home container-remap-root
            no-container-remap-root container-writable container-readonly container-entrypoint
            no-container-entrypoint
            """,
            1: """
            A accel-bind account acctg-freq B b bb bbf bcast bcast-exclude begin C c chdir
            cluster-constraint clusters comment constraint container container-env container-id
            container-image container-mounts container-name container-workdir core-spec
            cores-per-socket cpu-bind cpu-freq cpus-per-gpu cpus-per-task D d delay-boot dependency
            distribution e epilog error exclude export extra extra-node-info F G gid gpu-bind
            gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags het-group hint
            i input J job-name jobid L licenses M m mail-type mail-user mcs-label mem mem-bind
            mem-per-cpu mem-per-gpu mincpus mpi msg-timeout N n network nodefile nodelist nodes
            ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket o open-mode
            output P p partition power prefer priority profile prolog q qos r relative reservation S
            segment signal slurmd-debug sockets-per-node switches T t task-epilog task-prolog
            thread-spec threads threads-per-core time time-min tmp treewidth tres-bind tres-per-job
            tres-per-node tres-per-socket tres-per-task uid W w wait wckey x
            """,
        }
    ),
    ranks=frozenset({"n", "ntasks"}),
    binding=frozenset({"cpu-bind", "mem-bind"}),
    hosts=frozenset({"w", "nodelist"}),
    host_files=frozenset({"F", "nodefile"}),
    nodes=frozenset({"N", "nodes"}),
    per_host=frozenset({"ntasks-per-node"}),
    cpus=frozenset({"c", "cpus-per-task"}),
    dealing=frozenset({"m", "distribution"}),
    by_task=frozenset({"multi-prog"}),
    output=frozenset({"o", "output"}),
    ordering=frozenset({"m", "distribution", "r", "relative"}),
    attached=True,
    single_dash_long=False,
)

_ASK_S = 10.0
_DISTRIBUTION = Path("/usr/lib")
_PMIX_FOLDERS = ("", "pmix*/lib/", "pmix*/")
_PMIX_NAME = re.compile(rb"libpmix\.so(?:\.[0-9]{1,3})*")  # that the plugin opens: Debian's differ
_MAX_PLUGIN = 1 << 24  # bytes
_MOUNTS = "container-mounts"
PMI2 = "pmi2"  # under which an MPI knows the ranks of its node only where srun deals them out
_REPLACED = (
    _TABLE.hosts | _TABLE.host_files | _TABLE.nodes | _TABLE.per_host | {"m", "distribution"}
)
_ORDER = "MPICH_RANK_ORDER"
_NOTHING = ("NONE", "NIL")  # of --export
_NO_BINDING = ("--cpu-bind=none",)
_NODES_OF_JOB = ("SLURM_JOB_NUM_NODES", "SLURM_NNODES")
# Of a job's line, for one process on every node: what says which job it is,
_OF_JOB = "jobid M clusters het-group"
# what decides about the devices that a step sees,
_OF_DEVICES = "G export gpus gpus-per-node gres task-prolog tres-per-node"
# and outside of an allocation the words that are needed to get one like the job's.
_OF_ALLOCATION = """
A account B C cluster-constraint clusters comment constraint contiguous core-spec D chdir exclude
exclusive F I immediate jobid L licenses M mcs-label mem mincpus N
network nice nodefile nodelist nodes oversubscribe p partition prefer priority q qos reservation S
s switches t time time-min tmp use-min-nodes w wckey x
"""


def _words(launch: Launch, plan: RankHosts) -> HostWords:
    pmi = _pmi(launch.line, launch.environment)
    order = _order(launch, plan.hosts, pmi)
    guess = in_natural_order(plan.hosts)
    return srun(plan, launch.folder, order=order or guess, pmi=pmi, exact=bool(order))


def srun(
    plan: RankHosts, folder: str = "", *, order: Sequence[str], pmi: str = "", exact: bool = True
) -> HostWords:
    """Blocks, rounds (cyclic, plane), or a host for every rank (arbitrary).

    The file of hosts will lie in `folder`, which has a slash at its end. `order` are the plan's
    hosts as Slurm sorts them, a guess if not `exact`; `pmi` is what `--mpi` says, or stands for it.
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
        replaces=_REPLACED | _TABLE.ranks,
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
        replaces=_REPLACED | _TABLE.ranks,
    )


def _of_cray(plan: RankHosts, folder: str, order: Sequence[str]) -> HostWords:
    """Blocks, and the MPI renumbers its ranks: Cray's PMI refuses other distributions."""
    own = order_file(plan, folder, order)
    blocks = RankHosts(tuple(host for host in order for _ in range(plan.counts[host])))
    dealt = _dealt(blocks, order, per_host(plan))
    return HostWords(
        options=dealt.options,
        replaces=dealt.replaces,
        files=own.files,
        environment=own.environment,
        rank_of_slot=own.rank_of_slot,
    )


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


def per_host(plan: RankHosts) -> int:
    """Ranks of every host."""
    if plan.per_host is None:
        raise UsageError(
            "hosts have different numbers of ranks, which an order of ranks cannot express",
            hint="use --launcher slurm, or place the same number of ranks on every host",
        )
    return plan.per_host


def _order(launch: Launch, hosts: Sequence[str], pmi: str) -> Words:
    """The order in which srun deals ranks to these hosts; () if not known, or not needed."""
    order = launch.order_in_job(hosts)
    return order or (_slurm_order(hosts) if pmi == PMI2 or pmi.startswith("cray") else ())


def _pmi(line: LaunchLine, environment: Mapping[str, str]) -> str:
    """What `--mpi` says or stands for; "" where Slurm does not say."""
    return line.value({"mpi"}) or environment.get("SLURM_MPI_TYPE") or configured("MpiDefault")


@cache
def configured(wanted: str) -> str:
    """A value of Slurm's configuration; "" where Slurm does not say."""
    for line in answer_of(("scontrol", "show", "config"), _ASK_S).splitlines():
        name, _, value = line.partition("=")
        if name.strip() == wanted:
            return value.strip()
    return ""


def _ready(line: LaunchLine, environment: Mapping[str, str]) -> None:
    """Refuse PMIx without its library: srun then fails, or waits for ever.

    Only of a Slurm of the distribution it is known where the library is looked for; another one has
    the path of its own in its plugin.
    """
    plugins = Path(configured("PluginDir") or "/nowhere")
    if not _pmi(line, environment).startswith("pmix") or _DISTRIBUTION not in plugins.parents:
        return
    found = [beginning(path, _MAX_PLUGIN) for path in plugins.glob("mpi_pmix*.so")]
    if not found:
        raise UsageError(
            f"srun has no PMIx here: no mpi_pmix.so in {plugins}",
            hint="`srun --mpi=list` says what it has; or start it by mpirun inside the job",
        )
    opened = {name.decode() for plugin in found for name in _PMIX_NAME.findall(plugin)}
    there = {each for each in opened for at in _PMIX_FOLDERS if any(plugins.parent.glob(at + each))}
    if opened and not there:
        name = min(opened)
        package = "libpmix-dev" if name.endswith(".so") else f"libpmix{name.split('.')[2]}"
        raise UsageError(
            f"srun --mpi=pmix needs {name}, which is not installed here: it fails, or waits for"
            " ever",
            hint=f"on every node: apt-get install {package} libevent-pthreads-2.1-7; or start it by"
            " mpirun inside the job",
        )


def _slurm_order(hosts: Sequence[str]) -> tuple[str, ...]:
    """These hosts in the order of Slurm's own table, in which a job has them; () if not known."""
    told = answer_of(("scontrol", "--oneliner", "show", "nodes"), _ASK_S).splitlines()
    names = [line.split()[0].removeprefix("NodeName=") for line in told if line.strip()]
    found = tuple(name for name in names if name in hosts)
    return found if len(found) == len(hosts) else ()


def _forward(
    line: LaunchLine, names: Sequence[str], environment: Mapping[str, str]
) -> tuple[LaunchLine, dict[str, str]]:
    variable = "SLURM_EXPORT_ENV"  # sbatch --export sets it for the job
    option = next((o for o in reversed(line.options) if o.name == "export"), None)
    value = option.values[-1] if option is not None else environment.get(variable)
    given = [] if value is None or value in _NOTHING else value.split(",")
    if value is None or "ALL" in given:
        return line, {}
    value = ",".join((*given, *names))
    if option is None:
        return line, {variable: value}
    return line.exchanged(option, (f"--export={value}",)), {}


def _per_node(launch: Launch, as_job: bool) -> list[str] | None:
    """Outside of an allocation srun has one of its own for each job: only the job's own will do."""
    line, variables = launch.line, launch.environment
    nodes = next((variables[name] for name in _NODES_OF_JOB if variables.get(name)), None)
    if "SLURM_HET_SIZE" in variables and launch.allocation is not None:
        nodes = str(len(launch.allocation.hosts))  # of one component
    if nodes is not None:
        words = [*line.words_of(_OF_JOB), "--overlap", "--mpi=none"]
        words += [*(() if as_job else _NO_BINDING), "-N", nodes, "-n", nodes]
    elif as_job and line.has(_TABLE.nodes):
        words = [*line.words_of(_OF_ALLOCATION), "--mpi=none"]
    else:
        return None
    if as_job:
        words += [*line.words_of(_OF_DEVICES), *_gpus_of_tasks(line)]
    return [*words, "--ntasks-per-node=1"]


def _gpus_of_tasks(line: LaunchLine) -> list[str]:
    """What `--gpus-per-task` gives a node of the job."""
    numbers = [line.value({"gpus-per-task"}), line.value({"N", "nodes"})]
    if line.ranks is None or not all(each is not None and each.isdigit() for each in numbers):
        return []
    gpus, nodes = (int(each or 0) for each in numbers)
    return [f"--gpus-per-node={gpus * -(-line.ranks // max(1, nodes))}"]


def _mounts(line: LaunchLine, folders: Sequence[Path]) -> LaunchLine:
    """Pyxis's containers see these folders, beside what the line mounts itself."""
    if not line.has({"container-image", "container-name"}):
        return line
    new = ",".join(f"{folder}:{folder}" for folder in folders)
    option = next((o for o in reversed(line.options) if o.name == _MOUNTS), None)
    if option is None:
        return line.changed((f"--{_MOUNTS}={new}",))
    return line.exchanged(option, (f"--{_MOUNTS}={option.values[-1]},{new}",))


def _export(job: Job) -> Export:
    """`SLURM_HOSTFILE` where blocks of sorted hosts are not enough, CPU masks by local rank.

    Slurm sets the device variables itself, after whatever the environment holds: an order of all
    devices needs the script, one device each `--gpu-bind`.
    """
    own = HostWords(options=("-N", "1", "-n", str(job.ranks)))
    if job.hosts:
        own = srun(job.rank_hosts, order=job.order)
    binding, cpus = job.bound(by_mask, _NO_BINDING)
    words = ["srun", *own.options, *binding]
    notes = []
    if own.environment:
        notes.append(
            "MPICH and its kin lose shared memory under srun --mpi=pmi2 -m arbitrary: check"
            " MPI_COMM_TYPE_SHARED, or use --launcher cray or mpich"
        )
    masked = job.own_devices_alike() if job.visibility == "mask" and job.device_lists() else None
    if masked is not None:
        words.append("--gpu-bind=map_gpu:" + ",".join(masked))
        notes.append(
            "one device per rank: in a job whose GPUs are constrained by a cgroup add"
            " --gres-flags=allow-task-sharing, or peers cannot be reached"
        )
    return with_seats(
        *(job, "slurm", words, own),
        cpus=cpus,
        devices=masked is None,
        keeps_variables=False,
        nics=True,
        notes=notes,
    )


def by_mask(cpus: Sequence[str]) -> tuple[str]:
    """How srun binds local ranks to CPUs."""
    return ("--cpu-bind=mask_cpu:" + ",".join(map(hex_mask, cpus)),)


LAUNCHERS = (
    Launcher(
        kind=LauncherKind.SRUN,
        names=("srun",),
        table=_TABLE,
        count=lambda o: product(value_of(o, "N", "nodes"), value_of(o, "ntasks-per-node")),
        no_colon=(
            "srun gives every program of a line with ':' nodes of its own, so that no plan can have"
            " their ranks side by side",
            "name them in a file with a line like '0-3 ./a' for each: srun -n N --multi-prog FILE",
        ),
        words=_words,
        no_binding=_NO_BINDING,
        bound_by=("SLURM_CPU_BIND",),
        forward=_forward,
        mounts=_mounts,
        ready=_ready,
        per_node=_per_node,
        # It waits for tasks that wait for one that has ended; a later option of the user wins.
        ending=("--kill-on-bad-exit=1",),
        on_one_host=("-N", "1"),
        any_host=True,
        slurm_places="SLURM_JOB_CPUS_PER_NODE",  # every CPU of the job
        named_by="SLURMD_NODENAME",
        job_ranks="SLURM_NTASKS",
        worlds=lambda line, environment: (_pmi(line, environment), configured("SLURM_VERSION")),
        singletons="name the program's PMI: srun --mpi=pmix ... (Open MPI) or srun --mpi=pmi2 ..."
        " (MPICH); `srun --mpi=list` says which there are",
        oversubscribes=lambda line, _: line.has({"O", "overcommit"}),
        # Cray MPICH reads its order of ranks on every node.
        shares_files=lambda line, environment: _pmi(line, environment).startswith("cray"),
    ),
)
EXPORTS = {"slurm": ("SLURM_HOSTFILE, srun's --cpu-bind and --gpu-bind", _export)}
