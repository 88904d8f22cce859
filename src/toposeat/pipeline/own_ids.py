"""Placements for a machine of the catalogue, whose ids are nominal, with those of its nodes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from toposeat import mapping, topology
from toposeat.errors import InputError, ToposeatError, UnavailableError
from toposeat.launch import LaunchLine
from toposeat.model.hostlist import short_name
from toposeat.model.placement import COSTS_KEY, Placement, Seat
from toposeat.model.record import Record
from toposeat.model.topology import ANY_HOST, Device, PathClass, Topology
from toposeat.pipeline.job_machine import discovered_nodes, runs_here
from toposeat.pipeline.placing import NOMINAL_KEY, nominal_ids

_MOST_STEPS = 100_000


def with_own_ids(
    placement: Placement,
    line: LaunchLine,
    environment: Mapping[str, str],
    *,
    starts: bool = True,
    tell: Callable[[str], None],
) -> Placement:
    """The placement with each node's PCI bus ids, UUIDs, CPUs and NICs in place of nominal ones.

    Devices are matched by number, model and wiring. Where the job has other nodes than this one,
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
    costs = set()  # of the nodes' own numbers of devices
    for host in hosts:
        own = nodes.get(short_name(host))
        if own is None:
            costs.add(placement.metadata.get(COSTS_KEY))
            continue
        there = [seat for seat in placement.seats if seat.host == host]
        own_of = _match(nominal, own.node, own.name)
        seated = _seated(there, nominal, own, own_of)
        listed = next(iter(seated.devices_of_host.values()))
        numbers = [own.node.devices[position].number for position in own_of]
        costs.add(_renumbered(placement.metadata.get(COSTS_KEY), nominal, numbers))
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
    metadata = {
        key: value
        for key, value in placement.metadata.items()
        if key not in (NOMINAL_KEY, COSTS_KEY)
    }
    (alike,) = costs if len(costs) == 1 else (None,)
    if alike is not None:
        metadata[COSTS_KEY] = alike
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


def _renumbered(costs: str | None, nominal: Topology, numbers: Sequence[int]) -> str | None:
    """The costs between devices, in the node's own numbers for those of the catalogue."""
    if costs is None:
        return None
    rows = [row.split(",") for row in costs.split(";")]
    new = {device.number: own for device, own in zip(nominal.devices, numbers, strict=True)}
    of_pair = {
        frozenset((new.get(at), new.get(other))): cost
        for at, row in enumerate(rows, 1)
        for other, cost in enumerate(row)
    }
    found = [
        [of_pair.get(frozenset((at, other))) for other in range(at)]
        for at in range(1, len(rows) + 1)
    ]
    if any(None in row for row in found):  # edited
        return None
    return ";".join(",".join(map(str, row)) for row in found)


def _seated(
    seats: Sequence[Seat], nominal: Topology, own: _Node, own_of: Sequence[int]
) -> Placement:
    """The ranks of one host on the node's own devices."""
    position = {device.number: at for at, device in enumerate(nominal.devices)}
    chosen = [own_of[position[seat.index]] for seat in seats if seat.index in position]
    if len(chosen) < len(seats):
        raise _other(f"{nominal.name} has no device of an index in it", nominal.name)
    return mapping.seat_ranks(own.node, len(seats), chosen)


def _match(nominal: Topology, node: Topology, where: str) -> list[int]:
    """For each device of the catalogue's machine the position of that of a node."""
    if len(nominal.devices) != len(node.devices):
        raise _other(
            f"{nominal.name} has {len(nominal.devices)} devices, {where} {len(node.devices)}",
            nominal.name,
        )
    models = [[_model(device) for device in each.devices] for each in (nominal, node)]
    if sorted(models[0]) != sorted(models[1]):
        raise _other(
            f"{nominal.name} has {nominal.devices[0].name}, {where} {node.devices[0].name}",
            nominal.name,
        )
    wiring = [
        {(a, b): _wire(each, x, y) for a, x in enumerate(each.devices) for b, y in
         enumerate(each.devices) if a != b}
        for each in (nominal, node)
    ]  # fmt: skip
    found: list[int] = []
    steps = 0

    def fits(at: int, own: int) -> bool:
        return models[0][at] == models[1][own] and all(
            _alike(wiring[0][at, other], wiring[1][own, found[other]])
            and _alike(wiring[0][other, at], wiring[1][found[other], own])
            for other in range(at)
        )

    def place(at: int) -> bool:
        nonlocal steps
        if at == len(models[0]):
            return True
        for own in (at, *range(len(models[1]))):  # the order of both is that of PCI bus ids
            steps += 1
            if steps > _MOST_STEPS:
                return False
            if own not in found and fits(at, own):
                found.append(own)
                if place(at + 1):
                    return True
                found.pop()
        return False

    if not place(0):
        raise _other(
            f"the devices of {where} are wired in another way than those of {nominal.name}",
            nominal.name,
        )
    return found


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
