"""Open MPI: its options, the host of every rank (a rankfile, the sequential mapper), exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toposeat.launch.launchers.launcher import (
    PLACING,
    Launch,
    Launcher,
    LauncherKind,
    LaunchLine,
    Option,
    OptionTable,
    Words,
    arities,
    version_of,
)
from toposeat.launch.launchers.scripts import NAME, with_seats
from toposeat.launch.launchers.seats import (
    Export,
    HostWords,
    Job,
    LaunchFile,
    RankHosts,
    host_per_rank,
)

_TABLE = OptionTable(
    arity=arities(
        {
            0: """
            allow-run-as-root bind-to-core bind-to-socket bycore bynode byslot continuous d debug
            debug-daemons debug-daemons-file debug-devel disable-recovery display-allocation
            display-devel-allocation display-devel-map display-diffable-map display-map display-topo
            do-not-aggregate-help do-not-launch do-not-resolve enable-instant-on-support
            enable-recovery get-stack-traces index-argv-by-rank leave-session-attached
            merge-stderr-to-stdout no-ready-msg nolocal nooversubscribe noprefix novm
            output-proctable oversubscribe parsable parseable pernode preload-binary q quiet
            report-bindings report-child-jobs-separately report-state-on-timeout s
            set-cwd-to-session-dir set-sid show-stop-on-exec tag-output timestamp-output tv
            use-hwthread-cpus use-regexp v verbose xml
            """,
            1: """
            add-host add-hostfile am bind-to bindto c cartofile cf cpu-list cpu-set cpus-per-proc
            cpus-per-rank debugger default-hostfile display dvm-uri forward-signals fwd-mpirun-port
            fwd-signals gpu-support H hnp host hostfile keepalive launch-agent machinefile map-by
            mapby max-restarts max-vm-size memory-alloc-kinds N n namespace np npernode npersocket
            ompi-server output output-filename path personality ppr prefix preload-files pset
            rank-by rankby rankfile report-events report-pid report-uri rf rtos runtime-options
            spawn-timeout stdin stream-buffering timeout tmpdir tune wd wdir with-ft x xml-file
            xterm
            """,
            2: "gmca gpmixmca gprtemca mca omca pmixmca prtemca",
        }
    ),
    ranks=frozenset({"n", "np", "c"}),
    binding=frozenset(
        {
            *("bind-to", "bindto", "bind-to-core", "bind-to-socket", "cpu-set", "cpu-list"),
            *("cpus-per-proc", "cpus-per-rank", "rankfile", "rf"),
        }
    ),
    hosts=frozenset({"host", "H"}),
    host_files=frozenset({"hostfile", "machinefile", "default-hostfile"}),
    output=frozenset({"output-filename"}),
    per_host=frozenset({"N", "npernode"}),
    ordering=frozenset(
        {
            *("map-by", "mapby", "rank-by", "rankby", "rankfile", "rf", "ppr", "pernode"),
            *("npersocket", "bynode", "byslot", "bycore", "cpus-per-proc", "cpus-per-rank"),
        }
    ),
    binding_parameters=frozenset(
        {"hwloc_base_binding_policy", "hwloc_default_binding_policy", "rmaps_base_mapping_policy"}
    ),
    reach=frozenset({"dvm-uri", "hnp", "dvm", "add-host", "add-hostfile"}),
    colon=True,
    program_files=frozenset({"app", "appfile"}),
)

_REPLACED = _TABLE.hosts | _TABLE.host_files | _TABLE.per_host | {"map-by", "mapby"}
_NO_BINDING = ("--bind-to", "none")
_ENV_LIST = "mca_base_env_list"  # Open MPI refuses -x beside it
_OVERSUBSCRIBE = (
    *("PRTE_MCA_rmaps_default_mapping_policy", "PRTE_MCA_rmaps_base_oversubscribe"),
    *("OMPI_MCA_rmaps_base_oversubscribe", "OMPI_MCA_rmaps_base_mapping_policy"),
)
# Options that say where nodes are and how to reach them; all others place, bind or dress up the
# job's own ranks.
_OF_NODES = """
H host hostfile machinefile default-hostfile add-host add-hostfile prefix noprefix launch-agent
allow-run-as-root am tune path x dvm-uri hnp tmpdir personality
mca omca gmca prtemca pmixmca gprtemca gpmixmca
"""


def _words(launch: Launch, plan: RankHosts) -> HostWords:
    line = launch.line
    version = version_of(line.launcher[0])
    if version and version[0] < 5 and "prte" not in line.launcher[0]:
        return version_4(plan, launch.folder)
    # A launcher that binds would bind to the one slot that the rankfile names for every rank.
    binds = bool(line.binding_options) or all(each is None for each in launch.cpus)
    sequential = binds or _oversubscribes(line, launch.environment)
    return version_5(plan, launch.folder, oversubscribe=sequential)


def version_5(plan: RankHosts, folder: str = "", *, oversubscribe: bool = False) -> HostWords:
    """A rankfile, and a file with the hosts and their slots.

    Outside a scheduler's job a rankfile alone does not start daemons on the hosts that it names.
    A rankfile allows no more ranks on a host than the job has slots there, the sequential mapper
    does. Slots of PRRTE's rankfiles are logical cores; the caller switches binding off.
    """
    if oversubscribe:
        return HostWords(
            options=("--map-by", "seq:oversubscribe", "--hostfile", f"{folder}hostfile"),
            replaces=_REPLACED,
            files=(host_per_rank("hostfile", plan),),
        )
    return HostWords(
        options=("--map-by", f"rankfile:file={folder}rankfile", *_hostfile(folder)),
        replaces=_REPLACED,
        files=(rankfile(plan.host_of_rank, ["0"] * plan.ranks), hosts_with_slots(plan)),
    )


def version_4(plan: RankHosts, folder: str = "") -> HostWords:
    """The sequential mapper, which leaves binding alone: a rankfile always binds."""
    return HostWords(
        options=("--mca", "rmaps", "seq", *_hostfile(folder)),
        replaces=_REPLACED,
        files=(host_per_rank("hostfile", plan),),
    )


def rankfile(hosts: Sequence[str], slots: Sequence[str]) -> LaunchFile:
    """Host and slots (CPUs) of every rank."""
    pairs = zip(hosts, slots, strict=True)
    lines = [f"rank {rank}={host} slot={slot}\n" for rank, (host, slot) in enumerate(pairs)]
    return LaunchFile(name="rankfile", text="".join(lines))


def hosts_with_slots(plan: RankHosts) -> LaunchFile:
    """Every host once, with as many slots as it has ranks."""
    lines = [f"{host} slots={count}\n" for host, count in plan.counts.items()]
    return LaunchFile(name="hostfile", text="".join(lines))


def _hostfile(folder: str) -> tuple[str, str]:
    return "--hostfile", f"{folder}hostfile"


def _oversubscribes(line: LaunchLine, environment: Mapping[str, str]) -> bool:
    texts = [environment.get(name, "").lower() for name in _OVERSUBSCRIBE]
    policy = (line.value({"map-by", "mapby"}) or "").lower()
    allowed = any(text in ("1", "true") or "oversubscribe" in text for text in (*texts, policy))
    return allowed or line.has({"oversubscribe"})


def _in_order(line: LaunchLine) -> Words:
    """Version 5 maps by core or package and then numbers the ranks of a node in that order.

    So local rank 1 may be rank 2. Without options of the user that say otherwise, keep them in
    order.
    """
    by_variable = any(
        option.name.endswith("mca") and option.values[0].startswith("rmaps_")
        for option in line.options
        if option.values
    )
    ordered = line.has(_TABLE.ordering | _TABLE.per_host)
    return () if ordered or by_variable else ("--rank-by", "slot")


def _forward(
    line: LaunchLine, names: Sequence[str], environment: Mapping[str, str]
) -> tuple[LaunchLine, dict[str, str]]:
    listed = next((o for o in line.options if o.values[:1] == (_ENV_LIST,)), None)
    if listed is not None:
        value = ";".join((listed.values[1], *names))
        return line.exchanged(listed, (listed.words[0], _ENV_LIST, value)), {}
    variable = f"OMPI_MCA_{_ENV_LIST}"
    if environment.get(variable):
        return line, {variable: ";".join((environment[variable], *names))}
    words = tuple(word for name in names for word in ("-x", name))
    further = (
        replace(each, launcher=(*each.launcher[:1], *words, *each.launcher[1:]))
        for each in line.further
    )
    return replace(line.changed(words), further=tuple(further)), {}


def _per_node(launch: Launch, as_job: bool) -> list[str]:
    del as_job
    kept = launch.line.words_of(_OF_NODES, but=_places_ranks)
    return [*kept, "--map-by", "ppr:1:node", *_NO_BINDING]


def _places_ranks(option: Option) -> bool:
    """Whether an Open MPI `--mca name value` says where ranks go."""
    return option.name.endswith("mca") and option.values[0].startswith(("rmaps_", "hwloc_"))


def _export_4(job: Job) -> Export:
    """`--rankfile` with the operating system's CPU numbers, which need an MCA parameter."""
    cpus = [seat.cpus for seat in job.placement.seats if seat.cpus is not None]
    if len(cpus) == job.ranks:
        files = [rankfile(job.rank_hosts.host_of_rank, cpus)]
        words = ["--rankfile", "rankfile", "--mca", "rmaps_rank_file_physical", "1"]
        if job.hosts:
            files.append(hosts_with_slots(job.rank_hosts))
            words += ["--hostfile", "hostfile"]
        own = HostWords(options=tuple(words), files=tuple(files))
    else:
        own = version_4(job.rank_hosts) if job.hosts else HostWords()
        own = HostWords(options=(*_NO_BINDING, *own.options), files=own.files)
    return _export(job, "openmpi4", own, cpus_by_script=False)


