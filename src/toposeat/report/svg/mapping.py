"""A placement as a standalone SVG file."""

from __future__ import annotations

from toposeat.model.evaluation import MappingResult
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.report.svg.element import Sheet, drawn_size
from toposeat.report.svg.machine import mapping_pictures, origin_words
from toposeat.report.svg.network import network_sheet
from toposeat.report.units import clean
from toposeat.report.view.machine import device_code, topology_sentence
from toposeat.report.view.mapping import said_of
from toposeat.report.view.traffic import traffic_sentence


def mapping_svg(
    result: MappingResult, topology: Topology | None, traffic: Traffic, *, created: str = ""
) -> str:
    """The machine with its ranks before and after; of a network both, and its busiest links.

    `topology` is None where devices are not listed. The drawing does not read the clock: `created`
    is the day.
    """
    if topology is None or result.stages:
        return network_sheet(result, traffic, created)
    picture = mapping_pictures(result, topology)[0]
    sheet = Sheet(topology_sentence(topology), max(drawn_size(picture.svg)[0] + 32, 480.0))
    sheet.line(traffic_sentence(traffic))
    for said in said_of(result):
        sheet.line(said.words, said.look)
    sheet.line(origin_words(topology, created), "axis")
    sheet.picture(picture)
    sheet.list_line(topology_sentence(topology), "title")
    for _, words in picture.legend:
        sheet.list_line(words)
    for rank, device in enumerate(result.device_of_rank):
        moved = ", moved" if rank in result.moved_ranks else ""
        sheet.list_line(f"rank {rank}: {device_code(topology, device)}{moved}")
    return sheet.svg(f"placement on {clean(topology.name)}")
