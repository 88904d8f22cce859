"""Predictions in all scenarios: on each machine, and by each way of working, that sources allow.

Facts that vary together (a product brings lanes, links, peer access and PCIe) are scenarios;
independent numbers lie in intervals of their own (`model.quantity.Premise`), whose ends are looked
at beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import product
from math import prod, sqrt

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation.compiled_machine import CompiledMachine
from toposeat.evaluation.evaluation import Evaluator
from toposeat.evaluation.group_time import GroupModel
from toposeat.model.evaluation import RINGS, TREES
from toposeat.model.latency import Latency
from toposeat.model.open_fact import (
    FLOW_PREMISE,
    OF_X16,
    PCIE_PREMISE,
    SOCKETS_PREMISE,
    Choice,
    Fact,
)
from toposeat.model.quantity import WORTH_SAYING, Assumed, Premise
from toposeat.model.topology import Topology

MOST_SCENARIOS = 24
_WORK = 2_000_000  # of pairs of devices and flows in all scenarios together
_FLOW_WORK = 10  # work of a flow relative to a pair of devices
_MEMBER_WORK = 5000  # of a rank in a group, whose rings are searched
_FEW_ENDS = 3  # independent numbers whose ends are combined in every way

Floats = NDArray[np.float64]
Row = tuple[int, ...]
Chosen = tuple[int, ...]  # the number of the choice of each fact
SlowestAlone = Callable[[Row], "tuple[float, ...]"]

_PHASES = Fact(
    what="whether phases overlap",
    settle="toposeat compare DEFAULT PLACED -- LAUNCH",
    choices=(
        Choice(name="phases one after the other"),
        Choice(name="phases that overlap"),
    ),
)
_BY = {
    way: Fact(
        what="whether all-reduces between nodes go by rings or by trees",
        settle=_PHASES.settle,
        choices=(Choice(name=f"all-reduces by {usual}"), Choice(name=f"all-reduces by {way}")),
    )
    for way, usual in ((TREES, RINGS), (RINGS, TREES))
}


_TURNS = Fact(
    what="whether messages to several partners overlap",
    settle=_PHASES.settle,
    choices=(Choice(name="messages that overlap"), Choice(name="one partner after the other")),
)


class OpenMachine:
    """A machine and the facts that its sources leave open; each machine they allow is made once.

    Attributes:
        facts: the open ones.
        untold_pairs: ids of devices of which no source tells whether device links join them.
        kinds: the product of each device, as far as it decides how fast it is.
        nominal: the machine with the first choice of each fact.
    """

    def __init__(
        self,
        topology: Topology,
        facts: Sequence[Fact] = (),
        *,
        untold_pairs: tuple[tuple[str, str], ...] = (),
        kinds: Sequence[str] = (),
        used: Callable[[Topology], Topology] = lambda machine: machine,
        compiled: CompiledMachine | None = None,
    ) -> None:
        """Compile a machine; `used` makes of each machine the one that predictions are made on."""
        self._base, self._used = topology, used
        self.facts, self.untold_pairs = tuple(facts), untold_pairs
        self.kinds = tuple(kinds) or tuple(device.name for device in topology.devices)
        self.nominal = CompiledMachine(used(topology)) if compiled is None else compiled
        self._drawn: dict[Chosen, CompiledMachine] = {(0,) * len(self.facts): self.nominal}

    def used_as(
        self, used: Callable[[Topology], Topology], *, of_groups: bool = True
    ) -> OpenMachine:
        """The same machine as predictions use it; itself where that changes nothing.

        Facts that are of groups alone are open no more without `of_groups`.
        """
        nominal = used(self._base)
        if of_groups and nominal is self._base:
            return self
        return OpenMachine(
            self._base,
            [fact for fact in self.facts if of_groups or not fact.of_groups],
            untold_pairs=self.untold_pairs,
            kinds=self.kinds,
            used=used,
            compiled=CompiledMachine(nominal),
        )

    def set_rate(self, devices: Sequence[int]) -> float:
        """The rate of a ring over devices of one node, in bytes per second.

        Where no processor is told, the nominal one is a guess between families that differ by ten
        times: it is the geometric middle of the least and the most of them.
        """
        at = next((n for n, fact in enumerate(self.facts) if fact.is_between), None)
        numbers = range(1, 1 if at is None else len(self.facts[at].choices))
        each = [self.at(tuple(n * (f == at) for f in range(len(self.facts)))) for n in numbers]
        found = [machine.rates.of(tuple(devices)).bytes_per_s for machine in each or [self.nominal]]
        return sqrt(min(found) * max(found)) if min(found) < max(found) else found[0]

    def at(self, chosen: Chosen, *, groups: bool = True) -> CompiledMachine:
        """The machine with these choices; without `groups` numbers of rings play no part."""
        choices = [fact.choices[at] for fact, at in zip(self.facts, chosen, strict=True)]
        drawn = tuple(at if choice.draw else 0 for at, choice in zip(chosen, choices, strict=True))
        if drawn not in self._drawn:
            machine = self._base
            for choice in choices:
                machine = machine if choice.draw is None else choice.draw(machine)
            self._drawn[drawn] = CompiledMachine(self._used(machine))
        compiled = self._drawn[drawn]
        factors = _factors(compiled, _values(choices), groups=groups)
        return compiled.at(factors) if factors else compiled


def _values(choices: Sequence[Choice]) -> dict[str, float]:
    found: dict[str, float] = {}
    for choice in choices:
        for what, value in choice.values.items():
            least = what == PCIE_PREMISE and what in found
            found[what] = min(value, found[what]) if least else value
    return found


def _factors(
    machine: CompiledMachine, values: Mapping[str, float], *, groups: bool
) -> dict[int, float]:
    """Multiples of the nominal values of a machine's premises, by position."""
    pcie = next((p.nominal for p in machine.topology.premises if p.what == PCIE_PREMISE), None)
    speed = 1.0 if pcie is None else values.get(PCIE_PREMISE, pcie) / pcie
    found = {}
    for at, use in enumerate(machine.arrays.premises):
        premise = use.premise
        value = values.get(premise.what, premise.nominal)
        factor = value / premise.nominal * (speed if premise.unit == OF_X16 else 1.0)
        if premise.what == FLOW_PREMISE and value != premise.nominal:
            factor /= speed  # the processor's own, however fast links are: they hold it as well
        if factor != 1.0 and (groups or use.is_of_flows):
            found[at] = factor
    return found


