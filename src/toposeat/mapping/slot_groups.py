"""Groups that a library orders itself, on machines of many hosts: channels from node to node.

NCCL and RCCL number the nodes of a group by the first of its ranks on each (the hosts of an NVLink
domain count as one node), and join each node to the next by C channels, which carry equal shares:
channel c leaves by the c-th NIC that is nearest to some member, and enters the next node by that
node's c-th. C is the least number of such NICs of any node. Inside a node the members are a set
with a rate (docs/explanation/groups.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation import compile_traffic
from toposeat.evaluation.group_rate import GroupRates
from toposeat.evaluation.group_time import Members, PhaseParts, phases_of
from toposeat.mapping.fabric import Fabric
from toposeat.mapping.node_links import NodeLinks
from toposeat.mapping.shapes import Shape
from toposeat.model.evaluation import PhaseTime
from toposeat.model.topology import Topology
from toposeat.model.traffic import Exchange, PairTable, Traffic

Floats = NDArray[np.float64]
Slots = NDArray[np.uint32]
Unit = tuple[int, ...]  # slots of a group, or devices of a host, ascending


class _Edges:
    """Bytes from one slot (or rank) to another, collected one by one."""

    def __init__(self) -> None:
        self.source: list[int] = []
        self.target: list[int] = []
        self.bytes: list[int] = []
        self.messages: list[int] = []

    def add(self, source: int, target: int, nbytes: float, messages: int = 1) -> None:
        if source != target and nbytes > 0:
            self.source.append(source)
            self.target.append(target)
            self.bytes.append(round(nbytes))
            self.messages.append(messages)

    def table(self) -> PairTable:
        return PairTable.from_pairs(self.source, self.target, self.bytes, self.messages)


class _Units:
    """What a library takes for one node: a host, or the hosts that a fabric of their own joins."""

    def __init__(self, shape: Shape, *, few_nics: bool = False) -> None:
        """Where the inside of a host is not known, each device has a NIC of its own.

        With `few_nics` a group has no more channels than a host has NICs, whatever a domain has.
        """
        self.per_host = shape.slots_per_host
        self._nic = shape.nic_of_device or tuple(range(shape.slots_per_host))
        nics = len(set(self._nic))
        self.most = nics if few_nics else nics * len(shape.hosts)
        self._domain = shape.domain_of_host
        self._known: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {}

    def of(self, slots: Iterable[int]) -> list[Unit]:
        """The slots of a group by unit, ascending; units by the first of the group's ranks."""
        found: dict[int, set[int]] = {}
        for slot in slots:
            host = slot // self.per_host
            found.setdefault(self._domain[host] if self._domain else host, set()).add(slot)
        return [tuple(sorted(unit)) for unit in found.values()]

    def doors(self, unit: Unit) -> tuple[tuple[int, int], ...]:
        """The first and the last of the slots that are nearest to each NIC, by NIC."""
        base = unit[0] // self.per_host * self.per_host
        inside = tuple(slot - base for slot in unit)
        if inside not in self._known:
            near: dict[tuple[int, int], list[int]] = {}
            for slot in inside:
                host, device = divmod(slot, self.per_host)
                near.setdefault((host, self._nic[device]), []).append(slot)
            self._known[inside] = tuple((near[nic][0], near[nic][-1]) for nic in sorted(near))
        return tuple((base + first, base + last) for first, last in self._known[inside])

    def channels(self, units: Sequence[Unit]) -> int:
        """How many channels join the units of a group."""
        return min(self.most, *(len(self.doors(unit)) for unit in units))

    def join(self, units: Sequence[Unit], nbytes: int, edges: _Edges, messages: int = 1) -> None:
        """Add the channels from each unit to the next, the last joined to the first."""
        if len(units) < 2:
            return
        channels = self.channels(units)
        for out, into in pairwise((*units, units[0])):
            ways = zip(self.doors(out)[:channels], self.doors(into)[:channels], strict=True)
            for (_, last), (first, _) in ways:
                edges.add(last, first, nbytes / channels, messages)


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

    def add(self, unit: Unit, lasts: Unit, volume: int, nbytes: Floats) -> float:
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
        self, fabric: Fabric, unit: Unit, lasts: Unit, volume: int, nbytes: Floats
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
        self._units = _Units(shape, few_nics=few_nics)
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

    def _phase(self, phase: PhaseParts, slots: Slots) -> tuple[float, Floats]:
        """T = max(max_g V_g / B(S_g on a host), max_l bytes_l / c_l), and the bytes."""
        nbytes = np.zeros(len(self._capacities))
        slowest = 0.0
        flows, places = phase.flows, slots
        if flows is None:
            edges = _Edges()
            for group in phase.groups:
                own = [int(slots[rank]) for rank in group.ranks]
                if group.exchange is Exchange.RING:
                    slowest = max(slowest, self._ring(group, own, edges, nbytes))
                else:
                    _all_pairs(own, group.bytes, edges)
            flows, places = _over_slots(edges.table())
        if flows.ranks:
            found, over = _core.large_loads(self._machine, flows, places)
            nbytes += over
            slowest = max(slowest, found.predicted_s)
        return max(slowest, float((nbytes / self._capacities).max(initial=0.0))), nbytes

    def _ring(self, group: Members, slots: Sequence[int], edges: _Edges, nbytes: Floats) -> float:
        """Add a group's edges between units and its bytes inside them; its seconds inside."""
        units = self._units.of(slots)
        channels = self._units.channels(units)
        self._units.join(units, group.bytes, edges)
        slowest = 0.0
        for unit in units:
            if len(unit) < 2:
                continue
            lasts = tuple(last for _, last in self._units.doors(unit)[:channels])
            lasts = lasts if len(units) > 1 else ()
            if self._inside is None:
                _chain(unit, lasts, group.bytes, edges)
            else:
                slowest = max(slowest, self._inside.add(unit, lasts, group.bytes, nbytes))
        return slowest


