"""Explain a placement: which pairs moved, the bottleneck, and who loads it."""

from __future__ import annotations

from toposeat import _core
from toposeat.evaluation import Evaluator
from toposeat.model.evaluation import Evaluation
from toposeat.model.explanation import Bottleneck, Explanation, Move, PairLoad
from toposeat.model.topology import Topology

SHOWN_MOVES = 8
SHOWN_LOADS = 5


def explain(
    topology: Topology,
    evaluator: Evaluator,
    evaluations: tuple[Evaluation, Evaluation],
) -> Explanation:
    """Compare a placement with the default."""
    before, after = evaluations
    moves = _moves(topology, evaluator, before, after)
    return Explanation(
        moves=tuple(moves[:SHOWN_MOVES]),
        moved_pairs=len(moves),
        moved_bytes=sum(move.bytes for move in moves),
        before=_bottleneck(topology, evaluator, before),
        after=_bottleneck(topology, evaluator, after),
    )


def _links(topology: Topology, source: int, target: int) -> tuple[str, ...]:
    if source == target:
        return ()
    ends = (topology.devices[source].id, topology.devices[target].id)
    return topology.route_of_pair[ends].links


def _moves(
    topology: Topology, evaluator: Evaluator, before: Evaluation, after: Evaluation
) -> list[Move]:
    """Pairs that use other links than in the default, heaviest first."""
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
                Move(
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
    times = _core.flow_times(evaluator.machine.network, evaluator.flows, device)
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
        latency=evaluation.latency,
    )
