"""A plan for hosts that a job cannot have, on others of the same kind in the same places."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from toposeat import launch, topology
from toposeat.errors import ToposeatError
from toposeat.launch import LauncherKind, LaunchLine
from toposeat.model.few import few
from toposeat.model.hostlist import expand_hostlist, short_name
from toposeat.model.network import Network
from toposeat.model.placement import Placement
from toposeat.model.topology import ANY_HOST

_ASK_S = 10.0


def rehosted(
    placement: Placement,
    line: LaunchLine,
    environment: Mapping[str, str],
    tell: Callable[[str], None],
) -> Placement:
    """The placement on hosts that the job can have, where its own are not among them.

    Inside an allocation hosts must be those of the plan, so nothing changes. Outside of one, what
    counts are the hosts that the line names; for srun without such, the idle nodes of Slurm. Nodes
    take the place of others only where the network is a tree that is known, every two meet at the
    same level as those that they stand for, and Slurm describes both alike. What is inside of them
    is checked on each before any rank starts.
    """
    hosts = tuple(dict.fromkeys(seat.host for seat in placement.seats))
    allocation = launch.allocation_of(line, environment)
    if ANY_HOST in hosts or (allocation is not None and allocation.in_job):
        return placement
    nodes = _slurm_nodes(line) if allocation is None or line.kind is LauncherKind.SRUN else {}
    if allocation is not None:
        free = allocation.hosts
    else:
        free = tuple(host for host, (state, _) in nodes.items() if state == "idle")
    usable = {short_name(host) for host in free}
    if not usable or all(short_name(host) in usable for host in hosts):
        return placement
    network = _network(placement, (*hosts, *free))
    found = None
    if network is not None:
        found = topology.hosts_in_same_places(
            network, hosts, free, lambda host: nodes.get(host, ("", host if nodes else ""))[1]
        )
    if found is None:
        if allocation is None and all(host in nodes for host in hosts):
            tell("Hosts     not all idle, and no idle nodes are in the same places: Slurm waits")
        return placement
    moved = [f"{new} for {old}" for old, new in found.items() if new != old]
    tell(f"Hosts     {few(moved, 4)}: nodes in the same places of the network")
    return _with_hosts(placement, found)


def _with_hosts(placement: Placement, found: Mapping[str, str]) -> Placement:
    """With other hosts, whose UUIDs are not known."""
    devices = {
        found[host]: own if found[host] == host else tuple(replace(d, uuid=None) for d in own)
        for host, own in placement.devices_of_host.items()
        if host in found
    }
    seats = (
        seat if found[seat.host] == seat.host else replace(seat, host=found[seat.host], uuid=None)
        for seat in placement.seats
    )
    return replace(placement, seats=tuple(seats), devices_of_host=devices)


def _network(placement: Placement, hosts: Sequence[str]) -> Network | None:
    """The network that was mapped onto, else what Slurm shows; None where neither can be read."""
    named = placement.metadata.get("source")
    in_slurm = shutil.which("scontrol") is not None
    each = tuple(dict.fromkeys(hosts))
    try:
        if named is not None and topology.is_network(named):
            return topology.read_network(named).restricted_to(each)
        network = topology.network_of_hosts(None, each, in_slurm=in_slurm)
    except (ToposeatError, KeyError):
        return None
    return None if any(note.startswith("assumed") for note in network.report) else network


def _slurm_nodes(line: LaunchLine) -> dict[str, tuple[str, str]]:
    """State, and resources with features, of the nodes that srun may use; {} without Slurm."""
    if line.kind is not LauncherKind.SRUN or shutil.which("sinfo") is None:
        return {}
    partition = line.value({"p", "partition"})
    words = ["sinfo", "--noheader", "--Node", "--format=%N|%T|%G %f"]
    words += [f"--partition={partition}"] if partition else []
    nodes = {}
    for row in launch.answer_of(words, _ASK_S).splitlines():
        names, state, what = [*row.split("|", 2), "", ""][:3]
        nodes.update(dict.fromkeys(expand_hostlist(names), (state, what)))
    return nodes
