"""A topology's vertices as trees, top down, and the links that are in no tree."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from toposeat.model.topology import ComponentKind, Device, Link, Nic, Topology

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

    Switches of device links (NVSwitch) and network vertices are in no tree. A NIC that hangs on a
    device stands beside it. Breadth first from the highest vertices, so that a vertex with several
    links upwards is a child of the highest of them; its other links are in no tree.
    """
    nodes = _nodes(topology)
    near = _neighbours(topology, nodes)
    position = {vertex: number for number, vertex in enumerate(nodes)}
    seen: set[str] = set()
    roots: list[Node] = []
    attached = _nics_on_devices(topology, near)
    for vertex in sorted(nodes, key=lambda v: (nodes[v].level, position[v])):
        if vertex in seen or vertex in attached:
            continue
        roots.append(nodes[vertex])
        _grow(nodes, near, vertex, seen, attached)
    for nic, (device, _) in attached.items():
        _seat_beside(nodes, roots, nic, device)
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


def _nics_on_devices(
    topology: Topology, near: dict[str, list[tuple[str, Link]]]
) -> dict[str, tuple[str, str]]:
    """NICs whose only neighbour in the node is a device: NIC -> (device, link)."""
    devices = {d.id for d in topology.devices}
    found = {}
    for nic in topology.nics:
        ends = near[nic.id]
        if ends and all(end in devices for end, _ in ends):
            found[nic.id] = (ends[0][0], ends[0][1].id)
    return found


def _grow(
    nodes: dict[str, Node],
    near: dict[str, list[tuple[str, Link]]],
    root: str,
    seen: set[str],
    attached: dict[str, tuple[str, str]],
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


def _seat_beside(nodes: dict[str, Node], roots: list[Node], nic: str, device: str) -> None:
    lists = [node.children for node in nodes.values()] + [roots]
    beside = next(siblings for siblings in lists if nodes[device] in siblings)
    beside.insert(beside.index(nodes[device]) + 1, nodes[nic])


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
