"""A host's wiring under the PCI bus ids that a guest's GPUs have: what NCCL needs in the guest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from toposeat.errors import UsageError
from toposeat.model.shell_words import joined_sources
from toposeat.model.topology import Device, Topology, canonical_pci
from toposeat.topology.readers.file_text import read_file
from toposeat.topology.sources import parts_of, read_topology
from toposeat.topology.visible import without_devices

_PAIRS = "a line has two PCI bus ids: the host's and the guest's, as in 0000:18:00.0 0000:06:00.0"


def with_guest(sources: Sequence[str]) -> tuple[Topology, Topology] | None:
    """The host's machine, and it under a guest's bus ids; None where no source is a guest's.

    A guest's is the last of several sources: a file with two bus ids on each line, the host's and
    the guest's, or what lists index and bus id of devices, not all of which the host has.
    """
    *first, guest = sources
    if not first or "-" in sources:  # what is read once cannot be looked at twice
        return None
    path = Path(guest)
    is_of_pairs = path.is_file() and len(_words(read_file(path).text)) == 2
    listed = () if is_of_pairs else _listed(guest)
    if not is_of_pairs and not listed:
        return None
    host = read_topology(joined_sources(first))
    if is_of_pairs:
        return host, _renamed(host, _pairs(host, path))
    if {device.pci_bus_id for device in listed} <= {device.pci_bus_id for device in host.devices}:
        return None
    return host, _with_devices_of(host, listed)


def _listed(guest: str) -> Sequence[Device]:
    """The devices of a source that says all their bus ids; none where it says too little."""
    lists = [part.devices for part in parts_of(guest)]
    return next((each for each in lists if each and all(d.pci_bus_id for d in each)), ())


def _with_devices_of(host: Topology, listed: Sequence[Device]) -> Topology:
    """The host's machine, in which each of the guest's devices takes the place of its number.

    Devices of the host that the guest has not are left out.
    """
    by_index = {device.index: device.id for device in host.devices}
    buses: dict[str, tuple[int, str]] = {}
    for at, device in enumerate(listed):
        number = at if device.index is None else device.index
        if number not in by_index:
            numbers = ", ".join(str(each.index) for each in host.devices)
            raise UsageError(
                f"the guest has a GPU {number}, and the host's are {numbers}",
                hint="name the pairs: the last -t is a file with lines of two bus ids",
            )
        buses[by_index[number]] = (number, str(device.pci_bus_id))
    return _renamed(host, buses)


def _words(text: str) -> list[str]:
    """The words of the first line that says something, if each is a bus id."""
    lines = (line.partition("#")[0].replace(",", " ").split() for line in text.splitlines())
    words = next(filter(None, lines), [])
    try:
        return list(map(canonical_pci, words))
    except ValueError:
        return []


def _pairs(host: Topology, path: Path) -> dict[str, tuple[int, str]]:
    by_bus = {device.pci_bus_id: device.id for device in host.devices}
    guest_of: dict[str, str] = {}
    file = replace(read_file(path), hint=_PAIRS)
    for number, line in enumerate(file.lines, 1):
        if not line.partition("#")[0].strip():
            continue
        words = _words(line)
        if len(words) != 2:
            raise file.refusal("not two PCI bus ids", number)
        mine, other = words
        if mine not in by_bus:
            raise file.refusal(f"the host has no GPU {mine}", number)
        if by_bus[mine] in guest_of or other in guest_of.values():
            raise file.refusal("a GPU is named twice", number)
        guest_of[by_bus[mine]] = other
    order = sorted(guest_of.values())
    return {id: (order.index(bus), bus) for id, bus in guest_of.items()}


def _renamed(host: Topology, buses: Mapping[str, tuple[int, str]]) -> Topology:
    """The devices of `buses` (by id: number, bus id); what else has one of these bus ids has none.

    Bus ids of switches and NICs stay the host's: NCCL finds NICs by name, and no switch by its id.
    """
    gone = frozenset(device.id for device in host.devices if device.id not in buses)
    taken = {bus for _, bus in buses.values()}
    machine = without_devices(host, gone)
    devices = (replace(d, index=buses[d.id][0], pci_bus_id=buses[d.id][1]) for d in machine.devices)
    return replace(
        machine,
        devices=tuple(sorted(devices, key=lambda d: d.number)),
        nics=tuple(
            replace(n, pci_bus_id=None if n.pci_bus_id in taken else n.pci_bus_id)
            for n in machine.nics
        ),
        components=tuple(
            replace(c, pci_bus_id=None if c.pci_bus_id in taken else c.pci_bus_id)
            for c in machine.components
        ),
    )
