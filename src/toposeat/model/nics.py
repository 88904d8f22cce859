"""Which NIC the ranks of each device use: the nearest by route, evenly, never one that is no use.

1. NICs that are down, slower than their siblings, or of another network (storage, management) are
   left out (`nic_roles`).
2. Of the others a device wants those with the nearest path class, then the fewest links between
   sockets and devices on the way, then those of its own NUMA node, then the fastest. Switches on
   the way are what the path class says: they are not counted again.
3. Devices that want several NICs get one each such that loads are as even as can be. Devices with
   one wish thereby come first. Of the best assignments it is the one that gives the first devices
   the first NICs: machines of equal wiring get equal ones, so that a NIC's place among those of its
   host is its rail. Where only some devices are used, they keep their NIC of the whole machine as
   far as loads are then as even: a rail is the same on hosts of which a job uses more or less.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from toposeat.model.flow_rate import flow_rate
from toposeat.model.topology import Device, LinkKind, LinkLayer, Nic, PathClass, Route, Topology

NEARNESS: Mapping[PathClass, int] = {path: place for place, path in enumerate(PathClass)}


class NicChoice(Struct, frozen=True):
    """The NIC of each device by the device's id, and by NIC id why one is not used."""

    nic_of_device: Mapping[str, Nic]
    left_out: Mapping[str, LeftOut]


def choose_nics(topology: Topology, devices: Iterable[Device] | None = None) -> NicChoice:
    """One NIC for each device.

    Args:
        topology: the machine.
        devices: those that are used, which share the NICs evenly; default: all.

    Returns:
        The choice; devices without a known path to a NIC are not in it.
    """
    left_out = nics_left_out(topology)
    used = {device.id for device in (topology.devices if devices is None else devices)}
    by_host: dict[str, list[Nic]] = {}
    for nic in topology.nics:
        if nic.id not in left_out:
            by_host.setdefault(nic.host, []).append(nic)
    chosen: dict[str, Nic] = {}
    for host, nics in by_host.items():
        in_order = in_rail_order(nics)
        wishes = {
            device.id: wish
            for device in topology.devices
            if device.host == host and (wish := _nearest(topology, device, in_order))
        }
        rails = dict(zip(wishes, spread_evenly(list(wishes.values())), strict=True))
        if not used >= set(wishes):
            some = {
                device: sorted(wish, key=rails[device].__ne__)  # its own first
                for device, wish in wishes.items()
                if device in used
            }
            rails = dict(zip(some, spread_evenly(list(some.values())), strict=True))
        chosen.update((device, in_order[place]) for device, place in rails.items())
    return NicChoice(chosen, left_out)


def _nearest(topology: Topology, device: Device, nics: Sequence[Nic]) -> list[int]:
    """Places of the NICs that are equally near to a device, and nearer than all others."""
    routes = {
        place: route
        for place, nic in enumerate(nics)
        if (route := topology.route_of_pair.get((device.id, nic.id))) is not None
        and route.path_class is not PathClass.UNKNOWN
    }
    far = {
        place: (NEARNESS[route.path_class], _hops(topology, route), _is_apart(device, nics[place]))
        for place, route in routes.items()
    }
    best = min(far.values(), default=None)
    near = [place for place in routes if far[place] == best]
    rates = {place: _rate(topology, routes[place], nics[place]) for place in near}
    fastest = max((rate for rate in rates.values() if rate is not None), default=0.0)
    return [place for place in near if (rates[place] or fastest) >= SAME_RATE * fastest]


def _hops(topology: Topology, route: Route) -> int:
    """Links between sockets and between devices on a route."""
    return sum(topology.link_of_id[id].kind is not LinkKind.PCIE for id in route.links)


def _is_apart(device: Device, nic: Nic) -> bool:
    """Whether both memory nodes are told, and differ."""
    return None not in (device.numa_node, nic.numa_node) and device.numa_node != nic.numa_node


