"""Several sources of one machine made one topology, each field from the source that knows it best.

Precedence: measured > driver's link level > NCCL XML > hwloc > text matrix. The most complete
graph is the base; identities, affinities, PCIe states, bonds, peer access and measured numbers of
all others are laid over it, and what they contradict is reported, never chosen in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toposeat.errors import InputError
from toposeat.model.topology import Device, Topology
from toposeat.topology.facts import DeviceFact, MachineFacts
from toposeat.topology.graph.relation import RelationMatrix
from toposeat.topology.graph.staged_routes import with_staged_routes
from toposeat.topology.merging.bonds import (
    Bonds,
    bonds_of_facts,
    bonds_of_topology,
    choose_bonds,
    redraw_bonds,
)
from toposeat.topology.merging.device_fields import (
    Contradictions,
    Told,
    device_of_fact,
    merged_device,
    overlaid,
)
from toposeat.topology.merging.draft import Draft
from toposeat.topology.merging.facts_graph import graph_of_facts, makes_machine, place_at_nodes
from toposeat.topology.merging.join import join_devices
from toposeat.topology.merging.lanes import apply_lane_states
from toposeat.topology.merging.nics import lay_nics
from toposeat.topology.merging.numbers import Matrix
from toposeat.topology.merging.overlay import HostMatrix, lay_host_numbers, lay_pair_numbers
from toposeat.topology.merging.part import Part, Rank, part_of, placed

__all__ = ["makes_machine", "merge_topologies"]

_HINT = "give what lists the machine's links as well: nvidia-smi topo -m, hwloc or NCCL XML"


@dataclass(frozen=True, slots=True)
class _Joined:
    """A part whose devices have found their places; `facts` are in the merged order."""

    part: Part
    position: tuple[int, ...]
    facts: MachineFacts


def merge_topologies(parts: Sequence[Topology | MachineFacts], name: str) -> Topology:
    """One machine from all that several sources know of it.

    Devices are joined by PCI bus id, else by UUID, else by index where the counts agree (which the
    report says). No device of any source is lost and no number is made up: a pair that nobody
    measured keeps its nominal number, and the report counts such pairs.

    Args:
        parts: at least one. Their order matters only between sources of one kind, of which the
            first is believed.
        name: of the machine.

    Raises:
        InputError: none of the sources says how devices are connected, or they cannot be of one
            machine.
        ValueError: no source at all, or one of several hosts.
    """
    if not parts:
        raise ValueError("nothing to merge")
    if len(parts) == 1 and isinstance(parts[0], Topology):
        return replace(parts[0], name=name)
    ranked = sorted((part_of(each) for each in parts), key=lambda part: part.rank)
    base = _base(ranked)
    report: list[str] = []
    joined, devices = _join_all(base, [part for part in ranked if part is not base], report)
    joined.sort(key=lambda each: each.part.rank)
    draft = Draft.of(_graph(base, joined, devices, name))
    draft.report += report
    _lay_devices(draft, base, joined, devices)
    _lay_bonds(draft, base, joined)
    access = _peer_access(joined, draft.report)
    _lay_peer_access(draft, access)
    draft = Draft.of(with_staged_routes(draft.topology(name=name, origin="")))
    _lay_numbers(draft, joined)
    _lay_peer_access(draft, access)  # pairs that only numbers join have routes now
    for each in joined:
        if each.part is not base:
            draft.report += each.part.topology.report if each.part.topology else each.facts.report
    return draft.topology(name=name, origin=_origin(base, ranked))


def _base(ranked: Sequence[Part]) -> Part:
    """The graph to start from: the most devices, then the most trusted.

    A source of devices and bonds without a PCIe tree, and measured pairs alone, come last.
    """
    graphs = [part for part in ranked if part.topology is not None or makes_machine(part.facts)]
    if not graphs:
        names = ", ".join(dict.fromkeys(part.origin for part in ranked))
        raise InputError(f"{names}: nothing says how the devices are connected", hint=_HINT)
    return min(graphs, key=lambda part: (_is_bare(part), -len(part.facts.devices), part.rank))


def _is_bare(part: Part) -> int:
    if part.topology is not None or part.facts.relations or part.facts.pcie_relations:
        return 0
    return 1 if part.facts.links else 2


def _origin(base: Part, ranked: Sequence[Part]) -> str:
    origins = [base.origin, *(part.origin for part in ranked)]
    single = [name for origin in origins for name in origin.removeprefix("merged: ").split(" + ")]
    names = list(dict.fromkeys(single))
    return names[0] if len(names) == 1 else "merged: " + " + ".join(names)


# ---- devices


def _join_all(
    base: Part, others: Sequence[Part], report: list[str]
) -> tuple[list[_Joined], list[DeviceFact]]:
    """Places of all devices, those that have identities first; and each device of the machine."""
    positions: dict[int, tuple[int, ...]] = {id(base): tuple(range(len(base.facts.devices)))}
    told = [[Told(base.origin, device)] for device in base.facts.devices]
    ranks = [[base.rank] for _ in told]
    for part in sorted(others, key=lambda part: not _has_identities(part)):
        known = [_quietly_merged(each) for each in told]
        position = join_devices(known, base.origin, part.facts, report)
        positions[id(part)] = position
        for place, device in zip(position, part.facts.devices, strict=True):
            if place == len(told):
                told.append([])
                ranks.append([])
            told[place].append(Told(part.origin, device))
            ranks[place].append(part.rank)
    contradictions = Contradictions()
    devices = [
        merged_device(_by_trust(each, rank), contradictions)
        for each, rank in zip(told, ranks, strict=True)
    ]
    report.extend(contradictions.sentences())
    count = len(devices)
    return [
        _Joined(part, positions[id(part)], placed(part.facts, positions[id(part)], count))
        for part in (base, *others)
    ], devices


def _has_identities(part: Part) -> bool:
    return all(d.pci_bus_id or d.uuid for d in part.facts.devices)


def _quietly_merged(told: Sequence[Told]) -> DeviceFact:
    return merged_device(told, Contradictions())


def _by_trust(told: list[Told], ranks: list[Rank]) -> list[Told]:
    return [told[i] for i in sorted(range(len(told)), key=lambda i: ranks[i])]


def _graph(
    base: Part, joined: Sequence[_Joined], devices: Sequence[DeviceFact], name: str
) -> Topology:
    """The graph of the base, with nominal numbers; of facts it is made with all that is known."""
    if base.topology is not None:
        return base.topology
    own = devices[: len(base.facts.devices)]
    return graph_of_facts(base.facts, own, _pcie_paths(base, joined), name)


def _pcie_paths(base: Part, joined: Sequence[_Joined]) -> RelationMatrix | None:
    """PCIe paths by the positions of the base, from the first source that states them."""
    for each in joined:
        matrix = each.part.facts.pcie_relations
        if matrix is None:
            continue
        if each.part is base:
            return matrix if base.facts.relations is not None else None
        count = len(base.facts.devices)
        place = each.position
        return RelationMatrix(
            gpus=tuple(f"GPU{i}" for i in range(count)),
            relations={
                (min(place[i], place[j]), max(place[i], place[j])): relation
                for (i, j), relation in matrix.relations.items()
                if j < len(matrix.gpus) and max(place[i], place[j]) < count
            },
        )
    return None


def _lay_devices(
    draft: Draft, base: Part, joined: Sequence[_Joined], devices: Sequence[DeviceFact]
) -> None:
    for i, device in enumerate(draft.devices):
        fact = devices[i]
        if device.numa_node is None and base.topology is None:
            fact = replace(fact, numa_node=None)  # the graph does not trust its affinities
        draft.devices[i] = overlaid(device, fact)
    strangers = devices[len(draft.devices) :]
    if strangers:
        builder = draft.builder()
        added = [_stranger(fact, builder.devices) for fact in strangers]
        for device in added:
            builder.devices.append(device)
        place_at_nodes(builder, added)
        draft.reroute(builder)
    lay_nics(draft, [(each.part, each.position) for each in joined if each.part is not base])


def _stranger(fact: DeviceFact, devices: Sequence[Device]) -> Device:
    taken = {d.index for d in devices} | {
        int(d.id[3:]) for d in devices if d.id[:3] == "gpu" and d.id[3:].isdecimal()
    }
    free = fact.index is not None and fact.index not in taken
    index = fact.index if free and fact.index is not None else max(taken) + 1
    return device_of_fact(fact, index=index, host=devices[0].host)


# ---- bonds, peer access, numbers


def _lay_bonds(draft: Draft, base: Part, joined: Sequence[_Joined]) -> None:
    drawings: list[tuple[Part, Bonds]] = []
    for each in joined:
        ids = [draft.devices[place] for place in each.position]
        if each.part.topology is not None:
            names = zip(each.part.topology.devices, ids, strict=True)
            bonds = bonds_of_topology(each.part.topology, {a.id: b.id for a, b in names})
        else:
            bonds = bonds_of_facts(each.part.facts, ids)
        if bonds is not None:
            drawings.append((each.part, bonds))
    drawings.sort(key=lambda drawn: _bond_rank(drawn[0]))
    chosen = choose_bonds([bonds for _, bonds in drawings], draft.report)
    drawn_already = drawings and drawings[0][0] is base and not base.facts.links
    if chosen is not None and not drawn_already:
        redraw_bonds(draft, chosen)
    for each in joined:
        if each.facts.lanes:
            apply_lane_states(draft, each.part.origin, each.facts.lanes)


def _bond_rank(part: Part) -> tuple[bool, Rank]:
    """Links that facts state are from a driver, whatever else is in the file."""
    return (not (part.facts.links or part.rank is Rank.DRIVER), part.rank)


def _peer_access(joined: Sequence[_Joined], report: list[str]) -> dict[tuple[int, int], bool]:
    """Peer access from the first source that states it; all that differ are counted."""
    taken: dict[tuple[int, int], tuple[str, bool]] = {}
    apart: dict[tuple[str, str], int] = {}
    for each in joined:
        for pair, access in each.facts.peer_access.items():
            origin, first = taken.setdefault(pair, (each.part.origin, access))
            if first is not access:
                apart[origin, each.part.origin] = apart.get((origin, each.part.origin), 0) + 1
    report += [
        f"{one} and {other} disagree on peer access of {count} pairs; {one} is believed"
        for (one, other), count in apart.items()
    ]
    return {pair: access for pair, (_, access) in taken.items()}


def _lay_peer_access(draft: Draft, access_of_pair: dict[tuple[int, int], bool]) -> None:
    for (i, j), access in access_of_pair.items():
        ends = (draft.devices[i].id, draft.devices[j].id)
        if ends in draft.routes and draft.routes[ends].peer_access is not access:
            draft.routes[ends] = replace(draft.routes[ends], peer_access=access)


def _lay_numbers(draft: Draft, joined: Sequence[_Joined]) -> None:
    first = [each for each in joined if each.part.topology is None]
    then = [each for each in joined if each.part.topology is not None]
    matrices = [
        Matrix(each.part.origin, numbers)
        for each in (*first, *then)
        for numbers in each.facts.pairs
    ]
    hosts = [HostMatrix(each.part.origin, each.facts.host) for each in joined if each.facts.host]
    lay_host_numbers(draft, hosts)
    lay_pair_numbers(draft, matrices)
