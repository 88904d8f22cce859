"""How near each other nodes have to be for a traffic: blocks of all sizes on a whole network.

Schedulers that know networks keep neighbours by index together, in blocks of a size that the user
says. Of each size and level an allocation is made that keeps its blocks whole and is otherwise as
bad as it can be; the model of links predicts it in the order of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

import numpy as np

from toposeat.errors import InputError, UsageError
from toposeat.mapping.cluster import shape_of_network
from toposeat.mapping.slot_evaluation import SlotEvaluator
from toposeat.model.asked import Asked, Block
from toposeat.model.network import Network, NetworkKind, NetworkLevel
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic

_SAME = 1.02  # times the best prediction: as good
_GAIN = 0.99  # times that of scattered nodes: worth asking for
_Level = Sequence[int]  # the group of each host


def ask(network: Network, node: Topology, traffic: Traffic) -> Asked:
    """What to ask for, of a scheduler that has all of a network to choose from."""
    if network.kind is NetworkKind.TORUS:
        raise UsageError(
            f"the network {network.name} has no levels that a scheduler could keep blocks in",
            hint="map onto the hosts of a job: toposeat map TRAFFIC -t NETWORK --hosts job",
        )
    per_host = sum(device.host == node.hosts[0] for device in node.devices)
    nodes = -(-traffic.ranks // per_host)
    if nodes > len(network.hosts):
        raise InputError(
            f"{traffic.ranks} ranks need {nodes} nodes of {per_host} devices; the network has"
            f" {len(network.hosts)}",
            hint="give the network of the whole cluster, or fewer ranks",
        )

    def predicted(hosts: Sequence[int]) -> float:
        # Of what a switch carries upwards the job has the share of its own hosts below it.
        part = network.restricted_to([network.hosts[each].name for each in hosts])
        shape = shape_of_network(part, node)
        evaluator = SlotEvaluator(shape, traffic)
        return evaluator.evaluate(evaluator.default).predicted_s

    levels = _levels(network)
    groups = [level.group_of_host for level in levels]
    scattered_s = predicted(_spread(range(len(network.hosts)), groups)[:nodes])
    tried = []
    for at, level in enumerate(levels):
        share = level.groups / len(network.hosts)
        for size in (each for each in range(2, nodes + 1) if nodes % each == 0):
            hosts = _blocks(groups, at, size, nodes)
            if hosts is not None:
                block = Block(
                    nodes=size,
                    level=level.name,
                    height=len(levels) - 1 - at,
                    share=size * share,
                    predicted_s=predicted(hosts),
                )
                tried.append(block)
    tried = [_at_worst(each, tried) for each in tried]
    chosen = _least(tried, scattered_s)
    return Asked(
        nodes=nodes,
        devices=min(traffic.ranks, per_host),
        offered=len(network.hosts),
        scattered_s=scattered_s,
        tried=tuple(tried),
        chosen=chosen,
        why=tuple(_why(traffic, per_host, chosen)),
        kind=network.kind.value,
        vendor=node.devices[0].vendor.value,
        levels=tuple(level.name for level in (*network.levels, *network.own_fabrics)),
    )


def _levels(network: Network) -> list[NetworkLevel]:
    """Levels that tell hosts apart, the coarse ones first; of alike ones that of the hosts."""
    leaves = tuple(host.ports[0].switch for host in network.hosts)
    known = network.levels or (NetworkLevel(name="level 0", group_of_host=leaves),)  # of a graph
    found: dict[tuple[tuple[int, int], ...], NetworkLevel] = {}
    for level in (*known, *network.own_fabrics):
        first: dict[int, int] = {}
        for host, group in enumerate(level.group_of_host):
            first.setdefault(group, host)
        if 1 < len(first) < len(level.group_of_host):
            key = tuple((host, first[group]) for host, group in enumerate(level.group_of_host))
            found.pop(key, None)
            found[key] = level
    return list(found.values())


def _at_worst(block: Block, tried: Sequence[Block]) -> Block:
    """With what is predicted at worst: larger blocks, or nearer ones, are such blocks as well."""
    such = (x for x in tried if x.nodes % block.nodes == 0 and x.height <= block.height)
    return replace(block, predicted_s=max(x.predicted_s for x in such))


def _least(tried: Sequence[Block], scattered_s: float) -> Block | None:
    """Of the blocks that are about as good as the best, the one that is easiest to get."""
    best = min((each.predicted_s for each in tried), default=scattered_s)
    if best > _GAIN * scattered_s:
        return None
    good = [each for each in tried if each.predicted_s <= _SAME * best]
    return min(good, key=lambda each: (each.share, each.nodes))


def _spread(hosts: Sequence[int], levels: Sequence[_Level]) -> list[int]:
    """Hosts in an order in which neighbours are as far from each other as can be."""
    if not levels:
        return list(hosts)
    parts: dict[int, list[int]] = {}
    for host in hosts:
        parts.setdefault(levels[0][host], []).append(host)
    spread = [_spread(part, levels[1:]) for part in parts.values()]
    return [host for host in chain(*zip_longest(*spread)) if host is not None]


def _blocks(levels: Sequence[_Level], at: int, size: int, nodes: int) -> list[int] | None:
    """Hosts in blocks that a group of a level holds each, one group after the other in turns.

    None where the network has no room for as many blocks.
    """
    parts: dict[int, list[int]] = {}
    for host, group in enumerate(levels[at]):
        parts.setdefault(group, []).append(host)
    blocks: dict[int, list[list[int]]] = {}  # by a host that stands for the group
    for part in parts.values():
        own = _spread(part, levels[at + 1 :])
        cut = [own[begin : begin + size] for begin in range(0, len(own) - size + 1, size)]
        if cut:
            blocks[own[0]] = cut
    rows = zip_longest(*(blocks[host] for host in _spread(list(blocks), levels[:at])))
    found = [host for row in rows for block in row if block is not None for host in block]
    return found[:nodes] if len(found) >= nodes else None


def _why(traffic: Traffic, per_host: int, chosen: Block | None) -> Iterator[str]:
    """Where the groups of ranks, and the bytes of pairs, are."""
    block = per_host * (1 if chosen is None else chosen.nodes)
    widest: dict[tuple[str, int], list[int]] = {}
    for each in traffic.communicators:
        name = each.name.rstrip("0123456789 ") or "a group"
        ranks = np.array(each.ranks)
        spans = [len(np.unique(ranks // size)) for size in (per_host, block)]
        known = widest.setdefault((name, len(ranks)), spans)
        widest[name, len(ranks)] = list(map(max, known, spans))
    for (name, size), (hosts, blocks) in sorted(widest.items()):
        if size == traffic.ranks and blocks > 1:
            continue  # all ranks: no block holds them
        where = "one node" if hosts == 1 else f"{hosts} nodes"
        if hosts > 1 and chosen is not None:
            where += " of one block" if blocks == 1 else f" in {blocks} blocks"
        yield f"each group {name} has {size} ranks on {where}"
    table = traffic.edge_table()
    out = table.source // per_host != table.target // per_host
    between = float(table.bytes[out].sum())
    if between > 0 and chosen is not None:
        inside = table.source // block == table.target // block
        share = float(table.bytes[out & inside].sum()) / between
        yield f"of the bytes between pairs on different nodes {share:.0%} stay inside blocks"