def _sent(slot: int, lasts: Unit) -> float:
    """The share of a ring's bytes that a slot sends on inside its unit."""
    return 1 - lasts.count(slot) / len(lasts) if lasts else 1.0


def _chain(unit: Unit, lasts: Unit, nbytes: int, edges: _Edges) -> None:
    """A ring in the order of slots, where a host's inside is not known; open at `lasts`."""
    for here, there in pairwise((*unit, unit[0])):
        edges.add(here, there, nbytes * _sent(here, lasts))


def _all_pairs(slots: Sequence[int], nbytes: int, edges: _Edges) -> None:
    for a in slots:
        for b in slots:
            edges.add(a, b, nbytes)


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


def search_table(shape: Shape, traffic: Traffic) -> PairTable:
    """The pairs of ranks by which placements of a traffic on a large machine are searched.

    Which channels a group has depends on its placement. For the search its ranks are cut into
    blocks as the default seats them; a block is a chain, and joined to the next block by the
    channels that it has there. Other exchanges and messages between pairs are as they are.
    """
    if not traffic.groups:
        return traffic.mapped_table()
    ranks_of = {each.id: each.ranks for each in traffic.communicators}
    units, edges = _Units(shape), _Edges()
    for load in traffic.groups:
        ranks = ranks_of[load.communicator]
        if load.exchange is not Exchange.RING:
            for a in ranks:
                for b in ranks:
                    edges.add(a, b, load.bytes, load.messages)
            continue
        blocks = units.of(ranks)
        units.join(blocks, load.bytes, edges, load.messages)
        for block in blocks:
            closed = block if len(blocks) > 1 else (*block, block[0])
            for a, b in pairwise(closed):
                edges.add(a, b, load.bytes, load.messages)
    return PairTable.total([traffic.edge_table(), edges.table()])


def search_flows(shape: Shape, traffic: Traffic) -> _core.RankTraffic:
    """Compile `search_table` for the core."""
    return compile_traffic(traffic, search_table(shape, traffic))
