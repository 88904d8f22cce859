"""The topology that a slowed-down stand-in node really has."""

from __future__ import annotations

from dataclasses import replace

from toposeat.model.quantity import Quantity
from toposeat.model.route import Route, RouteCurve
from toposeat.model.topology import Link, Topology


def scaled_topology(topology: Topology, scale: float) -> Topology:
    """`topology` with every bandwidth multiplied by `scale`; latencies stay, as in the stand-in.

    Predictions for it are of the seconds that the stand-in takes with the same `scale`.

    Raises:
        ValueError: a scale that is not positive.
    """
    if not scale > 0:
        raise ValueError(f"a scale of {scale:g} is not above 0")
    return replace(
        topology,
        links=tuple(_link(each, scale) for each in topology.links),
        routes=tuple(_route(each, scale) for each in topology.routes),
    )


def _times(quantity: Quantity, scale: float) -> Quantity:
    return replace(quantity, value=quantity.value * scale)


def _maybe(quantity: Quantity | None, scale: float) -> Quantity | None:
    return None if quantity is None else _times(quantity, scale)


def _link(link: Link, scale: float) -> Link:
    return replace(
        link,
        forward_bytes_per_s=_times(link.forward_bytes_per_s, scale),
        backward_bytes_per_s=_times(link.backward_bytes_per_s, scale),
        combined_bytes_per_s=_maybe(link.combined_bytes_per_s, scale),
    )


def _route(route: Route, scale: float) -> Route:
    return replace(
        route,
        cap_bytes_per_s=_maybe(route.cap_bytes_per_s, scale),
        combined_bytes_per_s=_maybe(route.combined_bytes_per_s, scale),
        curve=None if route.curve is None else _curve(route.curve, scale),
    )


def _curve(curve: RouteCurve, scale: float) -> RouteCurve:
    points = (replace(each, bytes_per_s=each.bytes_per_s * scale) for each in curve.points)
    return replace(curve, points=tuple(points))
