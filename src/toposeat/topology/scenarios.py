"""The facts that a machine's sources leave open, each with the choices that its parts allow.

What products settle of device links is drawn; what they leave open is a fact, like the processor,
peer access and NCCL's transport. A choice brings with it all that goes together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from typing import TYPE_CHECKING

from msgspec import Struct

from toposeat.model.graph import components
from toposeat.model.open_fact import PCIE_PREMISE, Choice, Fact
from toposeat.model.quantity import is_of_this_machine
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    FactKind,
    Link,
    Pair,
    PathClass,
    Topology,
    Vendor,
)
from toposeat.model.transport import NCCL_IS_SET
from toposeat.topology import constants as k
from toposeat.topology.graph.rates import (
    NCCL_TRANSPORT,
    between_sockets,
    family_of_machine,
    generation_of,
)
from toposeat.topology.graph.routes import DEVICE_LINKS, rerouted, with_peer_access
from toposeat.topology.graph.staged_routes import with_nccl_copies
from toposeat.topology.premises import LANE_PREMISE
from toposeat.topology.processors import families, unknown
from toposeat.topology.products import Product, products, products_named, products_of
from toposeat.topology.untold import BY_PRODUCT, untold_pairs

if TYPE_CHECKING:
    from toposeat.topology.graph.graph_builder import GraphBuilder

_MOST_WAYS = 8  # how GPUs of one product may be joined
_MODULES = 8  # so many in a node are on a board that joins them, unless a source says otherwise
_SETTLED = ("switch", "each", "as")
_DRAWN = "device links are not known: drawn as "
_OWN_LINKS = ("POWER8", "POWER9", "Grace")  # they join GPUs by links of their own: always told
_ONE_SOCKET = ("Threadripper", "desktop")
_NAMES = {
    Vendor.NVIDIA: "nvidia-smi -L",
    Vendor.AMD: "amd-smi static --asic",
    Vendor.INTEL: "xpu-smi discovery",
}
_GENERATION = "nvidia-smi --query-gpu=name,pci.bus_id,pcie.link.gen.max --format=csv"


def facts_of(topology: Topology) -> tuple[Fact, ...]:
    """The open facts of a machine; none of a told one."""
    return tuple(
        fact
        for fact in (
            _links(topology),
            _product(topology),
            _processor(topology),
            _peer_access(topology),
            _nccl(topology),
        )
        if fact is not None and len(fact.choices) > 1
    )


# ---- processors and copies


def _processor(topology: Topology) -> Fact | None:
    """The families of processors that may hold such cards, where none is told."""
    generation = generation_of(topology)
    mine = family_of_machine(topology)
    open_numbers = {premise.what for premise in topology.premises}
    if mine.name != unknown().name or not open_numbers & {p.what for p in mine.numbers.values()}:
        return None
    several = bool(between_sockets(topology))
    is_open = PCIE_PREMISE in open_numbers
    nominal = {p.what: p.nominal for p in mine.numbers.values()}
    choices = [Choice(name="a processor in the middle", values=nominal)]
    for family in families():
        apart = (family.pcie or generation) - generation
        if not (-1 if is_open else 0) <= apart <= 1 or family.name in _OWN_LINKS:
            continue
        if several and family.name.startswith(_ONE_SOCKET):
            continue
        values = {p.what: p.nominal for p in family.numbers.values()}
        if is_open and family.pcie:
            values[PCIE_PREMISE] = k.pcie_bytes_per_s(family.pcie) / k.GB_PER_S
        choices.append(Choice(name=family.name, values=values))
    return Fact(what="the processor", settle="lscpu", choices=tuple(choices))


def _peer_access(topology: Topology) -> Fact | None:
    """Whether the driver copies directly, where only the product says that it does not."""
    devices = {device.id for device in topology.devices}
    if not any(
        route.staged and route.peer_access is None and not is_of_this_machine(route.cap_bytes_per_s)
        for route in topology.routes
        if devices.issuperset((route.source, route.target))
    ):
        return None
    return Fact(
        what="whether the driver gives peer access",
        settle="nvidia-smi topo -p2p r",
        choices=(
            Choice(name="copies staged in host memory"),
            Choice(name="copies direct", draw=partial(with_peer_access, peer_access=True)),
        ),
    )


def _nccl(topology: Topology) -> Fact | None:
    """Whether NCCL stages what the driver would copy directly."""
    rings = (route.ring_bytes_per_s for route in topology.routes)
    if not any(ring and NCCL_TRANSPORT in ring.premises for ring in rings):
        return None
    return Fact(
        what="whether NCCL copies directly",
        settle="toposeat measure",
        of_groups=True,
        choices=(
            Choice(name="NCCL direct", values={NCCL_TRANSPORT: 1.0}),
            Choice(name="NCCL staged", draw=_staged_by_nccl, values={NCCL_TRANSPORT: 1.0}),
        ),
    )


def _staged_by_nccl(topology: Topology) -> Topology:
    """The machine where NCCL stages all that crosses a host bridge, as it does by itself."""
    staged = with_nccl_copies(topology, frozenset({PathClass.PIX, PathClass.PXB}))
    metadata = {name: text for name, text in staged.metadata.items() if name != NCCL_IS_SET}
    return replace(staged, metadata=metadata)


# ---- products of which the links are told


def _product(topology: Topology) -> Fact | None:
    """What a product without a name may be, by the links that are told; it brings PCIe with it."""
    premise = {p.what: p for p in topology.premises}
    lane, pcie = premise.get(LANE_PREMISE), premise.get(PCIE_PREMISE)
    if lane is None and pcie is None:
        return None
    vendors = {device.vendor for device in topology.devices}
    named = dict.fromkeys(p for device in topology.devices for p in products_named(device.name))
    rows = [
        each
        for each in (named or products())
        if each.name and each.vendor in vendors and each.pcie and _fits(each, topology)
    ]
    own = {} if lane is None else {LANE_PREMISE: lane.nominal}
    own |= {} if pcie is None else {PCIE_PREMISE: pcie.nominal}
    may_be_staged = not named and _has_untold_peers(topology)
    found: dict[tuple[tuple[tuple[str, float], ...], bool], list[str]] = {}
    found[tuple(own.items()), False] = []
    for each in rows:
        values = {}
        if lane is not None and each.lane is not None:
            values[LANE_PREMISE] = each.lane.data_sheet / k.GB_PER_S
        if pcie is not None and each.pcie is not None:
            values[PCIE_PREMISE] = k.pcie_bytes_per_s(each.pcie) / k.GB_PER_S
        for is_staged in (False, True) if may_be_staged and each.geforce else (False,):
            found.setdefault((tuple(values.items()), is_staged), []).append(each.name)
    staged = partial(with_peer_access, peer_access=False)
    return Fact(
        what="the PCIe generation" if named else "the product",
        settle=_GENERATION if named else _NAMES.get(min(vendors), _NAMES[Vendor.NVIDIA]),
        choices=tuple(
            Choice(
                name=_name_of_product(dict(values), names, lane is None, is_staged),
                draw=staged if is_staged else None,
                values=dict(values),
            )
            for (values, is_staged), names in found.items()
        ),
    )


def _has_untold_peers(topology: Topology) -> bool:
    """Whether GeForce cards would have copies over PCIe staged: nothing is told of peer access."""
    devices = {device.id for device in topology.devices}
    return not topology.numbers and any(
        route.ring_bytes_per_s is not None and route.peer_access is None
        for route in topology.routes
        if devices.issuperset((route.source, route.target))
    )


def _name_of_product(
    values: dict[str, float], names: list[str], of_generation: bool, is_staged: bool
) -> str:
    """`A30, PCIe 4`, or of cards without links `PCIe 4 GeForce, copies staged`."""
    rate = values.get(PCIE_PREMISE, 0.0) * k.GB_PER_S
    words = [f"PCIe {g}" for g, each in k.PCIE_X16.items() if each == rate]
    if not of_generation:
        first = names[0].partition(" ")[2] if names else "links as drawn"
        words.insert(0, first + (" and alike" if len(names) > 1 else ""))
    return ", ".join(words) + (" GeForce, copies staged" if is_staged else "")


def _fits(product: Product, topology: Topology) -> bool:
    """Whether the device links that are drawn may be of this product, some of them missing."""
    links = [link for link in topology.links if link.kind in DEVICE_LINKS]
    if not links:
        return not product.always
    lane = product.lane
    devices = {device.id for device in topology.devices}
    lanes = dict.fromkeys(devices, 0)
    for link in links:
        for end in devices.intersection(link.ends):
            lanes[end] += link.count
    if lane is None or lane.kind is not links[0].kind or max(lanes.values()) > product.lanes:
        return False
    direct = all(devices.issuperset(link.ends) for link in links)
    vertices = [*devices, *(end for link in links for end in link.ends if end not in devices)]
    parts = components(dict.fromkeys(vertices), (link.ends for link in links))
    sizes = [len(part) for part in parts if len(part) > 1]
    return any(_fits_way(way, direct, sizes, links, len(devices)) for way in product.ways)


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


# ---- device links that no source tells


class _Group(Struct, frozen=True):
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
        if words and words <= {*_SETTLED} and all(each.always for each, _ in self.ways):
            return True
        first = self.ways[0] if self.ways and len(self.devices) == _MODULES else None
        return first is not None and first[0].always and first[1] == "switch"


def with_inferred_links(topology: Topology) -> Topology:
    """The machine with the device links that its products always have, where none are told.

    Facts stay facts; a whole machine is routed over them.
    """
    if FactKind.DEVICE_LINKS in topology.tells:
        return topology
    settled = [group for group in _groups(topology) if group.is_settled]
    machine = topology
    for group in settled:
        product, way = group.ways[0]
        machine = _drawn(machine, group, product, way)
        note = f"{_DRAWN}{product.name} has them ({way})"
        machine = replace(machine, report=(*machine.report, note))
    return rerouted(machine) if settled and topology.routes else machine


def without_inferred_links(topology: Topology) -> Topology:
    """The machine with told links only."""
    bare = _told_links(topology)
    return rerouted(bare) if bare is not topology and topology.routes else bare


def _told_links(topology: Topology) -> Topology:
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


def _links(topology: Topology) -> Fact | None:
    """Whether device links join GPUs of which no source tells, and in which way."""
    bare = _told_links(topology)
    groups = _groups(bare)
    if not any(group.ways for group in groups):
        return None
    is_drawn = bare is not topology
    most = max(len(group.ways) for group in groups)
    product, way = max(groups, key=lambda group: len(group.ways)).ways[0]
    nominal = _name_of_way(product, way) if is_drawn else "no device links"
    choices = [Choice(name=nominal)]
    if is_drawn and not all(each.always for group in groups for each in group.products):
        choices.append(Choice(name="cards without links", draw=without_inferred_links))
    for number in range(1 if is_drawn else 0, min(most, _MOST_WAYS)):
        way_of = [g.ways[min(number, len(g.ways) - 1)] if g.ways else None for g in groups]
        named = next(each for each in way_of if each is not None)
        draw = partial(_joined, groups=tuple(groups), ways=tuple(way_of))
        choices.append(Choice(name=_name_of_way(*named), draw=draw))
    vendor = groups[0].devices[0].vendor
    return Fact(
        what="which device links join the GPUs",
        settle=_NAMES.get(vendor, _NAMES[Vendor.NVIDIA]),
        choices=tuple(choices),
    )


def _name_of_way(product: Product, way: str) -> str:
    """`H100 SXM5 on a switch`, `H200 NVL bridges of 4`."""
    word, _, what = way.partition(" ")
    name = product.name.partition(" ")[2] or "GPUs"
    size = what.rpartition("x")[0]
    forms = {
        "switch": "on a switch",
        "each": "each joined to each",
        "some": "joined two by two",
        "bridge": f"with bridges of {size or 'all'}",
    }
    return f"{name} {forms.get(word, f'wired as {what}')}"


def _joined(
    topology: Topology,
    groups: Sequence[_Group],
    ways: Sequence[tuple[Product, str] | None],
) -> Topology:
    """The machine with its told links and these."""
    machine = _told_links(topology)
    for group, way in zip(groups, ways, strict=True):
        if way is not None:
            machine = _drawn(machine, group, *way)
    return rerouted(machine)


def _groups(topology: Topology) -> list[_Group]:
    """Untold pairs as groups in which every pair is untold."""
    untold = {frozenset(ends) for ends in untold_pairs(topology)}
    if not untold:
        return []
    kinds: dict[tuple[str, tuple[Product, ...]], list[Device]] = {}
    for device in topology.devices:
        if any(device.id in pair for pair in untold):
            kinds.setdefault((device.host, products_of(device)), []).append(device)
    return [
        _Group(tuple(members), known, _ways(known, members))
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


# ---- drawing


def _drawn(topology: Topology, group: _Group, product: Product, way: str) -> Topology:
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
