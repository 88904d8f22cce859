"""From a topology, a traffic and a placement to an `Evaluation`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toposeat import _core
from toposeat.errors import InputError
from toposeat.evaluate.metrics import cost_matrix
from toposeat.evaluate.network import compile_network, compile_traffic
from toposeat.model.evaluation import Evaluation, LinkLoad
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic


def default_placement(ranks: int, topology: Topology) -> tuple[int, ...]:
    """Rank i on `topology.devices[i]`: what happens without toposeat.

    Raises:
        InputError: if there are more ranks than devices.
    """
    if ranks > len(topology.devices):
        raise InputError(
            f"{ranks} ranks do not fit on the {len(topology.devices)} devices of {topology.name!r}",
            hint="use a topology with a device for each rank",
        )
    return tuple(range(ranks))


def evaluate(
    topology: Topology,
    traffic: Traffic,
    device_of_rank: Sequence[int],
    *,
    metric: str = "bandwidth",
) -> Evaluation:
    """Predict what a placement costs.

    Args:
        topology: the machine.
        traffic: who talks to whom; `Traffic.mapped_table` says which bytes count.
        device_of_rank: for each rank a position in `topology.devices`, none twice.
        metric: of the cost, see `cost_matrix`.

    Returns:
        The evaluation; `links` are those that some device-to-device route uses, idle ones included,
        busiest first. Congestion, hop-bytes and time are those of `core/include/toposeat`
        (congestion.hpp, flow.hpp).

    Raises:
        UsageError: on an unknown metric.
        InputError: if the placement does not fit the traffic and the topology, or the topology
            lacks a route or a capacity.
    """
    placement = tuple(int(device) for device in device_of_rank)
    check_placement(topology, traffic.ranks, placement)
    network = compile_network(topology)
    flows = compile_traffic(traffic)
    congestion = _core.congestion(network, flows, placement)
    return Evaluation(
        device_of_rank=placement,
        max_congestion_s=congestion.max_s,
        mean_congestion_s=congestion.mean_s,
        cost=_cost(topology, traffic, placement, metric),
        hop_bytes=congestion.hop_bytes,
        predicted_s=_core.flow_time(network, flows, placement),
        links=_link_loads(topology, congestion),
    )


def check_placement(topology: Topology, ranks: int, device_of_rank: Sequence[int]) -> None:
    """Refuse a placement that does not give each rank a device of its own.

    Raises:
        InputError: naming the first rank that is wrong.
    """
    hint = "map again for this traffic and topology: toposeat map"
    if len(device_of_rank) != ranks:
        raise InputError(
            f"the placement has {len(device_of_rank)} ranks, the traffic has {ranks}", hint=hint
        )
    seen: dict[int, int] = {}
    for rank, device in enumerate(device_of_rank):
        if not 0 <= device < len(topology.devices):
            raise InputError(
                f"rank {rank}: device {device} does not exist in {topology.name!r}, which has "
                f"{len(topology.devices)}",
                hint=hint,
            )
        if device in seen:
            raise InputError(
                f"rank {rank}: device {device} is taken by rank {seen[device]}", hint=hint
            )
        seen[device] = rank


def _cost(
    topology: Topology, traffic: Traffic, device_of_rank: tuple[int, ...], metric: str
) -> float:
    device = np.array(device_of_rank, np.intp)
    table = traffic.mapped_table()
    pair_cost = cost_matrix(topology, metric)[device[table.source], device[table.target]]
    return float(table.bytes.astype(np.float64) @ pair_cost)


def _link_loads(topology: Topology, congestion: _core.Congestion) -> tuple[LinkLoad, ...]:
    devices = {device.id for device in topology.devices}
    used = {
        link
        for route in topology.routes
        if route.source in devices and route.target in devices
        for link in route.links
    }
    nbytes = congestion.forward_bytes + congestion.backward_bytes
    loads = [
        LinkLoad(link=link.id, kind=link.kind, bytes=float(each), congestion_s=float(seconds))
        for link, each, seconds in zip(topology.links, nbytes, congestion.seconds, strict=True)
        if link.id in used
    ]
    return tuple(sorted(loads, key=lambda load: -load.congestion_s))  # stable: ties as in topology
