"""Why this placement: what moved, the bottleneck and its users, and how sure the choice is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation import HYBRID, Evaluator
from toposeat.evaluation.network import NetworkArrays
from toposeat.evaluation.spread import STATED_SPREAD, SpreadMachine
from toposeat.mapping.sensitivity import DRAWS, TOLERANCE, Spreads, weigh, without_ties
from toposeat.model.evaluation import Evaluation
from toposeat.model.explanation import (
    Bottleneck,
    Explanation,
    PairLoad,
    PairMove,
    Sensitivity,
)
from toposeat.model.map_options import MapOptions
from toposeat.model.topology import Topology

Permits = Callable[[Sequence[int]], bool]

SHOWN_MOVES = 8
SHOWN_LOADS = 5
NEIGHBOURS = 8  # best exchanges of two ranks that join the candidates
_MOST_NEIGHBOURS_TRIED = 2000


def explain(
    topology: Topology,
    evaluator: Evaluator,
    evaluations: tuple[Evaluation, Evaluation],
    runners_up: Sequence[Sequence[int]],
    options: MapOptions,
    *,
    permits: Permits,
) -> Explanation:
    """Compare a placement with the default and with other candidates.

    Args:
        topology: the machine.
        evaluator: of this machine and the traffic.
        evaluations: of the default and of the placement to explain.
        runners_up: other placements worth comparing with; the best exchanges of two ranks of
            the placement are added.
        options: say what "better" means when numbers move.
        permits: whether a placement keeps to pins, slots and allowed devices.
    """
    before, after = evaluations
    moves = _moves(topology, evaluator, before, after)
    spread = SpreadMachine(topology)
    values = _values(evaluator, options)
    sensitivity = None
    if values is not None:
        rows = [after.device_of_rank, before.device_of_rank, *map(tuple, runners_up)]
        rows += _best_exchanges(values, spread.middle, after.device_of_rank, permits)
        sensitivity = _sensitivity(spread, values, rows, options.seed)
    return Explanation(
        moves=tuple(moves[:SHOWN_MOVES]),
        moved_pairs=len(moves),
        moved_bytes=sum(move.bytes for move in moves),
        before=_bottleneck(topology, evaluator, before),
        after=_bottleneck(topology, evaluator, after),
        sensitivity=sensitivity,
    )


def _links(topology: Topology, source: int, target: int) -> tuple[str, ...]:
    if source == target:
        return ()
    ends = (topology.devices[source].id, topology.devices[target].id)
    return topology.route_of_pair[ends].links


def _moves(
    topology: Topology, evaluator: Evaluator, before: Evaluation, after: Evaluation
) -> list[PairMove]:
    """Pairs on other links than before, heaviest first."""
    moves = []
    table = evaluator.table
    for source, target, nbytes, messages in zip(
        table.source.tolist(),
        table.target.tolist(),
        table.bytes.tolist(),
        table.messages.tolist(),
        strict=True,
    ):
        old = _links(topology, before.device_of_rank[source], before.device_of_rank[target])
        new = _links(topology, after.device_of_rank[source], after.device_of_rank[target])
        if old != new:
            moves.append(
                PairMove(
                    source=source,
                    target=target,
                    bytes=nbytes,
                    messages=messages,
                    links_before=old,
                    links_after=new,
                )
            )
    return sorted(moves, key=lambda move: -move.bytes)  # stable: ties in rank order


def _bottleneck(topology: Topology, evaluator: Evaluator, evaluation: Evaluation) -> Bottleneck:
    device = evaluation.device_of_rank
    times = _core.flow_times(evaluator.network, evaluator.flows, device)
    table = evaluator.table
    last = times.last_flow
    busiest = next((load for load in evaluation.links if load.congestion_s > 0), None)
    loads = []
    if busiest is not None:
        for source, target, nbytes in zip(
            table.source.tolist(), table.target.tolist(), table.bytes.tolist(), strict=True
        ):
            if nbytes and busiest.link in _links(topology, device[source], device[target]):
                loads.append(PairLoad(source=source, target=target, bytes=nbytes))
    loads.sort(key=lambda load: -load.bytes)
    return Bottleneck(
        link=None if busiest is None else busiest.link,
        congestion_s=0.0 if busiest is None else busiest.congestion_s,
        bytes=0.0 if busiest is None else busiest.bytes,
        pairs=len(loads),
        loads=tuple(loads[:SHOWN_LOADS]),
        last_source=None if last is None else int(table.source[last]),
        last_target=None if last is None else int(table.target[last]),
        last_link=None if times.bottleneck is None else topology.links[times.bottleneck].id,
    )


_Values = Callable[[NetworkArrays, NDArray[np.uint32]], NDArray[np.float64]]


def _values(evaluator: Evaluator, options: MapOptions) -> _Values | None:
    """The objective of many placements on one machine; None if it does not depend on numbers."""
    flows, table = evaluator.flows, evaluator.table
    objective, metric = options.objective, options.metric
    if objective == "time":
        return lambda machine, placements: _core.flow_time_each(
            machine.network(), flows, placements
        )
    if objective == "congestion":
        return lambda machine, placements: _core.max_congestion_each(
            machine.network(), flows, placements
        )
    if metric == "distance":
        return None

    def cost(machine: NetworkArrays, placements: NDArray[np.uint32]) -> NDArray[np.float64]:
        pair = placements[:, table.source].astype(np.intp) * machine.devices
        pair += placements[:, table.target]
        nbytes, messages = table.bytes.astype(np.float64), table.messages.astype(np.float64)
        if metric == "latency":
            return np.asarray(machine.latency()[pair] @ nbytes)
        total = (1 / machine.isolated_rate())[pair] @ nbytes
        if metric == HYBRID:
            total = total + machine.latency()[pair] @ messages
        return np.asarray(total)

    return cost


def _sensitivity(
    spread: SpreadMachine, values: _Values, rows: Sequence[tuple[int, ...]], seed: int
) -> Sensitivity:
    """Row 0 is the placement, row 1 the default, the others are candidates."""
    same = rows[0] == rows[1]
    rows = [*rows[:2], *(each for each in dict.fromkeys(rows[2:]) if each not in rows[:2])]
    candidates = without_ties(rows, values(spread.middle, np.array(rows, np.uint32)))
    placements = np.array(candidates, np.uint32)
    generator = np.random.default_rng(seed)
    return weigh(
        values(spread.middle, placements),
        (values(spread.draw(generator), placements) for _ in range(DRAWS)),
        Spreads(stated=STATED_SPREAD, recorded=spread.recorded, is_any_assumed=spread.assumed),
        count=len(candidates) - same,
    )


def _best_exchanges(
    values: _Values, machine: NetworkArrays, placed: Sequence[int], permits: Permits
) -> list[tuple[int, ...]]:
    """The best placements, ties aside, one exchange of two ranks away from `placed`."""
    exchanged = [tuple(placed)]
    for r, s in itertools.islice(
        itertools.combinations(range(len(placed)), 2), _MOST_NEIGHBOURS_TRIED
    ):
        other = list(placed)
        other[r], other[s] = other[s], other[r]
        if other[r] != other[s] and permits(other):
            exchanged.append(tuple(other))
    value = values(machine, np.array(exchanged, np.uint32))
    others = np.flatnonzero(np.abs(value - value[0]) > value[0] * TOLERANCE)
    nearest = others[np.argsort(value[others], kind="stable")][:NEIGHBOURS]
    return [exchanged[int(at)] for at in nearest]
