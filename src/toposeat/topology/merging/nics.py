"""NICs of several sources: joined where they are the same, laid onto the graph where they are not.

A NIC that the graph lacks gets a PCIe link to the vertex that its relation to the nearest device
names: PIX the switch above that device, PHB its host bridge, NODE its NUMA node. Nothing is drawn
for NICs whose place no source tells, and for those that may be one of the graph under another
name: the report names them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from toposeat.model.topology import ComponentKind, Device, LinkKind, Nic, PathClass
from toposeat.topology import constants as k
from toposeat.topology.facts import NicFact
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.merging.draft import Draft
from toposeat.topology.merging.part import Part

# How near a NIC is to a device, best first, and what joins them.
_NEARNESS = (PathClass.PIX, PathClass.PXB, PathClass.PHB, PathClass.NODE)
_SHOWN = 3  # NICs named in one sentence


@dataclass(frozen=True, slots=True)
class Place:
    """Where a NIC hangs in the graph: a vertex, and what the source says of the way there."""

    vertex: str
    stated: str  # "" where the vertex is exactly what the source says


def lay_nics(draft: Draft, sources: Sequence[tuple[Part, Sequence[int]]]) -> None:
    """Give the draft's NICs what other sources know of them, and add those that it lacks.

    Args:
        draft: with its devices.
        sources: all but the draft's own, most trusted first; each with the place among the draft's
            devices of each device of its own.
    """
    before: list[Nic] | None = None
    while draft.nics != before:  # a NIC that one source adds may be what another calls otherwise
        before = list(draft.nics)
        lost = [(part, _lay_source(draft, part, position)) for part, position in sources]
    for part, facts in lost:
        _report_lost(draft, part.origin, facts)


def _lay_source(draft: Draft, part: Part, position: Sequence[int]) -> list[NicFact]:
    """Lay one source's NICs over the draft's, and return those that have no place in it."""
    strangers = overlay_nics(draft.nics, part.facts.nics)
    there = list(draft.nics)
    lost = []
    for fact in strangers:
        surely_new = all(_is_other(nic, fact) for nic in there)
        place = _place(draft, part, position, fact) if surely_new else None
        if place is None:
            lost.append(fact)
        else:
            _add(draft, part, fact, place)
    return lost


def overlay_nics(nics: list[Nic], told: Iterable[NicFact]) -> list[NicFact]:
    """Lay what another source knows over NICs, joined by PCI bus id, else by name.

    Args:
        nics: of the graph; changed.
        told: by the other source.

    Returns:
        Those that are none of `nics`.
    """
    others = []
    for fact in told:
        at = _find(nics, fact, _by_pci)
        at = _find(nics, fact, _by_name) if at is None else at
        if at is None:
            others.append(fact)
            continue
        nic = nics[at]
        nics[at] = replace(
            nic,
            name=nic.name or fact.name,
            pci_bus_id=nic.pci_bus_id or fact.pci_bus_id,
            numa_node=fact.numa_node if nic.numa_node is None else nic.numa_node,
        )
    return others


def _find(nics: Sequence[Nic], fact: NicFact, same: Callable[[Nic, NicFact], bool]) -> int | None:
    return next((i for i, nic in enumerate(nics) if same(nic, fact)), None)


def _by_pci(nic: Nic, fact: NicFact) -> bool:
    """Ports of one adapter share its bus id: then the name decides."""
    same = fact.pci_bus_id is not None and nic.pci_bus_id == fact.pci_bus_id
    return same and (nic.name == fact.name or "" in (nic.name, fact.name))


def _by_name(nic: Nic, fact: NicFact) -> bool:
    known = None not in (nic.pci_bus_id, fact.pci_bus_id)
    return bool(fact.name) and nic.name == fact.name and not known


def _is_other(nic: Nic, fact: NicFact) -> bool:
    """Whether a NIC that was not joined is surely another one.

    One adapter has several names (`mlx5_0`, `ib0`): without bus ids, names tell NICs apart only
    where one driver gave both.
    """
    if nic.pci_bus_id is not None and fact.pci_bus_id is not None:
        return nic.pci_bus_id != fact.pci_bus_id
    return bool(nic.name and fact.name) and _driver(nic.name) == _driver(fact.name)


def _driver(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _report_lost(draft: Draft, origin: str, facts: Sequence[NicFact]) -> None:
    if not facts:
        return
    names = [fact.name or fact.pci_bus_id or fact.label for fact in facts]
    draft.report.append(
        f"{len(facts)} NICs of {origin} are left out: where they are is not known, or they are in"
        f" the graph under other names ({', '.join(names[:_SHOWN])}"
        f"{', ...' if len(names) > _SHOWN else ''})"
    )


# ---- the place of a NIC


def _place(draft: Draft, part: Part, position: Sequence[int], fact: NicFact) -> Place | None:
    """The vertex of the graph that a source's NIC hangs below; None if nothing tells."""
    way_up = _PcieTree(draft)
    relations = _relations(part, fact)
    for nearness in _NEARNESS:
        for device, path_class in sorted(relations.items()):
            if path_class is nearness:
                place = way_up.place(draft.devices[position[device]], nearness)
                if place is not None:
                    return place
    node = way_up.node(fact.numa_node)
    return None if node is None else Place(node, "its NUMA node alone")


