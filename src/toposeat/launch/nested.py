"""`srun torchrun ...`: one task on each node, which starts the ranks of its node."""

from __future__ import annotations

from pathlib import Path

from toposeat.launch.hosts import slurm, torchrun
from toposeat.launch.hosts.rank_hosts import HostWords, RankHosts
from toposeat.launch.launch_line import LaunchLine, is_torch_module, parse_launch_line
from toposeat.launch.launchers import LauncherKind

# torchrun reads its options from variables too.
AS_NODE_OF_TASK = ("sh", "-c", 'PET_NODE_RANK=$SLURM_PROCID exec "$0" "$@"')


def torchrun_below(line: LaunchLine) -> LaunchLine | None:
    """The line of torchrun that srun starts on each node; None where it starts something else.

    Raises:
        UsageError: options of torchrun that are not known.
    """
    if line.kind is not LauncherKind.SRUN or line.tasks:
        return None
    is_torchrun = Path(line.program[0]).name == "torchrun" or is_torch_module(line.program)
    return parse_launch_line(line.program) if is_torchrun else None


def on_all_hosts(
    below: LaunchLine, plan: RankHosts, folder: str, *, order: tuple[str, ...]
) -> tuple[HostWords, LaunchLine]:
    """The words of srun for one task on every host in the plan's order, and of torchrun there.

    The number of a task is the node rank.

    Args:
        below: torchrun's line as it was given.
        plan: the host of every rank.
        folder: where files will lie, with a slash at its end.
        order: the hosts as Slurm sorts them; () if that is not known.

    Raises:
        UsageError: ranks not in blocks of one size.
    """
    tasks = RankHosts(plan.hosts)
    words = slurm.srun(tasks, folder, order=order or plan.hosts, pmi="none", exact=bool(order))
    own = torchrun.on_host(plan, plan.hosts[0], port=torchrun.port_of(below))
    return words, below.changed(own.options[1:], own.replaces)
