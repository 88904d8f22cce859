"""Devices for a job whose traffic is known, with as much as possible left for other jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, compress, islice
from operator import le

from toposeat import mapping
from toposeat.evaluation import Evaluator, OpenMachine, Scenarios
from toposeat.model.device_set import DeviceSet
from toposeat.model.evaluation import MappingResult
from toposeat.model.map_options import Constraints, MapOptions
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.pipeline.placing import open_machine

_MOST_SETS = 40  # besides the one that the mapper takes
_SAME = 1e-9  # predicted times that differ by a smaller share are the same


def choose_for_traffic(
    machine: Topology, traffic: Traffic, free: Sequence[int] | None = None
) -> DeviceSet:
    """Those that the mapper takes, or others as fast in every scenario that leave most.

    Args:
        machine: one node.
        traffic: one rank per device that is wanted.
        free: positions in `machine.devices`; None: all.
    """
    usable = mapping.free_devices(machine, traffic.ranks, free)
    machines = open_machine(machine)
    best = _placed(machines, traffic, usable)
    results = {best.device_of_rank: best}
    for devices in islice(combinations(usable, traffic.ranks), _MOST_SETS):
        found = _placed(machines, traffic, devices)
        results.setdefault(found.device_of_rank, found)
    evaluator = Evaluator(machine, traffic, machine=machines.nominal)
    everywhere = Scenarios(evaluator, machines).outlook([*results]).everywhere
    limit = (everywhere[:, 0] * (1 + _SAME)).tolist()
    is_as_fast = (all(map(le, values, limit)) for values in everywhere.T.tolist())
    results = dict(compress(results.items(), is_as_fast))
    chosen = mapping.choose_by_placements(machine, list(results), usable, machine=machines)
    return replace(chosen, placement=results[chosen.devices])


def _placed(machines: OpenMachine, traffic: Traffic, devices: Sequence[int]) -> MappingResult:
    options = MapOptions(constraints=Constraints(devices=list(devices)))
    return mapping.map_traffic(machines.nominal.topology, traffic, options, machine=machines)
