"""Cover every division of ranks into sets of devices: branch and bound over each rank's device.

A phase takes at least V / B for a group whose final set has the rate B, and a partly seated group
ends in some superset of its devices, of which the fastest bounds it (B does not grow with the set).
Where a link cuts the machine in two, every group that has to be on both sides brings its V over
that link, each way: what the groups of a phase bring together bounds it too.

Of placements that a symmetry of the machine or of the groups exchanges only the first in
lexicographic order is looked at. That one has on each rank the least device of all that a symmetry
of the machine, which keeps the devices before it, exchanges; and a rank that a symmetry of the
groups, which keeps the ranks before it, exchanges with a later one has the lesser device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation.network import NetworkArrays

if TYPE_CHECKING:
    from toposeat.evaluation.group_time import GroupModel, Members

Seconds = dict[str, float]  # by label of a phase
Floats = NDArray[np.float64]
Masks = NDArray[np.int64]

MOST_DEVICES = 16  # tables have an entry for each set of devices
_MOST_SETS = 2500  # of one size, whose rates are searched; of more the cuts alone are a bound
_LOOKS_A_SECOND = 20_000
_SAME = 1e-9  # times that differ by a smaller share are the same


class Looks:
    """How much a search looks at: as much as seconds stand for, so that load changes no answer.

    Seconds that a user named also end it by the clock.
    """

    def __init__(self, budget_s: float, *, is_clocked: bool = False) -> None:
        """Give looks for a number of seconds."""
        self._left = int(budget_s * _LOOKS_A_SECOND)
        self._end = time.perf_counter() + budget_s if is_clocked else float("inf")

    def take(self, count: int) -> None:
        """Take as many as a search would that was made before."""
        self._left -= count

    def are_over(self) -> bool:
        """Take one; whether there was none left."""
        self._left -= 1
        return self._left < 0 or time.perf_counter() > self._end


class SetCover:
    """Seats ranks one after the other, each on every device that may lead to a better placement.

    Attributes:
        devices: that may be used; bit i of a mask stands for number i of these.
    """

    def __init__(
        self,
        model: GroupModel,
        allowed: Sequence[tuple[int, ...]],
        devices: Sequence[int],
        pairs_s: Seconds,
        looks: Looks,
    ) -> None:
        """Prepare the bounds.

        Args:
            model: of the groups.
            allowed: the devices that each rank may have.
            devices: all of these, `MOST_DEVICES` at most.
            pairs_s: what the messages between pairs take at least, by phase.
            looks: at placements and rates; those that are not searched are bounded.
        """
        self.devices = sorted(devices)
        self._model, self._allowed, self._looks = model, allowed, looks
        self._bit = {device: 1 << at for at, device in enumerate(self.devices)}
        self._all = (1 << len(self.devices)) - 1
        self._ranks = range(len(allowed))
        phases = model.phases
        groups = [(at, group) for at, phase in enumerate(phases) for group in phase.groups]
        self._of_rank = np.array(
            [[rank in group.ranks for _, group in groups] for rank in self._ranks], np.int64
        ).reshape(len(allowed), len(groups))
        self._bytes = np.array([group.bytes for _, group in groups], np.float64)
        self._size = np.array([len(group.ranks) for _, group in groups], np.int64)
        self._in_phase = np.array(
            [[at == phase for at, _ in groups] for phase in range(len(phases))], np.float64
        ).reshape(len(phases), len(groups))
        self._pairs_s = np.array([pairs_s.get(each.label, 0.0) for each in phases])
        self._sides, self._seconds = _cuts(model.machine.arrays, self.devices)
        self._count = _counts(len(self.devices))
        rings = {len(group.ranks) for _, group in groups if group.exchange.is_ring}
        sizes = sorted(rings)
        with np.errstate(divide="ignore"):  # seconds per byte
            self._pace = 1 / np.array([*map(self._fastest, sizes), np.full(self._all + 1, np.inf)])
        self._table = np.array(
            [
                sizes.index(len(group.ranks)) if group.exchange.is_ring else len(sizes)
                for _, group in groups
            ],
            np.int64,
        )
        if tuple(allowed) not in model.after:
            model.after[tuple(allowed)] = _after(model, allowed)
        self._after = model.after[tuple(allowed)]
        self._symmetry = _symmetry(model, allowed)
        self._first_of: dict[tuple[int, ...], list[int]] = {}

    def bound(self, placement: Sequence[int] = ()) -> float:
        """Seconds that the sum of the phases takes at least, with these devices for the ranks."""
        return float(self._bounds(placement, [0])[0])

    def _bounds(self, placement: Sequence[int], bits: Sequence[int]) -> Floats:
        """The bound with each of some devices (by bit, 0: none) for the next rank."""
        own, next_bit = [self._bit[device] for device in placement], np.array(bits, np.int64)
        masks = np.array(own, np.int64) @ self._of_rank[: len(own)]  # no device has two ranks
        if len(own) < len(self._of_rank):
            masks = masks | next_bit[:, None] * self._of_rank[len(own)]
        found: Floats = self._phases(np.atleast_2d(masks), self._all & ~sum(own) & ~next_bit).sum(
            axis=1
        )
        return found

    def run(self, best: float, offer: Callable[[tuple[int, ...]], float]) -> bool:
        """Look at all placements that may be better; False where the time was over before.

        Args:
            best: the sum to beat.
            offer: takes a whole placement, returns the sum to beat from then on.
        """
        self._best, self._offer = best, offer
        return self._extend(())

    def _phases(self, masks: Masks, free: Masks) -> Floats:
        """Least seconds of each phase: (cases, phases), of masks (cases, groups)."""
        alone = self._bytes * self._pace[self._table, masks]
        slowest = (self._in_phase * alone[:, None]).max(axis=2, initial=0.0)
        if len(self._sides):
            of_group = masks[:, :, None]
            left = self._size[:, None] - self._count[of_group]
            beyond, may_use = self._all & ~self._sides, free[:, None, None]
            may_be_here = ((of_group & beyond) == 0) & (left <= self._count[may_use & self._sides])
            may_be_beyond = ((of_group & self._sides) == 0) & (
                left <= self._count[may_use & beyond]
            )
            split = ~(may_be_here | may_be_beyond)
            over = (self._in_phase @ (split * self._bytes[:, None])) * self._seconds
            slowest = np.maximum(slowest, over.max(axis=2, initial=0.0))
        found: Floats = np.maximum(slowest, self._pairs_s)
        return found

    def _fastest(self, size: int) -> Floats:
        """By mask, the most that the rate of a superset of `size` devices can be."""
        known, key = self._model.machine.fastest, (size, tuple(self.devices))
        if key in known:
            self._looks.take(comb(len(self.devices), size))  # as if it were searched here
            return known[key]
        rate = np.full(self._all + 1, -np.inf)
        if comb(len(self.devices), size) > _MOST_SETS:
            return self._of_supersets(self._by_cuts(size))
        for own in combinations(self.devices, size):
            if self._looks.are_over():
                return self._of_supersets(self._by_cuts(size))
            rate[sum(self._bit[device] for device in own)] = self._model.machine.rates.bytes_per_s(
                own
            )
        return known.setdefault(key, self._of_supersets(rate))

    def _by_cuts(self, size: int) -> Floats:
        """By mask of `size` devices what its cuts and what leaves its devices allow."""
        masks = np.arange(self._all + 1)
        rate = np.full(self._all + 1, np.inf)
        for device in self.devices:
            own = (masks & self._bit[device]) != 0
            rate[own] = np.minimum(rate[own], self._model.machine.rates.leaving(device))
        for side, seconds in zip(self._sides.tolist(), self._seconds.tolist(), strict=True):
            split = ((masks & side) != 0) & ((masks & ~side) != 0)
            rate[split] = np.minimum(rate[split], 1 / seconds)
        rate[self._count != size] = -np.inf
        return rate

    def _of_supersets(self, rate: Floats) -> Floats:
        """By mask the most of all supersets, itself included."""
        for at in range(len(self.devices)):
            halves = rate.reshape(-1, 2, 1 << at)
            np.maximum(halves[:, 0], halves[:, 1], out=halves[:, 0])
        return rate

    def _extend(self, placement: tuple[int, ...]) -> bool:
        """Cover what is left; a bound that only equals the best cannot improve the sum."""
        rank = len(placement)
        if rank == len(self._allowed):
            self._best = self._offer(placement)
            return True
        least = max((placement[each] for each in self._after[rank]), default=-1)
        able = [d for d in self._first(placement) if d > least and d in self._allowed[rank]]
        bounds = self._bounds(placement, [self._bit[device] for device in able]) if able else ()
        for device, bound in zip(able, bounds, strict=True):
            if self._looks.are_over():
                return False
            if bound < self._best * (1 - _SAME) and not self._extend((*placement, device)):
                return False
        return True

    def _first(self, placement: tuple[int, ...]) -> list[int]:
        """The free devices but those that a symmetry exchanges with a lesser one."""
        taken = tuple(sorted(placement))
        if taken not in self._first_of:
            free = [device for device in self.devices if device not in placement]
            self._first_of[taken] = self._symmetry.representatives(taken, free)
        return self._first_of[taken]


def _counts(devices: int) -> Masks:
    """How many devices each mask has."""
    count = np.zeros(1, np.int64)
    for _ in range(devices):
        count = np.concatenate([count, count + 1])
    return count


def _cuts(arrays: NetworkArrays, devices: Sequence[int]) -> tuple[Masks, Floats]:
    """Masks of one side of each link that cuts the devices in two, and its seconds per byte.

    A byte passes both ways. A link at a single device is no cut here: rates hold it already.
    """
    n, count = arrays.devices, len(devices)
    place = np.full(n, -1)
    place[devices] = np.arange(count)
    source, target = place[arrays.use_pair // n], place[arrays.use_pair % n]
    own = (source >= 0) & (target >= 0)
    uses = np.zeros((len(arrays.capacity), count, count), np.bool_)
    uses[arrays.use_link[own], source[own], target[own]] = True
    beyond = uses[:, 0]
    sizes = beyond.sum(axis=1)
    cuts = (uses == (beyond[:, :, None] ^ beyond[:, None])).all(axis=(1, 2))
    both_ways = np.maximum(arrays.capacity[:, 0], arrays.capacity[:, 1])
    seconds = np.maximum(1 / both_ways, 2 / arrays.capacity[:, 2])
    fastest: dict[int, float] = {}
    for link in np.flatnonzero(cuts & (sizes >= 2) & (sizes <= count - 2)).tolist():
        side = sum(1 << at for at in np.flatnonzero(beyond[link]).tolist())
        fastest[side] = max(fastest.get(side, 0.0), float(seconds[link]))
    return np.array(list(fastest), np.int64), np.array(list(fastest.values()), np.float64)


def _symmetry(model: GroupModel, allowed: Sequence[tuple[int, ...]]) -> _core.Symmetry:
    """Of the machine with what each rank may have."""
    colours = np.array(model.machine.rates.path_classes, np.float64).reshape(
        model.machine.arrays.devices, -1
    )
    for number, devices in enumerate(dict.fromkeys(allowed), start=1):
        outside = np.ones(len(colours), np.bool_)
        outside[list(devices)] = False
        colours[np.diag_indices_from(colours)] += outside * 2.0 ** (8 + number)
    return _core.Symmetry(colours, model.machine.network)


def _after(model: GroupModel, allowed: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """For each rank those that have lesser devices, since a symmetry exchanges them with it."""
    ranks = len(allowed)
    kinds: dict[tuple[object, ...], int] = {}
    meet: list[list[list[object]]] = [[[] for _ in range(ranks)] for _ in range(ranks)]
    for phase in model.phases:
        for at, group in enumerate(phase.groups):
            own: tuple[object, ...] = phase.label, group.exchange, group.bytes
            if not _is_apart(group, phase.groups):
                own = (*own, at)
            for a in group.ranks:
                for b in group.ranks:
                    meet[a][b].append(own)
        if phase.pairs is not None:
            table = phase.pairs
            for row in zip(
                *(each.tolist() for each in (table.source, table.target, table.bytes)),
                table.messages.tolist(),
                strict=True,
            ):
                meet[row[0]][row[1]].append((phase.label, *row[2:]))
    for rank, devices in enumerate(allowed):
        meet[rank][rank].append(devices)
    colours = [[kinds.setdefault(tuple(own), len(kinds)) for own in row] for row in meet]
    symmetry = _core.Symmetry(np.array(colours, np.float64).reshape(ranks, ranks))
    after: list[list[int]] = [[] for _ in range(ranks)]
    for rank in range(ranks):
        for other in range(rank + 1, ranks):
            if len(symmetry.representatives(range(rank), [rank, other])) == 1:
                after[other].append(rank)
    return after


def _is_apart(group: Members, others: Sequence[Members]) -> bool:
    """Whether no rank is in another group of the same kind: then who meets tells the groups."""
    alike = [
        each for each in others if (each.exchange, each.bytes) == (group.exchange, group.bytes)
    ]
    return sum(len(set(each.ranks) & set(group.ranks)) for each in alike) == len(group.ranks)
