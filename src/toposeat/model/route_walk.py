"""Whether routes are walks over the links of their topology, from their source to their target."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from toposeat.model.route import Route

_Ends = Mapping[str, tuple[str, str]]  # of a link, by its id


def first_fault(
    routes: Sequence[Route], ends: _Ends, known: Collection[str]
) -> tuple[int, str] | None:
    """The first route that is no walk, by number, with what is wrong with it; None if all are.

    Args:
        routes: from vertex to vertex.
        ends: the two vertices of each link, by its id.
        known: ids of the vertices.
    """
    arrived: dict[str, dict[tuple[str, ...], str]] = {}
    faults: list[tuple[int, str]] = []
    # Shorter routes first: in a ring or mesh most routes are a shorter one and one more link, so
    # that only the last of their links is checked. 256 devices have some four million links in all.
    for number in sorted(range(len(routes)), key=lambda i: len(routes[i].links)):
        route = routes[number]
        if route.source not in known or route.target not in known:
            faults.append((number, "has an unknown end"))
            continue
        before = arrived.setdefault(route.source, {(): route.source})
        fault = _fault_of_route(route, ends, before)
        if fault:
            faults.append((number, fault))
        elif not route.staged:
            before[route.links] = route.target
    return min(faults, default=None)


def _fault_of_route(route: Route, ends: _Ends, before: Mapping[tuple[str, ...], str]) -> str:
    """What is wrong with a route; "" if nothing is.

    `before`: the ends of checked walks from its source, by their links; none uses a link twice.
    """
    fault = "" if _goes_on(route, ends, before) else _fault_of_links(route, ends)
    for way in route.protocols or ():
        if not fault and way.links is not None:
            fault = _fault_of_walk(route, ends, way.links)
            fault = fault and f"by {way.protocol.value} {fault}"
    return fault


def _goes_on(route: Route, ends: _Ends, before: Mapping[tuple[str, ...], str]) -> bool:
    """Whether the route is a checked walk and one more link, which the walk does not use."""
    if not route.links:
        return False
    others, last = route.links[:-1], route.links[-1]
    here = before.get(others)
    if here is None or last in others:
        return False
    return ends.get(last) in ((here, route.target), (route.target, here))


def _fault_of_links(route: Route, ends: _Ends) -> str:
    fault = _fault_of_walk(route, ends, route.links)
    if not fault and not route.staged and len(set(route.links)) < len(route.links):
        return "uses a link twice: only a staged route may go back over a link"
    return fault


def _fault_of_walk(route: Route, ends: _Ends, links: tuple[str, ...]) -> str:
    """What is wrong with the route's links, or with those of one of its protocols."""
    here = route.source
    walked: set[tuple[str, str]] = set()  # links, and the end they were walked from
    for link in links:
        pair = ends.get(link)
        if pair is None:
            return f"uses unknown link {link!r}"
        if here not in pair:
            return f"goes on from {here!r}, but not its link {link!r}"
        if (link, here) in walked:
            return f"uses a link twice: {link!r} in one direction"
        walked.add((link, here))
        here = pair[1] if here == pair[0] else pair[0]
    return "" if here == route.target else f"stops at {here!r}"
