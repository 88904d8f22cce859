"""The rate of a collective group as a function of its set of devices.

NCCL and RCCL look for rings over the members of a communicator on one node; the order of the ranks
plays no part. `core/include/toposeat/groups/ring_rate.hpp` has the equations and the search.
A group sees the machine without the other devices: two members that no direct link joins go through
one member that has a link to both (NCCL's NVB), else by the machine's route. All rings that go from
one member to another share what a flow of the two reaches, and so do all that leave a member
through host memory, and all that go from one socket to another over PCIe. A link carries for rings
what NCCL's kernels reach of it (`nccl_speeds.Kernels`). Rings do not go through a device
outside of the group. Where that leaves none, although the hardware forwards (MI250X), one ring of
forwarded hops is counted: how RCCL forms rings there is not recorded.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise, product
from math import isqrt

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from toposeat import _core
from toposeat.errors import UsageError
from toposeat.evaluation import nccl_speeds
from toposeat.evaluation.network import NetworkArrays, network_arrays
from toposeat.evaluation.route_numbers import device_routes, walk
from toposeat.model.group_rate import GroupRate
from toposeat.model.path_class import DEVICE_LINKS
from toposeat.model.processor import is_amd
from toposeat.model.route import PathClass
from toposeat.model.topology import MEASURED_PORTS, ComponentKind, Topology, Vendor
from toposeat.model.transport import NCCL_IS_SET

_CLASSES = {  # nearest first; a relay through a member (NVB) lies between NVL and C2C
    PathClass.NVL: 1,
    PathClass.C2C: 3,
    PathClass.PIX: 4,
    PathClass.PXB: 5,
    PathClass.PHB: 8,
    PathClass.NODE: 9,
    PathClass.SYS: 9,
    PathClass.UNKNOWN: 9,
}
_RELAYED, _NO_PATH = 2, 255
_PARTS = (1, 2, 3, 4, 6)  # of a capacity: rates of one ring that are tried
_MOST_RINGS, _STEPS = 24, 4000


def group_rate(topology: Topology, devices: Sequence[int], speeds: str = "exact") -> GroupRate:
    """The rate of a group of NCCL or RCCL on some devices of one node.

    Args:
        topology: one node.
        devices: positions in `topology.devices`, in any order.
        speeds: `exact` (capacities as the topology has them, any rate of a ring) or `nccl` (NCCL's
            own table of link speeds and rates, to compare with what it logs).
    """
    rates = GroupRates(topology, speeds)
    found = rates.of(tuple(devices))
    low, high = rates.range_of(found.devices)
    return replace(found, low=low, high=high)


class GroupRates:
    """The rates of the sets of devices of one node, each searched once."""

    def __init__(self, topology: Topology, speeds: str = "exact") -> None:
        """Compile a node; for `speeds` see `group_rate`."""
        if speeds not in ("exact", "nccl"):
            raise UsageError(f"unknown speeds {speeds!r}", hint="use exact or nccl")
        self._nccl = speeds == "nccl"
        self._topology = topology
        self._known: dict[tuple[int, ...], GroupRate] = {}
        self._alone: dict[tuple[int, ...], float] = {}  # of `bytes_per_s`
        # What was found for any numbers (`at`), of all sets that are wired alike.
        self._wired: dict[tuple[object, ...], _Wiring] = {}
        self._searched: dict[tuple[object, ...], _core.RingRate] = {}
        self._forwarded: set[tuple[int, ...]] = set()  # what needs devices outside of the group
        self._arrays = arrays = network_arrays(topology)
        self._kernels = nccl_speeds.Kernels(topology)
        self._end = 1  # of the intervals in `_kernels`
        self._reach = self._kernels.reach(arrays, self._end)
        self._ends: dict[frozenset[str], tuple[GroupRates, ...]] = {}  # of `range_of`
        self._staged = np.array([r is None or r.staged for r in device_routes(topology)])
        self._pairs: GroupRates | None = None  # of two devices, which NCCL never stages on AMD
        # What a variable of NCCL says holds for two as well.
        is_set = NCCL_IS_SET in topology.metadata
        self._is_amd = is_amd(topology) and not self._nccl and not is_set
        capacity, limits = arrays.capacity, arrays.pair_limits
        cap = arrays.ring * self._reach[1]
        self._generation = nccl_speeds.generation(topology)
        if self._nccl:
            capacity = nccl_speeds.capacities(topology)
            limits, cap = np.full(len(limits), np.inf), np.full(len(cap), np.inf)
        n = arrays.devices
        uses: list[list[int]] = [[] for _ in range(n * n)]
        is_bound = np.isfinite(capacity).ravel().tolist()
        columns = arrays.use_pair, arrays.use_link, arrays.use_reverse
        for pair, link, reverse in zip(*(each.tolist() for each in columns), strict=True):
            numbers = 3 * link + reverse, 3 * link + 2
            uses[pair] += [each for each in numbers if is_bound[each]]
        limited = [] if self._nccl else np.flatnonzero(arrays.limit_of_pair >= 0).tolist()
        for pair in limited:
            uses[pair].append(capacity.size + int(arrays.limit_of_pair[pair]))
        self._routes = _Routes(topology, uses, cap)
        self._held = self._routes.held_by_flow()
        for at, pairs in enumerate(self._held):
            for pair in pairs:
                uses[pair].append(capacity.size + limits.size + at)
        self._cap, self._capacity = cap, self._capacities(capacity, limits)
        self._relays_by = self._capacity[self._routes.relays_by].tobytes()

    def at(self, arrays: NetworkArrays, end: int = 1) -> GroupRates:
        """The rates with other numbers of the same machine; for `end` see `Kernels.reach`."""
        found = copy.copy(self)
        found._end, found._reach = end, self._kernels.reach(arrays, end)
        found._known, found._alone, found._ends, found._arrays = {}, {}, {}, arrays
        found._pairs = None
        found._routes = copy.copy(self._routes)
        found._cap = arrays.ring * found._reach[1]
        found._routes.cap = found._cap.tolist()
        found._capacity = found._capacities(arrays.capacity, arrays.pair_limits)
        found._relays_by = found._capacity[found._routes.relays_by].tobytes()
        return found

    def _capacities(
        self, links: NDArray[np.float64], limits: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Of all resources: directions of links, limits of pairs, flows of pairs."""
        flows = [max(self._routes.cap[pair] for pair in pairs) for pairs in self._held]
        capacity = np.concatenate([links.reshape(-1), limits, np.array(flows, np.float64)])
        if not self._nccl:
            capacity[: links.size].reshape(-1, 3)[:, :2] *= self._reach[0][:, np.newaxis]
            self._routes.share_ports(capacity)
        return capacity

    def of(self, devices: tuple[int, ...]) -> GroupRate:
        """The rate of a set, given as positions in `topology.devices` in any order."""
        members = tuple(sorted(devices))
        found = self._known.get(members)
        if found is None:
            self._check(members)
            found = self._known[members] = self._made(members)
        return found

    def bytes_per_s(self, members: tuple[int, ...]) -> float:
        """The rate alone of two devices or more, ascending: it is all that a search compares."""
        if members not in self._alone:
            self._alone[members] = self._searching(members)._search(members)[0].bytes_per_s
        return self._alone[members]

    def _searching(self, members: tuple[int, ...]) -> GroupRates:
        return self._of_pairs() if self._is_amd and len(members) == 2 else self

    def _made(self, members: tuple[int, ...]) -> GroupRate:
        if len(members) == 1:
            alone = float("inf")
            return GroupRate(
                devices=members, bytes_per_s=alone, cut_bytes_per_s=alone, rings=(), load=()
            )
        found, wiring = self._searching(members)._search(members)
        rings = found.rings
        return GroupRate(
            devices=members,
            bytes_per_s=found.bytes_per_s,
            cut_bytes_per_s=found.cut_bytes_per_s,
            rings=tuple(tuple(members[place] for place in ring) for ring in rings),
            load=_load(rings, wiring, 3 * len(self._topology.links)),
        )

    def _of_pairs(self) -> GroupRates:
        """Those of two devices: where the driver copies directly, so does NCCL."""
        if self._pairs is None:
            arrays = self._arrays
            ring = np.where(self._staged, arrays.ring, arrays.isolated_rate())
            self._pairs = self.at(replace(arrays, ring=ring), self._end)
        return self._pairs

    def range_of(
        self, devices: tuple[int, ...], still: frozenset[str] = frozenset()
    ) -> tuple[float, float]:
        """The least and the most of a set's rate on any machine that the premises allow.

        Those that `still` names keep their nominal values, and so do links by `KERNELS`.
        """
        if still not in self._ends:
            of_all = enumerate(each.premise for each in self._arrays.premises)
            premises = [(at, each) for at, each in of_all if each.what not in still]
            lows = {at: each.low / each.nominal for at, each in premises}
            highs = {at: each.high / each.nominal for at, each in premises}
            is_open = self._kernels.are_open and nccl_speeds.KERNELS not in still
            ends = ((lows, 0), (highs, 2)) if (premises or is_open) and not self._nccl else ()
            self._ends[still] = tuple(
                self.at(self._arrays.scaled(factors), end if is_open else 1)
                for factors, end in ends
            )
        found = [each.of(devices).bytes_per_s for each in (self, *self._ends[still])]
        return min(found), max(found)

    def path_load(
        self, devices: tuple[int, ...], lasts: Sequence[int]
    ) -> tuple[tuple[int, int, float], ...]:
        """Like `load` of a set's rate, where the ring goes on to another node.

        Equal shares of each byte leave at the devices `lasts`: a ring has no hop from there.
        """
        members = tuple(sorted(devices))
        rings = [[members.index(device) for device in ring] for ring in self.of(members).rings]
        paths = []
        for ring, last in product(rings, lasts):
            end = ring.index(members.index(last)) + 1
            paths.append([*ring[end:], *ring[:end]])
        wiring = self._wiring(members, forwarded=members in self._forwarded)
        return _load(paths, wiring, 3 * len(self._topology.links), closed=False)

    @property
    def path_classes(self) -> Sequence[int]:
        """How far the two devices of each ordered pair are apart, row by row."""
        return self._routes.path_class

    def leaving(self, device: int) -> float:
        """Bytes per second that leave a device over all its links: no group with it has more."""
        n = len(self._topology.devices)
        first = {uses[0] for uses in self._routes.uses[device * n : (device + 1) * n] if uses}
        return float(sum(self._capacity[resource] for resource in first))

    def _check(self, members: tuple[int, ...]) -> None:
        present = len(self._topology.devices)
        if not members or len(set(members)) < len(members):
            raise UsageError(
                "a group has one device or more, each once", hint="name each device of it once"
            )
        if not 0 <= members[0] <= members[-1] < present:
            raise UsageError(
                f"{self._topology.name!r} has devices 0 to {present - 1}",
                hint="name positions in topology.devices",
            )

    def _search(self, members: tuple[int, ...]) -> tuple[_core.RingRate, _Wiring]:
        most = nccl_speeds.MOST_RINGS if self._nccl else _MOST_RINGS
        wiring = self._wiring(members)
        found = self._rings(wiring, most)
        if found.bytes_per_s == 0 and self._routes.forwards:
            self._forwarded.add(members)
            wiring = self._wiring(members, forwarded=True)
            found = self._rings(wiring, most if len(members) == 2 else 1)
        return found, wiring

    def _wiring(self, members: tuple[int, ...], *, forwarded: bool = False) -> _Wiring:
        """The routes of a set; which member relays for two others depends on some numbers."""
        key = members, forwarded, self._relays_by
        if key not in self._wired:
            self._wired[key] = self._routes.within(members, self._capacity, forwarded=forwarded)
        return self._wired[key]

    def _rings(self, wiring: _Wiring, most: int) -> _core.RingRate:
        capacity, cap = self._capacity[wiring.resources], self._cap[wiring.pairs]
        cap[wiring.relayed] = np.inf
        key = wiring.form, capacity.tobytes(), cap.tobytes(), most
        if key not in self._searched:
            self._searched[key] = _core.ring_rate(
                wiring.members,
                capacity=capacity,
                route_begin=wiring.route_begin,
                uses=wiring.numbered,
                flow_cap=cap,
                path_class=wiring.path_class,
                switched=wiring.switched,
                levels=self._levels(capacity, cap),
                stop_below=nccl_speeds.STOP_BELOW if self._nccl else 0.0,
                most_rings=most,
                steps=nccl_speeds.STEPS if self._nccl else _STEPS,
            )
        return self._searched[key]

    def _levels(
        self, capacity: NDArray[np.float64], cap: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Rates of one ring, falling: NCCL's table, or simple parts of the capacities in use."""
        if self._nccl:
            return nccl_speeds.levels(self._generation)
        whole = {*capacity.tolist(), *cap[np.isfinite(cap)].tolist()}
        levels = sorted((each / part for each in whole for part in _PARTS), reverse=True)
        lesser = [b for a, b in pairwise((np.inf, *levels)) if 0 < b < a * (1 - 1e-9)]
        return np.array(lesser, np.float64)


class _Wiring:
    """The routes of a group without their numbers, as ordered pairs of its members.

    Attributes:
        members: how many.
        uses: the resources of each route.
        resources: all of these, in the order of their first use.
        route_begin, numbered: the uses of each route as positions in `resources`.
        pairs: of devices, of which each route has the cap, but where it is `relayed`.
        path_class: how far the ends of each route are apart.
        switched: whether all of them go through a switch of device links.
        form: equal for groups that are wired alike.
    """

    def __init__(
        self,
        uses: list[list[int]],
        pairs: list[int],
        relayed: list[bool],
        path_class: list[int],
        *,
        switched: bool,
    ) -> None:
        number: dict[int, int] = {}
        numbered = [number.setdefault(use, len(number)) for each in uses for use in each]
        self.members = isqrt(len(pairs))
        self.uses, self.resources = uses, np.array(list(number), np.intp)
        self.route_begin = np.array([*accumulate(map(len, uses), initial=0)], np.uint32)
        self.numbered = np.array(numbered, np.uint32)
        self.pairs, self.relayed = np.array(pairs, np.intp), np.array(relayed, np.bool_)
        self.path_class, self.switched = np.array(path_class, np.uint8), switched
        arrays = self.numbered, self.route_begin, self.path_class
        self.form = *(each.tobytes() for each in arrays), switched


def _load(
    rings: Sequence[Sequence[int]], wiring: _Wiring, links: int, *, closed: bool = True
) -> tuple[tuple[int, int, float], ...]:
    """How often a byte of the group passes each direction of a link."""
    passes: Counter[int] = Counter()
    for ring in rings:
        for here, there in pairwise((*ring, ring[0]) if closed else ring):
            uses = wiring.uses[here * wiring.members + there]
            passes.update(use for use in uses if use < links and use % 3 < 2)
    return tuple((u // 3, u % 3, count / len(rings)) for u, count in sorted(passes.items()))


class _Routes:
    """The routes between devices: what they use, what one flow gets, how near they are.

    Entries are numbered as ordered pairs of devices.
    """

    def __init__(self, topology: Topology, uses: list[list[int]], cap: NDArray[np.float64]) -> None:
        """Routes of all devices."""
        n = len(topology.devices)
        ids = [device.id for device in topology.devices]
        place = {device: at for at, device in enumerate(ids)}
        switches = {c.id for c in topology.components if c.kind is ComponentKind.NVSWITCH}
        switches.discard(MEASURED_PORTS)
        between = topology.between_sockets
        self._n = n
        self.forwards = any(device.forwards for device in topology.devices)
        self.uses, self.cap = uses, cap.tolist()
        self.path_class = [_NO_PATH] * (n * n)
        self._direct = [False] * (n * n)
        self._switched = [False] * (n * n)
        self._by_nccl = [False] * (n * n)  # which NCCL copies in a way of its own
        self._passes: list[frozenset[int]] = [frozenset()] * (n * n)
        self._crosses: list[list[tuple[str, bool]]] = [[] for _ in range(n * n)]
        for (source, target), route in topology.route_of_pair.items():
            if source not in place or target not in place:
                continue
            pair = place[source] * n + place[target]
            links = [topology.link_of_id[link] for link in route.links]
            ends = {end for link in links for end in link.ends} - {source, target}
            self.path_class[pair] = _CLASSES.get(route.path_class, 9)
            self._passes[pair] = frozenset(place[end] for end in ends if end in place)
            self._by_nccl[pair] = route.ring_bytes_per_s is not None
            self._direct[pair] = len(links) == 1 and links[0].kind in DEVICE_LINKS
            self._switched[pair] = bool(links) and bool(ends) and ends <= switches
            ways = () if between.isdisjoint(route.links) else walk(topology.link_of_id, route)
            self._crosses[pair] = [(x.id, is_reverse) for x, is_reverse in ways if x.id in between]
        # Nothing relays where no device has a direct link to another.
        are_nvidia = all(device.vendor is Vendor.NVIDIA for device in topology.devices)
        self._relays = are_nvidia and any(self._direct)
        # The resources whose numbers decide which member relays for two others.
        hops = zip(uses, self._direct, strict=True)
        direct = {of_pair[0] for of_pair, is_direct in hops if is_direct and of_pair}
        self.relays_by = np.array(sorted(direct) if self._relays else [], np.intp)

    def held_by_flow(self) -> list[list[int]]:
        """Pairs of which all rings together carry no more than the fastest flow of one reaches.

        All that cross from one socket to another, because NCCL first gives all rings one order;
        each pair by itself, and all that a device sends, or may send, through host memory.
        """
        pairs = [
            pair
            for pair, cap in enumerate(self.cap)
            if np.isfinite(cap) and not (self._direct[pair] or self._switched[pair])
        ]
        staged: dict[int, list[int]] = {}
        for pair in filter(self._by_nccl.__getitem__, pairs):
            staged.setdefault(pair // self._n, []).append(pair)
        crossing: dict[tuple[str, bool], list[int]] = {}
        for pair in pairs:
            for way in self._crosses[pair]:
                crossing.setdefault(way, []).append(pair)
        return [*crossing.values(), *([pair] for pair in pairs), *staged.values()]

    def share_ports(self, capacity: NDArray[np.float64]) -> None:
        """A cap of device links alone is what their ports carry, for all flows together."""
        for pair, cap in enumerate(self.cap):
            if np.isfinite(cap) and (self._direct[pair] or self._switched[pair]):
                for use in self.uses[pair]:
                    capacity[use] = min(capacity[use], cap)

    def within(
        self, members: tuple[int, ...], capacity: NDArray[np.float64], *, forwarded: bool = False
    ) -> _Wiring:
        """The routes of a group, which sees no other device unless they are `forwarded` there."""
        pairs = [a * self._n + b for a in members for b in members]
        uses = [self.uses[pair] for pair in pairs]
        path_class = [self.path_class[pair] for pair in pairs]
        relayed = [False] * len(pairs)
        off = [pair for at, pair in enumerate(pairs) if at % (len(members) + 1)]
        for at, pair in enumerate(pairs):
            is_linked = self.path_class[pair] <= 1 and not self._passes[pair]
            if self._direct[pair] or is_linked or at % (len(members) + 1) == 0:
                continue
            relay = self._relay(pair, members, capacity) if self._relays else None
            if relay is not None:
                first, second = pair // self._n * self._n + relay, relay * self._n + pair % self._n
                uses[at], relayed[at] = self.uses[first] + self.uses[second], True
                path_class[at] = _RELAYED
            elif not (forwarded or self._passes[pair] <= set(members)):
                path_class[at] = _NO_PATH
        switched = all(self._switched[pair] for pair in off)
        return _Wiring(uses, pairs, relayed, path_class, switched=switched)

    def _relay(
        self, pair: int, members: tuple[int, ...], capacity: NDArray[np.float64]
    ) -> int | None:
        """The member with the fastest direct links to both ends, the first of equals."""
        best, found = 0.0, None
        for member in members:
            ways = pair // self._n * self._n + member, member * self._n + pair % self._n
            if all(self._direct[way] for way in ways):
                rate = min(capacity[self.uses[way][0]] for way in ways)
                if rate > best:
                    best, found = rate, member
        return found
