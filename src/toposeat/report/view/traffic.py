"""Profiles and patterns: totals, pairs, sizes, collectives, groups, phases, devices, time."""

from __future__ import annotations

import math
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.few import within
from toposeat.model.plural import plural
from toposeat.model.rank_info import DeviceChoice, cpu_doubt
from toposeat.model.traffic import (
    HISTOGRAM_BUCKETS,
    INNER_LINE,
    CollectiveEvent,
    Exchange,
    MemorySpace,
    PairTable,
    RankInfo,
    TableKey,
    TimeKind,
    Traffic,
    TrafficKind,
)
from toposeat.report.parts import (
    Cell,
    Fact,
    Line,
    Note,
    Part,
    Table,
    Title,
    Words,
    facts,
    sentences,
    titled_list,
    to_copy,
)
from toposeat.report.text import PLAIN, TextStyle, fitting, height, lay_out
from toposeat.report.units import (
    clean,
    format_bytes,
    format_count,
    format_percent,
    format_power_of_two,
    format_seconds,
    known,
    span,
    three_digits,
)

_MOST_ROWS = 32
_LISTED = 8

Row = tuple[str, ...]


def render_patterns_text(rows: Sequence[tuple[str, str, str]], style: TextStyle = PLAIN) -> str:
    """Patterns: the form of each, its drawing, and what it means (Markdown)."""
    parts: list[Part] = []
    for form, drawing, meaning in rows:
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", meaning)
        parts += [*([""] if parts else []), Title(form.replace("[,", " [,"))]
        parts += [*map(to_copy, drawing.strip("\n").splitlines()), Note(words, "  ")]
    return lay_out(parts, style)


def _limited(rows: list[Row]) -> list[Row]:
    """At most `_MOST_ROWS`, the last of which says how many are left out."""
    shown, left = within(rows, _MOST_ROWS)
    return [*shown, ("...", f"{left} more", *[""] * (len(rows[0]) - 2))] if left else rows


def total_rows(traffic: Traffic) -> list[Row]:
    """Kind, memory, bytes, messages, pairs; only what has pairs."""
    return [
        (
            kind.value,
            space.value,
            format_bytes(int(table.bytes.sum())),
            format_count(int(table.messages.sum())),
            format_count(int(np.count_nonzero(table.source != table.target))),
        )
        for (kind, space), table in sorted(traffic.tables.items())
        if len(table)
    ]


def pair_rows(traffic: Traffic, limit: int) -> list[Row]:
    """The heaviest pairs of all traffic: ranks, bytes, messages, share; a rank alone is none."""
    table = traffic.table()
    between = table.source != table.target
    columns = [x[between] for x in (table.source, table.target, table.bytes, table.messages)]
    total = int(columns[2].sum())
    order = np.argsort(-columns[2], kind="stable")[:limit]
    return [
        (f"{a} -> {b}", format_bytes(size), format_count(count), format_percent(size / total))
        for a, b, size, count in zip(*(each[order].tolist() for each in columns), strict=True)
        if size > 0
    ]


def kind_words(kind: str, space: MemorySpace) -> str:
    """`collective, device memory`."""
    return f"{kind}, {space.value} memory"


def bytes_of(tables: Mapping[TableKey, PairTable]) -> int:
    """Bytes of all kinds and memories."""
    return sum(int(table.bytes.sum()) for table in tables.values())


def collective_rows(traffic: Traffic) -> list[Row]:
    """Operation, memory, calls and bytes given over all ranks, sizes of one call."""
    calls: dict[tuple[str, str], list[CollectiveEvent]] = {}
    for event in traffic.collectives:
        calls.setdefault((event.operation, event.space.value), []).append(event)
    rows: list[Row] = []
    for (operation, space), events in calls.items():
        sizes = [event.bytes for event in events]
        rows.append(
            (
                operation,
                space,
                format_count(sum(e.calls for e in events)),
                format_bytes(sum(e.calls * e.bytes for e in events)),
                span(format_bytes(min(sizes)), format_bytes(max(sizes))),
                ", ".join(sorted({e.algorithm for e in events if e.algorithm})),
            )
        )
    return rows


