"""Expand recorded collectives into rank-pair traffic by stated algorithm models.

A record says that a rank took part in a collective, with how many bytes, not which messages the
MPI library made of it. The models (`toposeat.profile.algorithms`) follow the selection rules of the
MPI that ran, where they are known; they are *models*, named in `Traffic.collective_model` and in
each event. Operations whose edges MPI itself fixes (alltoallv, alltoallw, scatterv, neighbour
collectives) were counted exactly by the interposer and are not expanded again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from toposeat.model.pair_table import EXACT, Messages, PairSum
from toposeat.model.record import Record
from toposeat.model.traffic import (
    CollectiveEvent,
    Communicator,
    Int64Array,
    MemorySpace,
    PairTable,
    Traffic,
)
from toposeat.profile.algorithms import Algorithm, Call
from toposeat.profile.algorithms.rules import Chooser, choose, choose_textbook

MAX_PAIRS = 1 << 20  # of all communicators: beyond, operations of all pairs stay events

_MOST_BYTES = 2.0**56  # of all calls of one shape; beyond, some record is damaged
_ALL_PAIRS = frozenset({"direct"})  # algorithms with a message for every pair
_VECTOR = frozenset({"allgatherv", "gatherv"})  # members' blocks differ
_ROOTED = frozenset({"bcast", "reduce", "gather", "gatherv", "scatter"})
_OPEN_MPI = re.compile(r"Open MPI v(4\.1|5\.)")


class Rules(Record, frozen=True):
    """How one MPI chooses algorithms, and how the report calls it."""

    name: str
    choose: Chooser


OPEN_MPI = Rules("Open MPI 4.1 and 5 (coll/tuned, fixed rules)", choose)
GENERAL = Rules("textbook algorithms, since this MPI's own rules are not known", choose_textbook)


def rules_of(library: str) -> Rules:
    """The rules of an MPI, by what MPI_Get_library_version says."""
    return OPEN_MPI if _OPEN_MPI.search(library) else GENERAL


class Expansion(Record, frozen=True, kw_only=True):
    """The events as modelled messages."""

    tables: Mapping[MemorySpace, PairTable]
    events: tuple[CollectiveEvent, ...]  # with `algorithm` filled in
    model: str  # one sentence: whose rules, and which algorithm for which operation
    report: tuple[str, ...]
    all_pairs: int = 0  # how much of `most_pairs` was needed
    left_out: bool = False  # whether that was too little


def expand_collectives(
    events: Iterable[CollectiveEvent],
    communicators: Sequence[Communicator],
    rules: Rules = GENERAL,
    most_pairs: int = MAX_PAIRS,
) -> Expansion:
    """Model the messages of all events.

    Args:
        events: per rank, as recorded; bytes are one call's contribution (`CollectiveEvent`).
        communicators: looked up by their `id`; events on others are left out.
        rules: who chooses the algorithms.
        most_pairs: of all communicators with operations of all pairs.

    Returns:
        Directed pairs by memory space of the sender's contribution, and more. A rank whose record
        is missing sends nothing in the model, though others send to it.
    """
    listed = list(events)
    members_of = {c.id: c.ranks for c in communicators}
    sums: dict[MemorySpace, PairSum] = defaultdict(PairSum)
    names: dict[int, str] = {}  # algorithm by the event's place in `listed`
    budget = _Budget(most_pairs)
    impossible: set[str] = set()
    for places in _calls(listed, members_of):
        views = [listed[p] for p in places]
        members = members_of[views[0].communicator]
        call = _call(views, members)
        chosen = rules.choose(views[0].operation, call)
        if chosen is None or (chosen[0] in _ALL_PAIRS and not budget.allows(views, call)):
            continue
        if not _add(sums, chosen[1], call, views, members):
            impossible.add(views[0].operation)
            continue
        names.update(dict.fromkeys(places, chosen[0]))
    named = tuple(
        replace(event, algorithm=names[p]) if p in names else event
        for p, event in enumerate(listed)
    )
    return Expansion(
        tables={space: each.table() for space, each in sums.items()},
        events=named,
        model=model_words(rules, named),
        report=(
            *budget.sentences(),
            *(f"{op}: more bytes than any traffic, not in the tables" for op in sorted(impossible)),
        ),
        all_pairs=budget.used,
        left_out=budget.exceeded,
    )


# After each message of these every rank waits for one: the rounds of a rank follow one another.
_IN_ROUNDS = frozenset(
    {
        *("recursive_doubling", "ring", "bruck", "rabenseifner"),
        *("halving", "butterfly", "neighbor", "dissemination"),
    }
)


def rounds_of(
    events: Iterable[CollectiveEvent],
    communicators: Iterable[Communicator],
    rules: Rules,
) -> dict[MemorySpace, PairTable]:
    """The messages of events that are rounds, of those whose `algorithm` these rules chose.

    Trees, chains and messages to all have none: their sender goes on at once.
    """
    by_name: dict[str, list[CollectiveEvent]] = defaultdict(list)
    for event in events:
        by_name[event.algorithm].append(event)
    members_of = {c.id: c.ranks for c in communicators}
    sums: dict[MemorySpace, PairSum] = defaultdict(PairSum)
    for name in _IN_ROUNDS & by_name.keys():
        for places in _calls(by_name[name], members_of):
            views = [by_name[name][p] for p in places]
            members = members_of[views[0].communicator]
            call = _call(views, members)
            chosen = rules.choose(views[0].operation, call)
            if chosen is not None and chosen[0] == name:
                _add(sums, chosen[1], call, views, members)
    return {space: each.table() for space, each in sums.items()}


def with_rounds(traffic: Traffic) -> Traffic:
    """A traffic with the rounds that its events tell."""
    rules = rules_of(traffic.metadata.get("mpi", ""))
    return replace(traffic, rounds=rounds_of(traffic.collectives, traffic.communicators, rules))


class _Budget:
    """Bounds the memory that operations of all pairs take: 16384 ranks have 268 million pairs."""

    def __init__(self, most_pairs: int) -> None:
        self._most = most_pairs
        self._pairs: dict[int, int] = {}  # by communicator
        self._skipped: dict[tuple[str, int], int] = defaultdict(int)

    @property
    def used(self) -> int:
        """Pairs of all communicators that there was room for."""
        return sum(self._pairs.values())

    @property
    def exceeded(self) -> bool:
        """Whether something was left out."""
        return bool(self._skipped)

    def allows(self, views: Sequence[CollectiveEvent], call: Call) -> bool:
        """Whether there is room for the pairs of this call's communicator."""
        communicator, pairs = views[0].communicator, call.members * (call.members - 1)
        if communicator in self._pairs:
            return True
        if self.used + pairs <= self._most:
            self._pairs[communicator] = pairs
            return True
        size = sum(view.bytes * view.calls for view in views) * (call.members - 1)
        self._skipped[views[0].operation, call.members] += size
        return False

    def sentences(self) -> Iterator[str]:
        """One sentence for each operation and size that was left out."""
        for (operation, members), size in sorted(self._skipped.items()):
            yield (
                f"{operation} among {members} ranks ({size} bytes) is listed, but not in the"
                f" tables: {members * (members - 1)} pairs, all with the same bytes"
            )


