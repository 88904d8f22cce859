"""Flux: options of `flux run`, hosts and task map, as its documentation has them. Never run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toposeat.errors import UsageError
from toposeat.launch.launchers.launcher import (
    Launch,
    Launcher,
    LauncherKind,
    LaunchLine,
    OptionTable,
    Words,
    arities,
)
from toposeat.launch.launchers.scripts import with_seats
from toposeat.launch.launchers.seats import (
    Export,
    HostWords,
    Job,
    LaunchFile,
    RankHosts,
    host_per_rank,
    in_natural_order,
)
from toposeat.model.hostlist import compress_hostlist

_TABLE = OptionTable(
    arity=arities(
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
    output=frozenset({"output"}),
    attached=True,
    single_dash_long=False,
)


def _start(words: Words) -> int:
    """After `flux run`."""
    if words[1:2] == ("run",):
        return 2
    if words[1:3] == ("mini", "run"):
        return 3
    raise UsageError(
        f"'{' '.join(words[:2])}' does not start ranks itself",
        hint="use flux run, inside the allocation",
    )


def _words(launch: Launch, plan: RankHosts) -> HostWords:
    order = launch.order_in_job(plan.hosts) or in_natural_order(plan.hosts)
    return _hosts(plan, launch.folder, order=order)


def _hosts(plan: RankHosts, folder: str = "", *, order: Sequence[str]) -> HostWords:
    """`--requires=host:` for the hosts, and a task map where blocks are not the plan."""
    options = ["-N", str(len(plan.hosts)), "-n", str(plan.ranks)]
    options.append(f"--requires=host:{compress_hostlist(order)}")
    files: tuple[LaunchFile, ...] = ()
    in_blocks = plan.in_blocks and plan.hosts == tuple(order) and plan.per_host is not None
    if not in_blocks:
        options.append(f"--taskmap=hostfile:{folder}hostfile")
        files = (host_per_rank("hostfile", plan),)
    replaced = _TABLE.nodes | _TABLE.per_host | _TABLE.ranks | {"requires"}
    return HostWords(options=tuple(options), replaces=replaced, files=files)


def _forward(
    line: LaunchLine, names: Sequence[str], environment: Mapping[str, str]
) -> tuple[LaunchLine, dict[str, str]]:
    """All variables reach the ranks, unless the line has rules, of which the last counts."""
    del environment
    if not line.has({"env"}):
        return line, {}
    last = line.options[-1]
    return line.exchanged(last, (*last.words, *(f"--env={name}" for name in names))), {}


def _export(job: Job) -> Export:
    """`--taskmap`, `-o cpu-affinity=map:`, and device variables or `gpu-affinity=map:`."""
    own = HostWords(options=("-N", "1", "-n", str(job.ranks)))
    if job.hosts:
        own = _hosts(job.rank_hosts, order=job.order)
    binding, cpus = job.bound(
        lambda lists: ("-o", "cpu-affinity=map:" + ";".join(lists)), ("-o", "cpu-affinity=off")
    )
    words = ["flux", "run", *own.options, *binding]
    masked = None
    if job.visibility == "mask" and job.placement.vendor == "nvidia":  # flux sets CUDA's variable
        masked = job.own_devices_alike()
    if masked is not None:
        words += ["-o", "gpu-affinity=map:" + ";".join(masked)]
    elif job.device_lists():
        words += ["-o", "gpu-affinity=off"]
    return with_seats(
        *(job, "flux", words, own),
        cpus=cpus,
        devices=masked is None,
        say=lambda name, value: (f"--env={name}={value}",),
        nics=True,
    )


LAUNCHERS = (
    Launcher(
        kind=LauncherKind.FLUX,
        names=("flux",),
        table=_TABLE,
        start=_start,
        words=_words,
        forward=_forward,
        any_host=True,
    ),
)
EXPORTS = {"flux": ("flux run with its task map and shell options", _export)}