def phase_rows(traffic: Traffic) -> list[Row]:
    """Phase, begin, mean duration over ranks, bytes, their share of all, share of time in MPI.

    The parts of a pattern have no times.
    """
    total = bytes_of(traffic.tables)
    ranks = len(traffic.rank_info) or traffic.ranks
    rows: list[Row] = []
    for phase in traffic.phases:
        size = bytes_of(phase.tables)
        inside = min(phase.mpi_s / phase.active_s, 1.0) if phase.active_s > 0 else 0.0
        ran = phase.end_s > 0
        rows.append(
            (
                clean(phase.label) or str(phase.index),
                format_seconds(phase.begin_s) if ran else "-",
                format_seconds(phase.active_s / ranks) if ran else "-",
                format_bytes(size),
                format_percent(size / total) if total else "-",
                (format_percent(inside) if traffic.timed else NOT_TIMED) if ran else "-",
            )
        )
    return _limited(rows)


def device_rows(traffic: Traffic) -> list[Row]:
    """Rank, host, local rank, device, its number in the application, bytes from it."""
    rows: list[Row] = []
    for info in traffic.rank_info:
        for pci, ordinal, size in _devices_of(info):
            seen = "" if info.visible_devices is None else f" of {info.visible_devices}"
            rows.append(
                (
                    str(info.rank),
                    clean(info.host) or "-",
                    known(info.local_rank),
                    clean(pci or "") or "-",
                    "-" if ordinal is None else f"{ordinal}{seen}",
                    known(size, format_bytes),
                )
            )
    return _limited(rows)


def _devices_of(info: RankInfo) -> list[tuple[str | None, int | None, int | None]]:
    if info.devices:
        return [(use.pci_bus_id, use.ordinal, use.bytes) for use in info.devices]
    if info.device_pci_bus_id is not None or info.device_ordinal is not None:
        return [(info.device_pci_bus_id, info.device_ordinal, None)]
    return []


def choice_words(traffic: Traffic) -> str:
    """How the application picks its device, and what that means for `run`; "" if not known."""
    several = sum(len(info.devices) > 1 for info in traffic.rank_info)
    how = {
        DeviceChoice.LOCAL_RANK: "The application takes the device numbered like its local rank.",
        DeviceChoice.DEVICE_0: "The application always takes device 0, though it sees several.",
        DeviceChoice.OWN: "The application picks devices by a rule of its own.",
        DeviceChoice.UNKNOWN: "",
    }[traffic.device_choice]
    more = f"{plural(several, 'rank')} used several devices." if several else ""
    return " ".join(filter(None, (how, more)))


def ended_words(traffic: Traffic) -> str:
    """How a run ended that did not end by itself: the launcher's exit code, and one list of ranks.

    "" if all is well. The code is named as a signal where it is one's.
    """
    died = _died(traffic)
    names = ", ".join(str(rank) for rank in died[: 2 * _LISTED])
    more = " ..." if len(died) > 2 * _LISTED else ""
    by_mpi = "recorder" not in traffic.metadata
    fate = "did not reach MPI_Finalize" if by_mpi else "did not end by themselves"
    ranks = f"{plural(len(died), 'rank')} {fate}: {names}{more}" if died else ""
    code, by = _exit_code(traffic), _stopped_by(traffic)
    if died and by:
        return f"Ended by {by}, exit code {code}: counts reach to that moment; {ranks}"
    is_signal = code - 128 in set(signal.Signals)
    named = f" ({signal.Signals(code - 128).name})" if is_signal else ""
    ended = f"The launcher ended with exit code {code}{named}" if code else ""
    return "; ".join(filter(None, (ended, ranks)))


def has_crashed(traffic: Traffic) -> bool:
    """Whether ranks died and the job failed, and neither its user nor a time limit ended it."""
    return bool(_died(traffic)) and _exit_code(traffic) != 0 and not _stopped_by(traffic)


