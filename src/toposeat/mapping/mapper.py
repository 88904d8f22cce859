"""One call for all solvers: from a machine and a traffic to a placement and its certificate."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from toposeat import _core
from toposeat.evaluation import Evaluator
from toposeat.evaluation.network import compile_traffic
from toposeat.mapping.decision import (
    SAME,
    certificate_of,
    gains,
    result_of,
    too_little,
    why_slower,
)
from toposeat.mapping.problem import Answer, Problem, check_seating, problem_of
from toposeat.mapping.robust import Asked, Choice, Untold, choose
from toposeat.mapping.sets import map_sets, searches_sets
from toposeat.model.evaluation import KEPT, OF_SEARCH, Certificate, Evaluation, MappingResult
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.topology import MEASURED_PORTS, Topology
from toposeat.model.traffic import Traffic

if TYPE_CHECKING:
    from toposeat.mapping.shapes import Shape

BUDGET_S = 1.0  # where the options name none
_Answer = _core.MapAnswer | Answer


def map_traffic(
    topology: Topology,
    traffic: Traffic,
    options: MapOptions | None = None,
    *,
    untold: Untold | None = None,
    evaluator: Evaluator | None = None,
    shape: Shape | None = None,
) -> MappingResult:
    """Choose a device for every rank.

    Except with `random`, the placement is never predicted to be slower than the default one on any
    machine that the premises of this one allow, and it is the default one if nothing is gained by
    the objective asked for.

    Args:
        topology: the machine. Of more devices than ranks the best are used; fewer are refused
            unless the constraints give slots.
        traffic: who talks to whom.
        options: what to minimise, how to search, what to keep to; None: the defaults.
        untold: other machines that the sources allow; None: there are none.
        evaluator: of the two by the metric asked for, where there is one.
        shape: of the same machine, where its hosts are equal: what is found on it counts too, and
            the result tells loads by level and host.
    """
    options = options or MapOptions()
    budget_s = BUDGET_S if options.budget_s is None else options.budget_s
    problem = problem_of(topology, traffic.ranks, options.constraints)
    evaluator = evaluator or Evaluator(topology, traffic, metric=options.metric)
    request = problem.request(evaluator, options, budget_s=budget_s)
    check_seating(topology, problem, request)
    default = evaluator.evaluate(_core.default_ranks(request))
    begin = time.perf_counter()
    if evaluator.groups is None:
        answer: _Answer = _solved(request)
    elif searches_sets(evaluator, problem, options):
        answer = map_sets(
            evaluator, problem, default.device_of_rank, budget_s=budget_s, seed=options.seed
        )
    elif options.objective == "cost":
        flows = compile_traffic(traffic, evaluator.cost_table)
        answer = _solved(problem.request(evaluator, options, budget_s=budget_s, flows=flows))
    else:
        answer = _by_pairs(evaluator, _solved(request), options)
    row: Sequence[int] = answer.device_of_rank
    why = ""
    if evaluator.groups is not None and not options.is_fixed:
        row, why = _gaining(evaluator, default, row, options)
    solver, notes = answer.solver, tuple(answer.notes)
    of_machine: Sequence[str] = () if shape is None else shape.notes
    if shape is not None and options.solver == "auto" and options.constraints == Constraints():
        of_hosts = _on_shape(shape, traffic, options, budget_s)
        of_machine = of_hosts.notes
        row = _better(evaluator, default, (of_hosts.device_of_rank, row), options)
        if tuple(row) == of_hosts.device_of_rank:
            solver, notes = of_hosts.solver, of_hosts.notes
    row = _in_host_order(topology, evaluator, row, options, proved=answer.proved, shape=shape)
    asked = Asked(
        topology=topology,
        problem=problem,
        evaluator=evaluator,
        options=options,
        untold=untold or Untold(),
        deadline=begin + budget_s,
    )
    choice = choose(asked, default.device_of_rank, row, proved=answer.proved)
    seconds = time.perf_counter() - begin
    placed, kept = _worth_moving(evaluator, default, choice, options)
    explanation = None
    if options.explained:
        from toposeat.mapping.explain import explain  # noqa: PLC0415 - 1 ms

        explanation = explain(topology, evaluator, (default, placed))
    result = result_of(
        topology,
        default,
        placed,
        options,
        _certificate(options.objective, answer, placed, everywhere=choice.everywhere),
        solver=_solver_name(options.solver, solver),
        solve_seconds=seconds,
        notes=(
            *_constraint_notes(problem, traffic.ranks, options),
            *notes,
            *([why] if why and tuple(row) == default.device_of_rank else []),
            *_number_notes(topology),
            *kept,
        ),
        uniform=answer.uniform and choice.everywhere,
        premises=choice.premises_of(placed.device_of_rank, default.device_of_rank),
        explanation=explanation,
    )
    if shape is None:
        return result
    return with_hosts(shape, traffic, result, of_machine)


def _on_shape(
    shape: Shape, traffic: Traffic, options: MapOptions, budget_s: float
) -> MappingResult:
    """What the search over hosts finds: it knows orders of nodes that one by pairs misses."""
    from toposeat.mapping.scale import map_to_shape  # noqa: PLC0415 - one node needs none of it

    # A candidate only: it is judged by the metric that was asked for, on the listed machine.
    asked = replace(options, metric="bandwidth", budget_s=budget_s, explained=False)
    return map_to_shape(shape, traffic, asked)


def _in_host_order(
    topology: Topology,
    evaluator: Evaluator,
    row: Sequence[int],
    options: MapOptions,
    *,
    proved: bool,
    shape: Shape | None,
) -> Sequence[int]:
    """The placement on its hosts in order, where that is as good by all that is compared."""
    hosts = topology.hosts
    if len(hosts) < 2 or options.is_fixed or options.constraints != Constraints():
        return row
    from toposeat.mapping.host_order import WORTH, in_host_order  # noqa: PLC0415 - several hosts

    number = {host: at for at, host in enumerate(hosts)}
    return in_host_order(
        row,
        [number[device.host] for device in topology.devices],
        evaluator,
        options.objective,
        shape,
        worth=SAME if proved else WORTH,
    )


def _better(
    evaluator: Evaluator,
    default: Evaluation,
    rows: Sequence[Sequence[int]],
    options: MapOptions,
) -> Sequence[int]:
    """The best by the objective; of equals the first, and none that groups lose by."""
    if evaluator.groups is not None:
        rows = [_gaining(evaluator, default, row, options)[0] for row in rows]
    values = [evaluator.evaluate(row).value(options.objective) for row in rows]
    least = min(values) * (1 + SAME)
    return next(row for row, value in zip(rows, values, strict=True) if value <= least)


def with_hosts(
    shape: Shape, traffic: Traffic, result: MappingResult, notes: Sequence[str] = ()
) -> MappingResult:
    """With what the hosts, switches and levels of a network carry."""
    from toposeat.mapping.rails_apart import APART, rails_notes  # noqa: PLC0415
    from toposeat.mapping.slot_evaluation import SlotEvaluator  # noqa: PLC0415

    evaluator = SlotEvaluator(shape, traffic)
    of_machine = [note for note in notes if not note.startswith((OF_SEARCH, KEPT, APART))]
    of_machine += rails_notes(shape, traffic, result.device_of_rank)
    return replace(
        result,
        default=evaluator.with_levels(result.default),
        placed=evaluator.with_levels(result.placed),
        topology=shape.text,
        hosts=shape.hosts,
        slots_per_host=shape.slots_per_host,
        stages=evaluator.stages,
        notes=tuple(dict.fromkeys((*of_machine, *result.notes))),
    )


def _gaining(
    evaluator: Evaluator, default: Evaluation, row: Sequence[int], options: MapOptions
) -> tuple[Sequence[int], str]:
    """An answer that pairs stood for, if the groups gain by it; else the default, and why."""
    found = evaluator.evaluate(row)
    why = why_slower(default, found)
    is_better = not why and gains(default, found, options.objective)
    return row if is_better else default.device_of_rank, why


def _solved(request: _core.MapRequest) -> _core.MapAnswer:
    interruptible = threading.current_thread() is threading.main_thread()
    return _core.map_ranks(request, interruptible=interruptible)


def _by_pairs(evaluator: Evaluator, answer: _core.MapAnswer, options: MapOptions) -> Answer:
    """An answer for the pairs that stand for groups: of the groups themselves nothing is proved."""
    found = evaluator.evaluate(answer.device_of_rank)
    return Answer(
        device_of_rank=tuple(answer.device_of_rank),
        value=found.value(options.objective),
        solver="pairs of groups",
        notes=tuple(note for note in answer.notes if note != "default is already optimal"),
    )


def _worth_moving(
    evaluator: Evaluator, default: Evaluation, choice: Choice, options: MapOptions
) -> tuple[Evaluation, list[str]]:
    """The chosen placement, or the default where it saves too little; and why that is kept."""
    if list(default.device_of_rank) == list(choice.device_of_rank):
        return default, [choice.note] if choice.note else []
    found = evaluator.evaluate(choice.device_of_rank)
    why = "" if options.is_fixed else too_little(default, found, options)
    return (default, [why]) if why else (found, [])


def _certificate(
    objective: str, answer: _Answer, placed: Evaluation, *, everywhere: bool
) -> Certificate:
    """What the core proved."""
    value = placed.value(objective)
    proved = answer.proved and value <= answer.value * (1 + SAME)
    reason = "what has the lower bound may be slower than the default with other numbers"
    return certificate_of(
        objective,
        placed,
        bound=value if proved else answer.value if answer.proved else answer.lower_bound,
        proved=proved,
        reason=_reason(objective, answer) if proved or not answer.proved else reason,
        everywhere=everywhere,
    )


_PROOFS = {  # by solver of the core
    "tree": "every nested grouping of the ranks on this tree was covered",
    "branch and bound": "every placement was covered by branch and bound",
    "sets": "every division of the ranks into sets of devices was covered",
    "limits": "every placement whose links all stay below the value was ruled out",
    "two blocks": "every division of the ranks between the two halves of the machine was covered",
}


def _reason(objective: str, answer: _Answer) -> str:
    if answer.uniform:
        return "all devices are interchangeable, so every order is as good"
    if answer.proved:
        return _PROOFS.get(answer.solver, "the value meets a lower bound")
    if answer.solver == "pairs of groups":
        return "no lower bound is known for groups over several nodes, or by this objective"
    if answer.lower_bound is None:
        return "too large for a lower bound"
    return f"no placement can have a {objective} below the lower bound; the truth lies between"


def _solver_name(asked: str, used: str) -> str:
    """`auto (tree)`: the solver that was asked for, and the one that answered."""
    return used if used.startswith(asked) else f"{asked} ({used})"


def _constraint_notes(problem: Problem, ranks: int, options: MapOptions) -> list[str]:
    notes = []
    if ranks > len(problem.devices):
        notes.append(
            f"several ranks share a device: {ranks} ranks on {len(problem.devices)} devices, at"
            f" most {max(problem.slots)} each"
        )
    if problem.pins:
        notes.append("the default shown keeps the pinned ranks where they are pinned")
    if options.constraints.allowed:
        notes.append("the default shown keeps to the devices that each rank may use")
    return notes


def _number_notes(topology: Topology) -> list[str]:
    """Notes on a machine whose pairs are measured in part, or whose shared links are not known.

    A machine of nominal numbers alone needs none: tables of its links say that they are nominal.
    """
    ids = {device.id for device in topology.devices}
    routes = [r for r in topology.routes if r.source in ids and r.target in ids]
    known = sum(
        r.cap_bytes_per_s is not None and r.cap_bytes_per_s.source.is_of_this_machine
        for r in routes
    )
    notes = []
    if topology.origin.startswith("merged: ") and 0 < known < len(routes):
        notes.append(
            f"the bandwidths of {len(routes) - known} of {len(routes)} pairs are nominal, the"
            " others measured: the two kinds may differ although the pairs do not"
        )
    if any(component.id == MEASURED_PORTS for component in topology.components):
        notes.append(
            "the links that some pairs share are not known: transfers that meet on them are"
            " predicted too fast"
        )
    return notes
