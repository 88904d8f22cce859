"""Topology and traffic as the arrays that the compiled core takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation.route_numbers import (
    dead_link,
    device_routes,
    link_capacities,
    own_copy_latency,
    own_copy_rate,
    pair_limit,
    route_cap,
    stated_latency,
    walk,
)
from toposeat.model.quantity import Premise, Quantity
from toposeat.model.topology import Route, RouteCurve, Topology
from toposeat.model.traffic import HISTOGRAM_BUCKETS, PairTable, Traffic

_RATES = (1e-30, 1e30)  # bytes/s that the core can compute with


class PremiseUse(Struct, frozen=True, kw_only=True):
    """Which numbers of `NetworkArrays` are proportional to a premise: positions in flat arrays.

    `pairs` are those whose routes use any of the numbers.
    """

    premise: Premise
    capacity: NDArray[np.intp]
    cap: NDArray[np.intp]
    ring: NDArray[np.intp]
    pair_limits: NDArray[np.intp]
    pairs: NDArray[np.intp]

    @property
    def is_of_flows(self) -> bool:
        """Whether it has a part in single transfers, and not in rings alone."""
        return bool(self.capacity.size or self.cap.size or self.pair_limits.size)


class NetworkArrays(Struct, frozen=True, kw_only=True):
    """A topology as arrays: device i is `topology.devices[i]`, link k is `topology.links[k]`.

    Ordered pairs of devices are numbered i * devices + j. `capacity` is (links, 3): forward,
    backward, combined. Entry u of the three `use_` arrays is one use of a link by the route of a
    pair, in the order of pairs and of the route; a staged route may use a link in both directions.

    `cap` and `stated_latency` are those of each pair; the diagonal is a copy within the device.
    `ring` is what a step of a collective library's ring reaches, no more than the cap.
    A stated latency of NaN is the sum over the route's links. Pairs whose number in `curve_of_pair`
    is not -1 have the curve of that number, and the best of it as cap and stated latency. Pairs
    whose number in `limit_of_pair` is not -1 share the `pair_limits` of that number, in bytes per
    second: the two directions of a pair. `premises` are those that some pair's route uses.
    """

    devices: int
    capacity: NDArray[np.float64]
    link_latency: NDArray[np.float64]
    use_pair: NDArray[np.intp]
    use_link: NDArray[np.intp]
    use_reverse: NDArray[np.bool_]
    cap: NDArray[np.float64]
    ring: NDArray[np.float64]
    stated_latency: NDArray[np.float64]
    curves: tuple[RouteCurve, ...]
    curve_of_pair: NDArray[np.int32]
    pair_limits: NDArray[np.float64]
    limit_of_pair: NDArray[np.int32]
    premises: tuple[PremiseUse, ...] = ()

    def scaled(self, factors: Mapping[int, float]) -> NetworkArrays:
        """The machine whose premises (by position) are these multiples of their nominal values."""
        capacity, cap, limits = self.capacity.copy(), self.cap.copy(), self.pair_limits.copy()
        ring = self.ring.copy()
        flat = capacity.reshape(-1)
        for at, factor in factors.items():
            use = self.premises[at]
            for numbers, places in (
                (flat, use.capacity),
                (cap, use.cap),
                (ring, use.ring),
                (limits, use.pair_limits),
            ):
                numbers[places] = np.clip(numbers[places] * factor, *_RATES)
        return replace(self, capacity=capacity, cap=cap, ring=ring, pair_limits=limits)

    def latency(self) -> NDArray[np.float64]:
        """Seconds per message of each pair; with a curve, the least of all sizes."""
        latency = np.zeros(self.devices * self.devices)
        np.add.at(latency, self.use_pair, self.link_latency[self.use_link])
        return np.where(np.isnan(self.stated_latency), latency, self.stated_latency)

    def isolated_rate(self) -> NDArray[np.float64]:
        """Bytes per second of a single flow of each pair on idle links."""
        capacity = self.capacity[self.use_link]
        directed = np.where(self.use_reverse, capacity[:, 1], capacity[:, 0])
        use = self.use_pair * max(1, len(self.capacity)) + self.use_link
        _, of_use, times = np.unique(use, return_inverse=True, return_counts=True)
        rate = self.cap.copy()
        np.minimum.at(rate, self.use_pair, np.minimum(directed, capacity[:, 2] / times[of_use]))
        limited = np.flatnonzero(self.limit_of_pair >= 0)
        rate[limited] = np.minimum(rate[limited], self.pair_limits[self.limit_of_pair[limited]])
        return rate

    def network(self) -> _core.Network:
        """The machine as the compiled core takes it."""
        pairs = self.devices * self.devices
        uses = np.bincount(self.use_pair, minlength=pairs)
        return _core.Network(
            devices=self.devices,
            forward=self.capacity[:, 0].copy(),
            backward=self.capacity[:, 1].copy(),
            combined=self.capacity[:, 2].copy(),
            route_begin=np.concatenate([[0], np.cumsum(uses)]).astype(np.uint32),
            route_link=self.use_link.astype(np.uint32),
            route_reverse=self.use_reverse,
            cap=self.cap,
            latency=self.latency(),
            pair_limits=self.pair_limits,
            limit_of_pair=self.limit_of_pair,
            curves=[
                [(point.message_bytes, point.latency_s, point.bytes_per_s) for point in each.points]
                for each in self.curves
            ],
            curve_of_pair=self.curve_of_pair,
        )


def network_arrays(topology: Topology) -> NetworkArrays:
    """The numbers of a topology as arrays.

    Only routes between devices are taken. A combined capacity or a cap that is not given is
    infinite. A device has no route to itself; its cap and latency are those of a copy within it.
    """
    number = {link.id: k for k, link in enumerate(topology.links)}
    pairs, links, reverse, cap, ring, latency = [], [], [], [], [], []
    own = iter(topology.devices)
    routes = list(device_routes(topology))
    for pair, route in enumerate(routes):
        if route is None:
            device = next(own)
            cap.append(own_copy_rate(device))
            ring.append(np.inf)
            latency.append(own_copy_latency(device))
            continue
        for link, is_reverse in walk(topology.link_of_id, route):
            pairs.append(pair)
            links.append(number[link.id])
            reverse.append(is_reverse)
        cap.append(route_cap(route))
        ring.append(cap[-1] if route.ring_bytes_per_s is None else route.ring_bytes_per_s.value)
        latency.append(stated_latency(route))
    curves, curve_of_pair = _curves(routes)
    pair_limits, limit_of_pair, limiting = _pair_limits(routes, len(topology.devices))
    use_pair, use_link = np.array(pairs, np.intp), np.array(links, np.intp)
    return NetworkArrays(
        devices=len(topology.devices),
        capacity=_capacities(topology, links, reverse),
        link_latency=np.array([link.latency_s.value for link in topology.links], np.float64),
        use_pair=use_pair,
        use_link=use_link,
        use_reverse=np.array(reverse, np.bool_),
        cap=np.array(cap, np.float64),
        ring=np.array(ring, np.float64),
        stated_latency=np.array(latency, np.float64),
        curves=curves,
        curve_of_pair=curve_of_pair,
        pair_limits=pair_limits,
        limit_of_pair=limit_of_pair,
        premises=_premise_uses(topology, routes, use_pair, use_link, limiting),
    )


def _premise_uses(
    topology: Topology,
    routes: list[Route | None],
    use_pair: NDArray[np.intp],
    use_link: NDArray[np.intp],
    limiting: list[Route],
) -> tuple[PremiseUse, ...]:
    """For each premise the positions of its numbers; unused premises are left out."""
    caps = [None if route is None else route.cap_bytes_per_s for route in routes]
    rings = [None if r is None else r.ring_bytes_per_s or r.cap_bytes_per_s for r in routes]
    sums = [None if route is None else route.combined_bytes_per_s for route in routes]
    rates = [
        each
        for link in topology.links
        for each in (link.forward_bytes_per_s, link.backward_bytes_per_s, link.combined_bytes_per_s)
    ]
    limits = [route.combined_bytes_per_s for route in limiting]
    uses = []
    for premise in topology.premises:

        def naming(
            numbers: Sequence[Quantity | None], what: str = premise.what
        ) -> NDArray[np.intp]:
            found = [at for at, each in enumerate(numbers) if each and what in each.premises]
            return np.array(found, np.intp)

        capacity, cap, ring = naming(rates), naming(caps), naming(rings)
        over = use_pair[np.isin(use_link, capacity // 3)]
        # not by np.unique, which loads numpy.ma: a tenth of numpy
        used = (over, cap, ring, naming(sums))
        pairs = np.array(sorted({each for at in used for each in at.tolist()}), np.intp)
        if pairs.size:
            of_pairs = naming(limits)
            uses.append(
                PremiseUse(
                    premise=premise,
                    capacity=capacity,
                    cap=cap,
                    ring=ring,
                    pair_limits=of_pairs,
                    pairs=pairs,
                )
            )
    return tuple(uses)


def _curves(routes: list[Route | None]) -> tuple[tuple[RouteCurve, ...], NDArray[np.int32]]:
    """The distinct curves, and for each pair the number of its curve, or -1."""
    number: dict[RouteCurve, int] = {}
    of_pair = np.full(len(routes), -1, np.int32)
    for pair, route in enumerate(routes):
        if route is not None and route.curve is not None:
            of_pair[pair] = number.setdefault(route.curve, len(number))
    return tuple(number), of_pair


def _pair_limits(
    routes: list[Route | None], devices: int
) -> tuple[NDArray[np.float64], NDArray[np.int32], list[Route]]:
    """Limits on both directions of a pair together: one number per unordered pair.

    Also the number of each pair's limit, or -1, and the route that states each limit.
    """
    limits: list[float] = []
    stated: list[Route] = []
    of_pair = np.full(len(routes), -1, np.int32)
    for pair, route in enumerate(routes):
        if route is None or route.combined_bytes_per_s is None:
            continue
        limit = pair_limit(route)
        back = pair % devices * devices + pair // devices
        if of_pair[back] >= 0:
            if limit < limits[of_pair[back]]:
                limits[of_pair[back]], stated[of_pair[back]] = limit, route
            continue
        of_pair[pair] = of_pair[back] = len(limits)
        limits.append(limit)
        stated.append(route)
    return np.array(limits, np.float64), of_pair, stated


def compile_network(topology: Topology) -> _core.Network:
    """Compile `network_arrays` of a topology for the core."""
    return network_arrays(topology).network()


def compile_traffic(
    traffic: Traffic, table: PairTable | None = None, *, in_turn: bool = False
) -> _core.RankTraffic:
    """Compile pairs of ranks for the core.

    Args:
        traffic: whose message sizes the pairs have.
        table: the pairs; default: `Traffic.mapped_table`, those that placement should serve.
        in_turn: whether a rank's messages to its partners follow one another, as rounds do.
    """
    table = traffic.mapped_table() if table is None else table
    rounds = traffic.rounds_of(table, in_turn=in_turn)
    return _core.RankTraffic(
        ranks=traffic.ranks,
        source=table.source.astype(np.uint32),
        target=table.target.astype(np.uint32),
        bytes=table.bytes.astype(np.float64),
        messages=table.messages.astype(np.float64),
        sizes=message_sizes(traffic),
        rounds=rounds.astype(np.float64) if rounds.any() else None,
    )


def message_sizes(traffic: Traffic) -> list[tuple[float, float]]:
    """How message sizes spread about the mean of their pair: (factor, share of the messages).

    A histogram counts all pairs together: each pair is taken to have its shape around the pair's
    own mean. A message of the bucket of bit length k counts as 0.75 x 2^k bytes, the middle of the
    bucket. Without a histogram every message has the mean of its pair.
    """
    space = traffic.mapped_space
    counts = [counts for (_, each), counts in traffic.histograms.items() if space in (None, each)]
    total = np.zeros(HISTOGRAM_BUCKETS)
    for each in counts:
        total += each
    used = np.flatnonzero(total)
    sizes = np.where(used == 0, 0.0, 0.75 * 2.0**used)
    shares = total[used] / max(1.0, total.sum())
    mean = float(shares @ sizes)
    if mean == 0:
        return [(1.0, 1.0)]
    return list(zip((sizes / mean).tolist(), shares.tolist(), strict=True))


def _capacities(topology: Topology, links: list[int], reverse: list[bool]) -> NDArray[np.float64]:
    """Capacities of all links; zero (a link that is down) is allowed where no route needs it."""
    table = np.array([link_capacities(link) for link in topology.links], np.float64).reshape(-1, 3)
    backwards = np.array(reverse, np.bool_)
    needed = np.array(links, np.intp)
    load = np.zeros(table.shape, np.bool_)
    load[needed[~backwards], 0] = True
    load[needed[backwards], 1] = True
    load[needed, 2] = True
    dead = np.flatnonzero((load & (table == 0)).any(axis=1))
    if dead.size:
        raise dead_link(topology.links[int(dead[0])])
    table[table == 0] = np.inf  # carries nothing: any capacity will do
    return table
