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


class Evaluator:
    """One machine and one traffic, compiled once for any number of placements.

    Attributes:
        network: the compiled machine.
        flows: the compiled traffic.
        cost: n x n relative cost of a byte between devices, by the metric asked for.

    Raises:
        UsageError: on an unknown metric.
        InputError: if the topology lacks a route or a capacity.
    """

    def __init__(self, topology: Topology, traffic: Traffic, *, metric: str = "bandwidth") -> None:
        self._topology = topology
        self._ranks = traffic.ranks
        self._table = traffic.mapped_table()
        self.network = compile_network(topology)
        self.flows = compile_traffic(traffic)
        self.cost = cost_matrix(topology, metric)

    def evaluate(self, device_of_rank: Sequence[int]) -> Evaluation:
        """Predict what a placement costs.

        Args:
            device_of_rank: for each rank a position in `topology.devices`. Ranks that share a
                device use no links with each other.

        Returns:
            The evaluation; `links` are those that some device-to-device route uses, idle ones
            included, busiest first. Congestion, hop-bytes and time are those of
            `core/include/toposeat` (congestion.hpp, flow.hpp).

        Raises:
            InputError: if the placement does not fit the traffic and the topology.
        """
        placement = tuple(int(device) for device in device_of_rank)
        check_placement(self._topology, self._ranks, placement)
        congestion = _core.congestion(self.network, self.flows, placement)
        device = np.array(placement, np.intp)
        pair_cost = self.cost[device[self._table.source], device[self._table.target]]
        return Evaluation(
            device_of_rank=placement,
            max_congestion_s=congestion.max_s,
            mean_congestion_s=congestion.mean_s,
            cost=float(self._table.bytes.astype(np.float64) @ pair_cost),
            hop_bytes=congestion.hop_bytes,
            predicted_s=_core.flow_time(self.network, self.flows, placement),
            links=_link_loads(self._topology, congestion),
        )


def evaluate(
    topology: Topology,
    traffic: Traffic,
    device_of_rank: Sequence[int],
    *,
    metric: str = "bandwidth",
) -> Evaluation:
    """Predict what one placement costs; for several on one machine, see `Evaluator`.

    Raises:
        UsageError: on an unknown metric.
        InputError: if the placement does not fit the traffic and the topology, or the topology
            lacks a route or a capacity.
    """
    placement = tuple(int(device) for device in device_of_rank)
    check_placement(topology, traffic.ranks, placement)  # before the work of compiling
    return Evaluator(topology, traffic, metric=metric).evaluate(placement)


def check_placement(topology: Topology, ranks: int, device_of_rank: Sequence[int]) -> None:
    """Refuse a placement that does not give each rank a device; several ranks may share one.

    Raises:
        InputError: naming the first rank that is wrong.
    """
    hint = "map again for this traffic and topology: toposeat map"
    if len(device_of_rank) != ranks:
        raise InputError(
            f"the placement has {len(device_of_rank)} ranks, the traffic has {ranks}", hint=hint
        )
    for rank, device in enumerate(device_of_rank):
        if not 0 <= device < len(topology.devices):
            raise InputError(
                f"rank {rank}: device {device} does not exist in {topology.name!r}, which has "
                f"{len(topology.devices)}",
                hint=hint,
            )


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
