"""How long a schedule of messages is predicted to take, with barriers or without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toposeat import _core
from toposeat.evaluation.evaluation import check_placement
from toposeat.evaluation.network import compile_network
from toposeat.model.pair_table import PairTable, Schedule
from toposeat.model.record import Record
from toposeat.model.topology import Topology


class ScheduleTime(Record, frozen=True, kw_only=True):
    """Predicted link time. `phase_end_s` has an entry per phase of each repeat, in order."""

    seconds: float
    phase_end_s: tuple[float, ...]


class ScheduleEvaluator:
    """One machine and one schedule, compiled once for any number of placements.

    Args:
        topology: the machine.
        schedule: phases of messages. A rank's messages to itself take no time.
        network: the compiled machine, where the caller has it.
    """

    def __init__(
        self, topology: Topology, schedule: Schedule, *, network: _core.Network | None = None
    ) -> None:
        self._topology = topology
        self._ranks = schedule.ranks
        self._repeats = schedule.repeats
        self._network = compile_network(topology) if network is None else network
        self._phases = [_compiled(phase, schedule.ranks) for phase in schedule.phases]

    def time(self, device_of_rank: Sequence[int], *, barrier: bool = False) -> ScheduleTime:
        """Predict the schedule under a placement; the core's flow/schedule.hpp has the model.

        Args:
            device_of_rank: for each rank a position in `topology.devices`.
            barrier: with it a phase begins when the whole phase before it is done; without it a
                rank goes on when its own messages are done, as programs without barriers do.
        """
        placement = tuple(int(device) for device in device_of_rank)
        check_placement(self._topology, self._ranks, placement)
        seconds, ends = _core.schedule_times(
            self._network, self._phases, self._repeats, placement, barrier
        )
        return ScheduleTime(seconds=seconds, phase_end_s=tuple(ends.tolist()))


def _compiled(phase: PairTable, ranks: int) -> _core.RankTraffic:
    keep = phase.source != phase.target
    return _core.RankTraffic(
        ranks=ranks,
        source=phase.source[keep].astype(np.uint32),
        target=phase.target[keep].astype(np.uint32),
        bytes=phase.bytes[keep].astype(np.float64),
        messages=phase.messages[keep].astype(np.float64),
    )
