"""Default or another placement, of listed devices, sets and slots alike: the rule, the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toposeat.evaluation.scenarios import Floats, OpenMachine, Outlook
from toposeat.model.evaluation import KEPT, Certificate, Evaluation, MappingResult
from toposeat.model.map_options import MapOptions
from toposeat.model.quantity import (
    PORT_PREMISE,
    UPLINK_PREMISE,
    WORTH_SAYING,
    Premise,
    Premises,
)
from toposeat.model.scenario import Barred, ScenarioGain, Settling, Worth
from toposeat.model.topology import Topology

if TYPE_CHECKING:  # one node needs none of them
    from toposeat.mapping.shapes import Shape

Flags = NDArray[np.bool_]

SAME = 1e-9  # share by which values differ that are computed in another order


class Evaluating(Protocol):
    """A machine and a traffic, compiled once for any number of placements."""

    @property
    def default(self) -> Sequence[int]:
        """What a job has without a placement."""

    def evaluate(self, device_of_rank: Sequence[int]) -> Evaluation:
        """What a placement is predicted to take."""


# ---- the rule

NEAR = 0.01  # largest regrets that differ by less are equal
MOST_LOST = 0.1  # share of the default's time that an order may cost in a scenario
WORTH_TELLING = 0.1  # a saving in some scenario that is named where nothing is gained nominally


def taken(
    outlook: Outlook,
    min_gain: float,
    order: Callable[[int], tuple[Any, ...]] = lambda at: (at,),
    *,
    is_yardstick: bool = False,
    same: float = SAME,
) -> int:
    """The column to take: of the allowed placements the one with the smallest largest regret.

    The regret of a placement in a scenario is its time over that of the best one there, minus one
    (Savage's criterion of decisions without probabilities). See docs/adr/0066-one-decision.md.

    Args:
        outlook: of all candidates; column 0 is the default.
        min_gain: share of the default's value that has to be saved.
        order: a key that decides between equals, the least first.
        is_yardstick: the default is a candidate like the others, which need not save anything.
        same: share by which the nominally faster one has to be faster.
    """
    gains, rows = outlook.gains(), outlook.everywhere
    is_able = allowed_among(gains, min_gain)
    if is_yardstick:
        is_able |= _are_harmless(gains) & (gains[0] >= -SAME)
    allowed = np.flatnonzero(is_able).tolist()
    allowed = [at for at in allowed if not any(_beats(rows, other, at) for other in allowed)]
    regrets = largest_regrets(outlook.times)
    allowed = [at for at in allowed if regrets[at] <= regrets[0] + NEAR]
    if not allowed:
        return 0
    least = min(regrets[at] for at in allowed)
    near = [at for at in allowed if regrets[at] <= least + NEAR]
    nominal = outlook.times[0]
    fastest = min(nominal[at] for at in near)
    return min((at for at in near if nominal[at] <= fastest * (1 + same)), key=order)


def allowed_among(gains: Floats, min_gain: float) -> Flags:
    """Which placements may be taken: worth it by what they save, and nowhere much slower.

    The default (column 0), which saves nothing, is not among them.
    """
    least, most = gains.min(axis=0), gains.max(axis=0)
    is_equal = (abs(gains[0]) <= SAME) & (least >= -SAME) & _are_saved(most, min_gain)
    found: Flags = _are_harmless(gains) & (_are_saved(gains[0], min_gain) | is_equal)
    return found


def _are_saved(shares: Floats, min_gain: float) -> Flags:
    """Which shares are worth a move."""
    return (shares > SAME) & (shares >= min_gain - SAME)


def _are_harmless(gains: Floats) -> Flags:
    """Which placements are nowhere slower by more than may be lost."""
    found: Flags = gains.min(axis=0) >= -MOST_LOST
    return found


def verdict(gains: Floats, min_gain: float) -> Worth:
    """What a placement is worth, by the shares it saves: nominal, in scenarios, at ends."""
    is_slower = gains.min() < -SAME
    if _are_saved(gains[0], min_gain):
        return Worth.POSSIBLE if is_slower else Worth.GAIN
    is_equal = abs(gains[0]) <= SAME and not is_slower
    return Worth.POSSIBLE if is_equal and _are_saved(gains.max(), min_gain) else Worth.NONE


def largest_regrets(times: Floats, best: Floats | None = None) -> Floats:
    """The largest regret of each placement, (placements,); `best` of the scenarios, if known."""
    best = times.min(axis=1, keepdims=True) if best is None else best[:, None]
    found: Floats = np.divide(times, best, out=np.ones_like(times), where=best > 0).max(axis=0) - 1
    return found


def _beats(rows: Floats, other: int, at: int) -> bool:
    """Whether one placement is as fast as another everywhere, and faster somewhere."""
    mine, theirs = rows[:, at], rows[:, other]
    return bool((theirs <= mine * (1 + SAME)).all() and (theirs < mine * (1 - SAME)).any())


def premises_of(
    outlook: Outlook,
    at: int,
    machine: OpenMachine | None,
    min_gain: float,
    *,
    of_phases: bool = False,
) -> Premises:
    """The verdict on the placement of a column, with what is for it, against it, and settles it.

    Args:
        outlook: column 0 is the default.
        at: the column that is taken; 0: the default is kept.
        machine: what is open; None: nothing but how libraries work.
        min_gain: as for `taken`.
        of_phases: whether the traffic has several phases.
    """
    gains, names = outlook.gains(), [each.name for each in outlook.every]
    mine = gains[:, at]
    word = verdict(mine, min_gain) if at else Worth.NONE
    losses = np.argsort(mine, kind="stable")
    against = tuple(
        ScenarioGain(names[row], float(mine[row])) for row in losses if mine[row] < -SAME
    )
    open_gain = None
    deciding: Sequence[int] = ()
    if word is Worth.GAIN:
        deciding = np.flatnonzero(mine < min(min_gain, mine[0])).tolist()
    elif word is Worth.POSSIBLE:
        deciding = np.flatnonzero(mine < -SAME if against else mine > SAME).tolist()
    elif word is Worth.NONE and gains.shape[1] > 1:
        best = gains[1:].max(axis=1)
        if best.max(initial=0.0) > WORTH_TELLING:
            top = int(best.argmax())
            open_gain = ScenarioGain(names[1 + top], float(best[top]))
            deciding = (1 + np.flatnonzero(best > WORTH_TELLING)).tolist()
    return Premises(
        untold_pairs=() if machine is None else machine.untold_pairs,
        assumed=() if machine is None else outlook.assumed(machine.nominal.topology, at),
        gain_range=(float(mine.min()), float(mine.max())),
        of_phases=of_phases,
        verdict=word,
        scenarios=len(outlook.scenarios),
        depends_on=outlook.depends_on(at),
        against=against,
        settles=_settling(outlook, deciding),
        open_gain=open_gain,
        barred=None if at else _barred(outlook, min_gain),
        between=_between(outlook, at),
    )


def _between(outlook: Outlook, at: int) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """The ends of the values of the default and a placement, if an untold processor moves them."""
    of_families = [any(fact.is_between for fact in each.changed) for each in outlook.every]
    rows = outlook.everywhere[:, [0, at]]
    own = rows[of_families]
    if not own.size or (own.max(axis=0) <= own.min(axis=0) * (1 + WORTH_SAYING)).all():
        return None
    (default, placed) = zip(rows.min(axis=0).tolist(), rows.max(axis=0).tolist(), strict=True)
    return default, placed


def _settling(outlook: Outlook, rows: Sequence[int]) -> tuple[Settling, ...]:
    """The facts that decide: those that do so alone, else all of the first of these rows."""
    deciding = [outlook.every[row] for row in rows]
    alone = [each for each in deciding if len(each.changed) < 2]
    found: dict[str, Settling] = {}
    for each in alone or deciding[:1]:
        for fact in each.changed:
            found.setdefault(fact.what, Settling(fact.what, fact.settle))
        if each.premise is not None:
            found.setdefault(each.premise.what, settling_of(each.premise))
    return tuple(found.values())


def settling_of(premise: Premise) -> Settling:
    """What tells an independent number."""
    if premise.what in (PORT_PREMISE, UPLINK_PREMISE):
        return Settling("the network's rates in GB/s", "-t NETWORK,bandwidth=PORT:UPLINK")
    return Settling(premise.what, "toposeat measure")


def _barred(outlook: Outlook, min_gain: float) -> Barred | None:
    """The nominally best placement that only its loss in some scenario keeps from being taken."""
    gains = outlook.gains()
    barred = np.flatnonzero(_are_saved(gains[0], min_gain) & ~_are_harmless(gains))
    if not barred.size:
        return None
    best = max(barred.tolist(), key=lambda at: gains[0, at])
    worst = int(gains[:, best].argmin())
    return Barred(
        device_of_rank=outlook.rows[best],
        share=float(gains[0, best]),
        worst=ScenarioGain(outlook.every[worst].name, float(gains[worst, best])),
    )


def kept_notes(outlook: Outlook, at: int, options: MapOptions) -> list[str]:
    """Why the default is kept though another placement saves something."""
    if at or options.is_fixed:
        return []
    nominal = outlook.gains()[0, 1:]
    most = float(nominal.max(initial=0.0))
    if SAME < most < options.min_gain:
        return [
            f"{KEPT}: a placement with {100 * most:.2g} % less {options.objective} was found, but"
            f" less than {100 * options.min_gain:.2g} % is not worth moving ranks for"
        ]
    return []


# ---- the result


def certificate_of(
    objective: str,
    placed: Evaluation,
    *,
    reason: str,
    bound: float | None = None,
    proved: bool = False,
    everywhere: bool = True,
    orders_tried: int | None = None,
) -> Certificate:
    """What a search proved, with the value as the evaluation states it."""
    value = placed.value(objective)
    gap = 0.0 if proved else max(0.0, value / bound - 1) if bound else None
    return Certificate(
        objective=objective,
        proved=proved,
        value=value,
        lower_bound=bound,
        gap=gap,
        reason=reason,
        everywhere=everywhere,
        orders_tried=orders_tried,
    )


def result_of(
    machine: Topology | Shape,
    default: Evaluation,
    placed: Evaluation,
    options: MapOptions,
    certificate: Certificate,
    *,
    solver: str,
    solve_seconds: float = 0.0,
    **members: Any,
) -> MappingResult:
    """The default and a placement as a result; `members` are those that some machines have."""
    if isinstance(machine, Topology):
        name, per_host = machine.name, _devices_of_each(machine)
    else:
        name, per_host = machine.text, machine.slots_per_host
    return MappingResult(
        device_of_rank=placed.device_of_rank,
        default=default,
        placed=placed,
        certificate=certificate,
        objective=options.objective,
        metric=options.metric,
        solver=solver,
        solve_seconds=solve_seconds,
        seed=options.seed,
        min_gain=options.min_gain,
        cpu_ranks=tuple(sorted(set(options.constraints.cpu_ranks))),
        topology=name,
        hosts=machine.hosts,
        slots_per_host=per_host,
        **members,
    )


def _devices_of_each(topology: Topology) -> int:
    """How many devices each host has, where all have as many and stand after each other; else 0."""
    each = len(topology.devices) // max(1, len(topology.hosts))
    alike = [host for host in topology.hosts for _ in range(each)]
    return each if [device.host for device in topology.devices] == alike else 0
