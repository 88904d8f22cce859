"""What a topology says of single routes, links and devices, as plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, isnan, nan

from toposeat.errors import InputError
from toposeat.model.quantity import Quantity
from toposeat.model.topology import Device, Link, Route, Topology


def device_routes(topology: Topology) -> Iterator[Route | None]:
    """Routes of all ordered device pairs, row by row; None from a device to itself."""
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


def walk(links: Mapping[str, Link], route: Route) -> Iterator[tuple[Link, bool]]:
    """Links of a route in order, each with whether it is walked from `ends[1]` to `ends[0]`."""
    here = route.source
    for link_id in route.links:
        link = links[link_id]
        is_reverse = here == link.ends[1]
        here = link.ends[0] if is_reverse else link.ends[1]
        yield link, is_reverse


def route_latency(topology: Topology, route: Route) -> float:
    """Seconds that each message of the route waits; with a curve, the least of all sizes."""
    stated = stated_latency(route)
    if not isnan(stated):
        return stated
    return sum(topology.link_of_id[link_id].latency_s.value for link_id in route.links)


def stated_latency(route: Route) -> float:
    """What the route itself says of its latency; NaN if it is the sum over the links."""
    if route.curve is not None:
        return route.curve.least_latency_s
    return nan if route.latency_s is None else route.latency_s.value


def own_copy_rate(device: Device) -> float:
    """Bytes per second between ranks that share a device; infinite if not known."""
    known = device.copy_bytes_per_s
    return known.value if known is not None and known.value > 0 else inf


def own_copy_latency(device: Device) -> float:
    """Seconds per message between ranks that share a device; 0 if not known."""
    return device.copy_latency_s.value if device.copy_latency_s is not None else 0.0


def route_cap(route: Route) -> float:
    """Bytes per second of a single flow on idle links; infinite if only the links limit it.

    With a curve, the most of all message sizes.
    """
    cap = _limit(route, route.cap_bytes_per_s, "a cap")
    return cap if route.curve is None else min(cap, route.curve.most_bytes_per_s)


def pair_limit(route: Route) -> float:
    """Bytes per second of both directions of the pair together; infinite if not limited."""
    return _limit(route, route.combined_bytes_per_s, "a combined limit")


def _limit(route: Route, quantity: Quantity | None, what: str) -> float:
    if quantity is None:
        return inf
    if quantity.value == 0:
        raise InputError(
            f"route {route.source} -> {route.target} has {what} of 0 bytes/s",
            hint="give the pair's bandwidth, or leave it out",
        )
    return quantity.value


def link_capacities(link: Link) -> tuple[float, float, float]:
    """Forward, backward and combined bytes per second, the last infinite if there is none."""
    combined = link.combined_bytes_per_s
    return (
        link.forward_bytes_per_s.value,
        link.backward_bytes_per_s.value,
        inf if combined is None else combined.value,
    )


def dead_link(link: Link) -> InputError:
    """The error for a link that some route needs and that can carry nothing."""
    return InputError(
        f"link {link.id!r} is on a route between devices but has a capacity of 0 bytes/s",
        hint="give its bandwidth, or remove the link if it is down",
    )
