"""jsrun of LSF: options, an explicit resource file, as documented. Never run."""

from __future__ import annotations

from toposeat.errors import UsageError
from toposeat.launch.launchers.launcher import (
    Launch,
    Launcher,
    OptionTable,
    arities,
)
from toposeat.launch.launchers.seats import (
    Exporter,
    HostWords,
    LaunchFile,
    RankHosts,
    in_natural_order,
)

_TABLE = OptionTable(
    arity=arities(
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

_RESOURCE_SETS = frozenset(
    {
        *("n", "nrs", "a", "tasks_per_rs", "c", "cpu_per_rs", "g", "gpu_per_rs", "r"),
        *("rs_per_host", "K", "l", "latency_priority", "b", "bind", "m", "memory_per_rs"),
    }
)


def _words(launch: Launch, plan: RankHosts) -> HostWords:
    """An explicit resource file: host (counted from 1) and CPUs of every rank, all its GPUs.

    Raises:
        UsageError: ranks without CPUs, which such a file must state.
    """
    if None in launch.cpus:
        raise UsageError(
            "jsrun takes the host of a rank only together with its CPUs, which this placement does"
            " not know",
            hint="map onto a topology with CPUs: toposeat discover on a node, map --node FILE",
        )
    order = launch.order_in_job(plan.hosts) or in_natural_order(plan.hosts)
    number = {host: at for at, host in enumerate(order, start=1)}
    lines = ["cpu_index_using: physical", "overlapping_rs: allow"]
    pairs = zip(plan.host_of_rank, launch.cpus, strict=True)
    lines += [
        f"rank: {rank}: {{ host: {number[host]}; cpu: {{{own}}}; gpu: * }}"
        for rank, (host, own) in enumerate(pairs)
    ]
    return HostWords(
        options=("--erf_input", f"{launch.folder}ranks.erf"),
        replaces=_TABLE.ranks | _RESOURCE_SETS,
        files=(LaunchFile(name="ranks.erf", text="\n".join(lines) + "\n"),),
    )


LAUNCHERS = (
    Launcher(
        kind="jsrun",
        names=("jsrun",),
        table=_TABLE,
        words=_words,
        job_files=("LSB_DJOB_HOSTFILE",),
    ),
)
EXPORTS: dict[str, Exporter] = {}
