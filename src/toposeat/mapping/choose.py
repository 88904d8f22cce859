"""Choose some of a machine's free devices: by the rate among them, then by what they leave."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from toposeat.errors import ToposeatError, UsageError
from toposeat.evaluation import Evaluator
from toposeat.evaluation.scenarios import OpenMachine, Row, Scenarios
from toposeat.mapping.decision import premises_of, taken
from toposeat.mapping.left_whole import SetRates, without
from toposeat.model.device_set import DeviceSet, products_in
from toposeat.model.map_options import MIN_GAIN
from toposeat.model.topology import PathClass, Topology
from toposeat.model.traffic import Communicator, Exchange, GroupLoad, Traffic

_MOST_SETS = 4000  # looked at one by one; of more, those that grow from each device
_MOST_COMPARED = 48  # in all scenarios: the fastest nominally, and the fastest of each scenario
_MOST_LOOKS = 20_000  # sets times scenarios that are searched for the fastest
_SAME = 1e-6  # rates that differ by a smaller share are the same
_SIZES = (2, 4)  # groups that the next jobs may want, in the order of their weight
_MIXED = 0.1  # share by which a set of several products has to be faster than one of one product
_BYTES = 1 << 30  # of the all-reduce that a set is chosen for


def choose_devices(
    topology: Topology,
    count: int,
    free: Sequence[int] | None = None,
    *,
    machine: OpenMachine | None = None,
) -> DeviceSet:
    """Choose devices for a job of which only their number is known, as its all-reduce wants them.

    The rule (`decision.taken`) decides by the time of a ring over the chosen devices; the lowest
    free numbers are its yardstick. Of equals count one product, one memory node and one switch,
    then how well the others divide into pairs, then into fours, then how fast the pairs within are,
    then low numbers.

    Args:
        topology: one node.
        count: of devices, at least 1.
        free: positions in `topology.devices`; None: all of them.
        machine: the same node with what its sources leave open; None: nothing.
    """
    machine = machine or OpenMachine(topology)
    usable = free_devices(topology, count, free)
    rates = SetRates(topology, machine.nominal.rates)
    sets = _sets_of(usable, count, rates)
    able = _able(sets, usable[:count], machine, rates)
    pool = [*dict.fromkeys((usable[:count], *able[:_MOST_COMPARED]))]
    traffic = _all_reduce(count)
    scenarios = Scenarios(Evaluator(topology, traffic, machine=machine.nominal), machine, pool)
    if count > 1 and len(able) > _MOST_COMPARED:
        drawn = {id(each.machine): each.machine for each in scenarios.scenarios if each.machine}
        of_each = [each.rates for each in drawn.values()][: _MOST_LOOKS // len(able)]
        best = (max(able, key=each.bytes_per_s) for each in of_each)
        pool = [*dict.fromkeys((*pool, *best))]
    outlook = scenarios.outlook(pool)
    left = {row: key for key, row in enumerate(_by_what_is_left(pool, usable, rates))}
    at = taken(
        outlook,
        MIN_GAIN,
        lambda each: (*_spread(pool[each], machine), left[pool[each]]),
        is_yardstick=True,
    )
    premises = premises_of(outlook, at, machine, MIN_GAIN)
    found = device_set(rates, usable, pool[at], len(sets), outlook.everywhere[:, at].tolist())
    middle, lowest = (machine.set_rate(each) for each in (found.devices, found.lowest))
    return replace(
        found,
        bytes_per_s=middle,
        lowest_bytes_per_s=lowest,
        left=tuple(
            replace(each, bytes_per_s=middle, is_between=not math.isclose(middle, each.bytes_per_s))
            for each in found.left
            for middle in [sum(map(machine.set_rate, each.groups))]
        ),
        premises=premises,
        lowest_range=_ends(found.lowest_bytes_per_s, outlook.everywhere[:, 0].tolist()),
    )


def choose_by_placements(
    topology: Topology,
    placed: Iterable[Row],
    free: Sequence[int] | None = None,
    *,
    machine: OpenMachine | None = None,
) -> DeviceSet:
    """Of placements that are as good as each other the nearest devices, then what leaves most.

    Args:
        topology: one node.
        placed: the device of each rank, at least one placement.
        free: as for `choose_devices`.
        machine: as for `choose_devices`.
    """
    machine = machine or OpenMachine(topology)
    orders = list(placed)
    usable = free_devices(topology, len(orders[0]), free)
    rates = SetRates(topology, machine.nominal.rates)
    order_of = {tuple(sorted(order)): order for order in sorted(orders, reverse=True)}
    ordered = _by_what_is_left(sorted(order_of), usable, rates)
    best = min(ordered, key=lambda each: _spread(each, machine))
    return device_set(rates, usable, order_of[best], len(order_of))


def device_set(
    rates: SetRates,
    free: Row,
    devices: Row,
    tried: int,
    times: Sequence[float] = (1.0,),
) -> DeviceSet:
    """A choice with what there is to say about it; `times` are nominal, then in each scenario."""
    chosen = tuple(sorted(devices))
    lowest = free[: len(devices)]
    rest = without(free, chosen)
    rate = rates.of(chosen)
    low, high = _ends(rate, times)
    return DeviceSet(
        devices=devices,
        free=free,
        bytes_per_s=rate,
        low=low,
        high=high,
        lowest=lowest,
        lowest_bytes_per_s=rates.of(lowest),
        left=tuple(left for size in _SIZES if (left := rates.division(size, rest)).groups),
        sets_tried=tried,
        sets=math.comb(len(free), len(devices)),
    )


def _ends(rate: float, times: Sequence[float]) -> tuple[float, float]:
    """The least and the most of a nominal rate, by its times in each scenario."""
    scaled = [rate * times[0] / each if each else rate for each in times]
    return min(scaled), max(scaled)


def _all_reduce(ranks: int) -> Traffic:
    """One all-reduce of a library that orders the ranks itself."""
    group = Communicator(id=0, ranks=tuple(range(ranks)))
    load = GroupLoad(
        communicator=0, library="nccl", exchange=Exchange.RING, bytes=_BYTES, messages=1
    )
    return Traffic(
        ranks=ranks, origin="all-reduce", tables={}, communicators=(group,), groups=(load,)
    )


def _able(sets: Sequence[Row], lowest: Row, machine: OpenMachine, rates: SetRates) -> list[Row]:
    """The sets that are nominally no slower than the lowest free numbers, the fastest first.

    Sets of one product are preferred, unless one of several is a tenth faster nominally.
    """
    yardstick = rates.of(lowest) * (1 - _SAME)
    able = [each for each in sets if rates.of(each) >= yardstick]
    is_pure = {each: len({machine.kinds[at] for at in each}) == 1 for each in able}
    pure, mixed = ([e for e in able if is_pure[e] is wanted] for wanted in (True, False))
    if pure and mixed:  # by what decides how fast they are: products of one kind may differ yet
        best = max(map(rates.of, mixed)) > max(map(rates.of, pure)) * (1 + _MIXED)
        able = mixed if best else pure
    return sorted(able, key=lambda each: (-rates.of(each), _spread(each, machine), each))


def _spread(devices: Row, machine: OpenMachine) -> tuple[int, int, int]:
    """How many products and memory nodes a set has, and how far apart its devices are by PCIe."""
    topology = machine.nominal.topology
    own = [topology.devices[each] for each in devices]
    ways = (topology.route_of_pair.get((a.id, b.id)) for a, b in combinations(own, 2))
    classes = [*PathClass]
    farthest = max((classes.index(way.path_class) for way in ways if way), default=0)
    products = len(products_in(topology, devices))
    return products, len({each.numa_node for each in own}), farthest


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


def _by_what_is_left(sets: Sequence[Row], free: Row, rates: SetRates) -> list[Row]:
    """Sets by how well the rest divides into pairs and fours; then the fastest pairs within."""

    def worth(each: Row) -> tuple[float, ...]:
        rest = without(free, each)
        left = [rates.division(size, rest).bytes_per_s for size in _SIZES]
        within = sum(map(rates.of, combinations(each, 2)))
        return tuple(-float(f"{value:.6g}") for value in (*left, within))

    return sorted(sets, key=lambda each: (worth(each), each))
