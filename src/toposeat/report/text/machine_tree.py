"""A machine as a tree in text: packages, NUMA nodes, host bridges, switches, devices and NICs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from toposeat.model.quantity import Quantity
from toposeat.model.topology import Component, ComponentKind, Device, Link, Nic, PcieState, Topology
from toposeat.report.forest import Node, build_forest
from toposeat.report.machine_words import (
    component_words,
    device_code,
    device_ranges,
    link_medium,
    short_device_name,
)
from toposeat.report.text.console import TextStyle
from toposeat.report.units import clean, format_rate

MAX_SINGLE_DEVICES = 16  # up to so many every device has a line; beyond, likes are drawn once
_LEAST_LIKES = 3
_NAME_LETTERS = 28  # the whole name stands in the table of devices
_UNICODE, _ASCII = ("├─ ", "└─ ", "│  "), ("|- ", "`- ", "|  ")
_NOMINAL = "~"


def rate_words(rate: Quantity) -> str:
    """`~12.0 GB/s` for what only the kind of link tells, `11.3 GB/s` for what was measured."""
    mark = _NOMINAL if not rate.source.is_of_this_machine else ""
    return f"{mark}{format_rate(rate.value)}"


def each_way(link: Link) -> str:
    """The rate of each direction, once if they are the same."""
    both = (link.forward_bytes_per_s, link.backward_bytes_per_s)
    return " / ".join(dict.fromkeys(map(rate_words, both)))


def machine_tree(topology: Topology, style: TextStyle) -> list[Text]:
    """One line per vertex, with the link that leads to it."""
    forest = build_forest(topology)
    folded = len(topology.devices) > MAX_SINGLE_DEVICES
    writer = _TreeWriter(topology, _UNICODE if style.unicode else _ASCII, folded=folded)
    several = len(topology.hosts) > 1
    for host, roots in groupby(forest.roots, key=lambda root: root.host):
        if several:
            writer.lines.append(Text(clean(host), style="bold"))
        writer.write(list(roots), "", top=not several)
    for line in writer.lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return writer.lines


class _TreeWriter:
    def __init__(self, topology: Topology, guides: tuple[str, str, str], *, folded: bool) -> None:
        self.topology = topology
        self.guides = guides
        self.folded = folded
        self.lines: list[Text] = []
        vertices: list[Device | Nic | Component] = [*topology.devices, *topology.nics]
        self.vertices = {v.id: v for v in [*vertices, *topology.components]}
        self.code = {d.id: device_code(topology, at) for at, d in enumerate(topology.devices)}

    def write(self, siblings: Sequence[Node], indent: str, *, top: bool) -> None:
        """Lines of siblings and all below; of `top` ones without guides."""
        entries = self._entries(siblings)
        for number, (node, likes) in enumerate(entries):
            last = number == len(entries) - 1
            guide = "" if top else self.guides[1] if last else self.guides[0]
            below = "" if top else "   " if last else self.guides[2]
            if likes:
                self.lines.append(Text(f"{indent}{guide}{self._likes_words(likes)}", style="dim"))
                continue
            self.lines.append(Text.assemble(f"{indent}{guide}", *self._label(node)))
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

    def _label(self, node: Node) -> list[Text | str]:
        """What it is, then how it is linked to what is above."""
        vertex = self.vertices[node.vertex]
        parts = [self._name(vertex)]
        link = self.topology.link_of_id.get(node.link or "")
        if link is not None:
            rate = link.forward_bytes_per_s
            lanes = f" x{link.count}" if link.count > 1 else ""
            parts.append(Text(f"  [{rate_words(rate)} {link_medium(link)}{lanes}]", style="dim"))
        if not isinstance(vertex, Component) and vertex.pcie is not None:
            parts.append(Text(_width_words(vertex.pcie), style="yellow"))
        return list(parts)

    def _name(self, vertex: Device | Nic | Component) -> Text:
        if isinstance(vertex, Device):
            name = short_device_name(vertex.name, _NAME_LETTERS)
            details = [name or vertex.name, vertex.pci_bus_id or vertex.parent or ""]
            return _named(self.code[vertex.id], details, "bold green")
        if isinstance(vertex, Nic):
            rate = rate_words(vertex.bytes_per_s) if vertex.bytes_per_s else ""
            state = "down" if vertex.active is False else ""
            details = [vertex.name, vertex.pci_bus_id or "", rate, state]
            return _named(f"N{vertex.index}", details, "bold cyan")
        words = component_words(vertex)
        if vertex.kind is ComponentKind.HOST_BRIDGE and "bridge" not in words:
            words = f"host bridge {words}"
        cpus = f"  CPUs {clean(vertex.cpus)}" if vertex.cpus else ""
        return Text(words + cpus)


def _named(code: str, details: Sequence[str], look: str) -> Text:
    return Text.assemble((code, look), *(f"  {clean(each)}" for each in details if each))


def _width_words(state: PcieState) -> str:
    if state.width is None or state.max_width is None or state.width >= state.max_width:
        return ""
    return f"  x{state.width} of x{state.max_width}"
