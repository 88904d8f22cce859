"""Patterns along the rank numbers: rings, pipelines, and one rank with all others."""

from __future__ import annotations

import numpy as np

from toposeat.profile.pattern.pair_set import (
    MIN_SHARE,
    PairSet,
    Pattern,
    are_even,
)


def find_all_to_all(pairs: PairSet) -> Pattern | None:
    """Every rank with every other."""
    n = pairs.ranks
    if len(pairs) < n * (n - 1):
        return None
    # A full matrix whose bytes are mostly elsewhere, say a grid with few other bytes, is none.
    heavy = np.sort(pairs.bytes)[::-1][: len(pairs) // 2]
    if heavy.sum() > 0.9 * pairs.total:
        return None
    even = "" if are_even(pairs.bytes) else ", uneven"
    words = f"all-to-all among all ranks{even}: {{share}} of the bytes on {{pairs}}"
    return pairs.claim("all-to-all", words, pairs.keys)


def find_directed_line(pairs: PairSet) -> Pattern | None:
    """A ring or a pipeline: every rank to the one a fixed distance on, one way only."""
    n = pairs.ranks
    distance = (pairs.target - pairs.source) % n
    weight = np.bincount(distance, weights=pairs.bytes, minlength=n)
    step = int(np.argmax(weight))
    if weight[step] < MIN_SHARE * pairs.total:
        return None
    rank = np.arange(n, dtype=np.int64)
    keys = rank * n + (rank + step) % n
    to = "the next" if step == 1 else "the one before" if step == n - 1 else f"rank + {step}"
    if np.gcd(step, n) == 1:
        words = f"ring: {{share}} of the bytes from each rank to {to}, on {{pairs}}"
        if (found := pairs.claim("ring", words, keys)) is not None:
            return found
    # A pipeline is cut somewhere: its last ranks send to nobody.
    back = step > n // 2
    stride = n - step if back else step
    if n % stride:
        return None
    first = rank[: n - stride]
    keys = (first + stride) * n + first if back else first * n + first + stride
    of = f" of {stride} ranks" if stride > 1 else ""
    way = "back to the stage before" if back else "to the next stage"
    words = f"pipeline of {n // stride} stages{of}: {{share}} of the bytes {way}, on {{pairs}}"
    return pairs.claim("pipeline", words, keys)


def find_star(pairs: PairSet) -> Pattern | None:
    """One rank with all others: master and workers, or a gather or scatter by hand."""
    n = pairs.ranks
    weight = np.bincount(pairs.source, weights=pairs.bytes, minlength=n)
    weight += np.bincount(pairs.target, weights=pairs.bytes, minlength=n)
    hub = int(np.argmax(weight))
    others = np.delete(np.arange(n, dtype=np.int64), hub)
    out, back = hub * n + others, others * n + hub
    for words, keys in (
        (f"from rank {hub} to all others", out),
        (f"from all others to rank {hub}", back),
        (f"between rank {hub} and all others", np.concatenate([out, back])),
    ):
        kind = "master-worker"
        found = pairs.claim(kind, f"{kind}: {{share}} of the bytes {words}, on {{pairs}}", keys)
        if found is not None:
            return found
    return None
