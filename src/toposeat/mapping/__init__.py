"""Choose a placement for a traffic on a topology: device, CPUs, memory and NIC of each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.mapping.asking import ask
    from toposeat.mapping.binding import seat_ranks, seat_slots, with_reserved_cpus
    from toposeat.mapping.borrowing import Ways, nearest_devices, price_of, uses_of, with_ways
    from toposeat.mapping.choose import choose_by_placements, choose_devices, free_devices
    from toposeat.mapping.cluster import shape_of_network, stages_of_network
    from toposeat.mapping.given import assess
    from toposeat.mapping.joined import MOST_DEVICES, join_hosts
    from toposeat.mapping.machine import Machine, needs_devices
    from toposeat.mapping.mapper import map_traffic, with_hosts
    from toposeat.mapping.problem import problem_of
    from toposeat.mapping.scale import check_scale, map_to_shape
    from toposeat.mapping.shapes import Shape, is_shape, read_shape
    from toposeat.mapping.slot_evaluation import SlotEvaluator
else:
    __getattr__ = door(__name__, __file__)
