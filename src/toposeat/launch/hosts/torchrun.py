"""torchrun's words for the node rank of a host."""

from __future__ import annotations

from toposeat.errors import UsageError
from toposeat.launch.hosts.rank_hosts import HostWords, RankHosts
from toposeat.launch.launch_line import LaunchLine

_REPLACED = frozenset(
    f"{first}{dash}{second}"
    for first, second in (
        *(("node", "rank"), ("rdzv", "backend"), ("rdzv", "endpoint"), ("rdzv", "conf")),
        *(("master", "addr"), ("master", "port")),
    )
    for dash in "-_"
)


def nodes(plan: RankHosts, launcher: str = "torchrun") -> int:
    """Ranks of every node, which torchrun and its like number node by node.

    Raises:
        UsageError: ranks not in blocks of one size.
    """
    if not plan.in_blocks or plan.per_host is None:
        raise UsageError(
            f"{launcher} gives every node the same number of consecutive ranks",
            hint="map with as many ranks per host, in blocks, or start one process per GPU: "
            "--launcher slurm",
        )
    return plan.per_host


def on_host(plan: RankHosts, host: str, *, port: str) -> HostWords:
    """The line of one host: the static rendezvous keeps node ranks, c10d sorts nodes by address.

    Raises:
        UsageError: ranks not in blocks of one size.
    """
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
