r"""Builds a link graph from relations: shared PCIe links, NVLink, routes, nominal capacities.

                    numa0 ======== smp ======== numa1        SYS  crosses smp
                   /     \                        |          NODE crosses numa
              bridge0   bridge1                bridge2       PHB  crosses a host bridge
              /     \      |                      |          PXB  crosses several switches
         switch    GPU3   GPU4                   ...         PIX  crosses one switch
         /  |  \
     GPU0 GPU1 NIC0

No number is of this machine: a relation says what kind a link is, never how fast it is.

A PCIe tree is an ultrametric: of any three endpoints the two largest distances are equal. So the
distances that are known bound those that are not (the smallest largest step over known pairs), and
known distances above that bound contradict a tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import combinations

from toposeat.model.quantity import nominal
from toposeat.model.topology import ComponentKind, Device, Nic, Pair, PathClass, Topology, Vendor
from toposeat.topology import constants as k
from toposeat.topology import products
from toposeat.topology.graph.device_bonds import add_nvlinks
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.graph.rates import rate_of_own_link
from toposeat.topology.premises import scaled
from toposeat.topology.relation import WORDS, Relations

INFORMATION_FREE = {"relations": "information-free"}  # metadata: every GPU pair is SYS


class Level(IntEnum):
    """PCIe distance, nearest first."""

    PIX = 0
    PXB = 1
    PHB = 2
    NODE = 3
    SYS = 4


_LEVEL = {PathClass(level.name): level for level in Level}


@dataclass(frozen=True, slots=True)
class PcieLevels:
    """`level[i][j]` for all endpoints, an ultrametric; the rest says how far it can be trusted."""

    level: list[list[int]]
    affinity_is_trusted: bool
    relations_are_empty: bool  # every GPU pair SYS although affinities group them

    def clusters(self, members: list[int], level: Level) -> list[list[int]]:
        """Groups of `members` within `level` of each other, in order of their first member."""
        groups: list[list[int]] = []
        for member in members:
            for group in groups:
                if self.level[group[0]][member] <= level:
                    group.append(member)
                    break
            else:
                groups.append([member])
        return groups


def pcie_levels(relations: Relations, report: list[str]) -> PcieLevels:
    """PCIe distances of all endpoints; the report takes doubts.

    Where both the best connection and the PCIe path of a pair name a path, the former counts.
    """
    _report_disagreement(relations, report)
    known = {
        pair: _LEVEL[path]
        for pair, relation in relations.best.items()
        for path in (relation.path_class, relations.paths.get(pair))
        if path in _LEVEL
    }
    known |= {
        pair: _LEVEL[relation.path_class]
        for pair, relation in relations.best.items()
        if relation.path_class in _LEVEL
    }
    groups = _affinity_groups(relations)
    same_node = _pairs_of_a_node(relations)
    empty, trusted = _judge_affinity(relations, known, groups, same_node, report)
    if empty:
        known = {
            (i, j): level
            for (i, j), level in known.items()
            if level is not Level.SYS or (j < relations.gpus and not _same(groups, i, j))
        }
    elif trusted and (across := _nodes_across(relations, known, groups)):
        known = {
            pair: Level.SYS if pair in across else level
            for pair, level in known.items()
            if level is not Level.NODE or pair[1] < relations.gpus
        }
    if not empty:  # a number of a node is a fact, where a class is a word
        torn = [pair for pair in same_node if known.get(pair) is Level.SYS]
        known |= dict.fromkeys(torn, Level.NODE)
    count = len(relations.ids)
    open_groups: list[object] = groups if trusted else [None] * count
    edges = {**known, **_assumed(relations, known, open_groups, same_node, report)}
    level = _closure(count, edges)
    _report_contradictions(relations, known, level, report)
    return PcieLevels(level, trusted, empty)


def _report_disagreement(relations: Relations, report: list[str]) -> None:
    apart = [
        pair
        for pair, path in relations.paths.items()
        if path in _LEVEL
        and relations.best[pair].path_class in _LEVEL
        and relations.best[pair].path_class is not path
    ]
    if apart:
        report.append(
            f"best links and PCIe paths disagree on {len(apart)} pairs: the former are believed"
        )


def _affinity_groups(relations: Relations) -> list[object]:
    """For each endpoint what groups it by affinity; None where nothing is known (all NICs)."""
    groups: list[object] = [
        device.cpus if device.numa_node is None else device.numa_node
        for device in relations.machine.devices
    ]
    return groups + [None] * len(relations.machine.nics)


def _pairs_of_a_node(relations: Relations) -> frozenset[tuple[int, int]]:
    """Pairs of devices that cells put on one memory node.

    Where all cells name the same node the job's CPU set may have masked them.
    """
    nodes = [device.numa_node for device in relations.machine.devices]
    if len(set(nodes) - {None}) < 2:
        return frozenset()
    pairs = combinations(range(len(nodes)), 2)
    return frozenset((i, j) for i, j in pairs if nodes[i] is not None and nodes[i] == nodes[j])


def _same(groups: list[object], i: int, j: int) -> bool:
    return groups[i] is not None and groups[i] == groups[j]


def _judge_affinity(
    relations: Relations,
    known: dict[tuple[int, int], Level],
    groups: list[object],
    same_node: frozenset[tuple[int, int]],
    report: list[str],
) -> tuple[bool, bool]:
    """Whether relations carry no information, and whether affinity may be used."""
    gpus = relations.gpus
    pairs = {pair: level for pair, level in known.items() if pair[1] < gpus}
    torn = [p for p, level in pairs.items() if level is Level.SYS and _same(groups, *p)]
    across = _nodes_across(relations, known, groups)
    joined = [
        (i, j)
        for (i, j), level in pairs.items()
        if level < Level.NODE and None not in (groups[i], groups[j]) and groups[i] != groups[j]
    ]
    if (
        gpus > 2
        and torn
        and len(pairs) == gpus * (gpus - 1) // 2
        and set(pairs.values()) == {Level.SYS}
    ):
        report.append(
            "every GPU pair is SYS, which says nothing (a virtual machine that hides PCIe?): NUMA"
            " nodes are taken from the affinities, and distances inside them are not known"
        )
        return True, True
    beside = [pair for pair in torn if pair in same_node]
    torn = [pair for pair in torn if pair not in same_node]
    if beside:
        i, j = beside[0]
        report.append(
            f"{relations.ids[i]} and {relations.ids[j]} are SYS, but on memory node"
            f" {relations.machine.devices[i].numa_node} ({len(beside)} such pairs): the number of"
            " the node counts"
        )
    for i, j in (torn or joined)[:1]:
        what = (
            "the same affinity but are SYS apart" if torn else "different affinities but are near"
        )
        report.append(
            f"affinity contradicts relations: {relations.ids[i]} and {relations.ids[j]} have"
            f" {what} ({len(torn or joined)} pairs); relations are trusted, memory nodes are not"
            f" used"
        )
    if across and not torn and not joined:
        i, j = across[0]
        report.append(
            f"affinity contradicts relations: {relations.ids[i]} and {relations.ids[j]} have"
            f" different affinities but are NODE, within one memory node ({len(across)} pairs): the"
            " memory nodes are kept"
        )
    return False, not torn and not joined


def _nodes_across(
    relations: Relations, known: dict[tuple[int, int], Level], groups: list[object]
) -> list[tuple[int, int]]:
    """Pairs of GPUs that are said to be within one memory node, and have different ones."""
    return [
        (i, j)
        for (i, j), level in known.items()
        if level is Level.NODE
        and j < relations.gpus
        and None not in (groups[i], groups[j])
        and groups[i] != groups[j]
    ]


def _assumed(
    relations: Relations,
    known: dict[tuple[int, int], Level],
    groups: list[object],
    same_node: frozenset[tuple[int, int]],
    report: list[str],
) -> dict[tuple[int, int], Level]:
    """Levels for pairs that the known ones leave open."""
    count = len(relations.ids)
    bound = _closure(count, known)
    informed = bool(known) or any(group is not None for group in groups)
    assumed: dict[tuple[int, int], Level] = {}
    inferred = by_affinity = guessed = 0
    for i in range(relations.gpus):
        for j in range(i + 1, relations.gpus):
            if (i, j) in known:
                continue
            far = (i, j) not in same_node and _must_be_sys(known, count, i, j)
            if bound[i][j] < Level.SYS or far:
                inferred += 1
            elif groups[i] is not None and groups[j] is not None:
                assumed[i, j] = Level.NODE if groups[i] == groups[j] else Level.SYS
                by_affinity += 1
            else:
                far = bound[i][j] == Level.SYS and informed
                assumed[i, j] = Level.SYS if far else Level.NODE
                guessed += 1
    if by_affinity or guessed:
        report.append(
            f"PCIe is hidden for {by_affinity + guessed + inferred} GPU pairs: {inferred} inferred"
            f" from NICs, {by_affinity} assumed from affinity, {guessed} guessed; each such GPU is"
            f" taken to have its own host bridge (`{_tree_of(relations)}` or discovery would know)"
        )
    return assumed


def _tree_of(relations: Relations) -> str:
    """A command that shows the PCIe tree, of the machine's own maker."""
    vendors = {device.vendor for device in relations.machine.devices}
    return "nvidia-smi topo -mp" if vendors <= {Vendor.NVIDIA, Vendor.UNKNOWN} else "lspci -tv"


