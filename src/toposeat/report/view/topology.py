"""A topology as text: tree, matrix of best paths, device links, who shares links, doubts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from toposeat.model.few import within
from toposeat.model.flow_rate import flow_rate
from toposeat.model.plural import plural
from toposeat.model.quantity import Knowledge, Source
from toposeat.model.topology import (
    Component,
    ComponentKind,
    Device,
    Link,
    LinkKind,
    PathClass,
    Route,
    Topology,
)
from toposeat.report.parts import Fact, Part, Table, sentences, titled_list
from toposeat.report.text import PLAIN, TextStyle, height, lay_out
from toposeat.report.units import clean, format_bytes, format_seconds, known
from toposeat.report.view.links import (
    DEVICE_LINKS,
    NOMINAL_MARK,
    each_way,
    joined_words,
    lane_words,
    link_classes,
    plain_rate,
    rate_number,
    rate_words,
)
from toposeat.report.view.machine import (
    PATH_CLASS_WORDS,
    assumed_lines,
    component_words,
    device_code,
    device_ranges,
    link_medium,
    link_words,
    quantity_counts,
    relation_word,
    remarks,
    topology_sentence,
    vertex_words,
)
from toposeat.report.view.tree import MAX_SINGLE_DEVICES, machine_tree

_Block = list[Part]


def render_topology_text(
    topology: Topology,
    style: TextStyle = PLAIN,
    *,
    knowledge: Knowledge | None = None,
    lines: int | None = None,
) -> str:
    """The machine as text, the overview first, doubts last.

    `knowledge` is how much of it is told, where that is to be said. `lines` are the most that there
    may be, None for everything: the overview and the first of the doubts are always there, other
    blocks whole or not at all.
    """
    overview = topology_overview(topology, knowledge)
    if lines is None:
        blocks = [*_tables(topology, style).values(), *topology_provenance(topology)]
    else:
        doubts = _first_doubts(topology)
        room = lines - height([*overview, *doubts])
        blocks = [*_fitting(_tables(topology, style), room), doubts]
    separated = [part for block in blocks if block for part in ("", *block)]
    return lay_out([*overview, *separated], style)


def topology_overview(topology: Topology, knowledge: Knowledge | None = None) -> _Block:
    """Name, devices, origin, and how far the numbers can be trusted."""
    parts: _Block = [Fact("Topology", topology_sentence(topology))]
    if topology.description:
        parts.append(Fact("", clean(topology.description)))
    parts.append(Fact("Origin", clean(topology.origin)))
    if topology.links:
        parts.append(Fact("Numbers", number_words(topology)))
    if knowledge is not None and knowledge.pairs:
        parts.append(Fact("Known", knowledge_words(knowledge)))
    return parts


def _tables(topology: Topology, style: TextStyle) -> dict[str, _Block]:
    """Tree, matrix and tables of the machine, by what they are."""
    tree = {"tree": [*machine_tree(topology, style)]} if topology.links else {}
    return tree | topology_tables(topology)


def topology_tables(topology: Topology) -> dict[str, _Block]:
    """Matrix and tables of the machine, by what they are."""
    found: dict[str, _Block] = {}
    if topology.routes:
        cells = PairCells(topology)
        found["matrix"] = [pair_matrix(topology, cells), "", _legend(topology, cells)]
    tables = {"joined": device_link_table(topology), "shared": shared_link_table(topology)}
    found |= {name: [table] for name, table in tables.items() if table is not None}
    if topology.links:
        found["kinds"] = [_link_kinds(topology)]
    if len(topology.devices) <= MAX_SINGLE_DEVICES or any(
        d.name or d.pci_bus_id or d.uuid for d in topology.devices
    ):
        found["devices"] = [_devices(topology)]
    if topology.nics and not topology.links:
        found["nics"] = [_nics(topology)]
    return found


_FIRST = ("matrix", "joined", "tree", "shared", "devices", "nics", "kinds")  # where room is short


def _fitting(blocks: dict[str, _Block], room: int) -> list[_Block]:
    """The blocks that `room` lines hold, the most telling first, in the order of all of them."""
    taken = set()
    for name in _FIRST:
        needed = height(["", *blocks[name]]) if name in blocks else 0
        if 0 < needed <= room:
            taken.add(name)
            room -= needed
    return [block for name, block in blocks.items() if name in taken]


_MOST_DOUBTS = 2


def _first_doubts(topology: Topology) -> _Block:
    """What must not be overlooked: hidden devices and the first doubts."""
    more = len(topology.report) - _MOST_DOUBTS
    rest = [f"and {plural(more, 'doubt')} more"] if more > 0 else []
    return [*_hidden(topology), *sentences([*topology.report[:_MOST_DOUBTS], *rest])]


def topology_provenance(topology: Topology) -> list[_Block]:
    """Who published the numbers, what was assumed, what is hidden or doubtful; some are empty."""
    return [
        titled_list("Sources", topology.sources),
        titled_list("Assumed", assumed_lines(topology)),
        titled_list("Remarks", remarks(topology)),
        _hidden(topology),
        titled_list("Doubts", topology.report),
    ]


def number_words(topology: Topology) -> str:
    """Where capacities and limits come from: provenance of every number that is shown."""
    counts = quantity_counts(topology)
    parts = [f"{count} {source.value}" for source, count in counts.items() if count]
    of_kind = [s.value for s in (Source.NOMINAL, Source.ASSUMED) if counts[s]]
    mark = f"; {NOMINAL_MARK} marks {' and '.join(of_kind)} ones, not measured here"
    return ", ".join(parts) + (mark if of_kind else "")


def knowledge_words(knowledge: Knowledge) -> str:
    """Who says whether device links join pairs, and what nobody says of near CPUs."""
    parts = [f"from sources for {knowledge.told}"] if knowledge.told else []
    parts += [f"from the product for {n} ({clean(what)})" for what, n in knowledge.inferred.items()]
    if knowledge.untold_pairs:
        parts.append(f"unknown for {len(knowledge.untold_pairs)}")
    pairs = plural(knowledge.pairs, "pair")
    words = f"which GPUs are joined by device links: {', '.join(parts)} of {pairs}"
    if knowledge.untold_affinities:
        count = plural(len(knowledge.untold_affinities), "device")
        words += f"; near CPUs and memory node of {count} are unknown"
    return words


def _hidden(topology: Topology) -> _Block:
    gpus = plural(len(topology.hidden), "GPU")
    words = f"{gpus} of this machine could not be used by the process that read it"
    return [Fact("Hidden", f"{words}: {', '.join(topology.hidden)}")] if topology.hidden else []


def _devices(topology: Topology) -> Part:
    several = len(topology.hosts) > 1
    header = ["device", "name", "pci", "numa", "cpus", "memory", "uuid"]
    rows = [[*([d.host] if several else []), *_device_row(d)] for d in topology.devices]
    if several:
        header.insert(0, "host")
    fold = [at for at, name in enumerate(header) if name in ("name", "cpus", "uuid")]
    return Table(header, rows, fold=fold, only_used=True)


def _device_row(device: Device) -> list[str]:
    return [
        f"D{device.index}",
        device.name or "-",
        device.pci_bus_id or "-",
        known(device.numa_node),
        device.cpus or "-",
        known(device.memory_bytes, format_bytes),
        device.uuid or "-",
    ]


def _nics(topology: Topology) -> Part:
    rows = [
        (f"N{n.index}", n.name or "-", n.pci_bus_id or "-", known(n.numa_node))
        for n in topology.nics
    ]
    return Table(("nic", "name", "pci", "numa"), rows)


_LINK_HEADER = ("kind", "per direction", "both together", "latency", "source")


def _link_kinds(topology: Topology) -> Part:
    """One row per set of links that look alike."""
    groups = Counter(map(_link_row, topology.links))
    rows = [(str(links), *row) for row, links in groups.items()]
    return Table(("links", *_LINK_HEADER), rows, right=(0, 2, 3, 4))


def link_list(topology: Topology) -> Table:
    """Every link with its capacities and where they come from."""
    rows = [(link_words(topology, link.id), *_link_row(link)) for link in topology.links]
    return Table(("link", *_LINK_HEADER), rows, right=(2, 3, 4))


def _link_row(link: Link) -> tuple[str, ...]:
    return (
        lane_words(link),
        each_way(link, plain_rate),
        known(link.combined_bytes_per_s, plain_rate),
        format_seconds(link.latency_s.value),
        link.forward_bytes_per_s.source.value,
    )


def _legend(topology: Topology, cells: PairCells) -> Part:
    """Every word of the matrix, nearest first, with the GB/s that all its pairs have."""
    order = list(PathClass)
    words = sorted(cells.class_of_word, key=lambda w: (order.index(cells.class_of_word[w]), w))
    rows = []
    for word in words:
        rate = cells.common_rate(word)
        rows.append((word, rate and f"{rate} GB/s", PATH_CLASS_WORDS[cells.class_of_word[word]]))
    refused = sum(route.peer_access is False for route in topology.routes)
    if refused:
        rows.append(("!", "", f"no peer access ({plural(refused, 'route')})"))
    if not all(cells.common_rate(word) for word in words):
        rows.append(("", "", "numbers are GB/s of one flow from row to column"))
    return Table(("", "", ""), rows, has_header=False)


class PairCells:
    """What stands in the matrix, and in its legend.

    A class whose pairs all have one rate has it in the legend; elsewhere each cell has its own.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._rate_of_word: dict[str, set[str]] = defaultdict(set)
        self.class_of_word: dict[str, PathClass] = {}
        self._rates: dict[tuple[str, str], str] = {}
        for route in topology.routes:
            pair = (route.source, route.target)
            word = relation_word(topology, *pair).rstrip("!")
            self._rates[pair] = rate_cell(topology, route)
            self._rate_of_word[word].add(self._rates[pair])
            self.class_of_word[word] = route.path_class

    def text(self, source: str, target: str) -> str:
        """`PIX`, or `NV2 ~48` where the pairs of the class differ."""
        word = relation_word(self.topology, source, target)
        own = len(self._rate_of_word[word.rstrip("!")]) > 1
        return f"{word} {self._rates[source, target]}".rstrip() if own else word

    def common_rate(self, word: str) -> str:
        """The one rate of a class; "" where its pairs differ, or none is known."""
        rates = self._rate_of_word[word]
        return next(iter(rates)) if len(rates) == 1 else ""


