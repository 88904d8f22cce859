"""The line each link is drawn as, given where its ends are."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import product

from toposeat.model.topology import Link, Topology
from toposeat.report.svg.element import number
from toposeat.report.svg.layout import Box, Layout

_LEAVES = ("device", "nic")
_JOINERS = ("crossbar", "network")

_Drawn = Counter[frozenset[str]]  # links by their ends, those between crossbars as one


@dataclass(frozen=True)
class Wire:
    """The path of one link and the point where a label may sit on it."""

    link: Link
    path: str
    label_x: float
    label_y: float
    room: float = 0.0  # for words: the length of a horizontal stretch between two bars


def wires(topology: Topology, layout: Layout) -> list[Wire]:
    """One wire per link, in the order of `topology.links`."""
    ports = _ports(topology, layout)
    drawn: _Drawn = Counter()
    found = (_wire(link, layout, ports, drawn) for link in topology.links)
    return [wire for wire in found if wire is not None]


def _wire(
    link: Link, layout: Layout, ports: dict[tuple[str, str], float], drawn: _Drawn
) -> Wire | None:
    if link.id in layout.tree_links:
        parent, child = (layout.boxes[v] for v in layout.tree_links[link.id])
        return _vertical(link, child.middle, parent.bottom, child.y)
    a, b = (layout.boxes.get(end) for end in link.ends)
    if a is None or b is None or a is b:
        return None
    if b.what in _LEAVES and a.what not in _LEAVES:
        a, b = b, a
    if a.what in _LEAVES and b.what in _LEAVES and a.band == b.band:
        return _arc(link, a, b, ports, layout)
    if a.what in _LEAVES and b.what in _JOINERS:
        bar = next((n for n in layout.buses if n.vertex == b.vertex and n.band == a.band), b)
        if bar.band == a.band:
            return _vertical(link, ports[link.id, a.vertex], a.bottom, bar.y)
    if a.band == b.band and a.y == b.y:
        return _level(link, a, b, layout, drawn)
    crossbars = a.what == b.what == "crossbar"
    return _side(link, a, b, layout, drawn) if crossbars else _long_way(link, a, b)


def _ports(topology: Topology, layout: Layout) -> dict[tuple[str, str], float]:
    """Where each link leaves the lower edge of a leaf: long arcs in the middle, short outside."""
    wanted: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for link in topology.links:
        if link.id in layout.tree_links:
            continue
        a, b = (layout.boxes.get(end) for end in link.ends)
        if a is None or b is None:
            continue
        for here, there in ((a, b), (b, a)):
            if here.what not in _LEAVES or there.what not in (*_LEAVES, *_JOINERS):
                continue
            distance = there.middle - here.middle if there.what in _LEAVES else 0.0
            # Left-going arcs sort by how far they reach (nearest at the left edge), then the
            # right-going ones (nearest at the right edge): so arcs nest instead of crossing.
            wanted[here.vertex].append((1 / distance if distance else 0.0, link.id))
    ports = {}
    for vertex, uses in wanted.items():
        box = layout.boxes[vertex]
        uses.sort()
        step = min(14.0, 0.8 * box.width / len(uses))
        start = box.middle - step * (len(uses) - 1) / 2
        for place, (_, name) in enumerate(uses):
            ports[name, vertex] = start + place * step
    return ports


def _vertical(link: Link, x: float, top: float, bottom: float) -> Wire:
    return Wire(link, f"M{number(x)} {number(top)}V{number(bottom)}", x, (top + bottom) / 2)


def _curve(
    link: Link, start: tuple[float, float], end: tuple[float, float], control: float, label: float
) -> Wire:
    """A curve pulled up or down to `control`, its label at the height `label`."""
    points = (start[0], control, end[0], control, *end)
    path = f"M{number(start[0])} {number(start[1])}C{' '.join(map(number, points))}"
    return Wire(link, path, (start[0] + end[0]) / 2, label)


def _arc(link: Link, a: Box, b: Box, ports: dict[tuple[str, str], float], layout: Layout) -> Wire:
    """A curve below the devices, deeper the further it reaches."""
    x1, x2 = ports[link.id, a.vertex], ports[link.id, b.vertex]
    y = max(a.bottom, b.bottom)
    depth = arc_depth(abs(x2 - x1), layout.arc_room.get(a.band, (1.0, 0.0)))
    return _curve(link, (x1, y), (x2, y), y + depth * 4 / 3, y + depth)


def arc_depth(reach: float, room: tuple[float, float]) -> float:
    """How deep an arc hangs, from its reach and the band's (widest reach, depth)."""
    widest, deepest = room
    share = min(1.0, reach / widest) if widest > 0 else 1.0
    return deepest * (0.14 + 0.86 * float(share**0.8))


def _level(link: Link, a: Box, b: Box, layout: Layout, drawn: _Drawn) -> Wire:
    """Two bars of one row: straight if nothing is between, else an arc above."""
    left, right = (a, b) if a.x <= b.x else (b, a)
    between = any(
        box.y == left.y and box.band == left.band and left.right < box.middle < right.x
        for box in layout.boxes.values()
        if box.what == left.what
    )
    y = left.y + left.height / 2
    before = _count(drawn, a.vertex, b.vertex)
    if not between:
        y += 6 * ((before + 1) // 2) * (-1 if before % 2 else 1)
        path = f"M{number(left.right)} {number(y)}H{number(right.x)}"
        return Wire(link, path, (left.right + right.x) / 2, y, room=right.x - left.right)
    rows = max(1, round((right.middle - left.middle) / max(1.0, left.width)))
    height = (12.0 + 14.0 * (rows - 1) + 4 * before) * 4 / 3
    x1, x2 = left.middle + 0.22 * left.width, right.middle - 0.22 * right.width
    return _curve(link, (x1, left.y), (x2, left.y), left.y - height, left.y - height * 0.75)


def _side(link: Link, a: Box, b: Box, layout: Layout, drawn: _Drawn) -> Wire:
    """Two crossbars, one above the other: a line where both reach, each in a lane of its own."""
    bars = [[bus for bus in layout.buses if bus.vertex == end.vertex] for end in (a, b)]
    a, b = min(product(*bars), key=lambda pair: abs(pair[0].y - pair[1].y))
    left, right = max(a.x, b.x), min(a.right, b.right)
    lane = 10 + 6 * (_count(drawn, "") % 6)
    x = right - lane if a.band == b.band else left + lane  # on the left there are no leaves
    x = x if right > left else (left + right) / 2
    top, bottom = (a, b) if a.y < b.y else (b, a)
    return _vertical(link, x, top.bottom, bottom.y)


def _long_way(link: Link, a: Box, b: Box) -> Wire:
    """Anything else: a curve from below the upper box to above the lower one."""
    top, bottom = (a, b) if a.y <= b.y else (b, a)
    x1, y1 = top.middle + 8, top.bottom
    x2, y2 = bottom.middle + 8, bottom.y
    if y2 <= y1:
        y1, y2 = top.bottom, bottom.bottom
        middle = max(y1, y2) + 18
    else:
        middle = (y1 + y2) / 2
    return _curve(link, (x1, y1), (x2, y2), middle, middle)


def _count(drawn: _Drawn, *ends: str) -> int:
    """How many links between these were drawn before; this one is added."""
    drawn[frozenset(ends)] += 1
    return drawn[frozenset(ends)] - 1
