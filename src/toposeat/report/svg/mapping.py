"""A placement as a standalone SVG file."""

from __future__ import annotations

from toposeat.model.evaluation import MappingResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.report.svg.element import Sheet
from toposeat.report.svg.machine import mapping_pictures
from toposeat.report.svg.network import network_sheet
from toposeat.report.view.machine import topology_sentence


def mapping_svg(result: MappingResult, topology: Topology | None, traffic: Traffic) -> str:
    """The machine with its ranks, by default and as placed; of a network also its busiest links.

    Args:
        result: the mapping.
        topology: its machine; None where devices are not listed.
        traffic: what is placed.
    """
    if topology is None or result.stages:
        return network_sheet(result, traffic)
    sheet = Sheet(topology_sentence(topology))
    for picture in mapping_pictures(result, topology):
        sheet.picture(picture)
    return sheet.svg(f"placement on {topology.name}")
