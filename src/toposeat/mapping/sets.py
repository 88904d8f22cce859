"""Map groups that a library orders itself: which set of devices each group gets.

The order inside a group costs nothing, so ranks with the same groups and no messages of their own
are interchangeable. On few devices every division into sets is covered by branch and bound: a phase
takes at least V / B for a group whose final set has the rate B, and a partly seated group ends in
some superset of its devices, of which the fastest bounds it (B does not grow with the set). On
more devices swaps improve the default and random starts until the time is over.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from toposeat import _core
from toposeat.evaluation import Evaluator
from toposeat.evaluation.group_time import GroupModel, PhaseParts
from toposeat.mapping.problem import Problem
from toposeat.model.map_options import MapOptions
from toposeat.model.traffic import Exchange

Seconds = dict[str, float]  # by label of a phase

MOST_EXACT_DEVICES = 10
_SAME = 1e-9  # times that differ by a smaller share are the same
_STARTS = 64  # of the search by swaps, besides the default


@dataclass(frozen=True, kw_only=True, slots=True)
class SetsAnswer:
    """What was found, in the form of the core's answers; seconds are the sum of the phases."""

    device_of_rank: tuple[int, ...]
    value: float
    lower_bound: float | None
    proved: bool
    solver: str = "sets"
    uniform: bool = False
    notes: tuple[str, ...] = ()


def searches_sets(evaluator: Evaluator, problem: Problem, options: MapOptions) -> bool:
    """Whether sets are searched: on one node, for time, one rank per device, no given order."""
    return (
        evaluator.groups is not None
        and evaluator.groups.nodes == 1
        and options.objective == "time"
        and options.solver != "multilevel"
        and not options.is_fixed
        and max(problem.slots) == 1
    )


def map_sets(
    evaluator: Evaluator,
    problem: Problem,
    default: Sequence[int],
    *,
    budget_s: float,
    seed: int,
    model: GroupModel | None = None,
) -> SetsAnswer:
    """The placement with the least sum of phases that is nowhere slower than the default.

    Of equal sums the one whose slowest phase is least; of those the default.

    Args:
        evaluator: of a traffic with groups on one node.
        problem: the checked constraints; one rank per device.
        default: the placement to beat.
        budget_s: seconds after which the search ends with what it has.
        seed: of random starts.
        model: of the groups where the machine has other numbers than those of the evaluator.
    """
    model = model or evaluator.groups
    assert model is not None
    search = _Search(
        model=model,
        allowed=_allowed(problem, len(default)),
        deadline=time.perf_counter() + budget_s,
    )
    search.offer(tuple(default))
    search.limit = search.best_low
    pairs_s = _least_of_pairs(evaluator, model, problem, budget_s / 4, seed)
    bound = _least_of_links(model, problem.devices, pairs_s)
    proved = search.best_sum <= bound * (1 + _SAME)
    if not proved:  # else each phase takes its least time, and the slowest does
        search.improve(tuple(default))
        proved = search.best_sum <= bound * (1 + _SAME)
    if not proved and len(problem.devices) <= MOST_EXACT_DEVICES:
        covering = _Covering(search, _bounds(model, problem.devices, pairs_s))
        bound = max(bound, covering.root)
        proved = covering.run()
    if not proved:
        search.wander(random.Random(seed))
    return SetsAnswer(
        device_of_rank=search.best,
        value=search.best_sum,
        lower_bound=search.best_sum if proved else bound,
        proved=proved,
    )


def _allowed(problem: Problem, ranks: int) -> list[tuple[int, ...]]:
    """The devices that each rank may have, in the order of the problem."""
    pins = dict(problem.pins)
    found = []
    for rank in range(ranks):
        own = problem.allowed[rank] if problem.allowed and problem.allowed[rank] else None
        found.append(
            (pins[rank],)
            if rank in pins
            else tuple(d for d in problem.devices if own is None or d in own)
        )
    return found


def _least_of_links(model: GroupModel, devices: Sequence[int], pairs_s: Seconds) -> float:
    """Seconds below which no sets come: no ring has more than what leaves a device."""
    fastest = max(model.rates.leaving(device) for device in devices)
    total = 0.0
    for phase in model.phases:
        rings = [group.bytes for group in phase.groups if group.exchange is Exchange.RING]
        total += max(rings, default=0) / fastest if phase.flows is None else pairs_s[phase.label]
    return total


def _least_of_pairs(
    evaluator: Evaluator, model: GroupModel, problem: Problem, budget_s: float, seed: int
) -> Seconds:
    """Seconds below which no placement brings the messages between pairs, by phase."""
    found = {}
    for phase in model.phases:
        if phase.flows is not None:
            request = problem.request(
                evaluator,
                MapOptions(seed=seed),
                budget_s=budget_s,
                network=model.network,
                flows=phase.flows,
            )
            answer = _core.map_ranks(request)
            bound = answer.value if answer.proved or answer.uniform else answer.lower_bound
            found[phase.label] = bound or 0.0
    return found


