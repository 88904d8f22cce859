"""The number of arguments of each launcher's options, to find the program after them.

Names are without leading dashes. Sources: `mpirun --help` of Open MPI 4.1 and 5.0, `mpiexec --help`
of MPICH 4.0 and 5.0, the reference pages of Intel MPI, srun(1), flux-run(1) and torchrun. An option
that is not here is not guessed at (see `launch_line`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionTable:
    """The grammar of one launcher's command line.

    Attributes:
        arity: number of separate arguments by option name.
        ranks: options whose argument is the number of ranks.
        binding: options that bind processes to CPUs.
        hosts: options that name hosts, apart by commas.
        host_files: options that name a file of hosts.
        nodes: options whose argument is the number of hosts.
        per_host: options whose argument is the number of ranks of every host.
        ordering: other options that say which rank goes to which host.
        many: options that make the line start more than one program, with what they do.
        colon: `:` stands between programs, each with options of its own in front.
        program_files: options whose argument is a file with such a program in each line.
        attached: one-letter options may carry their value (`-n8`).
        single_dash_long: `-mca` means `--mca`.
        ends_options: `--` ends the launcher's options.
        equals: `--name=value` is accepted.
    """

    arity: Mapping[str, int]
    ranks: frozenset[str] = frozenset()
    binding: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    host_files: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    per_host: frozenset[str] = frozenset()
    ordering: frozenset[str] = frozenset()
    many: Mapping[str, str] = field(default_factory=dict)
    colon: bool = False
    program_files: frozenset[str] = frozenset()
    attached: bool = False
    single_dash_long: bool = True
    ends_options: bool = True
    equals: bool = True


def _arities(groups: Mapping[int, str]) -> dict[str, int]:
    return {name: count for count, names in groups.items() for name in names.split()}


OPENMPI = OptionTable(
    arity=_arities(
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
    per_host=frozenset({"N", "npernode"}),
    ordering=frozenset(
        {
            *("map-by", "mapby", "rank-by", "rankby", "rankfile", "rf", "ppr", "pernode"),
            *("npersocket", "bynode", "byslot", "bycore", "cpus-per-proc", "cpus-per-rank"),
        }
    ),
    colon=True,
    program_files=frozenset({"app", "appfile"}),
)

_HYDRA_ARITY = _arities(
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
_HYDRA_BINDING = frozenset({"bind-to", "binding", "membind"})
_HYDRA_HOSTS = frozenset({"host", "hosts"})
_HYDRA_FILES = frozenset({"f", "hostfile", "machinefile", "machine"})
_HYDRA_PER_HOST = frozenset({"ppn", "perhost"})
_HYDRA_PROGRAMS = frozenset({"configfile"})

MPICH = OptionTable(
    arity=_HYDRA_ARITY,
    ranks=frozenset({"n", "np"}),
    binding=_HYDRA_BINDING,
    hosts=_HYDRA_HOSTS,
    host_files=_HYDRA_FILES,
    per_host=_HYDRA_PER_HOST,
    ordering=frozenset({"rankmap"}),
    colon=True,
    program_files=_HYDRA_PROGRAMS,
    ends_options=False,
)

INTEL = OptionTable(
    arity={
        **_HYDRA_ARITY,
        **_arities(
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
    ranks=frozenset({"n", "np"}),
    binding=_HYDRA_BINDING,
    hosts=_HYDRA_HOSTS,
    host_files=_HYDRA_FILES,
    per_host=_HYDRA_PER_HOST,
    ordering=frozenset({"rankmap", "rr", "grr", "hosts-group"}),
    colon=True,
    program_files=_HYDRA_PROGRAMS,
    ends_options=False,
)

SRUN = OptionTable(
    arity=_arities(
        {
            # Among those without an argument are those with an optional one: it follows a "=".
            0: """
            async compress consolidate-segments contiguous disable-status E exact exclusive
            external-launcher get-user-env H h help hold I immediate interactive K k
            kill-on-bad-exit l label multi-prog nice no-allocate no-kill O overcommit overlap
            oversubscribe preserve-env propagate pty Q quiet reboot resv-ports s send-libs
            spread-job spread-segments stepmgr test-only u unbuffered usage use-min-nodes V v
            verbose version whole X x11 Z
            """,
            1: """
            A accel-bind account acctg-freq B b bb bbf bcast bcast-exclude begin C c chdir
            cluster-constraint clusters comment constraint container container-id core-spec
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
    ordering=frozenset({"m", "distribution", "r", "relative"}),
    attached=True,
    single_dash_long=False,
)

