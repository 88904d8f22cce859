"""How long a schedule of messages is predicted to take, with barriers or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toposeat import _core
from toposeat.evaluate.evaluation import check_placement
from toposeat.evaluate.network import compile_network
from toposeat.model.schedule import Schedule
from toposeat.model.topology import Topology


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleTime:
    """Predicted link time. `phase_end_s` has an entry per phase of each repeat, in order."""

    seconds: float
    phase_end_s: tuple[float, ...]


def schedule_time(
    topology: Topology,
    schedule: Schedule,
    device_of_rank: Sequence[int],
    *,
    barrier: bool = False,
) -> ScheduleTime:
    """Predict a schedule under a placement; core/include/toposeat/schedule.hpp states the model.

    Args:
        topology: the machine.
        schedule: phases of messages. A rank's messages to itself take no time.
        device_of_rank: for each rank a position in `topology.devices`.
        barrier: a phase begins when the whole phase before it is done. Without, a rank goes on when
            all its own messages are, as programs without barriers do.

    Raises:
        InputError: if the placement does not fit, or the topology lacks a route or a capacity.
    """
    placement = tuple(int(device) for device in device_of_rank)
    check_placement(topology, schedule.ranks, placement)
    phases = []
    for phase in schedule.phases:
        keep = phase.source != phase.target
        phases.append(
            _core.RankTraffic(
                ranks=schedule.ranks,
                source=phase.source[keep].astype(np.uint32),
                target=phase.target[keep].astype(np.uint32),
                bytes=phase.bytes[keep].astype(np.float64),
                messages=phase.messages[keep].astype(np.float64),
            )
        )
    network = compile_network(topology)
    seconds, ends = _core.schedule_times(network, phases, schedule.repeats, placement, barrier)
    return ScheduleTime(seconds=seconds, phase_end_s=tuple(ends.tolist()))
