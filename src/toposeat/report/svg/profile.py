"""A profile as one standalone drawing: traffic matrix, message sizes, share of the run.

In the manner of figures 10 to 12 of the paper that toposeat follows: the communication matrix, the
distribution of message sizes and the share of the run's time.
"""

from __future__ import annotations

from toposeat.model.traffic import MemorySpace, Traffic
from toposeat.report.profile_words import histogram_series
from toposeat.report.svg.element import (
    Attributes,
    Child,
    Markup,
    drawn_size,
    element,
    standalone_svg,
    text_line,
)
from toposeat.report.svg.heat_map import heat_map
from toposeat.report.svg.profile_chart import (
    fill_class,
    part_class,
    share_bar,
    size_histogram,
)
from toposeat.report.time_words import gain_words, time_parts
from toposeat.report.units import format_percent
from toposeat.report.words import traffic_sentence

_MARGIN = 16.0
_HEAD = 26.0  # room of a heading

Legend = list[tuple[str, str]]  # CSS classes, words


def traffic_svg(traffic: Traffic) -> str:
    """A standalone SVG file of a profile."""
    y = _MARGIN + 14
    parts: list[Child] = [text_line(_MARGIN, y, traffic_sentence(traffic), "title")]
    pattern = traffic.metadata.get("pattern", "")
    for words in (pattern, gain_words(traffic)):
        if words:
            y += 18
            parts.append(text_line(_MARGIN, y, words))
    width = 660.0
    for heading, legend, charts in _figures(traffic):
        y += _HEAD + 12
        parts.append(text_line(_MARGIN, y, heading, "title"))
        for look, words in legend:
            y += 16
            swatch: Attributes = {"class": look, "x": _MARGIN, "y": y - 9, "width": 14}
            parts += [element("rect", {**swatch, "height": 10}), text_line(_MARGIN + 22, y, words)]
        x, tallest = _MARGIN, 0.0
        for chart in charts:
            chart_width, chart_height = drawn_size(chart)
            parts.append(element("g", {"transform": f"translate({x:.0f} {y + 8:.0f})"}, chart))
            x, tallest = x + chart_width + _MARGIN, max(tallest, chart_height)
        width, y = max(width, x), y + tallest + 8
    height = y + _MARGIN
    longest = max(map(len, (traffic_sentence(traffic), pattern, gain_words(traffic))))
    width = max(width, 2 * _MARGIN + 6.4 * longest)
    return standalone_svg("chart", (width, height), f"profile {traffic.origin}", *parts)


def _figures(traffic: Traffic) -> list[tuple[str, Legend, list[Markup]]]:
    """Heading, legend and charts of each figure that has something to show."""
    figures: list[tuple[str, Legend, list[Markup]]] = []
    for space in MemorySpace:
        table = traffic.table(space=space)
        if len(table):
            heading = f"Bytes sent from {space.value} memory, log scale; row sends, column receives"
            figures.append((heading, [], [heat_map(table, traffic.ranks, label=heading)]))
    legend, series = histogram_legend(traffic)
    sizes = size_histogram(series) if series else None
    if sizes is not None:
        figures.append(("Messages by size (from the size named, up to twice it)", legend, [sizes]))
    parts = time_parts(traffic)
    bar = share_bar(parts)
    if bar is not None:
        legend = [
            (part_class(part), f"{part.name} ({format_percent(part.share)})") for part in parts[:-1]
        ]
        figures.append(("Share of the run's time (measured, all ranks)", legend, [bar]))
    return figures


def histogram_legend(traffic: Traffic) -> tuple[Legend, list[tuple[str, str, list[int]]]]:
    """Classes and names of the histogram's series, and the series."""
    series = [
        (fill_class(kind.value, space), f"{kind.value}, {space.value} memory", counts)
        for kind, space, counts in histogram_series(traffic)
    ]
    return [(look, name) for look, name, _ in series], series
