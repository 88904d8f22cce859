"""One source in a merge: how far it is trusted, and its knowledge as facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import Device, Nic, Topology
from toposeat.topology.facts import (
    BANDWIDTH,
    LATENCY,
    DeviceFact,
    HostNumbers,
    LaneState,
    LinkFact,
    MachineFacts,
    NicFact,
    PairNumbers,
)


class Rank(IntEnum):
    """Whom to believe about what a machine is, best first; numbers have ranks of their own."""

    DRIVER = 0  # the kernel's and the driver's own tables: NVML, KFD, sysfs
    NCCL = 1
    HWLOC = 2
    CATALOGUE = 3  # what such a machine is by its data sheet
    TEXT = 4  # a matrix of words
    PROGRAM = 5  # a benchmark: its numbers are best, what it says of devices is little


_RANK_OF_ORIGIN = (
    ("NCCL", Rank.NCCL),
    ("RCCL", Rank.NCCL),
    ("hwloc", Rank.HWLOC),
    ("catalogue", Rank.CATALOGUE),
    ("machine file", Rank.CATALOGUE),
    ("synthetic", Rank.CATALOGUE),
    ("nvidia-smi topo", Rank.TEXT),
    ("nvidia-smi -q", Rank.DRIVER),
    ("nvidia-smi nvlink", Rank.DRIVER),
)


@dataclass(frozen=True, slots=True)
class Part:
    """One source. `topology` is None for a source of facts; `facts` are there for both."""

    rank: Rank
    facts: MachineFacts
    topology: Topology | None = None

    @property
    def origin(self) -> str:
        """What was read."""
        return self.facts.origin


def part_of(source: Topology | MachineFacts) -> Part:
    """A source with its rank.

    Raises:
        ValueError: a topology of several hosts: a merge is of one machine.
    """
    if isinstance(source, MachineFacts):
        return Part(_rank_of_facts(source), _without_slices(source))
    if len(source.hosts) > 1:
        raise ValueError(f"{source.name}: several hosts, and only one machine can be merged")
    return Part(_rank_of_origin(source.origin), facts_of_topology(source), source)


def _without_slices(facts: MachineFacts) -> MachineFacts:
    """The facts without slices of devices that it lists as well: a graph holds one or the other."""
    labels = {device.label for device in facts.devices}
    whole = [i for i, device in enumerate(facts.devices) if device.parent not in labels]
    slices = len(facts.devices) - len(whole)
    if not slices or facts.relations is not None or facts.pcie_relations is not None:
        return facts
    place = {old: new for new, old in enumerate(whole)}
    kept = np.ix_(whole, whole)
    return replace(
        facts,
        devices=tuple(facts.devices[i] for i in whole),
        peer_access={
            (place[i], place[j]): access
            for (i, j), access in facts.peer_access.items()
            if i in place and j in place
        },
        pairs=tuple(replace(each, values=each.values[kept]) for each in facts.pairs),
        host=tuple(replace(h, device=place[h.device]) for h in facts.host if h.device in place),
        lanes=tuple(replace(x, device=place[x.device]) for x in facts.lanes if x.device in place),
        links=tuple(
            replace(x, i=place[x.i], j=place[x.j])
            for x in facts.links
            if x.i in place and x.j in place
        ),
        report=(*facts.report, f"{slices} slices of GPUs are left out: merged are whole GPUs"),
    )


def _rank_of_origin(origin: str) -> Rank:
    """A merged machine is as good as the best source of its structure, which it names first."""
    first = origin.removeprefix("merged: ")
    return next((rank for start, rank in _RANK_OF_ORIGIN if first.startswith(start)), Rank.DRIVER)


def _rank_of_facts(facts: MachineFacts) -> Rank:
    if facts.relations is not None or facts.pcie_relations is not None:
        return Rank.TEXT
    if facts.links or facts.lanes:
        return Rank.DRIVER
    if facts.pairs or facts.host:
        return Rank.PROGRAM
    return Rank.DRIVER if not facts.peer_access else Rank.TEXT


# ---- a topology as facts


def facts_of_topology(topology: Topology) -> MachineFacts:
    """What a topology knows beyond its graph: identities, peer access, numbers not nominal."""
    position = {device.id: i for i, device in enumerate(topology.devices)}
    routes = [
        (position[r.source], position[r.target], r)
        for r in topology.routes
        if r.source in position and r.target in position
    ]
    count = len(topology.devices)
    caps = [(i, j, r.cap_bytes_per_s) for i, j, r in routes]
    sums = [(i, j, r.combined_bytes_per_s) for i, j, r in routes]
    latencies = [(i, j, r.latency_s) for i, j, r in routes]
    caps += [(i, i, d.copy_bytes_per_s) for i, d in enumerate(topology.devices)]
    latencies += [(i, i, d.copy_latency_s) for i, d in enumerate(topology.devices)]
    return MachineFacts(
        origin=topology.origin,
        devices=tuple(_device_fact(device) for device in topology.devices),
        nics=tuple(_nic_fact(nic) for nic in topology.nics),
        peer_access={(i, j): r.peer_access for i, j, r in routes if r.peer_access is not None},
        pairs=(
            *_known_numbers(BANDWIDTH, count, caps, both_ways=False),
            *_known_numbers(BANDWIDTH, count, sums, both_ways=True),
            *_known_numbers(LATENCY, count, latencies, both_ways=False),
        ),
    )


def _device_fact(device: Device) -> DeviceFact:
    state = device.pcie
    return DeviceFact(
        label=device.id,
        index=device.index,
        vendor=device.vendor,
        name=device.name,
        pci_bus_id=device.pci_bus_id,
        uuid=device.uuid,
        numa_node=device.numa_node,
        cpus=device.cpus,
        memory_bytes=device.memory_bytes,
        pcie_generation=state.generation if state else None,
        pcie_width=state.width if state else None,
        pcie_max_generation=state.max_generation if state else None,
        pcie_max_width=state.max_width if state else None,
        parent=device.parent or None,
    )


def _nic_fact(nic: Nic) -> NicFact:
    return NicFact(label=nic.id, name=nic.name, pci_bus_id=nic.pci_bus_id, numa_node=nic.numa_node)


def _known_numbers(
    what: str, count: int, found: Iterable[tuple[int, int, Quantity | None]], *, both_ways: bool
) -> list[PairNumbers]:
    """One matrix for each source but `NOMINAL`: what is nominal can be made again."""
    matrices: dict[Source, list[tuple[int, int, float]]] = {}
    for i, j, quantity in found:
        if quantity is not None and quantity.source is not Source.NOMINAL:
            matrices.setdefault(quantity.source, []).append((i, j, quantity.value))
    numbers = []
    for source, entries in matrices.items():
        values = np.full((count, count), np.nan)
        for i, j, value in entries:
            values[i, j] = value
        numbers.append(PairNumbers(what=what, values=values, both_ways=both_ways, source=source))
    return numbers


# ---- facts with other positions


def placed(facts: MachineFacts, position: tuple[int, ...], count: int) -> MachineFacts:
    """The facts as those of a machine of `count` devices.

    Args:
        facts: of n devices.
        position: for each of them its place in the machine, each place once.
        count: devices of the machine; those that the facts do not know get empty ones.
    """
    labels = dict(zip(position, facts.devices, strict=True))
    return replace(
        facts,
        devices=tuple(labels.get(i, DeviceFact(label=f"?{i}")) for i in range(count)),
        nics=(),
        relations=None,
        pcie_relations=None,
        peer_access={(position[i], position[j]): ok for (i, j), ok in facts.peer_access.items()},
        pairs=tuple(_placed_pairs(numbers, position, count) for numbers in facts.pairs),
        host=tuple(_placed_host(each, position) for each in facts.host),
        lanes=tuple(_placed_lane(lane, position) for lane in facts.lanes),
        links=tuple(_placed_link(link, position) for link in facts.links),
    )


def _placed_pairs(numbers: PairNumbers, position: tuple[int, ...], count: int) -> PairNumbers:
    values = np.full((count, count), np.nan)
    values[np.ix_(position, position)] = numbers.values
    return replace(numbers, values=values)


def _placed_host(numbers: HostNumbers, position: tuple[int, ...]) -> HostNumbers:
    return replace(numbers, device=position[numbers.device])


def _placed_lane(lane: LaneState, position: tuple[int, ...]) -> LaneState:
    return replace(lane, device=position[lane.device])


def _placed_link(link: LinkFact, position: tuple[int, ...]) -> LinkFact:
    return replace(link, i=position[link.i], j=position[link.j])
