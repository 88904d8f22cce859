"""The facts that a machine's sources leave open, each with the choices that its parts allow.

Facts are device links that products leave open (`product_links`), the product, the processor, peer
access, NCCL's transport and memory nodes per socket. A choice brings with it what goes together.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from toposeat.model.open_fact import PCIE_PREMISE, Choice, Fact
from toposeat.model.quantity import is_of_this_machine
from toposeat.model.route import Route
from toposeat.model.topology import ComponentKind, FactKind, PathClass, Topology, Vendor
from toposeat.model.transport import NCCL_IS_SET
from toposeat.topology import constants as k
from toposeat.topology.graph.rates import (
    NCCL_TRANSPORT,
    NODES_PER_SOCKET,
    family_of_machine,
    generation_of,
)
from toposeat.topology.graph.routes import with_peer_access
from toposeat.topology.graph.staged_routes import with_nccl_copies
from toposeat.topology.premises import LANE_PREMISE
from toposeat.topology.processors import families, unknown
from toposeat.topology.products import Product, products, products_named
from toposeat.topology.untold import untold_pairs

_LEAST_NODES = 3  # that are drawn: two are two sockets on nearly all machines
_NODES = (2, 4)  # that a socket may have
_MOST_WAYS = 8  # how GPUs of one product may be joined
_OWN_LINKS = ("POWER8", "POWER9", "Grace")  # they join GPUs by links of their own: always told
_OTHERS = (Vendor.AMD, Vendor.INTEL)
_ONE_SOCKET = ("Threadripper", "desktop")
# What tells it on NVIDIA's machines, and on others: outputs that are read.
_NAMES = ("nvidia-smi -L", "lspci -tv")
_GENERATION = (
    "nvidia-smi --query-gpu=name,pci.bus_id,pcie.link.gen.max --format=csv",
    "sudo lspci -vv",
)


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
            _nodes_per_socket(topology),
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
    several = bool(topology.between_sockets)
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
    return Fact(what="the processor", settle="lscpu", choices=tuple(choices), is_between=True)


def _nodes_per_socket(topology: Topology) -> Fact | None:
    """How many memory nodes a socket has, where more than two nodes are told, and no sockets.

    What was measured of pairs is of one wiring.
    """
    nodes = [c for c in topology.components if c.kind is ComponentKind.NUMA]
    if len(nodes) < _LEAST_NODES or len(topology.hosts) > 1:
        return None
    # most machines need none
    from toposeat.topology.merging.layout import nodes_as_sockets  # noqa: PLC0415
    from toposeat.topology.merging.layout import with_nodes_per_socket as draw  # noqa: PLC0415

    numbers = nodes_as_sockets(topology.components, topology.links).values()
    blocks = {(number or 0) // max(_NODES) for number in numbers}
    is_measured = any(is_of_this_machine(x.cap_bytes_per_s) for x in _between_devices(topology))
    is_told = is_measured or NODES_PER_SOCKET in topology.metadata
    if is_told or not numbers or len(blocks) == len(numbers):
        return None
    return Fact(
        what="memory nodes per socket",
        settle="lscpu",
        choices=(
            Choice(name="one memory node per socket"),
            *(
                Choice(name=f"{n} memory nodes per socket", draw=partial(draw, count=n))
                for n in _NODES
            ),
        ),
    )


def _peer_access(topology: Topology) -> Fact | None:
    """Whether the driver copies directly, where only the product says that it does not."""
    if not any(
        route.staged and route.peer_access is None and not is_of_this_machine(route.cap_bytes_per_s)
        for route in _between_devices(topology)
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
    from toposeat.topology.product_links import fitting  # noqa: PLC0415 - told machines need none

    vendors = {device.vendor for device in topology.devices}
    named = dict.fromkeys(p for device in topology.devices for p in products_named(device.name))
    rows = [x for x in named or products() if x.name and x.vendor in vendors and x.pcie]
    own = {} if lane is None else {LANE_PREMISE: lane.nominal}
    own |= {} if pcie is None else {PCIE_PREMISE: pcie.nominal}
    may_be_staged = not named and _has_untold_peers(topology)
    found: dict[tuple[tuple[tuple[str, float], ...], bool], list[str]] = {}
    found[tuple(own.items()), False] = []
    for each in fitting(rows, topology):
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
        settle=(_GENERATION if named else _NAMES)[min(vendors) in _OTHERS],
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
    return not topology.numbers and any(
        route.ring_bytes_per_s is not None and route.peer_access is None
        for route in _between_devices(topology)
    )


def _between_devices(topology: Topology) -> list[Route]:
    devices = {device.id for device in topology.devices}
    return [each for each in topology.routes if devices.issuperset((each.source, each.target))]


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


def _links(topology: Topology) -> Fact | None:
    """Whether device links join GPUs of which no source tells, and in which way."""
    if FactKind.DEVICE_LINKS in topology.tells and not untold_pairs(topology):
        return None
    from toposeat.topology import product_links  # noqa: PLC0415 - told machines need none

    bare = product_links.told_links(topology)
    groups = product_links.groups_of(bare)
    if not any(group.ways for group in groups):
        return None
    is_drawn = bare is not topology
    most = max(len(group.ways) for group in groups)
    product, way = max(groups, key=lambda group: len(group.ways)).ways[0]
    nominal = _name_of_way(product, way) if is_drawn else "no device links"
    choices = [Choice(name=nominal)]
    if is_drawn and not all(each.always for group in groups for each in group.products):
        choices.append(
            Choice(name="cards without links", draw=product_links.without_inferred_links)
        )
    for number in range(1 if is_drawn else 0, min(most, _MOST_WAYS)):
        way_of = [g.ways[min(number, len(g.ways) - 1)] if g.ways else None for g in groups]
        named = next(each for each in way_of if each is not None)
        draw = partial(product_links.joined, groups=tuple(groups), ways=tuple(way_of))
        choices.append(Choice(name=_name_of_way(*named), draw=draw))
    return Fact(
        what="which device links join the GPUs",
        settle=_NAMES[groups[0].devices[0].vendor in _OTHERS],
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
