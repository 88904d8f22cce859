"""What GPUs really reach, measured between processes: pairs alone, and sets of pairs at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.topology.measure.learned import (
        check_machine,
        facts_of_measurement,
        fallen_back,
        measured_topology,
        measurement_of,
        pair_numbers,
        topology_of_measurement,
        unseen_devices,
        with_results,
    )
    from toposeat.topology.measure.pairs import (
        Copiers,
        SharedLink,
        measure_both_ways,
        measure_host,
        measure_pairs,
        tournament,
        try_sets,
    )
    from toposeat.topology.measure.results import PROTOCOLS, PairResults
    from toposeat.topology.measure.workers import Copying, MeasureError, Workers
else:
    __getattr__ = door(__name__, __file__)
