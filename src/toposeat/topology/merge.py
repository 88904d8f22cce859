"""Merges sources of one machine into a topology, each fact from the source that knows it best.

Precedence: measured > driver's link level > NCCL XML > hwloc > text matrix. All sources are folded
into one partial topology; the most complete graph is the base, or what tables tell is drawn; bonds
are chosen, routes derived, and measured numbers laid on them. Every contradiction between sources
is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from toposeat.errors import InputError
from toposeat.model.topology import FactKind, Pair, Route, Topology
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.routes import with_direct_routes
from toposeat.topology.graph.staged_routes import with_staged_routes
from toposeat.topology.merging.bonds import Bonds, bonds_of, choose_bonds, redraw_bonds
from toposeat.topology.merging.drawing import draw
from toposeat.topology.merging.fold import fold, identified
from toposeat.topology.merging.lanes import apply_lane_states
from toposeat.topology.merging.nics import draw_nics
from toposeat.topology.merging.numbers import Matrix
from toposeat.topology.merging.overlay import (
    HostMatrix,
    Numbered,
    lay_host_numbers,
    lay_pair_numbers,
)
from toposeat.topology.merging.part import Rank, part_of, rank_of
from toposeat.topology.merging.renamed import renamed
from toposeat.topology.readings import without_inferred_links
from toposeat.topology.told import (
    is_whole,
    makes_machine,
    tells_bonds,
    tells_paths,
)

_HINT = "give what lists the machine's links as well: nvidia-smi topo -m, hwloc or NCCL XML"


def merge_topologies(parts: Sequence[Topology], name: str) -> Topology:
    """One machine from all that several sources know of it.

    Devices are joined by PCI bus id, else by UUID, else by index where the counts agree (which the
    report says). No device of any source is lost and no number is made up: a pair that nobody
    measured keeps its nominal number, and the report counts such pairs.

    Args:
        parts: at least one, whole or partial. Their order matters only between sources of one kind,
            of which the first is believed.
        name: of the machine.

    Raises:
        InputError: none of the sources says how devices are connected, or they cannot be of one
            machine.
        ValueError: no source at all, or one of several hosts.
    """
    if not parts:
        raise ValueError("nothing to merge")
    if len(parts) == 1 and is_whole(parts[0]):
        return replace(parts[0], name=name)
    if any(FactKind.DEVICE_LINKS in part.tells or tells_bonds(part) for part in parts):
        parts = [without_inferred_links(part) for part in parts]
    return _Merge(parts).machine(name)


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

    def machine(self, name: str) -> Topology:
        """The whole machine."""
        builder = draw(self.base, self.known)
        builder.report += self.doubts
        builder.premises += [each for part in self.trust for each in part.premises]
        drawn = draw_nics(builder, self.known)
        self._draw_bonds(builder)
        builder.pairs = self._pairs(builder, drawn)
        routed = self._with_known_routes(
            with_direct_routes(builder.topology(name=name, origin=self.origin))
        )
        whole = self._with_numbers(with_staged_routes(routed))
        report = [*whole.report]
        for part in self.trust:
            if part is not self.base:
                report += part.report
        return replace(
            whole,
            description=self.source.description,
            sources=self.source.sources,
            hidden=self.source.hidden,
            report=tuple(dict.fromkeys(report)),
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
            if any(getattr(kept, member) is not None for member in _MEMBERS):
                pairs.append(kept)
        return pairs

    def _with_known_routes(self, machine: Topology) -> Topology:
        """Pairs of the base keep their routes, unless its links are drawn anew.

        Then only pairs whose shortest links are the same as before keep theirs.
        """
        if not is_whole(self.source):
            return machine
        before = self.source.route_of_pair
        known = {(link.id, link.ends) for link in self.source.links}
        old = {end for link in self.source.links for end in link.ends}
        now = {(link.id, link.ends) for link in machine.links if old >= set(link.ends)}
        carries = {link.id: link.flow_bytes_per_s for link in self.source.links}
        down = {x.id for x in machine.links if x.flow_bytes_per_s != carries.get(x.id)}
        routes = []
        for route in machine.routes:
            own = before.get((route.source, route.target))
            same = own is not None and (own.links == route.links or own.staged or now == known)
            narrower = own is not None and own.links == route.links and down & {*route.links}
            routes.append(
                _kept(route, own, narrower=bool(narrower)) if own is not None and same else route
            )
        return replace(machine, routes=tuple(routes))

    def _with_numbers(self, machine: Topology) -> Topology:
        first = [part for part in self.trust if not is_whole(part)]
        then = [part for part in self.trust if is_whole(part)]
        order = [device.id for device in machine.devices]
        matrices = [
            Matrix(part.origin, each.of(order)) for part in (*first, *then) for each in part.numbers
        ]
        hosts = [HostMatrix(p.origin, p.host_copies) for p in self.trust if p.host_copies]
        numbered = Numbered.of(machine)
        lay_host_numbers(numbered, hosts)
        lay_pair_numbers(numbered, matrices)
        told = machine.pair_of_ends
        for ends, route in numbered.routes.items():  # pairs that only numbers join are routed now
            access = told[ends].peer_access if ends in told else None
            if access is not None and route.peer_access is not access:
                numbered.routes[ends] = replace(route, peer_access=access)
        return numbered.topology()


_MEMBERS = tuple(
    each.name for each in fields(Pair) if each.name not in ("source", "target", "told_by")
)


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
    labels = {} if is_whole(base) else {f"nic{i}": nic.id for i, nic in enumerate(base.nics)}
    return replace(
        known,
        devices=tuple(replace(d, index=index_of[d.id], host=host) for d in known.devices),
        nics=tuple(
            replace(n, index=index_of.get(n.id), host=host, name=n.name or labels.get(n.id, ""))
            for n in known.nics
        ),
    )


def _bond_rank(part: Topology) -> tuple[bool, Rank]:
    """Links that tables list are from a driver, whatever else is in the file."""
    return (not (tells_bonds(part) or rank_of(part) is Rank.DRIVER), rank_of(part))


def _kept(route: Route, before: Route, *, narrower: bool) -> Route:
    """The route as it was, with what is now told of peer access and of lanes that are down."""
    cap = before.cap_bytes_per_s
    if narrower and (cap is None or cap.source is cap.source.NOMINAL):
        cap = route.cap_bytes_per_s or cap
    return replace(
        before,
        cap_bytes_per_s=cap,
        peer_access=before.peer_access if route.peer_access is None else route.peer_access,
    )
