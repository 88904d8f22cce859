"""Choose the placement with the best guaranteed gain where numbers of a machine are assumed.

The guaranteed gain of a placement is the least over all machines that its premises and readings
allow (`evaluation.corners`). A placement that is slower than the default on any of them is not
taken.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation import Evaluator
from toposeat.evaluation.corners import Machines, Outlook
from toposeat.mapping.problem import Answer, Problem
from toposeat.mapping.sets import map_sets, searches_sets
from toposeat.model.map_options import MapOptions
from toposeat.model.quantity import WORTH_SAYING, Premises
from toposeat.model.record import Record
from toposeat.model.topology import Topology

MOST_SOLVED_DEVICES = 8  # for so many, every corner's best placement is found and proved
MOST_SEARCHED_DEVICES = 64  # for so many, a search looks for a better guaranteed gain
_SEARCH_S = 0.2
_TOLERANCE = 1e-9  # of values computed in another order


class Untold(Record, frozen=True, kw_only=True):
    """What the sources of a machine leave open, apart from numbers.

    `readings` are the other machines that they allow, with the same devices in the same order;
    `pairs` the ids of devices of which no source tells whether device links join them.
    """

    readings: tuple[Topology, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()


class Choice(Struct, frozen=True, kw_only=True):
    """The placement to take, what its gain depends on, and why it is not the solver's answer.

    `everywhere` says whether no placement is better at any corner.
    """

    device_of_rank: Sequence[int]
    premises: Premises
    everywhere: bool
    note: str = ""

    def premises_of(self, placed: Sequence[int], default: Sequence[int]) -> Premises:
        """Premises of the placement that is used in the end; the default itself gains nothing."""
        return (
            replace(self.premises, gain_range=(0.0, 0.0))
            if tuple(placed) == tuple(default)
            else self.premises
        )


class Asked(Record, frozen=True, kw_only=True):
    """The machine, the traffic and the options of one choice."""

    topology: Topology
    problem: Problem
    evaluator: Evaluator
    options: MapOptions
    untold: Untold
    deadline: float  # of `time.perf_counter`


def choose(asked: Asked, default: Sequence[int], answer: Sequence[int], *, proved: bool) -> Choice:
    """Take the candidate with the best guaranteed gain.

    Candidates are the solver's answer and the default. Up to `MOST_SOLVED_DEVICES` devices the best
    placements of all corners are added; up to `MOST_SEARCHED_DEVICES` what a short search finds on
    the machine where the answer gains least.
    """
    options = asked.options
    solvable = (
        proved
        and options.objective in _AT_CORNERS
        and options.solver in ("auto", "exact")
        and len(asked.problem.devices) <= MOST_SOLVED_DEVICES
    )
    rows = [tuple(default), tuple(answer)]
    looked_at = None if solvable else np.array(rows, np.uint32)
    machines = Machines(asked.evaluator, looked_at, asked.untold.readings)
    found, least = _solved_corners(asked, machines, rows) if solvable else ([], [])
    if options.objective == "time":
        rows += [row for row in dict.fromkeys(found) if row not in rows]
    outlook = machines.outlook(np.array(rows, np.uint32))
    if not solvable and _may_be_better(asked, outlook.least_gains()[:, 1]):
        worst = int(outlook.least_gains()[: len(outlook.factors), 1].argmin())
        left = min(_SEARCH_S, max(0.0, asked.deadline - time.perf_counter()))
        request = replace(asked, options=replace(options, solver="search"))
        rows.append(tuple(_solved(request, machines, worst, rows[:1], left).device_of_rank))
        outlook = machines.outlook(np.array(rows, np.uint32))
    taken = 1 if options.is_fixed else _taken(outlook, options.objective)
    return Choice(
        device_of_rank=rows[taken],
        premises=Premises(
            untold_pairs=asked.untold.pairs,
            assumed=outlook.assumed(asked.topology, taken or 1),
            gain_range=outlook.gain_range(taken),
            of_phases=asked.evaluator.groups is not None,
        ),
        everywhere=_is_best(asked, machines, rows[taken], least),
        note=_note(outlook) if taken == 0 and rows[0] != rows[1] else "",
    )


_AT_CORNERS = {"time": _core.flow_time_each, "congestion": _core.max_congestion_each}


def _is_best(
    asked: Asked, machines: Machines, row: tuple[int, ...], least: Sequence[float]
) -> bool:
    """Whether a placement has the least value of the objective at every corner.

    For the pairwise cost this is so where its metric uses none of the assumed numbers.
    """
    options = asked.options
    if asked.untold.readings:
        return False
    if not asked.evaluator.machine.arrays.premises:
        return True
    if options.objective == "cost":
        return options.metric in ("latency", "distance")
    if len(least) < machines.corner_count or not least:
        return False
    return all(
        _value(asked, machines, at, row) <= best * (1 + _TOLERANCE)
        for at, best in zip(machines.corners, least, strict=True)
    )


def _value(asked: Asked, machines: Machines, at: int, row: tuple[int, ...]) -> float:
    """The objective on one of the machines."""
    if machines.groups:
        return sum(machines.groups[at].seconds(row))
    value = _AT_CORNERS[asked.options.objective]
    placement = np.array([row], np.uint32)
    return float(value(machines.networks[at], asked.evaluator.flows, placement)[0])


def _taken(outlook: Outlook, objective: str) -> int:
    """The column with the best guaranteed gain, if nowhere slower; at a tie the answer."""
    gains = outlook.gains()
    guaranteed = gains.min(axis=0)
    candidates = range(1, gains.shape[1] if objective == "time" else 2)
    able = [at for at in candidates if outlook.least_gains()[:, at].min() >= -_TOLERANCE]
    if not able:
        return 0
    most = max(guaranteed[at] for at in able)
    if 1 in able and guaranteed[1] >= most - _TOLERANCE:
        return 1
    equal = [at for at in able if guaranteed[at] >= most - _TOLERANCE]
    return max(equal, key=lambda at: gains[0, at])


def _may_be_better(asked: Asked, gain: NDArray[np.float64]) -> bool:
    """Whether a search for a placement other than the answer is worthwhile."""
    options, devices = asked.options, len(asked.problem.devices)
    asks_for_time = options.objective == "time" and options.solver in ("auto", "exact", "search")
    return (
        asks_for_time and devices <= MOST_SEARCHED_DEVICES and gain[0] - gain.min() > WORTH_SAYING
    )


def _solved(
    asked: Asked,
    machines: Machines,
    at: int,
    rows: Sequence[tuple[int, ...]],
    budget_s: float,
) -> _core.MapAnswer | Answer:
    """What is found on one of the machines; `rows` are the default, and what is known beside it."""
    if searches_sets(asked.evaluator, asked.problem, asked.options):
        return map_sets(
            asked.evaluator,
            asked.problem,
            rows[0],
            model=machines.groups[at],
            also=rows[1:],
            budget_s=budget_s,
            seed=asked.options.seed,
        )
    request = asked.problem.request(
        asked.evaluator, asked.options, budget_s=budget_s, network=machines.networks[at]
    )
    return _core.map_ranks(request)


def _solved_corners(
    asked: Asked, machines: Machines, rows: Sequence[tuple[int, ...]]
) -> tuple[list[tuple[int, ...]], list[float]]:
    """The best placements of corners, and their values as far as they are proved in time."""
    found: list[tuple[int, ...]] = []
    least: list[float] = []
    for at in machines.corners:
        left = asked.deadline - time.perf_counter()
        if left <= 0:
            break
        answer = _solved(asked, machines, at, [*rows, *dict.fromkeys(found)], left)
        found.append(tuple(answer.device_of_rank))
        if not answer.proved:
            break
        least.append(answer.value)
    return found, least


def _note(outlook: Outlook) -> str:
    """Why the solver's answer is not taken."""
    gain = outlook.least_gains()[:, 1]
    worst = int(gain.argmin())
    nominal, least = float(outlook.gains()[0, 1]), float(gain[worst])
    start = f"kept the default: a placement predicted {100 * nominal:.2g} % faster was found, but"
    loss = f"{-100 * least:.2g} % slower"
    if gain[worst] < outlook.gains()[worst, 1] - _TOLERANCE:
        loss += ", if phases overlap,"
    if worst >= len(outlook.factors):
        return f"{start} it is {loss} if other device links are there"
    if worst == 0:
        return f"{start} it is {loss.rstrip(',')}"
    where = ", ".join(
        f"{premise.what} of {premise.nominal * factor:.3g} {premise.unit}"
        for premise, factor, effect in zip(
            outlook.premises, outlook.factors[worst].tolist(), outlook.effects(gain), strict=True
        )
        if effect >= -least
    )
    return f"{start} it is {loss} with {where or 'other assumed numbers'}"
