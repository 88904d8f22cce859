"""A machine under a rule of protocols: measured curves are chosen by message size and pair.

Nothing is measured here: the curves are those that `toposeat measure` kept with the routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from toposeat.errors import InputError
from toposeat.evaluation.network import message_sizes
from toposeat.model.protocol import ProtocolRule
from toposeat.model.quantity import Quantity, Source
from toposeat.model.route import MAX_CURVE_POINTS, CurvePoint, RouteCurve
from toposeat.model.topology import CopyProtocol, ProtocolRoute, Route, Topology
from toposeat.model.traffic import Traffic

_HINT = "give a machine that has them"
_AFTER = 1  # byte: two points so near to each other make a jump of a curve


def measured_protocols(topology: Topology) -> frozenset[CopyProtocol]:
    """Protocols that some route has a curve of."""
    return frozenset(
        option.protocol for route in topology.routes for option in route.protocols or ()
    )


def typical_bytes(traffic: Traffic) -> float:
    """Mean message size in bytes, each byte counted once; 0 without messages."""
    table = traffic.mapped_table()
    messages = float(table.messages.sum())
    if not messages:
        return 0.0
    mean = float(table.bytes.sum()) / messages
    spread = message_sizes(traffic)
    weight = sum(share * factor for factor, share in spread)
    if not weight:
        return mean
    return mean * sum(share * factor * factor for factor, share in spread) / weight


def under_rule(topology: Topology, rule: ProtocolRule, message_bytes: float) -> Topology:
    """The machine as a stack with this rule uses it.

    A pair without a curve of the protocol that the rule names is staged, as it was when it was
    measured; pairs that were not measured at all stay as they are. Messages of all sizes use the
    links of the protocol that moves `message_bytes`.
    """
    missing = rule.protocols - measured_protocols(topology)
    if missing:
        names = ", ".join(each.value for each in CopyProtocol if each in missing)
        raise InputError(f"{topology.name}: no curves of {names}", hint=_HINT)
    return _with_routes(topology, lambda route: _ruled(topology, route, rule, message_bytes))


def staging_times(
    message_bytes: float, piece_bytes: int, partners: int
) -> tuple[float, float, float]:
    """How much longer staging takes than if its two halves overlapped all the time.

    A piece is passed on when all of it has arrived, so the second half begins a piece later. A
    rank copies its messages to several partners one after the other, in the program's order. Where
    all partners of a rank send to it last, its second half waits for their other messages too.

    Args:
        message_bytes: typical of the traffic, above 0.
        piece_bytes: of the stack; 0 if not known, which adds no wait.
        partners: the most that a rank sends to in one phase.

    Returns:
        Factors on the time: with the best order of messages, halfway, with the worst.
    """
    if piece_bytes <= 0:
        return 1.0, 1.0, 1.0
    count = max(1, partners)
    least = 1 + min(1.0, piece_bytes / message_bytes) / count
    order = (count - 1) / count
    return least, least + order / 2, least + order


def slowed(topology: Topology, factor: float) -> Topology:
    """The machine with the capacity of each direction of its links divided by `factor`.

    A limit on both directions together stays: both halves of staged messages share it all the time.
    """

    def slower(quantity: Quantity) -> Quantity:
        return replace(quantity, value=quantity.value / factor)

    links = tuple(
        replace(
            link,
            forward_bytes_per_s=slower(link.forward_bytes_per_s),
            backward_bytes_per_s=slower(link.backward_bytes_per_s),
        )
        for link in topology.links
    )
    return replace(topology, links=links)


def _with_routes(topology: Topology, changed: Callable[[Route], Route]) -> Topology:
    devices = {device.id for device in topology.devices}
    routes = tuple(
        changed(route)
        if route.protocols and route.source in devices and route.target in devices
        else route
        for route in topology.routes
    )
    return replace(topology, routes=routes)


def _ruled(topology: Topology, route: Route, rule: ProtocolRule, message_bytes: float) -> Route:
    points: dict[int, CurvePoint] = {}
    ends = [first for first, _ in rule.pieces[1:]]
    for (first, protocol), end in zip(rule.pieces, [*ends, None], strict=True):
        curve = _route_for(topology, route, protocol).curve
        for point in _piece(curve, first, end):
            points[point.message_bytes] = point
    main = _route_for(topology, route, rule.protocol_of(message_bytes))
    return _through(route, main, tuple(points[size] for size in sorted(points)))


def _route_for(topology: Topology, route: Route, protocol: CopyProtocol) -> ProtocolRoute:
    """The curve of a protocol on a route, or that of staging where the pair cannot do it."""
    known = {option.protocol: option for option in route.protocols or ()}
    option = known.get(protocol) or known.get(CopyProtocol.STAGED)
    if option is None:
        raise InputError(
            f"{topology.name}: {route.source} -> {route.target} was measured neither by"
            f" {protocol.value} nor staged",
            hint=_HINT,
        )
    return option


def _piece(curve: RouteCurve, first: int, end: int | None) -> Iterator[CurvePoint]:
    """Points of a curve from size `first` to below `end`."""
    sizes = {point.message_bytes for point in curve.points}
    if first > 1:
        sizes.add(first)
    if end is not None and end - _AFTER >= 1:
        sizes.add(end - _AFTER)
    for size in sorted(sizes):
        if size >= first and (end is None or size < end):
            yield _point(curve, size)


def _point(curve: RouteCurve, size: int) -> CurvePoint:
    latency_s, bytes_per_s = curve.at(size)
    return CurvePoint(message_bytes=size, latency_s=latency_s, bytes_per_s=bytes_per_s)


def _through(route: Route, option: ProtocolRoute, points: tuple[CurvePoint, ...]) -> Route:
    """The route with the links of one protocol, limited by a curve alone."""
    staged = option.protocol is CopyProtocol.STAGED
    return replace(
        route,
        links=route.links if option.links is None else option.links,
        staged=staged if option.links is not None else route.staged,
        curve=RouteCurve(points=_thinned(points), source=Source.MEASURED),
        cap_bytes_per_s=None,
        latency_s=None,
        combined_bytes_per_s=option.combined_bytes_per_s
        or (None if staged else route.combined_bytes_per_s),
    )


def _thinned(points: tuple[CurvePoint, ...]) -> tuple[CurvePoint, ...]:
    """The points of the largest sizes, at most as many as a curve may have."""
    return points[-MAX_CURVE_POINTS:]
