"""The time of a traffic with groups: phases one after the other, each by its rings.

A phase takes T = max(max_g V_g / B(S_g), max_l sum_g V_g u_gl / c_l, flows between pairs), where
the groups g and the pairs of a phase run together (docs/explanation/groups.md). Whether phases
overlap is not known: their sum is what is minimised, the slowest alone is the low end.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation.channels import Unit, tree_parts
from toposeat.evaluation.compiled_machine import CompiledMachine
from toposeat.evaluation.network import compile_traffic
from toposeat.model.evaluation import RINGS, GroupUse, PhaseTime
from toposeat.model.topology import Topology
from toposeat.model.traffic import Exchange, GroupLoad, PairTable, Phase, Traffic

Floats = NDArray[np.float64]


class Members(Struct, frozen=True, kw_only=True):
    """A group's part of a phase: world ranks, how they exchange, bytes over each edge."""

    name: str
    ranks: tuple[int, ...]
    exchange: Exchange
    bytes: int


class PhaseParts(Struct, frozen=True, kw_only=True):
    """What runs together: groups, or messages between pairs of ranks."""

    label: str
    groups: tuple[Members, ...]
    flows: _core.RankTraffic | None
    pairs: PairTable | None = None  # what `flows` is compiled of


class GroupModel:
    """The phases of one traffic on one machine, for any number of placements.

    Attributes:
        machine: the machine.
        phases: what runs together: families of groups, then the pairs.
        nodes: how many nodes the groups' library sees.
        by: how all-reduces go between nodes; "": as is usual (`channels.tree_parts`).
        after: by what ranks may have, which have lesser devices (`mapping.set_cover`): alike on
            every machine.
    """

    def __init__(self, machine: CompiledMachine, phases: tuple[PhaseParts, ...]) -> None:
        """The phases of a traffic (`phases_of`) on a machine."""
        self.machine = machine
        self._names = [link.id for link in machine.topology.links]
        self._channels = machine.channels
        self.nodes = len(self._channels.units(range(machine.arrays.devices)))
        self.phases, self.by = phases, ""
        self.after: dict[tuple[tuple[int, ...], ...], list[list[int]]] = {}

    def at(self, machine: CompiledMachine) -> GroupModel:
        """The same groups on the same machine with other numbers."""
        found = copy.copy(self)
        found.machine = machine
        return found

    def with_rings(self) -> GroupModel:
        """The same groups, of which all-reduces on two nodes go by rings."""
        found = copy.copy(self)
        found.by = RINGS
        return found

    def of(self, topology: Topology) -> GroupModel:
        """The same groups on another machine with as many devices."""
        return GroupModel(CompiledMachine(topology), self.phases)

    def members(self) -> set[tuple[int, ...]]:
        """The ranks of each group."""
        return {group.ranks for phase in self.phases for group in phase.groups}

    def seconds(self, device_of_rank: Sequence[int]) -> tuple[float, ...]:
        """Seconds of each phase."""
        return tuple(self._phase(phase, device_of_rank)[0] for phase in self.phases)

    def evaluate(
        self, device_of_rank: Sequence[int]
    ) -> tuple[tuple[PhaseTime, ...], tuple[GroupUse, ...], Floats]:
        """Times of the phases, rates of the groups, and bytes over each link: (links, 2)."""
        times, uses = [], []
        total = np.zeros((len(self._names), 2))
        for phase in self.phases:
            seconds, load = self._phase(phase, device_of_rank)
            times.append(PhaseTime(label=phase.label, seconds=seconds))
            total += load
            for group in phase.groups:
                pace, _ = self._of(group, device_of_rank)
                rate = 1 / pace if pace > 0 else None
                uses.append(GroupUse(name=group.name, phase=phase.label, bytes_per_s=rate))
        return tuple(times), tuple(uses), total

    def congestion(self, load: Floats) -> Floats:
        """Seconds that each link needs for its bytes: (links,)."""
        capacity = self.machine.arrays.capacity
        one_way: Floats = (load / capacity[:, :2]).max(axis=1, initial=0.0)
        both: Floats = load.sum(axis=1) / capacity[:, 2]
        return np.maximum(one_way, both)

    def _phase(self, phase: PhaseParts, device_of_rank: Sequence[int]) -> tuple[float, Floats]:
        load, slowest = np.zeros((len(self._names), 2)), 0.0
        for group in phase.groups:
            pace, own = self._of(group, device_of_rank)
            slowest = max(slowest, pace * group.bytes)
            load += group.bytes * own
        if phase.flows is not None:
            placement = tuple(device_of_rank)
            found = _core.congestion(self.machine.network, phase.flows, placement)
            load[:, 0] += found.forward_bytes
            load[:, 1] += found.backward_bytes
            slowest = max(slowest, _core.flow_time(self.machine.network, phase.flows, placement))
        return max(slowest, self._busiest(load)), load

    def _busiest(self, load: Floats) -> float:
        """The most of `congestion`."""
        capacity = self.machine.arrays.capacity
        one_way = (load / capacity[:, :2]).max(initial=0.0)
        return float(max(one_way, ((load[:, 0] + load[:, 1]) / capacity[:, 2]).max(initial=0.0)))

    def _of(self, group: Members, device_of_rank: Sequence[int]) -> tuple[float, Floats]:
        """Seconds per byte of a group alone, and how often a byte passes each link: (links, 2)."""
        places = {device_of_rank[rank] for rank in group.ranks}
        units: tuple[Unit, ...] = (tuple(sorted(places)),)
        if self.nodes > 1:
            units = tuple(self._channels.units(device_of_rank[rank] for rank in group.ranks))
        parts = tree_parts(group.exchange, len(group.ranks), len(units), self.by)
        key = group.exchange.is_ring, parts or (1.0, 1.0), units
        known = self.machine.loads
        if key not in known:
            known[key] = self._computed(*key)
        return known[key]

    def _computed(
        self, is_ring: bool, parts: tuple[float, float], units: tuple[Unit, ...]
    ) -> tuple[float, Floats]:
        devices = tuple(sorted(device for unit in units for device in unit))
        load = np.zeros((len(self._names), 2))
        if len(devices) < 2:
            return 0.0, load
        arrays, rates = self.machine.arrays, self.machine.rates
        share = np.zeros(arrays.devices**2)  # of each byte, over each pair of devices
        slowest, (inside, between) = 0.0, parts
        if is_ring:
            channels = self._channels.count(units)
            for unit in units:
                rate = rates.of(unit)
                lasts = self._channels.lasts(unit, channels) if len(units) > 1 else ()
                for link, direction, passes in rates.path_load(unit, lasts) if lasts else rate.load:
                    load[link, direction] += inside * passes
                slowest = max(slowest, 1 / rate.bytes_per_s if rate.bytes_per_s > 0 else np.inf)
            for source, target, count in self._channels.hops(units):
                share[source * arrays.devices + target] += between / count
        else:
            members = np.array(devices)
            share[(members[:, None] * arrays.devices + members).ravel()] = 1.0
            share[members * (arrays.devices + 1)] = 0.0
        if is_ring and len(units) == 1:
            return max(slowest, self._busiest(load)), load
        used = share[arrays.use_pair] > 0
        reverse = arrays.use_reverse[used].astype(np.intp)
        np.add.at(load, (arrays.use_link[used], reverse), share[arrays.use_pair[used]])
        pairs = np.flatnonzero(share)
        if pairs.size:
            alone = share[pairs] / self.machine.isolated_rate[pairs]
            slowest = max(slowest, float(alone.max()))
        return max(slowest, self._busiest(load)), load


