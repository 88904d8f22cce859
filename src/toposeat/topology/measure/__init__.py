"""What GPUs really reach, measured between processes: pairs alone, and sets of pairs at once."""

from __future__ import annotations

from toposeat.topology.measure.host import measure_host
from toposeat.topology.measure.learned import (
    facts_of_measurement,
    measured_topology,
    pair_numbers,
    topology_of_measurement,
)
from toposeat.topology.measure.pairs import Copiers, measure_both_ways, measure_pairs, tournament
from toposeat.topology.measure.protocol_routes import with_protocols
from toposeat.topology.measure.raw_file import raw_file
from toposeat.topology.measure.remarks import check_machine, fallen_back, unseen_devices
from toposeat.topology.measure.results import PROTOCOLS, PairResults
from toposeat.topology.measure.route_numbers import with_both_ways, with_curves, with_spreads
from toposeat.topology.measure.sharing import SharedLink, find_shared_links, try_sets
from toposeat.topology.measure.workers import Copying, MeasureError, Workers

__all__ = [
    "PROTOCOLS",
    "Copiers",
    "Copying",
    "MeasureError",
    "PairResults",
    "SharedLink",
    "Workers",
    "check_machine",
    "facts_of_measurement",
    "fallen_back",
    "find_shared_links",
    "measure_both_ways",
    "measure_host",
    "measure_pairs",
    "measured_topology",
    "pair_numbers",
    "raw_file",
    "topology_of_measurement",
    "tournament",
    "try_sets",
    "unseen_devices",
    "with_both_ways",
    "with_curves",
    "with_protocols",
    "with_spreads",
]
