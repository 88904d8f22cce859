"""Topology and traffic as the plain numbers of the compiled core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.errors import InputError
from toposeat.model.topology import Device, Link, Route, Topology
from toposeat.model.traffic import Traffic


@dataclass(frozen=True, kw_only=True)
class NetworkArrays:
    """A topology as arrays: device i is `topology.devices[i]`, link k is `topology.links[k]`.

    Ordered pairs of devices are numbered i * devices + j. `capacity` is (links, 3): forward,
    backward, combined. Entry u of the three `use_` arrays is one use of a link by the route of a
    pair, in the order of pairs and of the route.
    """

    devices: int
    capacity: NDArray[np.float64]
    link_latency: NDArray[np.float64]
    use_pair: NDArray[np.intp]
    use_link: NDArray[np.intp]
    use_reverse: NDArray[np.bool_]
    cap: NDArray[np.float64]  # of each pair; on the diagonal that of a copy within the device
    own_latency: NDArray[np.float64]  # of a copy within each device

    def latency(self) -> NDArray[np.float64]:
        """Seconds per message of each pair."""
        n = self.devices
        latency = np.zeros(n * n)
        np.add.at(latency, self.use_pair, self.link_latency[self.use_link])
        latency[:: n + 1] = self.own_latency
        return latency

    def lone_rate(self) -> NDArray[np.float64]:
        """Bytes per second of a single flow of each pair on idle links."""
        capacity = self.capacity[self.use_link]
        directed = np.where(self.use_reverse, capacity[:, 1], capacity[:, 0])
        rate = self.cap.copy()
        np.minimum.at(rate, self.use_pair, np.minimum(directed, capacity[:, 2]))
        return rate

    def network(self) -> _core.Network:
        """The same for the compiled core."""
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
        )


def network_arrays(topology: Topology) -> NetworkArrays:
    """Numbers of the topology.

    Only routes between devices are taken. A combined capacity or a cap that is not given is
    infinite. A device has no route to itself; its cap and latency are those of a copy within it.

    Raises:
        InputError: if two devices have no route, or a route uses a link without capacity in the
            direction it needs or has a cap of zero.
    """
    number = {link.id: k for k, link in enumerate(topology.links)}
    pairs, links, reverse, cap = [], [], [], []
    own = iter(topology.devices)
    for pair, route in enumerate(device_routes(topology)):
        if route is None:
            cap.append(own_copy_rate(next(own)))
            continue
        for link, is_reverse in walk(topology, route):
            pairs.append(pair)
            links.append(number[link.id])
            reverse.append(is_reverse)
        cap.append(route_cap(route))
    return NetworkArrays(
        devices=len(topology.devices),
        capacity=_capacities(topology, links, reverse),
        link_latency=np.array([link.latency_s.value for link in topology.links], np.float64),
        use_pair=np.array(pairs, np.intp),
        use_link=np.array(links, np.intp),
        use_reverse=np.array(reverse, np.bool_),
        cap=np.array(cap, np.float64),
        own_latency=np.array([own_copy_latency(each) for each in topology.devices], np.float64),
    )


def compile_network(topology: Topology) -> _core.Network:
    """`network_arrays` for the core; see there."""
    return network_arrays(topology).network()


def compile_traffic(traffic: Traffic) -> _core.RankTraffic:
    """Numbers of the pairs that placement should serve: `Traffic.mapped_table`."""
    table = traffic.mapped_table()
    return _core.RankTraffic(
        ranks=traffic.ranks,
        source=table.source.astype(np.uint32),
        target=table.target.astype(np.uint32),
        bytes=table.bytes.astype(np.float64),
        messages=table.messages.astype(np.float64),
    )


def device_routes(topology: Topology) -> Iterator[Route | None]:
    """Routes of all ordered device pairs, row by row; None from a device to itself.

    Raises:
        InputError: if two devices have no route.
    """
    for source in topology.devices:
        for target in topology.devices:
            if source.id == target.id:
                yield None
                continue
            route = topology.route_of_pair.get((source.id, target.id))
            if route is None:
                raise InputError(
                    f"topology {topology.name!r} has no route from device {source.id!r} to "
                    f"{target.id!r}",
                    hint="connect the two devices with links, or leave one out with --devices",
                )
            yield route


def walk(topology: Topology, route: Route) -> Iterator[tuple[Link, bool]]:
    """Links of a route in order, each with whether it is walked from `ends[1]` to `ends[0]`."""
    here = route.source
    for link_id in route.links:
        link = topology.link_of_id[link_id]
        is_reverse = here == link.ends[1]
        here = link.ends[0] if is_reverse else link.ends[1]
        yield link, is_reverse


def route_latency(topology: Topology, route: Route) -> float:
    """Seconds that each message of the route waits: the sum over its links."""
    return sum(topology.link_of_id[link_id].latency_s.value for link_id in route.links)


def own_copy_rate(device: Device) -> float:
    """Bytes per second between ranks that share a device; infinite if not known."""
    known = device.copy_bytes_per_s
    return known.value if known is not None and known.value > 0 else float(np.inf)


def own_copy_latency(device: Device) -> float:
    """Seconds per message between ranks that share a device; 0 if not known."""
    return device.copy_latency_s.value if device.copy_latency_s is not None else 0.0


def route_cap(route: Route) -> float:
    """Bytes per second of a single flow on idle links; infinite if only the links limit it.

    Raises:
        InputError: if the cap is zero.
    """
    if route.cap_bytes_per_s is None:
        return float(np.inf)
    if route.cap_bytes_per_s.value == 0:
        raise InputError(
            f"route {route.source} -> {route.target} has a cap of 0 bytes/s",
            hint="give the pair's bandwidth, or leave the cap out",
        )
    return route.cap_bytes_per_s.value


def link_capacities(link: Link) -> tuple[float, float, float]:
    """Forward, backward and combined bytes per second, the last infinite if there is none."""
    combined = link.combined_bytes_per_s
    return (
        link.forward_bytes_per_s.value,
        link.backward_bytes_per_s.value,
        float(np.inf) if combined is None else combined.value,
    )


def dead_link(link: Link) -> InputError:
    """The error for a link that some route needs and that can carry nothing."""
    return InputError(
        f"link {link.id!r} is on a route between devices but has a capacity of 0 bytes/s",
        hint="give its bandwidth, or remove the link if it is down",
    )


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