def _relations(part: Part, fact: NicFact) -> Mapping[int, PathClass]:
    """How near a source says a NIC is to its devices, by their position in it."""
    if part.topology is not None:
        return {
            i: route.path_class
            for i, device in enumerate(part.topology.devices)
            if (route := part.topology.route_of_pair.get((device.id, fact.label)))
        }
    number = part.facts.nics.index(fact)
    count = len(part.facts.devices)
    matrices = (part.facts.pcie_relations, part.facts.relations)
    return {
        i: matrix.relation(i, count + number).path_class
        for matrix in matrices
        if matrix is not None
        for i in range(count)
    }


class _PcieTree:
    """The way up from each device: switches, host bridge, NUMA node."""

    def __init__(self, draft: Draft) -> None:
        self._kinds = {c.id: c.kind for c in draft.components}
        self._above = {
            link.ends[0]: link.ends[1]
            for link in draft.links.values()
            if link.kind is LinkKind.PCIE and link.ends[1] in self._kinds
        }
        self._nodes = {
            c.numa_node: c.id
            for c in draft.components
            if c.kind is ComponentKind.NUMA and c.numa_node is not None
        }

    def node(self, numa_node: int | None) -> str | None:
        """The vertex of a NUMA node by the operating system's number."""
        return None if numa_node is None else self._nodes.get(numa_node)

    def place(self, device: Device, nearness: PathClass) -> Place | None:
        """The vertex that something this near to a device hangs below."""
        way = self._way(device.id)
        switches = [v for v in way if self._kinds[v] is ComponentKind.SWITCH]
        bridges = [v for v in way if self._kinds[v] is ComponentKind.HOST_BRIDGE]
        nodes = [v for v in way if self._kinds[v] is ComponentKind.NUMA]
        exact = {
            PathClass.PIX: switches[:1],
            PathClass.PXB: switches[-1:],
            PathClass.PHB: bridges,
            PathClass.NODE: nodes,
        }[nearness]
        vertex = next(iter([*exact, *bridges, *nodes]), None)
        if vertex is None:
            return None
        return Place(vertex, "" if exact else f"{nearness.value} with {device.id}")

    def _way(self, id: str) -> list[str]:
        way: list[str] = []
        while (above := self._above.get(id)) is not None and above not in way:
            way.append(above)
            id = above
        return way


# ---- a NIC into the graph


def _add(draft: Draft, part: Part, fact: NicFact, place: Place) -> None:
    builder = draft.builder()
    nic = _new_nic(builder, part, fact)
    numa = {c.id: c.numa_node for c in draft.components}[place.vertex]
    nic = replace(nic, numa_node=numa if nic.numa_node is None else nic.numa_node)
    builder.nics.append(nic)
    state = nic.pcie
    generation = (state.max_generation or state.generation) if state else None
    builder.pcie(
        nic.id,
        place.vertex,
        bytes_per_s=k.pcie_bytes_per_s(
            generation or k.DEFAULT_PCIE_GENERATION, (state.width if state else None) or 16
        ),
        latency_s=k.LATENCY_PCIE_ENDPOINT,
    )
    inexact = f"; {part.origin} says {place.stated}" if place.stated else ""
    draft.report.append(
        f"{nic.id} ({nic.name or nic.pci_bus_id or fact.label}) is from {part.origin}: drawn below"
        f" {place.vertex}{inexact}"
    )
    draft.reroute(builder)


def _new_nic(builder: GraphBuilder, part: Part, fact: NicFact) -> Nic:
    """A NIC of another source with an id and index of its own."""
    taken = {nic.index for nic in builder.nics} | {
        int(nic.id[3:]) for nic in builder.nics if re.fullmatch(r"nic\d+", nic.id, re.ASCII)
    }
    index = max(taken, default=-1) + 1
    known = part.topology.nics if part.topology is not None else ()
    whole = next((nic for nic in known if nic.id == fact.label), None)
    if whole is None:
        whole = Nic(
            id="", index=0, name=fact.name, pci_bus_id=fact.pci_bus_id, numa_node=fact.numa_node
        )
    return replace(whole, id=f"nic{index}", index=index, host=builder.host)