def crash_words(traffic: Traffic) -> str:
    """How the run crashed, for the place of the verdict; "" if it did not."""
    return f"{ended_words(traffic)}. Counts reach to that moment." if has_crashed(traffic) else ""


def _died(traffic: Traffic) -> list[int]:
    return [info.rank for info in traffic.rank_info if not info.finalized]


def _exit_code(traffic: Traffic) -> int:
    return int(traffic.metadata.get("exit_code", "0"))


def _stopped_by(traffic: Traffic) -> str:
    """What ended the job on purpose: a signal's name, or a time limit; "" if nothing did."""
    limited = "timeout" in traffic.metadata.get("command", "").split()
    by_code = {130: "SIGINT", 143: "SIGTERM", 124: "its time limit" if limited else ""}
    return traffic.metadata.get("stopped_by", "") or by_code.get(_exit_code(traffic), "")


_MOST_GROUPS = 16
_MOVED_IN = {
    Exchange.RING: "rings",
    Exchange.ALL_REDUCE: "rings or trees",
    Exchange.PAIRWISE: "every pair",
}


def group_rows(traffic: Traffic) -> list[tuple[str, ...]]:
    """The groups that a library orders itself, the heaviest first, at most 16 and one that counts.

    What a group moves in rings and in every pair are two rows; phases are summed.
    """
    size: Counter[tuple[int, str, Exchange]] = Counter()
    for load in traffic.groups:
        size[load.communicator, load.library, load.exchange] += load.bytes
    communicators = {each.id: each for each in traffic.communicators}
    rows: list[tuple[str, ...]] = []
    for (id, library, exchange), count in size.most_common(_MOST_GROUPS):
        group = communicators[id]
        name = clean(group.name) or f"group {id}"
        ways = _MOVED_IN[exchange]
        rows.append((name, _ranks(group.ranks), clean(library), ways, format_bytes(count)))
    more = len(size) - len(rows)
    return rows + ([(f"and {more} more", "", "", "", "")] if more else [])


def _ranks(ranks: Iterable[int]) -> str:
    """`0-3 8-11`; of more than eight stretches the first seven and the last."""
    stretches = format_cpu_list(ranks).split(",")
    if len(stretches) > 8:
        stretches[7:-1] = ["..."]
    return " ".join(stretches)


NOT_TIMED = "not timed"
_TELLING = 0.9  # of a larger share "no more than 10 times as fast" tells nothing
_LEAST_TOLD = 0.005  # a smaller one makes the run 1.00 times as fast


class TimePart(Struct, frozen=True):
    """A part of the run's time, over all ranks."""

    name: str  # "collective, device memory", "outside MPI"
    space: MemorySpace | None  # None: not the application's own messages
    seconds: float
    share: float  # of the run
    calls: int | None


def is_timed(traffic: Traffic) -> bool:
    """Whether times were measured at all."""
    return traffic.timed and any(info.wall_s > 0 for info in traffic.rank_info)


