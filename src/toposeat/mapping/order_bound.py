"""What no placement of a job on a network is below: cuts around hosts, leaves and spines.

A group of hosts has n of the ranks of a job with axes. Of a family of lines of k ranks each it has
parts of L, and cuts all of them but those that it has whole: then at least (k L - n) / (k - 1), and
it has a part of at least k lines of every family along other axes. A line that is cut sends what it
sends over any cut through it by the links out of the group (capacity U, both ways together):

    T_p >= cut_bytes x lines that are cut / U

Not all L can be small: along disjoint sets of axes the product of m of them is at least n^(m - 1)
(Loomis, Whitney, Bull. Amer. Math. Soc. 55, 1949). A chain that p groups have parts of is cut
p - 1 times. All groups have the same T and have room for all ranks. The least sum of T with which
that can be is the bound: boxes of T are halved until it is known. Either all lines that fit into a
host are inside of one, or one of them is cut: a ring of k ranks leaves a host by at most k / 2 of
its NICs.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, count

import numpy as np
from numpy.typing import NDArray

from toposeat.mapping.fabric import common_switch
from toposeat.mapping.rank_grid import Lines, RankGrid
from toposeat.mapping.shapes import Shape
from toposeat.model.record import Record

_CPU_S = 0.1  # at most, for each of two ways; with fewer boxes the bound is lower, and holds
_CLOSE = 2e-3  # of the sum: how well it has to be known
_SAME = 1e-9  # of values computed in another order
_SAFE = 1 - 1e-6  # bytes are whole numbers, and shares of them are rounded


class _Stage(Record, frozen=True, kw_only=True):
    """Groups of hosts: room for cells and bytes per second, and how many groups have both."""

    groups: tuple[tuple[int, float, int], ...]


class _Family(Record, frozen=True, kw_only=True):
    """Lines of `size` cells, with the bytes over a cut through one line of cells."""

    size: int
    cut_bytes: float
    axes: frozenset[int]
    phase: int
    is_chain: bool


def sum_bound(
    shape: Shape, grid: RankGrid, default_s: Sequence[float], value: float
) -> float | None:
    """Seconds below which no placement has the sum of its phases.

    Args:
        shape: of hosts on a network, without domains.
        grid: the axes of the job.
        default_s: of each phase by default, for what runs inside hosts alone.
        value: of a placement that is known.

    Returns:
        None where the hosts are too many to look at.
    """
    stages = shape.host_groups().stages
    if shape.node is None or not stages:
        return None
    capacities = shape.machine.capacities
    per_host = shape.slots_per_host
    ports = shape.host_groups().ports
    room: list[list[tuple[int, float]]] = [
        [(per_host, float(capacities[ports[host]].sum())) for host in range(len(shape.hosts))],
        *(
            [
                (
                    len(group.hosts) * per_host,
                    float(capacities[np.concatenate([group.out, group.into])].sum()),
                )
                for group in stage
            ]
            for stage in stages
            if all(len(group.out) for group in stage)
        ),
    ]
    inner, kept = 1, []  # ranks of a cell: lines that fit into a host
    for each in grid.lines:
        inside = each.is_ring and each.digits[0][0] == 1 and len(each.digits) == 1
        if inside and per_host % each.size == 0 and common_switch(shape.node) is not None:
            inner = max(inner, each.size)
            kept.append(each)
    floors = [0.0] * len(default_s)
    for each in kept:
        floors[each.phase] = max(floors[each.phase], default_s[each.phase])
    whole = _bound(grid, room, inner, floors, value, per_host=per_host // inner)
    if not kept:
        return whole * _SAFE
    port = capacities[ports].max() if ports.size else math.inf
    cut = []
    for each in kept:
        split = [0.0] * len(default_s)
        over = each.on_two_bytes / 2 / (port * max(1, each.size // 2))
        split[each.phase] = over
        cut.append(_bound(grid, room, 1, split, value, per_host=per_host))
    return min(whole, *cut) * _SAFE


def _bound(
    grid: RankGrid,
    room: Sequence[Sequence[tuple[int, float]]],
    inner: int,
    floors: Sequence[float],
    value: float,
    *,
    per_host: int,
) -> float:
    """With cells of `inner` ranks that stay together, at most `per_host` of them on a host."""
    ranks = math.prod(extent for _, extent in grid.axes)
    families = _families(grid, inner, per_host)
    if not families:
        return sum(floors)
    stages = [
        _Stage(
            groups=tuple(
                (cells // inner, rate, many) for (cells, rate), many in Counter(stage).items()
            )
        )
        for stage in room
    ]
    phases = sorted({each.phase for each in families})
    rest = sum(floor for at, floor in enumerate(floors) if at not in phases)
    search = _Boxes(families, phases, stages, ranks // inner)
    least = np.array([floors[phase] for phase in phases])
    return rest + search.least_sum(least, max(value - rest, float(least.sum())))


def _families(grid: RankGrid, inner: int, per_host: int) -> list[_Family]:
    """The heaviest lines of each phase, of cells."""
    found: dict[int, _Family] = {}
    for line in grid.lines:
        axes = frozenset(
            at
            for at, (stride, _) in enumerate(grid.axes)
            if stride >= inner and any(low <= stride < low * many for low, many in line.digits)
        )
        size = math.prod(grid.axes[at][1] for at in axes)
        if size < 2:
            continue
        over = line.on_two_bytes if size <= 2 * per_host else line.cut_bytes
        own = _Family(
            size=size,
            cut_bytes=over * inner,
            axes=axes,
            phase=line.phase,
            is_chain=line.is_chain,
        )
        if line.phase not in found or own.cut_bytes > found[line.phase].cut_bytes:
            found[line.phase] = own
    return list(found.values())


class _Boxes:
    """Boxes of the seconds of each phase, of which the one with the least sum is looked at."""

    def __init__(
        self, families: Sequence[_Family], phases: Sequence[int], stages: Sequence[_Stage], all: int
    ) -> None:
        self._families = families
        self._at = [phases.index(each.phase) for each in families]
        self._stages = stages
        self._all = all
        numbers = range(len(families))
        apart = [
            set(some)
            for many in range(len(families), 1, -1)
            for some in combinations(numbers, many)
            if sum(len(families[at].axes) for at in some)
            == len(frozenset().union(*(families[at].axes for at in some)))
        ]
        self._apart = [some for some in apart if not any(some < other for other in apart)]
        self._whole = [
            set(some) for many in range(len(families) + 1) for some in combinations(numbers, many)
        ]
        self._beside = [
            {at for at in numbers if not families[at].axes & each.axes} for each in families
        ]

    def least_sum(self, least: NDArray[np.float64], value: float) -> float:
        """The least sum of seconds that every stage allows, or the value where it is more."""
        most = least + max(0.0, value - float(least.sum()))
        queue = [(float(least.sum()), 0, least, most)]
        end_s = time.thread_time() + _CPU_S
        for number in count(1):
            if time.thread_time() > end_s:
                break
            low, _, begin, end = heapq.heappop(queue)
            if low >= value * (1 - _CLOSE) or float(end.sum()) <= low * (1 + _CLOSE):
                return min(low, value)
            at = int((end - begin).argmax())
            middle = (begin[at] + end[at]) / 2
            for first, last in ((begin[at], middle), (middle, end[at])):
                here, there = begin.copy(), end.copy()
                here[at], there[at] = first, last
                if self._allows(there):
                    heapq.heappush(
                        queue, (float(here.sum()), 2 * number + (first > begin[at]), here, there)
                    )
            if not queue:
                return value
        return min(queue[0][0], value)

    def _allows(self, seconds: NDArray[np.float64]) -> bool:
        return all(self._has_room(stage, seconds) for stage in self._stages)

    def _has_room(self, stage: _Stage, seconds: NDArray[np.float64]) -> bool:
        """Whether groups of one stage can have all cells."""
        if sum(many * cells for cells, _, many in stage.groups) > self._all:
            most = (many * self._most(cells, rate, seconds) for cells, rate, many in stage.groups)
            return sum(most) >= self._all
        pieces, over = np.zeros(len(self._families)), 0.0
        for cells, rate, many in stage.groups:
            touched = self._touched(cells, rate, seconds)
            if touched is None:
                return False
            pieces += many * np.array(touched)
            over += many * rate
        # A chain of p pieces is cut p - 1 times, and both sides of a cut bear it.
        return not any(
            each.is_chain
            and 2 * each.cut_bytes * (pieces[at] - self._all / each.size)
            > float(seconds[self._at[at]]) * over * (1 + _SAME)
            for at, each in enumerate(self._families)
        )

    def _most(self, cells: int, rate: float, seconds: NDArray[np.float64]) -> int:
        """The most cells that a group of hosts can have."""
        for n in range(min(cells, self._all), 0, -1):
            if self._touched(n, rate, seconds) is not None:
                return n
        return 0

    def _touched(self, n: int, rate: float, seconds: NDArray[np.float64]) -> list[int] | None:
        """How many lines of each family `n` cells touch at least; None where too many are cut."""
        families = self._families
        cuts = [
            math.floor(float(seconds[at]) * rate / each.cut_bytes * (1 + _SAME))
            for at, each in zip(self._at, families, strict=True)
        ]
        found: list[int] | None = None
        for whole in self._whole:  # families with lines that are not cut
            if any(families[at].size > n for at in whole):
                continue
            least = [
                max(
                    [-(-n // each.size)]
                    + [families[f].size for f in whole if f in self._beside[at]]
                )
                for at, each in enumerate(families)
            ]
            most = [
                min(n, (cut * (each.size - 1) + n) // each.size if at in whole else cut)
                for at, (cut, each) in enumerate(zip(cuts, families, strict=True))
            ]
            for some in self._apart:
                for at in some:
                    others = math.prod(most[each] for each in some if each != at)
                    least[at] = max(least[at], -(-(n ** (len(some) - 1)) // max(1, others)))
            if all(low <= high for low, high in zip(least, most, strict=True)):
                found = least if found is None else list(map(min, found, least))
        return found


__all__ = ["Lines", "sum_bound"]
