"""mpirun_rsh of MVAPICH: options, a host for every rank, as documented. Never run."""

from __future__ import annotations

from collections.abc import Sequence

from toposeat.launch.launchers.launcher import (
    Launch,
    Launcher,
    Option,
    OptionTable,
    arities,
    value_of,
)
from toposeat.launch.launchers.seats import Exporter, HostWords, RankHosts, host_per_rank

# Between options and program it takes host names and NAME=VALUE (`launch_line`).
_TABLE = OptionTable(
    arity=arities(
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


def _operands(words: tuple[str, ...], options: Sequence[Option]) -> list[Option]:
    """What mpirun_rsh takes between options and program: a host per rank, NAME=VALUE."""
    found = []
    count = value_of(options, *_TABLE.ranks)
    files = _TABLE.host_files
    if count is not None and count.isdigit() and value_of(options, *files) is None:
        hosts = words[: int(count)]
        found.append(Option("hosts", (",".join(hosts),), hosts))
        words = words[len(hosts) :]
    for word in words:
        if "=" not in word or "/" in word.partition("=")[0]:
            break
        found.append(Option(word.partition("=")[0], (word.partition("=")[2],), (word,)))
    return found


def _hosts(launch: Launch, plan: RankHosts) -> HostWords:
    """A host file whose line r is the host of rank r."""
    return HostWords(
        options=("-hostfile", f"{launch.folder}hostfile"),
        replaces=_TABLE.hosts | _TABLE.host_files,
        files=(host_per_rank("hostfile", plan),),
    )


# It has no way to hand on a variable but to write its value into command lines: `forward` is none.
LAUNCHERS = (
    Launcher(
        kind="mpirun_rsh",
        names=("mpirun_rsh",),
        table=_TABLE,
        operands=_operands,
        words=_hosts,
        job_files=("PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE"),
    ),
)
EXPORTS: dict[str, Exporter] = {}
