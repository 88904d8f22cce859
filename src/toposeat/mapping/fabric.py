"""NVLink domains that span hosts: trays of a rack whose GPUs are all on one switch fabric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toposeat.errors import InputError, UsageError
from toposeat.evaluation import network_arrays
from toposeat.mapping.node_links import NodeLinks
from toposeat.model.network import Network, NetworkKind
from toposeat.model.record import Record
from toposeat.model.topology import Component, ComponentKind, Topology


class Fabric(Record, frozen=True, kw_only=True):
    """How the devices of a host reach the switches that join the hosts of a domain.

    Attributes:
        to_switch: of each device, the links of its host (`NodeLinks`) to the switches.
        from_switch: of each device, the links from the switches.
        cost: seconds per byte between two devices.
        latency: seconds per message.
        pace: seconds per byte of one flow alone.
    """

    to_switch: tuple[tuple[int, ...], ...]
    from_switch: tuple[tuple[int, ...], ...]
    cost: float
    latency: float
    pace: float

    @staticmethod
    def of(node: Topology) -> Fabric | None:
        """The fabric of a node, all whose devices are on one NVSwitch; None if there is none."""
        switch = common_switch(node)
        if switch is None or len(node.devices) < 2:
            return None
        links = NodeLinks.of(node)
        out, into = [], []
        for device in node.devices:
            link = next(x for x in node.links if {device.id, switch.id} == set(x.ends))
            out.append(tuple(links.used([(link, link.ends[0] != device.id)])))
            into.append(tuple(links.used([(link, link.ends[0] == device.id)])))
        arrays = network_arrays(node)
        pace = 1 / float(arrays.isolated_rate()[1])
        return Fabric(
            to_switch=tuple(out),
            from_switch=tuple(into),
            cost=pace,
            latency=float(arrays.latency()[1]),
            pace=pace,
        )


def common_switch(node: Topology) -> Component | None:
    """The first NVSwitch that every device has a link to."""
    joined = {frozenset(link.ends) for link in node.links}
    for component in node.components:
        if component.kind is ComponentKind.NVSWITCH and all(
            frozenset((device.id, component.id)) in joined for device in node.devices
        ):
            return component
    return None


def tray_of(machine: Topology) -> Topology:
    """One host of a machine whose hosts share an NVSwitch fabric; of one host, the machine."""
    hosts = machine.hosts
    if len(hosts) == 1:
        return machine
    counts = {sum(device.host == host for device in machine.devices) for host in hosts}
    if common_switch(machine) is None or len(counts) > 1:
        raise InputError(
            f"{machine.name!r} has {len(hosts)} hosts", hint="give the topology of one node"
        )
    devices = tuple(device for device in machine.devices if device.host == hosts[0])
    nics = tuple(nic for nic in machine.nics if nic.host == hosts[0])
    parts = tuple(each for each in machine.components if each.host in (hosts[0], "*"))
    kept = {x.id for x in devices} | {x.id for x in nics} | {x.id for x in parts}
    links = tuple(link for link in machine.links if kept >= set(link.ends))
    walked = {link.id for link in links}
    return replace(
        machine,
        devices=devices,
        nics=nics,
        components=parts,
        links=links,
        pairs=tuple(x for x in machine.pairs if kept >= {x.source, x.target}),
        routes=tuple(
            x for x in machine.routes if kept >= {x.source, x.target} and walked >= set(x.links)
        ),
    )


def domains_of(
    network: Network, machine: Topology, fabric: Fabric | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The domain of each host of a network, and what is to be said of it.

    Args:
        network: stated domains come first; else each block of Slurm is one, where the node is a
            tray of a rack.
        machine: what the user named as node, perhaps with all trays of a rack.
        fabric: of one of its hosts.

    Returns:
        Numbers of domains by host, empty where no two hosts share one.
    """
    trays = len(machine.hosts)
    level = network.domain
    if level is None and trays > 1 and network.kind is NetworkKind.BLOCK:
        groups: Sequence[int] = [host.ports[0].switch for host in network.hosts]
        said = "each block is taken as an NVLink domain"
    elif level is not None:
        groups, said = level.group_of_host, ""
    elif trays > 1:
        return (), (
            f"no NVLink domain is stated: NVLink ends at each tray; ,domain={trays} behind the"
            f" network makes {trays} hosts after each other a domain",
        )
    else:
        return (), ()
    sizes = [groups.count(group) for group in set(groups)]
    if max(sizes) == 1:
        return (), ()
    if fabric is None:
        return (), (f"NVLink domains are left out: {machine.name!r} has no NVSwitch for them",)
    if 1 < trays < max(sizes):
        raise UsageError(
            f"a domain of {max(sizes)} hosts; {machine.name!r} has {trays} trays",
            hint=f"domain={trays} or less",
        )
    return tuple(groups), (said,) if said else ()
