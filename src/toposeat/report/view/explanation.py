"""Why a placement was chosen: bottlenecks before and after, and what moved. All predicted."""

from __future__ import annotations

from collections import Counter

from toposeat.model.explanation import Bottleneck, Explanation
from toposeat.model.plural import plural
from toposeat.model.topology import Topology
from toposeat.report.parts import Part, Table, facts
from toposeat.report.units import format_bytes, format_count, format_seconds
from toposeat.report.view.loads import latency_words
from toposeat.report.view.machine import link_medium, link_words

_MOST_OF_IT = 0.5  # share of latency beyond which that is what holds a transfer up


def explanation_parts(explanation: Explanation, topology: Topology) -> list[Part]:
    """Bottlenecks, and moves with the links that they leave and take."""
    shown = len(explanation.moves)
    pairs = plural(explanation.moved_pairs, "pair")
    rest = "" if shown == explanation.moved_pairs else f", the heaviest {shown}:"
    moved = f"{pairs} of ranks ({format_bytes(explanation.moved_bytes)}) to other links{rest}"
    rows = [
        (
            f"{move.source} -> {move.target}",
            format_bytes(move.bytes),
            _route_words(move.links_before, topology),
            _route_words(move.links_after, topology),
        )
        for move in explanation.moves
    ]
    table = Table(("ranks", "bytes", "links before", "after"), rows, right=(1,), fold=(2, 3))
    said = facts(
        Before=bottleneck_words(explanation.before, topology),
        After=bottleneck_words(explanation.after, topology),
        Moved=moved if rows else "no pair of ranks uses other links than before",
    )
    return [*said, *([table] if rows else []), ""]


def bottleneck_words(bottleneck: Bottleneck, topology: Topology) -> str:
    """The busiest link, who loads it, and what limits the transfer that ends last."""
    if bottleneck.link is None:
        return "no link carries anything"
    link = link_words(topology, bottleneck.link)
    users = ", ".join(
        f"{load.source} -> {load.target} {format_bytes(load.bytes)}" for load in bottleneck.loads
    )
    more = bottleneck.pairs - len(bottleneck.loads)
    rest = f" and {format_count(more)} more" if more else ""
    words = (
        f"busiest is {link}: {format_bytes(bottleneck.bytes)} in"
        f" {format_seconds(bottleneck.congestion_s)}, from {users}{rest}"
    )
    if bottleneck.last_source is None:
        return words
    latency = bottleneck.latency
    limit = "the limit of its own pair"
    if latency is not None and latency.share > _MOST_OF_IT:
        limit = latency_words(latency)
        if latency.target is None:
            return f"{words}. All is held up by {limit}, one after the other"
    elif bottleneck.last_link is not None:
        limit = link_words(topology, bottleneck.last_link)
    return (
        f"{words}. The last transfer to end, {bottleneck.last_source} -> {bottleneck.last_target},"
        f" is held up by {limit}"
    )


def _route_words(links: tuple[str, ...], topology: Topology) -> str:
    """The one link of a route, or what its links are made of in order; `same device` without."""
    if not links:
        return "same device"
    if len(links) == 1:
        return link_words(topology, links[0])
    media = [link_medium(topology.link_of_id[link]) for link in links]
    return ", ".join(f"{n} x {each}" if n > 1 else each for each, n in Counter(media).items())
