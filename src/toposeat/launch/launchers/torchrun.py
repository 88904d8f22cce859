"""torchrun, which starts the ranks of its own node: options, node ranks, exports."""

from __future__ import annotations

import shlex
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from toposeat.launch.launchers.wrappers import answer_behind
from toposeat.model.files import beginning
from toposeat.model.hostlist import compress_hostlist, short_name
from toposeat.model.visible_list import visible_variables

_TABLE = OptionTable(
    arity=arities(
        {
            0: """
            h help m module no-python no_python run-path run_path standalone virtual-local-rank
            virtual_local_rank
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


def _spelled(*names: str) -> frozenset[str]:
    """Names of options, with dashes and, as before PyTorch 2.1, without."""
    return frozenset((*names, *(name.replace("-", "_") for name in names)))


_BACKEND, _ENDPOINT = _spelled("rdzv-backend"), _spelled("rdzv-endpoint")
_LOCAL_ADDRESS = _spelled("local-addr")
_VIRTUAL = _spelled("virtual-local-rank")
VIRTUAL_NOTE = (
    "--virtual-local-rank is done by toposeat: a rank sees its planned device alone, LOCAL_RANK 0"
)
_STATIC = "static"
# These two sort nodes by --local-addr; others, as etcd, number them as they come.
_SORTING = ("c10d", "etcd-v2")
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
    if own is not None:
        return _on_host(launch, plan, plan.hosts.index(own))
    raise UsageError(
        "torchrun is started on every host of the plan"
        f" ({compress_hostlist(plan.hosts)[:80]}), and this is {here}",
        hint="start this line on those hosts, or map for these ones",
    )


def nodes(plan: RankHosts, launcher: str = "torchrun") -> int:
    """Ranks of every node, which torchrun and its like number node by node."""
    if not plan.in_blocks or plan.per_host is None:
        raise UsageError(
            f"{launcher} gives every node the same number of consecutive ranks",
            hint="map with as many ranks per host, in blocks, or start one process per GPU: "
            "--launcher slurm",
        )
    return plan.per_host


def _on_host(launch: Launch, plan: RankHosts, node: int) -> HostWords:
    """The line of one host of a plan: what leads its rendezvous to this node rank.

    The static rendezvous takes node ranks; c10d sorts nodes by address.
    Which one it is, is the user's: they differ in what becomes of a job of which a node fails.
    """
    common = on_all_hosts(launch, launch.line, plan)
    used = backend(launch.line, launch.environment)
    if used == _STATIC:
        own = f"--node_rank={node}"  # before PyTorch 2.1 there were no dashes
        return replace(common, options=(own, *common.options))
    padded = str(node).zfill(len(str(len(plan.hosts))))
    address = plan.hosts[0] + (f"~{padded}" if node else "")
    return replace(
        common,
        options=(f"--local_addr={address}", *common.options),
        warnings=common.warnings if node == 0 else (),
    )


def on_all_hosts(launch: Launch, line: LaunchLine, plan: RankHosts) -> HostWords:
    """What the lines of all hosts have in common; `as_node_of_task` says the rest below srun."""
    nodes(plan)
    environment, first = launch.environment, plan.hosts[0]
    used = backend(line, environment)
    if used == _STATIC:
        return HostWords(
            options=(
                *("--rdzv_backend=static", f"--master_addr={first}"),
                f"--master_port={_port_of(line)}",
            ),
            replaces=_BACKEND | _ENDPOINT | _spelled("node-rank", "master-addr", "master-port"),
        )
    met = line.has(_ENDPOINT) or "PET_RDZV_ENDPOINT" in environment
    options = () if met else (f"--rdzv_endpoint={first}:29400",)
    if used not in _SORTING:
        raise UsageError(
            f"--rdzv-backend={used} numbers nodes by a rule of its own, and the plan has an order"
            " of nodes",
            hint="use --rdzv-backend=c10d or static, which are led to the plan's order",
        )
    if line.has(_LOCAL_ADDRESS) or "PET_LOCAL_ADDR" in environment:
        raise UsageError(
            f"{used} sorts nodes by --local-addr, and the line has one of its own",
            hint="leave --local-addr (PET_LOCAL_ADDR) out, or use --rdzv-backend=static",
        )
    return HostWords(
        options=options,
        warnings=(
            f"{used} keeps the planned order of nodes by --local-addr, where node 0 ({first})"
            " alone has an address: nodes that fail start again with the others, but without"
            f" {first} the job ends",
        ),
    )


def as_node_of_task(launch: Launch, line: LaunchLine, hosts: Sequence[str]) -> Words:
    """What srun starts torchrun by: the number of its task is the node rank.

    torchrun reads its options from variables too.
    """
    if backend(line, launch.environment) == _STATIC:
        return ("sh", "-c", 'PET_NODE_RANK=$SLURM_PROCID exec "$0" "$@"')
    lines = "; ".join(_address(hosts, "$SLURM_PROCID"))
    return ("sh", "-c", f'{lines}; PET_LOCAL_ADDR=$address exec "$0" "$@"')


def is_virtual(line: LaunchLine) -> bool:
    """Whether torchrun is to show every rank its own device alone, as device 0 of local rank 0."""
    return line.kind == LauncherKind.TORCHRUN and line.has(_VIRTUAL)


def not_virtual(line: LaunchLine) -> LaunchLine:
    """The line without the option for that."""
    return line.changed((), _VIRTUAL) if line.kind == LauncherKind.TORCHRUN else line


def is_elastic(line: LaunchLine, environment: Mapping[str, str]) -> bool:
    """Whether a world may have other nodes than the plan, once a node has left or come."""
    return line.kind == LauncherKind.TORCHRUN and backend(line, environment) != _STATIC


def backend(line: LaunchLine, environment: Mapping[str, str]) -> str:
    """The name of the line's rendezvous."""
    return line.value(_BACKEND) or environment.get("PET_RDZV_BACKEND") or _STATIC


def _port_of(line: LaunchLine) -> str:
    """The port at which nodes meet: the line's, else torchrun's own."""
    endpoint = line.value(_ENDPOINT) or ""
    port = line.value(_spelled("master-port")) or endpoint.rpartition(":")[2]
    return port if port.isdigit() else "29500"


def _address(hosts: Sequence[str], node: str) -> tuple[str, str]:
    """Lines of a shell that set `address`, by which c10d sorts nodes as text, from a node rank.

    Only that of node 0 has to be an address, since it becomes MASTER_ADDR; that of every other node
    is a text behind it.
    """
    padded = f'$(printf "%0{len(str(len(hosts)))}d" {node})'
    return (
        f"address={shlex.quote(hosts[0])}",
        f'[ "{node}" = 0 ] || address="$address~{padded}"',
    )


def _interpreter(line: LaunchLine) -> Words:
    """Python with options, unless the line says `--no-python`."""
    if line.has(("no-python", "no_python")):
        return ()
    module = ("-m",) if line.has(("m", "module")) else ()
    return (_python(line), "-u", *module)


def _wrap(line: LaunchLine) -> list[str]:
    """Without `-m` or `--no-python`: the interpreter is said as part of the program."""
    flags = ("-m", "--module", "--no-python", "--no_python")
    launcher = [
        word
        for index, word in enumerate(line.launcher)
        if word not in flags or (index == 1 and python_module(line.launcher))
    ]
    if launcher[-1] == "--":
        launcher.pop()
    return [*launcher, "--no_python"]


def _python(line: LaunchLine) -> str:
    """The interpreter torchrun itself would use: its own."""
    name = line.launcher[0]
    if Path(name).name.startswith("python"):
        return name
    if line.through:
        first = answer_behind(line.through, 'head -n 1 "$(command -v "$0")"', name)
    else:
        script = shutil.which(name)
        first = (
            beginning(script, 512).partition(b"\n")[0].decode(errors="replace") if script else ""
        )
    first = first.strip()
    return first[2:] if first.startswith("#!") and " " not in first else "python3"


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
    node10 comes before node2.
    """
    return _export(
        job,
        "torchrun-c10d",
        (
            "--rdzv-backend=c10d",
            f'--rdzv-id="${{RDZV_ID:-toposeat}}" --rdzv-endpoint={first_host(job)}:{PORT}',
        ),
        ('--local-addr="$address"',),
        before=(
            "# a sort key: that of node 0 alone is looked up",
            *_address(job.rank_hosts.hosts, "$node"),
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
        return Export(
            launcher=launcher,
            command=("torchrun", "--standalone", workers, job.program),
            environment=job.device_variables(),
            notes=notes_of(job, launcher),
        )
    lines = (
        *before,
        f"exec torchrun --nnodes={len(job.hosts)} {workers} {' '.join(rendezvous)} \\",
        f'  {" ".join(rest)} "$@"',
    )
    return Export(
        launcher=launcher,
        files=(_script(job, f"{launcher}.sh", lines),),
        command=("sh", f"{launcher}.sh", job.program),
        notes=("run this line on every host", *notes_of(job, launcher)),
    )


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


def _script(job: Job, name: str, last: Sequence[str]) -> LaunchFile:
    """A script for every host, whose last lines know `$node`, its node rank."""
    lists, alike = job.device_lists(), job.device_variables()
    cases = []
    for node, host in enumerate(job.hosts):
        devices = f" devices={lists[host][0]}" if lists and not alike else ""
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
        own = alike or visible_variables(job.placement.vendor, ["$devices"])
        lines.append("export " + " ".join(f"{name}={value}" for name, value in own.items()))
    return LaunchFile(name=name, text="\n".join([*lines, *last]) + "\n", executable=True)


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