def _must_be_sys(known: dict[tuple[int, int], Level], count: int, i: int, j: int) -> bool:
    """Whether some third endpoint is SYS from exactly one of the two."""
    for third in range(count):
        to_i = known.get((min(i, third), max(i, third)))
        to_j = known.get((min(j, third), max(j, third)))
        if to_i is not None and to_j is not None and (to_i is Level.SYS) != (to_j is Level.SYS):
            return True
    return False


def _closure(count: int, edges: dict[tuple[int, int], Level]) -> list[list[int]]:
    """The largest ultrametric below `edges`; pairs that nothing connects are SYS."""
    level = [[int(Level.SYS)] * count for _ in range(count)]
    group = list(range(count))
    for i in range(count):
        level[i][i] = int(Level.PIX)
    for edge in Level:
        for (i, j), found in edges.items():
            if found is edge and group[i] != group[j]:
                left = [v for v in range(count) if group[v] == group[i]]
                right = [v for v in range(count) if group[v] == group[j]]
                for a in left:
                    for b in right:
                        level[a][b] = level[b][a] = int(edge)
                for b in right:
                    group[b] = group[i]
    return level


def _report_contradictions(
    relations: Relations,
    known: dict[tuple[int, int], Level],
    level: list[list[int]],
    report: list[str],
) -> None:
    nearer = [(p, found) for p, found in known.items() if level[p[0]][p[1]] < found]
    if nearer:
        (i, j), found = nearer[0]
        report.append(
            f"relations fit no tree: {relations.ids[i]} and {relations.ids[j]} are"
            f" {found.name}, but others between them are nearer ({len(nearer)} pairs); the nearer"
            " position is drawn, the stated relation is kept as the route's class"
        )


