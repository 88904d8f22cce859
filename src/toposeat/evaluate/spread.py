"""The machine as it might be: every number moved within its spread."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from toposeat.evaluate.network import NetworkArrays, network_arrays
from toposeat.model.quantity import Quantity, Source
from toposeat.model.topology import Topology

STATED_SPREAD = 0.10  # of numbers whose spread nobody recorded
SPREAD_KEY = "measured_spread"  # in `Topology.metadata`: relative, of all measured numbers


class SpreadMachine:
    """Draws machines whose capacities, pair caps and latencies differ by their spread.

    A number x with spread s becomes x times a factor that is uniform in [1 - s, 1 + s], every
    direction of a link, combined capacity, cap and latency on its own. The spread of measured
    numbers is what the topology's metadata says under `measured_spread`, if it does; of all others
    `STATED_SPREAD`. `middle` is the machine as it stands.
    """

    def __init__(self, topology: Topology) -> None:
        self.middle = network_arrays(topology)
        self.measured_spread = _recorded_spread(topology)
        links = topology.links
        self._capacity = np.array(
            [
                [
                    self._spread(link.forward_bytes_per_s),
                    self._spread(link.backward_bytes_per_s),
                    self._spread(link.combined_bytes_per_s),
                ]
                for link in links
            ],
            np.float64,
        ).reshape(-1, 3)
        self._latency = np.array([self._spread(link.latency_s) for link in links], np.float64)
        cap_of_pair = [
            self._spread(None if route is None else route.cap_bytes_per_s)
            for route in (
                topology.route_of_pair.get((a.id, b.id))
                for a in topology.devices
                for b in topology.devices
            )
        ]
        self._cap = np.array(cap_of_pair, np.float64)

    def draw(self, generator: np.random.Generator) -> NetworkArrays:
        """One machine; the same generator state gives the same one."""
        arrays = self.middle

        def moved(values: NDArray[np.float64], spread: NDArray[np.float64]) -> NDArray[np.float64]:
            return values * (1 + spread * generator.uniform(-1, 1, values.shape))

        return dataclasses.replace(
            arrays,
            capacity=moved(arrays.capacity, self._capacity),
            link_latency=moved(arrays.link_latency, self._latency),
            cap=moved(arrays.cap, self._cap),
        )

    def _spread(self, quantity: Quantity | None) -> float:
        if quantity is not None and quantity.source is Source.MEASURED:
            return STATED_SPREAD if self.measured_spread is None else self.measured_spread
        return STATED_SPREAD


def _recorded_spread(topology: Topology) -> float | None:
    try:
        spread = float(topology.metadata[SPREAD_KEY])
    except (KeyError, ValueError):
        return None
    return spread if 0 <= spread < 1 else None