def _calls(
    events: Sequence[CollectiveEvent], members_of: Mapping[int, tuple[int, ...]]
) -> Iterator[list[int]]:
    """Places of the events that are views of the same calls: one shape, seen by several ranks."""
    groups: dict[tuple[int, str, int, int, int], list[int]] = defaultdict(list)
    inside = {number: frozenset(ranks) for number, ranks in members_of.items() if len(ranks) > 1}
    for place, event in enumerate(events):
        if event.operation in EXACT or event.rank not in inside.get(event.communicator, ()):
            continue
        size = -1 if event.operation in _VECTOR else event.bytes
        root = event.root if event.operation in _ROOTED else -1
        key = (event.communicator, event.operation, root, size, event.element)
        groups[key].append(place)
    yield from groups.values()


def _call(views: Sequence[CollectiveEvent], members: tuple[int, ...]) -> Call:
    """One call, or for the vector forms the mean of all calls."""
    first = views[0]
    root = members.index(first.root) if first.root in members else 0
    if first.operation not in _VECTOR:
        size, told = first.bytes, first.element
        element = told if told and size % told == 0 else _element(size)
        return Call(members=len(members), root=root, size=size, element=element)
    position_of = {rank: position for position, rank in enumerate(members)}
    total = np.zeros(len(members), dtype=np.int64)
    calls = np.zeros(len(members), dtype=np.int64)
    for view in views:
        total[position_of[view.rank]] += view.bytes * view.calls
        calls[position_of[view.rank]] += view.calls
    return Call(members=len(members), root=root, blocks=total // np.maximum(calls, 1))


def _element(size: int) -> int:
    """Bytes of one element: a guess where the record does not say."""
    return next(width for width in (8, 4, 2, 1) if size % width == 0)


def _add(
    sums: Mapping[MemorySpace, PairSum],
    algorithm: Algorithm,
    call: Call,
    views: Sequence[CollectiveEvent],
    members: tuple[int, ...],
) -> bool:
    """The messages of one call, as often as their sender made it, from where its buffer was.

    False, and nothing is added, if their bytes are beyond any traffic: some record is damaged.
    """
    out = Messages()
    algorithm(call, out)
    times = _times(views, members)
    total = sum(
        float((size.astype(np.float64) * calls[source]).sum())
        for source, _, size, _ in out.rounds()
        for calls in times.values()
    )
    if total >= _MOST_BYTES:
        return False
    ranks = np.asarray(members, dtype=np.int64)
    for source, target, size, count in out.rounds():  # one by one: together they may be many
        for space, calls in times.items():
            often = calls[source]
            rows = np.stack([ranks[source], ranks[target], size * often, count * often])
            sums[space].add(*rows[:, often > 0])
    return True


def _times(
    views: Sequence[CollectiveEvent], members: tuple[int, ...]
) -> dict[MemorySpace, Int64Array]:
    """How often each member made the call, by the memory of its buffer."""
    position_of = {rank: position for position, rank in enumerate(members)}
    times: dict[MemorySpace, Int64Array] = {}
    for view in views:
        calls = times.setdefault(view.space, np.zeros(len(members), dtype=np.int64))
        calls[position_of[view.rank]] += view.calls
    return times


def model_words(rules: Rules, events: Iterable[CollectiveEvent]) -> str:
    """The rules and the algorithm of each operation; "" where nothing is modelled."""
    used: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.algorithm:
            used[event.operation].add(event.algorithm)
    if not used:
        return ""
    listed = "; ".join(f"{op}: {', '.join(sorted(used[op]))}" for op in sorted(used))
    return f"{rules.name}: {listed}"
