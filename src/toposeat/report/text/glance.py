"""A running job as text: a view for a terminal, one line elsewhere."""

from __future__ import annotations

from rich.console import Group, RenderableType

from toposeat.model.glance import Glance
from toposeat.model.topology import Topology
from toposeat.report.machine_words import link_words
from toposeat.report.text.console import columns, labelled
from toposeat.report.units import (
    format_bytes,
    format_percent,
    format_rate,
    format_seconds,
    plural,
)

_MOST_ROWS = 10
_HEADINGS = 7  # lines of a view that are no rows of its tables


def glance_view(glance: Glance, topology: Topology | None, *, lines: int) -> RenderableType:
    """The pairs and links with most bytes, in as many lines as the terminal has.

    Args:
        glance: the last look.
        topology: whose links it names; None: it names none.
        lines: of the terminal.
    """
    tables = 2 if glance.links else 1
    rows = max(1, min(_MOST_ROWS, (lines - _HEADINGS) // tables))
    pairs = [
        (f"{each.source} > {each.target}", format_bytes(each.bytes), format_rate(each.bytes_per_s))
        for each in glance.pairs[:rows]
    ]
    parts: list[RenderableType] = [labelled("Watch", _sum(glance))]
    parts.append(columns(("rank pair, recorded", "bytes", "now"), pairs, right=(1, 2)))
    if glance.seating:
        parts.append(labelled("Links", glance.seating))
    if topology is not None and glance.links:
        links = [
            (
                link_words(topology, each.link),
                format_bytes(each.bytes),
                format_rate(each.bytes_per_s),
                format_percent(each.busy),
            )
            for each in glance.links[:rows]
        ]
        header = ("link, modelled", "bytes", "now", "of its rate")
        parts.append(columns(header, links, right=(1, 2, 3)))
    return Group(*parts)


def glance_line(glance: Glance, topology: Topology | None) -> str:
    """`Watch 12 s: 3.1 GiB ...; most 0 > 4, 120 MiB; busiest QPI: ..., 34 % (modelled)`."""
    parts = [f"Watch {_sum(glance)}"]
    if glance.pairs:
        first = glance.pairs[0]
        parts.append(f"most {first.source} > {first.target}, {format_bytes(first.bytes)}")
    if topology is not None and glance.links:
        busiest = max(glance.links, key=lambda each: each.busy)
        words = link_words(topology, busiest.link)
        parts.append(f"busiest {words}, {format_percent(busiest.busy)} of its rate (modelled)")
    return "; ".join(parts)


def _sum(glance: Glance) -> str:
    messages = plural(glance.messages, "message")
    return (
        f"{format_seconds(glance.elapsed_s)}: {format_bytes(glance.bytes)} in {messages} of"
        f" {glance.seen} of {plural(glance.ranks, 'rank')}, {format_rate(glance.bytes_per_s)} now"
    )
