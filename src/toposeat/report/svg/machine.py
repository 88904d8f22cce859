"""A machine as SVG: boxes for what it is made of, lines for its links, ranks on its devices."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from toposeat.model.evaluation import Evaluation, LinkLoad, MappingResult
from toposeat.model.plural import plural
from toposeat.model.quantity import Quantity
from toposeat.model.topology import Component, Device, Link, Nic, Topology
from toposeat.report.svg.element import (
    Attributes,
    Child,
    Markup,
    Picture,
    Sheet,
    drawing,
    element,
    fitted,
    joined,
    number,
    rect,
    text_line,
    text_width,
    titled,
    tooltip,
)
from toposeat.report.svg.labels import rate_labels
from toposeat.report.svg.layout import Box, Frame, Layout, Wire, lay_out_machine, wires
from toposeat.report.units import clean, format_seconds, span
from toposeat.report.view.links import (
    DEVICE_LINKS,
    NOMINAL_MARK,
    LinkClass,
    each_way,
    host_rates,
    joined_words,
    link_classes,
    plain_rate,
    rate_number,
    rate_words,
)
from toposeat.report.view.loads import busy_words, load_cells, times_words, worst_seconds
from toposeat.report.view.machine import (
    COMPONENT_WORDS,
    component_words,
    device_label,
    link_medium,
    link_source_words,
    link_words,
    short_device_name,
    title_words,
    vertex_words,
)

CONGESTION_STEPS = 6
_MOST_LANES = 4  # that are drawn one by one
_BETWEEN, _WIDEST = 1.5, 13.0  # widths: between two lanes, of all
_MAX_TIES = 4
_PILL, _PILL_ROOM = 18.0, 76.0  # height and width of the mark of a busiest link
_MOST_ENTRIES = 8  # of a key
_LEAST_NAMED = 60.0  # a bar narrower than this has its name in the tooltip only
_ROOM_FOR_WORDS = 70.0


@dataclass(frozen=True)
class Seating:
    """What is drawn onto the machine: the rank on each device, and how busy each link is.

    Attributes:
        rank_of_device: rank by position in `Topology.devices`.
        moved: positions of devices whose rank does not sit on its default device.
        evaluation: predicted loads.
        top_s: congestion that the widths end at (shared by several drawings).
        before: the default placement, where the differences from it are drawn too.
    """

    rank_of_device: Mapping[int, int]
    moved: frozenset[int]
    evaluation: Evaluation
    top_s: float
    before: Evaluation | None = None

    @cached_property
    def loads(self) -> list[dict[str, LinkLoad]]:
        """Loads by link: of the placement, and of the one before it."""
        both = [each for each in (self.evaluation, self.before) if each is not None]
        return [{load.link: load for load in each.links} for each in both]

    def seconds(self, link: Link) -> list[float]:
        """Congestion of a link in each of `loads`."""
        return [loads[link.id].congestion_s if link.id in loads else 0.0 for loads in self.loads]


def seatings(result: MappingResult) -> list[tuple[str, Seating]]:
    """Both placements in one, then the default and the new one; the default alone if it stays."""
    top = worst_seconds(result)
    default = Seating(_ranks(result.default), frozenset(), result.default, top)
    if result.kept_default:
        return [("Default placement, kept", default)]
    moved = frozenset(result.device_of_rank[rank] for rank in result.moved_ranks)
    placed = Seating(_ranks(result.placed), moved, result.placed, top)
    change = replace(placed, before=result.default)
    return [("Before and after", change), ("Default placement", default), ("Placed", placed)]


def _ranks(evaluation: Evaluation) -> dict[int, int]:
    return {device: rank for rank, device in enumerate(evaluation.device_of_rank)}


def mapping_pictures(result: MappingResult, topology: Topology) -> list[Picture]:
    """The machine with its ranks: what changes, by default and as placed."""
    layout = lay_out_machine(topology)
    pictures = []
    for name, seating in seatings(result):
        words, legend = f"predicted: {times_words(seating.evaluation)}", []
        if seating.before is not None:
            words = "a line is as wide as its link is busy (predicted); blue seats: moved ranks"
            legend = [
                ("fill-before", f"default: {times_words(seating.before)}"),
                ("fill-after", f"placed: {times_words(seating.evaluation)}"),
            ]
        label = f"{name}: {words}"
        drawn = machine_svg(topology, label=label, seating=seating, layout=layout)
        pictures.append(Picture(name, words, drawn, legend))
    return pictures


def topology_svg(topology: Topology, *, created: str = "") -> str:
    """A standalone SVG file: title, source, the machine with the rate of each link, and its key.

    `created` is the day: the drawing does not read the clock.
    """
    layout = lay_out_machine(topology)
    title, said = title_words(topology), origin_words(topology, created)
    sheet = Sheet(title, max(layout.width + 32, 480.0))
    sheet.line(said, "axis")
    sheet.chart(machine_svg(topology, label=f"machine {clean(topology.name)}", layout=layout))
    sheet.list_line(title, "title")
    sheet.list_line(said, "axis")
    if topology.links:
        sheet.line(NUMBERS, "axis")
    for each in machine_key(topology):
        sheet.line(each.words, sample=each.sample)
        sheet.list_line(f"{each.words}: {each.joins}")
    return sheet.svg(f"machine {clean(topology.name)}")


NUMBERS = (
    "Numbers on links: GB/s in each direction; "
    f"{NOMINAL_MARK} from the kind of link, not measured here."
)


def origin_words(topology: Topology, created: str) -> str:
    """Who says it, how good the numbers are, and the day."""
    publishers = dict.fromkeys(clean(each).partition(":")[0] for each in topology.sources)
    by = f" ({'; '.join(publishers)})" if publishers else ""
    words = f"Source: {clean(topology.origin)}{by}, {link_source_words(topology)}"
    return f"{words}. Drawn {created}" if created else words


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
    lines = wires(topology, layout)
    order = lines if seating is None else sorted(lines, key=lambda w: max(seating.seconds(w.link)))
    rates = host_rates(topology) if seating is None else {}
    number_of = {link.id: number for number, link in enumerate(topology.links)}
    vertices: list[Device | Nic | Component] = [*topology.devices, *topology.nics]
    names = {vertex.id: vertex for vertex in vertices + [*topology.components]}
    buses = {box.vertex for box in layout.buses}
    boxes = [b for b in layout.boxes.values() if b.vertex not in buses] + layout.buses
    return joined(
        [
            *(_frame(frame, rates.get(frame.label, "")) for frame in layout.frames),
            *(_riser(box, names[box.vertex]) for box in layout.risers),
            *(_link(topology, w, number_of[w.link.id], seating) for w in order),
            *(_box(topology, box, names[box.vertex], seating) for box in boxes),
            *(_level_words(w, seating) for w in lines if w.room >= _ROOM_FOR_WORDS),
            *(_busiest_marks(lines, seating) if seating else _rates(lines, layout)),
        ]
    )


def _frame(frame: Frame, rate: str) -> Markup:
    radius = 12 if frame.what == "host" else 10
    area = rect(f"frame {frame.what}", frame.x, frame.y, frame.width, frame.height, rx=radius)
    words = fitted(frame.label, frame.width - 24, 12)
    name = text_line(frame.x + 12, frame.y + 18, words, "host-name") if words else None
    fits = text_width(words, 12) + text_width(rate, 10) + 36 <= frame.width
    right = text_line(frame.x + frame.width - 12, frame.y + 18, rate, "host-rate")
    return joined([area, name, right if rate and fits else None])


def _link(topology: Topology, wire: Wire, index: int, seating: Seating | None) -> Markup:
    strokes = _strokes(wire.link) if seating is None else _loads(wire.link, seating)
    return element(
        "g",
        {"class": "link", "data-link": index},
        _link_title(topology, wire.link, seating),
        element("path", {"class": "hit", "d": wire.path}),
        *(_stroke(look, wire.path, width) for look, width in strokes),
    )


def _stroke(look: str, path: str, width: float) -> Markup:
    return element("path", {"class": f"wire {look}", "d": path, "stroke-width": width})


def _strokes(link: Link) -> list[tuple[str, float]]:
    """Looks and widths, one over the other: up to four bonded lanes are as many lines.

    A line is wider for more capacity: about 2 pixels at 5 GB/s, 5 at 900 GB/s.
    """
    look = f"kind-{link.kind.value}"
    lanes = link.count if link.kind in DEVICE_LINKS and link.count <= _MOST_LANES else 1
    lane = 1.0 + 0.4 * math.log2(max(link.forward_bytes_per_s.value / 1e9 / lanes, 1))
    shrunk = min(1.0, _WIDEST / (lanes * (lane + _BETWEEN)))
    width = lanes * (lane + _BETWEEN) - _BETWEEN
    strokes = []
    for at in range(lanes):
        strokes.append(("between" if at % 2 else look, shrunk * width))
        width -= 2 * (_BETWEEN if at % 2 else lane)
    return strokes


def _loads(link: Link, seating: Seating) -> list[tuple[str, float]]:
    """One line by its congestion; with both placements the wider one behind the other."""
    busy, *was = seating.seconds(link)
    if not was:
        return [(f"load-{congestion_step(busy, seating.top_s)}", _width(busy, seating.top_s))]
    both = [("was", was[0]), ("is", busy)]
    used = [(look, _width(seconds, seating.top_s)) for look, seconds in both if seconds > 0]
    return sorted(used, key=lambda each: -each[1]) or [("load-0", _width(0.0, seating.top_s))]


def _width(seconds: float, top_s: float) -> float:
    return 1.6 + (8.4 * seconds / top_s if top_s > 0 else 0.0)


def congestion_samples(top_s: float) -> list[tuple[int, str, str]]:
    """Steps of congestion with the width of their lines, and words for the first and the last."""
    words = {0: "idle", CONGESTION_STEPS: format_seconds(top_s)}
    steps = range(CONGESTION_STEPS + 1)
    return [(at, number(_width(at, CONGESTION_STEPS)), words.get(at, "")) for at in steps]


def _rates(lines: list[Wire], layout: Layout) -> list[Markup]:
    """The number of each link, where there is room."""
    return rate_labels(lines, [rate_number(*_both(line.link)) for line in lines], layout)


def _link_title(topology: Topology, link: Link, seating: Seating | None) -> Markup:
    lines: list[Child] = [link_words(topology, link.id)]
    source = link.forward_bytes_per_s.source.value
    lines.append(f"{each_way(link, plain_rate)} per direction ({source})")
    if link.combined_bytes_per_s is not None:
        both = link.combined_bytes_per_s
        lines.append(f"{plain_rate(both)} both together ({both.source.value})")
    for name, loads in zip(("", "default "), seating.loads if seating else (), strict=False):
        load = loads.get(link.id)
        if load is not None:
            lines.append(f"{name}predicted: {', congestion '.join(load_cells(load))}")
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
        before = seating.rank_of_device if seating.before is None else _ranks(seating.before)
        was = before.get(position)
        if was != rank:
            small = "was idle" if was is None else f"was {was}"
            says.append("idle by default" if was is None else f"by default rank {was}")
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


def _level_words(wire: Wire, seating: Seating | None) -> Markup:
    """What a link between two bars is called, above it, and how busy it is, below."""
    medium = fitted(link_medium(wire.link), wire.room, 11)
    parts = [text_line(wire.label_x, wire.label_y - 11, medium, "wire-name")]
    alone = seating is None or seating.before is None
    looks: tuple[str, ...] = ("wire-load",) if alone else ("of-placed", "of-default")
    y = wire.label_y + 20
    if seating is not None and max(seating.seconds(wire.link)) <= 0:
        looks, parts = (), [*parts, text_line(wire.label_x, y, "idle", "wire-load")]
    for look, seconds, evaluation in _by_placement(wire.link, seating, looks):
        if not _is_busiest(seconds, evaluation):
            parts.append(text_line(wire.label_x, y, busy_words(seconds), look))
        y += 13
    return joined(parts)


def _by_placement(
    link: Link, seating: Seating | None, looks: Sequence[str]
) -> list[tuple[str, float, Evaluation]]:
    if seating is None:
        return []
    evaluations = [each for each in (seating.evaluation, seating.before) if each is not None]
    return [*zip(looks, seating.seconds(link), evaluations, strict=False)]


def _is_busiest(seconds: float, evaluation: Evaluation) -> bool:
    worst = evaluation.max_congestion_s
    return worst > 0 and seconds >= 0.999 * worst


def _busiest_marks(lines: list[Wire], seating: Seating) -> list[Markup]:
    """A pill with the time on the busiest link of each placement, or on up to four that tie."""
    looks = ("busiest",) if seating.before is None else ("busiest of-placed", "busiest of-default")
    worst: dict[str, list[tuple[Wire, float]]] = {look: [] for look in looks}
    for wire in lines:
        for look, seconds, evaluation in _by_placement(wire.link, seating, looks):
            if _is_busiest(seconds, evaluation):
                worst[look].append((wire, seconds))
    marks: list[Markup] = []
    taken: list[tuple[float, float]] = []
    for look, found in worst.items():
        for wire, seconds in found[: _MAX_TIES if len(found) <= _MAX_TIES else 1]:
            words = format_seconds(seconds)
            width = 7.0 * len(words) + 10
            x, y = wire.label_x, wire.label_y
            while any(abs(x - a) < _PILL_ROOM and abs(y - b) < _PILL for a, b in taken):
                y += _PILL + 1
            taken.append((x, y))
            pill = rect(None, x - width / 2, y - _PILL / 2, width, _PILL, rx=9)
            marks.append(element("g", {"class": look}, pill, text_line(x, y + 4, words)))
    return marks


class KeyEntry(NamedTuple):
    """One look of a line: a sample of it, what it is and carries, and what such links join."""

    sample: Markup
    words: str
    joins: str


def machine_key(topology: Topology) -> list[KeyEntry]:
    """What lines mean, by kind, lanes and rate; rates of one medium in one entry if many differ."""
    classes = link_classes(topology)
    if len(classes) > _MOST_ENTRIES:
        classes = _by_medium(classes)
    entries = []
    for each in classes:
        strokes = _strokes(max(each.links, key=lambda link: link.forward_bytes_per_s.value))
        lines = (_stroke(look, "M0 8h34", width) for look, width in strokes)
        sample: Attributes = {"class": "sample", "width": 34, "height": 16, "aria-hidden": "true"}
        words = f"{each.medium}, {each.way} each way ({plural(len(each.links), 'link')})"
        joins = joined_words(topology, each.links)
        entries.append(KeyEntry(element("svg", sample, *lines), words, joins))
    return entries


def _by_medium(classes: Sequence[LinkClass]) -> list[LinkClass]:
    merged: dict[str, list[LinkClass]] = defaultdict(list)
    for each in classes:
        merged[each.medium].append(each)
    found = []
    for medium, alike in merged.items():
        links = tuple(link for each in alike for link in each.links)
        rates = sorted((q for x in links for q in _both(x)), key=lambda rate: rate.value)
        ends = span(rate_words(rates[0]), rate_words(rates[-1]))
        found.append(LinkClass(medium, ends, links))
    return found


def _both(link: Link) -> tuple[Quantity, Quantity]:
    return link.forward_bytes_per_s, link.backward_bytes_per_s