FLUX_RUN = OptionTable(
    arity=_arities(
        {
            0: "x l u v h dry-run exclusive help label-io progress unbuffered verbose wait watch",
            1: """
            add-file B bank bcc begin-time C c cc conf cores cores-per-task cwd dependency env
            env-file env-remove error flags g gpus-per-node gpus-per-task input job-name log
            log-stderr N n nodes nslots ntasks o output q queue requires rlimit S setattr setopt
            signal T t taskmap tasks-per-core tasks-per-node time-limit urgency wait-event
            """,
        }
    ),
    ranks=frozenset({"n", "ntasks"}),
    nodes=frozenset({"N", "nodes"}),
    per_host=frozenset({"tasks-per-node"}),
    ordering=frozenset({"taskmap"}),
    many={"cc": "starts several jobs", "bcc": "starts several jobs"},
    attached=True,
    single_dash_long=False,
)

TORCHRUN = OptionTable(
    arity=_arities(
        {
            0: """
            h help m module no-python no_python run-path run_path standalone virtual-local-rank
            """,
            1: """
            duplicate-stderr-filters duplicate-stdout-filters event-log-handler local-addr
            local-ranks-filter local_addr local_ranks_filter log-dir log-line-prefix-template
            log_dir logs-specs logs_specs master-addr master-port master_addr master_port
            max-restarts max_restarts monitor-interval monitor_interval nnodes node-rank node_rank
            nproc-per-node nproc_per_node numa-binding numa_binding r rdzv-backend rdzv-conf
            rdzv-endpoint rdzv-id rdzv_backend rdzv_conf rdzv_endpoint rdzv_id redirects role
            shutdown-timeout signals-to-handle start-method start_method t tee
            """,
        }
    ),
    binding=frozenset({"numa-binding", "numa_binding"}),
    nodes=frozenset({"nnodes"}),
    per_host=frozenset({"nproc-per-node", "nproc_per_node"}),
    single_dash_long=False,
)

PALS = OptionTable(
    arity=_arities(
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

# Between options and program it takes host names and NAME=VALUE (`launch_line`).
MPIRUN_RSH = OptionTable(
    arity=_arities(
        {
            0: "debug export export-all legacy rsh show ssh tv use-gdb v verify xterm",
            1: "config f hostfile n np sg",
        }
    ),
    ranks=frozenset({"n", "np"}),
    binding=frozenset({"MV2_CPU_BINDING_POLICY", "MV2_CPU_MAPPING", "MV2_ENABLE_AFFINITY"}),
    hosts=frozenset({"hosts"}),
    host_files=frozenset({"hostfile", "f"}),
    many={"config": "reads several programs from a file"},
    ends_options=False,
)

JSRUN = OptionTable(
    arity=_arities(
        {
            0: "H I V h help i immediate stdio_stderr version",
            1: """
            A C D E F K L M P R S T U X Z a allocate_only appfile b bind c chdir cpu_per_rs d e
            env env_eval erf_input erf_output env_no_propagate exit_on_error f g gpu_per_rs J k
            l latency_priority launch_distribution launch_node_task m memory_per_rs mpi n nrs o p
            np plane_priority progress r rs_per_host s save_resources setenv smpiargs stdio_input
            stdio_mode stdio_stdout t tasks_per_rs use_reservation use_resources x exclude_hosts
            """,
        }
    ),
    ranks=frozenset({"np", "p"}),
    binding=frozenset({"b", "bind"}),
    ordering=frozenset({"erf_input", "U", "d", "launch_distribution", "P", "plane_priority"}),
    many={"appfile": "reads several programs from a file", "f": "reads several programs"},
    attached=True,
    single_dash_long=False,
)

IBRUN = OptionTable(
    arity=_arities({0: "", 1: "n np o"}),
    ranks=frozenset({"n", "np"}),
    ends_options=False,
)
