"""Coordinates of a drawing: columns of leaves below bars, bands of hosts, links as lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from math import dist

from toposeat.model.topology import Component, ComponentKind, Link, Topology
from toposeat.report.svg.element import number
from toposeat.report.view.tree import LEAF_LEVEL, SWITCH_LEVEL, Forest, Node, build_forest

BAR_HEIGHT = 24.0
BUS_LINK = 26.0  # from the leaves to the first bus below them
DEVICE_HEIGHT = 62.0
MARGIN = 6.0
RISER = 10.0  # width of what ties the bars of a crossbar in several bands
_BAND_WIDTH = 1200.0
_MOST_IN_LINE = 24  # devices of one host
_LEAST_DEVICE = 46.0
_LEAST_NIC = 38.0
_BAND_GAP = 24.0
_HOST_CAPTION = 26.0
_JOINERS = (ComponentKind.NVSWITCH, ComponentKind.NETWORK)


@dataclass(frozen=True)
class Box:
    """A drawn vertex, in pixels from the top left; `what` decides how it looks."""

    vertex: str
    what: str  # device | nic | bar | crossbar | network
    x: float
    y: float
    width: float
    height: float
    row: int = 0
    band: int = 0

    @property
    def middle(self) -> float:
        """The horizontal middle."""
        return self.x + self.width / 2

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.height


@dataclass(frozen=True)
class Frame:
    """A tinted area around a package, a NUMA node or a host."""

    what: str  # host | package | numa
    label: str
    x: float
    y: float
    width: float
    height: float


@dataclass
class Layout:
    """All boxes by vertex, frames, tree links (child above which parent), and the page size.

    What joins many leaves is a bus: a bar in every band where it has some, which `risers` tie.
    """

    boxes: dict[str, Box] = field(default_factory=dict)
    buses: list[Box] = field(default_factory=list)
    risers: list[Box] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    tree_links: dict[str, tuple[str, str]] = field(default_factory=dict)  # link: parent, child
    other_links: tuple[str, ...] = ()
    device_order: tuple[str, ...] = ()  # as drawn
    group_starts: tuple[int, ...] = ()  # positions in device_order where a new root begins
    arc_room: dict[int, tuple[float, float]] = field(default_factory=dict)  # band: reach, depth
    width: float = 0
    height: float = 0


@dataclass(frozen=True)
class _Sizes:
    device: float
    nic: float
    arcs: float  # room below devices for direct links
    top: float  # room above packages for links between distant ones
    pad: float  # from a frame to what it holds
    gap: float  # between two packages
    host_gap: float
    least_bar: float
    link: float  # height of a tree link between two rows
    left: float = MARGIN


def lay_out_machine(topology: Topology) -> Layout:
    """Coordinates for everything in `topology`."""
    forest = build_forest(topology)
    layout = Layout(other_links=forest.other_links)
    sizes = _sizes(topology, forest)
    rows = _Rows(forest)
    bands = _bands(topology, forest, sizes)
    lanes = _lanes_of_risers(topology, bands)
    sizes = replace(sizes, left=MARGIN + (RISER + 6) * len(lanes))
    y = MARGIN
    for at, roots in enumerate(bands):
        band = _Band(topology, layout, sizes=sizes, rows=rows, lanes=lanes, band=at, top=y)
        y = band.place(roots, is_last=roots is bands[-1]) + _BAND_GAP
    layout.height = y - _BAND_GAP + MARGIN
    for vertex, x in lanes.items():
        bars = [bus for bus in layout.buses if bus.vertex == vertex]
        height = bars[-1].bottom - bars[0].y
        layout.risers.append(Box(vertex, "riser", x, bars[0].y, RISER, height))
    for link in topology.links:
        a, b = (layout.boxes.get(end) for end in link.ends)
        if a and b and {a.what, b.what} <= {"device", "nic"} and a.band == b.band:
            reach = max(abs(a.middle - b.middle), layout.arc_room.get(a.band, (0.0, 0.0))[0])
            layout.arc_room[a.band] = (reach, sizes.arcs - 14)
    boxes = [*layout.boxes.values(), *layout.buses]
    frame_right = max((f.x + f.width for f in layout.frames), default=0.0)
    layout.width = max([frame_right, *(box.right for box in boxes)], default=200) + MARGIN
    _note_order(topology, forest, layout)
    return layout


def _lanes_of_risers(topology: Topology, bands: Sequence[list[Node]]) -> dict[str, float]:
    """Where the bars of each vertex that joins leaves of several bands are tied."""
    band_of = {
        leaf.vertex: band
        for band, roots in enumerate(bands)
        for root in roots
        for leaf in root.leaves()
    }
    joined: dict[str, set[int]] = defaultdict(set)
    for link in topology.links:
        for here, there in (link.ends, link.ends[::-1]):
            if here in band_of:
                joined[there].add(band_of[here])
    several = [c.id for c in topology.components if c.kind in _JOINERS and len(joined[c.id]) > 1]
    return {vertex: MARGIN + (RISER + 6) * lane for lane, vertex in enumerate(several)}


def _note_order(topology: Topology, forest: Forest, layout: Layout) -> None:
    devices = {d.id for d in topology.devices}
    order: list[str] = []
    starts = []
    for root in forest.roots:
        below = [leaf.vertex for leaf in root.leaves() if leaf.vertex in devices]
        if below and (root.level != LEAF_LEVEL or not order):
            starts.append(len(order))
        order += below
    layout.device_order, layout.group_starts = tuple(order), tuple(starts)


def _sizes(topology: Topology, forest: Forest) -> _Sizes:
    """Columns as wide as the page allows, between legible and comfortable."""
    devices, nics = _widest_host(topology)
    room = _BAND_WIDTH - 120 - 7 * devices
    if len(topology.hosts) > 1:
        least = devices * _LEAST_DEVICE + nics * _LEAST_NIC
        room = 0.0 if 2 * least + 120 <= _BAND_WIDTH else room - 40
    device = min(max(room / (devices + 0.7 * nics), _LEAST_DEVICE), 96.0)
    nic = min(max(0.7 * device, _LEAST_NIC), 60.0)
    order = [leaf.vertex for root in forest.roots for leaf in root.leaves()]
    reach = _reach(topology, order)
    arcs = min(36.0 + 17.0 * reach, 190.0) if reach else 0.0
    between = _reach(topology, [r.vertex for r in forest.roots if r.level != LEAF_LEVEL])
    top = 14.0 + 16.0 * between if between > 1 else 0.0
    roots = {root.vertex for root in forest.roots if root.level != LEAF_LEVEL}
    linked = any(set(link.ends) <= roots for link in topology.links)
    several = len(topology.hosts) > 1
    return _Sizes(
        device=device,
        nic=nic,
        arcs=arcs,
        top=top,
        pad=6.0 if several else 10.0,
        gap=14.0 if several else 92.0 if linked else 26.0,  # 92: a label on the link
        host_gap=10.0,
        least_bar=nic if several else 104.0,  # holds "host bridge 10"
        link=20.0 if several else 34.0,
    )


def _widest_host(topology: Topology) -> tuple[int, int]:
    """Devices and NICs of the host that has most of them."""
    devices = Counter(d.host for d in topology.devices)
    nics = Counter(n.host for n in topology.nics)
    host = max(topology.hosts or ("",), key=lambda h: devices[h] + nics[h])
    return max(1, devices[host]), nics[host]


def _reach(topology: Topology, order: Sequence[str]) -> int:
    """How far apart in `order` the ends of a link between two of its members are at most."""
    place = {vertex: number for number, vertex in enumerate(order)}
    ends = [link.ends for link in topology.links]
    return max((abs(place[a] - place[b]) for a, b in ends if a in place and b in place), default=0)


class _Rows:
    """Which row each kind of vertex is in, counted from the top; rows nobody uses do not exist."""

    def __init__(self, forest: Forest) -> None:
        keys = {self._key(node) for root in forest.roots for node in _walk(root)}
        keys.discard((LEAF_LEVEL, 0))
        self._row = {key: row for row, key in enumerate(sorted(keys))}
        self.count = len(keys)

    @staticmethod
    def _key(node: Node) -> tuple[int, int]:
        return (node.level, node.depth if node.level == SWITCH_LEVEL else 0)

    def row(self, node: Node) -> int:
        return self._row.get(self._key(node), self.count)


def _walk(node: Node) -> list[Node]:
    return [node, *(below for child in node.children for below in _walk(child))]


def _bands(topology: Topology, forest: Forest, sizes: _Sizes) -> list[list[Node]]:
    """Roots cut into lines: whole hosts together; one host only if it is very wide."""
    units: list[list[Node]] = [list(g) for _, g in groupby(forest.roots, key=lambda r: r.host)]
    if len(units) == 1 and len(topology.devices) > _MOST_IN_LINE:
        units = [[root] for root in forest.roots]
    nics = {nic.id for nic in topology.nics}
    bands: list[list[Node]] = []
    used = 0.0
    for unit in units:
        trees = sum(root.level != LEAF_LEVEL for root in unit)
        width = sum(_width(root, nics, sizes) for root in unit) + sizes.gap * max(0, trees - 1)
        width += 2 * sizes.pad + sizes.host_gap
        if bands and used + width <= _BAND_WIDTH + 60:
            bands[-1] += unit
            used += width
        else:
            bands.append(list(unit))
            used = width
    return bands or [[]]


def _width(node: Node, nics: set[str], sizes: _Sizes) -> float:
    """Of `node` with all below it, in a frame."""
    if node.level == LEAF_LEVEL:
        return sizes.nic if node.vertex in nics else sizes.device
    gaps = 8.0 * sum(len(child.leaves()) > 1 for child in node.children)
    below = sum(_width(child, nics, sizes) for child in node.children) + gaps
    framed = node.level < SWITCH_LEVEL - 1  # packages and NUMA nodes
    return max(below, sizes.least_bar) + (2 * sizes.pad if framed else 0.0)


class _Band:
    """One line of hosts: places trees left to right, then what lies below them."""

    def __init__(
        self,
        topology: Topology,
        layout: Layout,
        *,
        sizes: _Sizes,
        rows: _Rows,
        lanes: Mapping[str, float],
        band: int,
        top: float,
    ) -> None:
        self.topology = topology
        self.layout = layout
        self.sizes = sizes
        self.rows = rows
        self.lanes = lanes
        self.band = band
        self.several_hosts = len(topology.hosts) > 1
        self.nics = {nic.id for nic in topology.nics}
        self.components = {c.id: c for c in topology.components}
        caption = _HOST_CAPTION if self.several_hosts else 0.0
        self.frame_top = top
        self.top = top + caption + sizes.top + (sizes.pad if rows.count else 0.0)
        pitch = BAR_HEIGHT + sizes.link
        self.leaf_y = self.top + rows.count * pitch
        self.pitch = pitch

    def place(self, roots: list[Node], *, is_last: bool) -> float:
        """Places everything of this band; the y where it ends."""
        pad = self.sizes.pad
        x = self.sizes.left
        for host, group in groupby(roots, key=lambda root: root.host):
            members = list(group)
            start = x
            inset = pad if self.several_hosts else 0.0
            x += inset
            for at, root in enumerate(members):
                if at:
                    leaves = root.level == LEAF_LEVEL and members[at - 1].level == LEAF_LEVEL
                    x += 0.0 if leaves else self.sizes.gap
                x = self._place_tree(root, x, root=True)
            x += inset
            if self.several_hosts:
                bottom = self.leaf_y + DEVICE_HEIGHT + 2 * pad + self.sizes.arcs
                frame = Frame(
                    "host", host, start, self.frame_top, x - start, bottom - self.frame_top
                )
                self.layout.frames.insert(0, frame)
            x += self.sizes.host_gap
        return self._place_below(roots, is_last=is_last)

    def _place_tree(self, node: Node, x: float, *, root: bool = False) -> float:
        """Places `node` and all below it from `x` on; the x where it ends."""
        if node.level == LEAF_LEVEL:
            return self._place_leaf(node, x)
        framed = self._frame_word(node, root)
        pad = self.sizes.pad if framed else 0.0
        start = x
        x += pad
        if all(child.level == LEAF_LEVEL for child in node.children):
            # Few leaves stand centred.
            leaves = sum(_width(child, self.nics, self.sizes) for child in node.children)
            x += max(0.0, (self.sizes.least_bar - leaves) / 2)
        for at, child in enumerate(node.children):
            if at and (child.children or node.children[at - 1].children):
                x += self._gap_between(node.children[at - 1], child)
            x = self._place_tree(child, x)
            if child.link is not None:
                self.layout.tree_links[child.link] = (node.vertex, child.vertex)
        x = max(x, start + pad + self.sizes.least_bar)
        row = self.rows.row(node)
        y = self.top + row * self.pitch
        left = start + pad
        self.layout.boxes[node.vertex] = Box(
            node.vertex, "bar", left + 3, y, x - left - 6, BAR_HEIGHT, row, self.band
        )
        x += pad
        if framed:
            bottom = self.leaf_y + DEVICE_HEIGHT + pad
            frame = Frame(framed, "", start, y - pad, x - start, bottom - y + pad)
            self.layout.frames.insert(0 if framed == "package" else len(self.layout.frames), frame)
        return x

    def _gap_between(self, left: Node, right: Node) -> float:
        ends = {left.vertex, right.vertex}
        linked = any(set(link.ends) == ends for link in self.topology.links)
        lone = self.several_hosts and len(left.leaves()) == len(right.leaves()) == 1
        return 40.0 if linked else 0.0 if lone else 8.0

    def _frame_word(self, node: Node, root: bool) -> str:
        if root:
            return "package"
        component = self.components[node.vertex]
        return "numa" if component.kind is ComponentKind.NUMA else ""

    def _place_leaf(self, node: Node, x: float) -> float:
        width = _width(node, self.nics, self.sizes)
        self.layout.boxes[node.vertex] = Box(
            node.vertex,
            "nic" if node.vertex in self.nics else "device",
            x + 4,
            self.leaf_y,
            width - 8,
            DEVICE_HEIGHT,
            self.rows.count,
            self.band,
        )
        return x + width

    def _place_below(self, roots: Sequence[Node], *, is_last: bool) -> float:
        """Crossbars and networks below the leaves they join; the y where the band ends."""
        here = {leaf.vertex for root in roots for leaf in root.leaves()}
        y = self.leaf_y + DEVICE_HEIGHT + (self.sizes.pad if self.rows.count else 0.0)
        y += self.sizes.arcs + (self.sizes.pad if self.several_hosts else 0.0)
        for kind in _JOINERS:
            y = self._place_buses(kind, here, y, is_last=is_last)
        return y

    def _place_buses(
        self, kind: ComponentKind, here: set[str], y: float, *, is_last: bool
    ) -> float:
        """A bar for each vertex that joins leaves of this band; those side by side share a row."""
        found = []
        for component in (c for c in self.topology.components if c.kind is kind):
            below = [self.layout.boxes[end] for end in self._joined_by(component) & here]
            if below:
                left = self.lanes.get(component.id, min(b.x for b in below))
                found.append((left, max(b.right for b in below), component.id))
            elif is_last and component.id not in self.layout.boxes:
                found.append((self.sizes.left, self.sizes.left + 160, component.id))
        taken: list[float] = []  # right end of each row so far
        what = "network" if kind is ComponentKind.NETWORK else "crossbar"
        for left, right, vertex in sorted(found):
            row = next((r for r, end in enumerate(taken) if end + 8 <= left), len(taken))
            taken[row : row + 1] = [right]
            top = y + BUS_LINK + row * (BAR_HEIGHT + 12)
            bus = Box(vertex, what, left, top, right - left, BAR_HEIGHT, row, self.band)
            self.layout.buses.append(bus)
            self.layout.boxes.setdefault(vertex, bus)
        return y + (BUS_LINK + len(taken) * (BAR_HEIGHT + 12) - 12 if taken else 0.0)

    def _joined_by(self, component: Component) -> set[str]:
        """The other ends of a component's links that are in this drawing so far."""
        ends = {e for link in self.topology.links if component.id in link.ends for e in link.ends}
        return {e for e in ends if e != component.id and e in self.layout.boxes}


