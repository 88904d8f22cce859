"""Evaluate a placement of a traffic on a topology."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.errors import InputError
from toposeat.evaluation.compiled_machine import CompiledMachine
from toposeat.evaluation.metrics import PairCosts
from toposeat.evaluation.network import compile_traffic
from toposeat.model.evaluation import Evaluation, LinkLoad
from toposeat.model.latency import Latency
from toposeat.model.placement import Placement
from toposeat.model.topology import ANY_HOST, Topology
from toposeat.model.traffic import PairTable, Traffic

if TYPE_CHECKING:
    from toposeat.evaluation.group_time import GroupModel


def default_placement(ranks: int, topology: Topology) -> tuple[int, ...]:
    """Rank i on `topology.devices[i]`: what happens without toposeat.

    With more ranks than devices every device takes ceil(ranks / devices): hosts are filled in
    order, and within a host ranks take the devices in turn, as `local_rank % devices` does.
    """
    if ranks and not topology.devices:
        raise InputError(f"{topology.name!r} has no devices", hint="use another topology")
    rounds = -(-ranks // max(1, len(topology.devices)))
    seats = [
        position
        for host in topology.hosts
        for _ in range(rounds)
        for position, device in enumerate(topology.devices)
        if device.host == host
    ]
    return tuple(seats[:ranks])


class Evaluator:
    """One machine and one traffic, compiled once for any number of placements.

    Attributes:
        machine: the compiled machine.
        flows: the compiled traffic; flow i is row i of `table`.
        table: bytes and messages of the pairs of ranks that placement serves.
        cost_table: those that are charged the cost of their devices; of a group that its library
            orders itself, all pairs on a node evenly.
        groups: the time model of groups that a library orders itself; None without groups.
    """

    def __init__(
        self,
        topology: Topology,
        traffic: Traffic,
        *,
        metric: str = "bandwidth",
        machine: CompiledMachine | None = None,
    ) -> None:
        """Compile a traffic, and the machine unless it is compiled already."""
        self._topology, self._traffic = topology, traffic
        self._ranks, self._metric = traffic.ranks, metric
        self.machine = CompiledMachine(topology) if machine is None else machine
        self.table = traffic.mapped_table()
        if traffic.groups and len(topology.hosts) > 1:
            self.table = self._searched(even=False)
        self.flows = compile_traffic(traffic, self.table)
        self.groups: GroupModel | None = None
        if traffic.groups:
            # it costs 17 ms
            from toposeat.evaluation.group_time import GroupModel, phases_of  # noqa: PLC0415

            self.groups = GroupModel(self.machine, phases_of(traffic))

    @cached_property
    def in_turn(self) -> _core.RankTraffic:
        """The flows where a rank sends to one partner after the other."""
        return compile_traffic(self._traffic, self.table, in_turn=True)

    @cached_property
    def cost_table(self) -> PairTable:
        """See above."""
        is_table = not self._traffic.groups or not self._topology.devices
        return self.table if is_table else self._searched(even=True)

    def _searched(self, *, even: bool) -> PairTable:
        """The pairs of the channels that groups have in the default placement."""
        from toposeat.evaluation.channels import search_table  # noqa: PLC0415 - 2 ms

        channels = self.machine.channels.renumbered(self.default)
        return search_table(channels, self._traffic, even=even)

    @property
    def costs(self) -> PairCosts:
        """What a byte (and a message) between devices costs, by the metric asked for."""
        return self.machine.costs(self._metric)

    @property
    def default(self) -> tuple[int, ...]:
        """What a job has without a placement; see `default_placement`."""
        return default_placement(self._ranks, self._topology)

    def evaluate(self, device_of_rank: Sequence[int]) -> Evaluation:
        """Predict what a placement costs.

        Args:
            device_of_rank: for each rank a position in `topology.devices`. Ranks that share a
                device use no links with each other.

        Returns:
            The evaluation; `links` are those that some device-to-device route uses, idle ones
            included, busiest first. Congestion, hop-bytes and time are those of
            `core/include/toposeat` (problem/congestion.hpp, flow/flow.hpp).
        """
        placement = tuple(int(device) for device in device_of_rank)
        check_placement(self._topology, self._ranks, placement)
        if self.groups is not None:
            return self._evaluate_groups(self.groups, placement)
        congestion = _core.congestion(self.machine.network, self.flows, placement)
        times = _core.flow_times(self.machine.network, self.flows, placement)
        return Evaluation(
            device_of_rank=placement,
            max_congestion_s=congestion.max_s,
            mean_congestion_s=congestion.mean_s,
            cost=self._cost(placement),
            hop_bytes=congestion.hop_bytes,
            predicted_s=times.seconds,
            links=_link_loads(self._topology, congestion),
            latency=self._latency(times),
        )

    def _latency(self, times: _core.FlowTimes) -> Latency | None:
        """Of the rank whose rounds decide, else of the flow that ends last."""
        rank, last, table = times.waiting_rank, times.last_flow, self.table
        if rank is not None:
            rounds = self._traffic.rounds_of(table)[table.source == rank]
            return Latency(share=1.0, source=rank, messages=int(rounds.sum()))
        if last is None or not times.seconds:
            return None
        return Latency(
            share=float(times.start_s[last]) / times.seconds,
            source=int(table.source[last]),
            target=int(table.target[last]),
            messages=int(table.messages[last]),
        )

    def predicted_s(self, device_of_rank: Sequence[int]) -> float:
        """The seconds that `evaluate` predicts for a placement that fits, and nothing else."""
        if self.groups is not None:
            return sum(self.groups.seconds(device_of_rank))
        return _core.flow_time(self.machine.network, self.flows, tuple(device_of_rank))

    def _evaluate_groups(self, groups: GroupModel, placement: tuple[int, ...]) -> Evaluation:
        """With the rings that the groups' library forms on these devices."""
        times, uses, load = groups.evaluate(placement)
        congestion = groups.congestion(load)
        links = _used_links(self._topology, load.sum(axis=1), congestion)
        return Evaluation(
            device_of_rank=placement,
            max_congestion_s=max((each.congestion_s for each in links), default=0.0),
            mean_congestion_s=sum(each.congestion_s for each in links) / max(1, len(links)),
            cost=self._cost(placement),
            hop_bytes=float(load.sum()),
            predicted_s=sum(each.seconds for each in times),
            links=links,
            phases=times,
            groups=uses,
        )

    def _cost(self, placement: Sequence[int]) -> float:
        device = np.array(placement, np.intp)
        table = self.cost_table
        pairs = device[table.source], device[table.target]
        cost = float(table.bytes.astype(np.float64) @ self.costs.per_byte[pairs])
        if self.costs.per_message is not None:
            messages = table.messages.astype(np.float64)
            cost += float(messages @ self.costs.per_message[pairs])
        return cost


