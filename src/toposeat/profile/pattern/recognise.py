"""Which regular pattern a traffic has, as one sentence for the report.

A pattern is claimed only of pairs that are all used and that carry at least 95 % of the bytes
(`PairSet.claim`); what fits none is called irregular, with figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from toposeat.model.traffic import Communicator, Traffic, TrafficKind
from toposeat.profile.pattern.grid_patterns import find_halo
from toposeat.profile.pattern.group_patterns import find_groups, find_process_groups
from toposeat.profile.pattern.line_patterns import (
    find_all_to_all,
    find_directed_line,
    find_star,
)
from toposeat.profile.pattern.pair_set import PairSet, Pattern, percent

MIN_RANKS = 3
MAX_PAIRS = 1 << 23  # with more, it takes longer than a sentence is worth
_MAX_ORDERS = 8  # communicators whose order is tried

# The first that fits is the answer: the most specific patterns come first.
_FINDERS: tuple[Callable[[PairSet], Pattern | None], ...] = (
    find_directed_line,
    find_star,
    find_all_to_all,
    find_halo,
    find_groups,
)


def recognise(traffic: Traffic) -> Pattern | None:
    """The pattern of the traffic that is mapped; None for too few ranks or pairs.

    Known are halo exchanges on grids of up to six dimensions, open or periodic in each, with or
    without diagonals, in rank order or in the order of a communicator; rings, pipelines; one rank
    with all others; all-to-all among all ranks and in groups; the process groups of a machine
    learning job.
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


def describe_pattern(traffic: Traffic) -> str:
    """One sentence on the traffic that is mapped, or "" if no pattern is looked for."""
    found = recognise(traffic)
    return found.words if found else ""


def with_pattern(traffic: Traffic) -> Traffic:
    """The same traffic with what was recognised in its metadata, for the reports."""
    words = describe_pattern(traffic)
    return replace(traffic, metadata={**traffic.metadata, "pattern": words}) if words else traffic


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
