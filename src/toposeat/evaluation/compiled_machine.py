"""A machine as the core takes it: made once for any number of traffics, with any of its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toposeat import _core
from toposeat.evaluation.metrics import PairCosts, pair_costs
from toposeat.evaluation.network import NetworkArrays, network_arrays
from toposeat.model.topology import Topology

if TYPE_CHECKING:
    from toposeat.evaluation.channels import Channels
    from toposeat.evaluation.group_rates import GroupRates

_MOST_MOVED = 80  # machines that are kept: as many as one traffic is looked at on


class CompiledMachine:
    """The numbers of one machine, and what was found out about them.

    Attributes:
        topology: the machine.
        arrays: its numbers; all else follows from them.
        loads: of groups (`group_time.GroupModel`), by how they exchange and their devices.
        fastest: by size of groups and devices what sets of these reach (`mapping.set_cover`).
    """

    def __init__(
        self,
        topology: Topology,
        nominal: CompiledMachine | None = None,
        factors: Mapping[int, float] | None = None,
    ) -> None:
        """Compile a machine, or the same `nominal` one with other numbers: see `at`."""
        self.topology = topology
        self.arrays: NetworkArrays = (
            network_arrays(topology) if nominal is None else nominal.arrays.scaled(factors or {})
        )
        self.loads: dict[tuple[object, ...], tuple[float, NDArray[np.float64]]] = {}
        self.fastest: dict[tuple[int, tuple[int, ...]], NDArray[np.float64]] = {}
        self._nominal = nominal
        self._costs: dict[str, PairCosts] = {}
        self._moved: dict[tuple[tuple[int, float], ...], CompiledMachine] = {}

    @cached_property
    def network(self) -> _core.Network:
        """The machine of the core."""
        return self.arrays.network()

    @cached_property
    def isolated_rate(self) -> NDArray[np.float64]:
        """Bytes per second of a single flow of each pair on idle links."""
        return self.arrays.isolated_rate()

    @cached_property
    def rates(self) -> GroupRates:
        """Of the sets of devices."""
        from toposeat.evaluation.group_rates import GroupRates  # noqa: PLC0415 - 8 ms

        if self._nominal is not None:  # which knows sets that are wired alike
            return self._nominal.rates.at(self.arrays)
        return GroupRates(self.topology)

    @cached_property
    def channels(self) -> Channels:
        """Of groups of its devices."""
        from toposeat.evaluation.channels import channels_of  # noqa: PLC0415 - 2 ms

        return channels_of(self.topology)

    def costs(self, metric: str) -> PairCosts:
        """What a byte and a message between devices cost by a metric, with nominal numbers."""
        if metric not in self._costs:
            self._costs[metric] = pair_costs(self.topology, metric)
        return self._costs[metric]

    def at(self, factors: Mapping[int, float]) -> CompiledMachine:
        """The machine whose premises (by position) are these multiples of their nominal values."""
        key = tuple(sorted(factors.items()))
        if key not in self._moved:
            if len(self._moved) == _MOST_MOVED:
                self._moved.clear()
            self._moved[key] = CompiledMachine(self.topology, self, factors)
        return self._moved[key]
