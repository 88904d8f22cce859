"""The page's tables: before/after, seats, links, devices, totals, verification."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toposeat.model.evaluation import MappingResult
from toposeat.model.placement import Placement
from toposeat.model.run_record import RunRecord
from toposeat.model.topology import ANY_HOST, Topology
from toposeat.model.traffic import Traffic
from toposeat.report.svg.element import Child, Markup, element, joined
from toposeat.report.units import format_bytes, format_count, format_rate, format_seconds
from toposeat.report.words import (
    LINK_WORDS,
    busiest_words,
    device_code,
    is_default_kept,
    link_words,
    moved_ranks,
    quantity_counts,
    table_rows,
)

_SEATS_PER_LINE = 8
_ROW_OF_OBJECTIVE = {"time": 0, "congestion": 1, "cost": 4}


def table(
    header: Sequence[Child],
    rows: Iterable[Sequence[Child]],
    *,
    numbers: Iterable[int] = (),
    name: str = "",
    caption: str = "",
) -> Markup:
    """A plain table; columns in `numbers` are aligned to the right."""
    right = set(numbers)

    def cell(tag: str, column: int, content: Child) -> Markup:
        look = "n" if column in right else None
        return element(tag, {"class": look, "scope": "col" if tag == "th" else None}, content)

    head = element("tr", {}, *(cell("th", n, c) for n, c in enumerate(header)))
    body = [element("tr", {}, *(cell("td", n, c) for n, c in enumerate(row))) for row in rows]
    words = element("caption", {}, caption) if caption else None
    return element(
        "div",
        {"class": "scroll"},
        element(
            "table",
            {"class": name or None},
            words,
            element("thead", {}, head),
            element("tbody", {}, *body),
        ),
    )


def before_after(result: MappingResult, topology: Topology) -> Markup:
    """Default against placed; every number is predicted and the caption says so."""
    rows: list[list[Child]] = []
    for number, (name, before, after, change) in enumerate(
        table_rows(result.default, result.placed, result.metric)
    ):
        goal = _ROW_OF_OBJECTIVE.get(result.objective) == number
        mark = element("span", {"class": "goal"}, "objective") if goal else None
        look = "better" if change.startswith("-") and len(change) > 1 else ""
        look = "worse" if change.startswith(("+", "x")) else look
        what = element("span", {}, name + " ") if mark else element("span", {}, name)
        label = Markup(what + mark) if mark else what
        rows.append([label, before, after, element("span", {"class": look or None}, change)])
    header = ("", "default", "placed", "change")
    caption = "Predicted (nothing here was measured)"
    shown = table(header, rows, numbers=(1, 2, 3), name="compare", caption=caption)
    return joined([shown, _busiest(result, topology)])


def _busiest(result: MappingResult, topology: Topology) -> Markup:
    before, after = (busiest_words(topology, e) for e in (result.default, result.placed))
    words = f"Busiest link: {before}"
    if before != after:
        words += f" (default), {after} (placed)"
    return element("p", {"class": "hint"}, words)


def seats(result: MappingResult, topology: Topology) -> Markup:
    """Device of every rank before and after, eight ranks a line."""
    moved = set(moved_ranks(result))
    kept = is_default_kept(result)
    lines = []
    ranks = len(result.device_of_rank)
    for start in range(0, ranks, _SEATS_PER_LINE):
        here = range(start, min(start + _SEATS_PER_LINE, ranks))
        rows = [
            ("rank", [str(r) for r in here], ""),
            ("default", _devices(topology, result.default.device_of_rank, here), ""),
        ]
        if not kept:
            rows.append(("placed", _devices(topology, result.device_of_rank, here), "moved"))
        lines += [
            element(
                "tr",
                {"class": "ranks" if name == "rank" else None},
                element("th", {"scope": "row"}, name),
                *(
                    element("td", {"class": look if r in moved and look else None}, cell)
                    for r, cell in zip(here, cells, strict=True)
                ),
            )
            for name, cells, look in rows
        ]
    words = element("caption", {}, "Device of each rank")
    body = element("tbody", {}, *lines)
    return element("div", {"class": "scroll"}, element("table", {"class": "seats"}, words, body))


def _devices(topology: Topology, device_of_rank: Sequence[int], ranks: range) -> list[str]:
    return [device_code(topology, device_of_rank[r]) for r in ranks]


def links(result: MappingResult, topology: Topology) -> Markup:
    """Every loaded link before and after."""
    before = {load.link: load for load in result.default.links}
    after = {load.link: load for load in result.placed.links}
    names = sorted(
        before.keys() | after.keys(),
        key=lambda n: (
            -max(each[n].congestion_s for each in (before, after) if n in each),
            n,
        ),
    )
    rows = []
    for name in names:
        cells: list[Child] = [link_words(topology, name)]
        for each in (before, after):
            load = each.get(name)
            cells.append(format_bytes(load.bytes) if load else "-")
            cells.append(format_seconds(load.congestion_s) if load else "-")
        rows.append(cells)
    header = ("link", "default bytes", "default congestion", "placed bytes", "placed congestion")
    caption = f"All {len(names)} links that device-to-device routes use (predicted)"
    return table(header, rows, numbers=(1, 2, 3, 4), caption=caption)


def devices(topology: Topology) -> Markup:
    """Devices and what identifies them."""
    rows: list[list[Child]] = [
        [
            device_code(topology, n),
            d.name or "-",
            d.pci_bus_id or "-",
            d.uuid or "-",
            "-" if d.numa_node is None else str(d.numa_node),
            d.cpus or "-",
        ]
        for n, d in enumerate(topology.devices)
    ]
    header = ("device", "name", "PCI bus id", "UUID", "NUMA node", "near CPUs")
    return table(header, rows, caption=f"Devices of {topology.name}")


def link_list(topology: Topology) -> Markup:
    """Every link with its capacities and where they come from."""
    rows: list[list[Child]] = []
    for link in topology.links:
        forward, backward = link.forward_bytes_per_s, link.backward_bytes_per_s
        rate = format_rate(forward.value)
        if forward.value != backward.value:
            rate += f" / {format_rate(backward.value)}"
        both = link.combined_bytes_per_s
        rows.append(
            [
                link_words(topology, link.id),
                LINK_WORDS[link.kind],
                rate,
                "-" if both is None else format_rate(both.value),
                format_seconds(link.latency_s.value),
                forward.source.value,
            ]
        )
    header = ("link", "kind", "per direction", "both together", "latency", "source")
    return table(header, rows, numbers=(2, 3, 4), caption=f"Links of {topology.name}")


def totals(traffic: Traffic) -> Markup:
    """Bytes and messages per kind and memory space."""
    rows: list[list[Child]] = [
        [
            kind.value,
            space.value,
            format_bytes(int(pairs.bytes.sum())),
            format_count(int(pairs.messages.sum())),
            format_count(len(pairs)),
        ]
        for (kind, space), pairs in sorted(traffic.tables.items())
        if len(pairs)
    ]
    header = ("kind", "memory", "bytes", "messages", "pairs")
    return table(header, rows, numbers=(2, 3, 4), caption="Traffic by kind and memory")


def provenance(topology: Topology) -> Markup:
    """How many numbers of the topology come from where, as a sentence."""
    counts = quantity_counts(topology)
    parts = [f"{format_count(count)} {source.value}" for source, count in counts.items()]
    words = f"Capacities, latencies and route limits: {', '.join(parts)}."
    return element("p", {}, words)


def placement_table(placement: Placement) -> Markup:
    """Seats; columns that hold nothing are left out."""
    header = ["rank", "host", "local rank", "device", "PCI bus id", "UUID", "CPUs", "memory", "NIC"]
    rows = [
        [
            str(s.rank),
            "any" if s.host == ANY_HOST else s.host,
            str(s.local_rank),
            str(s.index),
            s.pci_bus_id or "-",
            s.uuid or "-",
            s.cpus or "-",
            "-" if s.memory_node is None else str(s.memory_node),
            s.nic or "-",
        ]
        for s in placement.seats
    ]
    keep = [i for i in range(len(header)) if any(row[i] != "-" for row in rows)]
    return table(
        [header[i] for i in keep], [[row[i] for i in keep] for row in rows], caption="Placement"
    )


def verification(record: RunRecord) -> Markup:
    """What each rank really got, with its verdict."""
    header = ("rank", "host", "PCI bus id", "visible devices", "CPUs", "memory", "NIC", "verdict")
    rows: list[list[Child]] = []
    for seat in record.seats:
        verdict = "; ".join((seat.verdict.value, *seat.differences))
        look = f"verdict {seat.verdict.name.lower().replace('_', '-')}"
        rows.append(
            [
                str(seat.rank),
                seat.host or "-",
                seat.pci_bus_id or "-",
                seat.visible_devices or "-",
                seat.cpus or "-",
                seat.memory_policy or "-",
                seat.nic or "-",
                element("span", {"class": look}, verdict),
            ]
        )
    return table(header, rows, caption="As seen from inside each rank")
