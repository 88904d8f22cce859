"""What no placement of a job on a network is below: cuts around hosts, leaves and spines.

A group of hosts has n of the ranks of a job with axes. Of a family of lines of k ranks each it has
parts of L, and cuts all of them but those that it has whole: then at least (k L - n) / (k - 1), and
it has a part of at least k lines of every family along other axes. A line that is cut sends what it
sends over any cut through it by the links out of the group (capacity U, both ways together):

    T_p >= cut_bytes x lines that are cut / U

Not all L can be small: along disjoint sets of axes the product of m of them is at least n^(m - 1)
(Loomis, Whitney, Bull. Amer. Math. Soc. 55, 1949). A chain that p groups have parts of is cut
p - 1 times, which both sides bear, and p is not less than groups with so few lines beside it need.
All groups have the same T and have room for all ranks. The least sum of T with which that can be
is the bound: boxes of T are halved until it is known. Either all lines that fit into a host are
inside of one, or some are cut: a ring of k ranks leaves a host by at most k / 2 of its NICs, and a
group has parts of at most as many as T of that phase allows, all others whole.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from toposeat.mapping.fabric import common_switch
from toposeat.mapping.rank_grid import Lines, RankGrid
from toposeat.mapping.shapes import Shape
from toposeat.model.record import Record

_BOXES = 2000  # at most, for each of two ways; with fewer boxes the bound is lower, and holds
_CLOSE = 2e-3  # of the sum: how well it has to be known
_SAME = 1e-9  # of values computed in another order
_SAFE = 1 - 1e-6  # bytes are whole numbers, and shares of them are rounded


# Groups of hosts: room for ranks, bytes per second, and how many groups have both.
_Stage = Sequence[tuple[int, float, int]]


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
    whole = _Boxes(grid, room, inner, per_host // inner).least_sum(floors, value)
    if not kept:
        return whole * _SAFE
    port = capacities[ports].max() if ports.size else math.inf
    split = [0.0] * len(default_s)  # a cell is cut, and with it all lines of its size
    cells = [each for each in kept if each.size == inner]
    for each in cells:
        over = each.on_two_bytes / 2 / (port * max(1, each.size // 2))
        split[each.phase] = max(split[each.phase], over)
    heaviest = max(cells, key=lambda each: each.on_two_bytes)
    cut = _Boxes(grid, room, inner, per_host, heaviest).least_sum(split, value)
    return min(whole, cut) * _SAFE


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
    """Boxes of the seconds of each phase, of which the one with the least sum is looked at.

    Cells of `inner` ranks stay together. With `cut`, the line that a cell is, a group of hosts may
    have parts of as many cells as the seconds of that line's phase allow; what is said of a group
    is then said of the cells that it has whole, each of whose ranks touches lines of its own.
    """

    def __init__(
        self,
        grid: RankGrid,
        room: Sequence[Sequence[tuple[int, float]]],
        inner: int,
        per_host: int,
        cut: Lines | None = None,
    ) -> None:
        self._families = families = _families(grid, inner, per_host)
        self._inner, self._cut = inner, cut
        known = {each.phase for each in families} | ({cut.phase} if cut else set())
        self._phases = sorted(known)
        self._at = [self._phases.index(each.phase) for each in families]
        self._ranks = math.prod(extent for _, extent in grid.axes)
        self._stages = [
            [(ranks, rate, many) for (ranks, rate), many in Counter(stage).items()]
            for stage in room
        ]
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
        self._known: dict[tuple[int, ...], tuple[list[int], list[int]] | None] = {}

    def least_sum(self, floors: Sequence[float], value: float) -> float:
        """The least sum of seconds that every stage allows, or the value where it is more."""
        rest = sum(floor for at, floor in enumerate(floors) if at not in self._phases)
        least = np.array([floors[phase] for phase in self._phases])
        most = least + max(0.0, value - rest - float(least.sum()))
        queue = [(float(least.sum()), 0, least, most)]
        for number in range(1, _BOXES):
            if not queue or queue[0][0] >= (value - rest) * (1 - _CLOSE):
                return value if not queue else rest + queue[0][0]
            low, _, begin, end = heapq.heappop(queue)
            if float(end.sum()) <= low * (1 + _CLOSE):
                return rest + low
            at = int((end - begin).argmax())
            middle = (begin[at] + end[at]) / 2
            for first, last in ((begin[at], middle), (middle, end[at])):
                here, there = begin.copy(), end.copy()
                here[at], there[at] = first, last
                if all(self._has_room(stage, there) for stage in self._stages):
                    side = 2 * number + (first > begin[at])
                    heapq.heappush(queue, (float(here.sum()), side, here, there))
        return rest + queue[0][0] if queue else value

    def _has_room(self, stage: _Stage, seconds: NDArray[np.float64]) -> bool:
        """Whether groups of one stage can have all ranks."""
        inner = self._inner
        found = [(ranks, many, *self._allowed(ranks, rate, seconds)) for ranks, rate, many in stage]
        if sum(ranks * many for ranks, many, *_ in found) > self._ranks:
            most = (many * self._most(ranks, cuts, parts) for ranks, many, cuts, parts, _ in found)
            return sum(most) >= self._ranks
        pieces = [0] * len(self._families)
        rows = []  # cells in whole cells, most of each family that are touched, how many groups
        for ranks, many, cuts, parts, _ in found:
            lost = (inner - 1) * parts
            low = max(0, -(-(ranks - lost) // inner))
            touched = self._touched(low, (ranks + lost) // inner, parts, cuts)
            if touched is None:
                return False
            least, most_of = touched
            pieces = [have + many * more for have, more in zip(pieces, least, strict=True)]
            rows.append((low, most_of, many))
        for at, each in enumerate(self._families):
            if not each.is_chain:
                continue
            lines = self._ranks // inner // each.size
            if not any(parts for *_, parts, _ in found):
                limits = [
                    (min([each.size, *(most[f] for f in self._beside[at])]), cells * many)
                    for cells, most, many in rows
                ]
                pieces[at] = max(pieces[at], fewest_pieces(each.size, lines, limits))
            # A chain of p pieces is cut p - 1 times, and both sides of a cut bear it.
            ends = sum(min(2 * ranks, own[at]) * many for ranks, many, *_, own in found)
            if 2 * inner * (pieces[at] - lines) > ends:
                return False
        return True

    def _allowed(
        self, ranks: int, rate: float, seconds: NDArray[np.float64]
    ) -> tuple[tuple[int, ...], int, list[int]]:
        """Lines of cells that a group may cut, cells that it may have parts of, lines of ranks."""

        def times(phase: int, nbytes: float) -> int:
            return math.floor(float(seconds[phase]) * rate / nbytes * (1 + _SAME))

        cuts = [times(at, f.cut_bytes) for at, f in zip(self._at, self._families, strict=True)]
        if self._cut is None:
            return tuple(cuts), 0, [self._inner * cut for cut in cuts]
        parts = times(self._phases.index(self._cut.phase), self._cut.on_two_bytes)
        own = [
            times(at, f.cut_bytes / self._inner)
            for at, f in zip(self._at, self._families, strict=True)
        ]
        return tuple(cuts), min(ranks, parts), own

    def _most(self, ranks: int, cuts: tuple[int, ...], parts: int) -> int:
        """The most ranks that a group of hosts can have."""
        whole = range(min(ranks, self._ranks) // self._inner, 0, -1)
        can = (n for n in whole if self._touched(n, n + parts, parts, cuts) is not None)
        return min(ranks, next(can, 0) * self._inner + parts * (self._inner - 1))

    def _touched(
        self, low: int, high: int, parts: int, cuts: tuple[int, ...]
    ) -> tuple[list[int], list[int]] | None:
        """How many lines of each family a group's cells touch at least and at most.

        `low` cells are whole, `high` are there, all but `parts` of them whole. None where too many
        lines are cut.
        """
        key = low, high, parts, *cuts
        if key not in self._known:
            self._known[key] = self._touch(low, high, parts, cuts)
        return self._known[key]

    def _touch(
        self, low: int, high: int, parts: int, cuts: tuple[int, ...]
    ) -> tuple[list[int], list[int]] | None:
        families = self._families
        found: tuple[list[int], list[int]] | None = None
        for whole in self._whole:  # families with lines that are not cut
            if any(families[at].size > high for at in whole):
                continue
            least = [
                max(
                    [-(-low // each.size)]
                    + [families[f].size - parts for f in whole if f in self._beside[at]]
                )
                for at, each in enumerate(families)
            ]
            most = [
                min(high, (cut * (each.size - 1) + high) // each.size if at in whole else cut)
                for at, (cut, each) in enumerate(zip(cuts, families, strict=True))
            ]
            for some in self._apart:
                for at in some:
                    others = math.prod(most[each] for each in some if each != at)
                    least[at] = max(least[at], -(-(low ** (len(some) - 1)) // max(1, others)))
            if all(a <= b for a, b in zip(least, most, strict=True)):
                found = (
                    (least, most)
                    if found is None
                    else (list(map(min, found[0], least)), list(map(max, found[1], most)))
                )
        return found


def fewest_pieces(size: int, lines: int, limits: Sequence[tuple[int, int]]) -> int:
    """In how many pieces lines are cut at least by groups of hosts.

    Args:
        size: cells of a line.
        lines: how many there are.
        limits: of some groups how many cells of one line each may have, and all their cells.
    """
    known = sorted({limit for limit, _ in limits})
    top = max(1, known[-1])
    fewest = float(lines * -(-size // top))
    for small, large in pairwise(known):
        if small < 1:
            continue
        # A line with `many` cells in groups of larger limits has so many pieces; mixed, the mean.
        own = [-(-many // top) - (-(size - many) // small) for many in range(size + 1)]
        mean = min(size, sum(cells for limit, cells in limits if limit >= large) / lines)
        below, above = range(math.floor(mean) + 1), range(math.ceil(mean), size + 1)
        least = min(
            own[a] + (own[b] - own[a]) * ((mean - a) / (b - a) if b > a else 0.0)
            for a in below
            for b in above
        )
        least = min([least, *own[: len(below)]])
        fewest = max(fewest, lines * least)
    return math.ceil(fewest * (1 - _SAME))


__all__ = ["Lines", "fewest_pieces", "sum_bound"]
