"""Looks at a running job: its records in place, and the links of this node that its pairs use."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toposeat import _core, profile
from toposeat.errors import ToposeatError
from toposeat.evaluation.network import compile_traffic, network_arrays
from toposeat.model.pair_table import PairTable
from toposeat.model.rank_info import RankInfo
from toposeat.model.runs import Glance
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.report.units import clean

Floats = NDArray[np.float64]


class JobWatch:
    """A job that is about to start.

    Args:
        topology: this node, for the busiest link; None: pairs only.
        why_not: what to say where there is no topology.
    """

    def __init__(self, topology: Topology | None, why_not: str = "") -> None:
        """The clock starts now."""
        self._read = profile.read_folders  # imported now, not at the first look
        self._links = None if topology is None else _Links(topology)
        self._why_not = why_not
        self._start = self._then = time.monotonic()
        self._before = 0

    def look(self, folder: Path) -> Glance | None:
        """What the records in a folder say now; None while there is none that can be read."""
        try:
            traffic = self._read(folder)
        except ToposeatError:  # the ranks are starting, or one is writing what was just read
            return None
        now = time.monotonic()
        seconds, self._then = now - self._then, now
        table = traffic.mapped_table()
        total = int(table.bytes.sum())
        before, self._before = self._before, total
        busiest, seating = None, self._why_not
        if self._links is not None:
            busiest, seating = self._links.look(traffic, table, seconds)
        return Glance(
            elapsed_s=now - self._start,
            ranks=traffic.ranks,
            seen=len(traffic.rank_info),
            bytes=total,
            messages=int(table.messages.sum()),
            bytes_per_s=max(0, total - before) / seconds,
            most=_most(table),
            busiest=busiest,
            seating=seating,
        )


def _most(table: PairTable) -> tuple[int, int, int] | None:
    if not len(table):
        return None
    at = int(table.bytes.argmax())
    return int(table.source[at]), int(table.target[at]), int(table.bytes[at])


class _Links:
    """The links of a node under the pairs of a job."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        arrays = network_arrays(topology)
        self._network, self._capacity = arrays.network(), arrays.capacity
        self._before: Floats = np.zeros((len(topology.links), 2))

    def look(
        self, traffic: Traffic, table: PairTable, seconds: float
    ) -> tuple[tuple[str, float] | None, str]:
        """The busiest link and its share, and which devices the ranks are taken for."""
        device_of_rank, seating = _seats(traffic, self._topology)
        if not device_of_rank:
            return None, seating
        device = np.full(traffic.ranks, -1)
        device[list(device_of_rank)] = list(device_of_rank.values())
        source, target = device[table.source], device[table.target]
        apart = (source >= 0) & (target >= 0) & (source != target)
        kept = PairTable(*(column[apart] for column in _columns(table)))
        if not len(kept):
            return None, seating
        flows = compile_traffic(traffic, kept)
        found = _core.congestion(self._network, flows, np.maximum(device, 0).tolist())
        load = np.stack([found.forward_bytes, found.backward_bytes], axis=1)
        rate = np.maximum(load - self._before, 0) / seconds
        self._before = load
        one_way = (rate / self._capacity[:, :2]).max(axis=1, initial=0.0)
        busy = np.maximum(one_way, rate.sum(axis=1) / self._capacity[:, 2])
        at = int(busy.argmax())
        return (self._topology.links[at].id, float(busy[at])), seating


def _columns(table: PairTable) -> tuple[NDArray[np.int64], ...]:
    return table.source, table.target, table.bytes, table.messages


def _seats(traffic: Traffic, topology: Topology) -> tuple[dict[int, int], str]:
    """The device of each rank of this node: where it sent from, else in the default order."""
    ranks = sorted(traffic.rank_info, key=lambda info: info.rank)
    used, name = _used(ranks, topology), clean(topology.name)
    if len(used) == len(ranks):
        return used, f"{name}; ranks on the devices that they use"
    if len(ranks) > len(topology.devices):
        devices = len(topology.devices)
        return {}, f"not known: {len(ranks)} ranks, {name} has {devices} devices"
    return {info.rank: at for at, info in enumerate(ranks)}, f"{name}; ranks in the default order"


def _used(ranks: Sequence[RankInfo], topology: Topology) -> dict[int, int]:
    place = {device.pci_bus_id: at for at, device in enumerate(topology.devices)}
    return {
        info.rank: place[info.device_pci_bus_id]
        for info in ranks
        if info.device_pci_bus_id is not None and info.device_pci_bus_id in place
    }