def _rate(topology: Topology, route: Route, nic: Nic) -> float | None:
    """Bytes per second of a flow from the device into the network, as far as it is known."""
    way = flow_rate(topology, route)
    known = [rate.value for rate in (way, nic.bytes_per_s) if rate is not None]
    return min(known, default=None)


# ---- an even assignment


def spread_evenly(wishes: Sequence[Sequence[int]]) -> list[int]:
    """One of each list of wishes, such that loads are as even as can be.

    No assignment has a smaller sum of squared loads, hence none a smaller largest load. Of those
    that are equal it is the one in which the first gets what it wishes most, then the second. It is
    an optimal semi-matching (Harvey, Ladner, Lovász, Tamir, 2006): whoever is new goes where an
    alternating path leads to the least load.

    Raises:
        ValueError: an empty list.
    """
    at: list[int] = []
    load: Counter[int] = Counter()
    for wish in wishes:
        if not wish:
            raise ValueError("nothing to choose from")
        way = _reachable(wish, wishes, at, range(len(at)))
        least = min(way, key=lambda place: load[place])  # the first of them
        load[least] += 1
        at.append(_move_on(way, least, at, load))
    for mine, wish in enumerate(wishes):
        for better in wish[: wish.index(at[mine])]:
            way = _reachable([better], wishes, at, range(mine + 1, len(at)), load)
            if at[mine] in way:  # no load grows but where an equal one shrinks
                at[mine] = _move_on(way, at[mine], at, load)
                break
    return at


_Way = dict[int, tuple[int, int | None] | None]  # by place: the one before, and who moves from it


def _reachable(
    starts: Sequence[int],
    wishes: Sequence[Sequence[int]],
    at: Sequence[int],
    movable: range,
    load: Mapping[int, int] | None = None,
) -> _Way:
    """Places that one more at a start leads to when others move on, nearest first.

    With `load`, a place may also keep its one more where another, with one more already, gives it.
    """
    way: _Way = dict.fromkeys(starts)
    pending = deque(starts)
    while pending:
        here = pending.popleft()
        steps = [(there, who) for who in movable if at[who] == here for there in wishes[who]]
        fuller = [x for x in load or () if load is not None and load[x] == load[here] + 1]
        for there, who in [*steps, *((x, None) for x in fuller)]:
            if there not in way:
                way[there] = (here, who)
                pending.append(there)
    return way


def _move_on(way: _Way, end: int, at: list[int], load: Counter[int]) -> int:
    """Move everybody on the way one place on; the start of it, where there is room now."""
    while (step := way[end]) is not None:
        before, who = step
        if who is None:
            load[before] += 1
            load[end] -= 1
        else:
            at[who] = end
        end = before
    return end


SAME_RATE = 0.9  # of another rate: as fast, apart from rounding and protocol
_BESIDE = frozenset({PathClass.NVL, PathClass.C2C, PathClass.PIX, PathClass.PXB})
_EFA = ("rdmap", "efa")
_OTHER_USE = r"stor|mgmt|mgt|manage|admin|ipmi|bmc|usb"
_WORD = r"mlx\d|[a-z]{2,}"  # mlx4 and mlx5 are different adapters


class NicFault(StrEnum):
    """Why a NIC is left out."""

    DOWN = "down"
    SLOW = "slow"
    OTHER_NETWORK = "other network"


class LeftOut(Struct, frozen=True):
    """A NIC that no rank uses; `why` says it with numbers."""

    fault: NicFault
    why: str


def in_rail_order(nics: Iterable[Nic]) -> list[Nic]:
    """NICs of one host by name, numbers as numbers, else as listed."""
    return sorted(nics, key=lambda nic: [(int(n or 0), w) for n, w in _parts(nic.name)])


def _parts(name: str) -> list[tuple[str, str]]:
    return [(each, "") if each.isdigit() else ("", each) for each in re.split(r"(\d+)", name)]


