"""Groups that a library orders itself, on machines of many hosts: channels from node to node.

NCCL and RCCL number the nodes of a group by the first of its ranks on each, and join each node to
the next by C channels, which carry equal shares: channel c leaves by the c-th NIC that is nearest
to some member, and enters the next node by that node's c-th. C is the least number of such NICs of
any node. Inside a node the members are a set with a rate (docs/explanation/groups.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation import compile_traffic
from toposeat.evaluation.group_rate import GroupRates
from toposeat.evaluation.group_time import Members, PhaseParts, phases_of
from toposeat.mapping.node_links import NodeLinks
from toposeat.mapping.shapes import Shape
from toposeat.model.evaluation import PhaseTime
from toposeat.model.topology import Topology
from toposeat.model.traffic import Exchange, PairTable, Traffic

Floats = NDArray[np.float64]
Slots = NDArray[np.uint32]
Devices = tuple[int, ...]  # of one node, ascending


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


class _Doors:
    """By which devices of a host a group's channels leave and enter it."""

    def __init__(self, shape: Shape) -> None:
        """Where the inside of a host is not known, each device has a NIC of its own."""
        self._nic = shape.nic_of_device or tuple(range(shape.slots_per_host))
        self._per_host = shape.slots_per_host
        self._known: dict[Devices, tuple[tuple[int, int], ...]] = {}

    def of(self, devices: Devices) -> tuple[tuple[int, int], ...]:
        """The first and the last of the devices that are nearest to each NIC, by NIC."""
        if devices not in self._known:
            near: dict[int, list[int]] = {}
            for device in devices:
                near.setdefault(self._nic[device], []).append(device)
            self._known[devices] = tuple((near[nic][0], near[nic][-1]) for nic in sorted(near))
        return self._known[devices]

    def channels(self, nodes: Mapping[int, Devices]) -> int:
        """How many channels join the hosts of a group, each with its devices."""
        return min(len(self.of(devices)) for devices in nodes.values())

    def join(
        self, nodes: Mapping[int, Devices], nbytes: int, edges: _Edges, messages: int = 1
    ) -> None:
        """Add the channels from each host to the next, the last joined to the first."""
        if len(nodes) < 2:
            return
        channels = self.channels(nodes)
        hosts = list(nodes)
        for here, there in pairwise((*hosts, hosts[0])):
            out, into = self.of(nodes[here])[:channels], self.of(nodes[there])[:channels]
            for (_, last), (first, _) in zip(out, into, strict=True):
                source, target = here * self._per_host + last, there * self._per_host + first
                edges.add(source, target, nbytes / channels, messages)


class _Inside:
    """What the rings of a group need inside one host."""

    def __init__(self, node: Topology) -> None:
        self._rates = GroupRates(node)
        self._links = NodeLinks.of(node)
        self._numbers = [self._links.of_link[link.id] for link in node.links]
        self._known: dict[tuple[Devices, Devices], tuple[float, Floats]] = {}

    @property
    def links(self) -> int:
        """How many links of the machine a host has."""
        return len(self._links.bandwidth)

    def of(self, devices: Devices, lasts: Devices) -> tuple[float, Floats]:
        """Seconds per byte, and how often a byte passes each link; open at `lasts` if any."""
        key = devices, lasts
        if key not in self._known:
            rate = self._rates.of(devices)
            passes = self._rates.path_load(devices, lasts) if lasts else rate.load
            load = np.zeros(self.links)
            for link, direction, count in passes:
                load[self._numbers[link][direction]] += count
                both = self._numbers[link][2]
                if both is not None:
                    load[both] += count
            self._known[key] = 1 / rate.bytes_per_s if rate.bytes_per_s > 0 else np.inf, load
        return self._known[key]


class SlotGroups:
    """The phases of one traffic with groups on a machine of many hosts.

    Attributes:
        phases: what runs together: families of groups, then the pairs.
    """

    def __init__(self, shape: Shape, traffic: Traffic) -> None:
        """Compile the phases; a phase is predicted alone."""
        self.phases = phases_of(traffic)
        self._machine = shape.machine
        self._per_host = shape.slots_per_host
        self._doors = _Doors(shape)
        self._inside = None if shape.node is None else _Inside(shape.node)
        self._capacities: Floats = shape.machine.capacities
        inside = 0 if self._inside is None else self._inside.links * len(shape.hosts)
        self._first_inside = len(self._capacities) - inside

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
        """Add a group's edges between hosts and its bytes inside them; its seconds inside."""
        nodes = _by_host(slots, self._per_host)
        channels = self._doors.channels(nodes)
        self._doors.join(nodes, group.bytes, edges)
        slowest = 0.0
        for host, devices in nodes.items():
            if len(devices) < 2:
                continue
            lasts = tuple(last for _, last in self._doors.of(devices)[:channels])
            lasts = lasts if len(nodes) > 1 else ()
            if self._inside is None:
                _chain(host * self._per_host, devices, lasts, group.bytes, edges)
                continue
            pace, load = self._inside.of(devices, lasts)
            begin = self._first_inside + host * self._inside.links
            nbytes[begin : begin + self._inside.links] += group.bytes * load
            slowest = max(slowest, group.bytes * pace)
        return slowest


def _by_host(slots: Iterable[int], per_host: int) -> dict[int, Devices]:
    """The devices that a group has on each host; hosts by the first of its ranks on each."""
    found: dict[int, set[int]] = {}
    for slot in slots:
        found.setdefault(slot // per_host, set()).add(slot % per_host)
    return {host: tuple(sorted(devices)) for host, devices in found.items()}


def _chain(base: int, devices: Devices, lasts: Devices, nbytes: int, edges: _Edges) -> None:
    """A ring in the order of devices, where a host's inside is not known; open at `lasts`."""
    for here, there in pairwise((*devices, devices[0])):
        share = 1 - lasts.count(here) / len(lasts) if lasts else 1.0
        edges.add(base + here, base + there, nbytes * share)


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
    doors, per_host, edges = _Doors(shape), shape.slots_per_host, _Edges()
    for load in traffic.groups:
        ranks = ranks_of[load.communicator]
        if load.exchange is not Exchange.RING:
            for a in ranks:
                for b in ranks:
                    edges.add(a, b, load.bytes, load.messages)
            continue
        blocks: dict[int, list[int]] = {}
        for rank in ranks:
            blocks.setdefault(rank // per_host, []).append(rank)
        doors.join(_by_host(ranks, per_host), load.bytes, edges, load.messages)
        for block in blocks.values():
            closed = block if len(blocks) > 1 else [*block, block[0]]
            for a, b in pairwise(closed):
                edges.add(a, b, load.bytes, load.messages)
    return PairTable.total([traffic.edge_table(), edges.table()])


def search_flows(shape: Shape, traffic: Traffic) -> _core.RankTraffic:
    """Compile `search_table` for the core."""
    return compile_traffic(traffic, search_table(shape, traffic))