def time_parts(traffic: Traffic) -> list[TimePart]:
    """Time in MPI by kind and memory, other MPI calls, and the rest; [] when not timed.

    Shares are of the sum of all ranks' run times; they add up to 1. Of a rank whose threads are in
    MPI at once, for longer together than it ran, they are of its threads' time.
    """
    if not is_timed(traffic):
        return []
    wall = sum(info.wall_s for info in traffic.rank_info)
    inside = sum(min(info.mpi_s, info.wall_s) for info in traffic.rank_info)
    seconds: dict[tuple[TimeKind, MemorySpace], float] = defaultdict(float)
    of_run: dict[tuple[TimeKind, MemorySpace], float] = defaultdict(float)
    calls: Counter[tuple[TimeKind, MemorySpace]] = Counter()
    for info in traffic.rank_info:
        within = min(1.0, info.wall_s / info.mpi_s) if info.mpi_s > 0 else 1.0
        for part in info.time:
            seconds[part.kind, part.space] += part.seconds
            of_run[part.kind, part.space] += part.seconds * within
            calls[part.kind, part.space] += part.calls
    parts = []
    for (kind, space), spent in sorted(seconds.items(), key=lambda entry: -entry[1]):
        if kind is not TimeKind.OTHER and (spent > 0 or calls[kind, space]):
            own = None if kind is TimeKind.FILE else space
            name = kind.value if own is None else kind_words(kind.value, own)
            parts.append(TimePart(name, own, spent, of_run[kind, space] / wall, calls[kind, space]))
    known = sum(part.share for part in parts) * wall
    if inside - known > 1e-12 * wall:  # more than rounding
        name = "other MPI calls" if parts else "in MPI calls"
        other = sum(n for (kind, _), n in calls.items() if kind is TimeKind.OTHER)
        rest = inside - known
        parts.append(TimePart(name, None, rest, rest / wall, other if parts else None))
    outside = max(wall - max(inside, known), 0.0)
    parts.append(TimePart("outside MPI", None, outside, outside / wall, None))
    return parts


def gain_share(traffic: Traffic) -> float | None:
    """Share of the run that placement could shorten at all; None when not timed.

    Placement serves device traffic where there is any (`Traffic.mapped_space`): then it is the time
    in MPI calls on device buffers, else that in all calls that move data. Without a split by kind,
    all time in MPI.
    """
    parts = time_parts(traffic)
    if not parts:
        return None
    if not any(info.time for info in traffic.rank_info):
        return min(1 - parts[-1].share, 1.0)
    mapped = traffic.mapped_space
    shares = [p.share for p in parts if p.space is not None and mapped in (None, p.space)]
    return min(sum(shares), 1.0)


def gain_place(traffic: Traffic) -> str:
    """Where the time of `gain_share` is spent."""
    if not any(info.time for info in traffic.rank_info):
        return "in MPI calls"
    on_device = traffic.mapped_space is MemorySpace.DEVICE
    return "in MPI calls on device buffers" if on_device else "in MPI calls that move data"


def gain_words(traffic: Traffic) -> str:
    """The verdict in one sentence: what share of the run could gain at all; "" if it crashed."""
    if has_crashed(traffic):
        return ""
    if traffic.why_no_verdict:
        inner = clean(traffic.metadata.get(INNER_LINE, ""))
        more = f" Its own line is the job: toposeat profile -- {inner}" if inner else ""
        return f"No verdict on the job: {clean(traffic.why_no_verdict)}.{more}"
    if not len(traffic.mapped_table()):
        return "Nothing to gain: no rank sent anything to another."
    share = gain_share(traffic)
    if share is None:
        return "It is not known what share of the run could gain: the profile has no times."
    place = gain_place(traffic)
    if not share:
        return f"Nothing to gain from placement: the ranks spent no time {place} (measured)."
    limit = ""
    if _LEAST_TOLD <= share <= _TELLING:
        limit = f" No placement makes it more than {three_digits(1 / (1 - share))} times as fast."
    waiting = "waiting included"
    if cpu_doubt(traffic.rank_info):
        limit, waiting = "", "waiting for CPUs included"
    most = f"At most {format_percent(share)}".replace("At most <", "Less than ")
    return (
        f"{most} of the run could gain from placement: its ranks spend that {place}, {waiting}"
        f" (measured).{limit}"
    )


def traffic_sentence(traffic: Traffic) -> str:
    """`halo3d, 16 ranks, 41.8 GiB between devices, 0.2 GiB through the host`."""
    device, host = (int(traffic.table(space=space).bytes.sum()) for space in MemorySpace)
    start = f"{clean(traffic.origin)}, {plural(traffic.ranks, 'rank')}"
    if device:
        through = f"{format_bytes(host)} through the host"
        return f"{start}, {format_bytes(device)} between devices, {through}"
    return f"{start}, {format_bytes(host)} from host memory" if host else f"{start}, no bytes sent"


