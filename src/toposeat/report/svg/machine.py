"""A machine as SVG: boxes for what it is made of, lines for its links, ranks on its devices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from toposeat.model.evaluation import Evaluation, LinkLoad, MappingResult
from toposeat.model.topology import Component, Device, Link, LinkKind, Nic, Topology
from toposeat.report.svg.element import (
    Attributes,
    Child,
    Markup,
    Picture,
    drawing,
    element,
    fitted,
    joined,
    rect,
    standalone_svg,
    text_line,
    text_width,
    titled,
    tooltip,
)
from toposeat.report.svg.layout import Box, Frame, Layout, Wire, lay_out_machine, wires
from toposeat.report.units import format_bytes, format_rate, format_seconds
from toposeat.report.view.machine import (
    COMPONENT_WORDS,
    LINK_WORDS,
    component_words,
    device_label,
    link_medium,
    link_words,
    short_device_name,
    vertex_words,
)

CONGESTION_STEPS = 6
_MAX_TIES = 4
_LEAST_NAMED = 60.0  # a bar narrower than this has its name in the tooltip only
_ROOM_FOR_WORDS = 70.0


@dataclass(frozen=True)
class Seating:
    """What is drawn onto the machine: the rank on each device, and how busy each link is.

    Attributes:
        rank_of_device: rank by position in `Topology.devices`.
        moved: positions of devices whose rank does not sit on its default device.
        evaluation: predicted loads.
        top_s: congestion that the colour scale ends at (shared by several drawings).
    """

    rank_of_device: Mapping[int, int]
    moved: frozenset[int]
    evaluation: Evaluation
    top_s: float


def seatings(result: MappingResult) -> list[tuple[str, Seating]]:
    """The default placement, and the new one if it differs; with one scale of colours."""
    top = max(result.default.max_congestion_s, result.placed.max_congestion_s)
    moved = frozenset(result.device_of_rank[rank] for rank in result.moved_ranks)
    default = (
        "Default placement",
        Seating(_ranks(result.default), frozenset(), result.default, top),
    )
    if result.kept_default:
        return [("Default placement, kept", default[1])]
    return [default, ("Placed", Seating(_ranks(result.placed), moved, result.placed, top))]


def _ranks(evaluation: Evaluation) -> dict[int, int]:
    return {device: rank for rank, device in enumerate(evaluation.device_of_rank)}


def mapping_pictures(result: MappingResult, topology: Topology) -> list[Picture]:
    """The machine with its ranks, by default and, if it differs, as placed."""
    layout = lay_out_machine(topology)
    pictures = []
    for name, seating in seatings(result):
        worst = format_seconds(seating.evaluation.max_congestion_s)
        time = format_seconds(seating.evaluation.predicted_s)
        words = f"predicted: busiest link {worst}, link time {time}"
        label = f"{name}: {words}"
        drawn = machine_svg(topology, label=label, seating=seating, layout=layout)
        pictures.append(Picture(name, words, drawn))
    return pictures


def topology_svg(topology: Topology) -> str:
    """A standalone SVG file of the machine, links coloured by kind, with a legend."""
    drawing = lay_out_machine(topology)
    legend, height = _kind_legend(topology, drawing)
    width, total = max(drawing.width, 360.0), drawing.height + height
    name = f"machine {topology.name}"
    drawn = _drawing(topology, drawing, None)
    return standalone_svg("machine", (width, total), name, drawn, legend)


def machine_svg(
    topology: Topology,
    *,
    label: str,
    seating: Seating | None = None,
    layout: Layout | None = None,
) -> Markup:
    """The machine as an inline `<svg>`; with `seating` coloured by congestion, else by kind."""
    layout = layout or lay_out_machine(topology)
    size = (round(layout.width), round(layout.height))
    return drawing("machine", size, label, _drawing(topology, layout, seating))


def congestion_step(value: float, top: float) -> int:
    """0 for an idle link, else 1 .. `CONGESTION_STEPS` in proportion to `top`."""
    if value <= 0 or top <= 0:
        return 0
    return min(CONGESTION_STEPS, 1 + int(value / top * CONGESTION_STEPS * 0.9999))


def _drawing(topology: Topology, layout: Layout, seating: Seating | None) -> Markup:
    loads = {load.link: load for load in seating.evaluation.links} if seating else {}
    lines = wires(topology, layout)
    order = sorted(lines, key=lambda w: loads[w.link.id].congestion_s if w.link.id in loads else 0)
    number_of = {link.id: number for number, link in enumerate(topology.links)}
    vertices: list[Device | Nic | Component] = [*topology.devices, *topology.nics]
    names = {vertex.id: vertex for vertex in vertices + [*topology.components]}
    buses = {box.vertex for box in layout.buses}
    boxes = [b for b in layout.boxes.values() if b.vertex not in buses] + layout.buses
    return joined(
        [
            *(_frame(frame) for frame in layout.frames),
            *(_riser(box, names[box.vertex]) for box in layout.risers),
            *(_link(topology, w, number_of[w.link.id], loads, seating) for w in order),
            *(_box(topology, box, names[box.vertex], seating) for box in boxes),
            *(_level_words(w, loads, seating) for w in lines if w.room >= _ROOM_FOR_WORDS),
            *(_busiest_marks(lines, loads, seating) if seating else ()),
        ]
    )


def _frame(frame: Frame) -> Markup:
    radius = 12 if frame.what == "host" else 10
    area = rect(f"frame {frame.what}", frame.x, frame.y, frame.width, frame.height, rx=radius)
    words = fitted(frame.label, frame.width - 24, 12)
    name = text_line(frame.x + 12, frame.y + 18, words, "host-name") if words else None
    return joined([area, name])


def _link(
    topology: Topology,
    wire: Wire,
    index: int,
    loads: Mapping[str, LinkLoad],
    seating: Seating | None,
) -> Markup:
    link = wire.link
    if seating is None:
        look = f"kind-{link.kind.value}"
        # Wider for more capacity: about 2.3 pixels at 5 GB/s, 6.4 at 900 GB/s.
        width = min(7.0, 1.0 + 0.55 * math.log2(max(link.forward_bytes_per_s.value / 1e9, 1)))
    else:
        load = loads.get(link.id)
        busy = load.congestion_s if load else 0.0
        look = f"load-{congestion_step(busy, seating.top_s)}"
        width = 1.6 + (8.4 * busy / seating.top_s if seating.top_s > 0 else 0.0)
    return element(
        "g",
        {"class": "link", "data-link": index},
        _link_title(topology, link, loads.get(link.id)),
        element("path", {"class": "hit", "d": wire.path}),
        element("path", {"class": f"wire {look}", "d": wire.path, "stroke-width": width}),
    )


def _link_title(topology: Topology, link: Link, load: LinkLoad | None) -> Markup:
    rate = link.forward_bytes_per_s
    lines: list[Child] = [link_words(topology, link.id)]
    lines.append(f"{format_rate(rate.value)} per direction ({rate.source.value})")
    if link.combined_bytes_per_s is not None:
        both = link.combined_bytes_per_s
        lines.append(f"{format_rate(both.value)} both together ({both.source.value})")
    if load is not None:
        busy = format_seconds(load.congestion_s)
        lines.append(f"predicted: {format_bytes(load.bytes)}, congestion {busy}")
    return tooltip(*lines)


def _box(
    topology: Topology, box: Box, vertex: Device | Nic | Component, seating: Seating | None
) -> Markup:
    if isinstance(vertex, Device):
        return _device(topology, box, vertex, seating)
    if isinstance(vertex, Nic):
        return _nic(box, vertex, named=bool(vertex.name) and _nic_names_fit(topology, box))
    title = f"{vertex_words(topology, vertex.id)} ({COMPONENT_WORDS[vertex.kind]})"
    bus = f" ({vertex.pci_bus_id})" if vertex.pci_bus_id else ""
    name = fitted(component_words(vertex), box.width - 5, 11)
    words = text_line(box.middle, box.y + box.height / 2 + 4, name)
    shown = words if box.width >= _LEAST_NAMED else None
    return titled(title + bus, _rect(box, 6), shown, look=f"part {vertex.kind.value}")


def _riser(box: Box, vertex: Device | Nic | Component) -> Markup:
    kind = vertex.kind.value if isinstance(vertex, Component) else ""
    return element("g", {"class": f"part {kind}"}, _rect(box, 5))


def _rect(box: Box, radius: float) -> Markup:
    return rect(None, box.x, box.y, box.width, box.height, rx=radius)


def _device(topology: Topology, box: Box, device: Device, seating: Seating | None) -> Markup:
    position = topology.devices.index(device)
    says = [device_label(topology, device), device.name, device.pci_bus_id or "", device.uuid or ""]
    label = f"D{device.index}"
    if seating is None:
        small = short_device_name(device.name, int((box.width - 6) / 6.2))
        words = [(label, 30 if small else 38, "big"), (small, 48, "small")]
        look = "device"
    else:
        rank = seating.rank_of_device.get(position)
        moved = position in seating.moved
        look = "device idle" if rank is None else "device moved" if moved else "device"
        big, small = ("-", "idle") if rank is None else (str(rank), "rank")
        says.append("no rank" if rank is None else f"rank {rank}" + (" (moved)" if moved else ""))
        words = [(label, 15, "head"), (big, 38, "big"), (small, 53, "small")]
    tight = (
        " tight" if any(12.5 * len(w) > box.width - 6 for w, _, of in words if of == "big") else ""
    )
    lines = (
        text_line(box.middle, box.y + at, text, of + tight if of == "big" else of)
        for text, at, of in words
    )
    return titled(tooltip(*says), _rect(box, 8), *lines, look=look)


def _nic_names_fit(topology: Topology, box: Box) -> bool:
    """One choice for all NICs: names only where each has one that fits and says more than NIC."""
    return all(
        text_width(nic.name, 9.5) <= box.width - 2 and not nic.name.upper().startswith("NIC")
        for nic in topology.nics
        if nic.name
    )


def _nic(box: Box, nic: Nic, *, named: bool) -> Markup:
    name = nic.name or f"N{nic.index}"
    bus = f" ({nic.pci_bus_id})" if nic.pci_bus_id else ""
    return titled(
        f"NIC {name}{bus}",
        _rect(box, 8),
        text_line(box.middle, box.y + 28, "NIC", "head"),
        text_line(box.middle, box.y + 42, name if named else str(nic.index), "small"),
        look="nic",
    )


def _level_words(wire: Wire, loads: Mapping[str, LinkLoad], seating: Seating | None) -> Markup:
    """What a link between two bars is called, above it, and how busy it is, below."""
    medium = fitted(link_medium(wire.link), wire.room, 11)
    above = text_line(wire.label_x, wire.label_y - 11, medium, "wire-name")
    load = loads.get(wire.link.id)
    if seating is None or load is None or _is_busiest(load, seating):
        return above
    busy = "idle" if load.congestion_s <= 0 else format_seconds(load.congestion_s)
    return joined([above, text_line(wire.label_x, wire.label_y + 20, busy, "wire-load")])


def _is_busiest(load: LinkLoad, seating: Seating) -> bool:
    worst = seating.evaluation.max_congestion_s
    return worst > 0 and load.congestion_s >= 0.999 * worst


def _busiest_marks(
    lines: list[Wire], loads: Mapping[str, LinkLoad], seating: Seating
) -> list[Markup]:
    """A pill with the time on the busiest link, or on up to four that tie."""
    worst = [w for w in lines if w.link.id in loads and _is_busiest(loads[w.link.id], seating)]
    marks = []
    for wire in worst[: _MAX_TIES if len(worst) <= _MAX_TIES else 1]:
        words = format_seconds(loads[wire.link.id].congestion_s)
        width = 7.0 * len(words) + 10
        x, y = wire.label_x, wire.label_y
        pill = rect(None, x - width / 2, y - 9, width, 18, rx=9)
        marks.append(element("g", {"class": "busiest"}, pill, text_line(x, y + 4, words)))
    return marks


def kind_legend(topology: Topology) -> Markup:
    """What the line colours mean, as a line of HTML."""
    parts = []
    for kind in _kinds(topology):
        sample: Attributes = {"width": 28, "height": 14, "aria-hidden": "true"}
        drawn = element("svg", sample, _sample(kind, "M0 7h28"))
        parts.append(element("span", {"class": "entry"}, drawn, LINK_WORDS[kind]))
    return element("p", {"class": "legend"}, *parts)


def _kind_legend(topology: Topology, layout: Layout) -> tuple[Markup, float]:
    """A line of samples below the drawing, and its height."""
    parts = []
    x, y = 16.0, layout.height + 8
    for kind in _kinds(topology):
        parts.append(_sample(kind, f"M{x:.0f} {y:.0f}h28"))
        parts.append(text_line(x + 34, y + 4, LINK_WORDS[kind], "legend"))
        x += 52 + 7.2 * len(LINK_WORDS[kind])
    return joined(parts), 30.0 if parts else 0.0


def _kinds(topology: Topology) -> list[LinkKind]:
    used = {link.kind for link in topology.links}
    return [kind for kind in LinkKind if kind in used]


def _sample(kind: LinkKind, path: str) -> Markup:
    return element("path", {"class": f"wire kind-{kind.value}", "d": path, "stroke-width": 4})
