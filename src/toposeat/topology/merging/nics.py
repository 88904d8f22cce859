"""NICs of several sources: joined where they are the same, drawn where they are not.

A NIC that the graph lacks gets a PCIe link to the vertex that its relation to the nearest device
names: PIX the switch above that device, PHB its host bridge, NODE its NUMA node. Nothing is drawn
for NICs whose place no source tells, and for those that may be one of the graph under another
name: the report names them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toposeat.model.few import first_few
from toposeat.model.topology import ComponentKind, LinkKind, Nic, PathClass, Topology
from toposeat.topology import constants as k
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.products import pcie_generation_of, pcie_width_of
from toposeat.topology.told import path_of

# How near a NIC is to a device, best first; what joins them: the first or the last of its kind.
_PLACES = {
    PathClass.PIX: (ComponentKind.SWITCH, 0),
    PathClass.PXB: (ComponentKind.SWITCH, -1),
    PathClass.PHB: (ComponentKind.HOST_BRIDGE, 0),
    PathClass.NODE: (ComponentKind.NUMA, 0),
}
_OUTER = (ComponentKind.HOST_BRIDGE, ComponentKind.NUMA)  # where the graph lacks that
_FIELDS: dict[str, Any] = {
    **{"name": "", "pci_bus_id": None, "numa_node": None},
    **{"pcie": None, "bytes_per_s": None, "active": None, "link_layer": None},
}
_SHOWN = 3  # NICs named in one sentence


def join_nics(parts: Sequence[Topology]) -> list[dict[str, str]]:
    """Common ids of the NICs of each part: those of the same bus id, else of the same name."""
    known: list[Nic] = []
    own: dict[tuple[str, Nic], str] = {}
    for part in parts:
        for nic in part.nics:
            if (part.origin, nic) not in own:
                label = f"{part.origin}:{nic.id}"
                others = sum(each.partition("#")[0] == label for each in own.values())
                own[part.origin, nic] = f"{label}#{others + 1}" if others else label
    for _ in range(2):  # a NIC that one source names may be what another one places
        found = [_join(known, part, own) for part in parts]
    return found


def _join(known: list[Nic], part: Topology, own_id: dict[tuple[str, Nic], str]) -> dict[str, str]:
    id_of: dict[str, str] = {}
    for nic in part.nics:
        own = own_id[part.origin, nic]
        same = next((i for i, each in enumerate(known) if each.id == own), None)
        for rule in (_by_pci, _by_name):
            taken = set(id_of.values())
            fits = (i for i, each in enumerate(known) if rule(each, nic) and each.id not in taken)
            same = next(fits, None) if same is None else same
        if same is None:
            known.append(replace(nic, id=own))
            id_of[nic.id] = own
        else:
            known[same] = merged_nic([known[same], nic])
            id_of[nic.id] = known[same].id
    return id_of


def merged_nic(told: Sequence[Nic]) -> Nic:
    """One NIC from all that sources tell of it, the most trusted first."""
    values = {
        field: next((v for nic in told if (v := getattr(nic, field)) not in (None, "")), default)
        for field, default in _FIELDS.items()
    }
    return replace(told[0], **values)


def _by_pci(nic: Nic, fact: Nic) -> bool:
    """Ports of one adapter share its bus id: then the name decides."""
    same = fact.pci_bus_id is not None and nic.pci_bus_id == fact.pci_bus_id
    return same and (nic.name == fact.name or "" in (nic.name, fact.name))


def _by_name(nic: Nic, fact: Nic) -> bool:
    known = None not in (nic.pci_bus_id, fact.pci_bus_id)
    return bool(fact.name) and nic.name == fact.name and not known


def _is_other(nic: Nic, fact: Nic) -> bool:
    """Whether a NIC that was not joined is surely another one.

    One adapter has several names (`mlx5_0`, `ib0`): without bus ids, names tell NICs apart only
    where one driver gave both.
    """
    if nic.pci_bus_id is not None and fact.pci_bus_id is not None:
        return nic.pci_bus_id != fact.pci_bus_id
    return bool(nic.name and fact.name) and _driver(nic.name) == _driver(fact.name)


def _driver(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def draw_nics(builder: GraphBuilder, known: Topology) -> dict[str, str]:
    """Draw the NICs that the graph lacks where their place is known.

    Returns the ids of those that are drawn, by their ids in `known`.
    """
    drawn: dict[str, str] = {}
    lost: dict[str, list[Nic]] = {}
    there = {nic.id for nic in builder.nics}
    for nic in known.nics:
        if nic.id in there:
            continue
        origin = (nic.told_by or {}).get("id", known.origin)
        surely_new = all(_is_other(each, nic) for each in builder.nics)
        place = _place(builder, known, nic) if surely_new else None
        if place is None:
            lost.setdefault(origin, []).append(nic)
        else:
            drawn[nic.id] = _add(builder, origin, nic, place)
    for origin, nics in lost.items():
        names = [nic.name or nic.pci_bus_id or nic.id.rpartition(":")[2] for nic in nics]
        builder.report.append(
            f"{len(nics)} NICs of {origin} are left out: where they are is not known, or they are"
            f" in the graph under other names ({first_few(names, _SHOWN)})"
        )
    return drawn


# ---- the place of a NIC


def _place(builder: GraphBuilder, known: Topology, nic: Nic) -> str | None:
    """The vertex that a NIC hangs below, by the device it is nearest to, else its NUMA node."""
    kinds = {c.id: c.kind for c in builder.components}
    above = {
        link.ends[0]: link.ends[1]
        for link in builder.links
        if link.kind is LinkKind.PCIE and link.ends[1] in kinds
    }
    told = known.pair_of_ends
    for nearness, (wanted, which) in _PLACES.items():
        for device in builder.devices:
            pair = told.get((device.id, nic.id))
            if pair is None or path_of(pair) is not nearness:
                continue
            way = [device.id]
            while (vertex := above.get(way[-1])) and vertex not in way:
                way.append(vertex)
            exact = [v for v in way[1:] if kinds[v] is wanted][which:]
            if found := [*exact, *(v for v in way[1:] if kinds[v] in _OUTER)]:
                return found[0]
    nodes = [
        c.id
        for c in builder.components
        if c.kind is ComponentKind.NUMA and c.numa_node == nic.numa_node is not None
    ]
    return nodes[-1] if nodes else None


# ---- a NIC into the graph


def _add(builder: GraphBuilder, origin: str, told: Nic, vertex: str) -> str:
    taken = [nic.number for nic in builder.nics]
    taken += [int(n.id[3:]) for n in builder.nics if re.fullmatch(r"nic\d+", n.id, re.ASCII)]
    index = max(taken, default=-1) + 1
    numa = next(c.numa_node for c in builder.components if c.id == vertex)
    node = numa if told.numa_node is None else told.numa_node
    nic = replace(told, id=f"nic{index}", index=index, host=builder.host, numa_node=node)
    builder.nics.append(nic)
    generation = pcie_generation_of(nic) or k.DEFAULT_PCIE_GENERATION
    builder.pcie(
        nic.id,
        vertex,
        bytes_per_s=k.pcie_bytes_per_s(generation, pcie_width_of(nic)),
        latency_s=k.LATENCY_PCIE_ENDPOINT,
    )
    label = nic.name or nic.pci_bus_id or told.id.rpartition(":")[2]
    builder.report.append(f"{nic.id} ({label}) is from {origin}: drawn below {vertex}")
    return nic.id
