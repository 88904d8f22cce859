"""Mapping thousands of ranks onto the shape of a machine: thin over `_core.map_large`."""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from toposeat import _core
from toposeat.errors import ToposeatError, UsageError
from toposeat.evaluation.scenarios import IN_TURN, Outlook, Scenario, ways_of_working
from toposeat.mapping.decision import certificate_of, kept_notes, premises_of, result_of, taken
from toposeat.mapping.domain_order import keep_inside, what_must_cross
from toposeat.mapping.host_order import in_host_order
from toposeat.mapping.local_sets import with_local_sets
from toposeat.mapping.node_orders import Searched, search_orders
from toposeat.mapping.rails_apart import rails_notes
from toposeat.mapping.shapes import Shape
from toposeat.mapping.slot_evaluation import SlotEvaluator, candidate_of
from toposeat.model.evaluation import (
    KEPT,
    OF_SEARCH,
    RINGS,
    TREES,
    Candidate,
    Certificate,
    Evaluation,
    MappingResult,
)
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.traffic import GRID, Traffic

# auto: every candidate: orders, curves, blocks, multilevel.
# default: rank i on slot i.
# random: a random placement (for comparisons).
SCALE_SOLVERS = ("auto", "default", "random")
SCALE_BUDGET_S = 10.0  # where the options name none
ORDERS_BUDGET_S = 1.0  # of CPU time, for the order of nodes of jobs with groups


Slots = NDArray[np.uint32]
Progress = Callable[[str, float], None]


def map_to_shape(
    shape: Shape,
    traffic: Traffic,
    options: MapOptions | None = None,
    *,
    progress: Progress | None = None,
) -> MappingResult:
    """Choose a slot for every rank of a large job; no slot is used twice.

    Ctrl-C in the main thread ends the search; the best so far is returned, with a note.

    Except with `random`, the placement is the one that `mapping.decision.taken` takes: nominally
    not slower than the default, rank i on slot i, which is kept where nothing is gained. Memory
    grows with ranks, slots and pairs that exchange messages, never with ranks squared.

    Args:
        shape: the machine.
        traffic: who talks to whom.
        options: as for `map_traffic`, with one of `SCALE_SOLVERS`; None: the defaults. The other
            objectives decide ties.
        progress: called with the stage and the share of it that is done.
    """
    options = options or MapOptions()
    check_scale(shape, traffic.ranks, options)
    begin = time.perf_counter()
    evaluator = SlotEvaluator(shape, traffic)
    answer = _core.map_large(
        shape.machine,
        evaluator.cost_flows if options.objective == "cost" else evaluator.flows,
        objective=options.objective,
        solver=options.solver,
        budget_s=SCALE_BUDGET_S if options.budget_s is None else options.budget_s,
        seed=options.seed,
        progress=progress,
        interruptible=threading.current_thread() is threading.main_thread(),
    )
    default, placed = (
        evaluator.with_other_ways(evaluator.evaluate(row))
        for row in (evaluator.default, answer.slot_of_rank)
    )
    notes = [*shape.notes, *(note for note in answer.notes if _is_said(note, traffic))]
    searched = None
    tried = _tried(evaluator, answer, (default, placed), options.objective)
    pool = [("default", default), (answer.placed.name, placed)]
    if traffic.groups and options.objective == "time" and options.solver == "auto":
        begun = time.thread_time()
        searched = search_orders(
            shape,
            traffic,
            slowest_s=default.low_s,
            cpu_s=ORDERS_BUDGET_S if options.budget_s is None else options.budget_s,
            seed=options.seed,
        )
        if searched is not None:
            found = evaluator.evaluate(searched.slots)
            cpu_s = time.thread_time() - begun
            tried.append((_candidate("orders of nodes", found, cpu_s), found))
            pool.append(("orders of nodes", evaluator.with_other_ways(found)))
        if not shape.domain_of_host:
            known = {each.device_of_rank for _, each in pool}
            pool += [
                (each.name, evaluator.with_other_ways(found))
                for each, found in tried
                if found is not None and found.device_of_rank not in known
            ]
    at = 1
    if not options.is_fixed:
        at = _taken(pool, options, evaluator)
        fastest = min(range(1, len(pool)), key=lambda each: pool[each][1].predicted_s)
        pool += [
            (pool[each][0], _refined(shape, traffic, evaluator, pool[each][1], options))
            for each in dict.fromkeys((at or fastest, fastest, 1 if searched is None else 2))
        ]
        at = _taken(pool, options, evaluator)
    solver, placed = pool[at or 1][0], pool[at][1]
    if at and placed.device_of_rank != default.device_of_rank:
        notes = [note for note in notes if not note.startswith(KEPT)]
    notes += kept_notes(_outlook(pool, options.objective, evaluator), at, options)
    if shape.domain_of_host and traffic.groups:
        if not options.is_fixed:
            placed, why = keep_inside(shape, traffic, evaluator, placed)
            if why:
                notes = [note for note in notes if not note.startswith(KEPT)]
                notes.append(why)
                placed, at = evaluator.with_other_ways(placed), len(pool)
                pool.append((solver, placed))
        notes += what_must_cross(shape, traffic, evaluator, placed)
    notes += rails_notes(shape, traffic, placed.device_of_rank)
    if all(candidate.predicted_s != placed.predicted_s for candidate, _ in tried):
        tried.append((_candidate("placed", placed), placed))
    outlook = _outlook(pool, options.objective, evaluator)
    premises = premises_of(outlook, at, None, options.min_gain, of_phases=len(default.phases) > 1)
    return result_of(
        shape,
        default,
        placed,
        options,
        _certificate(options.objective, placed, searched),
        solver=f"{options.solver} ({solver})",
        solve_seconds=time.perf_counter() - begin,
        notes=tuple(notes),
        stages=evaluator.stages,
        premises=premises,
        candidates=tuple(candidate for candidate, _ in tried),
        peak_memory_bytes=_peak_memory_bytes(),
    )


