"""What links carry under a placement: rows, tables and bars of them. All of it is predicted."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from toposeat.model.evaluation import Evaluation, LevelLoad, LinkLoad, MappingResult
from toposeat.model.latency import Latency
from toposeat.model.plural import nouns, plural
from toposeat.model.topology import Topology
from toposeat.report.parts import Part, Table
from toposeat.report.units import clean, format_bytes, format_count, format_percent, format_seconds
from toposeat.report.view.machine import link_words

_MOST_BARS = 14
_SHOWN_LINKS = 3

Placements = Sequence[tuple[str, Evaluation]]


def placements_of(result: MappingResult) -> list[tuple[str, Evaluation]]:
    """The default and, if it differs, the new placement."""
    both = [("default", result.default), ("placed", result.placed)]
    return both[: 2 - result.kept_default]


def worst_seconds(result: MappingResult) -> float:
    """Congestion of the busiest link under either placement."""
    return max(result.default.max_congestion_s, result.placed.max_congestion_s)


def times_words(evaluation: Evaluation) -> str:
    """`busiest link 1.68 ms, link time 1.68 ms`."""
    worst, time = evaluation.max_congestion_s, evaluation.predicted_s
    return f"busiest link {format_seconds(worst)}, link time {format_seconds(time)}"


def latency_words(latency: Latency) -> str:
    """`the latency of 1,261 messages from 0 to 4`, or of a rank's rounds."""
    if latency.source is None:
        return "latency"
    messages = f"{format_count(latency.messages)} {nouns(latency.messages, 'message')}"
    if latency.target is None:
        return f"the latency of {messages} of rank {latency.source} in rounds of collectives"
    return f"the latency of {messages} from {latency.source} to {latency.target}"


def latency_share(evaluation: Evaluation) -> str | None:
    """How much of the link time is latency, and whose; None where that is little, or not known."""
    latency = evaluation.latency
    if latency is None or not latency.is_much:
        return None
    return f"{format_percent(latency.share)} of the link time is {latency_words(latency)}"


def busy_words(seconds: float) -> str:
    """How long a link is busy, or that it is idle."""
    return format_seconds(seconds) if seconds > 0 else "idle"


def load_cells(load: LinkLoad | None) -> tuple[str, str]:
    """Bytes and congestion of a link."""
    return (format_bytes(load.bytes), format_seconds(load.congestion_s)) if load else ("-", "-")


def busiest_words(topology: Topology | None, evaluation: Evaluation) -> str:
    """The busiest link of a placement in words, or that there is none."""
    used = [load for load in evaluation.links if load.congestion_s > 0]
    if not used:
        return "none"
    busy = max(used, key=lambda load: load.congestion_s).link
    return clean(busy) if topology is None else link_words(topology, busy)


def busiest_change(result: MappingResult, topology: Topology | None) -> str:
    """The busiest link by default and as placed, with what its congestion was and is."""
    default, placed = result.default, result.placed
    before, after = busiest_words(topology, default), busiest_words(topology, placed)
    if result.kept_default:
        return before
    times = [format_seconds(each.max_congestion_s) for each in (default, placed)]
    if before == after:
        return f"{before}, {times[0]} to {times[1]}"
    return f"{before}, {times[0]}, by default; {after}, {times[1]}, as placed"


def _link_loads(
    result: MappingResult, topology: Topology
) -> list[tuple[int, str, LinkLoad | None, LinkLoad | None]]:
    """Number and name of each loaded link, its load by default and as placed; busiest first."""
    before, after = (
        {load.link: load for load in each.links} for each in (result.default, result.placed)
    )
    number = {link.id: at for at, link in enumerate(topology.links)}
    rows = [
        (number.get(id, -1), link_words(topology, id), before.get(id), after.get(id))
        for id in dict.fromkeys([*before, *after])
    ]
    return sorted(
        rows, key=lambda row: (-max(load.congestion_s for load in row[2:] if load), row[0])
    )


