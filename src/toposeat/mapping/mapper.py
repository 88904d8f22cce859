"""One call for all solvers: from a machine and a traffic to a placement and its certificate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from toposeat import _core
from toposeat.evaluation import Evaluator
from toposeat.evaluation.network import compile_traffic
from toposeat.evaluation.scenarios import OpenMachine, Outlook, Row, Scenarios
from toposeat.mapping.candidates import (
    MOST_SEARCHED_DEVICES,
    Asked,
    candidates,
    moves,
    with_fewer_moves,
)
from toposeat.mapping.decision import (
    SAME,
    certificate_of,
    kept_notes,
    premises_of,
    result_of,
    taken,
)
from toposeat.mapping.problem import Answer, Problem, check_seating, name_of, problem_of
from toposeat.mapping.sets import map_sets, searches_sets
from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.evaluation import (
    KEPT,
    OF_SEARCH,
    RINGS,
    TREES,
    Certificate,
    Evaluation,
    MappingResult,
)
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.plural import nouns
from toposeat.model.scenario import Worth
from toposeat.model.topology import MEASURED_PORTS, Topology
from toposeat.model.traffic import Traffic

if TYPE_CHECKING:
    from toposeat.mapping.shapes import Shape

# As the core says it of the nominal machine.
_OPTIMAL = ("default is already optimal", "nothing to gain from order")
BUDGET_S = 1.0  # where the options name none


def map_traffic(
    topology: Topology,
    traffic: Traffic,
    options: MapOptions | None = None,
    *,
    machine: OpenMachine | None = None,
    evaluator: Evaluator | None = None,
    shape: Shape | None = None,
) -> MappingResult:
    """Choose a device for every rank.

    Except with `random`, the placement is never predicted slower than the default one with nominal
    numbers, nor more than a tenth slower on any machine that the sources allow; it is the default
    one if nothing is gained by the objective asked for (`mapping.decision.taken`).

    Args:
        topology: the machine. Of more devices than ranks the best are used; fewer are refused
            unless the constraints give slots.
        traffic: who talks to whom.
        options: what to minimise, how to search, what to keep to; None: the defaults.
        machine: the same machine with what its sources leave open; None: nothing.
        evaluator: of the two by the metric asked for, where there is one.
        shape: of the same machine, where its hosts are equal: what is found on it counts too, and
            the result tells loads by level and host.
    """
    options = options or MapOptions()
    budget_s = BUDGET_S if options.budget_s is None else options.budget_s
    problem = problem_of(topology, traffic.ranks, options.constraints)
    if evaluator is None:
        compiled = None if machine is None else machine.nominal
        evaluator = Evaluator(topology, traffic, metric=options.metric, machine=compiled)
    machine = machine or OpenMachine(topology, compiled=evaluator.machine)
    request = problem.request(evaluator, options, budget_s=budget_s)
    check_seating(topology, problem, request)
    default = evaluator.evaluate(_core.default_ranks(request))
    begin = time.perf_counter()
    home = default.device_of_rank
    answer = _answered(evaluator, problem, request, options, default=home, traffic=traffic)
    rows: list[Row] = [home, tuple(answer.device_of_rank), *answer.also]
    of_hosts = None
    if shape is not None and options.solver == "auto" and options.constraints == Constraints():
        of_hosts = _on_shape(shape, traffic, options, budget_s)
        rows.insert(1, of_hosts.device_of_rank)
    if not options.is_fixed:
        in_order = partial(_in_host_order, topology, evaluator, proved=answer.proved, shape=shape)
        rows = [home, *(in_order(row, options) for row in rows)]
    asked = Asked(
        problem=problem,
        evaluator=evaluator,
        options=options,
        scenarios=Scenarios(
            evaluator,
            machine,
            # Where all are searched, any pair of devices may carry bytes in some order.
            () if len(problem.devices) <= MOST_SEARCHED_DEVICES else rows,
            objective=options.objective,
            other=_other_ways(shape, traffic, evaluator),
            latency=default.latency,
        ),
    )
    outlook, least = candidates(asked, rows, proved=answer.proved)
    at = outlook.rows.index(rows[-1] if options.is_fixed else home)
    if not options.is_fixed:
        ranked = [(moves(row, home), row) for row in outlook.rows]  # fewer moves, low numbers
        at = taken(outlook, options.min_gain, ranked.__getitem__)
    row = outlook.rows[at]
    is_movable = options.objective == "time" and not options.is_fixed and len(topology.hosts) == 1
    if at and is_movable:
        row = with_fewer_moves(asked, row, home)
    seconds = time.perf_counter() - begin
    placed = default if row == home else evaluator.evaluate(row)
    is_everywhere = not machine.untold_pairs and _is_best(asked, outlook, at, least)
    explanation = None
    if options.explained:
        from toposeat.mapping.explain import explain  # noqa: PLC0415 - 1 ms

        explanation = explain(topology, evaluator, (default, placed))
    is_of_hosts = of_hosts is not None and row == of_hosts.device_of_rank
    source = of_hosts if is_of_hosts and of_hosts is not None else answer
    premises = premises_of(
        outlook, at, machine, options.min_gain, of_phases=len(default.phases) > 1
    )
    is_settled = premises.verdict is Worth.NONE and premises.open_gain is None
    result = result_of(
        topology,
        default,
        placed,
        options,
        _certificate(options.objective, answer, placed, everywhere=is_everywhere),
        solver=_solver_name(options.solver, source.solver),
        solve_seconds=seconds,
        notes=(
            *_constraint_notes(topology, problem, traffic.ranks, options),
            *(note for note in source.notes if is_settled or not note.startswith(_OPTIMAL)),
            *_number_notes(topology),
            *kept_notes(outlook, at, options),
        ),
        uniform=answer.uniform and is_everywhere,
        premises=premises,
        explanation=explanation,
    )
    if shape is None:
        return result
    of_machine = shape.notes if of_hosts is None else of_hosts.notes
    return with_hosts(shape, traffic, result, of_machine)


def _answered(
    evaluator: Evaluator,
    problem: Problem,
    request: _core.MapRequest,
    options: MapOptions,
    *,
    default: Row,
    traffic: Traffic,
) -> Answer:
    """What the solver of the objective finds with nominal numbers; `request` is for pairs."""
    budget_s = BUDGET_S if options.budget_s is None else options.budget_s
    if evaluator.groups is None:
        return answer_of(_solved(request))
    if searches_sets(evaluator, problem, options):
        return map_sets(
            evaluator,
            problem,
            default,
            budget_s=budget_s,
            is_clocked=options.budget_s is not None,
            seed=options.seed,
        )
    if options.objective == "cost":
        flows = compile_traffic(traffic, evaluator.cost_table)
        request = problem.request(evaluator, options, budget_s=budget_s, flows=flows)
        return answer_of(_solved(request))
    return _by_pairs(evaluator, _solved(request), options)


def _other_ways(
    shape: Shape | None, traffic: Traffic, evaluator: Evaluator
) -> dict[str, Callable[[Row], tuple[float, ...]]]:
    """Seconds of each phase where all-reduces between nodes go by trees, and by rings.

    On two nodes trees are usual, on more rings; of trees on more hosts that are not alike none are
    known.
    """
    found: dict[str, Callable[[Row], tuple[float, ...]]] = {}
    if evaluator.groups is None or evaluator.groups.nodes == 1:
        return found
    by_rings = evaluator.groups.with_rings().seconds
    if by_rings(evaluator.default) != evaluator.groups.seconds(evaluator.default):
        found[RINGS] = by_rings
    if shape is not None:
        from toposeat.mapping.slot_evaluation import SlotEvaluator  # noqa: PLC0415

        by_slots = SlotEvaluator(shape, traffic)
        default = by_slots.with_other_ways(by_slots.evaluate(evaluator.default))
        if any(phase.trees_s is not None for phase in default.phases):
            found[TREES] = partial(by_slots.seconds_by, TREES)
    return found


def _is_best(asked: Asked, outlook: Outlook, at: int, least: Sequence[float]) -> bool:
    """Whether a placement has the least value of the objective in every scenario.

    For the pairwise cost this is so where its metric uses none of the assumed numbers.
    """
    options, is_open = asked.options, bool(asked.evaluator.machine.arrays.premises)
    if options.objective == "cost":
        return not is_open or options.metric in ("latency", "distance")
    solvable = asked.scenarios.solvable
    if len(solvable) == 1:
        return True
    if not least:
        return False
    solved = {id(each) for each in solvable}
    values = zip(outlook.every, outlook.everywhere[:, at].tolist(), strict=True)
    mine = [value for each, value in values if id(each) in solved]
    return all(value <= best * (1 + SAME) for value, best in zip(mine, least, strict=True))


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
) -> Row:
    """The placement on its hosts in order, where that is as good by all that is compared."""
    hosts = topology.hosts
    if len(hosts) < 2 or options.constraints != Constraints():
        return tuple(row)
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


def answer_of(found: _core.MapAnswer) -> Answer:
    """The core's answer in our form."""
    return Answer(
        device_of_rank=tuple(found.device_of_rank),
        value=found.value,
        solver=found.solver,
        notes=tuple(found.notes),
        lower_bound=found.lower_bound,
        proved=found.proved,
        uniform=found.uniform,
    )


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
        notes=tuple(note for note in answer.notes if not note.startswith(_OPTIMAL)),
    )


def _certificate(
    objective: str, answer: Answer, placed: Evaluation, *, everywhere: bool
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


def _reason(objective: str, answer: Answer) -> str:
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


def _constraint_notes(
    topology: Topology, problem: Problem, ranks: int, options: MapOptions
) -> list[str]:
    notes = []
    if cpu_ranks := sorted(set(options.constraints.cpu_ranks)):
        notes.append(
            f"without a GPU: {nouns(len(cpu_ranks), 'rank')} {format_cpu_list(cpu_ranks)}, counted"
            f" where {name_of(topology, problem.devices[0])} is; no two other ranks share a device"
        )
    elif ranks > len(problem.devices):
        notes.append(
            f"several ranks share a device: {ranks} ranks on {len(problem.devices)} devices, at"
            f" most {max(problem.slots)} each"
        )
    if options.constraints.pins:
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
