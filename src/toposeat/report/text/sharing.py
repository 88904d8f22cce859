"""Device links in words, and what is shared by whom: links that many devices use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

from rich.console import RenderableType

from toposeat.model.topology import Component, ComponentKind, Link, LinkKind, Topology
from toposeat.report.machine_words import (
    component_words,
    device_code,
    device_ranges,
    link_medium,
    vertex_words,
)
from toposeat.report.text.console import columns
from toposeat.report.text.machine_tree import each_way, rate_words

_DEVICE_LINKS = frozenset({LinkKind.NVLINK, LinkKind.XGMI, LinkKind.XELINK, LinkKind.C2C})
_MAX_ROWS = 24
_MAX_PAIRS = 16
_LEVEL = [
    ComponentKind.NETWORK,
    ComponentKind.PACKAGE,
    ComponentKind.NUMA,
    ComponentKind.HOST_BRIDGE,
    ComponentKind.NVSWITCH,
    ComponentKind.SWITCH,
]


def device_link_table(topology: Topology) -> RenderableType | None:
    """Which devices NVLink and the like join, one row per kind, count and rate."""
    devices = {d.id for d in topology.devices}
    groups: dict[tuple[str, str], list[Link]] = defaultdict(list)
    for link in topology.links:
        if link.kind in _DEVICE_LINKS and devices & set(link.ends):
            lanes = f" x{link.count}" if link.count > 1 else ""
            groups[f"{link_medium(link)}{lanes}", each_way(link)].append(link)
    rows = [
        (medium, way, _joined_words(topology, links, devices))
        for (medium, way), links in groups.items()
    ]
    return columns(("device links", "each way", "join"), rows, fold=(2,)) if rows else None


def _joined_words(topology: Topology, links: list[Link], devices: set[str]) -> str:
    parts = []
    pairs = [link.ends for link in links if set(link.ends) <= devices]
    if pairs:
        parts.append(_pair_words(topology, pairs))
    ports: dict[str, set[str]] = defaultdict(set)
    for link in links:
        inside = devices & set(link.ends)
        if len(inside) == 1:
            (other,) = set(link.ends) - inside
            ports[vertex_words(topology, other)] |= inside
    for other, members in list(ports.items())[:_MAX_PAIRS]:
        parts.append(f"{device_ranges(topology, members)} to {other}")
    if len(ports) > _MAX_PAIRS:
        parts.append(f"and {len(ports) - _MAX_PAIRS} more")
    return "; ".join(parts)


def _pair_words(topology: Topology, pairs: list[tuple[str, str]]) -> str:
    members = {end for pair in pairs for end in pair}
    known = {frozenset(pair) for pair in pairs}
    if len(members) > 2 and all(frozenset(p) in known for p in combinations(members, 2)):
        return f"each two of {device_ranges(topology, members)}"
    code = {d.id: device_code(topology, at) for at, d in enumerate(topology.devices)}
    words = [f"{code[a]}-{code[b]}" for a, b in pairs]
    if len(words) > _MAX_PAIRS:
        words = [*words[: _MAX_PAIRS - 1], f"and {len(words) - _MAX_PAIRS + 1} more"]
    return ", ".join(words)


def shared_link_table(topology: Topology) -> RenderableType | None:
    """Every link that several devices share as their way out, and its capacity."""
    rows = _shared_rows(topology)
    if not rows:
        return None
    if len(rows) > _MAX_ROWS:
        rest = len(rows) - _MAX_ROWS + 1
        rows = [*rows[: _MAX_ROWS - 1], (f"and {rest} more", "", "", "")]
    return columns(
        ("shared link", "by", "each way", "both together"), rows, right=(2, 3), fold=(0, 1)
    )


def _shared_rows(topology: Topology) -> list[tuple[str, str, str, str]]:
    components = {c.id: c for c in topology.components}
    rows = []
    for users in _link_users(topology):
        if not users.is_shared or "on-die" in users.link.name:
            continue
        link = users.link
        both = link.combined_bytes_per_s
        below = _lower_end(components, link)
        rows.append(
            (
                f"uplink of {component_words(below)}" if below else _ends_words(topology, link),
                _users_words(topology, users, below),
                each_way(link),
                rate_words(both) if both is not None else "-",
            )
        )
    return rows


def _lower_end(components: Mapping[str, Component], link: Link) -> Component | None:
    """The end that a PCIe link between components is the uplink of."""
    a, b = (components.get(end) for end in link.ends)
    if a is None or b is None or link.kind is not LinkKind.PCIE:
        return None
    return a if _LEVEL.index(a.kind) >= _LEVEL.index(b.kind) else b


def _ends_words(topology: Topology, link: Link) -> str:
    near, far = (vertex_words(topology, end) for end in link.ends)
    return f"{link_medium(link)} {near} - {far}"


def _users_words(topology: Topology, users: _LinkUsers, below: Component | None) -> str:
    """Those whose way out an uplink is; of another link both sides, or the one with fewer."""
    if below is not None:
        outward = users.link.ends[0] == below.id
        return device_ranges(topology, users.forward if outward else users.backward)
    if users.between_devices or len(users.forward) == len(users.backward):
        sides = (device_ranges(topology, side) for side in (users.forward, users.backward))
        return " with ".join(sides)
    return device_ranges(topology, users.group)


@dataclass
class _LinkUsers:
    """Devices that send over a link, by direction: from `ends[0]` to `ends[1]`, and back.

    `between_devices` says that both ends are devices.
    """

    link: Link
    between_devices: bool = False
    forward: set[str] = field(default_factory=set)
    backward: set[str] = field(default_factory=set)

    @property
    def is_shared(self) -> bool:
        """Whether two devices or more meet on it, other than at the port of a single one."""
        fewer, more = sorted((len(self.forward), len(self.backward)))
        return fewer >= 2 or (fewer == 1 and more >= 2 and not self._is_port)

    @property
    def _is_port(self) -> bool:
        """Whether it is the way out of one device only: all traffic one way is that device's."""
        return not self.between_devices and any(
            side <= set(self.link.ends) for side in (self.forward, self.backward)
        )

    @property
    def group(self) -> set[str]:
        """The devices on the side with fewer: those that share the link as their way out."""
        return min((self.forward, self.backward), key=len)


def _link_users(topology: Topology) -> list[_LinkUsers]:
    """Users of every link that routes between devices cross, in the order of the links."""
    devices = {device.id for device in topology.devices}
    users = {link.id: _LinkUsers(link, devices >= set(link.ends)) for link in topology.links}
    for route in topology.routes:
        if route.target not in devices:
            continue
        here = route.source
        for id in route.links:
            ends = users[id].link.ends
            ahead = here == ends[0]
            (users[id].forward if ahead else users[id].backward).add(route.source)
            here = ends[1] if ahead else ends[0]
    return [each for each in users.values() if each.forward or each.backward]
