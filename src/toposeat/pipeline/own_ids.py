"""Placements for a machine of the catalogue, whose ids are nominal, with those of this node."""

from __future__ import annotations

import socket
from dataclasses import replace

from toposeat import mapping, topology
from toposeat.errors import InputError, UnavailableError
from toposeat.model.hostlist import short_name
from toposeat.model.placement import Placement, Seat
from toposeat.model.topology import ANY_HOST, Device, PathClass, Topology

NOMINAL_KEY = "nominal"  # metadata of a placement: the catalogue machine whose ids it has
_CATALOGUE = "catalogue"
_MOST_STEPS = 100_000


def nominal_ids(node: Topology | None) -> dict[str, str]:
    """Metadata for a placement onto this kind of node: the name of a machine of the catalogue."""
    return {NOMINAL_KEY: node.name} if node is not None and node.origin == _CATALOGUE else {}


def with_own_ids(placement: Placement) -> Placement:
    """The placement with this node's PCI bus ids, UUIDs, CPUs and NICs in place of nominal ones.

    Devices are matched by number, model and wiring. All hosts are taken to be like this one, as
    when the placement was made; each of them checks its own before any rank starts. Where nothing
    is nominal, this node is none of the hosts, or it has no devices that can be asked, the
    placement stays as it is. CPUs and NICs that this node does not tell stay too: toposeat-exec
    leaves out those that are not there.

    Raises:
        InputError: this node is another machine than the one that was placed for.
    """
    name = placement.metadata.get(NOMINAL_KEY)
    hosts = dict.fromkeys(seat.host for seat in placement.seats)
    here = short_name(socket.gethostname())
    if name is None or not any(host == ANY_HOST or short_name(host) == here for host in hosts):
        return placement
    try:
        node = topology.read_topology("this")
    except UnavailableError:
        return placement
    nominal = topology.read_topology(name)
    if nominal.origin != _CATALOGUE:
        return placement  # an edited name
    own_of = _match(nominal, node)
    position = {device.number: at for at, device in enumerate(nominal.devices)}
    seats: dict[int, Seat] = {}
    devices = dict(placement.devices_of_host)
    for host in hosts:
        there = [seat for seat in placement.seats if seat.host == host]
        chosen = [own_of[position[seat.index]] for seat in there if seat.index in position]
        if len(chosen) < len(there):
            raise _other(f"{name} has no device of an index in it", name)
        own = mapping.seat_ranks(node, len(there), chosen)
        uuids = len(hosts) == 1  # those of other hosts are not known
        for seat, new in zip(there, own.seats, strict=True):
            seats[seat.rank] = replace(
                seat,
                pci_bus_id=new.pci_bus_id,
                uuid=new.uuid if uuids else None,
                index=new.index,
                cpus=new.cpus or seat.cpus,
                memory_node=seat.memory_node if new.memory_node is None else new.memory_node,
                nic=new.nic or seat.nic,
            )
        listed = next(iter(own.devices_of_host.values()))
        devices[host] = listed if uuids else tuple(replace(each, uuid=None) for each in listed)
    metadata = {key: value for key, value in placement.metadata.items() if key != NOMINAL_KEY}
    return replace(
        placement,
        seats=tuple(seats[rank] for rank in range(placement.ranks)),
        devices_of_host=devices,
        metadata=metadata,
    )


def _match(nominal: Topology, node: Topology) -> list[int]:
    """For each device of the catalogue's machine the position of that of this node."""
    if len(nominal.devices) != len(node.devices):
        raise _other(
            f"{nominal.name} has {len(nominal.devices)} devices, this node {len(node.devices)}",
            nominal.name,
        )
    models = [[_model(device) for device in each.devices] for each in (nominal, node)]
    if sorted(models[0]) != sorted(models[1]):
        raise _other(
            f"{nominal.name} has {nominal.devices[0].name}, this node {node.devices[0].name}",
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
        raise _other(f"the devices of {nominal.name} are wired in another way", nominal.name)
    return found


def _other(cause: str, name: str) -> InputError:
    return InputError(
        f"nothing was started, the placement is for another machine: {cause}",
        hint=f"map for this one: toposeat map TRAFFIC -t this, not -t {name}; --other-machine runs"
        " it as it is",
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
