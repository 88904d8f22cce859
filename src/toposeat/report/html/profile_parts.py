"""The page's part on a profile: verdict, pairs, sizes, time, phases, devices, other worlds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toposeat.model.traffic import Traffic
from toposeat.report.html import tables
from toposeat.report.profile_words import (
    COLLECTIVE_HEADER,
    DEVICE_HEADER,
    PHASE_HEADER,
    WORLD_HEADER,
    choice_words,
    collective_rows,
    device_rows,
    phase_rows,
    unfinished_words,
    world_rows,
)
from toposeat.report.svg.element import Child, Markup, element
from toposeat.report.svg.profile import Legend, histogram_legend
from toposeat.report.svg.profile_chart import part_class, share_bar, size_histogram, time_bars
from toposeat.report.time_words import NOT_TIMED, gain_words, is_timed, time_parts, time_rows
from toposeat.report.units import format_bytes, format_count, format_percent
from toposeat.report.words import top_pairs

_TOP = 8


def verdict(traffic: Traffic) -> Markup | None:
    """What share of the run could gain at all; None for a pattern, which no run is behind."""
    if traffic.timed and not traffic.rank_info:
        return None
    words = element("p", {}, gain_words(traffic))
    return element("div", {"class": "verdict"}, words)


def details(traffic: Traffic) -> list[Child]:
    """Charts and tables below the matrices."""
    charts = [chart for chart in (_sizes(traffic), _run_time(traffic)) if chart is not None]
    return [
        element("div", {"class": "pair even"}, *charts) if charts else None,
        _pairs(traffic),
        _table("Collectives (all ranks)", COLLECTIVE_HEADER, collective_rows(traffic), (2, 3)),
        _table("Phases (measured)", PHASE_HEADER, phase_rows(traffic), (1, 2, 3, 4, 5)),
        _table("Devices by rank", DEVICE_HEADER, device_rows(traffic), (0, 2, 5)),
        _paragraph(choice_words(traffic)),
        _table("Other worlds", WORLD_HEADER, world_rows(traffic), (1, 3, 4, 5)),
    ]


def _paragraph(words: str) -> Markup | None:
    return element("p", {"class": "hint"}, words) if words else None


def _table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Iterable[int],
) -> Markup | None:
    return tables.table(header, rows, numbers=numbers, caption=caption) if rows else None


def _legend(entries: Legend) -> Markup:
    parts: list[Child] = []
    for look, words in entries:
        swatch = element("rect", {"class": look, "width": 14, "height": 11})
        svg = element("svg", {"width": 14, "height": 11, "aria-hidden": "true"}, swatch)
        parts += [svg, element("span", {}, words)]
    return element("p", {"class": "legend"}, *parts)


def _sizes(traffic: Traffic) -> Markup | None:
    """The histogram of message sizes, if it was recorded."""
    legend, series = histogram_legend(traffic)
    chart = size_histogram(series) if series else None
    if chart is None:
        return None
    head = element("h4", {}, "Messages by size (from the size named, up to twice it)")
    return element("div", {}, head, _legend(legend), element("div", {"class": "wide"}, chart))


def _run_time(traffic: Traffic) -> Markup | None:
    """Share of the run and time per rank, if the traffic comes from a timed run."""
    if not is_timed(traffic):
        timed = element("h4", {}, f"Time in MPI: {NOT_TIMED}") if traffic.rank_info else None
        return element("div", {}, timed) if timed else None
    parts = time_parts(traffic)
    legend = [(part_class(p), f"{p.name} ({format_percent(p.share)})") for p in parts[:-1]]
    each = time_bars(traffic.rank_info)
    rows = [row[:3] for row in time_rows(traffic)]
    table = tables.table(("all ranks", "time", "of the run"), rows, numbers=(1, 2))
    unfinished = unfinished_words(traffic)
    return element(
        "div",
        {},
        element("h4", {}, "Share of the run's time (measured while profiling)"),
        _legend(legend),
        element("div", {"class": "wide"}, share_bar(parts)),
        table,
        element("h4", {}, "Time in MPI per rank"),
        element("div", {"class": "wide"}, each),
        _paragraph(unfinished),
    )


def _pairs(traffic: Traffic) -> Markup | None:
    total = int(traffic.table().bytes.sum())
    rows = [
        (f"{a} -> {b}", format_bytes(size), format_count(count), format_percent(size / total))
        for a, b, size, count in top_pairs(traffic, _TOP)
    ]
    return _table("Heaviest pairs", ("pair", "bytes", "messages", "of all"), rows, (1, 2, 3))
