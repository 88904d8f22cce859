"""One call of the mapper: how it is made, what it answered, what it took."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.machine import in_turns, thread_ms
from benchmarks.mapping.node_machines import Machine

from toposeat import _core

ALLOWED_MS = 50.0  # of a call on 8 devices or a tree of 16, placement and proof included


def call(
    machine: Machine,
    flows: _core.RankTraffic,
    objective: str,
    *,
    budget_s: float = 1.0,
    solver: str = "auto",
    seed: int = 1,
) -> Callable[[], _core.MapAnswer]:
    return lambda: _core.map_ranks(
        _core.MapRequest(
            machine.network,
            flows,
            machine.cost,
            objective=objective,
            solver=solver,
            budget_s=budget_s,
            seed=seed,
        )
    )


def refused(answer: _core.MapAnswer) -> bool:
    """The certified optimum is predicted slower than the default: something else is answered."""
    return any("slower" in note for note in answer.notes)


@dataclass(frozen=True)
class Outcome:
    """One problem under one objective; milliseconds of the fastest and the slowest round."""

    name: str
    value: float
    seconds: float  # predicted
    proved: bool
    refused: bool
    fastest: float
    slowest: float
    placement: tuple[int, ...]


def outcome(
    name: str, machine: Machine, flows: _core.RankTraffic, objective: str, rounds: int
) -> Outcome:
    """After one call that is not counted."""
    solve = call(machine, flows, objective)
    answer = solve()
    spent = in_turns({"": thread_ms(solve)}, rounds, warm=0)[""]
    return Outcome(
        name,
        answer.value,
        _core.flow_time(machine.network, flows, answer.device_of_rank),
        answer.proved,
        refused(answer),
        min(spent),
        max(spent),
        tuple(int(device) for device in answer.device_of_rank),
    )


HEAD = (
    f"{'problems':40} objective   calls proved refused   median     99 %    worst   slowest  over"
)


def summary(name: str, objective: str, found: Sequence[Outcome], allowed: float) -> str:
    """Milliseconds by each problem's fastest round, but for `slowest`: noise only adds."""
    times = sorted(each.fastest for each in found)
    if not times:
        return f"{name:40} {objective:11}{0:6}"
    return (
        f"{name:40} {objective:11}{len(times):6}{sum(each.proved for each in found):7}"
        f"{sum(each.refused for each in found):8}"
        f"{statistics.median(times):9.3f}{times[int(0.99 * (len(times) - 1))]:9.3f}{times[-1]:9.3f}"
        f"{max(each.slowest for each in found):10.3f}{sum(each > allowed for each in times):6}"
    )
