"""Finds GPUs that share a link to the others: compares transfers at once with the same alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toposeat.topology.measure.pairs import Copiers, transfer
from toposeat.topology.measure.results import LARGE_BYTES

_SAME_LEVEL = 0.97  # bandwidths within this factor of each other belong to one level
_SHARED = 0.9  # all together reach less than this share of what they reach one by one
_REPEATS = 6


@dataclass(frozen=True)
class SharedLink:
    """A set of GPUs whose transfers to all others pass one bottleneck.

    Bytes/s of all of them together: out of the set, into it, both at once (the sum), and the sum of
    what the transfers of both directions reach alone.

    Without `limits`, the link carried all that the GPUs, and the links that smaller sets share,
    could deliver: it is no constraint, and its capacity is unknown.
    """

    inside: frozenset[int]
    out_bytes_per_s: float
    in_bytes_per_s: float
    both_bytes_per_s: float
    both_alone_bytes_per_s: float = float("inf")
    limits: bool = True

    @property
    def has_combined_limit(self) -> bool:
        """Whether the two directions hinder each other.

        They do not where the transfers of both directions at once reach what each of them reaches
        alone: their pairs are limited then, and the link is not full.
        """
        least = min(self.out_bytes_per_s + self.in_bytes_per_s, self.both_alone_bytes_per_s)
        return self.both_bytes_per_s < _SHARED * least


def clusters(bandwidth: NDArray[np.float64]) -> list[frozenset[int]]:
    """Sets of GPUs that are nearer to each other than to all others, the small ones first.

    Args:
        bandwidth: shape (n, n), bytes/s of each pair alone; NaN counts as 0.
    """
    n = len(bandwidth)
    # A disturbed measurement is too slow, never too fast: of the two directions the better counts.
    both = np.fmax(np.nan_to_num(bandwidth), np.nan_to_num(bandwidth.T))
    levels = sorted({both[i, j] for i in range(n) for j in range(i)}, reverse=True)
    found: list[frozenset[int]] = []
    for level in levels:
        reach = (both >= level * _SAME_LEVEL) | np.eye(n, dtype=bool)
        for _ in range(n.bit_length()):  # paths of twice the length each time
            reach = reach.astype(np.float32) @ reach > 0
        for inside in {frozenset(np.flatnonzero(row).tolist()) for row in reach}:
            if 1 < len(inside) < n and inside not in found and _is_compact(both, inside):
                found.append(inside)
    return sorted(found, key=lambda each: (len(each), sorted(each)))


def _is_compact(both: NDArray[np.float64], inside: frozenset[int]) -> bool:
    """Whether pairs inside are faster than pairs that cross the border, but for a few outliers."""
    outside = [i for i in range(len(both)) if i not in inside]
    slow = np.quantile([both[i, j] for i in inside for j in inside if i != j], 0.1)
    fast = np.quantile([both[i, j] for i in inside for j in outside], 0.9)
    return bool(fast < slow * _SAME_LEVEL)


def crossing_flows(inside: frozenset[int], bandwidth: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Pairs from distinct GPUs inside to distinct GPUs outside, the fastest first."""
    outside = [i for i in range(len(bandwidth)) if i not in inside]
    flows: list[tuple[int, int]] = []
    free = set(outside)
    for source in sorted(inside):
        if free:
            target = max(sorted(free), key=lambda t: np.nan_to_num(bandwidth[source, t]))
            flows.append((source, target))
            free.discard(target)
    return flows


def _together(workers: Copiers, flows: Sequence[tuple[int, int]], protocol: str) -> float:
    """Bytes/s of all flows at once: the sum of their medians, the first of each left out."""
    done = transfer(workers, flows, protocol, LARGE_BYTES, _REPEATS)
    return sum(LARGE_BYTES / statistics.median(each.seconds[1:]) for each in done)


def try_sets(
    workers: Copiers,
    bandwidth: NDArray[np.float64],
    protocol: str,
    advance: Callable[[int, int], None],
) -> list[SharedLink]:
    """Try every cluster: do its transfers to the outside hinder each other?

    Every GPU of the set sends (receives) at the same time. More flows cannot bring more: what
    leaves the set is at most what its GPUs, and links that smaller sets share, carry.

    Args:
        workers: one per GPU, with memory for `LARGE_BYTES`.
        bandwidth: of each ordered pair alone, bytes/s.
        protocol: to copy with.
        advance: is called with the number of steps done and the number of all steps.
    """
    found: list[SharedLink] = []
    candidates = clusters(bandwidth)
    for number, inside in enumerate(candidates):
        advance(number, len(candidates))
        out = crossing_flows(inside, bandwidth)
        into = [(t, s) for s, t in out]
        alone_out = sum(float(bandwidth[pair]) for pair in out)
        alone_in = sum(float(bandwidth[pair]) for pair in into)
        if len(out) < 2:
            continue
        rate_out = _together(workers, out, protocol)
        rate_in = _together(workers, into, protocol)
        # every other one, so that smaller sets inside send and receive as well
        mixed = out[::2] + into[1::2]
        both = _together(workers, mixed, protocol)
        alone_both = sum(float(bandwidth[pair]) for pair in mixed)
        each = SharedLink(inside, rate_out, rate_in, both, alone_both)
        hindered = rate_out < _SHARED * alone_out or rate_in < _SHARED * alone_in
        limiting = [x for x in found if x.limits]
        found.append(replace(each, limits=hindered and not _explained(each, limiting)))
    return found


def _explained(each: SharedLink, found: Sequence[SharedLink]) -> bool:
    """Whether smaller sets that share links already make this one as slow as it is."""
    inner = [x for x in found if x.inside < each.inside]
    largest = [x for x in inner if not any(x.inside < y.inside for y in inner)]
    if frozenset().union(*(x.inside for x in largest)) != each.inside:
        return False
    out = sum(x.out_bytes_per_s for x in largest)
    into = sum(x.in_bytes_per_s for x in largest)
    return each.out_bytes_per_s > _SHARED * out and each.in_bytes_per_s > _SHARED * into
