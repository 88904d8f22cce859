"""Groups that a library orders itself, on machines of many hosts: channels from node to node.

Inside a node the members are a set with a rate; `evaluation.channels` says how nodes are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation import GroupRates
from toposeat.evaluation.channels import Channels, Edge, Edges, Unit, search_table, tree_parts
from toposeat.evaluation.group_time import Members, PhaseParts, phases_of
from toposeat.mapping.fabric import Fabric
from toposeat.mapping.node_links import NodeLinks
from toposeat.mapping.shapes import Shape
from toposeat.model.evaluation import RINGS, TREES, PhaseTime
from toposeat.model.topology import Topology
from toposeat.model.traffic import Exchange, PairTable, Traffic

Floats = NDArray[np.float64]
Slots = NDArray[np.uint32]


def channels_of(shape: Shape, *, few_nics: bool = False) -> Channels:
    """The channels of groups of slots; the hosts that a fabric of their own joins are one node.

    Where the inside of a host is not known, each device has a NIC of its own. With `few_nics` a
    group has no more channels than a host has NICs, whatever a domain has.
    """
    per_host, domain = shape.slots_per_host, shape.domain_of_host
    nic = shape.nic_of_device or tuple(range(per_host))

    def node_of(slot: int) -> int:
        return domain[slot // per_host] if domain else slot // per_host

    def nic_of(slot: int) -> tuple[int, int]:
        return slot // per_host, nic[slot % per_host]

    return Channels(node_of, nic_of, most=len(set(nic)) if few_nics else None)


class _Inside:
    """What the rings of a group need inside one unit of known hosts."""

    def __init__(self, shape: Shape, node: Topology) -> None:
        self._rates = GroupRates(node)
        self._fabric = shape.fabric
        self._per_host = shape.slots_per_host
        links = NodeLinks.of(node)
        self._numbers = [links.of_link[link.id] for link in node.links]
        self._each = len(links.bandwidth)  # links of one host
        self._first = shape.machine.links - self._each * len(shape.hosts)
        self._known: dict[tuple[Unit, Unit], tuple[float, Floats]] = {}

    def add(self, unit: Unit, lasts: Unit, volume: float, nbytes: Floats) -> float:
        """Add the bytes over each link, open at `lasts` if any; the seconds of the ring alone."""
        first, last = unit[0] // self._per_host, unit[-1] // self._per_host
        if first != last and self._fabric is not None:
            return volume * self._across(self._fabric, unit, lasts, volume, nbytes)
        base = first * self._per_host
        devices, ends = (tuple(slot - base for slot in each) for each in (unit, lasts))
        pace, load = self._on_host(devices, ends)
        begin = self._first + first * self._each
        nbytes[begin : begin + self._each] += volume * load
        return volume * pace

    def _on_host(self, devices: Unit, lasts: Unit) -> tuple[float, Floats]:
        """Seconds per byte, and how often a byte passes each link."""
        key = devices, lasts
        if key not in self._known:
            rate = self._rates.of(devices)
            passes = self._rates.path_load(devices, lasts) if lasts else rate.load
            load = np.zeros(self._each)
            for link, direction, count in passes:
                load[self._numbers[link][direction]] += count
                both = self._numbers[link][2]
                if both is not None:
                    load[both] += count
            self._known[key] = 1 / rate.bytes_per_s if rate.bytes_per_s > 0 else np.inf, load
        return self._known[key]

    def _across(
        self, fabric: Fabric, unit: Unit, lasts: Unit, volume: float, nbytes: Floats
    ) -> float:
        """The same over hosts of one domain, by the fabric that joins them; seconds per byte."""
        for here, there in pairwise((*unit, unit[0])):
            share = volume * _sent(here, lasts)
            for slot, ways in ((here, fabric.to_switch), (there, fabric.from_switch)):
                host, device = divmod(slot, self._per_host)
                for link in ways[device]:
                    nbytes[self._first + host * self._each + link] += share
        return fabric.pace


class SlotGroups:
    """The phases of one traffic with groups on a machine of many hosts.

    Attributes:
        phases: what runs together: families of groups, then the pairs.
    """

    def __init__(self, shape: Shape, traffic: Traffic, *, few_nics: bool = False) -> None:
        """Compile the phases; a phase is predicted alone.

        With `few_nics` groups over several domains use the NICs of one host of each.
        """
        self.phases = phases_of(traffic)
        self._machine = shape.machine
        self._channels = channels_of(shape, few_nics=few_nics)
        self._inside = None if shape.node is None else _Inside(shape, shape.node)
        self._capacities: Floats = shape.machine.capacities

    def evaluate(self, slots: Slots) -> tuple[tuple[PhaseTime, ...], Floats]:
        """Seconds of each phase alone, and the bytes of all phases over each link."""
        total = np.zeros(len(self._capacities))
        times = []
        for phase in self.phases:
            seconds, nbytes = self._phase(phase, slots)
            times.append(PhaseTime(label=phase.label, seconds=seconds))
            total += nbytes
        return tuple(times), total

    def with_other_ways(self, phases: tuple[PhaseTime, ...], slots: Slots) -> tuple[PhaseTime, ...]:
        """The same times, with those where all-reduces between nodes go the other way."""
        found = []
        for known, phase in zip(phases, self.phases, strict=True):
            nodes = {
                len(self._channels.units(int(slots[rank]) for rank in group.ranks))
                for group in phase.groups
                if group.exchange is Exchange.ALL_REDUCE
            }
            trees_s = self._phase(phase, slots, TREES)[0] if nodes - {1, 2} else None
            rings_s = self._phase(phase, slots, RINGS)[0] if 2 in nodes else None
            found.append(replace(known, trees_s=trees_s, rings_s=rings_s))
        return tuple(found)

    def _phase(self, phase: PhaseParts, slots: Slots, by: str = "") -> tuple[float, Floats]:
        """T = max(max_g V_g / B(S_g on a host), max_l bytes_l / c_l), and the bytes."""
        slowest, nbytes, flows, places = self._parts(phase, slots, by)
        if flows.ranks:
            found, over = _core.large_loads(self._machine, flows, places)
            nbytes += over
            if by != TREES:  # whose messages have no more latency in one order than in another
                slowest = max(slowest, found.predicted_s)
        return max(slowest, float((nbytes / self._capacities).max(initial=0.0))), nbytes

    def _parts(
        self, phase: PhaseParts, slots: Slots, by: str = ""
    ) -> tuple[float, Floats, _core.RankTraffic, Slots]:
        """Seconds and bytes inside hosts, and the flows between slots."""
        nbytes = np.zeros(len(self._capacities))
        if phase.flows is not None:
            return 0.0, nbytes, phase.flows, slots
        edges, slowest = Edges(), 0.0
        rows: list[Edge] = []
        for group in phase.groups:
            own = [int(slots[rank]) for rank in group.ranks]
            if group.exchange.is_ring:
                slowest = max(slowest, self._ring(group, own, rows, nbytes, by))
            else:
                edges.all_pairs(own, group.bytes)
        edges.extend(rows)
        return slowest, nbytes, *_over_slots(edges.table())

    def orders(self, slots: Slots) -> _core.NodeOrders:
        """The same ranks together on hosts, whichever hosts they are: for machines without domains.

        Flows between hosts load the same links inside them in any order.
        """
        phases = []
        first = self._machine.links_of_order
        for phase in self.phases:
            slowest, nbytes, flows, places = self._parts(phase, slots)
            if flows.ranks:
                nbytes += _core.large_loads(self._machine, flows, places)[1]
            inside = nbytes[first:] / self._capacities[first:]
            phases.append((flows, places, max(slowest, float(inside.max(initial=0.0)))))
        return _core.NodeOrders(self._machine, phases)

    def _ring(
        self, group: Members, slots: Sequence[int], edges: list[Edge], nbytes: Floats, by: str
    ) -> float:
        """Add a group's edges between units and its bytes inside them; its seconds inside."""
        units = self._channels.units(slots)
        parts = tree_parts(group.exchange, len(slots), len(units), by)
        hops = self._channels.hops(units) if parts is None else self._channels.tree_hops(units)
        inside, between = (group.bytes * part for part in parts or (1.0, 1.0))
        edges += [(out, into, between / count) for out, into, count in hops]
        channels = self._channels.count(units)
        slowest = 0.0
        for unit in units:
            if len(unit) < 2:
                continue
            lasts = self._channels.lasts(unit, channels) if len(units) > 1 else ()
            if self._inside is None:
                _chain(unit, lasts, inside, edges)
            else:
                seconds = self._inside.add(unit, lasts, inside, nbytes)
                slowest = max(slowest, seconds * group.bytes / inside)  # a ring's rate, of all V
        return slowest


