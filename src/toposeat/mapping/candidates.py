"""The placements among which the rule decides: the same for every verb, whatever it prints.

They are the default, the solver's answer, the best placement of each scenario where few devices let
it be found and proved, and what a descent by swaps on the largest regret finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np
from msgspec import Struct

from toposeat import _core
from toposeat.evaluation import Evaluator
from toposeat.evaluation.scenarios import Floats, Outlook, Row, Scenario, Scenarios
from toposeat.mapping.decision import MOST_LOST, NEAR, SAME, is_allowed, largest_regrets
from toposeat.mapping.problem import Answer, Problem
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
    is_open = len(asked.scenarios.scenarios) + len(asked.scenarios.at_ends) > 1
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
    able = [at for at in range(1, len(outlook.rows)) if is_allowed(outlook, at, min_gain)]
    return min([0, *able], key=lambda at: regrets[at])


def _every_order(problem: Problem, ranks: int) -> list[Row]:
    """All placements where there are few of them; else none."""
    devices = problem.devices
    if len(devices) > _MOST_ORDERED or max(problem.slots) > 1:
        return []
    pins = dict(problem.pins)
    return [
        row
        for row in permutations(devices, ranks)
        if all(row[rank] == device for rank, device in pins.items())
        if all(not own or row[rank] in own for rank, own in enumerate(problem.allowed))
    ]


def _of_all(asked: Asked, outlook: Outlook, rows: Sequence[Row]) -> Outlook:
    """The candidates with the best of all placements: in each scenario, and by regret."""
    times = asked.scenarios.times([outlook.rows[0], *rows])
    best = times.min(axis=1)
    regret = (times[:, 1:] / np.where(best > 0, best, 1.0)[:, None]).max(axis=0) - 1
    allowed = _allowed(times, asked.options.min_gain)
    able = [at for at in np.argsort(regret, kind="stable").tolist() if allowed[at]][:_FEW]
    found = [rows[at - 1] for at in times.argmin(axis=1).tolist() if at]
    found += [rows[at] for at in able]
    return asked.scenarios.outlook([*dict.fromkeys((*outlook.rows, *found))])


def _descended(asked: Asked, outlook: Outlook) -> Outlook:
    """The candidates with what swaps find from the best of them, while the regret falls."""
    left = _looks(asked)
    for _ in range(_STEPS):
        start = _start(outlook, asked.options.min_gain)
        least = largest_regrets(outlook.times)[start]
        known = set(outlook.rows)
        near = [row for row in _neighbours(asked.problem, outlook.rows[start]) if row not in known]
        near = near[:left]
        left -= len(near)
        if least <= NEAR or not near:
            break
        best = outlook.times.min(axis=1)
        times = asked.scenarios.times([outlook.rows[0], *near])
        allowed = _allowed(times, asked.options.min_gain)
        regret = (times[:, 1:] / np.where(best > 0, best, 1.0)[:, None]).max(axis=0) - 1
        order = [at for at in np.argsort(regret, kind="stable").tolist() if allowed[at]]
        if not order or regret[order[0]] >= least - SAME:
            break
        outlook = asked.scenarios.outlook([*outlook.rows, near[order[0]]])
    return outlook


def _looks(asked: Asked) -> int:
    """How many placements may be looked at in all scenarios: fewer of a dense traffic."""
    scenarios = len(asked.scenarios.scenarios) + len(asked.scenarios.at_ends)
    return min(_LOOKS, _FLOWS // max(1, len(asked.evaluator.table.source))) // scenarios


def _allowed(times: Floats, min_gain: float) -> list[bool]:
    """Whether each column but the first may be taken, the ends of numbers left out."""
    gains = 1 - times[:, 1:] / np.where(times[:, [0]] > 0, times[:, [0]], 1.0)
    least, most, few = gains.min(axis=0), gains.max(axis=0), max(min_gain - SAME, SAME)
    is_equal = (abs(gains[0]) <= SAME) & (least >= -SAME) & (most >= few)
    found: list[bool] = (((gains[0] >= few) & (least >= -MOST_LOST)) | is_equal).tolist()
    return found


def _neighbours(problem: Problem, row: Row) -> Iterator[Row]:
    """Two ranks change places, or one moves to a free device; pinned ranks stay."""
    pinned = dict(problem.pins)
    taken: dict[int, int] = {}
    for device in row:
        taken[device] = taken.get(device, 0) + 1
    free = [
        device
        for device, slots in zip(problem.devices, problem.slots, strict=True)
        if taken.get(device, 0) < slots
    ]
    movable = [rank for rank in range(len(row)) if rank not in pinned]

    def may(rank: int, device: int) -> bool:
        own = problem.allowed[rank] if problem.allowed else []
        return not own or device in own

    for place, rank in enumerate(movable):
        for other in movable[:place]:
            if row[rank] != row[other] and may(rank, row[other]) and may(other, row[rank]):
                yield _swapped(row, rank, other)
        for device in free:
            if may(rank, device):
                yield (*row[:rank], device, *row[rank + 1 :])


def _swapped(row: Row, rank: int, other: int) -> Row:
    moved = list(row)
    moved[rank], moved[other] = row[other], row[rank]
    return tuple(moved)


# ---- fewer moves


def with_fewer_moves(asked: Asked, row: Row, default: Row) -> Row:
    """The placement with ranks back on their own devices, as far as every scenario stays equal."""
    limit = _everywhere(asked.scenarios, [row])[:, 0] * (1 + SAME)
    left = _looks(asked)
    for _ in range(_MOST_MOVES):
        now = _moves(row, default)
        rows = {
            each: None
            for each in (*_going_back(asked.problem, row, default), *_alike(asked.problem, row))
            if _moves(each, default) < now
        }
        left -= len(rows)
        if not rows or left < 0:
            break
        times = _everywhere(asked.scenarios, [*rows])
        same = [each for at, each in enumerate(rows) if (times[:, at] <= limit).all()]
        if not same:
            break
        row = min(same, key=lambda each: _moves(each, default))
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
    """A rank takes its own device, and who has that takes the rank's, where both may."""
    at = {device: rank for rank, device in enumerate(row)}
    pinned = dict(problem.pins)
    for rank, (device, own) in enumerate(zip(row, default, strict=True)):
        other = at.get(own)
        if device == own or rank in pinned or other in pinned or max(problem.slots) > 1:
            continue
        if other is None:
            yield (*row[:rank], own, *row[rank + 1 :])
        elif not problem.allowed or not problem.allowed[other] or device in problem.allowed[other]:
            yield _swapped(row, rank, other)


def _everywhere(scenarios: Scenarios, rows: Sequence[Row]) -> Floats:
    outlook = scenarios.outlook(rows)
    return np.concatenate([outlook.times, outlook.ends])


def _moves(row: Row, default: Row) -> tuple[int, bool]:
    """How many ranks move, and whether rank 0 does."""
    moved = sum(a != b for a, b in zip(row, default, strict=True))
    return moved, row[:1] != default[:1]
