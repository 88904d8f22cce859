"""What one flow reaches on a route of an idle machine, and where that number comes from."""

from __future__ import annotations

from toposeat.model.quantity import Quantity
from toposeat.model.topology import Route, Topology


def flow_rate(topology: Topology, route: Route) -> Quantity | None:
    """The cap of a route, or its narrowest link in the direction of travel; None without links."""
    here = route.source
    rates: list[Quantity] = []
    for id in route.links:
        link = topology.link_of_id[id]
        forward = here == link.ends[0]
        rates.append(link.forward_bytes_per_s if forward else link.backward_bytes_per_s)
        here = link.ends[1] if forward else link.ends[0]
    if route.cap_bytes_per_s is not None:
        rates.append(route.cap_bytes_per_s)
    return min(rates, key=lambda rate: rate.value, default=None)