def link_table(result: MappingResult, topology: Topology) -> Table:
    """Every loaded link before and after."""
    loads = _link_loads(result, topology)
    rows = [(name, *load_cells(before), *load_cells(after)) for _, name, before, after in loads]
    header = ("link", "default bytes", "default congestion", "placed bytes", "placed congestion")
    caption = f"All {len(rows)} links that device-to-device routes use (predicted)"
    return Table(header, rows, right=(1, 2, 3, 4), caption=caption)


def used_levels(evaluations: Placements) -> list[tuple[int, tuple[LevelLoad, ...]]]:
    """Of each level that somebody uses its number, and its loads."""
    loads = enumerate(zip(*(each.levels for _, each in evaluations), strict=True))
    return [(at, of) for at, of in loads if max(each.max_congestion_s for each in of) > 0]


def levels_and_links(evaluations: Placements) -> list[Part]:
    """What each level carries, and the busiest links; nothing on a machine without levels."""
    tables = (*level_table(evaluations), *busy_link_table(evaluations))
    return [part for table in tables for part in ("", table)]


def level_table(evaluations: Placements) -> list[Part]:
    """Congestion per level of the machine; levels that nobody uses are left out."""
    rows = [
        [loads[0].level, format_count(loads[0].links), *map(_worst_and_mean, loads)]
        for _, loads in used_levels(evaluations)
    ]
    header = ["worst / mean link", "links", *(name for name, _ in evaluations)]
    caption = "Links of each level (predicted)"
    return [Table(header, rows, range(1, len(header)), caption=caption)] if rows else []


def _worst_and_mean(load: LevelLoad) -> str:
    return f"{format_seconds(load.max_congestion_s)} / {format_seconds(load.mean_congestion_s)}"


def busy_link_table(evaluations: Placements, most: int = _SHOWN_LINKS) -> list[Part]:
    """The busiest links of each placement by name."""
    rows = [
        [name if at == 0 else "", load.link, load.level, *load_cells(load)]
        for name, each in evaluations
        for at, load in enumerate(each.links[:most])
        if load.level
    ]
    header = ("busiest links", "link", "level", "bytes", "congestion")
    return [Table(header, rows, right=(3, 4), caption="Predicted")] if rows else []


class BarRow(Struct, frozen=True):
    """How busy a link or a level is: the look, the length as a share, and the words of each bar."""

    link: int
    name: str
    bars: tuple[tuple[str, float, str], ...]
    words: str


def level_bars(result: MappingResult) -> list[BarRow]:
    """The busiest link of each level."""
    used = used_levels(placements_of(result))
    return _bars([(at, of[0].level, [each.max_congestion_s for each in of]) for at, of in used])


def link_bars(result: MappingResult, topology: Topology) -> tuple[list[BarRow], str]:
    """The busiest links, and how many others there are."""
    rows = [
        (at, name, [load.congestion_s if load else 0.0 for load in loads])
        for at, name, *loads in _link_loads(result, topology)
        if any(load and load.congestion_s > 0 for load in loads)
    ]
    left = len(rows) - _MOST_BARS
    shown = [(at, name, each[: 2 - result.kept_default]) for at, name, each in rows[:_MOST_BARS]]
    more = f"and {plural(left, 'less busy link')}: see the table" if left > 0 else ""
    return _bars(shown), more


def _bars(rows: Sequence[tuple[int, str, Sequence[float]]]) -> list[BarRow]:
    """Bars that share one scale, of number, name, and seconds by default and perhaps placed."""
    top = max((max(seconds) for _, _, seconds in rows), default=0.0)
    found = []
    for at, name, all_seconds in rows:
        named = list(zip(("default", "placed"), ("before", "after"), all_seconds, strict=False))
        bars = [(look, s / top if top > 0 else 0.0, busy_words(s)) for _, look, s in named]
        said = ", ".join(f"{which} {format_seconds(seconds)}" for which, _, seconds in named)
        found.append(BarRow(at, name, tuple(bars), f"{name}: {said}"))
    return found
