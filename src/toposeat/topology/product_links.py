"""Device links by product: how boards join devices, where no source tells it, and what may be.

What products settle is drawn (`with_inferred_links`); of the rest `groups_of` has the ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from msgspec import Struct

from toposeat.model.graph import components
from toposeat.model.path_class import DEVICE_LINKS
from toposeat.model.topology import Component, ComponentKind, Device, FactKind, Link, Pair, Topology
from toposeat.topology import constants as k
from toposeat.topology.graph.routes import rerouted
from toposeat.topology.products import Product, products_of
from toposeat.topology.untold import BY_PRODUCT, untold_pairs

if TYPE_CHECKING:
    from toposeat.topology.graph.graph_builder import GraphBuilder

_MODULES = 8  # so many in a node are on a board that joins them, unless a source says otherwise
_SETTLED = frozenset({"switch", "each", "as"})
_DRAWN = "device links are not known: drawn as "


def with_inferred_links(topology: Topology) -> Topology:
    """The machine with the device links that its products always have, where none are told.

    Facts stay facts; a whole machine is routed over them.
    """
    if FactKind.DEVICE_LINKS in topology.tells:
        return topology
    settled = [group for group in groups_of(topology) if group.is_settled]
    machine = topology
    for group in settled:
        product, way = group.ways[0]
        machine = _drawn(machine, group, product, way)
        note = f"{_DRAWN}{product.name} has them ({way})"
        machine = replace(machine, report=(*machine.report, note))
    return rerouted(machine) if settled and topology.routes else machine


def without_inferred_links(topology: Topology) -> Topology:
    """The machine with told links only."""
    bare = told_links(topology)
    return rerouted(bare) if bare is not topology and topology.routes else bare


def told_links(topology: Topology) -> Topology:
    """The facts of a machine with told links only; itself where no other is drawn."""
    kept = tuple(x for x in topology.links if not (x.told_by or "").startswith(BY_PRODUCT))
    if len(kept) == len(topology.links):
        return topology
    gone = {end for x in topology.links if x not in kept for end in x.ends}
    still = {end for link in kept for end in link.ends}
    return replace(
        topology,
        links=kept,
        components=tuple(
            c
            for c in topology.components
            if c.kind is not ComponentKind.NVSWITCH or c.id not in gone - still
        ),
        pairs=tuple(replace(p, path_class=p.path_class or p.pcie_class) for p in topology.pairs),
        report=tuple(line for line in topology.report if not line.startswith(_DRAWN)),
    )


def joined(
    topology: Topology,
    groups: Sequence[Group],
    ways: Sequence[tuple[Product, str] | None],
) -> Topology:
    """The machine with its told links and these."""
    machine = told_links(topology)
    for group, way in zip(groups, ways, strict=True):
        if way is not None:
            machine = _drawn(machine, group, *way)
    return rerouted(machine)


# ---- ways to join devices


class Group(Struct, frozen=True):
    """GPUs of one host and one product that no source tells the device links of."""

    devices: tuple[Device, ...]
    products: tuple[Product, ...]
    ways: tuple[tuple[Product, str], ...]  # how boards may join them, the usual first

    @property
    def is_settled(self) -> bool:
        """Whether every board of the product joins all of them, or numbers them alike.

        Of eight that may be modules it is taken for granted: no server has eight bridged cards
        whose bridges its sources hide more often.
        """
        words = {way.partition(" ")[0] for _, way in self.ways}
        if words and words <= _SETTLED and all(each.always for each, _ in self.ways):
            return True
        first = self.ways[0] if self.ways and len(self.devices) == _MODULES else None
        return first is not None and first[0].always and first[1] == "switch"


def groups_of(topology: Topology) -> list[Group]:
    """Untold pairs as groups in which every pair is untold."""
    untold = {frozenset(ends) for ends in untold_pairs(topology)}
    if not untold:
        return []
    kinds: dict[tuple[str, tuple[Product, ...]], list[Device]] = {}
    for device in topology.devices:
        if any(device.id in pair for pair in untold):
            kinds.setdefault((device.host, products_of(device)), []).append(device)
    return [
        Group(tuple(members), known, _ways(known, members))
        for (_, known), members in kinds.items()
        if len(members) > 1
        and all(frozenset((a.id, b.id)) in untold for a, b in combinations(members, 2))
    ]


def _ways(known: Sequence[Product], members: Sequence[Device]) -> tuple[tuple[Product, str], ...]:
    """How boards of the products may join so many devices; each way once."""
    found: dict[tuple[object, ...], tuple[Product, str]] = {}
    boards = len({device.parent or device.id for device in members})
    for number in range(max((len(each.ways) for each in known), default=0)):
        for product in known:
            for way in product.ways[number : number + 1]:
                if _can_join(product, way, boards, len(members)):
                    lanes = product.lanes if way == "switch" else 0
                    kind = (product.lane, way, lanes, product.always)
                    found.setdefault(kind, (product, way))
    return tuple(found.values())


def _can_join(product: Product, way: str, boards: int, devices: int) -> bool:
    word, _, what = way.partition(" ")
    if word == "each":
        return (boards - 1) * int(what) <= product.lanes
    if word in ("like", "as"):
        return len(_machine(what).devices) == devices
    return True


def fitting(rows: Sequence[Product], topology: Topology) -> list[Product]:
    """Those of which the device links that are drawn may be, some of them missing."""
    links = [link for link in topology.links if link.kind in DEVICE_LINKS]
    if not links:
        return [each for each in rows if not each.always]
    devices = {device.id for device in topology.devices}
    lanes = dict.fromkeys(devices, 0)
    for link in links:
        for end in devices.intersection(link.ends):
            lanes[end] += link.count
    direct = all(devices.issuperset(link.ends) for link in links)
    vertices = dict.fromkeys([*devices, *(end for link in links for end in link.ends)])
    parts = components(vertices, (link.ends for link in links))
    sizes = [len(part) for part in parts if len(part) > 1]
    return [
        each
        for each in rows
        if each.lane is not None
        and each.lane.kind is links[0].kind
        and max(lanes.values()) <= each.lanes
        and any(_fits_way(way, direct, sizes, links, len(devices)) for way in each.ways)
    ]


def _fits_way(
    way: str, direct: bool, sizes: Sequence[int], links: Sequence[Link], devices: int
) -> bool:
    word, _, what = way.partition(" ")
    if word == "bridge":
        return direct and max(sizes) <= int(what.partition("x")[0])
    if not direct or word == "switch":
        return word == "switch" and not direct
    if word == "each":
        complete = len(links) == devices * (devices - 1) // 2
        return complete and {link.count for link in links} <= {int(what)}
    if word == "some" or sizes != [devices]:
        return False
    of_board = [x.count for x in _machine(what).links if x.kind in DEVICE_LINKS]
    return sorted(of_board) == sorted(link.count for link in links)


# ---- drawing


def _drawn(topology: Topology, group: Group, product: Product, way: str) -> Topology:
    """The facts of the machine with the device links of one group."""
    word, _, what = way.partition(" ")
    if word in ("like", "as"):
        components, links, pairs = _of_machine(_machine(what), group.devices)
    else:
        from toposeat.topology.graph.graph_builder import GraphBuilder  # noqa: PLC0415 - 5 ms

        builder = GraphBuilder(host=group.devices[0].host)
        taken = {c.id for c in topology.components}
        _draw_way(builder, product, way, group.devices, taken)
        components, links, pairs = builder.components, builder.links, []
    ids = {device.id for device in group.devices}
    caps = {(pair.source, pair.target): pair for pair in pairs}
    told = {ends: _beyond_links(pair, ids) for ends, pair in topology.pair_of_ends.items()}
    for ends, pair in caps.items():
        base = told.get(ends, pair)
        told[ends] = replace(base, cap_bytes_per_s=base.cap_bytes_per_s or pair.cap_bytes_per_s)
    return replace(
        topology,
        devices=tuple(
            replace(d, forwards=True) if d.id in ids and product.forwards else d
            for d in topology.devices
        ),
        components=(*topology.components, *components),
        links=(
            *topology.links,
            *(replace(link, told_by=BY_PRODUCT + (product.name or "any")) for link in links),
        ),
        pairs=tuple(told.values()),
    )


def _draw_way(
    builder: GraphBuilder, product: Product, way: str, devices: Sequence[Device], taken: set[str]
) -> None:
    word, _, what = way.partition(" ")
    lane = product.lane
    assert lane is not None, f"{product.name} has no way to join"
    ends = _board_ends(builder, devices)
    if word == "switch":
        id = next(name for n in range(len(taken) + 1) if (name := f"nvswitch{n}") not in taken)
        builder.component(ComponentKind.NVSWITCH, id, name="NVSwitch fabric")
        for end in ends:
            builder.device_link(end, id, lane, product.lanes, port=True)
        return
    size, _, count = what.rpartition("x")  # "4x6": groups of four, six lanes; "6": one group
    members = int(size or len(ends))
    for first in range(0, len(ends), members):
        for a, b in combinations(ends[first : first + members], 2):
            builder.device_link(a, b, lane, int(count), port=False)


def _board_ends(builder: GraphBuilder, devices: Sequence[Device]) -> list[str]:
    """Where the links of each board end: at the device, or at the fabric of its parts."""
    from toposeat.topology.graph.kfd_graph import add_package  # noqa: PLC0415 - 5 ms

    boards: dict[str, list[str]] = {}
    for device in devices:
        boards.setdefault(device.parent or device.id, []).append(device.id)
    return [
        parts[0]
        if len(parts) == 1
        else add_package(builder, board, dict.fromkeys(parts, k.XGMI_IN_PACKAGE))
        for board, parts in boards.items()
    ]


@cache
def _machine(name: str) -> Topology:
    from toposeat.topology.catalogue import machine_path, read_machine_file  # noqa: PLC0415 - 12 ms

    path = machine_path(name)
    assert path is not None, f"the catalogue has no {name}"
    return read_machine_file(path)


def _of_machine(
    machine: Topology, devices: Sequence[Device]
) -> tuple[list[Component], list[Link], list[Pair]]:
    """The device links of a machine of the catalogue, between these devices in its order."""
    from toposeat.topology.merging.join import with_ends  # noqa: PLC0415 - 1 ms

    id_of = {mine.id: device.id for mine, device in zip(machine.devices, devices, strict=True)}
    switches = {c.id: c for c in machine.components if c.kind is ComponentKind.NVSWITCH}
    name = {**id_of, **{id: id for id in switches}}
    links = [
        with_ends(link, name[link.ends[0]], name[link.ends[1]])
        for link in machine.links
        if link.kind in DEVICE_LINKS and name.keys() >= {*link.ends}
    ]
    pairs = [
        replace(pair, source=id_of[pair.source], target=id_of[pair.target])
        for pair in machine.pairs
        if pair.cap_bytes_per_s is not None and id_of.keys() >= {pair.source, pair.target}
    ]
    return [replace(c, host=devices[0].host) for c in switches.values()], links, pairs


def _beyond_links(pair: Pair, ids: Iterable[str]) -> Pair:
    """The facts of a pair without the class of its PCIe path, as device links now join it."""
    if not {*ids} >= {pair.source, pair.target}:
        return pair
    return replace(pair, path_class=None, pcie_class=pair.pcie_class or pair.path_class)
