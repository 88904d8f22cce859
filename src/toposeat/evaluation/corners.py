"""Predictions on all machines that the premises and readings of a topology allow.

An assumed number lies in an interval (`model.quantity`). A corner has every premise at one of its
ends. A fixed sequence of points inside the intervals is evaluated too, because flow time need not
be monotone, and so is every other machine that the same sources allow (a *reading*).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation.compiled_machine import CompiledMachine
from toposeat.evaluation.evaluation import Evaluator
from toposeat.evaluation.network import compile_network
from toposeat.model.quantity import WORTH_SAYING, Assumed, Premise, Premises
from toposeat.model.topology import Topology

if TYPE_CHECKING:
    from toposeat.evaluation.group_time import GroupModel

MOST_MACHINES = 144  # 128 corners of seven premises, and 16 points inside
_INSIDE = 16
_INSIDE_OF_GROUPS = 4  # the rings of a set are no slower where links carry more
_WORK = 2_000_000  # of pairs of devices and flows on all machines together
_FLOW_WORK = 10  # work of a flow relative to a pair of devices
_MEMBER_WORK = 5000  # of a rank in a group, whose rings are searched

Floats = NDArray[np.float64]


class Outlook(Struct, frozen=True, kw_only=True):
    """Predicted seconds of placements on every allowed machine.

    Row 0 of `times` (machines, placements) is the nominal machine. `factors` (machines, premises)
    are the premises relative to their nominal values; readings have no row there. With groups
    `times` are the sums of the phases, and `slowest` those of the slowest phase alone.
    """

    premises: tuple[Premise, ...]
    factors: Floats
    times: Floats
    slowest: Floats | None = None

    def gains(self) -> Floats:
        """Shares of the default's time that each placement saves, (machines, placements)."""
        return _gains(self.times)

    def _both_gains(self) -> Floats:
        """Those of the sums and of the slowest phases, (2, machines, placements)."""
        slowest = self.times if self.slowest is None else self.slowest
        return np.stack([_gains(self.times), _gains(slowest)])

    def least_gains(self) -> Floats:
        """The lesser of the gains of sum and slowest phase, (machines, placements)."""
        least: Floats = self._both_gains().min(axis=0)
        return least

    def gain_range(self, placement: int) -> tuple[float, float]:
        """Least and largest of a placement's gains, of sum and slowest phase."""
        gains = self._both_gains()[:, :, placement]
        return float(gains.min()), float(gains.max())

    def assumed(self, topology: Topology, placement: int) -> tuple[Assumed, ...]:
        """All premises of a machine, and whether each decides the gain of a placement."""
        deciding = {
            premise.what
            for gain in self._both_gains()[:, :, placement]
            for premise, effect in zip(self.premises, self.effects(gain), strict=True)
            if effect > WORTH_SAYING
        }
        names = [each.name for each in fields(Premise)]  # asdict would copy every value
        return tuple(
            Assumed(**{name: getattr(each, name) for name in names}, decides=each.what in deciding)
            for each in topology.premises
        )

    def effects(self, gain: Floats) -> list[float]:
        """How far each premise alone can move `gain`, a column of `gains`."""
        found = []
        known = {tuple(row): at for at, row in enumerate(self.factors.tolist())}
        for number, premise in enumerate(self.premises):
            low, high = premise.low / premise.nominal, premise.high / premise.nominal
            moved = [0.0]
            for row, at in known.items():
                if row[number] == low:
                    other = known.get((*row[:number], high, *row[number + 1 :]))
                    moved += [] if other is None else [abs(float(gain[at] - gain[other]))]
            found.append(max(moved))
        return found


def _gains(times: Floats) -> Floats:
    base = times[:, [0]]
    return 1 - np.divide(times, base, out=np.ones_like(times), where=base > 0)


