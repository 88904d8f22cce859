"""From a topology and a traffic to a placement: device, CPUs, memory and NIC of each rank."""

from __future__ import annotations

from toposeat._core import scotch_available
from toposeat.evaluation import METRICS
from toposeat.mapping.binding import seat_ranks
from toposeat.mapping.cluster import shape_of_network
from toposeat.mapping.mapper import OBJECTIVES, SOLVERS, map_traffic
from toposeat.mapping.problem import Constraints, problem_of
from toposeat.mapping.scale import map_to_shape, seat_slots
from toposeat.mapping.shapes import Shape, is_shape, read_shape
from toposeat.mapping.slot_evaluation import SlotEvaluator

__all__ = [
    "METRICS",
    "OBJECTIVES",
    "SOLVERS",
    "Constraints",
    "Shape",
    "SlotEvaluator",
    "is_shape",
    "map_to_shape",
    "map_traffic",
    "problem_of",
    "read_shape",
    "scotch_available",
    "seat_ranks",
    "seat_slots",
    "shape_of_network",
]
