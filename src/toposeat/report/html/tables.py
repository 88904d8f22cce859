"""The page's tables: before/after, seats, links, devices, totals, verification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toposeat.model.evaluation import MappingResult
from toposeat.model.placement import Placement
from toposeat.model.run_record import RunRecord
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.report.units import format_bytes, format_count, format_rate, format_seconds
from toposeat.report.view.machine import LINK_WORDS, device_code, link_words, quantity_counts
from toposeat.report.view.mapping import (
    ROW_OF_OBJECTIVE,
    busiest_words,
    is_default_kept,
    moved_ranks,
    placement_rows,
    table_rows,
)
from toposeat.report.view.runs import seat_cells
from toposeat.report.view.traffic import TOTAL_HEADER, total_rows


@dataclass(frozen=True)
class Cell:
    """Words with a CSS class, and perhaps a mark behind them."""

    words: str
    look: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table of the page; the columns in `numbers` are aligned to the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    numbers: Sequence[int] = ()
    name: str = ""
    caption: str = ""


def before_after(result: MappingResult) -> Table:
    """Default against placed; every number is predicted and the caption says so."""
    rows: list[list[str | Cell]] = []
    for number, (name, before, after, change) in enumerate(
        table_rows(result.default, result.placed, result.metric)
    ):
        is_goal = ROW_OF_OBJECTIVE.get(result.objective) == number
        look = "better" if change.startswith("-") and len(change) > 1 else ""
        look = "worse" if change.startswith(("+", "x")) else look
        label = Cell(name, mark="objective" if is_goal else "")
        rows.append([label, before, after, Cell(change, look)])
    return Table(
        ("", "default", "placed", "change"),
        rows,
        numbers=(1, 2, 3),
        name="compare",
        caption="Predicted (nothing here was measured)",
    )


def busiest_sentence(result: MappingResult, topology: Topology) -> str:
    """The busiest link, before and after where they differ."""
    before, after = (busiest_words(topology, e) for e in (result.default, result.placed))
    words = f"Busiest link: {before}"
    return words if before == after else f"{words} (default), {after} (placed)"


def seats(result: MappingResult, topology: Topology) -> list[list[Cell]]:
    """A column for each rank: its number, its device by default, and its device as placed."""
    moved = set(moved_ranks(result))
    shown = [("default", result.default.device_of_rank)]
    if not is_default_kept(result):
        shown.append(("placed", result.device_of_rank))
    columns = [[Cell("rank"), *(Cell(name) for name, _ in shown)]]
    for rank in range(len(result.device_of_rank)):
        column = [Cell(str(rank))]
        for name, devices in shown:
            look = "moved" if name == "placed" and rank in moved else ""
            column.append(Cell(device_code(topology, devices[rank]), look))
        columns.append(column)
    return columns


def links(result: MappingResult, topology: Topology) -> Table:
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
        cells = [link_words(topology, name)]
        for each in (before, after):
            load = each.get(name)
            cells.append(format_bytes(load.bytes) if load else "-")
            cells.append(format_seconds(load.congestion_s) if load else "-")
        rows.append(cells)
    header = ("link", "default bytes", "default congestion", "placed bytes", "placed congestion")
    caption = f"All {len(names)} links that device-to-device routes use (predicted)"
    return Table(header, rows, numbers=(1, 2, 3, 4), caption=caption)


def devices(topology: Topology) -> Table:
    """Devices and what identifies them."""
    rows = [
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
    return Table(header, rows, caption=f"Devices of {topology.name}")


def link_list(topology: Topology) -> Table:
    """Every link with its capacities and where they come from."""
    rows = []
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
    return Table(header, rows, numbers=(2, 3, 4), caption=f"Links of {topology.name}")


def totals(traffic: Traffic) -> Table:
    """Bytes and messages per kind and memory space."""
    caption = "Traffic by kind and memory"
    return Table(TOTAL_HEADER, total_rows(traffic), numbers=(2, 3, 4), caption=caption)


def count_sentence(topology: Topology) -> str:
    """How many numbers of the topology come from where."""
    counts = quantity_counts(topology)
    parts = [f"{format_count(count)} {source.value}" for source, count in counts.items()]
    return f"Capacities, latencies and route limits: {', '.join(parts)}."


def placement_table(placement: Placement) -> Table:
    """Seats; columns that hold nothing are left out."""
    header = ["rank", "host", "local rank", "device", "PCI bus id", "UUID", "CPUs", "memory", "NIC"]
    rows = placement_rows(placement)
    keep = [i for i in range(len(header)) if any(row[i] != "-" for row in rows)]
    return Table(
        [header[i] for i in keep], [[row[i] for i in keep] for row in rows], caption="Placement"
    )


def verification(record: RunRecord) -> Table:
    """What each rank really got, with its verdict."""
    header = ("rank", "host", "PCI bus id", "visible devices", "CPUs", "memory", "NIC", "verdict")
    rows: list[list[str | Cell]] = [
        [
            *seat_cells(seat),
            Cell(
                "; ".join((seat.verdict.value, *seat.differences)),
                f"verdict {seat.verdict.name.lower().replace('_', '-')}",
            ),
        ]
        for seat in record.seats
    ]
    return Table(header, rows, caption="As seen from inside each rank")
