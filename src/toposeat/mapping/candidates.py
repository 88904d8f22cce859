"""The placements among which the rule decides: the same for every verb, whatever it prints.

They are the default, the solver's answer, the best placement of each scenario where few devices let
it be found and proved, and by the largest regret the best of all orders of few devices, or of more
what a descent by swaps finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from operator import contains

import numpy as np
from msgspec import Struct

from toposeat import _core
from toposeat.evaluation import Evaluator
from toposeat.evaluation.scenarios import Floats, Outlook, Row, Scenario, Scenarios, gains_of
from toposeat.mapping.decision import NEAR, SAME, allowed_among, largest_regrets
from toposeat.mapping.problem import Answer, Problem, swapped
from toposeat.mapping.sets import map_sets, searches_sets
from toposeat.model.map_options import MapOptions

MOST_SOLVED_DEVICES = 8  # for so many, every scenario's best placement is found and proved
MOST_SEARCHED_DEVICES = 64  # for so many, swaps look for a smaller largest regret
_SOLVE_S = 1.0  # for one scenario: a few milliseconds are enough
_MOST_ORDERED = 6  # devices of which all placements are looked at
_FEW = 8  # of them by regret
_STEPS = 6  # of the descent
_LOOKS = 3000  # placements times scenarios that are looked at
_FLOWS = 1_000_000  # the same times the pairs of ranks that exchange messages
_MOST_MOVES = 32  # rounds in which ranks go back to their own devices
_MOST_TURNED = 64  # ranks whose placement is turned and mirrored


class Asked(Struct, frozen=True, kw_only=True):
    """The machine, the traffic and the options of one decision."""

    problem: Problem
    evaluator: Evaluator
    options: MapOptions
    scenarios: Scenarios


def candidates(asked: Asked, rows: Sequence[Row], *, proved: bool) -> tuple[Outlook, list[float]]:
    """All candidates in all scenarios, and the proved least value of each scenario.

    Args:
        asked: what is to be decided.
        rows: the default, the solver's answer, and what else was found.
        proved: whether the answer is the best one nominally.

    Returns:
        The outlook, and as many values as scenarios were solved: none where they are too large.
    """
    found = [*dict.fromkeys(rows)]
    least: list[float] = []
    options = asked.options
    by_time = options.objective == "time" and options.solver in ("auto", "exact", "search")
    devices = len(asked.problem.devices)
    is_open = asked.scenarios.is_open
    if by_time and proved and devices <= MOST_SOLVED_DEVICES and is_open:
        found, least = _solved_scenarios(asked, found)
    outlook = asked.scenarios.outlook(found)
    if by_time and devices <= MOST_SEARCHED_DEVICES and is_open:
        best = _start(outlook, options.min_gain)
        if largest_regrets(outlook.times)[best] > NEAR:
            every = _every_order(asked.problem, len(rows[0]))
            outlook = _of_all(asked, outlook, every) if every else _descended(asked, outlook)
    return outlook, least


def _solved_scenarios(asked: Asked, rows: list[Row]) -> tuple[list[Row], list[float]]:
    """The best placements of all that is solvable, ends too, and their values if all are proved."""
    found = dict.fromkeys(rows)
    least: list[float] = []
    is_proved = True
    for each in asked.scenarios.solvable:
        answer = _solved(asked, each, rows[0], [*found][1:])
        found[tuple(answer.device_of_rank)] = None
        is_proved = is_proved and answer.proved
        least.append(answer.value)
    return [*found], least if is_proved else []


def _solved(
    asked: Asked, scenario: Scenario, default: Row, also: Sequence[Row]
) -> _core.MapAnswer | Answer:
    """What is found in one scenario; `also` are placements that are perhaps the best already."""
    if searches_sets(asked.evaluator, asked.problem, asked.options):
        return map_sets(
            asked.evaluator,
            asked.problem,
            default,
            model=asked.scenarios.model(scenario),
            also=also,
            budget_s=_SOLVE_S,
            seed=asked.options.seed,
        )
    request = asked.problem.request(
        asked.evaluator, asked.options, budget_s=_SOLVE_S, network=asked.scenarios.network(scenario)
    )
    return _core.map_ranks(request)


# ---- a smaller largest regret


def _start(outlook: Outlook, min_gain: float) -> int:
    """The column of the default or an allowed placement whose largest regret is smallest."""
    regrets = largest_regrets(outlook.times)
    able = np.flatnonzero(allowed_among(outlook.gains(), min_gain)).tolist()
    return min([0, *able], key=lambda at: regrets[at])


def _every_order(problem: Problem, ranks: int) -> list[Row]:
    """All placements where there are few of them; else none."""
    if len(problem.devices) > _MOST_ORDERED or max(problem.slots) > 1:
        return []
    able = problem.devices_of_ranks(ranks)
    rows = permutations(problem.devices, ranks)
    return [row for row in rows if all(map(contains, able, row))]


def _of_all(asked: Asked, outlook: Outlook, rows: Sequence[Row]) -> Outlook:
    """The candidates with the best of all placements: in each scenario, and by regret."""
    every = [outlook.rows[0], *rows]
    times = asked.scenarios.times(every)
    able = _by_regret(asked, times, times.min(axis=1))
    found = (every[at] for at in (*times.argmin(axis=1).tolist(), *able[:_FEW]))
    return asked.scenarios.outlook([*dict.fromkeys((*outlook.rows, *found))])


def _by_regret(asked: Asked, times: Floats, best: Floats) -> list[int]:
    """Columns that are allowed, the ends of numbers left out, by largest regret."""
    allowed = allowed_among(gains_of(times), asked.options.min_gain)
    order = np.argsort(largest_regrets(times, best), kind="stable").tolist()
    return [at for at in order if allowed[at]]


def _descended(asked: Asked, outlook: Outlook) -> Outlook:
    """The candidates with what swaps find from the best of them, while the regret falls."""
    left = _looks(asked)
    for _ in range(_STEPS):
        start = _start(outlook, asked.options.min_gain)
        least = largest_regrets(outlook.times)[start]
        known = set(outlook.rows)
        near = [row for row in asked.problem.near(outlook.rows[start]) if row not in known][:left]
        left -= len(near)
        if least <= NEAR or not near:
            break
        every = [outlook.rows[0], *near]
        times, best = asked.scenarios.times(every), outlook.times.min(axis=1)
        able = _by_regret(asked, times, best)
        if not able or largest_regrets(times, best)[able[0]] >= least - SAME:
            break
        outlook = asked.scenarios.outlook([*outlook.rows, every[able[0]]])
    return outlook


def _looks(asked: Asked) -> int:
    """How many placements may be looked at in all scenarios: fewer of a dense traffic."""
    scenarios = len(asked.scenarios.scenarios) + len(asked.scenarios.at_ends)
    return min(_LOOKS, _FLOWS // max(1, len(asked.evaluator.table.source))) // scenarios


# ---- fewer moves


def with_fewer_moves(asked: Asked, row: Row, default: Row) -> Row:
    """The placement with ranks back on their own devices, as far as every scenario stays equal."""
    limit = asked.scenarios.outlook([row]).everywhere[:, 0] * (1 + SAME)
    left = _looks(asked)
    for _ in range(_MOST_MOVES):
        now = moves(row, default)
        near = (*_going_back(asked.problem, row, default), *_alike(asked.problem, row))
        rows = [*dict.fromkeys(each for each in near if moves(each, default) < now)]
        left -= len(rows)
        if not rows or left < 0:
            break
        values = asked.scenarios.outlook(rows).everywhere
        same = [each for at, each in enumerate(rows) if (values[:, at] <= limit).all()]
        if not same:
            break
        row = min(same, key=lambda each: moves(each, default))
    return row


def _alike(problem: Problem, row: Row) -> Iterator[Row]:
    """What symmetries of usual patterns and machines make of a placement: turned, mirrored."""
    ranks = len(row)
    if ranks > _MOST_TURNED or problem.pins or problem.allowed or max(problem.slots) > 1:
        return
    devices = sorted(row)
    place = {device: at for at, device in enumerate(devices)}
    for turned in _turns(ranks):
        yield tuple(row[at] for at in turned)
        yield tuple(devices[turned[place[device]]] for device in row)


def _turns(count: int) -> Iterator[list[int]]:
    """Numbers turned and mirrored, as a whole and in blocks of each size, and with bits flipped."""
    places = range(count)
    for size in (each for each in range(2, count + 1) if count % each == 0):
        for by in range(size):
            turned = [at - at % size + (at + by) % size for at in places]
            yield turned
            yield [at - at % size + size - 1 - turned[at] % size for at in places]
    for mask in range(1, count if count & (count - 1) == 0 else 0):
        yield [at ^ mask for at in places]


def _going_back(problem: Problem, row: Row, default: Row) -> Iterator[Row]:
    """A rank takes its own device, and who has that takes the rank's, where it may."""
    at = {device: rank for rank, device in enumerate(row)}
    able = problem.devices_of_ranks(len(row))
    for rank, (device, own) in enumerate(zip(row, default, strict=True)):
        other = at.get(own)
        if device == own or max(problem.slots) > 1:
            continue
        if other is None:
            yield (*row[:rank], own, *row[rank + 1 :])
        elif device in able[other]:
            yield swapped(row, rank, other)


def moves(row: Row, default: Row) -> tuple[int, bool]:
    """How many ranks move, and whether rank 0 does."""
    moved = sum(a != b for a, b in zip(row, default, strict=True))
    return moved, row[:1] != default[:1]
