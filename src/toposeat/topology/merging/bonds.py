"""Links between devices (NVLink, xGMI, Xe Link) as each source draws them; the best drawing wins.

A source that lists no bonds says nothing about them: most files simply leave them out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from toposeat.model.topology import Component, ComponentKind, Device, Link, LinkKind, Topology
from toposeat.topology import constants as k
from toposeat.topology.facts import LaneState, LinkFact, MachineFacts
from toposeat.topology.graph.device_bonds import add_bonds, add_fabrics
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.nvlink_fabric import add_nvlinks, nvlink_lanes
from toposeat.topology.merging.draft import Draft, is_bond

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


def bonds_of_topology(topology: Topology, id_of: Mapping[str, str]) -> Bonds | None:
    """The bonds of a graph; None if it has none.

    Args:
        topology: one source.
        id_of: ids of the merged machine by its own.
    """
    switches = [c for c in topology.components if c.kind is ComponentKind.NVSWITCH]
    inner = {d.id for d in topology.devices} | {c.id for c in switches}
    links = [link for link in topology.links if is_bond(link, inner)]
    if not links:
        return None
    numa = {c.id: c.numa_node for c in topology.components if c.kind is ComponentKind.NUMA}
    return Bonds(
        origin=topology.origin,
        components=tuple(switches),
        links=tuple(_renamed(link, id_of) for link in links),
        numa_of={c: node for c, node in numa.items() if any(c in link.ends for link in links)},
    )


def _renamed(link: Link, id_of: Mapping[str, str]) -> Link:
    a, b = (id_of.get(end, end) for end in link.ends)
    if (a, b) == link.ends:
        return link
    return replace(link, id=f"{link.kind.value}:{a}-{b}", ends=(a, b))


def bonds_of_facts(facts: MachineFacts, devices: Sequence[Device]) -> Bonds | None:
    """The bonds that facts state, at link level, lane by lane or as relations; None without any.

    Args:
        facts: of the merged machine's devices; relations are of their own GPUs, in order.
        devices: of the merged machine, in order.
    """
    builder = GraphBuilder(devices=list(devices))
    if facts.links:
        _draw_links(builder, facts, devices)
    elif any(lane.bytes_per_s and (lane.remote_pci or lane.remote_kind) for lane in facts.lanes):
        _draw_lanes(builder, facts.lanes, devices)
    elif facts.relations is not None and nvlink_lanes(facts.relations):
        matrix = replace(facts.relations, gpu_names=tuple(d.name for d in devices))
        add_nvlinks(builder, matrix, [d.id for d in devices])
    if not builder.links:
        return None
    return Bonds(
        origin=facts.origin,
        components=tuple(builder.components),
        links=tuple(builder.links),
        report=tuple(builder.report),
    )


def _draw_links(builder: GraphBuilder, facts: MachineFacts, devices: Sequence[Device]) -> None:
    assumed: Counter[str] = Counter()
    for link in facts.links:
        a, b = devices[link.i], devices[link.j]
        lane = lane_of_device(a)
        if not link.forward_bytes_per_s:
            assumed[f"{lane.data_sheet / k.GB_PER_S:g} GB/s each assumed ({lane.name})"] += 1
        forward = link.forward_bytes_per_s or lane.data_sheet * link.count
        builder.link(
            link.kind,
            a.id,
            b.id,
            bytes_per_s=forward,
            backward_bytes_per_s=link.backward_bytes_per_s,
            flow_bytes_per_s=forward * _flow_fraction(link, lane),
            latency_s=k.LATENCY_XGMI if link.kind is LinkKind.XGMI else k.LATENCY_NVLINK,
            count=link.count,
            name=link.name
            or (lane.name if link.kind is lane.kind else _LANE_NAMES.get(link.kind, "")),
        )
    for what, count in assumed.items():
        builder.report.append(
            f"{facts.origin} does not state the bandwidth of {count} device links: {what}"
        )


def _flow_fraction(link: LinkFact, lane: k.DeviceLink) -> float:
    """What one copy reaches of a bond's capacity."""
    if link.kind is not lane.kind:
        return 1.0
    return k.flow_of_bond(lane, link.count) / (lane.data_sheet * link.count)


def _draw_lanes(
    builder: GraphBuilder, lanes: Sequence[LaneState], devices: Sequence[Device]
) -> None:
    id_of_bus = {d.pci_bus_id: d.id for d in devices if d.pci_bus_id}
    direct: dict[tuple[str, str], Counter[str]] = {}
    ports: dict[str, Counter[str]] = {}
    for lane in lanes:
        here = devices[lane.device].id
        there = id_of_bus.get(lane.remote_pci or "")
        if lane.bytes_per_s is None or there == here:
            continue
        if there is not None:
            pair = (min(here, there), max(here, there))
            direct.setdefault(pair, Counter())[here] += 1
        elif lane.remote_kind == "switch":
            ports.setdefault(here, Counter())[lane.remote_pci or "?"] += 1
    kinds = {device.id: lane_of_device(device) for device in devices}
    add_bonds(builder, direct, kinds)
    add_fabrics(builder, ports, kinds)


def lane_of_device(device: Device) -> k.DeviceLink:
    """What one lane of a device is, by its name or its maker."""
    name = device.name.upper()
    if device.vendor.value == "amd":
        if "MI3" in name:
            return k.XGMI_MI300
        if "MI100" in name:
            return k.XGMI_MI100
        return k.XGMI_VEGA20 if re.search(r"MI[56]0\b|VEGA", name) else k.XGMI_MI200
    if device.vendor.value == "intel":
        return k.XELINK
    return k.nvlink_of_device(device.name) or k.NVLINK_UNKNOWN


# ---- which drawing is taken


def choose_bonds(drawings: Sequence[Bonds], report: list[str]) -> Bonds | None:
    """The most trusted drawing; what others draw otherwise is reported.

    Args:
        drawings: most trusted first.
        report: takes what they disagree on.
    """
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
                f" ends; {taken.origin} is believed ({'; '.join(apart[:_SHOWN])}"
                f"{'; ...' if len(apart) > _SHOWN else ''})"
            )
    return taken


def redraw_bonds(draft: Draft, bonds: Bonds) -> None:
    """Put these bonds in the place of those that the draft has."""
    switches = draft.used_by([ComponentKind.NVSWITCH])
    inner = {d.id for d in draft.devices} | switches
    rest = [link for link in draft.links.values() if not is_bond(link, inner)]
    still = {end for link in rest for end in link.ends}
    numa = {c.numa_node: c.id for c in draft.components if c.kind is ComponentKind.NUMA}
    ends = {c: numa[node] for c, node in bonds.numa_of.items() if node is not None and node in numa}
    lost = set(bonds.numa_of) - set(ends)
    builder = draft.builder()
    builder.components = [c for c in draft.components if c.id not in switches or c.id in still]
    builder.components += [replace(c, host=builder.host) for c in bonds.components]
    builder.links = rest
    for link in bonds.links:
        if lost.intersection(link.ends):
            continue
        builder.links.append(_renamed(link, ends))
    if lost:
        builder.report.append(
            f"{bonds.origin}: device links to {len(lost)} NUMA nodes that are not in the graph are"
            " left out"
        )
    draft.reroute(builder)
    draft.report.extend(bonds.report)
