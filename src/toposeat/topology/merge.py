"""Merges what sources tell of one machine, each fact from the source that knows it best.

Precedence: measured > driver's link level > NCCL XML > hwloc > text matrix. All sources are folded
into one partial topology; the PCIe tree is that of the most complete one, or what relations tell;
device links are those of the best. `drawn` makes the machine of it. Every contradiction between
sources is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum

import numpy as np

from toposeat.errors import InputError
from toposeat.model.pair import BANDWIDTH, LATENCY
from toposeat.model.processor import CPU_KEY, CPU_NAME
from toposeat.model.quantity import Quantity
from toposeat.model.topology import Component, FactKind, Pair, PairNumbers, Topology
from toposeat.topology.drawn import drawn
from toposeat.topology.fabric_domain import DOMAIN
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.rates import NODES_PER_SOCKET
from toposeat.topology.graph.routes import with_direct_routes
from toposeat.topology.merging.bonds import (
    Bonds,
    apply_lane_states,
    bonds_of,
    choose_bonds,
    redraw_bonds,
)
from toposeat.topology.merging.drawing import draw
from toposeat.topology.merging.fold import MEMBERS, fold, identified
from toposeat.topology.merging.join import fitted, renamed
from toposeat.topology.merging.layout import lay_out, layout_of, place_bridges, with_nodes
from toposeat.topology.merging.nics import draw_nics
from toposeat.topology.product_links import without_inferred_links
from toposeat.topology.told import Ends, is_whole, makes_machine, tells_bonds, tells_paths

_HINT = "give what lists the links as well: nvidia-smi topo -m, amd-smi topology, hwloc or NCCL XML"


def merge_topologies(parts: Sequence[Topology], name: str) -> Topology:
    """The whole machine of `merged`."""
    facts = merged(parts, name)
    return facts if facts.routes and len(parts) == 1 else drawn(facts)


def merged(parts: Sequence[Topology], name: str) -> Topology:
    """All that several sources tell of one machine, to be drawn.

    Devices are joined by PCI bus id, else by UUID, else by index where the counts agree (which the
    report says); a source with a device that the base lacks is refused. No number is made up: a
    pair that nobody measured keeps its nominal number, and the report counts such pairs. The order
    of parts matters only between sources of one kind, of which the first is believed.
    """
    if not parts:
        raise ValueError("nothing to merge")
    told = {
        key: part.metadata[key]
        for part in reversed(parts)
        for key in (CPU_KEY, CPU_NAME, DOMAIN, NODES_PER_SOCKET)
        if key in part.metadata
    }
    parts = [fitted(part, parts) for part in parts]
    remarks = tuple(line for part in parts if not part.devices for line in part.report)
    layout = layout_of(parts)
    parts = [part for part in parts if part.devices]
    if len(parts) == 1 and is_whole(parts[0]) and not layout:
        machine = replace(parts[0], name=name)
    else:
        if any(FactKind.DEVICE_LINKS in part.tells or tells_bonds(part) for part in parts):
            parts = [without_inferred_links(part) for part in parts]
        machine = _Merge(parts, layout).facts(name)
    report = (*remarks, *machine.report)
    return replace(machine, metadata={**told, **machine.metadata}, report=report)


class _Merge:
    """Steps of one merge. All parts have common ids of devices: those that the machine will have.

    `source` is the base as it was read; `base` and `others` are the parts that are folded; `trust`
    lists all of them, the most trusted first.
    """

    def __init__(self, parts: Sequence[Topology], layout: Sequence[Component]) -> None:
        self.layout = layout
        of_rank = sorted(((part, part_of(part)) for part in parts), key=lambda p: rank_of(p[1]))
        self.source, base = _base(of_rank)
        others = [part for _, part in of_rank if part is not base]
        self.origin = _origin(base, [part for _, part in of_rank])
        self.doubts: list[str] = []
        first, joined = identified(base, others, self.doubts)
        known = fold(sorted([first, *joined], key=rank_of))
        self.doubts += known.report
        known = _in_order(known, first)
        called = _names(known, first, base)
        names = {key: id for key, (id, _) in called.items()}
        self.base = base if is_whole(base) else renamed(first, names)
        others = [renamed(part, names) for part in joined]
        self.trust = sorted([self.base, *others], key=rank_of)
        known = _numbered(renamed(known, names), dict(called.values()), base)
        self.known = with_nodes(known, layout)

    def facts(self, name: str) -> Topology:
        """The facts of all parts in one tree."""
        builder = draw(self.base, self.known)
        place_bridges(builder)
        lay_out(builder, self.layout)
        builder.report += self.doubts
        builder.premises += [each for part in self.trust for each in part.premises]
        drawn_nics = draw_nics(builder, self.known)
        self._draw_bonds(builder)
        builder.pairs = self._pairs(builder, drawn_nics)
        for part in self.trust:
            if part is not self.base:
                builder.report += part.report
        tables_first = sorted(self.trust, key=is_whole)
        return builder.topology(
            name=name,
            origin=self.origin,
            description=self.source.description,
            sources=self.source.sources,
            hidden=self.source.hidden,
            routes=self.source.routes,
            numbers=tuple(
                replace(each, told_by=part.origin) for part in tables_first for each in part.numbers
            ),
            host_copies=tuple(each for part in self.trust for each in part.host_copies),
        )

    def _draw_bonds(self, builder: GraphBuilder) -> None:
        drawings: list[tuple[Topology, Bonds]] = [
            (part, bonds)
            for part in self.trust
            if (bonds := bonds_of(part, builder.devices)) is not None
        ]
        drawings.sort(key=lambda each: _bond_rank(each[0]))
        chosen = choose_bonds([bonds for _, bonds in drawings], builder.report)
        drawn_already = drawings and drawings[0][0] is self.base and not tells_bonds(self.base)
        if chosen is not None and not drawn_already:
            redraw_bonds(builder, chosen)
        for part in self.trust:
            if part.lanes:
                apply_lane_states(builder, part.origin, part.lanes)

    def _pairs(self, builder: GraphBuilder, drawn: dict[str, str]) -> list[Pair]:
        """What is told of pairs, without what the graph of the base tells better."""
        judged = {(pair.source, pair.target): pair for pair in builder.pairs}
        own = self.source.pair_of_ends if is_whole(self.source) else {}
        vertices = {d.id for d in builder.devices} | {n.id for n in builder.nics}
        pairs = []
        for pair in self.known.pairs:
            ends = (drawn.get(pair.source, pair.source), drawn.get(pair.target, pair.target))
            if not vertices >= set(ends):
                continue
            kept = judged.get(ends)
            if kept is None:
                told = own.get(ends)
                kept = replace(
                    pair,
                    source=ends[0],
                    target=ends[1],
                    path_class=told.path_class if told else None,
                )
            if any(getattr(kept, member) is not None for member in MEMBERS):
                pairs.append(kept)
        return pairs


def _base(of_rank: Sequence[tuple[Topology, Topology]]) -> tuple[Topology, Topology]:
    """The graph to start from: the most devices, then the most trusted.

    A source of devices and bonds without a PCIe tree, and measured pairs alone, come last.
    """
    graphs = [each for each in of_rank if makes_machine(each[1])]
    if not graphs:
        names = ", ".join(dict.fromkeys(part.origin for _, part in of_rank))
        raise InputError(f"{names}: nothing says how the devices are connected", hint=_HINT)
    return min(graphs, key=lambda p: (_is_bare(p[1]), -len(p[1].devices), rank_of(p[1])))


def _is_bare(part: Topology) -> int:
    if is_whole(part) or tells_paths(part):
        return 0
    return 1 if tells_bonds(part) else 2


def _origin(base: Topology, ranked: Sequence[Topology]) -> str:
    origins = [base.origin, *(part.origin for part in ranked)]
    single = [name for origin in origins for name in origin.removeprefix("merged: ").split(" + ")]
    names = list(dict.fromkeys(single))
    return names[0] if len(names) == 1 else "merged: " + " + ".join(names)


def _in_order(known: Topology, first: Topology) -> Topology:
    """Devices and NICs of the base before all others, in its order."""
    devices = {each.id: number for number, each in enumerate(first.devices)}
    nics = {each.id: number for number, each in enumerate(first.nics)}
    return replace(
        known,
        devices=tuple(sorted(known.devices, key=lambda d: devices.get(d.id, len(devices)))),
        nics=tuple(sorted(known.nics, key=lambda n: nics.get(n.id, len(nics)))),
    )


def _names(known: Topology, first: Topology, base: Topology) -> dict[str, tuple[str, int]]:
    """Id and index in the machine of each device and of each NIC of the base, by common id.

    Those of a graph stay; those of a table are numbered as the vendor's tools do, if all are known.
    """
    found: dict[str, tuple[str, int]] = {}
    if is_whole(base):
        for a, device in zip(first.devices, base.devices, strict=True):
            found[a.id] = (device.id, device.number)
        for b, nic in zip(first.nics, base.nics, strict=True):
            found[b.id] = (nic.id, nic.number)
    else:
        told = [device.index for device in known.devices]
        stated = [index for index in told if index is not None]
        if len(set(stated)) < len(told):
            stated = list(range(len(told)))
        found = {mine.id: (f"gpu{i}", i) for mine, i in zip(first.devices, stated, strict=True)}
        found |= {mine.id: (f"nic{i}", i) for i, mine in enumerate(first.nics)}
    return found


def _numbered(known: Topology, index_of: dict[str, int], base: Topology) -> Topology:
    """The fold with the indices, names and host of the machine."""
    host = base.devices[0].host
    return replace(
        known,
        devices=tuple(replace(d, index=index_of[d.id], host=host) for d in known.devices),
        nics=tuple(replace(n, index=index_of.get(n.id), host=host) for n in known.nics),
    )


def _bond_rank(part: Topology) -> tuple[bool, Rank]:
    """Links that tables list are from a driver, whatever else is in the file."""
    return (not (tells_bonds(part) or rank_of(part) is Rank.DRIVER), rank_of(part))


# ---- how far a source is trusted, and what one that is a graph tells


class Rank(IntEnum):
    """Trust in what a source tells of the structure, best first; numbers are ranked apart."""

    DRIVER = 0  # the kernel's and the driver's own tables: NVML, KFD, sysfs
    NCCL = 1
    HWLOC = 2
    CATALOGUE = 3  # what such a machine is by its data sheet
    TEXT = 4  # a matrix of words
    PROGRAM = 5  # a benchmark: it has the best numbers and tells little of devices


_RANK_OF_ORIGIN = (
    ("NCCL", Rank.NCCL),
    ("RCCL", Rank.NCCL),
    ("hwloc", Rank.HWLOC),
    ("lspci", Rank.HWLOC),
    ("catalogue", Rank.CATALOGUE),
    ("machine file", Rank.CATALOGUE),
    ("synthetic", Rank.CATALOGUE),
    ("nvidia-smi topo", Rank.TEXT),
    ("nvidia-smi -q", Rank.DRIVER),
    ("nvidia-smi nvlink", Rank.DRIVER),
)


def rank_of(part: Topology) -> Rank:
    """How far a source is trusted: a graph by its origin, a table by what it is of."""
    if is_whole(part):  # a merged machine is as good as the best source of its structure
        first = part.origin.removeprefix("merged: ")
        ranks = (rank for start, rank in _RANK_OF_ORIGIN if first.startswith(start))
        return next(ranks, Rank.DRIVER)
    if tells_paths(part):
        return Rank.TEXT
    if tells_bonds(part) or part.lanes:
        return Rank.DRIVER
    if part.numbers or part.host_copies:
        return Rank.PROGRAM
    return Rank.TEXT if any(p.peer_access is not None for p in part.pairs) else Rank.DRIVER


def part_of(source: Topology) -> Topology:
    """A source as a part of a merge: a graph with the facts of its routes, and no GPU slices."""
    if not is_whole(source):
        return _without_slices(source)
    if len(source.hosts) > 1:
        raise ValueError(f"{source.name}: several hosts, and only one machine can be merged")
    routed = source if source.routes or not source.nics else with_direct_routes(source)
    return replace(source, pairs=_pairs_of_routes(routed), numbers=_numbers_of_routes(source))


def _without_slices(table: Topology) -> Topology:
    """A table without slices of devices that it lists as well: a graph holds one or the other."""
    listed = {device.id for device in table.devices}
    slices = {device.id for device in table.devices if device.parent in listed}
    if not slices or tells_paths(table):
        return table
    whole = [i for i, device in enumerate(table.devices) if device.id not in slices]
    kept = tuple(table.devices[i] for i in whole)
    axes = tuple(device.id for device in kept)
    return replace(
        table,
        devices=kept,
        pairs=tuple(p for p in table.pairs if not slices & {p.source, p.target}),
        numbers=tuple(
            replace(each, devices=axes, values=each.values[np.ix_(whole, whole)])
            for each in table.numbers
        ),
        host_copies=tuple(each for each in table.host_copies if each.device not in slices),
        lanes=tuple(each for each in table.lanes if each.device not in slices),
        report=(*table.report, f"{len(slices)} slices of GPUs are left out: merged are whole GPUs"),
    )


def _pairs_of_routes(graph: Topology) -> tuple[Pair, ...]:
    """What routes tell that a graph drawn anew would not: peer access, and how near NICs are."""
    nics = {nic.id for nic in graph.nics}
    found: dict[Ends, Pair] = dict(graph.pair_of_ends)
    for ends, route in graph.route_of_pair.items():
        told = found.get(ends, Pair(source=ends[0], target=ends[1]))
        near = route.path_class if ends[1] in nics else told.path_class
        if near is not told.path_class or route.peer_access is not told.peer_access:
            found[ends] = replace(told, path_class=near, peer_access=route.peer_access)
    return tuple(found.values())


def _numbers_of_routes(graph: Topology) -> tuple[PairNumbers, ...]:
    """Numbers of routes and devices, by the source that is of this machine."""
    ids = tuple(device.id for device in graph.devices)
    routes = [(e, r) for e, r in graph.route_of_pair.items() if e[0] in ids and e[1] in ids]
    caps = {e: r.cap_bytes_per_s for e, r in routes}
    caps |= {(d.id, d.id): d.copy_bytes_per_s for d in graph.devices}
    sums = {e: r.combined_bytes_per_s for e, r in routes}
    latencies = {e: r.latency_s for e, r in routes}
    latencies |= {(d.id, d.id): d.copy_latency_s for d in graph.devices}
    return (
        *_matrices(BANDWIDTH, ids, caps, both_ways=False),
        *_matrices(BANDWIDTH, ids, sums, both_ways=True),
        *_matrices(LATENCY, ids, latencies, both_ways=False),
    )


def _matrices(
    what: str, ids: tuple[str, ...], found: Mapping[Ends, Quantity | None], *, both_ways: bool
) -> Iterable[PairNumbers]:
    """One matrix for each source that is of this machine."""
    at = {id: i for i, id in enumerate(ids)}
    known = {ends: q for ends, q in found.items() if q and q.source.is_of_this_machine}
    for source in dict.fromkeys(q.source for q in known.values()):
        values = np.full((len(ids), len(ids)), np.nan)
        for (a, b), quantity in known.items():
            if quantity.source is source:
                values[at[a], at[b]] = quantity.value
        yield PairNumbers(what=what, values=values, devices=ids, both_ways=both_ways, source=source)