def evaluate(
    topology: Topology,
    traffic: Traffic,
    placement: Placement | Sequence[int],
    *,
    metric: str = "bandwidth",
) -> Evaluation:
    """Predict what one placement costs; for several on one machine, see `Evaluator`.

    Args:
        topology: the machine.
        traffic: who talks to whom.
        placement: a placement, or for each rank a position in `topology.devices`.
        metric: of the pairwise cost, one of `map_options.METRICS`.
    """
    if isinstance(placement, Placement):
        devices = device_positions(placement, topology, traffic.ranks)
    else:
        devices = tuple(int(device) for device in placement)
    check_placement(topology, traffic.ranks, devices)  # before the work of compiling
    return Evaluator(topology, traffic, metric=metric).evaluate(devices)


def device_positions(
    placement: Placement, topology: Topology, ranks: int, path: Path | None = None
) -> tuple[int, ...]:
    """`device_of_rank` of a placement on a topology, found by PCI bus id, else host and index."""
    places = [(d.host, d.pci_bus_id, d.index) for d in topology.devices]
    return positions_among(places, placement, ranks, topology.name, path)


def positions_among(
    places: Sequence[tuple[str, str | None, int | None]],
    placement: Placement,
    ranks: int,
    name: str,
    path: Path | None = None,
) -> tuple[int, ...]:
    """The place of each rank among those of a machine: host, PCI bus id and index of each.

    Where one bus id is not there, all are another machine's, and indices say which devices.
    """
    if placement.ranks != ranks:
        raise InputError(
            f"a placement for {placement.ranks} ranks; the traffic has {ranks}",
            path=path,
            hint="map this traffic again: toposeat map TRAFFIC -t SRC -o F",
        )
    # Nodes of one kind have the same bus ids: with several hosts, the host tells them apart.
    by_pci: dict[tuple[str, str | None], int]
    by_pci = {(host, bus): at for at, (host, bus, _) in enumerate(places) if bus}
    by_index = {(host, index): at for at, (host, _, index) in enumerate(places)}
    hosts = {host for host, _, _ in places}
    only_host = min(hosts) if len(hosts) == 1 else None
    found = []
    buses = [(only_host or seat.host, seat.pci_bus_id) for seat in placement.seats]
    is_known = all(each in by_pci for each in buses if each[1])
    for seat, bus in zip(placement.seats, buses, strict=True):
        host = only_host if only_host and ANY_HOST in (seat.host, only_host) else seat.host
        at = by_pci.get(bus) if is_known else None
        at = by_index.get((host, seat.index)) if at is None else at
        if at is None:
            is_here = only_host or seat.host in hosts
            what = f"device {seat.pci_bus_id or seat.index}" if is_here else f"host {seat.host}"
            raise InputError(
                f"rank {seat.rank}: {name} has no {what}",
                path=path,
                hint="this placement was made for another machine, or for other hosts than --hosts"
                " names, or another node than --node",
            )
        found.append(at)
    return tuple(found)


def check_placement(topology: Topology, ranks: int, device_of_rank: Sequence[int]) -> None:
    """Refuse a placement that does not give each rank a device; several ranks may share one."""
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
    nbytes = congestion.forward_bytes + congestion.backward_bytes
    return _used_links(topology, nbytes, congestion.seconds)


def _used_links(
    topology: Topology, nbytes: NDArray[np.float64], seconds: NDArray[np.float64]
) -> tuple[LinkLoad, ...]:
    """What each link carries that some route between devices uses, busiest first."""
    devices = {device.id for device in topology.devices}
    used = {
        link
        for route in topology.routes
        if route.source in devices and route.target in devices
        for link in route.links
    }
    loads = [
        LinkLoad(link=link.id, kind=link.kind, bytes=float(each), congestion_s=float(time))
        for link, each, time in zip(topology.links, nbytes, seconds, strict=True)
        if link.id in used
    ]
    return tuple(sorted(loads, key=lambda load: -load.congestion_s))  # stable: ties as in topology