_Tried = tuple[Candidate, Evaluation | None]


def _is_said(note: str, traffic: Traffic) -> bool:
    """Not a grid in which the search found all traffic, modelled too, and the messages show none.

    What they show was recognised in a profile, or is the pattern that was asked for.
    """
    shown = traffic.metadata.get(GRID, "")
    return not note.startswith(OF_SEARCH) or note.rpartition(" ")[2] == shown


def _tried(
    evaluator: SlotEvaluator,
    answer: _core.LargeAnswer,
    known: tuple[Evaluation, Evaluation],
    objective: str,
) -> list[_Tried]:
    """The core's candidates, with what is predicted of them where it takes groups for pairs.

    That costs time, so it is done for the best by pairs only; of the others no time is known.
    `known` are the default and what the core placed.
    """
    found = [candidate_of(each) for each in answer.candidates]
    if not evaluator.has_groups:
        return [(each, None) for each in found]
    seen = {found[0].name: known[0], answer.placed.name: known[1]}
    most = max(1, _EVALUATED_RANKS // len(known[0].device_of_rank))
    others = (at for at, each in enumerate(found) if each.name not in seen)
    for at in sorted(others, key=lambda at: found[at].value(objective))[:most]:
        seen[found[at].name] = evaluator.evaluate(answer.slots_of(at))
    return [
        (_candidate(each.name, seen[each.name], each.cpu_s, each.also), seen[each.name])
        if each.name in seen
        else (structs.replace(each, max_congestion_s=None, predicted_s=None), None)
        for each in found
    ]


def _candidate(
    name: str, found: Evaluation, cpu_s: float = 0.0, also: tuple[str, ...] = ()
) -> Candidate:
    return Candidate(
        name=name,
        cost=found.cost,
        max_congestion_s=found.max_congestion_s,
        predicted_s=found.predicted_s,
        cpu_s=cpu_s,
        also=also,
    )


_Pool = Sequence[tuple[str, Evaluation]]


def _taken(pool: _Pool, options: MapOptions, evaluator: SlotEvaluator) -> int:
    """Which one the rule takes; of equals the last, whose ranks and hosts are in order."""
    outlook = _outlook(pool, options.objective, evaluator)
    return taken(outlook, options.min_gain, lambda each: (-each,), same=_WORTH)


def _outlook(pool: _Pool, objective: str, evaluator: SlotEvaluator) -> Outlook:
    """What is predicted of placements by each way of working; the first is the default."""
    rows = [each for _, each in pool]
    ways = [Scenario(name="nominal")]
    if objective == "time" and rows[0].phases:
        phases = [phase for each in rows for phase in each.phases]
        other = [TREES] * any(each.trees_s for each in phases)
        other += [RINGS] * any(each.rings_s for each in phases)
        ways += ways_of_working(phases=len(rows[0].phases), other=other)
    times = [[_seconds(way, each, objective) for each in rows] for way in ways]
    latency = rows[0].latency
    is_in_turn = objective == "time" and latency is not None and latency.is_much
    ends = [[evaluator.in_turn_s(each.device_of_rank) for each in rows]] * is_in_turn
    return Outlook(
        rows=tuple(each.device_of_rank for each in rows),
        scenarios=tuple(ways),
        at_ends=(IN_TURN,) * is_in_turn,
        times=np.array(times, np.float64),
        ends=np.array(ends, np.float64).reshape(-1, len(rows)),
    )


def _seconds(way: Scenario, placed: Evaluation, objective: str) -> float:
    if not way.changed:
        return placed.value(objective)
    seconds = [phase.by(way.by) if way.by else phase.seconds for phase in placed.phases]
    return max(seconds) if way.overlap else sum(seconds)


def _refined(
    shape: Shape,
    traffic: Traffic,
    evaluator: SlotEvaluator,
    placed: Evaluation,
    options: MapOptions,
) -> Evaluation:
    """The same hosts, with the devices inside them and their order that are best."""
    placed = _in_rank_order(shape.slots_per_host, evaluator, placed, options.objective)
    if traffic.groups and options.objective == "time":
        slots = np.array(placed.device_of_rank, np.uint32)
        other = with_local_sets(shape, traffic, slots, seed=options.seed)
        placed = _if_it_gains(evaluator, placed, other)
    return evaluator.with_other_ways(_in_host_order(shape, evaluator, placed, options.objective))


def _certificate(objective: str, placed: Evaluation, searched: Searched | None) -> Certificate:
    """What cuts around hosts, leaves and spines prove."""
    bound = None if searched is None else searched.bound_s
    reason = "too large for a lower bound"
    if bound is not None:
        reason = "cuts around hosts, leaves and spines have to carry as much"
    return certificate_of(
        objective,
        placed,
        bound=bound,
        proved=bound is not None and 0 < placed.value(objective) <= bound * (1 + _PROVED),
        reason=reason,
        orders_tried=None if searched is None else searched.tried,
    )


_PROVED = 1e-5  # of the value: what latencies and rounded shares of bytes come to
_EVALUATED_RANKS = 16_384  # of all candidates whose groups are evaluated: about half a second
_WORTH = 1e-3  # share of the objective below which another order inside a host is not worth it


def _in_rank_order(
    per_host: int, evaluator: SlotEvaluator, placed: Evaluation, objective: str
) -> Evaluation:
    """Every host's ranks on its devices 0, 1, ... in rank order, unless another order gains.

    Local rank k then has device k and the NIC of rail k on every host, as launchers and NCCL take
    for granted.
    """
    slots = np.array(placed.device_of_rank, np.uint32)
    order = np.lexsort((np.arange(len(slots)), slots // per_host))
    host = slots[order] // per_host
    first = np.concatenate([[0], np.flatnonzero(np.diff(host)) + 1])
    local = np.arange(len(slots)) - np.repeat(first, np.diff([*first, len(slots)]))
    plain = np.empty_like(slots)
    plain[order] = host * per_host + local
    if (plain == slots).all():
        return placed
    found = evaluator.evaluate(plain)
    is_worse = any(
        found.value(each) > placed.value(each) * (1 + _WORTH) for each in (objective, "time")
    )
    return placed if is_worse else found


def _in_host_order(
    shape: Shape, evaluator: SlotEvaluator, placed: Evaluation, objective: str
) -> Evaluation:
    """Hosts in their order, where that is as good by all that is compared."""
    hosts = [slot // shape.slots_per_host for slot in range(shape.slots)]
    row = in_host_order(placed.device_of_rank, hosts, evaluator, objective, shape)
    return placed if row == placed.device_of_rank else evaluator.evaluate(row)


def _if_it_gains(evaluator: SlotEvaluator, placed: Evaluation, other: Slots | None) -> Evaluation:
    """Other slots where they are faster by the sum of the phases, and not slower by one of them."""
    if other is None:
        return placed
    found = evaluator.evaluate(other)
    is_slower = found.predicted_s > placed.predicted_s * (1 - _WORTH)
    return placed if is_slower or found.low_s > placed.low_s * (1 + _WORTH) else found


def check_scale(shape: Shape, ranks: int, options: MapOptions) -> None:
    """Refuse what cannot be mapped onto a shape, as `map_to_shape` does."""
    if options.solver not in SCALE_SOLVERS:
        raise UsageError(
            f"solver {options.solver!r} does not map onto the shape of a machine",
            hint=f"choose one of {', '.join(SCALE_SOLVERS)}",
        )
    if options.metric != "bandwidth" or options.explained or options.constraints != Constraints():
        raise UsageError(
            "a metric, constraints or an explanation need a topology with devices, not the shape of"
            " a machine",
            hint="leave them out, or give a topology",
        )
    if ranks > shape.slots:
        raise ToposeatError(
            f"{ranks} ranks do not fit on the {shape.slots} slots of {shape.text!r}",
            hint="one rank per slot: use fewer ranks or a larger machine",
        )


def _peak_memory_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