# ---- the graph


def draw_relations(builder: GraphBuilder, machine: Topology) -> None:
    """Draw the link graph of one node from the relations of its GPUs and NICs.

    The builder is empty; it receives the relations as pairs, too. Relations that carry no
    information become untold.
    """
    relations = Relations.of(machine)
    levels = pcie_levels(relations, builder.report)
    trusted = levels.affinity_is_trusted
    builder.devices += [d if trusted else replace(d, numa_node=None) for d in machine.devices]
    builder.nics += machine.nics
    builder.metadata = {key: text for key, text in machine.metadata.items() if key != WORDS}
    lane = add_nvlinks(builder, relations)
    draw_tree(builder, relations, levels, lane)
    builder.pairs = [_judged(pair, machine, levels) for pair in machine.pairs]
    builder.metadata |= {"nvlink": lane.name} if relations.nvlink_lanes() else {}


def draw_tree(
    builder: GraphBuilder, relations: Relations, levels: PcieLevels, lane: k.DeviceLink
) -> dict[str, str]:
    """Draw the PCIe tree of GPUs and NICs; `lane` is one of their NVLinks.

    Returns the NUMA vertex of each, by id.
    """
    generation, known = _pcie_generation(relations, lane)
    if not known:
        builder.report.append(f"PCIe generation is not stated: gen {generation} x16 assumed")
    builder.metadata["pcie_generation"] = f"{generation}" if known else f"{generation} (assumed)"
    builder.metadata |= INFORMATION_FREE if levels.relations_are_empty else {}
    writer = _TreeWriter(builder, relations, levels, generation, is_told=known)
    writer.write()
    return writer.numa_of


def _judged(pair: Pair, machine: Topology, levels: PcieLevels) -> Pair:
    """A pair with the path class that its route has; none where the relations are all alike.

    A relation that the source calls unknown stays unknown, however the pair is drawn.
    """
    path_class = pair.path_class
    if path_class is None and pair.pcie_class is not PathClass.UNKNOWN:
        path_class = pair.pcie_class
    gpus = {device.id for device in machine.devices}
    empty = levels.relations_are_empty and {pair.source, pair.target} <= gpus
    if empty and path_class is PathClass.SYS:
        return replace(pair, path_class=None, pcie_class=None)
    return replace(pair, path_class=path_class)


