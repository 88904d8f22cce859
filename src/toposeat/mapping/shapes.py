"""Large machines described by one line of text instead of a list of devices.

    hierarchy:4:8:128        4 devices per group, 8 groups per node, 128 nodes
    fattree:8:16:32:4        8 devices per node, 16 nodes per leaf, 32 leaves per pod, 4 pods
    torus3d:8x8x16,nodes=2   routers of a torus (torus2d to torus4d), 2 nodes on each
    dragonfly:9:16:4:4       groups, routers per group, nodes per router, devices per node

Options after a comma, lists with `:`. Bandwidths are GB/s (10^9) per direction, latencies us.

    bandwidth=   hierarchy, fattree: of one unit's uplink, from the device up; torus: of a link
                 along each dimension; dragonfly: device, node, local link, global link
    latency=     hierarchy, fattree: of a message that crosses each level; torus: leaving the
                 node, and each hop; dragonfly: leaving the node, a local hop, a global hop
    costs=       hierarchy, fattree: of a byte between two devices whose common unit is of each
                 level; dragonfly: on a node, on a router, more per local and per global hop
    hosts=FILE   names of the nodes, one a line, in the machine's order

    fattree      taper=2: the uplinks of a switch carry half of what enters it from below;
                 rails=8, rails=8:only: a leaf switch for each NIC of a host (with --node only)
                 domain=18: NVLink joins each 18 hosts (with --node only)
    hierarchy    node=L: how many levels make a node (all but the last)
    torus        nodes=N per router, devices=N per node, node-bandwidth=, device-bandwidth=,
                 ends=open: no links around the ends (an allocation within a larger torus)

Defaults follow from what is given: a cost is seconds per byte relative to the cheapest pair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from toposeat import _core
from toposeat.errors import UsageError
from toposeat.mapping.fabric import Fabric
from toposeat.mapping.host_groups import (
    HostGroups,
    groups_of_dragonfly,
    groups_of_planes,
    groups_of_units,
)
from toposeat.mapping.link_levels import Level, LinkLevels
from toposeat.model.record import Record
from toposeat.model.shape_text import MAX_SLOTS, SHAPE_HINT, ShapeText, is_shape, parse_shape
from toposeat.model.topology import Topology

_GB = 1e9
_DEVICE_GBS = 25.0
_LINK_GBS = 10.0


class Shape(Record, frozen=True, kw_only=True):
    """A large machine: the compiled form, and how its slots are dealt to hosts."""

    text: str
    machine: _core.LargeMachine
    slots_per_host: int
    hosts: tuple[str, ...]
    words: str  # "128 nodes of 8 groups of 4 devices"
    link_levels: Callable[[], LinkLevels]  # of the machine's links, made when asked for
    host_groups: Callable[[], HostGroups]  # likewise
    node: Topology | None = None  # what is inside each host, where it is known
    nic_of_device: tuple[int, ...] = ()  # with `node`: the number of each device's adapter
    domain_of_host: tuple[int, ...] = ()  # where a fabric of their own joins hosts
    fabric: Fabric | None = None  # with `domain_of_host`
    rails_apart: str = ""  # "forwarded" or "refused": what NCCL does where no switch joins rails
    notes: tuple[str, ...] = ()  # what had to be assumed

    @property
    def slots(self) -> int:
        """How many ranks fit."""
        return self.machine.slots


def read_shape(text: str) -> Shape:
    """The machine that a shape string describes; see the module's text for the forms."""
    request = parse_shape(text)
    for name in {"rails", "domain"} & set(request.options):
        raise UsageError(
            f"{text!r}: {name}= is of what is inside a node", hint="name the node: --node SRC"
        )
    try:
        shape = _KINDS[request.kind](request)
    except ValueError as error:  # what only the core checks
        raise UsageError(f"{text!r}: {error}", hint=SHAPE_HINT) from error
    request.finish()
    return shape


