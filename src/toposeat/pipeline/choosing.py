"""Devices for a job whose traffic is known, with as much as possible left for other jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, islice

from toposeat import mapping
from toposeat.model.device_set import DeviceSet
from toposeat.model.evaluation import MappingResult
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.pipeline.placing import map_traffic

_BUDGET_S = 1.0  # for other sets than the one that the mapper takes
_MOST_SETS = 200
_SAME = 1e-9  # predicted times that differ by a smaller share are the same


def choose_for_traffic(
    machine: Topology, traffic: Traffic, free: Sequence[int] | None = None
) -> DeviceSet:
    """The devices on which the traffic is predicted to be fastest; of equals, what leaves most.

    Args:
        machine: one node.
        traffic: one rank per device that is wanted.
        free: positions in `machine.devices`; None: all.
    """
    usable = mapping.free_devices(machine, traffic.ranks, free)
    best = _placed(machine, traffic, usable)
    results = {best.device_of_rank: best}
    end = time.perf_counter() + _BUDGET_S
    for devices in islice(combinations(usable, traffic.ranks), _MOST_SETS):
        if time.perf_counter() > end:
            break
        found = _placed(machine, traffic, devices)
        if found.placed.predicted_s <= best.placed.predicted_s * (1 + _SAME):
            results[found.device_of_rank] = found
    chosen = mapping.choose_by_placements(machine, list(results), usable)
    return replace(chosen, placement=results[chosen.devices])


def _placed(machine: Topology, traffic: Traffic, devices: Sequence[int]) -> MappingResult:
    constraints = Constraints(devices=list(devices))
    return map_traffic(machine, traffic, MapOptions(constraints=constraints))
