"""Schedules: collectives by a stated algorithm, and traffic in the order that is known of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from toposeat.errors import UsageError
from toposeat.model.pair_table import PairTable, Schedule
from toposeat.model.runs import GridExchange
from toposeat.model.traffic import Int64Array, MemorySpace, Traffic, TrafficKind
from toposeat.profile.algorithms import Algorithm, Call, Messages, messages, reduction
from toposeat.profile.algorithms.messages import doublings

Rounds = list[Int64Array]  # of arrays (4, messages): source, target, bytes, messages


def _in_order(algorithm: Algorithm) -> Callable[[Call], Rounds]:
    """Each step of the algorithm after the one before; n messages of a pair in a step are n."""

    def rounds(call: Call) -> Rounds:
        out = Messages()
        algorithm(call, out)
        return [part for step in out.rounds() for part in _one_by_one(step)]

    return rounds


def _one_by_one(step: Int64Array) -> Rounds:
    """A step in which a pair sends several messages: one after the other, of nearly equal size."""
    source, target, nbytes, messages = step
    return [
        np.stack(
            [
                source[sends],
                target[sends],
                (nbytes * (k + 1) // messages - nbytes * k // messages)[sends],
                np.ones(int(sends.sum()), np.int64),
            ]
        )
        for k in range(int(messages.max(initial=0)))
        if (sends := messages > k).any()
    ]


def _at_once(algorithm: Algorithm) -> Callable[[Call], Rounds]:
    def rounds(call: Call) -> Rounds:
        out = Messages()
        algorithm(call, out)
        return [out.rows()]

    return rounds


def _bcast_binomial(call: Call) -> Rounds:
    """Everybody who has the vector passes it on, the farthest first: half of all members away."""
    out = Messages()
    for distance in reversed(doublings(call.members)):
        senders = np.arange(0, call.members - distance, 2 * distance)
        out.add(call.at(senders), call.at(senders + distance), call.size)
    return out.rounds()


ALGORITHMS: Mapping[str, Mapping[str, Callable[[Call], Rounds]]] = MappingProxyType(
    {
        "alltoall": {
            "linear": _at_once(messages.alltoall_direct),
            "pairwise": _in_order(messages.alltoall_direct),
            "bruck": _in_order(messages.alltoall_bruck),
        },
        "allgather": {
            "ring": _in_order(messages.allgather_ring),
            "bruck": _in_order(messages.allgather_bruck),
            "recursive-doubling": _in_order(messages.allgather_recursive_doubling),
        },
        "allreduce": {
            "ring": _in_order(reduction.allreduce_ring_always),
            "recursive-doubling": _in_order(reduction.allreduce_recursive_doubling),
        },
        "bcast": {"binomial": _bcast_binomial},
        "barrier": {"dissemination": _in_order(messages.barrier_dissemination)},
    }
)


def collective_schedule(
    operation: str,
    algorithm: str,
    groups: Sequence[Sequence[int]],
    size: int,
    *,
    repeats: int = 1,
) -> Schedule:
    """One collective in several communicators at once, step by step, `repeats` calls in a row.

    Operation and algorithm are keys of `ALGORITHMS`. `groups` are the world ranks of each
    communicator, in its order; no rank is in two. `size` is in bytes, as `Call.size` has them.
    """
    known = ALGORITHMS.get(operation, {})
    if algorithm not in known:
        names = "; ".join(f"{name}: {', '.join(each)}" for name, each in ALGORITHMS.items())
        raise UsageError(f"no algorithm {algorithm!r} of {operation!r}", hint=f"known are {names}")
    members = [rank for group in groups for rank in group]
    if not members or len(set(members)) < len(members):
        raise UsageError("communicators share a rank, or have none", hint="one group per rank")
    steps: list[list[Int64Array]] = []
    for group in groups:
        world = np.asarray(group, np.int64)
        for number, rows in enumerate(known[algorithm](Call(members=len(group), size=size))):
            if number == len(steps):
                steps.append([])
            steps[number].append(np.stack([world[rows[0]], world[rows[1]], rows[2], rows[3]]))
    return Schedule(
        ranks=max(members) + 1,
        origin=f"{operation} ({algorithm}) of {len(groups)} x {len(groups[0])} ranks",
        phases=tuple(PairTable.from_pairs(*np.concatenate(step, axis=1)) for step in steps),
        repeats=repeats,
    )


def exchange_schedule(exchange: GridExchange, algorithm: str | None, size: int) -> Schedule:
    """The collective of an exchange, by default as MPIs do it for large messages."""
    if not exchange.is_collective:
        raise UsageError(
            f"{exchange.name} is no collective: there is no algorithm to choose",
            hint=f"collectives are {', '.join(ALGORITHMS)}",
        )
    named = algorithm or default_algorithm(exchange.name)
    return collective_schedule(exchange.name, named, exchange.groups, size)


def default_algorithm(operation: str) -> str:
    """What stands for an operation where nobody says which algorithm."""
    return next(iter(ALGORITHMS[operation]))


def schedule_traffic(schedule: Schedule) -> Traffic:
    """The messages of a schedule without their order, as device memory's collective traffic."""
    return Traffic(
        ranks=schedule.ranks,
        origin=schedule.origin,
        tables={(TrafficKind.COLLECTIVE, MemorySpace.DEVICE): schedule.table()},
        collective_model=schedule.origin,
        timed=False,
    )