def _export_5(job: Job) -> Export:
    """A rankfile for the order of hosts; CPUs by the script.

    Slots of PRRTE's rankfiles are logical cores, whose numbers a placement does not know.
    """
    own = version_5(job.rank_hosts)
    options = own.options if job.hosts else own.options[:2]
    files = own.files if job.hosts else own.files[:1]
    bound = (
        (f"the rankfile orders hosts; {NAME} binds CPUs: rankfiles of PRRTE count logical cores",)
        if job.has_cpus
        else ()
    )
    own = HostWords(options=(*options, *_NO_BINDING), files=files, notes=bound)
    return _export(job, "openmpi", own, cpus_by_script=job.has_cpus)


def _export(job: Job, launcher: str, own: HostWords, *, cpus_by_script: bool) -> Export:
    words = ("mpirun", "-n", str(job.ranks), *own.options)
    return with_seats(
        *(job, launcher, words, own),
        cpus=cpus_by_script,
        say=lambda name, value: ("-x", f"{name}={value}"),
    )


LAUNCHERS = (
    Launcher(
        kind=LauncherKind.OPENMPI,
        names=("orterun", "prterun", "mpirun.openmpi", "mpiexec.openmpi"),
        answer=r"Open ?MPI|OpenRTE|PRRTE|prterun",
        table=_TABLE,
        words=_words,
        no_binding=_NO_BINDING,
        bound_by=("OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy"),
        forward=_forward,
        per_node=_per_node,
        placing=PLACING,  # without SLURM_TASKS_PER_NODE it starts nothing in a job of Slurm
        in_order=_in_order,
        stays_here=True,
        host_variables=("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"),
        job_files=("PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE"),
        job_ranks="SLURM_NTASKS",
        limits_slots=True,
        oversubscribes=_oversubscribes,
    ),
)
EXPORTS = {
    "openmpi": ("rankfile of Open MPI 5 (PRRTE)", _export_5),
    "openmpi4": ("rankfile of Open MPI 4, physical CPU numbers", _export_4),
}