def pair_matrix(topology: Topology, cells: PairCells) -> Table:
    """Devices to devices and NICs; of many devices groups of those that are alike."""
    ends = _ends(topology)
    rows = ends[: len(topology.devices)]
    if len(topology.devices) > MAX_SINGLE_DEVICES:
        groups = _alike_devices(topology, cells)
        if len(groups) * 2 <= len(topology.devices):
            names = [device_ranges(topology, group) for group in groups]
            return _matrix(names, names, _group_cells(cells, groups))
    texts = [[cells.text(a, b) for b, _ in ends] for a, _ in rows]
    return _matrix([name for _, name in rows], [name for _, name in ends], texts)


def _matrix(names: list[str], header: list[str], cells: list[list[str]]) -> Table:
    rows = [[name, *row] for name, row in zip(names, cells, strict=True)]
    return Table(["", *header], rows)


def rate_cell(topology: Topology, route: Route) -> str:
    """GB/s that one flow reaches; `~` marks what only the kinds of links tell."""
    rate = flow_rate(topology, route)
    return "" if rate is None else rate_number(rate)


def _ends(topology: Topology) -> list[tuple[str, str]]:
    routed = {route.target for route in topology.routes}
    devices = [(d.id, device_code(topology, at)) for at, d in enumerate(topology.devices)]
    return devices + [(n.id, f"N{n.index}") for n in topology.nics if n.id in routed]


