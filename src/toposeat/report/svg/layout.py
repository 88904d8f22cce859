"""Coordinates of a machine's drawing: columns of leaves below bars, bands of hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from toposeat.model.topology import Component, ComponentKind, Topology
from toposeat.report.forest import LEAF_LEVEL, SWITCH_LEVEL, Forest, Node, build_forest

BAR_HEIGHT = 24.0
LINK_HEIGHT = 34.0  # of a tree link between two rows
DEVICE_HEIGHT = 62.0
MARGIN = 6.0
_PAD = 10.0  # from a frame to what it holds
_BAND_WIDTH = 1200.0
_MOST_IN_LINE = 24  # devices of one host
_LEAST_DEVICE = 46.0
_LEAST_NIC = 38.0
_LEAST_BAR = 96.0
_BAND_GAP = 34.0
_HOST_CAPTION = 26.0
_SMP_GAP = 92.0  # room for a label on the link between two packages


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
    """All boxes by vertex, frames, tree links (child above which parent), and the page size."""

    boxes: dict[str, Box] = field(default_factory=dict)
    networks: list[Box] = field(default_factory=list)  # one bar per band for the same vertex
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


def lay_out_machine(topology: Topology) -> Layout:
    """Coordinates for everything in `topology`."""
    forest = build_forest(topology)
    layout = Layout(other_links=forest.other_links)
    sizes = _sizes(topology, forest)
    rows = _Rows(forest)
    y = MARGIN
    for band, roots in enumerate(_bands(topology, forest, sizes)):
        y = (
            _Band(topology, layout, sizes=sizes, rows=rows, band=band, top=y).place(roots)
            + _BAND_GAP
        )
    layout.height = y - _BAND_GAP + MARGIN
    _note_arc_room(topology, layout, sizes)
    boxes = [*layout.boxes.values(), *layout.networks]
    frame_right = max((f.x + f.width for f in layout.frames), default=0.0)
    layout.width = max([frame_right, *(box.right for box in boxes)], default=200) + MARGIN
    _note_order(topology, forest, layout)
    return layout


def _note_arc_room(topology: Topology, layout: Layout, sizes: _Sizes) -> None:
    for link in topology.links:
        a, b = (layout.boxes.get(end) for end in link.ends)
        if a and b and {a.what, b.what} <= {"device", "nic"} and a.band == b.band:
            reach = max(abs(a.middle - b.middle), layout.arc_room.get(a.band, (0.0, 0.0))[0])
            layout.arc_room[a.band] = (reach, sizes.arcs - 14)


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
    return _Sizes(device=device, nic=nic, arcs=arcs, top=top)


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
    bands: list[list[Node]] = []
    used = 0.0
    for unit in units:
        width = sum(_width(root, topology, sizes) + 2 * _PAD for root in unit) + 60
        if bands and used + width <= _BAND_WIDTH + 100:
            bands[-1] += unit
            used += width
        else:
            bands.append(list(unit))
            used = width
    return bands or [[]]


def _width(root: Node, topology: Topology, sizes: _Sizes) -> float:
    nics = {nic.id for nic in topology.nics}
    return sum(sizes.nic if leaf.vertex in nics else sizes.device for leaf in root.leaves())


class _Band:
    """One line of hosts: places trees left to right, then what lies below them."""

    def __init__(
        self,
        topology: Topology,
        layout: Layout,
        *,
        sizes: _Sizes,
        rows: _Rows,
        band: int,
        top: float,
    ) -> None:
        self.topology = topology
        self.layout = layout
        self.sizes = sizes
        self.rows = rows
        self.band = band
        self.several_hosts = len(topology.hosts) > 1
        self.nics = {nic.id for nic in topology.nics}
        self.components = {c.id: c for c in topology.components}
        caption = _HOST_CAPTION if self.several_hosts else 0.0
        self.frame_top = top
        self.top = top + caption + sizes.top + (_PAD if rows.count else 0.0)
        pitch = BAR_HEIGHT + LINK_HEIGHT
        self.leaf_y = self.top + rows.count * pitch
        self.pitch = pitch

    def place(self, roots: list[Node]) -> float:
        """Places everything of this band; the y where it ends."""
        smp = self._has_links_between(roots)
        x = MARGIN
        for host, group in groupby(roots, key=lambda root: root.host):
            members = list(group)
            start = x
            inset = _PAD if self.several_hosts else 0.0
            x += inset
            for number, root in enumerate(members):
                if number:
                    leaves = root.level == LEAF_LEVEL and members[number - 1].level == LEAF_LEVEL
                    x += 0.0 if leaves else _SMP_GAP if smp else 26.0
                x = self._place_tree(root, x, root=True)
            x += inset
            if self.several_hosts:
                bottom = self.leaf_y + DEVICE_HEIGHT + 2 * _PAD + self.sizes.arcs
                frame = Frame(
                    "host", host, start, self.frame_top, x - start, bottom - self.frame_top
                )
                self.layout.frames.insert(0, frame)
            x += 22.0
        return self._place_below(roots)

    def _has_links_between(self, roots: Sequence[Node]) -> bool:
        names = {root.vertex for root in roots if root.level != LEAF_LEVEL}
        return any(e[0] in names and e[1] in names for e in (li.ends for li in self.topology.links))

    def _place_tree(self, node: Node, x: float, *, root: bool = False) -> float:
        """Places `node` and all below it from `x` on; the x where it ends."""
        if node.level == LEAF_LEVEL:
            return self._place_leaf(node, x)
        framed = self._frame_word(node, root)
        pad = _PAD if framed else 0.0
        start = x
        x += pad
        if all(child.level == LEAF_LEVEL for child in node.children):
            x += max(0.0, (_LEAST_BAR - self._leaf_widths(node)) / 2)  # few leaves stand centred
        for number, child in enumerate(node.children):
            if number and (child.children or node.children[number - 1].children):
                x += self._gap_between(node.children[number - 1], child)
            x = self._place_tree(child, x)
            if child.link is not None:
                self.layout.tree_links[child.link] = (node.vertex, child.vertex)
        x = max(x, start + pad + _LEAST_BAR)
        row = self.rows.row(node)
        y = self.top + row * self.pitch
        left = start + pad
        self.layout.boxes[node.vertex] = Box(
            node.vertex, "bar", left + 3, y, x - left - 6, BAR_HEIGHT, row, self.band
        )
        x += pad
        if framed:
            bottom = self.leaf_y + DEVICE_HEIGHT + _PAD
            frame = Frame(framed, "", start, y - _PAD, x - start, bottom - y + _PAD)
            self.layout.frames.insert(0 if framed == "package" else len(self.layout.frames), frame)
        return x

    def _leaf_widths(self, node: Node) -> float:
        sizes = self.sizes
        return sum(sizes.nic if c.vertex in self.nics else sizes.device for c in node.children)

    def _gap_between(self, left: Node, right: Node) -> float:
        ends = {left.vertex, right.vertex}
        linked = any(set(link.ends) == ends for link in self.topology.links)
        return 40.0 if linked else 8.0

    def _frame_word(self, node: Node, root: bool) -> str:
        if root:
            return "package"
        component = self.components[node.vertex]
        return "numa" if component.kind is ComponentKind.NUMA else ""

    def _place_leaf(self, node: Node, x: float) -> float:
        nic = node.vertex in self.nics
        width = self.sizes.nic if nic else self.sizes.device
        self.layout.boxes[node.vertex] = Box(
            node.vertex,
            "nic" if nic else "device",
            x + 4,
            self.leaf_y,
            width - 8,
            DEVICE_HEIGHT,
            self.rows.count,
            self.band,
        )
        return x + width

    def _place_below(self, roots: Sequence[Node]) -> float:
        """Crossbars and networks below the devices they join; the y where the band ends."""
        here = [leaf.vertex for root in roots for leaf in root.leaves()]
        frames = bool(self.rows.count or self.several_hosts)
        y = self.leaf_y + DEVICE_HEIGHT + (_PAD if frames else 0.0)
        y += self.sizes.arcs + (_PAD if self.several_hosts else 0.0)
        y = self._place_crossbars(set(here), y)
        return self._place_networks(set(here), y)

    def _place_crossbars(self, here: set[str], y: float) -> float:
        taken: list[float] = []  # right end of each row so far
        found = []
        for component in self._of_kind(ComponentKind.NVSWITCH):
            ends = self._joined_by(component)
            if component.id not in self.layout.boxes and ends & here:
                found.append((component, [self.layout.boxes[e] for e in ends & here]))
        found.sort(key=lambda pair: min(box.x for box in pair[1]))
        for component, below in found:
            left, right = min(b.x for b in below), max(b.right for b in below)
            row = next((r for r, end in enumerate(taken) if end + 8 <= left), len(taken))
            taken[row : row + 1] = [right]
            top = y + LINK_HEIGHT + row * (BAR_HEIGHT + 12)
            self.layout.boxes[component.id] = Box(
                component.id, "crossbar", left, top, right - left, BAR_HEIGHT, row, self.band
            )
        return y + (LINK_HEIGHT + len(taken) * (BAR_HEIGHT + 12) if taken else 0.0)

    def _place_networks(self, here: set[str], y: float) -> float:
        placed = 0
        for component in self._of_kind(ComponentKind.NETWORK):
            below = [self.layout.boxes[e] for e in self._joined_by(component) & here]
            if not below and (component.id in self.layout.boxes or self.band):
                continue
            left = min((b.x for b in below), default=MARGIN)
            right = max((b.right for b in below), default=MARGIN + 160)
            top = y + LINK_HEIGHT + placed * (BAR_HEIGHT + 12)
            box = Box(component.id, "network", left, top, right - left, BAR_HEIGHT, 0, self.band)
            self.layout.networks.append(box)
            self.layout.boxes.setdefault(component.id, box)
            placed += 1
        return y + (LINK_HEIGHT + placed * (BAR_HEIGHT + 12) if placed else 0.0)

    def _of_kind(self, kind: ComponentKind) -> list[Component]:
        return [c for c in self.topology.components if c.kind is kind]

    def _joined_by(self, component: Component) -> set[str]:
        """The other ends of a component's links that are in this drawing so far."""
        ends = {e for link in self.topology.links if component.id in link.ends for e in link.ends}
        return {e for e in ends if e != component.id and e in self.layout.boxes}
