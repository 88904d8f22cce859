"""The registry of solvers, and one call for all of them."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from toposeat import _core
from toposeat.errors import ToposeatError, UsageError
from toposeat.evaluation import Evaluator
from toposeat.mapping.explain import Goal, explain
from toposeat.mapping.least_gain import not_worth_moving
from toposeat.mapping.nodes import NodesAnswer, map_nodes
from toposeat.mapping.number_notes import number_notes
from toposeat.mapping.problem import Constraints, Problem, check_seating, problem_of
from toposeat.mapping.search_options import check_installed, check_search_options
from toposeat.model.evaluation import Certificate, Evaluation, MappingResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic

OBJECTIVES: Mapping[str, str] = MappingProxyType(
    {
        "time": "seconds until the last transfer ends, by the flow model",
        "congestion": "seconds of the busiest link, then the mean over links",
        "cost": "sum of bytes x relative cost of the pair; with the hybrid metric, of seconds",
    }
)

SOLVERS: Mapping[str, str] = MappingProxyType(
    {
        "auto": "exact where that is quick, else search, then a proof as far as the budget goes",
        "exact": "spend the whole budget on a proof",
        "search": "local search only; bounds still give a gap",
        "multilevel": "nodes and devices in two levels, for machines of many nodes; no bounds",
        "scotch": "libscotch, if installed; repaired to one rank per device",
        "default": "rank i on the i-th device",
        "random": "a random placement (for comparisons: may be slower than the default)",
    }
)


_RUNNER_UP_S = 0.2  # of search for each runner-up of an explanation
_TOLERANCE = 1e-9  # of values computed in another order
# The others answer one placement, whatever.
_CHOOSING = ("auto", "exact", "search", "multilevel", "scotch")


def map_traffic(
    topology: Topology,
    traffic: Traffic,
    *,
    objective: str = "time",
    metric: str = "bandwidth",
    solver: str = "auto",
    budget_s: float = 1.0,
    seed: int = 1,
    constraints: Constraints | None = None,
    min_gain: float = 0.0,
    explained: bool = False,
) -> MappingResult:
    """Choose a device for every rank.

    Except with `random`, the placement is never predicted to be slower than the default one, and it
    is the default one if nothing is gained by the objective asked for.

    Args:
        topology: the machine; more devices than ranks: the best subset is used; fewer: refused
            unless the constraints give slots.
        traffic: who talks to whom.
        objective: one of `OBJECTIVES`.
        metric: of the pairwise cost, see `evaluation.pair_costs`.
        solver: one of `SOLVERS`.
        budget_s: seconds after which the best placement so far is returned.
        seed: same seed, same answer, unless the budget cuts a search short.
        constraints: which device may take which ranks, and how many; None: any, and one.
        min_gain: keep the default if it is predicted less than this share of its time slower; for
            users of nominal numbers, who cannot tell such placements apart.
        explained: also say why (`MappingResult.explanation`); searches a little for runners-up.

    Raises:
        UsageError: on an unknown name, a number out of range, or constraints that contradict each
            other.
        ToposeatError: if the ranks do not fit on the devices.
        UnavailableError: if Scotch is asked for and its library is not installed.
    """
    _check_names(objective, solver)
    check_search_options(seed, budget_s, min_gain)
    problem = problem_of(topology, traffic.ranks, constraints or Constraints())
    evaluator = Evaluator(topology, traffic, metric=metric)
    network, flows = evaluator.network, evaluator.flows
    check_seating(topology, network, flows, problem)
    check_installed(solver)
    seats = dataclasses.asdict(problem)
    default = _core.default_ranks(network, flows, **seats)
    begin = time.perf_counter()
    answer: _core.MapAnswer | NodesAnswer
    try:
        answer = (
            _two_levels(
                topology,
                evaluator,
                default,
                constraints=constraints,
                objective=objective,
                budget_s=budget_s,
                seed=seed,
            )
            if solver == "multilevel"
            else _core.map_ranks(
                network,
                flows,
                evaluator.costs.per_byte,
                message_cost=evaluator.costs.per_message,
                objective=objective,
                solver=solver,
                budget_s=budget_s,
                seed=seed,
                interruptible=threading.current_thread() is threading.main_thread(),
                **seats,
            )
        )
    except RuntimeError as error:  # only Scotch can refuse what was checked above
        raise ToposeatError(str(error), hint="use --solver auto") from error
    seconds = time.perf_counter() - begin
    before = evaluator.evaluate(default)
    after = (
        before
        if list(before.device_of_rank) == list(answer.device_of_rank)
        else evaluator.evaluate(answer.device_of_rank)
    )
    notes = [*_constraint_notes(problem, traffic.ranks), *answer.notes, *number_notes(topology)]
    kept = not_worth_moving(before.predicted_s, after.predicted_s, min_gain)
    if kept and after is not before and solver in _CHOOSING:
        notes.append(kept)
        after = before
    explanation = None
    if explained:
        explanation = explain(
            topology,
            evaluator,
            (before, after),
            [list(answer.device_of_rank), *_runners_up(evaluator, seats, seed, budget_s)],
            Goal(objective=objective, metric=metric, seed=seed, permits=problem.permits),
        )
    return MappingResult(
        device_of_rank=after.device_of_rank,
        default=before,
        placed=after,
        certificate=_certificate(objective, answer, after),
        objective=objective,
        metric=metric,
        solver=_solver_name(solver, answer.solver),
        solve_seconds=seconds,
        seed=seed,
        notes=tuple(notes),
        uniform=answer.uniform,
        explanation=explanation,
    )


def _runners_up(
    evaluator: Evaluator, seats: dict[str, Any], seed: int, budget_s: float
) -> list[list[int]]:
    """What a short search finds for each objective: placements that might have been chosen."""
    return [
        _core.map_ranks(
            evaluator.network,
            evaluator.flows,
            evaluator.costs.per_byte,
            message_cost=evaluator.costs.per_message,
            objective=objective,
            solver="search",
            budget_s=min(budget_s, _RUNNER_UP_S),
            seed=seed,
            **seats,
        ).device_of_rank
        for objective in OBJECTIVES
    ]


def _two_levels(
    topology: Topology,
    evaluator: Evaluator,
    default: list[int],
    *,
    constraints: Constraints | None,
    objective: str,
    budget_s: float,
    seed: int,
) -> NodesAnswer:
    if constraints not in (None, Constraints()) or evaluator.flows.ranks > len(topology.devices):
        raise UsageError(
            "the multilevel solver knows one rank per device and no constraints",
            hint="use --solver auto or search",
        )
    return map_nodes(
        topology, evaluator, default, objective=objective, budget_s=budget_s, seed=seed
    )


def _check_names(objective: str, solver: str) -> None:
    for what, name, known in (("objective", objective, OBJECTIVES), ("solver", solver, SOLVERS)):
        if name not in known:
            raise UsageError(f"unknown {what} {name!r}", hint=f"choose one of {', '.join(known)}")


def _certificate(
    objective: str, answer: _core.MapAnswer | NodesAnswer, placed: Evaluation
) -> Certificate:
    """What the core proved, with the value as the evaluation states it."""
    value = {
        "cost": placed.cost,
        "congestion": placed.max_congestion_s,
        "time": placed.predicted_s,
    }[objective]
    proved = answer.proved and value <= answer.value * (1 + _TOLERANCE)
    bound = value if proved else answer.value if answer.proved else answer.lower_bound
    gap: float | None = None
    if proved:
        gap = 0.0
    elif bound is not None and bound > 0:
        gap = max(0.0, value / bound - 1)
    return Certificate(
        objective=objective,
        proved=proved,
        value=value,
        lower_bound=bound,
        gap=gap,
        reason=_reason(objective, answer),
    )


_PROOFS = {  # by solver of the core
    "tree": "every nested grouping of the ranks on this tree was covered",
    "branch and bound": "every placement was covered by branch and bound",
    "limits": "every placement whose links all stay below the value was ruled out",
    "two blocks": "every division of the ranks between the two halves of the machine was covered",
}


def _reason(objective: str, answer: _core.MapAnswer | NodesAnswer) -> str:
    if answer.uniform:
        return "all devices are alike to the ranks, so every order is as good"
    if answer.proved:
        return _PROOFS.get(answer.solver, "the value meets a lower bound")
    if answer.lower_bound is None:
        return "too large for a lower bound"
    return f"no placement can have a {objective} below the lower bound; the truth lies between"


def _solver_name(asked: str, used: str) -> str:
    """`auto (tree)`: what was asked for, and what answered."""
    return asked if asked == used else f"{asked} ({used})"


def _constraint_notes(problem: Problem, ranks: int) -> list[str]:
    notes = []
    if ranks > len(problem.devices):
        notes.append(
            f"several ranks share a device: {ranks} ranks on {len(problem.devices)} devices, at"
            f" most {max(problem.slots)} each"
        )
    if problem.pins:
        notes.append("the default shown keeps the pinned ranks where they are pinned")
    if problem.allowed:
        notes.append("the default shown keeps to the devices that each rank may use")
    return notes
