"""From a topology and a traffic to a placement: device, CPUs, memory and NIC of each rank."""

from __future__ import annotations

from toposeat._core import scotch_available
from toposeat.evaluate import METRICS
from toposeat.mapping.binding import seat_ranks
from toposeat.mapping.mapper import OBJECTIVES, SOLVERS, map_traffic
from toposeat.mapping.problem import Constraints

__all__ = [
    "METRICS",
    "OBJECTIVES",
    "SOLVERS",
    "Constraints",
    "map_traffic",
    "scotch_available",
    "seat_ranks",
]