@dataclass
class _Search:
    """The best placement so far, and swaps that improve one."""

    model: GroupModel
    allowed: list[tuple[int, ...]]
    deadline: float
    best: tuple[int, ...] = ()
    best_sum: float = float("inf")
    best_low: float = float("inf")
    limit: float = float("inf")  # the slowest phase may not take longer
    refused: float = float("inf")  # least sum of a placement that is over the limit
    known: dict[tuple[int, ...], tuple[float, float]] = field(default_factory=dict)

    def is_over(self) -> bool:
        """Whether the time for the search is used up."""
        return time.perf_counter() > self.deadline

    def value(self, placement: tuple[int, ...]) -> tuple[float, float]:
        """Sum of the phases, and the slowest."""
        found = self.known.get(placement)
        if found is None:
            seconds = self.model.seconds(placement)
            found = self.known[placement] = sum(seconds), max(seconds, default=0.0)
        return found

    def offer(self, placement: tuple[int, ...]) -> tuple[float, float]:
        """Take a placement if it is better; its value."""
        total, low = found = self.value(placement)
        if low > self.limit * (1 + _SAME):
            self.refused = min(self.refused, total)
        elif total < self.best_sum * (1 - _SAME) or (
            total <= self.best_sum * (1 + _SAME) and low < self.best_low * (1 - _SAME)
        ):
            self.best, self.best_sum, self.best_low = placement, total, low
        return found

    def improve(self, placement: tuple[int, ...]) -> None:
        """Swap two ranks, or move one to a free device, while that makes the sum smaller."""
        value = self.offer(placement)
        improved = True
        while improved and not self.is_over():
            improved = False
            for other in self._neighbours(placement):
                if self.is_over():
                    break
                found = self.offer(other)
                if found < (value[0] * (1 - _SAME), value[1]):
                    placement, value, improved = other, found, True
                    break

    def _neighbours(self, placement: tuple[int, ...]) -> list[tuple[int, ...]]:
        found = []
        taken = set(placement)
        for rank, device in enumerate(placement):
            for free in self.allowed[rank]:
                if free not in taken:
                    found.append((*placement[:rank], free, *placement[rank + 1 :]))
            for other in range(rank):
                if placement[other] in self.allowed[rank] and device in self.allowed[other]:
                    moved = list(placement)
                    moved[rank], moved[other] = placement[other], device
                    found.append(tuple(moved))
        return found

    def wander(self, rng: random.Random) -> None:
        """Improve placements that some random swaps make of the best."""
        for _ in range(_STARTS):
            if self.is_over():
                break
            placement = self.best
            for _ in range(3):
                placement = rng.choice(self._neighbours(placement) or [placement])
            self.improve(placement)


@dataclass(frozen=True)
class _Bounds:
    """Least seconds of each phase: of a ring group by the devices that it has so far."""

    fastest: dict[int, dict[int, float]]  # by size of the group, then mask: rate of a superset
    bit: dict[int, int]  # of each device
    pairs_s: Seconds  # of the messages between pairs, on the placement that is best for them

    def phase(self, phase: PhaseParts, placement: Sequence[int | None]) -> float:
        """Seconds that the phase takes at least, whatever the ranks without a device get."""
        slowest = 0.0 if phase.flows is None else self.pairs_s[phase.label]
        for group in phase.groups:
            if group.exchange is not Exchange.RING:
                continue
            mask = 0
            for rank in group.ranks:
                device = placement[rank]
                if device is not None:
                    mask |= self.bit[device]
            rate = self.fastest[len(group.ranks)][mask]
            slowest = max(slowest, group.bytes / rate if rate > 0 else float("inf"))
        return slowest


def _bounds(model: GroupModel, devices: Sequence[int], pairs_s: Seconds) -> _Bounds:
    bit = {device: 1 << place for place, device in enumerate(devices)}
    sizes = {
        len(group.ranks)
        for phase in model.phases
        for group in phase.groups
        if group.exchange is Exchange.RING
    }
    fastest = {}
    for size in sizes:
        rates = {
            sum(bit[device] for device in own): model.rates.of(tuple(sorted(own))).bytes_per_s
            for own in combinations(devices, min(size, len(devices)))
        }
        for smaller in range(size - 1, -1, -1):
            for own in combinations(devices, smaller):
                mask = sum(bit[device] for device in own)
                rates[mask] = max(
                    rates[mask | bit[device]] for device in devices if not mask & bit[device]
                )
        fastest[size] = rates
    return _Bounds(fastest, bit, pairs_s)


class _Covering:
    """Branch and bound over the devices of each rank, in rank order."""

    def __init__(self, search: _Search, bounds: _Bounds) -> None:
        self._search = search
        self._bounds = bounds
        self._phases = search.model.phases
        ranks = len(search.allowed)
        self._placement: list[int | None] = [None] * ranks
        self._twin = _twins(search, ranks)
        self.root = self._bound()

    def _bound(self) -> float:
        return sum(self._bounds.phase(phase, self._placement) for phase in self._phases)

    def run(self) -> bool:
        """Cover every placement; False where the time was over or the answer was refused."""
        whole = self._extend(0)
        return whole and self._search.refused >= self._search.best_sum * (1 - _SAME)

    def _extend(self, rank: int) -> bool:
        """Cover what is left; a bound that only equals the best cannot improve the sum."""
        if self._search.is_over():
            return False
        if self._bound() >= self._search.best_sum * (1 - _SAME):
            return True
        if rank == len(self._placement):
            self._search.offer(tuple(d for d in self._placement if d is not None))
            return True
        twin = self._twin[rank]
        after = -1 if twin is None else self._placement[twin]
        whole = True
        for device in self._search.allowed[rank]:
            if device in self._placement or (after is not None and device < after):
                continue
            self._placement[rank] = device
            whole = self._extend(rank + 1) and whole
            self._placement[rank] = None
        return whole


def _twins(search: _Search, ranks: int) -> list[int | None]:
    """For each rank the one before it that it could change places with, at no cost at all."""
    alone = [phase for phase in search.model.phases if phase.flows is not None]
    last: dict[tuple[object, ...], int] = {}
    found: list[int | None] = []
    for rank in range(ranks):
        groups = tuple(
            rank in group.ranks for phase in search.model.phases for group in phase.groups
        )
        key = (groups, search.allowed[rank], rank if alone else None)
        found.append(last.get(key))
        last[key] = rank
    return found
