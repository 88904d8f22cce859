"""Merges what sources tell of one machine, each fact from the source that knows it best.

Precedence: measured > driver's link level > NCCL XML > hwloc > text matrix. All sources are folded
into one partial topology; the PCIe tree is that of the most complete one, or what relations tell;
device links are those of the best. `drawn` makes the machine of it. Every contradiction between
sources is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toposeat.errors import InputError
from toposeat.model.processor import CPU_KEY, CPU_NAME
from toposeat.model.topology import FactKind, Pair, Topology
from toposeat.topology.drawn import drawn
from toposeat.topology.fabric_domain import DOMAIN
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.merging.bonds import Bonds, bonds_of, choose_bonds, redraw_bonds
from toposeat.topology.merging.drawing import draw
from toposeat.topology.merging.fold import MEMBERS, fold, identified
from toposeat.topology.merging.lanes import apply_lane_states
from toposeat.topology.merging.nics import draw_nics
from toposeat.topology.merging.part import Rank, part_of, rank_of
from toposeat.topology.merging.renamed import renamed
from toposeat.topology.readings import without_inferred_links
from toposeat.topology.told import (
    is_whole,
    makes_machine,
    tells_bonds,
    tells_paths,
)

_HINT = "give what lists the links as well: nvidia-smi topo -m, amd-smi topology, hwloc or NCCL XML"


def merge_topologies(parts: Sequence[Topology], name: str) -> Topology:
    """The whole machine of `merged`."""
    facts = merged(parts, name)
    return facts if facts.routes and len(parts) == 1 else drawn(facts)


def merged(parts: Sequence[Topology], name: str) -> Topology:
    """All that several sources tell of one machine, to be drawn.

    Devices are joined by PCI bus id, else by UUID, else by index where the counts agree (which the
    report says). No device of any source is lost and no number is made up: a pair that nobody
    measured keeps its nominal number, and the report counts such pairs. The order of parts matters
    only between sources of one kind, of which the first is believed.
    """
    if not parts:
        raise ValueError("nothing to merge")
    told = {
        key: part.metadata[key]
        for part in reversed(parts)
        for key in (CPU_KEY, CPU_NAME, DOMAIN)
        if key in part.metadata
    }
    remarks = tuple(line for part in parts if not part.devices for line in part.report)
    parts = [part for part in parts if part.devices]
    if len(parts) == 1 and is_whole(parts[0]):
        machine = replace(parts[0], name=name)
    else:
        if any(FactKind.DEVICE_LINKS in part.tells or tells_bonds(part) for part in parts):
            parts = [without_inferred_links(part) for part in parts]
        machine = _Merge(parts).facts(name)
    report = (*remarks, *machine.report)
    return replace(machine, metadata={**told, **machine.metadata}, report=report)


class _Merge:
    """Steps of one merge. All parts have common ids of devices: those that the machine will have.

    `source` is the base as it was read; `base` and `others` are the parts that are folded; `trust`
    lists all of them, the most trusted first.
    """

    def __init__(self, parts: Sequence[Topology]) -> None:
        of_rank = sorted(((part, part_of(part)) for part in parts), key=lambda p: rank_of(p[1]))
        self.source, base = _base(of_rank)
        others = [part for _, part in of_rank if part is not base]
        self.origin = _origin(base, [part for _, part in of_rank])
        self.doubts: list[str] = []
        first, joined = identified(base, others, self.doubts)
        labels = zip((d.id for d in first.devices), (d.id for d in base.devices), strict=True)
        known = fold(sorted([first, *joined], key=rank_of), tuple(labels))
        self.doubts += known.report
        known = _in_order(known, first)
        called = _names(known, first, base)
        names = {key: id for key, (id, _) in called.items()}
        self.base = base if is_whole(base) else renamed(first, names)
        others = [renamed(part, names) for part in joined]
        self.trust = sorted([self.base, *others], key=rank_of)
        self.known = _numbered(renamed(known, names), dict(called.values()), base)

    def facts(self, name: str) -> Topology:
        """The facts of all parts in one tree."""
        builder = draw(self.base, self.known)
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
        told = [device.index for device in known.devices[: len(base.devices)]]
        stated = [index for index in told if index is not None]
        if len(set(stated)) < len(told):
            stated = list(range(len(told)))
        found = {mine.id: (f"gpu{i}", i) for mine, i in zip(first.devices, stated, strict=True)}
        found |= {mine.id: (f"nic{i}", i) for i, mine in enumerate(first.nics)}
    taken = {index for id, index in found.values() if not id.startswith("nic")}
    taken |= {int(id[3:]) for id, _ in found.values() if id[:3] == "gpu" and id[3:].isdecimal()}
    for device in known.devices[len(base.devices) :]:
        free = device.index is not None and device.index not in taken
        index = device.index if free and device.index is not None else max(taken) + 1
        taken.add(index)
        found[device.id] = (f"gpu{index}", index)
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
