"""Which regular pattern a traffic has, as one sentence for the report.

A pattern is claimed only of pairs that are all used and that carry at least 95 % of the bytes
(`PairSet.claim`); what fits none is called irregular, with figures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from toposeat.model.traffic import Communicator, Int64Array, Traffic, TrafficKind
from toposeat.profile.pattern.halo import (
    EVEN,
    MIN_SHARE,
    PairSet,
    Pattern,
    find_halo,
    percent,
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
    even = "" if pairs.bytes.max() <= (1 + EVEN) * pairs.bytes.min() else ", uneven"
    words = f"all-to-all among all ranks{even}: {{share}} of the bytes on {{pairs}}"
    return pairs.claim("all-to-all", words, pairs.keys)


def find_ring(pairs: PairSet) -> Pattern | None:
    """Every rank to the one a fixed distance on, one way only."""
    n = pairs.ranks
    distance = (pairs.target - pairs.source) % n
    weight = np.bincount(distance, weights=pairs.bytes, minlength=n)
    step = int(np.argmax(weight))
    if np.gcd(step, n) != 1 or weight[step] < MIN_SHARE * pairs.total:
        return None
    rank = np.arange(n, dtype=np.int64)
    to = "the next" if step == 1 else "the one before" if step == n - 1 else f"rank + {step}"
    words = f"ring: {{share}} of the bytes from each rank to {to}, on {{pairs}}"
    return pairs.claim("ring", words, rank * n + (rank + step) % n)


def components(pairs: PairSet) -> Int64Array:
    """For each rank the lowest rank that it is connected with, over any number of pairs."""
    label = np.arange(pairs.ranks, dtype=np.int64)
    source, target = pairs.source, pairs.target
    while True:
        lowest = np.minimum(label[source], label[target])
        after = label.copy()
        np.minimum.at(after, label[source], lowest)
        np.minimum.at(after, label[target], lowest)
        after = after[after]  # halves the way to the lowest
        if np.array_equal(after, label):
            return label
        label = after


def find_groups(pairs: PairSet) -> Pattern | None:
    """All-to-all inside groups of ranks between which there is no traffic."""
    for kept in (pairs, pairs.heaviest(MIN_SHARE)):
        label = components(kept)
        size = np.bincount(label, minlength=pairs.ranks)
        sizes = size[size > 0]
        if len(sizes) < 2 or sizes.min() < 2:
            continue
        members = [np.flatnonzero(label == first) for first in np.flatnonzero(size)]
        if len(kept) != int((sizes * (sizes - 1)).sum()):
            continue
        inside = "exchange in pairs" if sizes.max() == 2 else "all-to-all"
        words = f"{inside} in {_groups_words(members)}: {{share}} of the bytes on {{pairs}}"
        found = pairs.claim("groups", words, kept.keys)
        if found is not None:
            return found
    return None


def _groups_words(members: Sequence[Int64Array]) -> str:
    """`4 groups of 4 ranks (ranks 4 apart)`."""
    low, high = min(map(len, members)), max(map(len, members))
    size = str(low) if low == high else f"{low} to {high}"
    steps = {int(step) for group in members for step in np.diff(group)}
    if steps == {1}:
        order = " consecutive ranks"
    elif len(steps) == 1:
        order = f" ranks, {steps.pop()} apart"
    else:
        order = " ranks"
    return f"{len(members)} groups of {size}{order}"


def find_process_groups(
    pairs: PairSet, collective: PairSet, communicators: Sequence[Communicator]
) -> Pattern | None:
    """The groups of a machine learning job: tensor, data and pipeline parallel, by their place.

    `collective` are the pairs with the bytes of collectives only, which must be most.
    """
    if 2 * collective.total < pairs.total:
        return None
    by_collectives = collective.bytes_of(pairs.keys) * 2 > pairs.bytes
    taken = np.zeros(len(pairs), bool)
    parts, keys = [], []
    # Small groups first: what is in several belongs to the smallest.
    for family in _families(communicators, pairs.ranks):
        label = np.empty(pairs.ranks, np.int64)
        for number, group in enumerate(family):
            label[list(group)] = number
        inside = label[pairs.source] == label[pairs.target]
        inside &= by_collectives & ~taken
        if inside.any():
            groups = [np.array(members) for members in family]
            share = pairs.bytes[inside].sum() / pairs.total
            consecutive = all(len(g) == g[-1] - g[0] + 1 for g in groups)
            like = "tensor" if consecutive else "data"
            where = f"in {_groups_words(groups)} (where {like} parallelism sits)"
            where = "elsewhere among all ranks" if len(groups) == 1 else where
            parts.append(f"{percent(share)} {where}")
            keys.append(pairs.keys[inside])
            taken |= inside
    stages = _stages(pairs, taken)
    if stages is not None:
        count, inside = stages
        share = pairs.bytes[inside].sum() / pairs.total
        parts.append(f"{percent(share)} between {count} pipeline stages")
        keys.append(pairs.keys[inside])
    if len(parts) < 2:
        return None
    words = "collectives in process groups, {share} of the bytes: "
    return pairs.claim("process groups", words + ", ".join(parts), np.concatenate(keys))


def _families(communicators: Sequence[Communicator], ranks: int) -> Iterator[list[tuple[int, ...]]]:
    """Communicators of one size that share out all ranks, with equal steps between members."""
    alike: dict[tuple[int, int], set[tuple[int, ...]]] = defaultdict(set)
    for communicator in communicators:
        if 1 < len(communicator.ranks) <= ranks:
            members = tuple(sorted(communicator.ranks))
            alike[len(members), members[1] - members[0]].add(members)
    for _, family in sorted(alike.items()):
        everyone = [rank for members in family for rank in members]
        if len(everyone) == ranks == len(set(everyone)):
            yield sorted(family)


def _stages(pairs: PairSet, taken: np.ndarray) -> tuple[int, np.ndarray] | None:
    """Pairs that are left over and all lie one stage apart: how many stages, and which pairs."""
    n = pairs.ranks
    rest = ~taken
    if not rest.any():
        return None
    distance = np.abs(pairs.target - pairs.source)
    step = int(np.bincount(distance[rest], weights=pairs.bytes[rest]).argmax())
    if n % step or n // step < 2:
        return None
    if 2 * (n - step) > len(pairs):  # before they are made: a record may name millions of ranks
        return None
    first = np.arange(n - step, dtype=np.int64) * (n + 1)
    if not pairs.all_used(np.concatenate([first + step, first + step * n])):
        return None
    return n // step, rest & (distance == step)


MIN_RANKS = 3
MAX_PAIRS = 1 << 23  # with more, it takes longer than a sentence is worth
_MAX_ORDERS = 8  # communicators whose order is tried

# The first that fits is the answer: the most specific patterns come first.
_FINDERS: tuple[Callable[[PairSet], Pattern | None], ...] = (
    find_ring,
    find_all_to_all,
    find_halo,
    find_groups,
)


def recognise(traffic: Traffic) -> Pattern | None:
    """The pattern of the traffic that is mapped; None for too few ranks or pairs.

    Known are halo exchanges on grids of up to six dimensions, open or periodic in each, with or
    without diagonals, in rank order or in the order of a communicator; rings; all-to-all among all
    ranks and in groups; the process groups of a machine learning job.
    """
    table = traffic.mapped_table()
    if traffic.ranks < MIN_RANKS or len(table) > MAX_PAIRS:
        return None
    pairs = PairSet.of(table, traffic.ranks)
    if not len(pairs):
        return None
    found = find_process_groups(pairs, _collective(traffic), traffic.communicators)
    for finder in _FINDERS:
        found = found or finder(pairs)
    return found or _in_another_order(pairs, traffic) or _irregular(pairs)


def with_pattern(traffic: Traffic) -> Traffic:
    """The same traffic with what was recognised in its metadata, for the reports."""
    found = recognise(traffic)
    words = {} if found is None else {"pattern": found.words}
    return replace(traffic, metadata={**traffic.metadata, **words})


def _collective(traffic: Traffic) -> PairSet:
    space = traffic.mapped_space
    return PairSet.of(traffic.table(kind=TrafficKind.COLLECTIVE, space=space), traffic.ranks)


def _in_another_order(pairs: PairSet, traffic: Traffic) -> Pattern | None:
    """A halo in the order of a communicator, as MPI_Cart_create with reordering makes it."""
    for communicator in _orders(traffic):
        members = communicator.ranks
        found = find_halo(pairs.within(members))
        if found is None:
            continue
        name = f" {communicator.name}" if communicator.name else f" {communicator.id}"
        some = "" if len(members) == pairs.ranks else f"the {len(members)} ranks of "
        world = np.asarray(members, np.int64)
        source, target = world[found.keys // len(members)], world[found.keys % len(members)]
        return replace(
            found,
            words=f"{found.words}; ranks in the order of {some}communicator{name}",
            keys=np.sort(source * pairs.ranks + target),
        )
    return None


def _orders(traffic: Traffic) -> Iterator[Communicator]:
    seen = {tuple(range(traffic.ranks))}
    largest_first = sorted(traffic.communicators, key=lambda c: (-len(c.ranks), c.id))
    for communicator in largest_first:
        distinct = len(set(communicator.ranks)) == len(communicator.ranks)
        if len(communicator.ranks) >= MIN_RANKS and distinct and communicator.ranks not in seen:
            seen.add(communicator.ranks)
            yield communicator
        if len(seen) > _MAX_ORDERS:
            return


def _irregular(pairs: PairSet) -> Pattern:
    heavy = pairs.heaviest(0.5)
    partners = np.bincount(pairs.source, minlength=pairs.ranks)
    low, high = int(partners.min()), int(partners.max())
    each = f"{low}" if low == high else f"{low} to {high}"
    share = pairs.share(heavy.keys)
    where = f"{len(heavy)} of the " if len(heavy) < len(pairs) else ""
    words = (
        f"irregular: {percent(share)} of the bytes on {where}{len(pairs)} directed pairs that are"
        f" used; ranks send to {each} others"
    )
    return Pattern("irregular", words, heavy.keys, share)
