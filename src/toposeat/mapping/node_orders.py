"""Orders of the nodes of a large job with groups: every block order, then exchanges of hosts.

A block order numbers the ranks along the axes of the job (`rank_grid`), cut into prime factors, in
another order: `dp_inner x pp x dp_outer` and the like, which hosts get one after the other. Hosts
are taken as given, by name, and group by group of leaves and spines. In which order the groups
follow each other decides which blocks straddle them: some orders are tried for each block order,
and for the best the groups change places as long as that is no loss. All are scored by the sum of
the phases; the best are starts of the core's search
(`core/include/toposeat/large/node_orders.hpp`). What ends it is the budget, counted in steps, or
that nothing is gained.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise, permutations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from toposeat import _core
from toposeat.mapping.order_bound import sum_bound
from toposeat.mapping.rank_grid import Digit, RankGrid, rank_grid
from toposeat.mapping.shapes import Shape
from toposeat.mapping.slot_groups import SlotGroups, Slots
from toposeat.model.traffic import Traffic

_ORDER_S, _MESSAGE_S, _STEP_S = 3e-5, 2.4e-8, 1e-7  # of an order, of its messages, of a step
_SCORE_SHARE, _CLIMB_SHARE = 0.15, 0.4  # of the budget: to score orders, to look for rows
_MIXED = 8  # rows of hosts in any order of groups, for each order of factors
_CLIMBED = 8  # orders of factors for which better rows are looked for
_PATIENCE = 8  # rows without a gain for each group, then it ends
_STARTS = 8  # of walks
_FIRST_SHARE = 0.09  # of their time, for each
_IN_VAIN = 4  # orders whose rows are looked at, or walks, that gain nothing: then it ends
_ENOUGH = 1 + 2e-3  # of the bound, which is known as well as that
_SAME = 1e-9

_Order = tuple[int, ...]  # factors by number, the fastest first


class Searched(Struct, frozen=True, kw_only=True):
    """What was found: the slot of each rank, how many orders were tried, and what none is below.

    `bound_s` is None where none is known.
    """

    slots: Slots
    tried: int
    bound_s: float | None


class _Seating(Struct, frozen=True, kw_only=True):
    """Which ranks share a host: rank of each place, and the phases for any order of nodes."""

    rank_of_place: NDArray[np.intp]
    orders: _core.NodeOrders


class _Found(Struct, frozen=True, kw_only=True):
    seconds: float
    seating: _Seating
    host_of_node: Slots


class _Plan(Struct, frozen=True, kw_only=True):
    """An order of factors: who shares a host, and which of a row of hosts each node gets."""

    seating: _Seating
    place_of_node: NDArray[np.intp]


_Start = tuple[float, _Plan, "_Row"]


def search_orders(
    shape: Shape, traffic: Traffic, *, slowest_s: float, cpu_s: float, seed: int
) -> Searched | None:
    """The best order of nodes; None on machines that have none: domains, or no hosts on switches.

    Args:
        shape: the machine.
        traffic: with groups.
        slowest_s: seconds that no phase may exceed.
        cpu_s: budget, about the seconds of CPU time that it takes: it is counted in steps, so that
            a seed has one answer. Block orders that cut one axis at most are scored in any case.
        seed: of the search.
    """
    if shape.domain_of_host or not shape.machine.links_of_order:
        return None
    return _Search(shape, traffic, slowest_s, cpu_s).run(seed)


class _Search:
    def __init__(self, shape: Shape, traffic: Traffic, slowest_s: float, budget_s: float) -> None:
        self._shape, self._ranks = shape, traffic.ranks
        self._slowest_s, self._budget_s = slowest_s, budget_s
        self._spent_s = 0.0  # what the orders so far would have taken
        self._groups = SlotGroups(shape, traffic)
        self._grid = rank_grid(traffic.ranks, self._groups.phases)
        self._nodes = -(-traffic.ranks // shape.slots_per_host)
        self._tried = 0
        self._best: list[_Found] = []
        self._enough_s = 0.0  # where the search may end
        self._seatings: dict[frozenset[int], _Seating] = {}

    def run(self, seed: int) -> Searched:
        plain = self._seating(np.arange(self._ranks))
        first = np.arange(self._nodes)
        own = _Plan(seating=plain, place_of_node=first)
        default_s = plain.orders.seconds(first.astype(np.uint32))
        rows = self._rows()
        for row in (first.astype(np.uint32), *rows):
            self._offer(own, row)
        bound_s = None
        if self._grid is not None:
            found = self._scored(self._grid, rows, rng := np.random.default_rng(seed))
            bound_s = sum_bound(self._shape, self._grid, default_s, self._least)
            self._enough_s = (bound_s or 0.0) * _ENOUGH
            self._climb_all(found, rng)
        best = self._improved(seed)
        slots = np.empty(self._ranks, np.uint32)
        per_host = self._shape.slots_per_host
        places = np.arange(self._ranks)
        hosts = best.host_of_node[places // per_host]
        slots[best.seating.rank_of_place] = hosts * per_host + places % per_host
        return Searched(
            slots=slots,
            tried=self._tried,
            bound_s=bound_s,
        )

    def _seating(self, rank_of_place: NDArray[np.intp]) -> _Seating:
        slots = np.empty(self._ranks, np.uint32)
        slots[rank_of_place] = np.arange(self._ranks, dtype=np.uint32)
        return _Seating(rank_of_place=rank_of_place, orders=self._groups.orders(slots))

    @property
    def _least(self) -> float:
        return min(each.seconds for each in self._best)

    def _seconds(self, plan: _Plan, row: Slots) -> float:
        """Of a plan on hosts one after the other; infinite where a phase takes too long."""
        orders = plan.seating.orders
        self._tried += 1
        self._spent_s += _ORDER_S + _MESSAGE_S * orders.messages
        seconds = orders.seconds(row[plan.place_of_node])
        is_slow = max(seconds, default=0.0) > self._slowest_s * (1 + _SAME)
        return math.inf if is_slow else sum(seconds)

    def _offer(self, plan: _Plan, row: Slots) -> float:
        seconds = self._seconds(plan, row)
        if seconds < math.inf:
            hosts = row[plan.place_of_node]
            self._best.append(_Found(seconds=seconds, seating=plan.seating, host_of_node=hosts))
        return seconds

    # ---- hosts one after the other

    def _rows(self) -> list[Slots]:
        """Hosts as given, by name, and stage by stage, as many as have a node first."""
        count = len(self._shape.hosts)
        given = list(range(count))
        named = sorted(given, key=lambda host: _natural(self._shape.hosts[host]))
        packed = _Row(self._shape).hosts()
        rows = {tuple(row): None for row in (given, named, packed.tolist())}
        return [np.array(row, np.uint32) for row in rows]

    # ---- block orders

    def _scored(
        self, grid: RankGrid, rows: Sequence[Slots], rng: np.random.Generator
    ) -> list[_Start]:
        """Orders of factors, each on the best of some rows of hosts, the best first."""
        axis_of = [_axis_of(grid, stride) for stride, _ in grid.factors]
        coarse = dict.fromkeys(_coarse(grid, grid.factors, axis_of))
        mixed = [_Row(self._shape).mixed(rng) for _ in range(_MIXED)]
        found = []
        for order in dict.fromkeys((*coarse, *_interleaved(axis_of))):
            if order not in coarse and self._spent_s > _SCORE_SHARE * self._budget_s:
                break
            plan = self._plan(grid.factors, order)
            if plan is None:
                continue
            if order in coarse:
                for row in rows:
                    self._offer(plan, row)
            scored = [self._seconds(plan, row.hosts()) for row in mixed]
            least = min(range(len(mixed)), key=scored.__getitem__)
            found.append((scored[least], plan, mixed[least]))
        return sorted(found, key=lambda each: each[0])

    def _climb_all(self, found: Sequence[_Start], rng: np.random.Generator) -> None:
        """Look for better rows for the best of them, until some have brought nothing."""
        in_vain = 0
        for number, (seconds, plan, row) in enumerate(found[:_CLIMBED]):
            if in_vain == _IN_VAIN or self._least <= self._enough_s:
                break
            least = self._least
            share = _SCORE_SHARE + _CLIMB_SHARE * (number + 1) / _CLIMBED
            self._climb(plan, row, seconds, share, rng)
            in_vain = 0 if self._least < least else in_vain + 1

    def _climb(
        self, plan: _Plan, row: _Row, seconds: float, share: float, rng: np.random.Generator
    ) -> None:
        """Groups of hosts change places as long as that is no loss, until nothing is gained."""
        since = 0
        while (
            since < _PATIENCE * row.groups
            and self._spent_s < share * self._budget_s
            and seconds > self._enough_s
        ):
            other = row.changed(rng)
            after = self._seconds(plan, other.hosts())
            since = since + 1 if after >= seconds * (1 - _SAME) else 0
            if after <= seconds:
                row, seconds = other, after
        self._offer(plan, row.hosts())

    def _plan(self, factors: Sequence[Digit], order: _Order) -> _Plan | None:
        """An order whose first factors fill hosts; None where they do not."""
        per_host = self._shape.slots_per_host
        inside = 0
        while math.prod(factors[at][1] for at in order[:inside]) < min(per_host, self._ranks):
            inside += 1
        if math.prod(factors[at][1] for at in order[:inside]) != per_host:
            return None
        content = frozenset(order[:inside])
        if content not in self._seatings:
            plain = (*sorted(content), *(at for at in range(len(factors)) if at not in content))
            self._seatings[content] = self._seating(_along(factors, plain))
        seating = self._seatings[content]
        first = _along(factors, (*sorted(content), *order[inside:]))[::per_host]
        node_of_rank = np.empty(self._ranks, np.intp)
        node_of_rank[seating.rank_of_place] = np.arange(self._ranks) // per_host
        place_of_node = np.empty(self._nodes, np.intp)
        place_of_node[node_of_rank[first]] = np.arange(self._nodes)
        return _Plan(seating=seating, place_of_node=place_of_node)

    # ---- search

    def _improved(self, seed: int) -> _Found:
        """Walk from the best orders, until some walks bring nothing, then on from the best."""
        starts = sorted(self._best, key=lambda each: float(f"{each.seconds:.9g}"))[:_STARTS]
        best = starts[0]
        left_s = max(0.0, self._budget_s - self._spent_s)
        in_vain = 0
        for number, start in enumerate((*starts, None)):
            if in_vain == _IN_VAIN or best.seconds <= self._enough_s:
                break
            share = 1 - _FIRST_SHARE * len(starts) if start is None else _FIRST_SHARE
            found = self._walked(start or best, seed + number, share * left_s)
            is_better = found.seconds < best.seconds * (1 - _SAME)
            best = found if is_better else best
            in_vain = 0 if is_better else in_vain + 1
        return best

    def _walked(self, start: _Found, seed: int, cpu_s: float) -> _Found:
        """What the core finds from a start."""
        orders = start.seating.orders
        hosts, tried, _ = orders.improve(
            start.host_of_node,
            slowest_s=self._slowest_s,
            enough_s=self._enough_s,
            steps=int(cpu_s / _STEP_S),
            seed=seed,
            interruptible=threading.current_thread() is threading.main_thread(),
        )
        self._tried += tried
        seconds = sum(orders.seconds(hosts))
        return _Found(seconds=seconds, seating=start.seating, host_of_node=hosts)


class _Row:
    """Hosts one after the other, group by group of each stage; the groups are in some order."""

    def __init__(self, shape: Shape) -> None:
        stages = shape.host_groups().stages
        count = len(shape.hosts)
        self._at = np.zeros((len(stages), count), np.intp)  # group of each host, stage by stage
        for at, stage in enumerate(stages):
            for number, group in enumerate(stage):
                self._at[at, list(group.hosts)] = number
        self._ranks = [np.arange(len(stage)) for stage in stages]

    @property
    def groups(self) -> int:
        """How many there are."""
        return sum(map(len, self._ranks))

    def hosts(self) -> Slots:
        """The hosts in their order."""
        keys = [ranks[at] for ranks, at in zip(self._ranks, self._at, strict=True)]
        return np.lexsort(keys).astype(np.uint32)

    def _with(self, ranks: list[NDArray[np.intp]]) -> _Row:
        made = copy(self)
        made._ranks = ranks
        return made

    def mixed(self, rng: np.random.Generator) -> _Row:
        """The groups of each stage in any order."""
        return self._with([rng.permutation(len(each)) for each in self._ranks])

    def changed(self, rng: np.random.Generator) -> _Row:
        """Two groups of a stage changed places, or one went elsewhere."""
        ranks = list(self._ranks)
        at = int(rng.integers(len(ranks)))
        own = ranks[at].copy()
        a, b = rng.integers(len(own), size=2)
        if rng.random() < 0.5:
            own[a], own[b] = own[b], own[a]
        else:
            order = np.argsort(own)
            order = np.insert(np.delete(order, own[a]), own[b], a)
            own[order] = np.arange(len(own))
        ranks[at] = own
        return self._with(ranks)


def _axis_of(grid: RankGrid, stride: int) -> int:
    return max(at for at, (first, _) in enumerate(grid.axes) if first <= stride)


def _along(factors: Sequence[Digit], order: Sequence[int]) -> NDArray[np.intp]:
    """The rank of each place, if places are numbered along the factors in this order."""
    ranks = np.zeros(1, np.intp)
    for at in order:
        stride, count = factors[at]
        ranks = (ranks[None, :] + stride * np.arange(count)[:, None]).ravel()
    return ranks


def _coarse(grid: RankGrid, factors: Sequence[Digit], axis_of: Sequence[int]) -> Iterator[_Order]:
    """The first axis innermost, the others in any order, one of them perhaps in two parts."""
    first = tuple(at for at in range(len(factors)) if axis_of[at] == 0)
    own = [
        tuple(at for at in range(len(factors)) if axis_of[at] == axis)
        for axis in range(1, len(grid.axes))
    ]
    seen: dict[_Order, None] = {}
    for split in own:
        others = [each for each in own if each is not split]
        for cut in range(len(split) + 1):
            for parts in permutations([*others, split[:cut], split[cut:]]):
                order = (*first, *(at for part in parts for at in part))
                if all(a < b for a, b in pairwise(at for at in order if at in split)):
                    seen[order] = None
    yield from seen


def _interleaved(axis_of: Sequence[int]) -> Iterator[_Order]:
    """Every order of factors that keeps those of each axis in their order, the first axis first."""
    left = {axis: [at for at, own in enumerate(axis_of) if own == axis] for axis in set(axis_of)}
    start = tuple(left.pop(0))

    def rest(order: _Order, left: dict[int, list[int]]) -> Iterator[_Order]:
        if not any(left.values()):
            yield order
        for axis, own in left.items():
            if own:
                yield from rest((*order, own[0]), {**left, axis: own[1:]})

    yield from rest(start, left)


def _natural(name: str) -> tuple[object, ...]:
    """By its words and numbers."""
    return tuple((0, int(x), "") if x.isdigit() else (1, 0, x) for x in re.split(r"(\d+)", name))
