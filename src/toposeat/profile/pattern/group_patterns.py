"""Patterns of groups: all-to-all inside groups, and the process groups of a learning job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toposeat.model.traffic import Communicator, Int64Array
from toposeat.profile.pattern.pair_set import (
    MIN_SHARE,
    PairSet,
    Pattern,
    both_ways,
    percent,
)


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


@dataclass(frozen=True, slots=True)
class _Family:
    """Communicators of one size that share out all ranks."""

    members: tuple[tuple[int, ...], ...]
    label: Int64Array  # number of each rank's communicator


def find_process_groups(
    pairs: PairSet, collective: PairSet, communicators: Sequence[Communicator]
) -> Pattern | None:
    """The groups of a machine learning job: tensor, data and pipeline parallel, by their place.

    Args:
        pairs: all pairs.
        collective: those with the bytes of collectives only, which must be most.
        communicators: as recorded.
    """
    if 2 * collective.total < pairs.total:
        return None
    by_collectives = collective.bytes_of(pairs.keys) * 2 > pairs.bytes
    families = _families(communicators, pairs.ranks)
    taken = np.zeros(len(pairs), bool)
    parts, keys = [], []
    for family in families:  # small groups first: what is in several belongs to the smallest
        inside = family.label[pairs.source] == family.label[pairs.target]
        inside &= by_collectives & ~taken
        if inside.any():
            groups = [np.array(sorted(members)) for members in family.members]
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


def _families(communicators: Sequence[Communicator], ranks: int) -> list[_Family]:
    by_size: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for communicator in communicators:
        if 1 < len(communicator.ranks) <= ranks:
            by_size[len(communicator.ranks)].add(tuple(sorted(communicator.ranks)))
    found = []
    for _, groups in sorted(by_size.items()):
        found += _partitions(sorted(groups), ranks)
    return found


def _partitions(groups: Sequence[tuple[int, ...]], ranks: int) -> list[_Family]:
    """Families among groups of one size: the same distance between members goes together."""
    by_step: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for group in groups:
        by_step[group[1] - group[0]].append(group)
    found = []
    for same in by_step.values():
        label = np.full(ranks, -1, np.int64)
        for number, group in enumerate(same):
            label[list(group)] = number
        if sum(map(len, same)) == ranks and (label >= 0).all():
            found.append(_Family(tuple(same), label))
    return found


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
    first = np.arange(n - step, dtype=np.int64)
    if not pairs.all_used(both_ways(first, first + step, n)):
        return None
    return n // step, rest & (distance == step)