_HOST_ONLY = (
    "All buffers were in host memory: this answers for a GPU build that sends the same; a program"
    " that copies itself moves them through the host; a CPU program gains nothing."
)


def buffer_words(traffic: Traffic) -> str:
    """Of whom a verdict is, where a run had no buffers on devices."""
    device, host = (traffic.table(space=space).bytes.any() for space in MemorySpace)
    return _HOST_ONLY if traffic.rank_info and host and not device else ""


def mpi_share(traffic: Traffic) -> float | None:
    """Share of the profiled run inside recorded MPI calls, over all ranks; None when not timed."""
    return _share_in_mpi(traffic.rank_info) if is_timed(traffic) else None


def _share_in_mpi(timed: Sequence[RankInfo]) -> float:
    return min(sum(info.mpi_s for info in timed) / sum(info.wall_s for info in timed), 1.0)


_SHADES = (" .:-=+*#", " ░░▒▒▓▓█")
_HEAT_CELLS = 64


def render_traffic_text(
    traffic: Traffic, style: TextStyle = PLAIN, *, lines: int | None = None
) -> str:
    """What could be gained, pairs, bytes, message sizes and share of the time.

    `lines` are the most that there may be, None for everything: the summary and the first doubt are
    always there, tables whole or not at all.
    """
    parts = [*_verdict(traffic), *traffic_summary(traffic)]
    if lines is None:
        parts += [part for block in _blocks(traffic, style) for part in block]
        parts += ["", *titled_list("Doubts", traffic.report)] if traffic.report else []
        return lay_out(parts, style)
    more = len(traffic.report) - 1
    rest = f" (and {more} more)" if more > 0 else ""
    first = [f"{traffic.report[0]}{rest}"] if traffic.report else []
    ended = [] if has_crashed(traffic) else [ended_words(traffic)]
    doubts = sentences([*filter(None, ended), *first])
    room = lines - height([*parts, *doubts])
    return lay_out([*parts, *fitting(_blocks(traffic, style), room), *doubts], style)


def run_verdict(traffic: Traffic) -> str | None:
    """What share of the run could gain; None for a pattern, which no run is behind, or a crash."""
    return gain_words(traffic) if traffic.rank_info or not traffic.timed else None


def _verdict(traffic: Traffic) -> list[Part]:
    verdict, buffers = run_verdict(traffic), buffer_words(traffic)
    below = [Fact("", buffers)] if verdict and buffers else []
    return [*facts(Verdict=verdict, Crash=crash_words(traffic)), *below]


def traffic_summary(traffic: Traffic) -> list[Part]:
    """What the traffic is."""
    return facts(
        Traffic=traffic_sentence(traffic),
        Programs=clean(traffic.metadata.get("programs", "")),
        Pattern=clean(traffic.metadata.get("pattern", "")),
        **{TimeKind.FILE.value: _file_words(traffic)},
    )


def _file_words(traffic: Traffic) -> str:
    """Calls and time of all ranks in MPI-IO; "" where there are none."""
    parts = [part for i in traffic.rank_info for part in i.time if part.kind is TimeKind.FILE]
    if not parts:
        return ""
    took = f", {format_seconds(sum(part.seconds for part in parts))}" if traffic.timed else ""
    calls = format_count(sum(part.calls for part in parts))
    return f"{calls} calls{took} on all ranks; its messages are not recorded"


def _blocks(traffic: Traffic, style: TextStyle) -> list[list[Part]]:
    """Tables and drawings, each after an empty line."""
    tables = profile_tables(traffic, pairs=5)
    del tables["groups"]
    totals, heaviest, *others = tables.values()
    drawn = [_heat(traffic, style), size_table(traffic, style)]
    return [["", *block] for block in (totals, heaviest, *drawn, *others) if block]


