"""Among placements as good, the one whose ranks begin on the first host and whose hosts keep order.

Much reads the order of hosts beside the placement: MASTER_ADDR of the usual recipes is the first
host of the job's list, and files and logs are named by rank. A placement that renumbers equal hosts
gains nothing and breaks these (`launch/order_readers.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from toposeat.mapping.decision import Evaluating
    from toposeat.mapping.host_groups import Uplinks
    from toposeat.mapping.shapes import Shape

WORTH = 1e-3  # share of the value below which another order of hosts is not worth it
_MOST_TRIED = 64  # orders of hosts that are evaluated
_FEW_RANKS = 1024  # of larger jobs fewer: each takes tens of milliseconds
_MOST_TRIED_OF_MANY = 12

_Numbers = NDArray[np.int64]
Stages = Sequence[Sequence["Uplinks"]]


def in_host_order(
    device_of_rank: Sequence[int],
    host_of_device: Sequence[int],
    evaluator: Evaluating,
    objective: str,
    shape: Shape | None,
    *,
    worth: float = WORTH,
) -> tuple[int, ...]:
    """The placement with its hosts in order, as far as that costs nothing.

    Whole hosts change places, and groups of hosts with each other: what a host's ranks have inside
    it stays.

    Args:
        device_of_rank: the placement; numbers of devices.
        host_of_device: the host of each device.
        evaluator: a placement is as good as another if neither the objective nor one end of the
            range of phases is larger by more than `worth`, as share.
        objective: that was asked for.
        shape: of equal hosts, which tells those that are near each other. Hosts of one domain stay
            in one; what that gains is not all compared.
        worth: 1e-9 where the placement was proved to be the best.
    """
    host_of = np.asarray(host_of_device, np.int64)
    row = np.asarray(device_of_rank, np.int64)
    hosts = int(host_of.max(initial=-1)) + 1
    used = _appearance(host_of[row])
    if hosts < 2 or (used == np.arange(len(used))).all():
        return tuple(device_of_rank)
    stages: Stages = () if shape is None else shape.host_groups().stages
    moving = _Moving(row, host_of, hosts, () if shape is None else shape.domain_of_host)

    def values(devices: Sequence[int]) -> tuple[float, ...]:
        found = evaluator.evaluate(devices)
        return (found.value(objective), found.predicted_s, found.low_s)

    limit = [value * (1 + worth) for value in values(device_of_rank)]
    left = _MOST_TRIED if len(row) <= _FEW_RANKS else _MOST_TRIED_OF_MANY

    def is_as_good(order: _Numbers) -> bool:
        nonlocal left
        if left == 0 or not moving.fits(order):
            return False
        left -= 1
        found = values(moving.row(order))
        return all(value <= most for value, most in zip(found, limit, strict=True))

    taken = np.arange(hosts)
    whole = (np.arange(len(used)), np.sort(used))
    for order in (_filled(used, wanted, hosts) for wanted in whole):
        if is_as_good(order):
            return tuple(moving.row(order))
    places = range(len(used) if not stages else 1)  # in groups, rank 0 and then what is in each
    for place in places:
        now, settled = int(taken[used[place]]), used[:place]
        for order in _swaps(taken, now, place, stages) if now != place else ():
            if (order[settled] == taken[settled]).all() and is_as_good(order):
                taken = order
                break
    order = _within_groups(taken[used], hosts, stages)[taken]
    if (order != taken).any() and is_as_good(order):
        taken = order
    return tuple(moving.row(taken))


def _appearance(hosts: _Numbers) -> _Numbers:
    """Hosts in the order of their lowest ranks."""
    _, first = np.unique(hosts, return_index=True)
    return hosts[np.sort(first)]


class _Moving:
    """Moves the ranks of hosts onto other hosts with as many devices."""

    def __init__(
        self, row: _Numbers, host_of: _Numbers, hosts: int, domain_of_host: Sequence[int]
    ) -> None:
        self._domain = np.asarray(domain_of_host or range(hosts), np.int64)
        self._devices = np.argsort(host_of, kind="stable")
        self._counts = np.bincount(host_of, minlength=hosts)
        self._first = np.concatenate([[0], np.cumsum(self._counts)[:-1]])
        place = np.empty_like(self._devices)
        place[self._devices] = np.arange(len(host_of))
        self._host = host_of[row]
        self._inside = place[row] - self._first[self._host]

    def fits(self, order: _Numbers) -> bool:
        """Whether each host h in use becomes a host `order[h]` like it, domains whole."""
        if (self._counts[order[self._host]] != self._counts[self._host]).any():
            return False
        before, after = self._domain[self._host], self._domain[order[self._host]]
        pairs = {*zip(before.tolist(), after.tolist(), strict=True)}
        return len(pairs) == len(set(before.tolist())) == len(set(after.tolist()))

    def row(self, order: _Numbers) -> list[int]:
        """The devices of ranks where host h becomes `order[h]`."""
        moved: list[int] = self._devices[self._first[order[self._host]] + self._inside].tolist()
        return moved


def _within_groups(used: _Numbers, hosts: int, stages: Stages) -> _Numbers:
    """Hosts of each of the smallest groups in order, all at once."""
    rank = np.full(hosts, hosts)
    rank[used] = np.arange(len(used))
    order = np.arange(hosts)
    for group in stages[0] if stages else ():
        own = np.sort(np.asarray(group.hosts, np.int64))
        order[own[np.argsort(rank[own], kind="stable")]] = own
    return order


def _filled(used: _Numbers, wanted: _Numbers, hosts: int) -> _Numbers:
    """A permutation that takes `used` to `wanted`, and the rest, in order, to the rest."""
    order = np.empty(hosts, np.int64)
    order[used] = wanted
    everywhere = np.arange(hosts)
    order[np.setdiff1d(everywhere, used)] = np.setdiff1d(everywhere, wanted)
    return order


def _swaps(taken: _Numbers, now: int, place: int, stages: Stages) -> Iterator[_Numbers]:
    """Orders that bring what is on host `now` to `place`.

    The two hosts change places where they are in one of the smallest groups, else their groups do,
    so that what was kept together stays together.
    """
    hosts = np.arange(len(taken))
    for stage in stages:
        own, other = (
            next((np.sort(np.asarray(g.hosts, np.int64)) for g in stage if host in g.hosts), None)
            for host in (now, place)
        )
        if own is None or other is None or len(own) != len(other):
            continue
        if own[0] == other[0]:
            break
        swap = hosts.copy()
        swap[own], swap[other] = other, own
        yield _swapped(hosts, int(swap[now]), place)[swap[taken]]
        if stage is stages[-1]:
            return
    yield _swapped(hosts, now, place)[taken]


def _swapped(hosts: _Numbers, one: int, other: int) -> _Numbers:
    order = hosts.copy()
    order[one], order[other] = other, one
    return order