def _hierarchy(request: ShapeText) -> Shape:
    levels = len(request.sizes)
    costs = request.numbers("costs", levels, [])
    given = "bandwidth" in request.options
    # The uplink of a unit carries what its devices could send at the level's own cost.
    below = [prod(request.sizes[:level]) for level in range(levels)]
    assumed = costs or [10.0**level for level in range(levels)]
    shares = [
        min(1e9, max(1e-9, _DEVICE_GBS * units * max(assumed[0], 1e-9) / max(cost, 1e-9)))
        for units, cost in zip(below, assumed, strict=True)
    ]
    bandwidths = request.bandwidths("bandwidth", levels, shares)
    if not costs:
        costs = _costs_of(below, bandwidths) if given else assumed
    node = request.count("node", max(1, levels - 1), levels)
    names = ["device uplinks", *(f"level {level} uplinks" for level in range(1, levels))]
    latencies = request.latencies(levels, [1.0] * levels)
    return _nested(request, costs, bandwidths, latencies, node_levels=node, names=names)


def _fat_tree(request: ShapeText) -> Shape:
    levels = len(request.sizes)
    if levels < 2:
        raise request.error("a fat tree has devices per node, nodes per leaf, and more above")
    below = [prod(request.sizes[:level]) for level in range(levels)]
    # Full bisection: above the node, every uplink carries what all nodes below it can send.
    node_gbs = _DEVICE_GBS
    taper = request.taper()
    full = [_DEVICE_GBS] + [
        node_gbs * units / below[1] / taper**level for level, units in enumerate(below[1:])
    ]
    bandwidths = request.bandwidths("bandwidth", levels, full)
    costs = request.numbers("costs", levels, [])
    if not costs:
        # More links cost more even where none is scarce: one step per switch level.
        costs = [c + 0.5 * level for level, c in enumerate(_costs_of(below, bandwidths))]
    default_us = [1.0] + [1.0 + 0.5 * level for level in range(1, levels)]
    names = ["device uplinks", "node uplinks", "leaf uplinks"]
    names += [f"level {level} uplinks" for level in range(3, levels)]
    latencies = request.latencies(levels, default_us)
    return _nested(request, costs, bandwidths, latencies, node_levels=1, names=names)


def _costs_of(devices_below: Sequence[int], bandwidths: Sequence[float]) -> list[float]:
    """Seconds per byte along the uplinks, each shared by the devices below it; the lowest is 1."""
    costs = []
    total = 0.0
    for devices, bandwidth in zip(devices_below, bandwidths, strict=True):
        total += devices / bandwidth
        costs.append(total)
    return [cost / costs[0] for cost in costs]