class Scenario(Struct, frozen=True, kw_only=True):
    """One of the machines and ways of working; `changed` are the facts that are not nominal."""

    name: str
    machine: CompiledMachine | None = None  # None: the nominal one
    changed: tuple[Fact, ...] = ()
    premise: Premise | None = None  # the one number that is at an end
    overlap: bool = False
    by: str = ""  # all-reduces between nodes: all by TREES or RINGS; "": as is usual
    in_turn: bool = False


# Of jobs of which latency is a good part. It is looked at beside the scenarios, as ends are: no
# placement is searched for by it, or proved.
IN_TURN = Scenario(name=_TURNS.choices[1].name, changed=(_TURNS,), in_turn=True)


def ways_of_working(*, phases: int, other: Sequence[str]) -> list[Scenario]:
    """The scenarios of the nominal machine that differ in what its libraries do.

    `other` are the ways that all-reduces between nodes may go beside the usual one.
    """
    found = []
    for by, overlap in product(("", *other), (False, True)):
        open_facts = (*([_BY[by]] if by else []), *([_PHASES] if overlap else []))
        if open_facts and (phases > 1 or not overlap):
            name = ", ".join(fact.choices[1].name for fact in open_facts)
            found.append(Scenario(name=name, changed=open_facts, overlap=overlap, by=by))
    return found


