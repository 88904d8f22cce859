"""The matrix of best paths, row to column: class, and what one flow reaches, in GB/s."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from rich.console import RenderableType

from toposeat.model.flow_rate import flow_rate
from toposeat.model.topology import PathClass, Route, Topology
from toposeat.report.machine_words import device_code, device_ranges, relation_word
from toposeat.report.text.console import TextStyle, columns
from toposeat.report.units import three_digits

MAX_SINGLE_DEVICES = 16  # beyond, devices that relate alike to all others are one row
NOMINAL_MARK = "~"


class PairCells:
    """What stands in the matrix, and in its legend.

    A class whose pairs all have one rate has it in the legend; elsewhere each cell has its own.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._rate_of_word: dict[str, set[str]] = defaultdict(set)
        self.class_of_word: dict[str, PathClass] = {}
        self._rates: dict[tuple[str, str], str] = {}
        for route in topology.routes:
            pair = (route.source, route.target)
            word = relation_word(topology, *pair).rstrip("!")
            self._rates[pair] = rate_cell(topology, route)
            self._rate_of_word[word].add(self._rates[pair])
            self.class_of_word[word] = route.path_class

    def text(self, source: str, target: str) -> str:
        """`PIX`, or `NV2 ~48` where the pairs of the class differ."""
        word = relation_word(self.topology, source, target)
        own = len(self._rate_of_word[word.rstrip("!")]) > 1
        return f"{word} {self._rates[source, target]}".rstrip() if own else word

    def common_rate(self, word: str) -> str:
        """The one rate of a class; "" where its pairs differ, or none is known."""
        rates = self._rate_of_word[word]
        return next(iter(rates)) if len(rates) == 1 else ""


def pair_matrix(topology: Topology, cells: PairCells, style: TextStyle) -> list[RenderableType]:
    """Blocks of columns that fit the width; groups of alike devices where there are many."""
    ends = _ends(topology)
    rows = ends[: len(topology.devices)]
    if len(topology.devices) > MAX_SINGLE_DEVICES:
        groups = _alike_devices(topology, cells)
        if len(groups) * 2 <= len(topology.devices):
            names = [device_ranges(topology, group) for group in groups]
            return _blocks(names, names, _group_cells(cells, groups), style)
    texts = [[cells.text(a, b) for b, _ in ends] for a, _ in rows]
    return _blocks([name for _, name in rows], [name for _, name in ends], texts, style)


def rate_cell(topology: Topology, route: Route) -> str:
    """GB/s that one flow reaches; `~` marks what only the kinds of links tell."""
    rate = flow_rate(topology, route)
    if rate is None:
        return ""
    mark = NOMINAL_MARK if not rate.source.is_of_this_machine else ""
    return f"{mark}{_short(rate.value / 1e9)}"


def _short(value: float) -> str:
    """Two or three digits are what a glance takes in: 48, 6.6, 200."""
    return f"{value:.0f}" if value >= 9.95 else three_digits(value)[:4].rstrip("0").rstrip(".")


def _ends(topology: Topology) -> list[tuple[str, str]]:
    routed = {route.target for route in topology.routes}
    devices = [(d.id, device_code(topology, at)) for at, d in enumerate(topology.devices)]
    return devices + [(n.id, f"N{n.index}") for n in topology.nics if n.id in routed]


def _alike_devices(topology: Topology, cells: PairCells) -> list[list[str]]:
    """Groups of devices that every other device sees alike, and that see it alike."""
    ids = [device.id for device in topology.devices]
    table = {(a, b): cells.text(a, b) for a in ids for b in ids if a != b}
    groups: list[list[str]] = []
    for id in ids:
        home = next((g for g in groups if _are_twins(table, ids, g[0], id)), None)
        if home is not None and (len(home) < 2 or table[home[0], home[1]] == table[home[0], id]):
            home.append(id)
        else:
            groups.append([id])
    return groups


def _are_twins(table: dict[tuple[str, str], str], ids: list[str], a: str, b: str) -> bool:
    return table[a, b] == table[b, a] and all(
        table[a, c] == table[b, c] and table[c, a] == table[c, b] for c in ids if c not in (a, b)
    )


def _group_cells(cells: PairCells, groups: list[list[str]]) -> list[list[str]]:
    """Rows of groups; on the diagonal what the members of one are to each other."""
    return [
        [
            cells.text(group[0], (group if group is other else ["", *other])[1])
            if group is not other or len(group) > 1
            else "X"
            for other in groups
        ]
        for group in groups
    ]


def _blocks(
    names: list[str], header: list[str], cells: list[list[str]], style: TextStyle
) -> list[RenderableType]:
    widths = [
        max(len(label), *(len(row[column]) for row in cells)) + 2
        for column, label in enumerate(header)
    ]
    first = max(len(name) for name in names) + 2
    blocks: list[RenderableType] = []
    starts = _block_starts(widths, style.width - first)
    for start, stop in pairwise([*starts, len(header)]):
        if blocks:
            blocks.append("")
        rows = [[name, *row[start:stop]] for name, row in zip(names, cells, strict=True)]
        blocks.append(columns(["", *header[start:stop]], rows))
    return blocks


def _block_starts(widths: list[int], room: int) -> list[int]:
    """Where to cut columns of `widths` so that no block is wider than `room`."""
    starts, used = [0], 0
    for column, width in enumerate(widths):
        if used and used + width > room + 2:  # the last column's gap may hang over
            starts.append(column)
            used = 0
        used += width
    return starts
