"""torchrun, which starts the ranks of its own node: options, node ranks, exports."""

from __future__ import annotations

import shlex
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from toposeat.errors import UsageError
from toposeat.launch.launchers.launcher import (
    Launch,
    Launcher,
    LauncherKind,
    LaunchLine,
    Option,
    OptionTable,
    Words,
    arities,
    product,
    python_module,
    value_of,
)
from toposeat.launch.launchers.seats import Export, HostWords, Job, LaunchFile, RankHosts
from toposeat.model.files import beginning
from toposeat.model.hostlist import compress_hostlist, short_name

_TABLE = OptionTable(
    arity=arities(
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

_REPLACED = frozenset(
    f"{first}{dash}{second}"
    for first, second in (
        *(("node", "rank"), ("rdzv", "backend"), ("rdzv", "endpoint"), ("rdzv", "conf")),
        *(("master", "addr"), ("master", "port")),
    )
    for dash in "-_"
)
_UNBOUND = "{} binds no CPUs"
_BEHIND = "; for that put seat.sh of --launcher script after --no-python"
PORT = '"${MASTER_PORT:-29500}"'


def _count(options: Sequence[Option]) -> int | None:
    per_node = value_of(options, "nproc-per-node", "nproc_per_node")
    nodes = value_of(options, "nnodes")
    return product(per_node if per_node is not None else "1", nodes if nodes is not None else "1")


def _words(launch: Launch, plan: RankHosts) -> HostWords:
    here = socket.gethostname()
    own = next((host for host in plan.hosts if short_name(host) == short_name(here)), None)
    if own is None:
        raise UsageError(
            "torchrun is started on every host of the plan"
            f" ({compress_hostlist(plan.hosts)[:80]}), and this is {here}",
            hint="start this line on those hosts, or map for these ones",
        )
    return on_host(plan, own, port=port_of(launch.line))


def nodes(plan: RankHosts, launcher: str = "torchrun") -> int:
    """Ranks of every node, which torchrun and its like number node by node."""
    if not plan.in_blocks or plan.per_host is None:
        raise UsageError(
            f"{launcher} gives every node the same number of consecutive ranks",
            hint="map with as many ranks per host, in blocks, or start one process per GPU: "
            "--launcher slurm",
        )
    return plan.per_host


def on_host(plan: RankHosts, host: str, *, port: str) -> HostWords:
    """The line of one host: the static rendezvous keeps node ranks, c10d sorts nodes by address."""
    nodes(plan)
    return HostWords(
        options=(
            f"--node_rank={plan.hosts.index(host)}",  # before PyTorch 2.1 there were no dashes
            *("--rdzv_backend=static", f"--master_addr={plan.hosts[0]}", f"--master_port={port}"),
        ),
        replaces=_REPLACED,
    )


def port_of(line: LaunchLine) -> str:
    """The port at which nodes meet: the line's, else torchrun's own."""
    endpoint = line.value({"rdzv-endpoint", "rdzv_endpoint"}) or ""
    port = line.value({"master-port", "master_port"}) or endpoint.rpartition(":")[2]
    return port if port.isdigit() else "29500"


def _interpreter(line: LaunchLine) -> Words:
    """Python with options, unless the line says `--no-python`."""
    if line.has(("no-python", "no_python")):
        return ()
    module = ("-m",) if line.has(("m", "module")) else ()
    return (_python(line.launcher), "-u", *module)


def _wrap(line: LaunchLine, exec_args: Sequence[str]) -> list[str]:
    """Without `-m` or `--no-python`: the interpreter comes behind toposeat-exec."""
    flags = ("-m", "--module", "--no-python", "--no_python")
    launcher = [
        word
        for index, word in enumerate(line.launcher)
        if word not in flags or (index == 1 and python_module(line.launcher))
    ]
    if launcher[-1] == "--":
        launcher.pop()
    return [*launcher, "--no_python", *exec_args, "--", *_interpreter(line), *line.program]


def _python(launcher: Sequence[str]) -> str:
    """The interpreter torchrun itself would use: its own."""
    if Path(launcher[0]).name.startswith("python"):
        return launcher[0]
    script = shutil.which(launcher[0])
    if script is not None:
        first = beginning(script, 512).partition(b"\n")[0].decode(errors="replace").strip()
        if first.startswith("#!") and " " not in first:
            return first[2:]
    return "python3"


def static(job: Job) -> Export:
    """One line on one host; on several a script with `--node-rank`, which the static one keeps."""
    return _export(
        job,
        "torchrun",
        ("--node-rank=$node", "--rdzv-backend=static", f"--master-addr={first_host(job)}"),
        (f"--master-port={PORT}",),
    )


def c10d(job: Job) -> Export:
    """The elastic rendezvous, whose order is that of the nodes' addresses as text.

    It ignores `--node-rank` and sorts by `--local-addr`, by default the full host name, so that
    node10 comes before node2. Only that of node 0 has to be an address, since it becomes
    MASTER_ADDR; that of every other node is a text behind it.
    """
    first = first_host(job)
    nodes = len(job.hosts)
    padded = f'$(printf "%0{len(str(nodes))}d" $node)'
    return _export(
        job,
        "torchrun-c10d",
        (
            "--rdzv-backend=c10d",
            f'--rdzv-id="${{RDZV_ID:-toposeat}}" --rdzv-endpoint={first}:{PORT}',
        ),
        ('--local-addr="$address"',),
        before=(
            f"address={first}",
            f'[ "$node" = 0 ] || address="$address~{padded}"  # a sort key, never looked up',
        ),
    )


def first_host(job: Job) -> str:
    """The host of rank 0, as a word of a shell."""
    return shlex.quote(job.rank_hosts.hosts[0])


def _export(
    job: Job,
    launcher: str,
    rendezvous: tuple[str, ...],
    rest: tuple[str, ...],
    *,
    before: tuple[str, ...] = (),
) -> Export:
    workers = f"--nproc-per-node={ranks_per_node(job, launcher)}"
    if len(job.seats_of_host) == 1:
        return on_one_node(job, launcher, ("torchrun", "--standalone", workers, job.program))
    lines = (
        *before,
        f"exec torchrun --nnodes={len(job.hosts)} {workers} {' '.join(rendezvous)} \\",
        f'  {" ".join(rest)} "$@"',
    )
    return on_each_node(job, launcher, "\n".join(lines), (job.program,))


def ranks_per_node(job: Job, launcher: str) -> int:
    """How many ranks every node has: such launchers number them node by node."""
    per_node = nodes(job.rank_hosts, launcher)
    if any(len(set(each)) > 1 for each in job.device_lists().values()):
        raise UsageError(
            f"--visibility {job.visibility} gives ranks of one node different devices, which"
            f" {launcher} cannot",
            hint="leave it out: LOCAL_RANK i takes the i-th device of the list",
        )
    return per_node


def notes_of(job: Job, launcher: str) -> tuple[str, ...]:
    """What the launcher leaves out of the placement."""
    unbound = _UNBOUND.format(launcher) + (_BEHIND if launcher.startswith("torchrun") else "")
    return (*((unbound,) if job.has_cpus else ()), *job.device_notes)


def on_one_node(job: Job, launcher: str, command: tuple[str, ...]) -> Export:
    """A line for a placement on one host."""
    return Export(
        launcher=launcher,
        command=command,
        environment=job.device_variables(),
        notes=notes_of(job, launcher),
    )


def on_each_node(
    job: Job, launcher: str, last: str, program: tuple[str, ...], *, more: tuple[str, ...] = ()
) -> Export:
    """A script that every host runs, and its line.

    Args:
        job: with several hosts.
        launcher: also the script's name.
        last: lines of the script that become the launcher; `$node` is the node rank, `"$@"` the
            words of the line.
        program: words after the script.
        more: notes of this launcher.
    """
    return Export(
        launcher=launcher,
        files=(_script(job, f"{launcher}.sh", last),),
        command=("sh", f"{launcher}.sh", *program),
        notes=("run this line on every host", *more, *notes_of(job, launcher)),
    )


def _script(job: Job, name: str, last: str) -> LaunchFile:
    lists = job.device_lists()
    cases = []
    for node, host in enumerate(job.hosts):
        devices = f" devices={lists[host][0]}" if lists else ""
        cases.append(f"{shlex.quote(host.split('.', 1)[0])}) node={node}{devices} ;;")
    lines = [
        "#!/bin/sh",
        f"# sh {name} PROGRAM ARGS, once on every host of the job. Made by toposeat export.",
        "host=$(hostname)",
        "case ${host%%.*} in",
        *cases,
        # No seat.sh, which starts a rank all the same: a node rank is needed, and any that is made
        # up here would collide with another host's or leave all of them waiting for ever.
        f'*) echo "{name}: host $host is not in the placement" >&2; exit 1 ;;',
        "esac",
    ]
    if lists:
        order = " CUDA_DEVICE_ORDER=PCI_BUS_ID" if job.placement.vendor == "nvidia" else ""
        lines.append(f"export {job.variable}=$devices{order}")
    return LaunchFile(name=name, text="\n".join([*lines, last]) + "\n", executable=True)


LAUNCHERS = (
    Launcher(
        kind=LauncherKind.TORCHRUN,
        names=("torchrun",),
        modules=("torch.distributed.run", "torch.distributed.launch"),
        table=_TABLE,
        count=_count,
        colon_is_a_word=True,
        words=_words,
        wrap=_wrap,
        interpreter=_interpreter,
        starts_here=True,
        local_rank="LOCAL_RANK",
    ),
)
EXPORTS = {
    "torchrun": ("torchrun, static rendezvous: node ranks, device order", static),
    "torchrun-c10d": ("torchrun, c10d rendezvous: addresses that sort as planned", c10d),
}