def _nested(
    request: ShapeText,
    costs: list[float],
    bandwidths: list[float],
    latencies: list[float],
    *,
    node_levels: int,
    names: Sequence[str],
) -> Shape:
    machine = _core.LargeMachine.hierarchy(list(request.sizes), costs, bandwidths, latencies)
    per_host = prod(request.sizes[:node_levels])
    count = machine.slots // per_host
    words = f"{count} nodes of {per_host} devices"
    runs = [
        ([Level(name=names[level])], 2 * (machine.slots // prod(request.sizes[:level])))
        for level in range(len(request.sizes))
    ]
    return Shape(
        text=request.text,
        machine=machine,
        slots_per_host=per_host,
        hosts=request.hosts(count),
        words=words,
        link_levels=partial(LinkLevels.of_runs, runs),
        host_groups=partial(groups_of_units, request.sizes, node_levels),
    )


def _torus(request: ShapeText) -> Shape:
    dimensions = int(request.kind[5])
    if len(request.sizes) != dimensions:
        raise request.error(f"{request.kind} has {dimensions} sizes, got {len(request.sizes)}")
    nodes = request.count("nodes", 1, MAX_SLOTS)
    devices = request.count("devices", 1, MAX_SLOTS)
    if prod(request.sizes) * nodes * devices > MAX_SLOTS:
        raise request.error(f"more than {MAX_SLOTS} slots")
    links = request.bandwidths("bandwidth", dimensions, [_LINK_GBS] * dimensions)
    (node,) = request.bandwidths("node-bandwidth", 1, [max(links) / _GB])
    (device,) = request.bandwidths("device-bandwidth", 1, [max(_DEVICE_GBS, node / _GB)])
    leave, hop = request.latencies(2, [1.0, 0.1])
    ends = request.options.pop("ends", "joined")
    if ends not in ("joined", "open"):
        raise request.error(f"ends must be joined or open, got {ends[:30]!r}")
    fastest = max(links)
    machine = _core.LargeMachine.torus(
        extents=list(request.sizes),
        nodes_per_router=nodes,
        devices_per_node=devices,
        node_cost=fastest / device,
        router_cost=fastest / device + fastest / node,
        step_cost=[fastest / link for link in links],
        device_bandwidth=device,
        node_bandwidth=node,
        step_bandwidth=links,
        node_latency=leave,
        step_latency=hop,
        open=ends == "open",
    )
    count = machine.slots // devices
    grid = "torus" if ends == "joined" else "open mesh"
    extents = "x".join(map(str, request.sizes))
    both_ways = [Level(name=f"{name} links") for name in "XYZW"[:dimensions] for _ in range(2)]
    runs = [(both_ways, prod(request.sizes)), *_below_routers(machine.slots, count)]
    return Shape(
        text=request.text,
        machine=machine,
        slots_per_host=devices,
        hosts=request.hosts(count),
        host_groups=partial(groups_of_planes, request.sizes, nodes, machine.links - 2 * count),
        words=f"{extents} {grid}, {nodes} nodes per router, {devices} devices per node",
        link_levels=partial(LinkLevels.of_runs, runs),
    )


def _dragonfly(request: ShapeText) -> Shape:
    if len(request.sizes) not in (3, 4):
        raise request.error("a dragonfly has groups, routers, nodes and perhaps devices per node")
    groups, routers, nodes, devices = (*request.sizes, 1)[:4]
    default = [_DEVICE_GBS, _DEVICE_GBS, _DEVICE_GBS, _DEVICE_GBS]
    bandwidths = request.bandwidths("bandwidth", 4, default)
    device, node, local, remote = bandwidths
    costs = request.numbers("costs", 4, [1.0, 1 + device / node, device / local, device / remote])
    machine = _core.LargeMachine.dragonfly(
        sizes=[groups, routers, nodes, devices],
        costs=costs,
        bandwidths=bandwidths,
        latencies=request.latencies(3, [1.0, 0.2, 0.5]),
    )
    among = [
        ([Level(name="local links")], groups * routers * routers),
        ([Level(name="global links")], groups * groups),
    ]
    below = _below_routers(machine.slots, machine.slots // devices)
    return Shape(
        text=request.text,
        machine=machine,
        slots_per_host=devices,
        hosts=request.hosts(machine.slots // devices),
        link_levels=partial(LinkLevels.of_runs, [*among, *below]),
        host_groups=partial(
            groups_of_dragonfly,
            groups,
            machine.slots // devices,
            groups * routers * routers,
            machine.links - 2 * (machine.slots // devices),
        ),
        words=f"dragonfly of {groups} groups of {routers} routers, {nodes} nodes per router,"
        f" {devices} devices per node",
    )


def _below_routers(slots: int, nodes: int) -> list[tuple[list[Level], int]]:
    """The links of slots and of nodes, in the core's order (node_links.hpp)."""
    return [([Level(name="device links")], 2 * slots), ([Level(name="node links")], 2 * nodes)]


_KINDS: dict[str, Callable[[ShapeText], Shape]] = {
    "hierarchy": _hierarchy,
    "fattree": _fat_tree,
    "torus2d": _torus,
    "torus3d": _torus,
    "torus4d": _torus,
    "dragonfly": _dragonfly,
}


__all__ = ["MAX_SLOTS", "Shape", "is_shape", "read_shape"]
