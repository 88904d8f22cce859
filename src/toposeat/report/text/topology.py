"""A topology as text: devices, link kinds, relation matrix, NICs, doubts."""

from __future__ import annotations

from collections import defaultdict

from rich.console import RenderableType

from toposeat.model.knowledge import Knowledge
from toposeat.model.quantity import Source
from toposeat.model.topology import Device, Link, LinkKind, PathClass, Topology
from toposeat.report.machine_words import (
    LINK_WORDS,
    PATH_CLASS_WORDS,
    assumed_lines,
    quantity_counts,
    remarks,
    topology_sentence,
)
from toposeat.report.text.console import (
    PLAIN,
    TextStyle,
    columns,
    height,
    labelled,
    lay_out,
    sentences,
)
from toposeat.report.text.machine_tree import MAX_SINGLE_DEVICES, machine_tree
from toposeat.report.text.pair_matrix import NOMINAL_MARK, PairCells, pair_matrix
from toposeat.report.text.sharing import device_link_table, shared_link_table
from toposeat.report.units import clean, format_bytes, format_rate, format_seconds, plural

_Block = list[RenderableType]


def render_topology_text(
    topology: Topology,
    style: TextStyle = PLAIN,
    *,
    knowledge: Knowledge | None = None,
    lines: int | None = None,
) -> str:
    """The machine as text, the overview first, doubts last.

    Args:
        topology: the machine.
        style: how text is laid out.
        knowledge: how much of it is told, where that is to be said.
        lines: the most that there may be; None for everything. The overview and the first of the
            doubts are always there, other blocks whole or not at all.
    """
    overview = _overview(topology, knowledge)
    if lines is None:
        blocks = [*_blocks(topology, style).values(), *_provenance(topology)]
    else:
        doubts = _first_doubts(topology)
        room = lines - height([*overview, *doubts], style)
        blocks = [*_fitting(_blocks(topology, style), style, room), doubts]
    separated = [part for block in blocks if block for part in ("", *block)]
    return lay_out([*overview, *separated], style)


def _overview(topology: Topology, knowledge: Knowledge | None) -> _Block:
    """Name, devices, origin, and how far the numbers can be trusted."""
    parts: _Block = [labelled("Topology", topology_sentence(topology))]
    if topology.description:
        parts.append(labelled("", clean(topology.description)))
    parts.append(labelled("Origin", clean(topology.origin)))
    if topology.links:
        parts.append(labelled("Numbers", number_words(topology)))
    if knowledge is not None and knowledge.pairs:
        parts.append(labelled("Told", knowledge_words(knowledge)))
    return parts


def _blocks(topology: Topology, style: TextStyle) -> dict[str, _Block]:
    """Tree, matrix and tables of the machine, by what they are."""
    found: dict[str, _Block] = {}
    if topology.links:
        found["tree"] = [*machine_tree(topology, style)]
    if topology.routes:
        cells = PairCells(topology)
        found["matrix"] = [*pair_matrix(topology, cells, style), "", _legend(topology, cells)]
    tables = {"joined": device_link_table(topology), "shared": shared_link_table(topology)}
    found |= {name: [table] for name, table in tables.items() if table is not None}
    if topology.links:
        found["kinds"] = [_link_kinds(topology)]
    if len(topology.devices) <= MAX_SINGLE_DEVICES or any(map(_has_details, topology.devices)):
        found["devices"] = [_devices(topology)]
    if topology.nics and not topology.links:
        found["nics"] = [_nics(topology)]
    return found


_FIRST = ("matrix", "joined", "tree", "shared", "devices", "nics", "kinds")  # where room is short


def _fitting(blocks: dict[str, _Block], style: TextStyle, room: int) -> list[_Block]:
    """The blocks that `room` lines hold, the most telling first, in the order of all of them."""
    taken = set()
    for name in _FIRST:
        needed = height(["", *blocks[name]], style) if name in blocks else 0
        if 0 < needed <= room:
            taken.add(name)
            room -= needed
    return [block for name, block in blocks.items() if name in taken]


_MOST_DOUBTS = 2


def _first_doubts(topology: Topology) -> _Block:
    """What must not be overlooked: hidden devices and the first doubts."""
    hidden: _Block = [labelled("Hidden", _hidden_words(topology))] if topology.hidden else []
    more = len(topology.report) - _MOST_DOUBTS
    rest = [f"and {plural(more, 'doubt')} more"] if more > 0 else []
    return [*hidden, *sentences([*topology.report[:_MOST_DOUBTS], *rest])]


