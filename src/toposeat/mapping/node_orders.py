"""Orders of the nodes of a large job with groups: every block order, then exchanges of hosts.

A block order numbers the ranks along the axes of the job (`rank_grid`), cut into prime factors, in
another order: `dp_inner x pp x dp_outer` and the like, which hosts get one after the other. Hosts
are taken as given, by name, by leaf and spine, and such that blocks do not straddle leaves and
spines where that can be. All are scored by the sum of the phases; the best are starts of the core's
search (`core/include/toposeat/large/node_orders.hpp`), for the rest of the budget.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, permutations, product

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from toposeat import _core
from toposeat.mapping.order_bound import sum_bound
from toposeat.mapping.rank_grid import Digit, RankGrid, rank_grid
from toposeat.mapping.shapes import Shape
from toposeat.mapping.slot_groups import SlotGroups, Slots
from toposeat.model.traffic import Traffic

_FINE_SHARE = 0.2  # of the budget: for orders that cut more than one axis, or pack hosts
_STARTS = 6  # of the search
_FIRST_SHARE = 0.1  # of its time, for each
_PACKED = 12  # orders for which hosts are packed
_ENOUGH = 1 - 1e-5  # the bound is so much lower for what is rounded
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
    order: _Order = ()


def search_orders(
    shape: Shape, traffic: Traffic, *, slowest_s: float, cpu_s: float, seed: int
) -> Searched | None:
    """The best order of nodes; None on machines that have none: domains, or no hosts on switches.

    Args:
        shape: the machine.
        traffic: with groups.
        slowest_s: seconds that no phase may exceed.
        cpu_s: budget in seconds of this thread's CPU time. All block orders that cut one axis at
            most are scored, however long that takes.
        seed: of the search.
    """
    if shape.domain_of_host or not shape.machine.links_of_order:
        return None
    return _Search(shape, traffic, slowest_s, time.thread_time() + cpu_s).run(seed)


class _Search:
    def __init__(self, shape: Shape, traffic: Traffic, slowest_s: float, end: float) -> None:
        self._shape, self._ranks = shape, traffic.ranks
        self._slowest_s, self._end = slowest_s, end
        self._budget = end - time.thread_time()
        self._groups = SlotGroups(shape, traffic)
        self._grid = rank_grid(traffic.ranks, self._groups.phases)
        self._nodes = -(-traffic.ranks // shape.slots_per_host)
        self._tried = 0
        self._best: list[_Found] = []  # of each order of factors, the least first
        self._seatings: dict[frozenset[int], _Seating] = {}

    def run(self, seed: int) -> Searched:
        plain = self._seating(np.arange(self._ranks))
        first = np.arange(self._nodes, dtype=np.uint32)
        default_s = plain.orders.seconds(first)
        self._offer(plain, first)
        rows = self._rows()
        for hosts in rows:
            self._offer(plain, hosts[: self._nodes])
        if self._grid is not None:
            self._score_blocks(self._grid, rows)
        self._best.sort(key=lambda each: each.seconds)
        bound_s = None
        if self._grid is not None:
            begin = time.thread_time()
            bound_s = sum_bound(self._shape, self._grid, default_s, self._best[0].seconds)
            self._end += time.thread_time() - begin  # the budget is the search's
        found = self._improved(seed, bound_s or 0.0)
        slots = np.empty(self._ranks, np.uint32)
        per_host = self._shape.slots_per_host
        places = np.arange(self._ranks)
        hosts = found.host_of_node[places // per_host]
        slots[found.seating.rank_of_place] = hosts * per_host + places % per_host
        return Searched(
            slots=slots,
            tried=self._tried,
            bound_s=bound_s,
        )

    def _is_over(self, share: float) -> bool:
        return time.thread_time() > self._end - (1 - share) * self._budget

    def _seating(self, rank_of_place: NDArray[np.intp]) -> _Seating:
        slots = np.empty(self._ranks, np.uint32)
        slots[rank_of_place] = np.arange(self._ranks, dtype=np.uint32)
        return _Seating(rank_of_place=rank_of_place, orders=self._groups.orders(slots))

    def _offer(self, seating: _Seating, host_of_node: Slots, order: _Order = ()) -> None:
        self._tried += 1
        seconds = seating.orders.seconds(host_of_node)
        if max(seconds, default=0.0) > self._slowest_s * (1 + _SAME):
            return
        self._best.append(
            _Found(seconds=sum(seconds), seating=seating, host_of_node=host_of_node, order=order)
        )

    # ---- hosts one after the other

    def _rows(self) -> list[Slots]:
        """Hosts as given, by name, and stage by stage, as many as have a node first."""
        count = len(self._shape.hosts)
        given = list(range(count))
        named = sorted(given, key=lambda host: _natural(self._shape.hosts[host]))
        packed = self._packed((1,) * len(self._shape.host_groups().stages))
        rows = {tuple(row): None for row in (given, named, packed)}
        return [np.array(row, np.uint32) for row in rows]

    def _packed(self, blocks: Sequence[int]) -> list[int]:
        """Hosts group by group of each stage, whole blocks first: what is left over comes last."""
        units = [[host] for host in range(len(self._shape.hosts))]
        spare: list[int] = []
        for stage, block in zip(self._shape.host_groups().stages, blocks, strict=True):
            at = {host: number for number, group in enumerate(stage) for host in group.hosts}
            gathered: dict[int, list[int]] = {}
            left: dict[int, list[int]] = {}
            for unit in units:
                gathered.setdefault(at[unit[0]], []).extend(unit)
            for host in spare:
                left.setdefault(at[host], []).append(host)
            units, spare = [], []
            for number in dict.fromkeys([*gathered, *left]):
                own = gathered.get(number, []) + left.get(number, [])
                whole = len(own) // block * block
                units += [own[:whole]] if whole else []
                spare += own[whole:]
        return [host for unit in units for host in unit] + spare

    # ---- block orders

    def _score_blocks(self, grid: RankGrid, rows: Sequence[Slots]) -> None:
        factors = grid.factors
        axis_of = [_axis_of(grid, stride) for stride, _ in factors]
        coarse = list(_coarse(grid, factors, axis_of))
        for order in coarse:
            for row in rows:
                self._score(factors, order, row)
        for order in _interleaved(axis_of):
            if self._is_over(_FINE_SHARE / 2):
                break
            self._score(factors, order, rows[-1])
        self._best.sort(key=lambda each: each.seconds)
        starts = list(dict.fromkeys(each.order for each in self._best if each.order))
        stages = len(self._shape.host_groups().stages)
        for order in starts[:_PACKED]:
            for blocks in product(self._blocks(factors, order), repeat=stages):
                if self._is_over(_FINE_SHARE):
                    return
                if list(blocks) == sorted(blocks):
                    row = np.array(self._packed(blocks), np.uint32)
                    self._score(factors, order, row)

    def _blocks(self, factors: Sequence[Digit], order: _Order) -> list[int]:
        """How many nodes the blocks of an order have."""
        per_host = self._shape.slots_per_host
        sizes = accumulate((factors[at][1] for at in order), lambda a, b: a * b)
        return [size // per_host for size in sizes if size > per_host and size % per_host == 0]

    def _score(self, factors: Sequence[Digit], order: _Order, row: Slots) -> None:
        """Score an order whose first factors fill hosts, on hosts one after the other."""
        per_host = self._shape.slots_per_host
        inside = 0
        while math.prod(factors[at][1] for at in order[:inside]) < min(per_host, self._ranks):
            inside += 1
        if math.prod(factors[at][1] for at in order[:inside]) != per_host:
            return
        content = frozenset(order[:inside])
        if content not in self._seatings:
            plain = (*sorted(content), *(at for at in range(len(factors)) if at not in content))
            self._seatings[content] = self._seating(_along(factors, plain))
        seating = self._seatings[content]
        first = _along(factors, (*sorted(content), *order[inside:]))[::per_host]
        node_of_rank = np.empty(self._ranks, np.intp)
        node_of_rank[seating.rank_of_place] = np.arange(self._ranks) // per_host
        hosts = np.empty(self._nodes, np.uint32)
        hosts[node_of_rank[first]] = row[: self._nodes]
        self._offer(seating, hosts, order)

    # ---- search

    def _improved(self, seed: int, enough_s: float) -> _Found:
        """Walk from the best of several orders of factors, then on from where the best one led."""
        starts: dict[_Order, _Found] = {}
        for each in self._best:
            starts.setdefault(each.order, each)
        chosen = list(starts.values())[:_STARTS]
        found = [
            self._walked(start, seed + number, enough_s, _FIRST_SHARE / (1 - _FIRST_SHARE * number))
            for number, start in enumerate(chosen)
        ]
        best = min(found, key=lambda each: each.seconds)
        return self._walked(best, seed + len(chosen), enough_s, 1.0)

    def _walked(self, start: _Found, seed: int, enough_s: float, share: float) -> _Found:
        """What the core finds from a start in a share of the time that is left."""
        hosts, tried, _ = start.seating.orders.improve(
            start.host_of_node,
            slowest_s=self._slowest_s,
            enough_s=enough_s / _ENOUGH,
            cpu_s=max(0.0, share * (self._end - time.thread_time())),
            seed=seed,
            interruptible=threading.current_thread() is threading.main_thread(),
        )
        self._tried += tried
        seconds = sum(start.seating.orders.seconds(hosts))
        return _Found(seconds=seconds, seating=start.seating, host_of_node=hosts, order=start.order)


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