def _alike_devices(topology: Topology, cells: PairCells) -> list[list[str]]:
    """Groups of devices that every other device sees alike, and that see it alike."""
    ids = [device.id for device in topology.devices]
    table = {(a, b): cells.text(a, b) for a in ids for b in ids if a != b}
    groups: list[list[str]] = []
    for id in ids:
        home = next((g for g in groups if _are_twins(table, ids, g[0], id)), None)
        if home is not None and (len(home) < 2 or table[home[0], home[1]] == table[home[0], id]):
            home.append(id)
        else:
            groups.append([id])
    return groups


def _are_twins(table: dict[tuple[str, str], str], ids: list[str], a: str, b: str) -> bool:
    return table[a, b] == table[b, a] and all(
        table[a, c] == table[b, c] and table[c, a] == table[c, b] for c in ids if c not in (a, b)
    )


def _group_cells(cells: PairCells, groups: list[list[str]]) -> list[list[str]]:
    """Rows of groups; on the diagonal what the members of one are to each other."""
    return [
        [
            cells.text(group[0], (group if group is other else ["", *other])[1])
            if group is not other or len(group) > 1
            else "X"
            for other in groups
        ]
        for group in groups
    ]


_MAX_ROWS = 24
_LEVEL = [
    ComponentKind.NETWORK,
    ComponentKind.PACKAGE,
    ComponentKind.NUMA,
    ComponentKind.HOST_BRIDGE,
    ComponentKind.NVSWITCH,
    ComponentKind.SWITCH,
]


def device_link_table(topology: Topology) -> Part | None:
    """Which devices NVLink and the like join, one row per kind, count and rate."""
    devices = {d.id for d in topology.devices}
    rows = [
        (each.medium, each.way, joined_words(topology, each.links))
        for each in link_classes(topology)
        if each.links[0].kind in DEVICE_LINKS and any(devices & set(x.ends) for x in each.links)
    ]
    return Table(("device links", "each way", "join"), rows, fold=(2,)) if rows else None


def shared_link_table(topology: Topology) -> Part | None:
    """Every link that several devices share as their way out, and its capacity."""
    rows = _shared_rows(topology)
    if not rows:
        return None
    shown, more = within(rows, _MAX_ROWS)
    rows = [*shown, *([(f"and {more} more", "", "", "")] if more else [])]
    return Table(
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
                known(both, rate_words),
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
