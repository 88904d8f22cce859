"""Choose some of a machine's free devices: by the rate among them, then by what they leave."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

from toposeat.errors import ToposeatError, UsageError
from toposeat.mapping.left_whole import SetRates, without
from toposeat.model.device_set import DeviceSet
from toposeat.model.topology import Topology

_MOST_SETS = 4000  # looked at one by one; of more, those that grow from each device
_SAME = 1e-6  # rates that differ by a smaller share are the same
_SIZES = (2, 4)  # groups that the next jobs may want, in the order of their weight


def choose_devices(topology: Topology, count: int, free: Sequence[int] | None = None) -> DeviceSet:
    """Choose devices for a job of which only their number is known, as its all-reduce wants them.

    First counts the rate of a ring over the chosen devices, then how well the others divide into
    pairs, then into fours, then how fast the pairs within are, then low numbers.

    Args:
        topology: one node.
        count: of devices, at least 1.
        free: positions in `topology.devices`; None: all of them.
    """
    usable = free_devices(topology, count, free)
    rates = SetRates(topology)
    sets = _sets_of(usable, count, rates)
    return device_set(rates, usable, _leaves_most(_fastest(sets, rates), usable, rates), len(sets))


def choose_by_placements(
    topology: Topology,
    placed: Iterable[tuple[int, ...]],
    free: Sequence[int] | None = None,
) -> DeviceSet:
    """Of placements that are as good as each other the one that leaves most to other jobs.

    Args:
        topology: one node.
        placed: the device of each rank, at least one placement.
        free: as for `choose_devices`.
    """
    orders = list(placed)
    usable = free_devices(topology, len(orders[0]), free)
    rates = SetRates(topology)
    order_of = {tuple(sorted(order)): order for order in reversed(orders)}
    best = _leaves_most(sorted(order_of), usable, rates)
    return device_set(rates, usable, order_of[best], len(order_of))


def device_set(
    rates: SetRates, free: tuple[int, ...], devices: tuple[int, ...], tried: int
) -> DeviceSet:
    """A choice with what there is to say about it."""
    chosen = tuple(sorted(devices))
    lowest = free[: len(devices)]
    rest = without(free, chosen)
    low, high = rates.range_of(chosen)
    return DeviceSet(
        devices=devices,
        free=free,
        bytes_per_s=rates.of(chosen),
        low=low,
        high=high,
        lowest=lowest,
        lowest_bytes_per_s=rates.of(lowest),
        left=tuple(left for size in _SIZES if (left := rates.division(size, rest)).groups),
        sets_tried=tried,
        sets=math.comb(len(free), len(devices)),
    )


def free_devices(topology: Topology, count: int, free: Sequence[int] | None) -> tuple[int, ...]:
    """The positions of the free devices, checked and ascending."""
    present = range(len(topology.devices))
    usable = tuple(sorted(present if free is None else free))
    if len(topology.hosts) > 1:
        raise UsageError(
            f"{topology.name!r} has {len(topology.hosts)} hosts",
            hint="choose on the topology of one node",
        )
    if len(set(usable)) < len(usable) or any(device not in present for device in usable):
        raise UsageError(
            "the free devices are not devices of the machine, each once",
            hint=f"it has devices 0 to {len(present) - 1}",
        )
    if count < 1:
        raise UsageError(f"{count} devices", hint="choose 1 or more")
    if count > len(usable):
        raise ToposeatError(
            f"{count} devices are asked for, {len(usable)} are free",
            hint="ask for fewer, or wait for other jobs to end",
        )
    return usable


def _sets_of(free: tuple[int, ...], count: int, rates: SetRates) -> list[tuple[int, ...]]:
    """Every set; of more than can be looked at, those that grow by the fastest next device."""
    if math.comb(len(free), count) <= _MOST_SETS:
        return list(combinations(free, count))
    found = {free[:count]: None}
    for first in free:
        grown: tuple[int, ...] = (first,)
        while len(grown) < count:
            ways = (tuple(sorted((*grown, other))) for other in free if other not in grown)
            grown = max(ways, key=rates.of)
        found[grown] = None
    return list(found)


def _fastest(sets: list[tuple[int, ...]], rates: SetRates) -> list[tuple[int, ...]]:
    best = max(map(rates.of, sets))
    return [each for each in sets if rates.of(each) >= best * (1 - _SAME)]


def _leaves_most(
    sets: list[tuple[int, ...]], free: tuple[int, ...], rates: SetRates
) -> tuple[int, ...]:
    """The set whose rest divides best, also when the busy devices are free; the first of equals."""
    for size in _SIZES:
        worth = {each: rates.division(size, without(free, each)).bytes_per_s for each in sets}
        most = max(worth.values())
        sets = [each for each in sets if worth[each] >= most * (1 - _SAME)]
    if len(sets) > 1:  # the more fast pairs are within, the fewer are cut
        within = {each: sum(map(rates.of, combinations(each, 2))) for each in sets}
        most = max(within.values())
        sets = [each for each in sets if within[each] >= most * (1 - _SAME)]
    return sets[0]
