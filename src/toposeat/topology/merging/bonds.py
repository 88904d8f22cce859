"""Links between devices (NVLink, xGMI, Xe Link) as each source draws them; the best drawing wins.

A source that lists no bonds says nothing about them: most files simply leave them out. The states
of single lanes, as a driver reports them, are applied to what is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from toposeat.model.few import first_few
from toposeat.model.path_class import DEVICE_LINKS
from toposeat.model.quantity import nominal
from toposeat.model.topology import (
    Bond,
    Component,
    ComponentKind,
    Device,
    LaneState,
    Link,
    LinkKind,
    Topology,
)
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.device_bonds import CountedLanes, add_nvlinks
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.merging.join import with_ends
from toposeat.topology.relation import Relations
from toposeat.topology.told import tells_bonds

_SHOWN = 3
_LANE_NAMES = {LinkKind.NVLINK: "NVLink", LinkKind.XGMI: "xGMI", LinkKind.XELINK: "Xe Link"}


@dataclass(frozen=True)
class Bonds:
    """All bonds that one source draws; ends are devices of the merged machine.

    `numa_of` names, for ends that are NUMA nodes of the source, their number.
    """

    origin: str
    components: tuple[Component, ...]
    links: tuple[Link, ...]
    numa_of: Mapping[str, int | None] = field(default_factory=dict)
    report: tuple[str, ...] = ()

    def lanes(self) -> Counter[tuple[str, ...]]:
        """Lanes by pair of devices, or by device for ports of switches and of the CPU."""
        inner = {c.id for c in self.components} | set(self.numa_of)
        counts: Counter[tuple[str, ...]] = Counter()
        for link in self.links:
            ends = tuple(sorted(end for end in link.ends if end not in inner))
            if ends:
                counts[ends] += link.count
        return counts


def bonds_of(part: Topology, devices: Sequence[Device]) -> Bonds | None:
    """The bonds that a source draws or lists; None if it has none.

    `devices` are those of the merged machine, with all that is known of them; so are their ids.
    """
    if part.links:
        return _drawn_bonds(part)
    builder = GraphBuilder(devices=list(devices))
    if tells_bonds(part):
        _draw_listed(builder, part)
    elif any(lane.bytes_per_s and lane.remote_pci for lane in part.lanes):
        _draw_lanes(builder, part.lanes, devices)
    else:
        own = {device.id for device in part.devices}
        known = replace(part, devices=tuple(each for each in devices if each.id in own))
        relations = Relations.of(known)
        if relations.nvlink_lanes():
            add_nvlinks(builder, relations)
    if not builder.links:
        return None
    return Bonds(
        origin=part.origin,
        components=tuple(builder.components),
        links=tuple(builder.links),
        report=tuple(builder.report),
    )


def _drawn_bonds(graph: Topology) -> Bonds | None:
    switches = [c for c in graph.components if c.kind is ComponentKind.NVSWITCH]
    inner = {d.id for d in graph.devices} | {c.id for c in switches}
    links = [link for link in graph.links if is_bond(link, inner)]
    if not links:
        return None
    numa = {c.id: c.numa_node for c in graph.components if c.kind is ComponentKind.NUMA}
    return Bonds(
        origin=graph.origin,
        components=tuple(switches),
        links=tuple(links),
        numa_of={c: node for c, node in numa.items() if any(c in link.ends for link in links)},
    )


def is_bond(link: Link, inner: set[str]) -> bool:
    """Whether a link joins devices or their switches (`inner`), or a device by NVLink to a CPU."""
    return link.kind in DEVICE_LINKS or (link.kind is LinkKind.C2C and set(link.ends) <= inner)


def _draw_listed(builder: GraphBuilder, part: Topology) -> None:
    assumed: Counter[str] = Counter()
    device_of = {device.id: device for device in builder.devices}
    drawn: set[tuple[str, str]] = set()
    for (a, b), pair in part.pair_of_ends.items():
        bond = pair.bond
        if bond is None or (b, a) in drawn:
            continue
        drawn.add((a, b))
        lane = products.lane_of(device_of[a])
        if not bond.bytes_per_s:
            assumed[f"{lane.data_sheet / k.GB_PER_S:g} GB/s each assumed ({lane.name})"] += 1
        forward = bond.bytes_per_s or lane.data_sheet * bond.count
        back = part.pair_of_ends.get((b, a))
        builder.link(
            bond.kind,
            a,
            b,
            bytes_per_s=forward,
            backward_bytes_per_s=back.bond.bytes_per_s if back and back.bond else None,
            flow_bytes_per_s=forward * _flow_fraction(bond, lane),
            latency_s=k.LATENCY_XGMI if bond.kind is LinkKind.XGMI else k.LATENCY_NVLINK,
            count=bond.count,
            name=bond.name
            or (lane.name if bond.kind is lane.kind else _LANE_NAMES.get(bond.kind, "")),
        )
    for what, count in assumed.items():
        builder.report.append(
            f"{part.origin} does not state the bandwidth of {count} device links: {what}"
        )


def _flow_fraction(bond: Bond, lane: k.DeviceLink) -> float:
    """The share of a bond's capacity that one copy reaches."""
    if bond.kind is not lane.kind:
        return 1.0
    return lane.achievable / lane.data_sheet


