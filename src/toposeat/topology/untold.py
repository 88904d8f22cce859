"""What no source tells of a machine and its products do not settle: untold is not absent.

Of a pair of GPUs it is *told* whether device links join it if a source lists them, or lists all
links and none of this pair, or measured the pair, or says that the two cannot reach each other
anyway. It is *inferred* where links are drawn by what the product always has, and where one of the
two never has any. All others are *untold*: on a graph without their links nothing is proved.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from toposeat.model.pair import BANDWIDTH
from toposeat.model.path_class import DEVICE_LINKS
from toposeat.model.topology import (
    ComponentKind,
    Device,
    FactKind,
    Pair,
    PathClass,
    Route,
    Topology,
)
from toposeat.topology.graph.routes import shortest_routes
from toposeat.topology.products import Product, products_named, products_of

if TYPE_CHECKING:
    from toposeat.model.quantity import Knowledge

BY_PRODUCT = "product: "  # how `Link.told_by` begins where a product tells of the link
_SEVERAL = 3  # modules of a mesh: two of them may have no link of their own

Ends = tuple[str, str]


def untold_pairs(topology: Topology) -> tuple[Ends, ...]:
    """Pairs of GPUs of one host, by id, of which neither source nor product tells device links.

    Where a source lists all device links they are those of modules that always have some, and of
    which it has none.
    """
    return tuple(ends for ends, word in _not_told(topology) if not word)


def untold_affinities(topology: Topology) -> tuple[str, ...]:
    """GPUs without near CPUs or memory node, by id, of hosts with several memory nodes."""
    nodes = Counter(c.host for c in topology.components if c.kind is ComponentKind.NUMA)
    return tuple(
        device.id
        for device in topology.devices
        if nodes[device.host] > 1
        and device.numa_node is None
        and device.cpus is None
        and FactKind.AFFINITY not in topology.tells
    )


def knowledge_of(topology: Topology) -> Knowledge:
    """How much of a machine is told, inferred and untold."""
    from toposeat.model.quantity import Knowledge  # noqa: PLC0415 - 1 ms

    state = dict(_not_told(topology))
    words = Counter(word for word in state.values() if word)
    return Knowledge(
        pairs=sum(n * (n - 1) // 2 for n in (len(m) for m in _members(topology))),
        inferred=dict(words),
        untold_pairs=tuple(ends for ends, word in state.items() if not word),
        untold_affinities=untold_affinities(topology),
    )


def _members(topology: Topology) -> list[list[Device]]:
    """The GPUs of each host."""
    found: dict[str, list[Device]] = defaultdict(list)
    for device in topology.devices:
        found[device.host].append(device)
    return [*found.values()]


def _not_told(topology: Topology) -> Iterator[tuple[Ends, str]]:
    """Pairs that are inferred, each with what settles it, or untold, with ""."""
    tells = FactKind.DEVICE_LINKS in topology.tells
    denied = _denied(topology) if tells else set()
    if tells and not denied:
        return
    inner = tuple(link for link in topology.links if link.kind in DEVICE_LINKS)
    over_links, _ = shortest_routes(replace(topology, nics=(), links=inner, pairs=()))
    joined = {(route.source, route.target): route.links for route in over_links}
    settled = _settled(topology)
    for members in _members(topology):
        for a, b in combinations(members, 2):
            if tells and not denied.issuperset((a.id, b.id)):
                continue
            if links := joined.get((a.id, b.id)):
                tellers = (topology.link_of_id[id].told_by or "" for id in links)
                word = next((t for t in tellers if t.startswith(BY_PRODUCT)), "")
                if word:
                    yield (a.id, b.id), word.removeprefix(BY_PRODUCT)
            elif not (_is_slice(a) or _is_slice(b) or frozenset((a.id, b.id)) in settled):
                yield (a.id, b.id), "no links" if _have_none(a, b) else ""


def _is_slice(device: Device) -> bool:
    """Whether it is a MIG slice, which has no peer access over NVLink."""
    return (device.uuid or "").upper().startswith("MIG-") or " MIG" in device.name


def _settled(topology: Topology) -> set[frozenset[str]]:
    """Pairs whose transfers are known, whatever links there are: measured both ways, or refused."""
    told: Sequence[Pair | Route] = (*topology.routes, *topology.pairs)
    refused = {frozenset((p.source, p.target)) for p in told if p.peer_access is False}
    measured = {
        (p.source, p.target)
        for p in told
        if (cap := p.cap_bytes_per_s) is not None and cap.source.is_of_this_machine
        if not (isinstance(p, Route) and p.staged)
    }
    unknown = (None, PathClass.UNKNOWN)
    near = {(p.source, p.target) for p in topology.pairs if p.path_class not in unknown}
    for each in topology.numbers:
        if each.what == BANDWIDTH and not each.both_ways and each.source.is_of_this_machine:
            found = zip(*(each.values > 0).nonzero(), strict=True)
            ends = {(each.devices[i], each.devices[j]) for i, j in found}
            measured |= ends if each.peer is not False else ends & near
    return refused | {frozenset((a, b)) for a, b in measured if (b, a) in measured and a != b}


def _have_none(a: Device, b: Device) -> bool:
    """Whether products rule device links between two out: none at all, or not of one kind."""
    mine, theirs = products_named(a.name), products_named(b.name)
    if any(known and not any(each.lane for each in known) for known in (mine, theirs)):
        return True
    apart = bool(mine and theirs) and not set(mine) & set(theirs)
    return apart or a.vendor is not b.vendor


def _denied(topology: Topology) -> set[str]:
    """Modules that always have device links and of which none is drawn at any of its kind."""
    linked = {end for x in topology.links if x.kind in DEVICE_LINKS for end in x.ends}
    denied: set[str] = set()
    for members in _members(topology):
        if linked.issuperset(device.id for device in members):
            continue
        kinds: dict[tuple[Product, ...], list[Device]] = {}
        for device in members:
            kinds.setdefault(products_of(device), []).append(device)
        for known, alike in kinds.items():
            if _must_be_joined(known, len(alike)) and not any(d.id in linked for d in alike):
                denied.update(device.id for device in alike)
    return denied


def _must_be_joined(known: Sequence[Product], count: int) -> bool:
    if not known or count < 2 or not all(each.always for each in known):
        return False
    words = {way.partition(" ")[0] for each in known for way in each.ways}
    return words <= {"switch", "each"} or count >= _SEVERAL