def _pcie_generation(relations: Relations, lane: k.DeviceLink) -> tuple[int, bool]:
    """The PCIe generation, and whether devices or product names (of all their boards) state it."""
    told = {d.pcie.max_generation if d.pcie else None for d in relations.machine.devices}
    if len(told) == 1 and (generation := told.pop()):
        return generation, True
    found = [products.pcie_generation_named(d.name) for d in relations.machine.devices]
    stated = [generation for generation in found if generation is not None]
    if stated:
        return min(stated), True
    lanes = relations.nvlink_lanes()
    if lane is k.NVLINK4:
        return 5, False
    if relations.old_words or (lanes and max(lanes.values()) < 4):
        return 3, False
    return k.DEFAULT_PCIE_GENERATION, False


class _TreeWriter:
    """Writes the PCIe tree of all endpoints into a builder, from the sockets down."""

    def __init__(
        self,
        builder: GraphBuilder,
        relations: Relations,
        levels: PcieLevels,
        generation: int,
        *,
        is_told: bool,
    ) -> None:
        self.builder = builder
        self.devices = relations.machine.devices
        self.levels = levels
        self.ids = relations.ids
        self.ends: list[Device | Nic] = [*relations.machine.devices, *relations.machine.nics]
        self.generation = generation
        rate = nominal(k.pcie_bytes_per_s(generation))
        self.bytes_per_s = rate if is_told else builder.untold_pcie(generation)
        self.bridges = 0
        self.switches = 0
        self.numa_of: dict[str, str] = {}

    def write(self) -> None:
        everything = list(range(len(self.ids)))
        nodes = [
            self._numa(number, members)
            for number, members in enumerate(self.levels.clusters(everything, Level.NODE))
        ]
        for a, b in combinations(nodes, 2):
            self.builder.sockets(a, b)
        if len(nodes) > 2:
            self.builder.report.append(
                f"how {len(nodes)} NUMA nodes are joined is not stated: one smp link between each"
                " two assumed"
            )

    def _numa(self, number: int, members: list[int]) -> str:
        node, cpus = self._affinity(members)
        name = f"NUMA node {node}" if node is not None else ""
        if min(members) >= len(self.devices):  # adapters alone: their node was never told
            name = "NUMA node that is not told"
        id = self.builder.component(
            ComponentKind.NUMA,
            f"numa{number}",
            name=name,
            numa_node=node,
            cpus=cpus,
        )
        self.numa_of.update((self.ids[member], id) for member in members)
        for below in self.levels.clusters(members, Level.PHB):
            bridge, uplinks = self._host_bridge(below, node)
            self.builder.fabric(bridge, id, bytes_per_s=scaled(self.bytes_per_s, uplinks))
        return id

    def _affinity(self, members: list[int]) -> tuple[int | None, str | None]:
        """The memory node and CPUs that all GPUs among the members agree on."""
        if not self.levels.affinity_is_trusted:
            return None, None
        gpus = [self.devices[i] for i in members if i < len(self.devices)]
        nodes = {device.numa_node for device in gpus}
        cpus = {device.cpus for device in gpus}
        return (nodes.pop() if len(nodes) == 1 else None), (cpus.pop() if len(cpus) == 1 else None)

    def _host_bridge(self, members: list[int], node: int | None) -> tuple[str, int]:
        id = self.builder.component(
            ComponentKind.HOST_BRIDGE, f"bridge{self.bridges}", numa_node=node
        )
        self.bridges += 1
        groups = self.levels.clusters(members, Level.PXB)
        uplinks = 0
        for group in groups:
            below = self.levels.clusters(group, Level.PIX)
            if len(below) > 1:  # PXB: switches below a switch, which share its uplink
                upper = self._switch(id, node)
                uplinks += 1
                for part in below:
                    self._attach(part, self._switch(upper, node))
            elif len(group) > 1:
                self._attach(group, self._switch(id, node))
                uplinks += 1
            else:
                self._attach(group, id)
                uplinks += 1
        return id, uplinks

    def _switch(self, parent: str, node: int | None) -> str:
        id = self.builder.component(ComponentKind.SWITCH, f"switch{self.switches}", numa_node=node)
        self.switches += 1
        self.builder.pcie(id, parent, bytes_per_s=self.bytes_per_s)
        return id

    def _attach(self, members: list[int], parent: str) -> None:
        for member in members:
            rate = rate_of_own_link(self.ends[member], self.generation)
            self.builder.pcie(
                self.ids[member],
                parent,
                bytes_per_s=self.bytes_per_s if rate is None else rate,
                latency_s=k.LATENCY_PCIE_ENDPOINT,
            )