def _provenance(topology: Topology) -> list[_Block]:
    """Who published the numbers, what was assumed, what is hidden or doubtful."""
    parts: list[_Block] = []
    for title, lines in (
        ("Sources", topology.sources),
        ("Assumed", assumed_lines(topology)),
        ("Remarks", remarks(topology)),
    ):
        if lines:
            parts.append([title, *sentences(lines)])
    if topology.hidden:
        parts.append([labelled("Hidden", _hidden_words(topology))])
    if topology.report:
        parts.append(["Doubts", *sentences(topology.report)])
    return parts


def number_words(topology: Topology) -> str:
    """Where capacities and limits come from: provenance of every number that is shown."""
    counts = quantity_counts(topology)
    parts = [f"{count} {source.value}" for source, count in counts.items() if count]
    of_kind = [s.value for s in (Source.NOMINAL, Source.ASSUMED) if counts[s]]
    mark = f"; {NOMINAL_MARK} marks {' and '.join(of_kind)} ones, not measured here"
    return ", ".join(parts) + (mark if of_kind else "")


def knowledge_words(knowledge: Knowledge) -> str:
    """Who says whether device links join pairs, and what nobody says of near CPUs."""
    parts = [f"{knowledge.told} by sources"] if knowledge.told else []
    parts += [f"{n} by product ({clean(what)})" for what, n in knowledge.inferred.items()]
    if knowledge.untold_pairs:
        parts.append(f"{len(knowledge.untold_pairs)} untold")
    words = f"device links of {plural(knowledge.pairs, 'pair')}: {', '.join(parts)}"
    if knowledge.untold_affinities:
        count = plural(len(knowledge.untold_affinities), "device")
        words += f"; near CPUs and memory node of {count} are untold"
    return words


def _hidden_words(topology: Topology) -> str:
    return (
        f"{plural(len(topology.hidden), 'GPU')} of this machine could not be used by the process"
        f" that read it: {', '.join(topology.hidden)}"
    )


def _devices(topology: Topology) -> RenderableType:
    several = len(topology.hosts) > 1
    header = ["device", "name", "pci", "numa", "cpus", "memory", "uuid"]
    rows = [[*([d.host] if several else []), *_device_row(d)] for d in topology.devices]
    if several:
        header.insert(0, "host")
    fold = [at for at, name in enumerate(header) if name in ("name", "cpus", "uuid")]
    return columns(header, rows, fold=fold, only_used=True)


def _has_details(device: Device) -> bool:
    return bool(device.name or device.pci_bus_id or device.uuid)


def _device_row(device: Device) -> list[str]:
    memory = "-" if device.memory_bytes is None else format_bytes(device.memory_bytes)
    numa = "-" if device.numa_node is None else str(device.numa_node)
    return [
        f"D{device.index}",
        device.name or "-",
        device.pci_bus_id or "-",
        numa,
        device.cpus or "-",
        memory,
        device.uuid or "-",
    ]


def _nics(topology: Topology) -> RenderableType:
    rows = [
        (f"N{n.index}", n.name or "-", n.pci_bus_id or "-", _number(n.numa_node))
        for n in topology.nics
    ]
    return columns(("nic", "name", "pci", "numa"), rows)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _link_kinds(topology: Topology) -> RenderableType:
    """One row per set of links that look alike."""
    groups: dict[tuple[str, ...], list[Link]] = defaultdict(list)
    for link in topology.links:
        groups[_link_row(link)].append(link)
    rows = [(str(len(links)), *row) for row, links in groups.items()]
    header = ("links", "kind", "per direction", "both together", "latency", "source")
    return columns(header, rows, right=(0, 2, 3, 4))


def _link_row(link: Link) -> tuple[str, ...]:
    forward, backward = link.forward_bytes_per_s, link.backward_bytes_per_s
    kind = LINK_WORDS[link.kind] + (f" x{link.count}" if link.count > 1 else "")
    if link.name and link.kind in (LinkKind.SMP, LinkKind.PCIE):
        kind = f"{kind} ({clean(link.name)})"
    each = format_rate(forward.value)
    if forward.value != backward.value:
        each = f"{each} / {format_rate(backward.value)}"
    combined = link.combined_bytes_per_s
    return (
        kind,
        each,
        format_rate(combined.value) if combined else "-",
        format_seconds(link.latency_s.value),
        forward.source.value,
    )


def _legend(topology: Topology, cells: PairCells) -> RenderableType:
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
    table = columns(("", "", ""), rows)
    table.show_header = False
    return table
