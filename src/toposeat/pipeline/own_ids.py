"""Placements for a machine of the catalogue, whose ids are nominal, with those of its nodes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from toposeat import mapping, topology
from toposeat.errors import InputError, ToposeatError, UnavailableError
from toposeat.launch import LaunchLine
from toposeat.model.hostlist import short_name
from toposeat.model.placement import Placement, Seat
from toposeat.model.record import Record
from toposeat.model.topology import ANY_HOST, Device, PathClass, Topology
from toposeat.pipeline.job_machine import discovered_nodes, runs_here
from toposeat.pipeline.placing import NOMINAL_KEY, nominal_ids


def with_own_ids(
    placement: Placement,
    line: LaunchLine,
    environment: Mapping[str, str],
    *,
    starts: bool = True,
    tell: Callable[[str], None],
) -> Placement:
    """The placement with each node's PCI bus ids, UUIDs, CPUs and NICs in place of nominal ones.

    Device i of the catalogue's machine is device i of a node, where models and wiring are alike;
    other nodes are refused. Where the job has other nodes than this one,
    its launcher starts one process on each, which discovers the node. Where that fails, all nodes
    of the placement are assumed to be like this one; if this one is not among them, nominal ids
    stay. Every node checks its ids before any rank starts. CPUs and NICs also stay where a node
    does not report its own: toposeat-exec leaves out those that do not exist.
    """
    name = placement.metadata.get(NOMINAL_KEY)
    nominal = None if name is None else topology.read_topology(name)
    if nominal is None or not nominal_ids(nominal):  # an edited name
        return placement
    hosts = list(dict.fromkeys(seat.host for seat in placement.seats))
    nodes = _nodes_of(hosts, line, environment, starts=starts, tell=tell)
    if not nodes:
        return placement
    seats = {seat.rank: seat for seat in placement.seats}
    devices = dict(placement.devices_of_host)
    for host in hosts:
        own = nodes.get(short_name(host))
        if own is None:
            continue
        there = [seat for seat in placement.seats if seat.host == host]
        _check_alike(nominal, own.node, own.name)
        seated = _seated(there, nominal, own)
        listed = next(iter(seated.devices_of_host.values()))
        if not own.is_itself:  # UUIDs differ from node to node
            listed = tuple(replace(each, uuid=None) for each in listed)
        devices[host] = listed
        for seat, new in zip(there, seated.seats, strict=True):
            seats[seat.rank] = replace(
                seat,
                pci_bus_id=new.pci_bus_id,
                uuid=new.uuid if own.is_itself else None,
                index=new.index,
                cpus=new.cpus or seat.cpus,
                memory_node=seat.memory_node if new.memory_node is None else new.memory_node,
                nic=new.nic or seat.nic,
            )
    tell(f"Devices   numbered as in {nominal.name}: every pair of them is joined in the same way")
    metadata = {key: value for key, value in placement.metadata.items() if key != NOMINAL_KEY}
    return replace(
        placement,
        seats=tuple(seats[rank] for rank in range(placement.ranks)),
        devices_of_host=devices,
        metadata=metadata,
    )


class _Node(Record, frozen=True):
    """What is known of a host: the node itself, or one that is taken to be like it."""

    node: Topology
    name: str
    is_itself: bool


def _nodes_of(
    hosts: Sequence[str],
    line: LaunchLine,
    environment: Mapping[str, str],
    *,
    starts: bool,
    tell: Callable[[str], None],
) -> dict[str, _Node]:
    """Nodes by the short names of hosts; none where nothing can be said of any."""
    here = short_name(socket.gethostname())
    names = [short_name(host) for host in hosts]
    is_here = len(names) == 1 and (names[0] == here or runs_here(line, environment))
    if not is_here and starts:
        tell("Devices   asking the nodes of the job: the ids in the placement are nominal")
        try:
            found = discovered_nodes(line, environment, [h for h in hosts if h != ANY_HOST])
        except ToposeatError as error:
            tell(f"Warning: {error.message}: they are taken to be as the placement says")
        else:
            answered = {short_name(host): _Node(node, host, True) for host, node in found.items()}
            if names == [ANY_HOST]:
                (first, *others) = answered.values()
                return {ANY_HOST: replace(first, is_itself=not others)}
            return answered
    if not is_here and here not in names:
        return {}
    try:
        node = topology.read_topology("this")
    except UnavailableError:
        return {}
    return {name: _Node(node, "this node", name == here or is_here) for name in names}


def _seated(seats: Sequence[Seat], nominal: Topology, own: _Node) -> Placement:
    """The ranks of one host on the node's own devices."""
    position = {device.number: at for at, device in enumerate(own.node.devices)}
    chosen = [position[seat.index] for seat in seats if seat.index in position]
    if len(chosen) < len(seats):
        raise _other(f"{nominal.name} has no device of an index in it", nominal.name)
    return mapping.seat_ranks(own.node, len(seats), chosen)


def _check_alike(nominal: Topology, node: Topology, where: str) -> None:
    """Refuse a node whose devices of some numbers are others, or joined in another way."""
    ours, theirs = nominal.devices, node.devices
    if [device.number for device in ours] != [device.number for device in theirs]:
        raise _other(f"{nominal.name} has {len(ours)} devices, {where} {len(theirs)}", nominal.name)
    for one, own in zip(ours, theirs, strict=True):
        if _model(one) != _model(own):
            raise _other(f"{nominal.name} has {one.name}, {where} {own.name}", nominal.name)
    for (a, own_a), (b, own_b) in permutations(zip(ours, theirs, strict=True), 2):
        if not _alike(_wire(nominal, a, b), _wire(node, own_a, own_b)):
            raise _other(
                f"D{a.number} and D{b.number} of {where} are joined in another way than those of"
                f" {nominal.name}",
                nominal.name,
            )


def _other(cause: str, name: str) -> InputError:
    return InputError(
        f"nothing was started, the placement is for another machine: {cause}",
        hint="map for this one: toposeat map TRAFFIC -t this (for several nodes: toposeat tune),"
        f" not -t {name}; --other-machine runs it as it is",
    )


def _model(device: Device) -> str:
    name = device.name.casefold().removesuffix(" (emulated)")
    return name.removeprefix("nvidia ").removeprefix("amd ")


def _wire(machine: Topology, source: Device, target: Device) -> tuple[PathClass, int] | None:
    """How two devices are joined: the class of the path, and the lanes of a direct link."""
    route = machine.route_of_pair.get((source.id, target.id))
    if route is None or route.path_class is PathClass.UNKNOWN:
        return None
    direct = route.path_class is PathClass.NVL and len(route.links) == 1
    return route.path_class, machine.link_of_id[route.links[0]].count if direct else 0


def _alike(a: tuple[PathClass, int] | None, b: tuple[PathClass, int] | None) -> bool:
    return a is None or b is None or a == b