def _sent(slot: int, lasts: Unit) -> float:
    """The share of a ring's bytes that a slot sends on inside its unit."""
    return 1 - lasts.count(slot) / len(lasts) if lasts else 1.0


def _chain(unit: Unit, lasts: Unit, nbytes: float, edges: list[Edge]) -> None:
    """A ring in the order of slots, where a host's inside is not known; open at `lasts`."""
    ring = pairwise((*unit, unit[0]))
    edges += [(here, there, nbytes * _sent(here, lasts)) for here, there in ring]


def _over_slots(table: PairTable) -> tuple[_core.RankTraffic, Slots]:
    """Messages between slots as those of ranks, each with a slot of its own."""
    used, numbers = np.unique(np.concatenate([table.source, table.target]), return_inverse=True)
    source, target = numbers.reshape(2, -1).astype(np.uint32)
    flows = _core.RankTraffic(
        ranks=len(used),
        source=source,
        target=target,
        bytes=table.bytes.astype(np.float64),
        messages=table.messages.astype(np.float64),
        sizes=[(1.0, 1.0)],
    )
    return flows, used.astype(np.uint32)


def slots_table(shape: Shape, traffic: Traffic, *, even: bool = False) -> PairTable:
    """The pairs of ranks by which placements are searched; see `search_table`."""
    if not traffic.groups:
        return traffic.mapped_table()
    return search_table(channels_of(shape), traffic, even=even)