def profile_tables(traffic: Traffic, *, pairs: int) -> dict[str, list[Part]]:
    """Tables and sentences, by what they are of; `pairs` of ranks are the heaviest that are named.

    What has no rows is empty.
    """
    table, model = traffic.table(), traffic.collective_model
    alone = int(table.bytes[table.source == table.target].sum())
    notes = {
        f"Collective bytes are modelled edges: {model}": model,
        "What an MPI sends for itself, as to set up windows, is not in the count.": any(
            kind is TrafficKind.ONE_SIDED for kind, _ in traffic.tables
        ),
        f"{format_bytes(alone)} of this is what ranks send to themselves, on no pair.": alone,
    }
    choice = choice_words(traffic)
    when = " (measured)" if traffic.rank_info else ""
    return {
        "totals": [
            *_table(
                "Traffic by kind and memory",
                ("kind", "memory", "bytes", "messages", "pairs"),
                total_rows(traffic),
                right=(2, 3, 4),
            ),
            *sentences((words for words, said in notes.items() if said), mark=""),
        ],
        "pairs": _table(
            "Heaviest pairs",
            ("heaviest pairs", "bytes", "messages", "of all"),
            pair_rows(traffic, pairs),
            right=(1, 2, 3),
        ),
        "collectives": _table(
            "Collectives (all ranks)",
            ("collective", "memory", "calls", "bytes given", "a call", "algorithm"),
            collective_rows(traffic),
            right=(2, 3),
        ),
        "groups": _table(
            "Groups that a library orders itself",
            ("group", "ranks", "library", "moved in", "bytes on each edge"),
            group_rows(traffic),
            right=(4,),
        ),
        "time": _time(traffic),
        "phases": _table(
            f"Phases{when}",
            ("phase", "begins", "lasts", "bytes", "of all", "in MPI"),
            phase_rows(traffic),
            right=(1, 2, 3, 4, 5),
        ),
        "devices": [
            *_table(
                "Devices by rank",
                ("rank", "host", "local rank", "device", "its number", "bytes from it"),
                device_rows(traffic),
                right=(0, 2, 5),
            ),
            *sentences([choice] if choice else [], mark=""),
        ],
    }


def _heat(traffic: Traffic, style: TextStyle) -> list[Part]:
    """A matrix of device and one of host memory, if both were sent from."""
    parts: list[Part] = []
    for space in MemorySpace:
        table = traffic.table(space=space)
        if len(table) and table.bytes.sum():
            parts += [""] if parts else []
            parts += _matrix(space, table, traffic.ranks, style)
    return parts


def _matrix(space: MemorySpace, table: PairTable, ranks: int, style: TextStyle) -> list[Part]:
    """Sender rows, receiver columns; darker is more, on a logarithmic scale."""
    matrix, block = block_matrix(table, ranks, min(_HEAT_CELLS, style.width - 6))
    size = matrix.shape[0]
    wide = 2 if 2 * size + 6 <= style.width else 1
    shades = _SHADES[style.unicode]
    unit = "" if block == 1 else f", one cell = {block} x {block} ranks"
    scale = heat_scale(matrix)
    top = format_bytes(scale.high)
    words = f"bytes sent from {space.value} memory, row = sender, log scale up to {top} a cell"
    lines: list[Part] = [words + unit]
    for row in range(size):
        levels = [scale.level(float(size)) for size in matrix[row]]
        cells = (Cell(shades[level] * wide, f"heat-{level}") for level in levels)
        lines.append(Line((f"{row * block:>5} ", *cells)))
    return lines


