"""A profile or pattern as text: totals, heaviest pairs, heat map, message sizes, time."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from toposeat.model.traffic import MemorySpace, PairTable, Traffic
from toposeat.report.heat import block_matrix, heat_scale
from toposeat.report.profile_words import (
    COLLECTIVE_HEADER,
    DEVICE_HEADER,
    PAIR_HEADER,
    PHASE_HEADER,
    TOTAL_HEADER,
    WORLD_HEADER,
    bucket_words,
    choice_words,
    collective_rows,
    collective_size_counts,
    device_rows,
    histogram_series,
    pair_rows,
    phase_rows,
    total_rows,
    unfinished_words,
    world_rows,
)
from toposeat.report.text.console import (
    PLAIN,
    TextStyle,
    columns,
    fitting,
    height,
    labelled,
    lay_out,
    sentences,
)
from toposeat.report.time_words import NOT_TIMED, gain_words, is_timed, time_rows
from toposeat.report.units import (
    clean,
    format_bytes,
    format_count,
    format_percent,
    format_seconds,
)
from toposeat.report.words import mpi_share, traffic_sentence

_SHADES = (" .:-=+*#", " ░░▒▒▓▓█")
_HEAT_STYLES = ("", "blue", "blue", "cyan", "cyan", "yellow", "yellow", "red")
_HEAT_CELLS = 64


def render_traffic_text(
    traffic: Traffic, style: TextStyle = PLAIN, *, lines: int | None = None
) -> str:
    """What could be gained, pairs, bytes, message sizes and share of the time.

    Args:
        traffic: a profile or pattern.
        style: how text is laid out.
        lines: the most that there may be; None for everything. The summary and the first doubt are
            always there, tables whole or not at all.
    """
    parts = _summary(traffic)
    if lines is None:
        parts += [part for block in _blocks(traffic, style) for part in block]
        if traffic.report:
            parts += ["", "Doubts", *sentences(traffic.report)]
        return lay_out(parts, style)
    more = len(traffic.report) - 1
    rest = f" (and {more} more)" if more > 0 else ""
    said = [f"{traffic.report[0]}{rest}"] if traffic.report else []
    doubts = sentences([*filter(None, [unfinished_words(traffic)]), *said])
    room = lines - height([*parts, *doubts], style)
    blocks = [Group(*block) for block in _blocks(traffic, style) if block]
    return lay_out([*parts, *fitting(blocks, style, room), *doubts], style)


def _summary(traffic: Traffic) -> list[RenderableType]:
    """The verdict, and what the traffic is."""
    parts: list[RenderableType] = []
    if traffic.rank_info or not traffic.timed:  # there is no run behind a pattern
        parts.append(labelled("Verdict", gain_words(traffic)))
    parts.append(labelled("Traffic", traffic_sentence(traffic)))
    if traffic.metadata.get("programs"):
        parts.append(labelled("Programs", clean(traffic.metadata["programs"])))
    if traffic.metadata.get("pattern"):
        parts.append(labelled("Pattern", clean(traffic.metadata["pattern"])))
    return parts


def _blocks(traffic: Traffic, style: TextStyle) -> list[list[RenderableType]]:
    """Tables and drawings, each after an empty line."""
    totals = _table(TOTAL_HEADER, total_rows(traffic), right=(2, 3, 4))
    if traffic.collective_model:
        note = f"Collective bytes are modelled edges: {clean(traffic.collective_model)}"
        totals += sentences([note], mark="")
    return [
        totals,
        _heaviest(traffic),
        _heat(traffic, style),
        _histogram(traffic, style),
        _table(COLLECTIVE_HEADER, collective_rows(traffic), right=(2, 3)),
        _time(traffic),
        _table(PHASE_HEADER, phase_rows(traffic), right=(1, 2, 3, 4, 5)),
        _devices(traffic),
        _table(WORLD_HEADER, world_rows(traffic), right=(1, 3, 4, 5), fold=(0,)),
    ]


def _heaviest(traffic: Traffic) -> list[RenderableType]:
    return _table(("heaviest pairs", *PAIR_HEADER[1:]), pair_rows(traffic, 5), right=(1, 2, 3))


def _heat(traffic: Traffic, style: TextStyle) -> list[RenderableType]:
    """A matrix of device and one of host memory, if both were sent from."""
    parts: list[RenderableType] = []
    for space in MemorySpace:
        table = traffic.table(space=space)
        if len(table) and table.bytes.sum():
            parts += _matrix(space, table, traffic.ranks, style)
    return parts


def _matrix(
    space: MemorySpace, table: PairTable, ranks: int, style: TextStyle
) -> list[RenderableType]:
    """Sender rows, receiver columns; darker is more, on a logarithmic scale."""
    matrix, block = block_matrix(table, ranks, min(_HEAT_CELLS, style.width - 6))
    size = matrix.shape[0]
    wide = 2 if 2 * size + 6 <= style.width else 1
    shades = _SHADES[style.unicode]
    unit = "" if block == 1 else f", one cell = {block} x {block} ranks"
    scale = heat_scale(matrix)
    top = format_bytes(scale.high)
    words = f"bytes sent from {space.value} memory, row = sender, log scale up to {top} a cell"
    lines = [Text(words + unit)]
    for row in range(size):
        line = Text(f"{row * block:>5} ")
        for column in range(size):
            level = scale.level(float(matrix[row, column]))
            line.append(shades[level] * wide, style=_HEAT_STYLES[level])
        lines.append(line)
    return ["", *lines]


def _histogram(traffic: Traffic, style: TextStyle) -> list[RenderableType]:
    """Messages per size, by kind and memory; where only collectives are known, their calls."""
    series = [(f"{kind.value}, {space.value}", c) for kind, space, c in histogram_series(traffic)]
    what = "message size"
    if not series:
        calls = collective_size_counts(traffic)
        series, what = ([("collective calls", calls)] if any(calls) else []), "size of a call"
    if not series:
        return []
    total = [sum(column) for column in zip(*(counts for _, counts in series), strict=True)]
    used = [bucket for bucket, count in enumerate(total) if count]
    longest, room = max(total), max(10, min(50, style.width - 24 - 16 * len(series)))
    bar = "█" if style.unicode else "#"
    rows: list[tuple[str | Text, ...]] = []
    for bucket in range(used[0], used[-1] + 1):
        length = -(-total[bucket] * room // longest)
        each = [format_count(counts[bucket]) for _, counts in series]
        rows.append((bucket_words(bucket), *each, Text(bar * length)))
    header = (what, *(name for name, _ in series), "")
    return ["", columns(header, rows, right=range(len(series) + 1))]


def _table(
    header: tuple[str, ...],
    rows: list[tuple[str, ...]],
    *,
    right: Iterable[int],
    fold: Iterable[int] = (),
) -> list[RenderableType]:
    """A table with what has content: no rows, no table; columns that are empty throughout go."""
    if not rows:
        return []
    kept = [at for at in range(len(header)) if any(row[at] for row in rows)]
    numbers, folded = (
        [new for new, old in enumerate(kept) if old in set(chosen)] for chosen in (right, fold)
    )
    shown = [tuple(row[at] for at in kept) for row in rows]
    return ["", columns(tuple(header[at] for at in kept), shown, right=numbers, fold=folded)]


def _time(traffic: Traffic) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if is_timed(traffic):
        timed = [i for i in traffic.rank_info if i.wall_s > 0]
        each = [min(i.mpi_s / i.wall_s, 1.0) for i in timed]
        wall = max(i.wall_s for i in timed)
        words = (
            f"{format_percent(mpi_share(traffic) or 0.0)} of {format_seconds(wall)} in MPI calls"
            f" (measured; ranks {format_percent(min(each))} to {format_percent(max(each))})"
        )
        parts += ["", labelled("Time", words)]
        header = ("all ranks", "time", "of the run", "calls")
        parts += _table(header, time_rows(traffic), right=(1, 2, 3))
    elif traffic.rank_info:
        parts += ["", labelled("Time", NOT_TIMED)]
    unfinished = unfinished_words(traffic)
    if unfinished:
        parts.append(labelled("", unfinished))
    return parts


def _devices(traffic: Traffic) -> list[RenderableType]:
    parts = _table(DEVICE_HEADER, device_rows(traffic), right=(0, 2, 5))
    words = choice_words(traffic)
    return [*parts, *(sentences([words], mark="") if words else [])]
