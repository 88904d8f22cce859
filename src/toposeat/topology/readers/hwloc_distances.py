"""NVLinks from hwloc's distance matrix `NVLinkBandwidth` (MB/s per direction)."""

from __future__ import annotations

import re
from collections import Counter

from toposeat.model.topology import FactKind
from toposeat.topology import products
from toposeat.topology.graph.device_bonds import add_bonds, add_fabrics
from toposeat.topology.graph.graph_builder import GraphBuilder
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.xml_tree import XmlElement

_MAX_OBJECTS = 4096
_TAGS = ("distances2", "distances2hetero")


def add_nvlink_distances(
    builder: GraphBuilder,
    root: XmlElement,
    id_of_object: dict[str, str],
    numa_of: dict[str, str],
    file: FileText,
) -> None:
    """Add a bond for every pair of GPUs with a bandwidth, and ports to NVSwitches and CPUs.

    Args:
        builder: already holds the devices.
        root: of the export.
        id_of_object: device ids by the gp_index of their objects.
        numa_of: the NUMA vertex of each device, by id.
        file: for messages.

    Raises:
        InputError: the matrix is damaged.
    """
    packages = {e.get("gp_index") for e in root.walk() if e.get("type") in ("Package", "NUMANode")}
    for matrix in (child for child in root.children if child.tag in _TAGS):
        if not matrix.get("name").startswith("NVLinkBandwidth"):
            continue
        objects = _objects(matrix, file)
        values = _values(matrix, len(objects), file)
        lane_of = {device.id: products.lane_of(device) for device in builder.devices}
        direct: dict[tuple[str, str], Counter[str]] = {}
        ports: dict[str, Counter[str]] = {}
        for row, source in enumerate(objects):
            here = id_of_object.get(source)
            for column, target in enumerate(objects) if here is not None else ():
                megabytes = values[row * len(objects) + column]
                there = id_of_object.get(target)
                if column == row or not megabytes or here is None:
                    continue
                lanes = max(1, round(megabytes * 1e6 / lane_of[here].data_sheet))
                if there is not None:
                    pair = (min(here, there), max(here, there))
                    direct.setdefault(pair, Counter())[here] += lanes
                elif target not in packages:
                    ports.setdefault(here, Counter())[target] += lanes
                elif here in numa_of:
                    builder.device_link(here, numa_of[here], lane_of[here], lanes, port=False)
        add_bonds(builder, direct, lane_of)
        add_fabrics(builder, ports, lane_of)
        if {*id_of_object.values()} == {id_of_object.get(each) for each in objects} - {None}:
            builder.tells.add(FactKind.DEVICE_LINKS)


def _objects(matrix: XmlElement, file: FileText) -> list[str]:
    """The gp_index of every row; heterogeneous matrices write TYPE:gp_index."""
    words = " ".join(child.text for child in matrix.named("indexes")).split()
    count = matrix.get("nbobjs")
    if not words or len(words) > _MAX_OBJECTS or str(len(words)) != count:
        raise file.refusal(
            f"a distance matrix of {count[:20]} objects names {len(words)}", matrix.line
        )
    return [word.rpartition(":")[2] for word in words]


def _values(matrix: XmlElement, count: int, file: FileText) -> list[int]:
    words = " ".join(child.text for child in matrix.named("u64values")).split()
    if len(words) != count * count or not all(
        re.fullmatch(r"\d{1,12}", word, re.ASCII) for word in words
    ):
        raise file.refusal(
            f"a distance matrix of {count} objects has {len(words)} values, or not only numbers",
            matrix.line,
        )
    return [int(word) for word in words]