class Outlook(Struct, frozen=True, kw_only=True):
    """What the objective is predicted to be: of each placement, in each scenario.

    Row 0 of `times` (scenarios, placements) is the nominal one, column 0 the default. `ends` has a
    row for each end of independent numbers.
    """

    rows: tuple[Row, ...]
    scenarios: tuple[Scenario, ...]
    at_ends: tuple[Scenario, ...]
    times: Floats
    ends: Floats

    @property
    def every(self) -> tuple[Scenario, ...]:
        """The scenarios, then the ends."""
        return (*self.scenarios, *self.at_ends)

    @property
    def everywhere(self) -> Floats:
        """The values in all of `every`: (scenarios and ends, placements)."""
        return np.concatenate([self.times, self.ends])

    def gains(self) -> Floats:
        """Shares of the default's value that each placement saves in all of `every`."""
        return gains_of(self.everywhere)

    def depends_on(self, placement: int) -> tuple[str, ...]:
        """The facts and numbers that alone move the gain of a placement, by name."""
        gain = self.gains()[:, placement].tolist()
        moved: dict[str, list[float]] = {}
        for each, value in zip(self.every, gain, strict=True):
            alone = [fact.what for fact in each.changed] if len(each.changed) == 1 else []
            alone += [each.premise.what] if each.premise else []
            for what in alone:
                moved.setdefault(what, [gain[0]]).append(value)
        return tuple(what for what, of in moved.items() if max(of) - min(of) > WORTH_SAYING)

    def assumed(self, topology: Topology, placement: int) -> tuple[Assumed, ...]:
        """All premises of a machine, and whether each decides the gain of a placement."""
        deciding = set(self.depends_on(placement))
        for fact in (fact for each in self.scenarios for fact in each.changed):
            if fact.what in deciding:
                deciding |= {what for choice in fact.choices for what in choice.values}
        names = [each.name for each in fields(Premise)]  # asdict would copy every value
        return tuple(
            Assumed(**{name: getattr(each, name) for name in names}, decides=each.what in deciding)
            for each in topology.premises
        )


def gains_of(values: Floats) -> Floats:
    """Shares of the first column that each column saves, row by row; 0 where that is nothing."""
    base = values[:, [0]]
    found: Floats = 1 - np.divide(values, base, out=np.ones_like(values), where=base > 0)
    return found


