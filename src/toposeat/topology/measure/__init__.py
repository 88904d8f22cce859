"""What GPUs really reach, measured between processes: pairs alone, and sets of pairs at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.topology.measure.host import measure_host
    from toposeat.topology.measure.learned import (
        facts_of_measurement,
        measured_topology,
        pair_numbers,
        topology_of_measurement,
    )
    from toposeat.topology.measure.pairs import (
        Copiers,
        measure_both_ways,
        measure_pairs,
        tournament,
    )
    from toposeat.topology.measure.protocol_routes import with_protocols
    from toposeat.topology.measure.raw_results import raw_file
    from toposeat.topology.measure.remarks import check_machine, fallen_back, unseen_devices
    from toposeat.topology.measure.results import PROTOCOLS, PairResults
    from toposeat.topology.measure.route_numbers import with_both_ways, with_curves, with_spreads
    from toposeat.topology.measure.sharing import SharedLink, find_shared_links, try_sets
    from toposeat.topology.measure.workers import Copying, MeasureError, Workers
else:
    __getattr__ = door(
        __name__,
        {
            ".host": "measure_host",
            ".learned": "facts_of_measurement measured_topology pair_numbers"
            " topology_of_measurement",
            ".pairs": "Copiers measure_both_ways measure_pairs tournament",
            ".protocol_routes": "with_protocols",
            ".raw_results": "raw_file",
            ".remarks": "check_machine fallen_back unseen_devices",
            ".results": "PROTOCOLS PairResults",
            ".route_numbers": "with_both_ways with_curves with_spreads",
            ".sharing": "SharedLink find_shared_links try_sets",
            ".workers": "Copying MeasureError Workers",
        },
    )
