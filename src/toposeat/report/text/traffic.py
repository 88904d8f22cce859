"""A profile or pattern as text: totals, heaviest pairs, heat map, message sizes, time."""

from __future__ import annotations

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    CollectiveEvent,
    MemorySpace,
    Traffic,
)
from toposeat.report.heat import block_matrix, heat_scale
from toposeat.report.text.console import TextStyle, columns, labelled, lay_out, sentences
from toposeat.report.units import (
    clean,
    format_bytes,
    format_count,
    format_percent,
    format_power_of_two,
    format_seconds,
    plural,
)
from toposeat.report.words import mpi_share, top_pairs, traffic_sentence

_SHADES = (" .:-=+*#", " ░░▒▒▓▓█")
_HEAT_STYLES = ("", "blue", "blue", "cyan", "cyan", "yellow", "yellow", "red")
_HEAT_CELLS = 64


def render_traffic_text(traffic: Traffic, style: TextStyle | None = None) -> str:
    """Who talks to whom, how much, in what sizes, and for how much of the time."""
    style = style or TextStyle()
    parts: list[RenderableType] = [labelled("Traffic", traffic_sentence(traffic))]
    if traffic.metadata.get("pattern"):
        parts.append(labelled("Pattern", clean(traffic.metadata["pattern"])))
    rows = _totals(traffic)
    if rows:
        header = ("kind", "memory", "bytes", "messages", "pairs")
        parts += ["", columns(header, rows, right=(2, 3, 4))]
    if traffic.collective_model:
        note = f"Collective bytes are modelled edges: {clean(traffic.collective_model)}"
        parts += sentences([note], mark="")
    parts += _heaviest(traffic)
    parts += _heat(traffic, style)
    parts += _histogram(traffic, style)
    parts += _collectives(traffic)
    parts += _time(traffic)
    if traffic.report:
        parts += ["", "Doubts", *sentences(traffic.report)]
    return lay_out(parts, style)


def _totals(traffic: Traffic) -> list[tuple[str, ...]]:
    return [
        (
            kind.value,
            space.value,
            format_bytes(int(table.bytes.sum())),
            format_count(int(table.messages.sum())),
            format_count(len(table)),
        )
        for (kind, space), table in sorted(traffic.tables.items())
        if len(table)
    ]


def _heaviest(traffic: Traffic) -> list[RenderableType]:
    pairs = top_pairs(traffic, 5)
    if not pairs:
        return []
    total = int(traffic.table().bytes.sum())
    rows = [
        (f"{a} -> {b}", format_bytes(size), format_count(count), format_percent(size / total))
        for a, b, size, count in pairs
    ]
    header = ("heaviest pairs", "bytes", "messages", "of all")
    return ["", columns(header, rows, right=(1, 2, 3))]


def _heat(traffic: Traffic, style: TextStyle) -> list[RenderableType]:
    """Sender rows, receiver columns; darker is more, on a logarithmic scale."""
    table = traffic.mapped_table()
    if not len(table) or not table.bytes.sum():
        return []
    matrix, block = block_matrix(table, traffic.ranks, min(_HEAT_CELLS, style.width - 6))
    size = matrix.shape[0]
    wide = 2 if 2 * size + 6 <= style.width else 1
    shades = _SHADES[style.unicode]
    unit = "" if block == 1 else f", one cell = {block} x {block} ranks"
    scale = heat_scale(matrix)
    top = format_bytes(scale.high)
    lines = [Text(f"bytes sent, row = sender, log scale up to {top} a cell{unit}")]
    for row in range(size):
        line = Text(f"{row * block:>5} ")
        for column in range(size):
            level = scale.level(float(matrix[row, column]))
            line.append(shades[level] * wide, style=_HEAT_STYLES[level])
        lines.append(line)
    return ["", *lines]


def merged_histogram(traffic: Traffic, space: MemorySpace | None = None) -> list[int]:
    """Message counts per size bucket, summed over kinds (and spaces, unless one is given)."""
    total = np.zeros(HISTOGRAM_BUCKETS, dtype=np.int64)
    for (_, where), counts in traffic.histograms.items():
        if space in (None, where):
            total += counts
    return [int(n) for n in total]


def bucket_words(bucket: int) -> str:
    """The sizes in a histogram bucket: `empty`, `64 KiB ..` (up to the next power of two)."""
    return "empty" if bucket == 0 else f"{format_power_of_two(bucket - 1)} .."


def _histogram(traffic: Traffic, style: TextStyle) -> list[RenderableType]:
    counts = merged_histogram(traffic)
    used = [bucket for bucket, count in enumerate(counts) if count]
    if not used:
        return []
    longest, room = max(counts), max(10, min(50, style.width - 40))
    bar = "█" if style.unicode else "#"
    rows = []
    for bucket in range(used[0], used[-1] + 1):
        length = -(-counts[bucket] * room // longest)
        rows.append((bucket_words(bucket), format_count(counts[bucket]), Text(bar * length)))
    return ["", columns(("message size", "messages", ""), rows, right=(0, 1))]


def _collectives(traffic: Traffic) -> list[RenderableType]:
    calls: dict[tuple[str, str], list[CollectiveEvent]] = {}
    for event in traffic.collectives:
        calls.setdefault((event.operation, event.space.value), []).append(event)
    if not calls:
        return []
    rows = [
        (
            operation,
            space,
            format_count(sum(e.calls for e in events)),
            format_bytes(sum(e.calls * e.bytes for e in events)),
        )
        for (operation, space), events in calls.items()
    ]
    header = ("collective", "memory", "calls (all ranks)", "bytes given (all ranks)")
    return ["", columns(header, rows, right=(2, 3))]


def _time(traffic: Traffic) -> list[RenderableType]:
    share = mpi_share(traffic)
    parts: list[RenderableType] = []
    if share is not None:
        timed = [i for i in traffic.rank_info if i.wall_s > 0]
        each = [i.mpi_s / i.wall_s for i in timed]
        wall = max(i.wall_s for i in timed)
        words = (
            f"{format_percent(share)} of {format_seconds(wall)} in MPI calls (measured;"
            f" ranks {format_percent(min(each))} to {format_percent(max(each))})"
        )
        parts += ["", labelled("Time", words)]
    died = [info.rank for info in traffic.rank_info if not info.finalized]
    if died:
        names = ", ".join(str(rank) for rank in died[:16]) + (" ..." if len(died) > 16 else "")
        parts.append(
            labelled("", f"{plural(len(died), 'rank')} did not reach MPI_Finalize: {names}")
        )
    return parts
