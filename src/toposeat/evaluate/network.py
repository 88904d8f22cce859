"""Topology and traffic as the plain numbers of the compiled core."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.errors import InputError
from toposeat.model.topology import Device, Link, Route, Topology
from toposeat.model.traffic import Traffic


def compile_network(topology: Topology) -> _core.Network:
    """Numbers of the topology: device i is `topology.devices[i]`, link k is `topology.links[k]`.

    Only routes between devices are taken. A combined capacity or a cap that is not given is
    infinite. A device has no route to itself; its cap and latency are those of a copy within it.

    Raises:
        InputError: if two devices have no route, or a route uses a link without capacity in the
            direction it needs or has a cap of zero.
    """
    number = {link.id: k for k, link in enumerate(topology.links)}
    begin, links, reverse = [0], [], []
    cap, latency = [], []
    own = iter(topology.devices)
    for route in device_routes(topology):
        if route is None:
            device = next(own)
            cap.append(own_copy_rate(device))
            latency.append(own_copy_latency(device))
        else:
            for link, is_reverse in walk(topology, route):
                links.append(number[link.id])
                reverse.append(is_reverse)
            cap.append(route_cap(route))
            latency.append(route_latency(topology, route))
        begin.append(len(links))
    forward, backward, combined = _capacities(topology, links, reverse)
    return _core.Network(
        devices=len(topology.devices),
        forward=forward,
        backward=backward,
        combined=combined,
        route_begin=np.array(begin, np.uint32),
        route_link=np.array(links, np.uint32),
        route_reverse=np.array(reverse, np.bool_),
        cap=np.array(cap, np.float64),
        latency=np.array(latency, np.float64),
    )


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


def _capacities(
    topology: Topology, links: list[int], reverse: list[bool]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
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
    return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy()