def _draw_lanes(
    builder: GraphBuilder, lanes: Sequence[LaneState], devices: Sequence[Device]
) -> None:
    id_of_bus = {d.pci_bus_id: d.id for d in devices if d.pci_bus_id}
    found = CountedLanes(builder, {device.id: products.lane_of(device) for device in devices})
    for lane in lanes:
        here = lane.device
        there = id_of_bus.get(lane.remote_pci or "")
        if lane.bytes_per_s is not None and there not in (here, None):
            found.to_device(here, there)
    found.draw()


# ---- which drawing is taken


def choose_bonds(drawings: Sequence[Bonds], report: list[str]) -> Bonds | None:
    """The first drawing, most trusted; the report takes what others draw otherwise."""
    if not drawings:
        return None
    taken = drawings[0]
    lanes = taken.lanes()
    for other in drawings[1:]:
        theirs = other.lanes()
        ports = any(len(ends) == 1 for ends in theirs)  # tables of pairs know none to the CPU
        apart = [
            f"{' - '.join(ends)}: {lanes[ends]}, not {theirs[ends]}"
            for ends in sorted(set(lanes) | set(theirs))
            if lanes[ends] != theirs[ends] and (ports or len(ends) == 2)
        ]
        if apart:
            report.append(
                f"{taken.origin} and {other.origin} disagree on the device links of {len(apart)}"
                f" ends; {taken.origin} is believed ({first_few(apart, _SHOWN, '; ')})"
            )
    return taken


def redraw_bonds(builder: GraphBuilder, bonds: Bonds) -> None:
    """Put these bonds in the place of those that are drawn."""
    switches = {c.id for c in builder.components if c.kind is ComponentKind.NVSWITCH}
    inner = {d.id for d in builder.devices} | switches
    rest = [link for link in builder.links if not is_bond(link, inner)]
    still = {end for link in rest for end in link.ends}
    numa = {c.numa_node: c.id for c in builder.components if c.kind is ComponentKind.NUMA}
    ends = {c: numa[node] for c, node in bonds.numa_of.items() if node is not None and node in numa}
    lost = set(bonds.numa_of) - set(ends)
    builder.components = [c for c in builder.components if c.id not in switches or c.id in still]
    builder.components += [replace(c, host=builder.host) for c in bonds.components]
    builder.links = rest
    for link in bonds.links:
        if not lost.intersection(link.ends):
            a, b = (ends.get(end, end) for end in link.ends)
            builder.links.append(replace(with_ends(link, a, b), told_by=bonds.origin))
    if lost:
        builder.report.append(
            f"{bonds.origin}: device links to {len(lost)} NUMA nodes that are not in the graph are"
            " left out"
        )
    builder.report.extend(bonds.report)


# ---- states of lanes


def apply_lane_states(builder: GraphBuilder, origin: str, lanes: Sequence[LaneState]) -> None:
    """Apply the rates and inactive lanes that a driver states to the bonds of the graph.

    Where more lanes are drawn than a device has active ones, the report says so.
    """
    active: dict[str, int] = {}
    rates: dict[str, set[float]] = {}
    for place, device in enumerate(builder.devices):
        mine = [lane.bytes_per_s for lane in lanes if lane.device == device.id]
        if not mine:
            continue
        rates[device.id] = {rate for rate in mine if rate is not None}
        active[device.id] = sum(rate is not None for rate in mine)
        builder.devices[place] = replace(
            device,
            inactive_lanes=mine.count(None),
            told_by={**(device.told_by or {}), "inactive_lanes": origin},
        )
    for id, found in rates.items():
        drawn = _drawn(builder, id)
        if drawn and drawn != active[id]:
            builder.report.append(
                f"{origin}: {id} has {active[id]} active device links, but {drawn} are drawn"
            )
        if len(found) == 1:
            (rate,) = found
            for link in _unmeasured(builder, id):
                whole_rate = nominal(rate * link.count)
                _put(
                    builder,
                    replace(link, forward_bytes_per_s=whole_rate, backward_bytes_per_s=whole_rate),
                )


def _drawn(builder: GraphBuilder, device: str) -> int:
    return sum(link.count for link in _unmeasured(builder, device))


def _unmeasured(builder: GraphBuilder, device: str) -> list[Link]:
    """A device's bonds whose numbers nobody measured: measured ones are better than states."""
    return [
        link
        for link in builder.links
        if device in link.ends
        and link.kind in DEVICE_LINKS
        and not link.forward_bytes_per_s.source.is_of_this_machine
    ]


def _put(builder: GraphBuilder, link: Link) -> None:
    builder.links = [link if each.id == link.id else each for each in builder.links]
