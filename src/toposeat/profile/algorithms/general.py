"""One textbook algorithm per operation, whatever the size: for MPIs whose rules are not known."""

from __future__ import annotations

from toposeat.profile.algorithms import exchange, reduction, rooted, trees
from toposeat.profile.algorithms.messages import Algorithm, Call

_ALGORITHMS: dict[str, tuple[str, Algorithm]] = {
    "barrier": ("dissemination", exchange.barrier_dissemination),
    "bcast": ("binomial", rooted.down(trees.binomial)),
    "reduce": ("binomial", rooted.up(trees.binomial)),
    "gather": ("binomial", rooted.gather_binomial),
    "scatter": ("binomial", rooted.scatter_binomial),
    "gatherv": ("linear", rooted.gatherv_linear),
    "allgather": ("ring", exchange.allgather_ring),
    "allgatherv": ("ring", exchange.allgather_ring),
    "allreduce": ("ring", reduction.allreduce_ring_always),
    "reduce_scatter": ("ring", reduction.reduce_scatter_ring),
    "reduce_scatter_block": ("ring", reduction.block_ring),
    "alltoall": ("direct", exchange.alltoall_direct),
    "scan": ("chain", exchange.scan_chain),
    "exscan": ("chain", exchange.scan_chain),
}


def choose(operation: str, call: Call) -> tuple[str, Algorithm] | None:
    """Name and algorithm for a call; None for what has no rule."""
    del call  # the same for all sizes
    return _ALGORITHMS.get(operation)
