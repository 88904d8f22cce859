"""What a placement says of the numbers that it rests on: open words where some are not known."""

from __future__ import annotations

from toposeat.model.quantity import Source
from toposeat.model.topology import MEASURED_PORTS, Topology


def number_notes(topology: Topology) -> list[str]:
    """Notes on a machine whose pairs are measured in part, or whose shared links are not known.

    A machine of nominal numbers alone needs none: every table of its links says so.
    """
    ids = {device.id for device in topology.devices}
    routes = [r for r in topology.routes if r.source in ids and r.target in ids]
    known = sum(
        r.cap_bytes_per_s is not None and r.cap_bytes_per_s.source is not Source.NOMINAL
        for r in routes
    )
    notes = []
    if topology.origin.startswith("merged: ") and 0 < known < len(routes):
        notes.append(
            f"the bandwidths of {len(routes) - known} of {len(routes)} pairs are nominal, the"
            " others measured: differences between the two kinds may be those of the table"
        )
    if any(component.id == MEASURED_PORTS for component in topology.components):
        notes.append(
            "the links that some pairs share are not known: transfers that meet on them are"
            " predicted too fast"
        )
    return notes