_LEAVES = ("device", "nic")
_BARS_BELOW = ("crossbar", "network")

_Point = tuple[float, float]
_PIECES = 24  # of a curve

_Drawn = Counter[frozenset[str]]  # links by their ends, those between crossbars as one


@dataclass(frozen=True)
class Wire:
    """The path of one link, points along it, and the one where a mark may sit on it."""

    link: Link
    path: str
    label_x: float
    label_y: float
    points: tuple[_Point, ...]
    room: float = 0.0  # for words: the length of a horizontal stretch between two bars

    @property
    def is_curved(self) -> bool:
        """Whether it is no straight line."""
        return len(self.points) > 2

    @property
    def length(self) -> float:
        """From end to end as the crow flies."""
        return dist(self.points[0], self.points[-1])


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
    if a.what in _LEAVES and b.what in _BARS_BELOW:
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
            if here.what not in _LEAVES or there.what not in (*_LEAVES, *_BARS_BELOW):
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
    path = f"M{number(x)} {number(top)}V{number(bottom)}"
    return Wire(link, path, x, (top + bottom) / 2, ((x, top), (x, bottom)))


def _curve(link: Link, start: _Point, end: _Point, control: float, label: float) -> Wire:
    """A curve pulled up or down to `control`, its label at the height `label`."""
    points = (start[0], control, end[0], control, *end)
    path = f"M{number(start[0])} {number(start[1])}C{' '.join(map(number, points))}"
    along = tuple(_on_curve(start, end, control, at / _PIECES) for at in range(_PIECES + 1))
    return Wire(link, path, (start[0] + end[0]) / 2, label, along)


def _on_curve(start: _Point, end: _Point, control: float, t: float) -> _Point:
    """A cubic curve whose inner points lie below or above its ends, at the height `control`."""
    first, last = (1 - t) ** 2 * (1 + 2 * t), t**2 * (3 - 2 * t)
    inner = 3 * t * (1 - t) * control
    y = (1 - t) ** 3 * start[1] + inner + t**3 * end[1]
    return first * start[0] + last * end[0], y


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
        ends = ((left.right, y), (right.x, y))
        return Wire(link, path, (left.right + right.x) / 2, y, ends, right.x - left.right)
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