def size_table(traffic: Traffic, style: TextStyle | None = None) -> list[Part]:
    """Messages per size, by kind and memory; where only collectives are known, their calls.

    With a style there is a bar in each row.
    """
    series = [
        (f"{kind.value}, {space.value}", counts.tolist())
        for (kind, space), counts in sorted(traffic.histograms.items())
        if counts.any()
    ]
    what, caption = "message size", "Messages by size"
    if not series:
        calls, what = [0] * HISTOGRAM_BUCKETS, "size of a call"
        caption = "Calls of collectives by size"
        for event in traffic.collectives:  # what one rank gives to one call, all ranks
            calls[event.bytes.bit_length()] += event.calls
        series = [("collective calls", calls)] if any(calls) else []
    if not series:
        return []
    total = [sum(column) for column in zip(*(counts for _, counts in series), strict=True)]
    used = [bucket for bucket, count in enumerate(total) if count]
    longest, room, bar = max(total), 0, ""
    if style is not None:
        room = max(10, min(50, style.width - 24 - 16 * len(series)))
        bar = "█" if style.unicode else "#"
    rows: list[tuple[Words, ...]] = []
    for bucket in range(used[0], used[-1] + 1):
        length = -(-total[bucket] * room // longest)
        each = [format_count(counts[bucket]) for _, counts in series]
        # A bucket goes up to the next power of two.
        least = f"{format_power_of_two(bucket - 1)} .." if bucket else "empty"
        rows.append((least, *each, Cell(bar * length)))
    header = (what, *(name for name, _ in series), "")
    return [Table(header, rows, right=range(len(series) + 1), only_used=True, caption=caption)]


def _table(
    caption: str,
    header: Sequence[str],
    rows: list[Row],
    *,
    right: Iterable[int],
    fold: Iterable[int] = (),
) -> list[Part]:
    """A table with what has content: no rows, no table; columns that are empty throughout go."""
    table = Table(header, rows, right=right, fold=fold, only_used=True, caption=caption)
    return [table] if rows else []


def _time(traffic: Traffic) -> list[Part]:
    parts: list[Part] = []
    if is_timed(traffic):
        timed = [i for i in traffic.rank_info if i.wall_s > 0]
        each = [_share_in_mpi([info]) for info in timed]
        wall = max(i.wall_s for i in timed)
        words = (
            f"{format_percent(mpi_share(traffic) or 0.0)} of {format_seconds(wall)} in MPI calls"
            f" (measured; ranks {format_percent(min(each))} to {format_percent(max(each))})"
        )
        header = ("all ranks", "time", "of the run", "calls")
        parts += [Fact("Time", words)]
        rows: list[Row] = [
            (
                each.name,
                format_seconds(each.seconds),
                format_percent(each.share),
                "" if each.calls is None else format_count(each.calls),
            )
            for each in time_parts(traffic)
        ]
        parts += ["", *_table("", header, rows, right=(1, 2, 3))]
    elif traffic.rank_info:
        parts.append(Fact("Time", NOT_TIMED))
    ended = ended_words(traffic)
    if ended and not has_crashed(traffic):
        parts.append(Fact("", ended))
    return parts


LEVELS = 8  # 0 is nothing
_DECADES = (1.0, 4.0)  # the scale reaches at least and at most this far below the largest value


class HeatScale(Struct, frozen=True):
    """A log scale from `low` (or less) to `high`; both 0 when there is nothing to show."""

    low: float
    high: float

    def level(self, value: float) -> int:
        """0 for nothing, else 1 .. `LEVELS` - 1."""
        if value <= 0 or self.high <= 0:
            return 0
        span = math.log10(self.high / self.low)
        below = min(max(math.log10(self.high / value), 0.0), span) / span
        return 1 + round((1 - below) * (LEVELS - 2))


def heat_scale(matrix: NDArray[np.int64]) -> HeatScale:
    """The scale that fits the non-zero cells of `matrix`."""
    cells = matrix[matrix > 0]
    if not cells.size:
        return HeatScale(0.0, 0.0)
    high = float(cells.max())
    decades = min(max(math.log10(high / float(cells.min())), _DECADES[0]), _DECADES[1])
    return HeatScale(high / 10**decades, high)


def block_matrix(table: PairTable, ranks: int, cells: int) -> tuple[NDArray[np.int64], int]:
    """Bytes as a square matrix of at most `cells` rows, and how many ranks one row stands for."""
    block = max(1, -(-ranks // max(1, cells)))
    size = -(-ranks // block)
    matrix = np.zeros((size, size), dtype=np.int64)
    np.add.at(matrix, (table.source // block, table.target // block), table.bytes)
    return matrix, block
