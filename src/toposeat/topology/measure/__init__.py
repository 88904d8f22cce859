"""What GPUs really reach, measured between processes: pairs alone, and sets of pairs at once."""

from __future__ import annotations

from toposeat.topology.measure.learned import (
    facts_of_measurement,
    measured_topology,
    topology_of_measurement,
)
from toposeat.topology.measure.pairs import PROTOCOLS, PairResults, measure_pairs, tournament
from toposeat.topology.measure.sharing import SharedLink, find_shared_links
from toposeat.topology.measure.workers import MeasureError, Workers

__all__ = [
    "PROTOCOLS",
    "MeasureError",
    "PairResults",
    "SharedLink",
    "Workers",
    "facts_of_measurement",
    "find_shared_links",
    "measure_pairs",
    "measured_topology",
    "topology_of_measurement",
    "tournament",
]
