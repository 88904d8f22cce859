"""A machine as trees, top down: packages, NUMA nodes, host bridges, switches, devices and NICs."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from toposeat.model.topology import Component, ComponentKind, Device, Link, Nic, PcieState, Topology
from toposeat.report.parts import Cell, Line, Part, Words
from toposeat.report.text import TextStyle
from toposeat.report.units import clean
from toposeat.report.view.links import lane_words, rate_words
from toposeat.report.view.machine import (
    component_words,
    device_code,
    device_ranges,
    short_device_name,
)

_LEVEL = {
    ComponentKind.PACKAGE: 0,
    ComponentKind.NUMA: 1,
    ComponentKind.HOST_BRIDGE: 2,
    ComponentKind.SWITCH: 3,
}
SWITCH_LEVEL = _LEVEL[ComponentKind.SWITCH]
LEAF_LEVEL = 4


@dataclass
class Node:
    """A vertex in its tree. `link` leads to the parent; `depth` counts switches above a switch."""

    vertex: str
    level: int
    host: str
    link: str | None = None
    depth: int = 0
    children: list[Node] = field(default_factory=list)

    def leaves(self) -> list[Node]:
        """The leaves below, left to right (the node itself if it has no children)."""
        if not self.children:
            return [self]
        return [leaf for child in self.children for leaf in child.leaves()]


@dataclass(frozen=True)
class Forest:
    """Roots in drawing order, and the ids of links that no tree edge stands for."""

    roots: tuple[Node, ...]
    other_links: tuple[str, ...]


def build_forest(topology: Topology) -> Forest:
    """Trees of packages, NUMA nodes, bridges, switches, devices and NICs.

    Switches of device links (NVSwitch) and network vertices are in no tree. A NIC or a tile that
    hangs on a device stands beside it. Breadth first from the highest vertices, so that a vertex
    with several links upwards is a child of the highest of them; its other links are in no tree.
    """
    nodes = _nodes(topology)
    near = _neighbours(topology, nodes)
    position = {vertex: number for number, vertex in enumerate(nodes)}
    seen: set[str] = set()
    roots: list[Node] = []
    attached = _leaves_on_devices(topology, near)
    for vertex in sorted(nodes, key=lambda v: (nodes[v].level, position[v])):
        if vertex in seen or vertex in attached:
            continue
        roots.append(nodes[vertex])
        _grow(nodes, near, vertex, seen, attached)
    for leaf, device in attached.items():
        _seat_beside(nodes, roots, leaf, device)
    first_device = {d.id: number for number, d in enumerate(topology.devices)}
    roots = _sorted(roots, first_device, position)
    hosts = {host: number for number, host in enumerate(topology.hosts)}
    roots.sort(key=lambda root: hosts.get(root.host, len(hosts)))
    used = {node.link for node in nodes.values() if node.link is not None}
    others = tuple(link.id for link in topology.links if link.id not in used)
    return Forest(tuple(roots), others)


def _nodes(topology: Topology) -> dict[str, Node]:
    nodes = {
        c.id: Node(c.id, _LEVEL[c.kind], c.host) for c in topology.components if c.kind in _LEVEL
    }
    leaves: list[Device | Nic] = [*topology.devices, *topology.nics]
    for leaf in leaves:
        nodes[leaf.id] = Node(leaf.id, LEAF_LEVEL, leaf.host)
    return nodes


def _neighbours(topology: Topology, nodes: dict[str, Node]) -> dict[str, list[tuple[str, Link]]]:
    near: dict[str, list[tuple[str, Link]]] = {vertex: [] for vertex in nodes}
    for link in topology.links:
        a, b = link.ends
        if a in nodes and b in nodes and a != b:
            near[a].append((b, link))
            near[b].append((a, link))
    return near


def _leaves_on_devices(
    topology: Topology, near: dict[str, list[tuple[str, Link]]]
) -> dict[str, str]:
    """NICs, and devices such as a second tile, that only devices lead to: leaf -> device.

    Of several devices the one with the fastest link; a device needs one that hangs on something.
    """
    devices = dict.fromkeys(d.id for d in topology.devices)
    nics = [nic.id for nic in topology.nics]
    leaves = {*devices, *nics}
    hanging = {d for d in devices if any(end not in leaves for end, _ in near[d])}
    found = {}
    for leaf in (*nics, *devices):
        beside = hanging if leaf in devices else devices
        ends = [each for each in near[leaf] if each[0] in beside]
        if ends and all(end in devices for end, _ in near[leaf]):
            found[leaf] = max(ends, key=lambda each: each[1].forward_bytes_per_s.value)[0]
    return found


def _grow(
    nodes: dict[str, Node],
    near: dict[str, list[tuple[str, Link]]],
    root: str,
    seen: set[str],
    attached: Container[str],
) -> None:
    seen.add(root)
    queue = deque([root])
    while queue:
        here = nodes[queue.popleft()]
        for vertex, link in near[here.vertex]:
            below = nodes[vertex]
            if vertex in seen or vertex in attached or not _may_hang(here, below):
                continue
            seen.add(vertex)
            below.link = link.id
            below.depth = here.depth + (here.level == below.level)
            here.children.append(below)
            queue.append(vertex)


def _may_hang(above: Node, below: Node) -> bool:
    chained = above.level == below.level == SWITCH_LEVEL
    return above.host == below.host and (above.level < below.level or chained)


def _seat_beside(nodes: dict[str, Node], roots: list[Node], leaf: str, device: str) -> None:
    lists = [node.children for node in nodes.values()] + [roots]
    beside = next(siblings for siblings in lists if nodes[device] in siblings)
    beside.insert(beside.index(nodes[device]) + 1, nodes[leaf])


def _sorted(
    siblings: list[Node], first_device: dict[str, int], position: dict[str, int]
) -> list[Node]:
    """Siblings by their first device; what has none follows what it was written after."""

    def key(node: Node) -> tuple[float, int]:
        devices = [first_device[n.vertex] for n in node.leaves() if n.vertex in first_device]
        return (min(devices) if devices else float("inf"), position[node.vertex])

    device_beside: dict[str, str] = {}
    for left, right in pairwise(siblings):
        beside = right.link is None and right.level == LEAF_LEVEL and left.level == LEAF_LEVEL
        if beside and right.vertex not in first_device:
            device_beside[right.vertex] = device_beside.get(left.vertex, left.vertex)
    keys = {node.vertex: key(node) for node in siblings}
    for vertex, owner in device_beside.items():
        keys[vertex] = (keys[owner][0], keys[vertex][1])
    for node in siblings:
        node.children = _sorted(node.children, first_device, position)
    return sorted(siblings, key=lambda node: keys[node.vertex])


MAX_SINGLE_DEVICES = 16  # up to so many every device has a line; beyond, likes are drawn once
_LEAST_LIKES = 3
_NAME_LETTERS = 28  # the whole name stands in the table of devices
_UNICODE, _ASCII = ("├─ ", "└─ ", "│  "), ("|- ", "`- ", "|  ")


def machine_tree(topology: Topology, style: TextStyle) -> list[Part]:
    """One line per vertex, with the link that leads to it."""
    forest = build_forest(topology)
    folded = len(topology.devices) > MAX_SINGLE_DEVICES
    writer = _TreeWriter(topology, _UNICODE if style.unicode else _ASCII, folded=folded)
    several = len(topology.hosts) > 1
    for host, roots in groupby(forest.roots, key=lambda root: root.host):
        if several:
            writer.line(Cell(clean(host), "strong"))
        writer.write(list(roots), "", top=not several)
    return writer.lines


class _TreeWriter:
    def __init__(self, topology: Topology, guides: tuple[str, str, str], *, folded: bool) -> None:
        self.topology = topology
        self.guides = guides
        self.folded = folded
        self.lines: list[Part] = []
        vertices: list[Device | Nic | Component] = [*topology.devices, *topology.nics]
        self.vertices = {v.id: v for v in [*vertices, *topology.components]}
        self.code = {d.id: device_code(topology, at) for at, d in enumerate(topology.devices)}

    def line(self, *cells: Words) -> None:
        """One line, cut where it is too long."""
        self.lines.append(Line(cells, end="hang"))

    def write(self, siblings: Sequence[Node], indent: str, *, top: bool) -> None:
        """Lines of siblings and all below; of `top` ones without guides."""
        entries = self._entries(siblings)
        for number, (node, likes) in enumerate(entries):
            last = number == len(entries) - 1
            guide = "" if top else self.guides[1] if last else self.guides[0]
            below = "" if top else "   " if last else self.guides[2]
            if likes:
                self.line(Cell(f"{indent}{guide}{self._likes_words(likes)}", "faint"))
                continue
            self.line(f"{indent}{guide}", *self._label(node))
            self.write(node.children, indent + below, top=False)

    def _entries(self, siblings: Sequence[Node]) -> list[tuple[Node, list[Node]]]:
        """Siblings one by one; where likes are drawn once, the rest of a run as one entry."""
        if not self.folded:
            return [(node, []) for node in siblings]
        entries: list[tuple[Node, list[Node]]] = []
        for _, run in groupby(siblings, key=self._signature):
            members = list(run)
            if len(members) < _LEAST_LIKES:
                entries += [(node, []) for node in members]
            else:
                entries += [(members[0], []), (members[0], members[1:])]
        return entries

    def _signature(self, node: Node) -> tuple[object, ...]:
        vertex = self.vertices[node.vertex]
        link = self.topology.link_of_id.get(node.link or "")
        return (
            node.level,
            type(vertex).__name__,
            vertex.name if isinstance(vertex, Device) else "",
            None if link is None else (link.kind, link.forward_bytes_per_s),
            tuple(self._signature(child) for child in node.children),
        )

    def _likes_words(self, likes: Sequence[Node]) -> str:
        inside = {leaf.vertex for node in likes for leaf in node.leaves()} & set(self.code)
        devices = device_ranges(self.topology, inside)
        return f"{len(likes)} more like it" + (f": {devices}" if devices else "")

    def _label(self, node: Node) -> list[Words]:
        """What it is, then how it is linked to what is above."""
        vertex = self.vertices[node.vertex]
        parts = self._name(vertex)
        link = self.topology.link_of_id.get(node.link or "")
        if link is not None:
            words = f"{rate_words(link.forward_bytes_per_s)} {lane_words(link)}"
            parts.append(Cell(f"  [{words}]", "faint"))
        if not isinstance(vertex, Component) and vertex.pcie is not None:
            parts.append(Cell(_width_words(vertex.pcie), "doubt"))
        return parts

    def _name(self, vertex: Device | Nic | Component) -> list[Words]:
        if isinstance(vertex, Device):
            name = short_device_name(vertex.name, _NAME_LETTERS)
            details = [name or vertex.name, vertex.pci_bus_id or vertex.parent or ""]
            return _named(self.code[vertex.id], details, "device")
        if isinstance(vertex, Nic):
            rate = rate_words(vertex.bytes_per_s) if vertex.bytes_per_s else ""
            state = "down" if vertex.active is False else ""
            details = [vertex.name, vertex.pci_bus_id or "", rate, state]
            return _named(f"N{vertex.index}", details, "nic")
        words = component_words(vertex)
        if vertex.kind is ComponentKind.HOST_BRIDGE and "bridge" not in words:
            words = f"host bridge {words}"
        cpus = f"  CPUs {clean(vertex.cpus)}" if vertex.cpus else ""
        return [words + cpus]


def _named(code: str, details: Sequence[str], look: str) -> list[Words]:
    return [Cell(code, look), *(f"  {clean(each)}" for each in details if each)]


def _width_words(state: PcieState) -> str:
    if state.width is None or state.max_width is None or state.width >= state.max_width:
        return ""
    return f"  x{state.width} of x{state.max_width}"