class Scenarios:
    """The scenarios of one traffic, for any number of placements.

    Not all of many are used: the nominal one, each fact alone, then pairs of the two facts that
    move the gain of the second of `rows` over the first most.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        machine: OpenMachine | None = None,
        rows: Sequence[Row] = (),
        *,
        objective: str = "time",
        other: Mapping[str, SlowestAlone] | None = None,
        latency: Latency | None = None,
    ) -> None:
        """Draw them.

        Args:
            evaluator: of the nominal machine and a traffic.
            machine: what is open; None: nothing but what the traffic leaves open.
            rows: placements whose pairs of devices count; () stands for all pairs.
            objective: whose values are predicted; the pairwise cost is nominal.
            other: seconds of each phase where all-reduces between nodes go the other way, by way
                (TREES, RINGS), where it plays a part.
            latency: of the default placement.
        """
        compiled = evaluator.machine
        self._evaluator = evaluator
        self._open = machine or OpenMachine(compiled.topology, compiled=compiled)
        self._objective, self._other = objective, other or {}
        self._models: dict[int, GroupModel] = {}
        self._seconds: dict[tuple[int | str, Row], tuple[float, ...]] = {}
        self._facts: list[tuple[int | None, Fact]] = [*self._open_facts()]  # by number in `_open`
        uses = () if objective == "cost" else compiled.arrays.premises
        uses = tuple(each for each in uses if evaluator.groups or each.is_of_flows)
        if rows and uses:
            used = _used_pairs(evaluator, np.array(rows, np.uint32))
            uses = tuple(each for each in uses if used[each.pairs].any())
        self._moved = {use.premise.what for use in uses}
        work = compiled.arrays.devices**2 + _FLOW_WORK * len(evaluator.table.source)
        if evaluator.groups is not None:
            work += _MEMBER_WORK * sum(map(len, evaluator.groups.members()))
        self._most = min(MOST_SCENARIOS, max(2, _WORK // work))
        self.at_ends = tuple(self._ends())[: self._most]
        if latency is not None and latency.is_much and objective == "time":
            self.at_ends += (IN_TURN,)
        self.scenarios = self._drawn(rows)

    @property
    def solvable(self) -> list[Scenario]:
        """Those whose value a solver has for its objective, not the slowest phase alone.

        Where the ends of few numbers are combined in every way, these corners stand for all.
        """
        corners = [each for each in self.at_ends if each.premise is None and not each.in_turn]
        numbers = {each.premise.what for each in self.at_ends if each.premise is not None}
        ends = corners if len(corners) == 2 ** len(numbers) else self.at_ends
        ways = (*self.scenarios, *ends)
        return [each for each in ways if not (each.overlap or each.by or each.in_turn)]

    @property
    def is_open(self) -> bool:
        """Whether there are scenarios, or ends of numbers, to search in beside the nominal one."""
        return len(self.scenarios) + sum(not each.in_turn for each in self.at_ends) > 1

    def outlook(self, rows: Sequence[Row]) -> Outlook:
        """Predict every placement in every scenario; the first one is the default."""
        return Outlook(
            rows=tuple(map(tuple, rows)),
            scenarios=self.scenarios,
            at_ends=self.at_ends,
            times=self.times(rows),
            ends=self._of(self.at_ends, rows),
        )

    def times(self, rows: Sequence[Row]) -> Floats:
        """The objective of each placement in each scenario: (scenarios, placements)."""
        return self._of(self.scenarios, rows)

    def model(self, scenario: Scenario) -> GroupModel | None:
        """The time model of groups in a scenario; None without groups."""
        nominal, machine = self._evaluator.groups, scenario.machine
        if nominal is None or machine is None or machine is self._evaluator.machine:
            return nominal
        key = id(machine)
        if key not in self._models:
            alike = machine.topology is self._evaluator.machine.topology
            made = nominal.at(machine) if alike else GroupModel(machine, nominal.phases)
            self._models[key] = made
        return self._models[key]

    def network(self, scenario: Scenario) -> _core.Network:
        """The machine of a scenario for the core."""
        return (scenario.machine or self._evaluator.machine).network

    # ---- which

    def _open_facts(self) -> Iterator[tuple[int | None, Fact]]:
        groups = self._evaluator.groups
        if self._objective == "cost":
            return
        for at, fact in enumerate(self._open.facts):
            if groups is not None or not fact.of_groups:
                yield at, fact
        if groups is not None and len(groups.phases) > 1 and self._objective == "time":
            yield None, _PHASES

    def _drawn(self, rows: Sequence[Row]) -> tuple[Scenario, ...]:
        sizes = [range(len(fact.choices)) for _, fact in self._facts]
        found: dict[tuple[int, bool], Scenario] = {}

        def add(chosen: Chosen) -> None:
            each = self._scenario(chosen)
            found.setdefault((id(each.machine), each.overlap), each)

        if prod(map(len, sizes)) <= self._most:
            for chosen in product(*sizes):
                add(chosen)
        else:
            nominal = (0,) * len(sizes)
            alone = [
                (*nominal[:at], choice, *nominal[at + 1 :])
                for at, size in enumerate(sizes)
                for choice in size[1:]
            ]
            for chosen in (nominal, *alone[: self._most - 1]):
                add(chosen)
            pair = self._movers(tuple(found.values()), rows) if len(sizes) > 1 else ()
            for both in product(*(sizes[at][1:] for at in pair)) if pair else ():
                if len(found) >= self._most:
                    break
                numbers = dict(zip(pair, both, strict=True))
                add(tuple(numbers.get(at, 0) for at in range(len(sizes))))
        scenarios = list(found.values())
        if self._other and self._objective == "time":
            ways = ways_of_working(
                phases=len(self._evaluator.groups.phases) if self._evaluator.groups else 1,
                other=[*self._other],
            )
            scenarios += [
                structs.replace(each, machine=scenarios[0].machine) for each in ways if each.by
            ]
        return tuple(scenarios)

    def _scenario(self, chosen: Chosen) -> Scenario:
        taken = [(number, fact, at) for (number, fact), at in zip(self._facts, chosen, strict=True)]
        numbers = [0] * len(self._open.facts)
        for number, _, at in taken:
            if number is not None:
                numbers[number] = at
        machine = self._evaluator.machine
        return Scenario(
            name=", ".join(fact.choices[at].name for _, fact, at in taken if at) or "nominal",
            machine=self._drawn_as(tuple(numbers)) if any(numbers) else machine,
            changed=tuple(fact for _, fact, at in taken if at),
            overlap=any(number is None and at for number, _, at in taken),
        )

    def _drawn_as(self, numbers: Chosen) -> CompiledMachine:
        return self._open.at(numbers, groups=self._evaluator.groups is not None)

    def _movers(self, alone: Sequence[Scenario], rows: Sequence[Row]) -> tuple[int, int]:
        """The two facts that move the gain most; the first ones where nothing tells."""
        moved = [0.0] * len(self._facts)
        if len(rows) > 1:
            gain = gains_of(self._of(alone, rows[:2]))[:, 1]
            for each, value in zip(alone[1:], gain[1:].tolist(), strict=True):
                at = next(n for n, (_, fact) in enumerate(self._facts) if fact is each.changed[0])
                moved[at] = max(moved[at], abs(value - float(gain[0])))
        order = sorted(range(len(moved)), key=lambda at: -moved[at])
        first, second = sorted(order[:2])
        return first, second

    def _ends(self) -> Iterator[Scenario]:
        """Ends of the numbers that no fact moves: each alone, and several together."""
        machine = self._evaluator.machine
        told = {name for f in self._open.facts for c in f.choices for name in c.values}
        told.discard(SOCKETS_PREMISE)  # as wide within a family as between two
        numbers = [
            (at, use.premise)
            for at, use in enumerate(machine.arrays.premises)
            if use.premise.what in self._moved and use.premise.what not in told
        ]
        sides = [(p.low / p.nominal, p.high / p.nominal) for _, p in numbers]
        for (at, premise), both in zip(numbers, sides, strict=True):
            for factor in both:
                if factor != 1.0:
                    value = f"{premise.numbers(premise.nominal * factor)} {premise.unit}"
                    yield Scenario(
                        name=f"{premise.what} of {value}",
                        machine=machine.at({at: factor}),
                        premise=premise,
                    )
        together = product(*sides) if len(sides) <= _FEW_ENDS else zip(*sides, strict=True)
        for corner in together if len(sides) > 1 else ():
            factors = {at: f for (at, _), f in zip(numbers, corner, strict=True)}
            words = (
                f"{p.what} of {p.numbers(p.nominal * f)} {p.unit}"
                for (_, p), f in zip(numbers, corner, strict=True)
            )
            yield Scenario(name=", ".join(words), machine=machine.at(factors))

    # ---- what they come to

    def _of(self, scenarios: Sequence[Scenario], rows: Sequence[Row]) -> Floats:
        found = np.empty((len(scenarios), len(rows)))
        for at, each in enumerate(scenarios):
            found[at] = self._values(each, rows)
        return found

    def _values(self, scenario: Scenario, rows: Sequence[Row]) -> Sequence[float] | Floats:
        model, objective = self.model(scenario), self._objective
        if objective == "cost" or (objective == "congestion" and model is not None):
            return [self._evaluator.evaluate(row).value(objective) for row in rows]
        if model is None:
            value = _core.flow_time_each if objective == "time" else _core.max_congestion_each
            placements = np.array(rows, np.uint32)
            flows = self._evaluator.in_turn if scenario.in_turn else self._evaluator.flows
            return value(self.network(scenario), flows, placements)
        found = []
        for row in rows:
            key = (scenario.by or id(model), row)
            if key not in self._seconds:
                seconds_of = self._other[scenario.by] if scenario.by else model.seconds
                self._seconds[key] = seconds_of(row)
            seconds = self._seconds[key]
            found.append(max(seconds, default=0.0) if scenario.overlap else sum(seconds))
        return found


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
