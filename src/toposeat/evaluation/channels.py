"""By which ways a group that its library orders itself goes from node to node.

NCCL and RCCL number the nodes of a group by the first of its ranks on each (the hosts of an NVLink
domain count as one node), and join each node to the next by C channels, which carry equal shares:
channel c leaves by the c-th NIC that is nearest to some member, and enters the next node by that
node's c-th. C is the least number of such NICs of any node (docs/explanation/groups.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, permutations

import numpy as np

from toposeat.model.evaluation import RINGS, TREES
from toposeat.model.nics import choose_nics
from toposeat.model.pair_table import Messages, PairTable
from toposeat.model.topology import ComponentKind, Topology
from toposeat.model.traffic import Exchange, Traffic

Unit = tuple[int, ...]  # members of a group on one node, ascending
Edge = tuple[int, int, float]  # source, target, bytes


def tree_parts(
    exchange: Exchange, ranks: int, nodes: int, by: str = ""
) -> tuple[float, float] | None:
    """Of the bytes over an edge of a ring, what trees move inside a node, and on to the next one.

    An all-reduce of S bytes is 2 (n - 1) / n S of a ring; trees send S each way. None where rings
    are taken: on exactly two nodes NCCL takes trees for large messages too (its maintainers:
    nccl#946, nccl-tests#196 and #251), on more rings, unless `by` says TREES or RINGS.
    """
    if exchange is not Exchange.ALL_REDUCE or nodes == 1 or by == RINGS:
        return None
    return (ranks / (ranks - 1), ranks / (2 * (ranks - 1))) if nodes == 2 or by == TREES else None


class Edges(Messages):
    """Bytes from one place (or rank) to another, rounded, none to itself."""

    def extend(self, rows: Sequence[Edge], messages: int = 1) -> None:
        """Rows of source, target and bytes, each with as many messages."""
        kept = [(a, b, round(size), messages) for a, b, size in rows if a != b and size > 0]
        self._parts.append(np.array(kept, np.int64).reshape(-1, 4).T)

    def all_pairs(self, places: Sequence[int], nbytes: float, messages: int = 1) -> None:
        """The same bytes over each ordered pair."""
        source, target = np.repeat(places, len(places)), np.tile(places, len(places))
        if nbytes > 0:
            other = source != target
            self.add(source[other], target[other], round(nbytes), messages)


class Channels:
    """The channels of groups on a machine whose places (slots, devices) are on nodes."""

    def __init__(
        self,
        node_of: Callable[[int], int],
        nic_of: Callable[[int], tuple[int, int]],
        *,
        most: int | None = None,
    ) -> None:
        """Say where places are.

        Args:
            node_of: the node of a place.
            nic_of: the NIC nearest to a place, by its rank among those of its node.
            most: how many channels a group has at most.
        """
        self._node_of, self._nic_of, self._most = node_of, nic_of, most
        self._doors: dict[Unit, tuple[tuple[int, int], ...]] = {}

    def renumbered(self, places: Sequence[int]) -> Channels:
        """The channels of ranks, each at one of these places."""
        return Channels(
            lambda rank: self._node_of(places[rank]),
            lambda rank: self._nic_of(places[rank]),
            most=self._most,
        )

    def units(self, places: Iterable[int]) -> list[Unit]:
        """The places by node; nodes by the first of the places on each."""
        found: dict[int, set[int]] = {}
        for place in places:
            found.setdefault(self._node_of(place), set()).add(place)
        return [tuple(sorted(unit)) for unit in found.values()]

    def doors(self, unit: Unit) -> tuple[tuple[int, int], ...]:
        """The first and the last place of those that are nearest to each NIC, by NIC."""
        if unit not in self._doors:
            near: dict[tuple[int, int], list[int]] = {}
            for place in unit:
                near.setdefault(self._nic_of(place), []).append(place)
            self._doors[unit] = tuple((near[nic][0], near[nic][-1]) for nic in sorted(near))
        return self._doors[unit]

    def count(self, units: Sequence[Unit]) -> int:
        """How many channels join the nodes of a group."""
        least = min(len(self.doors(unit)) for unit in units)
        return least if self._most is None else min(self._most, least)

    def lasts(self, unit: Unit, channels: int) -> Unit:
        """Where the channels leave a node."""
        return tuple(last for _, last in self.doors(unit)[:channels])

    def hops(self, units: Sequence[Unit]) -> Iterator[tuple[int, int, int]]:
        """The place where each channel leaves a node, where it enters the next, and how many."""
        if len(units) < 2:
            return
        channels = self.count(units)
        for out, into in pairwise((*units, units[0])):
            ways = zip(self.doors(out)[:channels], self.doors(into)[:channels], strict=True)
            for (_, last), (first, _) in ways:
                yield last, first, channels

    def tree_hops(self, units: Sequence[Unit]) -> Iterator[tuple[int, int, int]]:
        """The same of an all-reduce by trees: each hop has that part of its bytes, up or down.

        Each of two trees reduces one half of the bytes to its root, and sends it back.
        """
        channels = self.count(units)
        doors = [self.doors(unit)[:channels] for unit in units]
        for ends in double_tree(len(units)):
            for out, into in (ends, ends[::-1]):
                for (_, last), (first, _) in zip(doors[out], doors[into], strict=True):
                    yield last, first, 2 * channels


def channels_of(topology: Topology) -> Channels:
    """The channels of groups of devices, given as positions in `topology.devices`.

    Hosts whose devices share an NVSwitch are one node; a device without a NIC is its own.
    """
    devices = topology.devices
    hosts = {host: number for number, host in enumerate(topology.hosts)}
    chosen = choose_nics(topology).nic_of_device if len(hosts) > 1 else {}
    nics: dict[str, dict[str, int]] = {host: {} for host in hosts}
    nic = []
    for device in devices:
        own = nics[device.host]
        name = chosen[device.id].id if device.id in chosen else f"alone {device.id}"
        nic.append((hosts[device.host], own.setdefault(name, len(own))))
    node_of_host = _nodes(topology)
    node = [hosts[node_of_host[device.host]] for device in devices]
    return Channels(node.__getitem__, nic.__getitem__)


def _nodes(topology: Topology) -> dict[str, str]:
    """For each host the first of those whose devices are all on an NVSwitch with its own."""
    host_of = {device.id: device.host for device in topology.devices}
    on_host = Counter(host_of.values())
    found = {host: host for host in on_host}
    for part in topology.components:
        if part.kind is ComponentKind.NVSWITCH:
            joined = {
                end for link in topology.links if part.id in link.ends for end in link.ends
            } & set(host_of)
            here = Counter(each.host for each in topology.devices if each.id in joined)
            whole = [host for host, count in here.items() if count == on_host[host]]
            found |= dict.fromkeys(whole, whole[0]) if whole else {}
    return found


def double_tree(nodes: int) -> Iterator[tuple[int, int]]:
    """Child and parent of each edge of NCCL's two binary trees over nodes in their order.

    In the first a node whose number ends in a one bit and k zeros has its children at a distance of
    2**(k - 1); the second is its mirror image, or of an odd number of nodes the first, one on.
    After graph/trees.cc of NCCL 2.30.
    """
    for child in range(1, nodes):
        bit = child & -child
        parent = (child ^ bit) | bit << 1
        parent = parent if parent < nodes else child ^ bit
        yield child, parent
        if nodes % 2:
            yield (child + 1) % nodes, (parent + 1) % nodes
        else:
            yield nodes - 1 - child, nodes - 1 - parent


def search_table(channels: Channels, traffic: Traffic, *, even: bool = False) -> PairTable:
    """The pairs of ranks by which placements of a traffic are searched.

    Which channels a group has depends on its placement. For the search its ranks are cut into
    blocks as the default seats them; a block is a chain, and joined to the next block by the
    channels that it has there. Other exchanges and messages between pairs are as they are.

    Args:
        channels: of ranks at their places in the default.
        traffic: with groups.
        even: share the bytes of a block over all its pairs, since the library orders them.
    """
    ranks_of = {each.id: each.ranks for each in traffic.communicators}
    edges = Edges()
    for load in traffic.groups:
        ranks = ranks_of[load.communicator]
        if not load.exchange.is_ring:
            edges.all_pairs(ranks, load.bytes, load.messages)
            continue
        blocks = channels.units(ranks)
        inside, between = tree_parts(load.exchange, len(ranks), len(blocks)) or (1.0, 1.0)
        hops = channels.hops(blocks)
        rows = [(out, into, load.bytes * between / count) for out, into, count in hops]
        for block in blocks:
            steps = len(block) - (len(blocks) > 1)
            if even and len(block) > 1:
                each = load.bytes * inside * steps / (len(block) * (len(block) - 1))
                rows += [(a, b, each) for a, b in permutations(block, 2)]
                continue
            chain = pairwise((*block, block[0])[: steps + 1])
            rows += [(a, b, load.bytes * inside) for a, b in chain]
        edges.extend(rows, load.messages)
    return PairTable.total([traffic.edge_table(), edges.table()])
