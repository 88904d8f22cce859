"""Matches devices of several sources, by PCI bus id, else UUID, else index, and renames them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from toposeat.errors import InputError
from toposeat.model.topology import Device, Link, Topology, Vendor
from toposeat.topology.visible import without_devices

_ALL = "lspci"  # the source that lists devices which others leave out
_HINT = "give files of one and the same machine, and at least one that lists the PCI bus ids"


def fitted(part: Topology, parts: Sequence[Topology]) -> Topology:
    """A part; of lspci's the GPUs that the others list too, or none if nothing tells which.

    lspci lists what a job may not use as well, and of a tree without names not only GPUs.
    """
    devices = [device for each in parts if each.origin != _ALL for device in each.devices]
    if part.origin != _ALL or not devices:
        return part
    known = {device.pci_bus_id for device in devices} - {None}
    most = max(len(each.devices) for each in parts if each.origin != _ALL)
    own = {device.pci_bus_id for device in part.devices}
    if len(own) == most or own <= known:
        return part
    if len(known) == most and known <= own:
        return without_devices(part, {d.id for d in part.devices if d.pci_bus_id not in known})
    line = f"{_ALL} lists {len(own)} GPUs, and other sources {most}: it is not used"
    return Topology(origin=_ALL, devices=(), report=(line,))


def join_devices(
    known: Sequence[Device], origin: str, part: Topology, report: list[str]
) -> dict[str, str]:
    """The id of each device of a part among the known ones.

    `origin` says where the known ones are from, `report` takes joins that no identity proves.

    Raises:
        InputError: a device is none of the known ones, or nothing says which.
    """
    id_of: dict[str, str] = {}
    for identity in (_pci, _uuid):
        _join_by(identity, known, part.devices, id_of)
    left = [device for device in part.devices if device.id not in id_of]
    free = [each for each in known if each.id not in id_of.values()]
    strangers = [device for device in left if _is_other(device, free)]
    if strangers and not id_of:
        raise InputError(
            f"no GPU of {part.origin} is one of {origin}: no PCI bus id or UUID in common",
            hint=f"{_HINT}; a host's and a guest's: discover --format nccl",
        )
    if strangers:
        names = ", ".join(device.id for device in strangers[:8])
        raise InputError(
            f"{part.origin} lists {len(strangers)} GPUs more than {origin} ({names}): how they are"
            " connected is not known",
            hint="give sources of one state of the machine, none of which hides a GPU",
        )
    if left:
        if not _has_known_indices(left, free):
            _check_counts(len(left), len(free), part.origin, origin)
        how = _join_by_index(left, free, id_of)
        if part.origin != origin:
            some = "" if len(left) == len(free) else f" of {len(free)}"
            report.append(
                f"{part.origin} and {origin} have no PCI bus ids in common: their {len(left)}"
                f"{some} GPUs are joined by {how}"
            )
    _check_vendors(known, origin, part, id_of)
    return id_of


def _pci(device: Device) -> str | None:
    return device.pci_bus_id


def _uuid(device: Device) -> str | None:
    return device.uuid and device.uuid.lower()


def _join_by(
    identity: Callable[[Device], str | None],
    known: Sequence[Device],
    devices: Sequence[Device],
    id_of: dict[str, str],
) -> None:
    taken = set(id_of.values())
    at = {found: each.id for each in known if each.id not in taken and (found := identity(each))}
    for device in devices:
        found = identity(device)
        if device.id not in id_of and found in at:
            id_of[device.id] = at[found]


def _is_other(device: Device, free: Sequence[Device]) -> bool:
    """Whether its identity proves that the device is not among those left, which have one too."""
    return any(
        identity(device) is not None and all(identity(each) is not None for each in free)
        for identity in (_pci, _uuid)
    )


def _check_counts(mine: int, theirs: int, part: str, origin: str) -> None:
    if mine != theirs:
        raise InputError(
            f"{part} names {mine} GPUs without PCI bus id or UUID, {origin} has {theirs}: which is"
            " which is not known",
            hint=_HINT,
        )


def _has_known_indices(mine: Sequence[Device], theirs: Sequence[Device]) -> bool:
    """Whether every device has the index of one of the others: they may be a subset."""
    indices = {device.index for device in mine}
    return None not in indices and indices <= {device.index for device in theirs}


def _join_by_index(mine: Sequence[Device], theirs: Sequence[Device], id_of: dict[str, str]) -> str:
    if _has_known_indices(mine, theirs):
        of_index = {device.index: device.id for device in theirs}
        id_of |= {device.id: of_index[device.index] for device in mine}
        return "index"
    orders = [_in_order_of(theirs, mine), _in_order_of(mine, theirs)]
    id_of |= {device.id: each.id for device, each in zip(*orders, strict=True)}
    in_order = orders == [list(mine), list(theirs)]
    return "order" if in_order else "order of bus ids, in which nvidia-smi numbers them"


def _in_order_of(others: Sequence[Device], devices: Sequence[Device]) -> list[Device]:
    """The devices by bus id where the others have nvidia-smi's numbers only, else as listed.

    CUDA's order, which benchmarks print, begins with the fastest device.
    """
    numbered = all(each.index is not None for each in others)
    if not numbered or not all(d.pci_bus_id and d.vendor is Vendor.NVIDIA for d in devices):
        return list(devices)
    return sorted(devices, key=lambda d: [int(x, 16) for x in re.split("[:.]", d.pci_bus_id or "")])


def _check_vendors(
    known: Sequence[Device], origin: str, part: Topology, id_of: dict[str, str]
) -> None:
    of_id = {device.id: device for device in known}
    for mine in part.devices:
        theirs = of_id.get(id_of[mine.id], mine)
        if len({mine.vendor, theirs.vendor} - {Vendor.UNKNOWN}) > 1:
            raise InputError(
                f"{mine.id} is a GPU of {mine.vendor.value} in {part.origin}, of"
                f" {theirs.vendor.value} in {origin}",
                hint=_HINT,
            )


# ---- new ids


def renamed(topology: Topology, id_of: Mapping[str, str]) -> Topology:
    """The topology with the ids of devices and NICs that `id_of` gives; routes are left out."""

    def name(id: str) -> str:
        return id_of.get(id, id)

    own = tuple(device.id for device in topology.devices)
    return replace(
        topology,
        devices=tuple(replace(each, id=name(each.id)) for each in topology.devices),
        nics=tuple(replace(each, id=name(each.id)) for each in topology.nics),
        links=tuple(
            with_ends(each, name(each.ends[0]), name(each.ends[1])) for each in topology.links
        ),
        pairs=tuple(
            replace(each, source=name(each.source), target=name(each.target))
            for each in topology.pairs
        ),
        routes=(),
        numbers=tuple(
            replace(each, devices=tuple(map(name, each.devices or own)))
            for each in topology.numbers
        ),
        host_copies=tuple(replace(each, device=name(each.device)) for each in topology.host_copies),
        lanes=tuple(replace(each, device=name(each.device)) for each in topology.lanes),
    )


def with_ends(link: Link, a: str, b: str) -> Link:
    """A link between other vertices; its id follows them, as in `GraphBuilder`."""
    if (a, b) == link.ends:
        return link
    _, mark, number = link.id.partition("#")  # of links between the same two
    return replace(link, id=f"{link.kind.value}:{a}-{b}{mark}{number}", ends=(a, b))
