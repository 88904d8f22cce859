"""Map groups that a library orders itself: which set of devices each group gets.

The order inside a group costs nothing. On few devices every division into sets is covered
(`set_cover`); where that takes too long, and on more devices, swaps improve the default and random
starts until the time is over.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from toposeat import _core
from toposeat.evaluation import Evaluator
from toposeat.mapping.problem import Answer, Problem
from toposeat.mapping.set_cover import MOST_DEVICES, Looks, Seconds, SetCover
from toposeat.model.map_options import MapOptions

if TYPE_CHECKING:
    from toposeat.evaluation.group_time import GroupModel

_SAME = 1e-9  # times that differ by a smaller share are the same
_STARTS = 64  # of the search by swaps, besides the default


def searches_sets(evaluator: Evaluator, problem: Problem, options: MapOptions) -> bool:
    """Whether sets are searched: on one node, for time, one rank per device, no given order."""
    return (
        evaluator.groups is not None
        and evaluator.groups.nodes == 1
        and options.objective == "time"
        and not options.is_fixed
        and max(problem.slots) == 1
    )


def map_sets(
    evaluator: Evaluator,
    problem: Problem,
    default: Sequence[int],
    *,
    budget_s: float,
    is_clocked: bool = False,
    seed: int,
    model: GroupModel | None = None,
    also: Sequence[Sequence[int]] = (),
) -> Answer:
    """The placement with the least sum of phases.

    Of equal sums the one whose slowest phase is least; of those the default. Beside it the best one
    whose slowest phase is no slower than the default's, and the one whose slowest phase is least.

    Args:
        evaluator: of a traffic with groups on one node.
        problem: the checked constraints; one rank per device.
        default: the placement to beat.
        budget_s: seconds that the search stands for.
        is_clocked: whether it also ends then.
        seed: of random starts.
        model: of the groups where the machine has other numbers than those of the evaluator.
        also: placements that are perhaps the best already.
    """
    model = model or evaluator.groups
    assert model is not None
    looks = Looks(budget_s, is_clocked=is_clocked)
    search = _Search(
        model=model,
        problem=problem,
        looks=looks,
    )
    search.offer(tuple(default))
    search.limit = search.best_low
    for row in also:
        search.offer(tuple(row))
    pairs_s = _least_of_pairs(evaluator, model, problem, budget_s / 4, seed)
    bound = _least_of_links(model, problem.devices, pairs_s)
    cover = None
    if search.best_sum > bound * (1 + _SAME) and len(problem.devices) <= MOST_DEVICES:
        allowed = problem.devices_of_ranks(len(default))
        cover = SetCover(model, allowed, problem.devices, pairs_s, looks)
        bound = max(bound, cover.bound())
    proved = search.best_sum <= bound * (1 + _SAME)
    if not proved:  # else each phase takes its least time, and the slowest does
        if cover is not None:
            proved = cover.run(search.best_sum, search.beaten_by)
        if not (proved and also):
            search.improve(search.best)  # of equal sums the least slowest phase
        proved = proved or search.best_sum <= bound * (1 + _SAME)
    if not proved:
        search.wander(random.Random(seed))
    return Answer(
        device_of_rank=search.best,
        value=search.best_sum,
        lower_bound=search.best_sum if proved else bound,
        proved=proved,
        solver="sets",
        also=search.others(),
    )


def _least_of_links(model: GroupModel, devices: Sequence[int], pairs_s: Seconds) -> float:
    """Seconds below which no sets come: no ring has more than what leaves a device."""
    fastest = max(model.machine.rates.leaving(device) for device in devices)
    total = 0.0
    for phase in model.phases:
        rings = [group.bytes for group in phase.groups if group.exchange.is_ring]
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
                network=model.machine.network,
                flows=phase.flows,
            )
            answer = _core.map_ranks(request)
            bound = answer.value if answer.proved or answer.uniform else answer.lower_bound
            found[phase.label] = bound or 0.0
    return found


class _Search(Struct):
    """The best placement so far, and swaps that improve one."""

    model: GroupModel
    problem: Problem
    looks: Looks
    best: tuple[int, ...] = ()
    best_sum: float = float("inf")
    best_low: float = float("inf")
    limit: float = float("inf")  # of the slowest phase: the default's
    known: dict[tuple[int, ...], tuple[float, float]] = field(default_factory=dict)

    def is_over(self) -> bool:
        """Whether the time for the search is used up."""
        return self.looks.are_over()

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
        if total < self.best_sum * (1 - _SAME) or (
            total <= self.best_sum * (1 + _SAME) and low < self.best_low * (1 - _SAME)
        ):
            self.best, self.best_sum, self.best_low = placement, total, low
        return found

    def beaten_by(self, placement: tuple[int, ...]) -> float:
        """Take a placement if it is better; the least sum so far."""
        self.offer(placement)
        return self.best_sum

    def others(self) -> tuple[tuple[int, ...], ...]:
        """What was met with the least sum within the limit, and with the least slowest phase."""
        within = [row for row, (_, low) in self.known.items() if low <= self.limit * (1 + _SAME)]
        by_sum = min(within, key=lambda row: self.known[row], default=self.best)
        by_low = min(self.known, key=lambda row: self.known[row][::-1])
        return tuple(row for row in dict.fromkeys((by_sum, by_low)) if row != self.best)

    def improve(self, placement: tuple[int, ...]) -> None:
        """Swap two ranks, or move one to a free device, while that makes the sum smaller."""
        value = self.offer(placement)
        improved = True
        while improved and not self.is_over():
            improved = False
            for other in self.problem.near(placement):
                if self.is_over():
                    break
                found = self.offer(other)
                if found < (value[0] * (1 - _SAME), value[1]):
                    placement, value, improved = other, found, True
                    break

    def wander(self, rng: random.Random) -> None:
        """Improve placements that some random swaps make of the best."""
        for _ in range(_STARTS):
            if self.is_over():
                break
            placement = self.best
            for _ in range(3):
                placement = rng.choice([*self.problem.near(placement)] or [placement])
            self.improve(placement)
