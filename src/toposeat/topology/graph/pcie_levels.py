"""How far apart endpoints are on PCIe, completed where NVLink hides it, and checked.

A PCIe tree is an ultrametric: of any three endpoints the two largest distances are equal. So the
distances that are known bound those that are not (the smallest largest step over known pairs), and
known distances above that bound contradict a tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from toposeat.model.topology import PathClass
from toposeat.topology.relation import Relations


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
    empty, trusted = _judge_affinity(relations, known, groups, report)
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
    count = len(relations.ids)
    edges = {**known, **_assumed(relations, known, groups if trusted else [None] * count, report)}
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


def _same(groups: list[object], i: int, j: int) -> bool:
    return groups[i] is not None and groups[i] == groups[j]


def _judge_affinity(
    relations: Relations,
    known: dict[tuple[int, int], Level],
    groups: list[object],
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
            if bound[i][j] < Level.SYS or _must_be_sys(known, count, i, j):
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
            " taken to have its own host bridge (`nvidia-smi topo -mp` or discovery would know)"
        )
    return assumed


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