def nics_left_out(topology: Topology) -> dict[str, LeftOut]:
    """NICs that are down, slower than their siblings or of another network, by id."""
    if not topology.nics:
        return {}
    ids = {nic.id for nic in topology.nics}
    beside = {r.target for r in topology.routes if r.target in ids and r.path_class in _BESIDE}
    by_host: dict[str, list[Nic]] = {}
    for nic in topology.nics:
        by_host.setdefault(nic.host, []).append(nic)
    found: dict[str, LeftOut] = {}
    for nics in by_host.values():
        found.update(_left_out_of_host(nics, beside))
    return found


def _left_out_of_host(nics: Sequence[Nic], beside: set[str]) -> Mapping[str, LeftOut]:
    found = {
        nic.id: LeftOut(NicFault.DOWN, "no port is active") for nic in nics if nic.active is False
    }
    for judge in (_no_efa, _of_other_network, _slow):
        left = [nic for nic in nics if nic.id not in found]
        near = [nic for nic in left if nic.id in beside]
        judged = {nic.id: why for nic in left if (why := judge(nic, near, left)) is not None}
        if len(judged) < len(left):
            found.update(judged)
    return found


def _no_efa(nic: Nic, _: Sequence[Nic], left: Sequence[Nic]) -> LeftOut | None:
    """Whether a NIC is of another kind in a cloud whose network is EFA, also beside a GPU.

    NVLink switches are controlled through ports of InfiniBand, which the driver lists as NICs.
    """
    efa = next((each for each in left if each.name.startswith(_EFA)), None)
    if efa is None or not nic.name or nic.name.startswith(_EFA):
        return None
    why = f"the network is EFA, {efa.name}; NVLink's controllers are listed so"
    return LeftOut(NicFault.OTHER_NETWORK, why)


def _of_other_network(nic: Nic, near: Sequence[Nic], left: Sequence[Nic]) -> LeftOut | None:
    """Whether a NIC that is not beside a GPU is for storage or management, by what is told."""
    if nic in near:
        return None
    layers = {each.link_layer for each in near or left} - {None}
    if not near and LinkLayer.INFINIBAND in layers:
        layers = {LinkLayer.INFINIBAND}
    kinds = {_kind(each) for each in near}
    why = ""
    if re.search(_OTHER_USE, nic.name, re.IGNORECASE):
        why = "its name says so"
    elif nic.link_layer is not None and layers and nic.link_layer not in layers:
        others = " and ".join(sorted(layer for layer in layers if layer))
        why = f"{nic.link_layer}, while {'those beside GPUs' if near else 'others'} are {others}"
    elif _kind(nic) and kinds and () not in kinds and _kind(nic) not in kinds:
        why = f"{near[0].name} is beside a GPU, and named otherwise"
    return LeftOut(NicFault.OTHER_NETWORK, why) if why else None


def _kind(nic: Nic) -> tuple[str, ...]:
    """The words of a NIC's name: mlx5_0 is (mlx5), mlx5_bond_0 is (mlx5, bond)."""
    return tuple(re.findall(_WORD, nic.name, re.IGNORECASE))


def _slow(nic: Nic, near: Sequence[Nic], left: Sequence[Nic]) -> LeftOut | None:
    """Whether a NIC is slower than those whose rate carries most in all; of equal ones the faster.

    A single faster NIC, as for storage, thus makes no sibling slow.
    """
    if nic.bytes_per_s is None:
        return None
    rates = [each.bytes_per_s.value for each in near or left if each.bytes_per_s is not None]
    carried = {rate: count * rate for rate, count in Counter(rates).items()}
    usual = max(carried, key=lambda rate: (carried[rate], rate), default=0.0)
    rate = nic.bytes_per_s.value
    if rate >= SAME_RATE * usual:
        return None
    return LeftOut(NicFault.SLOW, f"{rate / 1e9:.3g} GB/s, its siblings have {usual / 1e9:.3g}")
