"""The algorithms that MPICH 4 and 5 choose for a collective: their general selection.

Source of the limits: MPICH, src/mpi/coll/coll_selection.json and maint/tuning/coll. Operations are
taken as commutative and built in. On one node MPICH moves bcast, reduce and allreduce of a program
with one thread through shared memory instead; the messages below are what it sends otherwise.
"""

from __future__ import annotations

from toposeat.profile.algorithms import exchange, reduction, rooted, trees
from toposeat.profile.algorithms.messages import Algorithm, Call, power_of_two_below

_BCAST_SHORT, _BCAST_LONG, _BCAST_FEW = 12288, 524288, 8
_REDUCE_SHORT, _ALLREDUCE_SHORT = 2048, 8
_ALLGATHER_SHORT, _ALLGATHER_LONG = 81920, 524288
_REDUCE_SCATTER_LONG = 524288
_ALLTOALL_SHORT, _ALLTOALL_FEW = 256, 8

_ONLY: dict[str, tuple[str, Algorithm]] = {
    "barrier": ("dissemination", exchange.barrier_dissemination),
    "gather": ("binomial", rooted.gather_binomial),
    "scatter": ("binomial", rooted.scatter_binomial),
    "gatherv": ("linear", rooted.gatherv_linear),
    "scan": ("recursive_doubling", exchange.scan_recursive_doubling),
    "exscan": ("recursive_doubling", exchange.scan_recursive_doubling),
}


def choose(operation: str, call: Call) -> tuple[str, Algorithm] | None:
    """Name and algorithm for a call; None for what has no rule."""
    rule = _RULES.get(operation)
    return rule(call) if rule is not None else _ONLY.get(operation)


def _power_of_two(call: Call) -> bool:
    return power_of_two_below(call.members) == call.members


def _bcast(call: Call) -> tuple[str, Algorithm]:
    if call.members < _BCAST_FEW or call.size <= _BCAST_SHORT:
        return "binomial", rooted.down(trees.binomial)
    if _power_of_two(call) and call.size <= _BCAST_LONG:
        return "scatter_allgather", rooted.scatter_allgather
    return "scatter_allgather_ring", rooted.scatter_allgather_ring


def _reduce(call: Call) -> tuple[str, Algorithm]:
    if call.size <= _REDUCE_SHORT or call.count < power_of_two_below(call.members):
        return "binomial", rooted.up(trees.binomial)
    return "rabenseifner", reduction.reduce_halving_gather


def _allreduce(call: Call) -> tuple[str, Algorithm]:
    if call.size <= _ALLREDUCE_SHORT or call.count < power_of_two_below(call.members):
        return "recursive_doubling", reduction.allreduce_recursive_doubling
    return "rabenseifner", reduction.allreduce_halving_doubling


def _allgather(call: Call) -> tuple[str, Algorithm]:
    total = int(call.own_blocks().sum())
    if _power_of_two(call) and total < _ALLGATHER_LONG:
        return "recursive_doubling", exchange.allgather_recursive_doubling
    if not _power_of_two(call) and total < _ALLGATHER_SHORT:
        return "bruck", exchange.allgather_bruck
    return "ring", exchange.allgather_ring


def _alltoall(call: Call) -> tuple[str, Algorithm]:
    if call.members >= _ALLTOALL_FEW and call.size <= _ALLTOALL_SHORT:
        return "bruck", exchange.alltoall_bruck
    return "direct", exchange.alltoall_direct


def _reduce_scatter(call: Call) -> tuple[str, Algorithm]:
    if call.size < _REDUCE_SCATTER_LONG:
        return "halving", reduction.reduce_scatter_halving(Call.shares)
    return "direct", reduction.reduce_scatter_direct(Call.shares)


def _reduce_scatter_block(call: Call) -> tuple[str, Algorithm]:
    if call.size * call.members < _REDUCE_SCATTER_LONG:
        return "halving", reduction.reduce_scatter_halving(Call.own_blocks)
    return "direct", reduction.reduce_scatter_direct(Call.own_blocks)


_RULES = {
    "bcast": _bcast,
    "reduce": _reduce,
    "allreduce": _allreduce,
    "allgather": _allgather,
    "allgatherv": _allgather,
    "alltoall": _alltoall,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_block": _reduce_scatter_block,
}
