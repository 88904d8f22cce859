"""A topology as text: devices, link kinds, relation matrix, NICs, doubts."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from rich.console import RenderableType

from toposeat.model.topology import Device, Link, LinkKind, PathClass, Topology
from toposeat.report.text.console import TextStyle, columns, labelled, lay_out, sentences
from toposeat.report.units import clean, format_bytes, format_rate, format_seconds, plural
from toposeat.report.words import (
    LINK_WORDS,
    PATH_CLASS_WORDS,
    device_code,
    relation_word,
    topology_sentence,
)


def render_topology_text(topology: Topology, style: TextStyle | None = None) -> str:
    """Everything a person asks of a machine, at the width of the terminal."""
    style = style or TextStyle()
    parts: list[RenderableType] = [labelled("Topology", topology_sentence(topology))]
    if topology.description:
        parts.append(labelled("", clean(topology.description)))
    parts.append(labelled("Origin", clean(topology.origin)))
    parts += ["", _devices(topology)]
    if topology.nics:
        parts += ["", _nics(topology)]
    if topology.links:
        parts += ["", _link_kinds(topology)]
    if topology.routes:
        parts += ["", *_relations(topology, style), "", *_legend(topology)]
    if topology.report:
        parts += ["", "Doubts", *sentences(topology.report)]
    if topology.sources:
        parts += ["", "Sources", *sentences(topology.sources)]
    return lay_out(parts, style)


def _devices(topology: Topology) -> RenderableType:
    several = len(topology.hosts) > 1
    header = ["device", "name", "pci", "numa", "cpus", "memory", "uuid"]
    rows = [[*([d.host] if several else []), *_device_row(d)] for d in topology.devices]
    if several:
        header.insert(0, "host")
    used = [i for i in range(len(header)) if any(row[i] not in ("", "-") for row in rows)]
    keep = used or [0]
    return columns(
        [header[i] for i in keep],
        [[row[i] for i in keep] for row in rows],
        fold={position for position, i in enumerate(keep) if header[i] == "cpus"},
    )


def _device_row(device: Device) -> list[str]:
    memory = "-" if device.memory_bytes is None else format_bytes(device.memory_bytes)
    numa = "-" if device.numa_node is None else str(device.numa_node)
    return [
        f"D{device.index}",
        device.name or "-",
        device.pci_bus_id or "-",
        numa,
        device.cpus or "-",
        memory,
        device.uuid or "-",
    ]


def _nics(topology: Topology) -> RenderableType:
    rows = [
        (f"N{n.index}", n.name or "-", n.pci_bus_id or "-", _number(n.numa_node))
        for n in topology.nics
    ]
    return columns(("nic", "name", "pci", "numa"), rows)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _link_kinds(topology: Topology) -> RenderableType:
    """One row per set of links that look alike."""
    groups: dict[tuple[str, ...], list[Link]] = defaultdict(list)
    for link in topology.links:
        groups[_link_row(link)].append(link)
    rows = [(str(len(links)), *row) for row, links in groups.items()]
    header = ("links", "kind", "per direction", "both together", "latency", "source")
    return columns(header, rows, right=(0, 2, 3, 4))


def _link_row(link: Link) -> tuple[str, ...]:
    forward, backward = link.forward_bytes_per_s, link.backward_bytes_per_s
    kind = LINK_WORDS[link.kind] + (f" x{link.count}" if link.count > 1 else "")
    if link.name and link.kind in (LinkKind.SMP, LinkKind.PCIE):
        kind = f"{kind} ({clean(link.name)})"
    each = format_rate(forward.value)
    if forward.value != backward.value:
        each = f"{each} / {format_rate(backward.value)}"
    combined = link.combined_bytes_per_s
    return (
        kind,
        each,
        format_rate(combined.value) if combined else "-",
        format_seconds(link.latency_s.value),
        forward.source.value,
    )


def _relations(topology: Topology, style: TextStyle) -> list[RenderableType]:
    """The relation matrix (row to column), in blocks of columns that fit the width."""
    ends = [
        (device.id, device_code(topology, position))
        for position, device in enumerate(topology.devices)
    ]
    routed = {route.target for route in topology.routes}
    nics = [(n.id, f"N{n.index}") for n in topology.nics if n.id in routed]
    devices = list(ends)
    ends += nics
    cells = [[relation_word(topology, a, b) for b, _ in ends] for a, _ in devices]
    widths = [
        max(len(label), *(len(row[column]) for row in cells)) + 2
        for column, (_, label) in enumerate(ends)
    ]
    first = max(len(label) for _, label in devices) + 2
    blocks: list[RenderableType] = []
    starts = _block_starts(widths, style.width - first)
    for start, stop in pairwise([*starts, len(ends)]):
        if blocks:
            blocks.append("")
        header = ["", *(label for _, label in ends[start:stop])]
        rows = [[label, *row[start:stop]] for (_, label), row in zip(devices, cells, strict=True)]
        blocks.append(columns(header, rows))
    return blocks


def _block_starts(widths: list[int], room: int) -> list[int]:
    """Where to cut columns of `widths` so that no block is wider than `room`."""
    starts, used = [0], 0
    for column, width in enumerate(widths):
        if used and used + width > room + 2:  # the last column's gap may hang over
            starts.append(column)
            used = 0
        used += width
    return starts


def _legend(topology: Topology) -> list[RenderableType]:
    classes = {route.path_class for route in topology.routes}
    rows = []
    for path_class in PathClass:
        if path_class not in classes:
            continue
        name = "?" if path_class is PathClass.UNKNOWN else path_class.value
        if path_class is PathClass.NVL:
            name = "/".join(_lane_words(topology)) or name
        rows.append((name, PATH_CLASS_WORDS[path_class]))
    if any(route.peer_access is False for route in topology.routes):
        pairs = sum(route.peer_access is False for route in topology.routes)
        rows.append(("!", f"no peer access ({plural(pairs, 'route')})"))
    return [_plain_rows(rows)]


def _plain_rows(rows: list[tuple[str, str]]) -> RenderableType:
    table = columns(("", ""), rows)
    table.show_header = False
    return table


def _lane_words(topology: Topology) -> list[str]:
    prefix = {LinkKind.NVLINK: "NV#", LinkKind.XGMI: "XG#", LinkKind.XELINK: "XE#"}
    kinds = {link.kind for link in topology.links}
    return [word for kind, word in prefix.items() if kind in kinds]