class Machines:
    """The machines that premises and readings of a topology allow, compiled.

    Only premises of routes that the given placements use are varied (None: of all routes). Where
    devices and flows are many, only some corners are used: all premises at one end, and each
    premise alone.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        placements: NDArray[np.uint32] | None,
        readings: Sequence[Topology] = (),
    ) -> None:
        self._evaluator = evaluator
        self._readings = readings
        uses = evaluator.machine.arrays.premises
        self._moved = [at for at, use in enumerate(uses) if evaluator.groups or use.is_of_flows]
        if uses and placements is not None:
            used = _used_pairs(evaluator, placements)
            self._moved = [at for at in self._moved if used[uses[at].pairs].any()]
        self.premises = tuple(uses[at].premise for at in self._moved)
        work = evaluator.machine.arrays.devices**2 + _FLOW_WORK * len(evaluator.table.source)
        if evaluator.groups is not None:
            work += _MEMBER_WORK * sum(map(len, evaluator.groups.members()))
        most = min(MOST_MACHINES, max(2, _WORK // work))
        inside = _INSIDE if evaluator.groups is None else _INSIDE_OF_GROUPS
        self.factors, self.corner_count = _factors(self.premises, most, inside)

    @cached_property
    def _machines(self) -> tuple[CompiledMachine, ...]:
        """Those of `factors`, in their order: the nominal one first."""
        nominal = self._evaluator.machine
        moved = (dict(zip(self._moved, row, strict=True)) for row in self.factors[1:].tolist())
        return (nominal, *map(nominal.at, moved))

    @cached_property
    def networks(self) -> tuple[_core.Network, ...]:
        """The machines of `factors` for the core."""
        return tuple(each.network for each in self._machines)

    @cached_property
    def groups(self) -> tuple[GroupModel, ...]:
        """The time model of groups on each of the machines; none without groups."""
        nominal = self._evaluator.groups
        return () if nominal is None else tuple(map(nominal.at, self._machines))

    @property
    def corners(self) -> range:
        """Numbers of those with every premise at one of its ends."""
        return range(1, min(1 + self.corner_count, len(self.factors)))

    def outlook(self, placements: NDArray[np.uint32]) -> Outlook:
        """Predict every placement on every machine."""
        if nominal := self._evaluator.groups:
            models = [*self.groups, *map(nominal.of, self._readings)]
            rows = placements.tolist()
            seconds = [[each.seconds(row) for row in rows] for each in models]
            return Outlook(
                premises=self.premises,
                factors=self.factors,
                times=np.array([[sum(each) for each in row] for row in seconds]),
                slowest=np.array([[max(each, default=0.0) for each in row] for row in seconds]),
            )
        flows = self._evaluator.flows
        networks = [*self.networks, *map(compile_network, self._readings)]
        times = [_core.flow_time_each(each, flows, placements) for each in networks]
        return Outlook(premises=self.premises, factors=self.factors, times=np.stack(times))


def premises_of_gains(
    topology: Topology,
    evaluator: Evaluator,
    placements: Sequence[Sequence[int]],
    readings: Sequence[Topology] = (),
) -> tuple[Premises, ...]:
    """What the gain of each placement over the first depends on."""
    rows = np.array(placements, np.uint32)
    outlook = Machines(evaluator, rows, readings).outlook(rows)
    return tuple(
        Premises(
            assumed=outlook.assumed(topology, at),
            gain_range=outlook.gain_range(at),
            of_phases=evaluator.groups is not None,
        )
        for at in range(len(placements))
    )


def _used_pairs(evaluator: Evaluator, placements: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which ordered pairs of devices may carry bytes in any of the placements."""
    devices, table = evaluator.machine.arrays.devices, evaluator.table
    used = np.zeros((devices, devices), np.bool_)
    at = placements.astype(np.intp)
    used[at[:, table.source], at[:, table.target]] = True
    for ranks in evaluator.groups.members() if evaluator.groups is not None else ():
        for row in at[:, ranks]:
            used[np.ix_(row, row)] = True
    return used.reshape(-1)


def _factors(premises: Sequence[Premise], most: int, inside: int) -> tuple[Floats, int]:
    """Rows for nominal, the corners and points inside; and the number of corners."""
    ends = [(each.low / each.nominal, each.high / each.nominal) for each in premises]
    rows: list[Sequence[float]] = [[1.0] * len(ends)]
    corners = 2 ** len(ends) if ends else 0
    if ends and corners <= most:
        rows += product(*ends)
        rows += _inside(ends, min(inside, most - corners))
    elif ends:
        rows += zip(*ends, strict=True)  # all low, all high
        alone = [
            [end if other == at else 1.0 for other in range(len(ends))]
            for at, both in enumerate(ends)
            for end in both
        ]
        rows += alone[: max(0, most - 2)]
    return np.array(rows, np.float64), corners


def _inside(ends: Sequence[tuple[float, float]], count: int) -> list[list[float]]:
    """Points that fill the box evenly: multiples of powers of the generalised golden ratio."""
    golden = 2.0
    for _ in range(32):
        golden = (1 + golden) ** (1 / (len(ends) + 1))
    steps = [golden ** -(at + 1) for at in range(len(ends))]
    return [
        [
            low + (0.5 + number * step) % 1 * (high - low)
            for step, (low, high) in zip(steps, ends, strict=True)
        ]
        for number in range(1, count + 1)
    ]
