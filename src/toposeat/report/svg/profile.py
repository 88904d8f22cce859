"""A profile as one standalone drawing: traffic matrix, message sizes, share of the run.

In the manner of figures 10 to 12 of the paper that toposeat follows: the communication matrix, the
distribution of message sizes and the share of the run's time.
"""

from __future__ import annotations

from toposeat.model.traffic import MemorySpace, Traffic
from toposeat.report.svg.element import Markup
from toposeat.report.svg.heat_map import heat_map
from toposeat.report.svg.profile_chart import (
    fill_class,
    part_class,
    share_bar,
    size_histogram,
)
from toposeat.report.svg.sheet import Sheet
from toposeat.report.units import format_percent
from toposeat.report.view.traffic import gain_words, histogram_series, time_parts, traffic_sentence

Legend = list[tuple[str, str]]  # CSS classes, words


def traffic_svg(traffic: Traffic) -> str:
    """A standalone SVG file of a profile."""
    sheet = Sheet(traffic_sentence(traffic))
    for words in filter(None, (traffic.metadata.get("pattern", ""), gain_words(traffic))):
        sheet.line(words)
    for heading, legend, chart in _figures(traffic):
        sheet.heading(heading)
        for look, words in legend:
            sheet.line(words, sample=look)
        sheet.chart(chart)
    return sheet.svg(f"profile {traffic.origin}")


def _figures(traffic: Traffic) -> list[tuple[str, Legend, Markup]]:
    """Heading, legend and chart of each figure that has something to show."""
    figures: list[tuple[str, Legend, Markup]] = []
    for space in MemorySpace:
        table = traffic.table(space=space)
        if len(table):
            heading = f"Bytes sent from {space.value} memory, log scale; row sends, column receives"
            figures.append((heading, [], heat_map(table, traffic.ranks, label=heading)))
    legend, series = histogram_legend(traffic)
    sizes = size_histogram(series) if series else None
    if sizes is not None:
        figures.append(("Messages by size (from the size named, up to twice it)", legend, sizes))
    parts = time_parts(traffic)
    bar = share_bar(parts)
    if bar is not None:
        legend = [
            (part_class(part), f"{part.name} ({format_percent(part.share)})") for part in parts[:-1]
        ]
        figures.append(("Share of the run's time (measured, all ranks)", legend, bar))
    return figures


def histogram_legend(traffic: Traffic) -> tuple[Legend, list[tuple[str, str, list[int]]]]:
    """Classes and names of the histogram's series, and the series."""
    series = [
        (fill_class(kind.value, space), f"{kind.value}, {space.value} memory", counts)
        for kind, space, counts in histogram_series(traffic)
    ]
    return [(look, name) for look, name, _ in series], series