def phases_of(traffic: Traffic) -> tuple[PhaseParts, ...]:
    """What runs together: the groups of a phase, then the messages between pairs of each phase.

    Where the traffic tells no phases of its groups, disjoint groups of one size run together, and
    all messages between pairs are one phase.
    """
    told = all(load.phase is not None for load in traffic.groups)
    label: dict[int | None, str] = {phase.index: phase.label for phase in traffic.phases}
    families = _by_phase(traffic) if told else _by_members(traffic)
    parts = [
        PhaseParts(label=label.get(phase, "") or _label(family), groups=tuple(family), flows=None)
        for phase, family in families
    ]
    pairs = [("between pairs", traffic.edge_table())]
    if told:
        pairs = [(phase.label, _alone(traffic, phase).edge_table()) for phase in traffic.phases]
    parts += [
        PhaseParts(label=name, groups=(), flows=compile_traffic(traffic, table), pairs=table)
        for name, table in pairs
        if len(table)
    ]
    return tuple(parts)


def _alone(traffic: Traffic, phase: Phase) -> Traffic:
    """The traffic of one phase, whose groups are of no phase then."""
    groups = tuple(replace(load, phase=None) for load in traffic.groups)
    return replace(traffic, tables=phase.tables, phases=(), groups=groups)


def _members(traffic: Traffic) -> Iterator[tuple[GroupLoad, Members]]:
    communicator = {each.id: each for each in traffic.communicators}
    for load in traffic.groups:
        own = communicator[load.communicator]
        if len(own.ranks) > 1 and load.bytes > 0:
            name = own.name or f"group {own.id}"
            yield (
                load,
                Members(name=name, ranks=own.ranks, exchange=load.exchange, bytes=load.bytes),
            )


def _by_phase(traffic: Traffic) -> list[tuple[int | None, list[Members]]]:
    families: dict[int | None, list[Members]] = {}
    for load, group in _members(traffic):
        families.setdefault(load.phase, []).append(group)
    return list(families.items())


def _by_members(traffic: Traffic) -> list[tuple[int | None, list[Members]]]:
    families: list[tuple[int, set[int], list[Members]]] = []
    for _, group in _members(traffic):
        for size, taken, family in families:
            if size == len(group.ranks) and taken.isdisjoint(group.ranks):
                taken.update(group.ranks)
                family.append(group)
                break
        else:
            families.append((len(group.ranks), set(group.ranks), [group]))
    return [(None, family) for _, _, family in families]


def _label(family: Sequence[Members]) -> str:
    """`tensor parallel` for groups called `tensor parallel 0`, ...; else their number and size."""
    names = {group.name.rstrip("0123456789").rstrip() for group in family}
    plain = names.pop() if len(names) == 1 else ""
    return plain or f"{len(family)} groups of {len(family[0].ranks)}"
