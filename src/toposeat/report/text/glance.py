"""A running job in one line."""

from __future__ import annotations

from toposeat.model.glance import Glance
from toposeat.model.topology import Topology
from toposeat.report.machine_words import link_words
from toposeat.report.units import (
    format_bytes,
    format_percent,
    format_rate,
    format_seconds,
    plural,
)


def glance_line(glance: Glance, topology: Topology | None) -> str:
    """`Watch 12 s: 3.1 GiB ...; most 0 > 4, 120 MiB; busiest QPI: ..., 34 % (modelled)`."""
    messages = plural(glance.messages, "message")
    parts = [
        f"Watch {format_seconds(glance.elapsed_s)}: {format_bytes(glance.bytes)} in {messages} of"
        f" {glance.seen} of {plural(glance.ranks, 'rank')}, {format_rate(glance.bytes_per_s)} now"
    ]
    if glance.most is not None:
        source, target, count = glance.most
        parts.append(f"most {source} > {target}, {format_bytes(count)}")
    if topology is not None and glance.busiest is not None:
        link, busy = glance.busiest
        words = f"busiest {link_words(topology, link)}, {format_percent(busy)} of its rate"
        parts.append(f"{words} (modelled; {glance.seating})")
    elif glance.seating:
        parts.append(f"links {glance.seating}")
    return "; ".join(parts)
